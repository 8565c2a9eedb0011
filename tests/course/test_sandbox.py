"""What a solution does to its process, is a finding, and no more; the other checks go on."""

import time

import pytest

from needle.course import Limits, check, child, sandbox
from needle.errors import OptionError

CHECKS = """
from needle.course import Check

CHECKS = [
    Check("first", lambda solution: iter([solution.first()]), lambda: {"value": 1}),
    Check("second", lambda solution: iter([solution.second()]), lambda: {"value": 2}, points=3),
]
"""
SOLUTION = """
import ctypes, os, signal, subprocess, sys, threading, time
import numpy as np

def first():
    {first}
    return 1

def second():
    return 2
"""
QUICK = Limits(seconds=2.0, memory=1024)


@pytest.fixture
def run(tmp_path):
    """Check a solution with such a first function; give the report."""
    (tmp_path / "own.py").write_text(SOLUTION.format(first="pass"))
    (tmp_path / "own_checks.py").write_text(CHECKS)

    def run(first="pass", source=None, limits=QUICK):
        file = tmp_path / "handed in.py"
        file.write_text(SOLUTION.format(first=first) if source is None else source)
        return check(file, str(tmp_path / "own.py"), limits)

    return run


def test_a_right_solution_passes(run):
    report = run()
    assert report.passed and report.points == 4 and report.output == ""


@pytest.mark.parametrize(
    ("first", "message", "hint"),
    [
        ("while True: pass", "not done after 2 s, at line 6, in first", "does not end"),
        (
            "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)",
            "not done after 2 s, at line 6",
            "does not end",
        ),
        ("ctypes.string_at(0)", "the process crashed: SIGSEGV, at line 6, in first", "out of bounds"),
        ("os.kill(os.getpid(), signal.SIGABRT)", "the process crashed: SIGABRT", "out of bounds"),
        ("os._exit(0)", "the process ended itself, with exit status 0", "must not end the program"),
        ("sys.exit(0)", "value: raised SystemExit: 0 (line 6, in first)", "must not end the program"),
        ("os.closerange(3, 64)", "the process ended itself, with exit status", "must not end the program"),
        ("np.ones(2**28)", "raised MemoryError: Unable to allocate 2.00 GiB", "more memory than it may have"),
        (
            "x = []\n    while True: x.append(bytes(2**24))",
            "raised MemoryError (line 7, in first)",
            "more memory than it may have",
        ),
        ("first()", "raised RecursionError: maximum recursion depth exceeded (line 6", "calls itself without end"),
        ("raise NotImplementedError", "raised NotImplementedError (line 6, in first)", "not written yet"),
        ("1 / 0", "raised ZeroDivisionError: division by zero (line 6, in first)", ""),
        ("raise KeyboardInterrupt", "value: raised KeyboardInterrupt (line 6, in first)", ""),
        ("return 'a' * 1000", "value: got 'aaa", ""),
        ("raise GeneratorExit('over')", "value: raised GeneratorExit: over (line 6, in first)", ""),
        ("raise ValueError('\\ud800')", "value: raised ValueError: \\ud800 (line 6, in first)", ""),
        (
            "raise type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})",
            "value: raised Mute: an error whose text raises ZeroDivisionError (line 6, in first)",
            "",
        ),
    ],
)
def test_what_a_solution_does_is_a_finding_and_the_rest_is_checked(run, first, message, hint):
    failed, passed = run(first).results
    assert message in failed.message and len(failed.message) < 400
    assert hint in failed.hint and bool(hint) <= bool(failed.hint)
    assert passed.passed and passed.points == 3


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def first(:\n", "line 1 is no valid Python: invalid syntax"),
        ("\x00", "the file is no valid Python: source code string cannot contain null bytes"),
        (
            "import no_such_module\n",
            "cannot be imported: it raised ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("import time\n\ntime.sleep(60)\n", "not done after 2 s, at line 3, in <module>"),
        ("import os\n\nos._exit(3)\n", "the process ended itself, with exit status 3"),
        ("exit()\n", "cannot be imported: it raised SystemExit"),
    ],
)
def test_a_file_that_cannot_be_imported_fails_every_check(run, source, message):
    report = run(source=source)
    assert [message in result.message for result in report.results] == [True, True]
    assert str(report).count(message) == 1 and report.points == 0


def test_what_is_missing_is_named(run):
    first, second = run(source="def second():\n    return 2\n").results
    assert first.message == "value: the file defines no first" and second.passed


def test_a_flood_of_output_is_cut(run):
    report = run("while True: print('flood ' * 1000)")
    assert "not done after 2 s" in report.results[0].message
    assert report.output.startswith("flood flood") and report.output.endswith("... (more was printed)")
    assert len(report.output) < 2100 and "Printed by the solution:\n  | flood" in str(report)


def test_a_long_message_is_cut(run):
    message, _ = [result.message for result in run("raise ValueError('z' * 10**6)").results]
    assert message.startswith("value: raised ValueError: zzz") and len(message) < 1100


def test_a_process_that_the_solution_forks_writes_no_results(run):
    first, second = run("os.fork()\n    return os.getpid()").results
    assert first.message.startswith("value: got ") and second.passed


def test_both_streams_are_kept(run):
    output = run("print('out'); print('err', file=sys.stderr); os.system('echo shell')").output
    assert all(word in output.split() for word in ("out", "err", "shell"))


def test_what_a_solution_started_ends_with_it(run, tmp_path):
    beats = tmp_path / "beats"
    started = run(f"subprocess.Popen(['sh', '-c', 'while :; do echo; sleep 0.02; done > {beats}']); time.sleep(0.5)")
    size = beats.stat().st_size
    assert started.passed and size > 0
    time.sleep(0.5)
    assert beats.stat().st_size == size


def test_a_thread_that_goes_on_holds_nothing_up(run):
    start = time.monotonic()
    assert run("threading.Thread(target=time.sleep, args=(60,)).start()", limits=Limits()).passed
    assert time.monotonic() - start < 30


def test_without_the_module_resource_there_is_the_time_limit(monkeypatch):
    monkeypatch.setattr(child, "resource", None)
    child.limit_memory(1)  # else this process would run out of memory
    assert len(bytearray(2**21)) == 2**21


def test_a_process_that_does_not_start_is_an_error(run, monkeypatch):
    monkeypatch.setattr(sandbox.sys, "executable", "/bin/false")
    with pytest.raises(ChildProcessError, match="/bin/false did not start: exit status"):
        run()


@pytest.mark.parametrize("limits", [{"seconds": 0}, {"seconds": float("nan")}, {"memory": -1}])
def test_limits_are_above_zero(limits):
    with pytest.raises(OptionError, match="limits must be above 0"):
        Limits(**limits)
