"""Threads of the native kernels: their number, forks, several callers at once, the end of the interpreter, signals."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import needle as ndl
from needle import backend_ndarray as nd
from needle.errors import OptionError
from tests.native import ROOT, needs_native, run_python

pytestmark = needs_native

WORK = """
import os, sys, threading, time
import numpy as np
import needle as ndl
from needle import backend_ndarray as nd
rng = np.random.default_rng(0)
a = nd.array(rng.standard_normal((300, 200)), device=ndl.cpu())
b = nd.array(rng.standard_normal((200, 400)), device=ndl.cpu())
def work():
    return (a @ b).exp().sum(0).numpy().tobytes() + (a * 2).sum().numpy().tobytes()
expected = work()
"""


def results():
    rng = np.random.default_rng(0)
    a, b = (nd.array(rng.standard_normal(shape), device=ndl.cpu()) for shape in ((300, 200), (200, 400)))
    return [x.numpy().tobytes() for x in (a @ b, a.exp(), a.sum(0), a.sum(), a.max(1), a.T.compact())]


@pytest.mark.parametrize("threads", [1, 2, 3, 7, 64])
def test_results_do_not_depend_on_their_number(threads):
    with ndl.set_num_threads(1):
        expected = results()
    with ndl.set_num_threads(threads):
        assert ndl.num_threads() == threads
        for _ in range(20):
            assert results() == expected


def test_setting_their_number():
    before = ndl.num_threads()
    with pytest.raises(ZeroDivisionError), ndl.set_num_threads(3):
        assert ndl.num_threads() == 3
        _ = 1 / 0
    assert ndl.num_threads() == before
    for wrong in (0, -1):
        with pytest.raises(OptionError, match=r"set_num_threads: .* threads are too few"):
            ndl.set_num_threads(wrong)
    with pytest.raises(TypeError):
        ndl.set_num_threads(1.5)
    with ndl.set_num_threads(10**12):
        assert ndl.num_threads() == 256


def test_the_environment_sets_their_number():
    code = "import needle; print(needle.num_threads())"
    assert run_python(code, NEEDLE_NUM_THREADS="3").stdout.split() == ["3"]
    assert "OptionError: NEEDLE_NUM_THREADS='0'" in run_python(code, NEEDLE_NUM_THREADS="0").stderr


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity")
def test_the_default_is_what_the_process_may_use():
    one = "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])"
    code = f"{one}\nimport needle; print(needle.num_threads())"
    environment = {name: value for name, value in os.environ.items() if name != "NEEDLE_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, check=False)
    assert done.stdout.split() == [b"1"], done.stderr


def test_several_callers_at_once():
    expected = results()
    found = []
    callers = [threading.Thread(target=lambda: found.extend(results() for _ in range(10))) for _ in range(6)]
    with ndl.set_num_threads(3):
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    assert len(found) == 60
    assert all(result == expected for result in found)


def test_the_number_changes_while_others_compute():
    expected = results()
    found = []
    callers = [threading.Thread(target=lambda: found.extend(results() for _ in range(10))) for _ in range(3)]
    for caller in callers:
        caller.start()
    for threads in [1, 2, 5, 3] * 10:
        with ndl.set_num_threads(threads):
            found.append(results())
    for caller in callers:
        caller.join()
    assert all(result == expected for result in found)


def test_kernels_release_the_gil():
    """Python runs on while a single kernel computes."""
    a = nd.full((1500, 1500), 1.0, device=ndl.cpu())
    state = []

    def compute():
        state.append("begun")
        a @ a
        state.append("done")

    seen = set()
    thread = threading.Thread(target=compute)
    with ndl.set_num_threads(1):
        thread.start()
        while thread.is_alive():
            seen.add(state[-1] if state else "")
            time.sleep(0)
        thread.join()
    assert "begun" in seen


def test_a_child_after_a_fork_computes():
    code = WORK + """
ndl.set_num_threads(3)
assert work() == expected
children = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        os._exit(0 if work() == expected and ndl.num_threads() == 3 else 1)
    children.append(child)
    assert work() == expected
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 5
"""
    done = run_python(code, "-W", "ignore")
    assert done.returncode == 0, done.stderr


def test_a_fork_while_another_thread_computes():
    code = WORK + """
ndl.set_num_threads(2)
stop = []
threads = [threading.Thread(target=lambda: [work() for _ in iter(lambda: bool(stop), True)]) for _ in range(2)]
for thread in threads: thread.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        os._exit(0 if work() == expected else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.append(1)
for thread in threads: thread.join()
"""
    done = run_python(code, "-W", "ignore")
    assert done.returncode == 0, done.stderr


def test_a_child_of_multiprocessing_computes():
    code = WORK + """
import multiprocessing
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(lambda_free, range(4)) == [expected] * 4
""".replace("lambda_free", "worker")
    code = code.replace("import multiprocessing\n", "import multiprocessing\ndef worker(_): return work()\n")
    done = run_python(code, "-W", "ignore")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "os._exit(0)", "import atexit; atexit.register(work)"])
def test_the_interpreter_ends_while_threads_compute(ending):
    code = WORK + f"""
def forever():
    while True: work()
for _ in range(3): threading.Thread(target=forever, daemon=True).start()
time.sleep(0.1)
{ending}
"""
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interrupt_reaches_python():
    code = WORK + """
try:
    print("ready", flush=True)
    while True: work()
except KeyboardInterrupt:
    assert work() == expected
    print("interrupted", flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (output, process.returncode) == ("interrupted\n", 0), errors


def test_an_interrupt_wakes_a_main_thread_that_sleeps():
    """The pool's threads take no signals: one that did would leave the main thread in its system call."""
    code = WORK + """
ndl.set_num_threads(4); work()
try:
    print("ready", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (output, process.returncode) == ("interrupted\n", 0), errors
