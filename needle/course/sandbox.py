"""Running a student's file in a process of its own, which may neither hang, nor crash the checker, nor take all memory.

The limits are against accidents; they are no wall against code that means harm.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from needle.course.assignment import Assignment, find
from needle.course.report import Report, Result
from needle.errors import OptionError

PACKAGE = Path(__file__).parents[2]
OUTPUT_KEPT = 2000  # characters of what a solution prints
GRACE = 1.0  # seconds in which the child, out of time, still says where it is


@dataclass(frozen=True)
class Limits:
    """What a solution may use: seconds for each check, and megabytes of address space (where the system has the limit).

    About 600 MB are Python's, NumPy's and needle's own.
    """

    seconds: float = 10.0
    memory: int = 4096

    def __post_init__(self) -> None:
        if not (self.seconds > 0 and self.memory > 0):
            raise OptionError(f"course check: limits must be above 0, got {self.seconds} s and {self.memory} MB")


def check(file: str | Path, assignment: Assignment | str | None = None, limits: Limits | None = None) -> Report:
    """Run the checks of an assignment on a student's file, in a child process.

    A check that runs out of time or kills the process has failed, and the others run in a new process.

    Args:
        file: the path of the solution.
        assignment: one of `built_in()`, or what `find` takes; default: the name of the file tells it.
        limits: default `Limits()`.

    Raises:
        OSError: the file cannot be read, or no child process started.
        OptionError: there is no such assignment.
        FileFormatError: the assignment's checks are not as they should be.
    """
    path, limits = Path(file).resolve(), limits or Limits()
    path.read_bytes()
    if not isinstance(assignment, Assignment):
        assignment = find(path.stem if assignment is None else assignment)
    checks = assignment.checks()
    found: list[tuple[str, str]] = []
    output = ""
    while len(found) < len(checks):
        with _Child(assignment, path, len(found), limits) as child:
            child.wait_for_start()
            loaded = child.found()
            if loaded[0]:
                found += [loaded] * (len(checks) - len(found))
            while len(found) < len(checks) and not child.ended:
                found.append(child.found())
        output += child.output
    results = [Result(check.name, check.points, *row) for check, row in zip(checks, found, strict=True)]
    return Report(assignment.name, str(file), tuple(results), _cut(output))


def _cut(text: str) -> str:
    return text if len(text) <= OUTPUT_KEPT else f"{text[:OUTPUT_KEPT]}... (more was printed)"


class _Child:
    """A child process at work, its findings read one by one; a context that ends it, and whatever it started."""

    def __init__(self, assignment: Assignment, file: Path, first: int, limits: Limits) -> None:
        self._file, self._limits, self.ended, self.output = file, limits, False, ""
        self._folder = tempfile.TemporaryDirectory()
        self._trace = Path(self._folder.name) / "trace"
        command = [sys.executable, "-m", "needle.course.child", assignment.path, file, self._trace]
        single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NEEDLE_NUM_THREADS"), "1")
        paths = [str(PACKAGE), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [*map(str, command), str(first), str(limits.seconds), str(limits.memory)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, **single, "PYTHONPATH": os.pathsep.join(paths)},  # a thread's stack is address space
            start_new_session=True,
        )
        assert self._process.stdout is not None and self._process.stderr is not None
        self._lines: queue.Queue[str] = queue.Queue()
        self._readers = [
            threading.Thread(target=reader, args=(stream,), daemon=True)
            for reader, stream in ((self._read_lines, self._process.stdout), (self._drain, self._process.stderr))
        ]
        for thread in self._readers:
            thread.start()

    def _read_lines(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._lines.put(line)
        self._lines.put("")

    def _drain(self, stream: IO[str]) -> None:
        """Keep the start of what the solution prints, and let no pipe fill up."""
        with stream:
            while text := stream.read(4096):
                self.output += text[: max(0, OUTPUT_KEPT + 1 - len(self.output))]

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *error: object) -> None:
        if not self.ended:
            self._end()
        for thread in self._readers:
            thread.join(timeout=GRACE)  # longer only where the solution started a process out of our reach
        self._folder.cleanup()

    def _end(self) -> int:
        """End the process and its group, and give its return code."""
        self.ended = True
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it is gone
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        return self._process.wait()

    def wait_for_start(self) -> None:
        """Wait until the child has loaded all that is not the solution."""
        if not self._lines.get():
            raise ChildProcessError(f"course check: {sys.executable} did not start: exit status {self._end()}")

    def found(self) -> tuple[str, str]:
        """Wait for the next finding, (message, hint); if none comes, end the process and say how that was."""
        try:
            line = self._lines.get(timeout=self._limits.seconds + GRACE)
        except queue.Empty:
            self._end()
            return self._out_of_time()
        if line:
            message, hint = json.loads(line)
            return message, hint
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=GRACE)
        return self._ended_early(self._end())

    def _out_of_time(self) -> tuple[str, str]:
        return (
            f"not done after {self._limits.seconds:g} s{self._place()}",
            "Look for a loop or a recursion that does not end, or for work that is done many times over.",
        )

    def _ended_early(self, code: int) -> tuple[str, str]:
        if code >= 0:
            return f"the process ended itself, with exit status {code}", "A solution must not end the program."
        name = signal.Signals(-code).name
        return (
            f"the process crashed: {name}{self._place()}",
            "Look for memory that is read or written out of bounds: wrong strides, or a recursion without end.",
        )

    def _place(self) -> str:
        """Say where in the solution the child was, from the trace that it left."""
        trace = self._trace.read_text(encoding="utf-8", errors="replace") if self._trace.exists() else ""
        place = re.search(rf'File "{re.escape(str(self._file))}", line (\d+) in (.+)', trace)
        return f", at line {place[1]}, in {place[2]}" if place else ""
