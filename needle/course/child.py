"""The process in which a student's code runs: it loads the solution, runs the checks, and writes a line for each.

The lines, JSON, go to what was the standard output; what the solution prints goes to the standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import IO

from needle.course.assignment import Assignment, load_module
from needle.course.checks import RAISED_HINTS, Finding, raised

try:
    import resource
except ImportError:  # not a Unix: the time limit is all there is
    resource = None  # type: ignore[assignment]


MESSAGE_KEPT = 1000  # characters of a message, which may hold what a solution says


def limit_memory(megabytes: int) -> None:
    """Let allocations fail beyond so much address space, and leave no core file."""
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(ValueError, OSError):  # macOS has the name, but not always the limit
            resource.setrlimit(resource.RLIMIT_AS, (megabytes * 2**20, megabytes * 2**20))


def keep_to_oneself(results: IO[str]) -> None:
    """Let no process that the solution forks write results too."""
    if hasattr(os, "register_at_fork"):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.register_at_fork(after_in_child=lambda: os.dup2(nowhere, results.fileno()))


def load_solution(path: Path) -> ModuleType:
    """Run the student's file as a module; raises Finding where that fails."""
    sys.path.append(str(path.parent))
    try:
        return load_module(path, "solution")
    except SyntaxError as error:
        place = "the file" if error.lineno is None else f"line {error.lineno}"
        raise Finding(f"{place} is no valid Python: {error.msg}") from error
    except BaseException as error:  # a solution may raise anything
        what = raised(error, SimpleNamespace(__file__=str(path)))
        raise Finding(f"the file cannot be imported: it {what}", RAISED_HINTS.get(type(error), "")) from error


def send(results: IO[str], message: str = "", hint: str = "") -> None:
    """Write what was found, an empty message for nothing."""
    if len(message) > MESSAGE_KEPT:
        message = f"{message[:MESSAGE_KEPT]}..."
    printable = message.encode("utf-8", "backslashreplace").decode("utf-8")  # a solution may put surrogates into it
    results.write(json.dumps([printable, hint]) + "\n")
    results.flush()


def run(options: argparse.Namespace, results: IO[str], trace: IO[str]) -> None:
    """Load the solution, say so, and run the checks from `options.first` on."""
    checks = Assignment(options.assignment).checks()
    send(results)  # from here on the solution is at work
    keep_to_oneself(results)
    limit_memory(options.memory)
    faulthandler.enable(trace)
    faulthandler.dump_traceback_later(options.seconds, file=trace)
    try:
        solution = load_solution(options.file)
    except Finding as finding:
        return send(results, finding.message, finding.hint)
    send(results)
    for check in checks[options.first :]:
        faulthandler.dump_traceback_later(options.seconds, file=trace)
        try:
            check.verify(solution)
            send(results)
        except Finding as finding:
            send(results, finding.message, finding.hint)
        except Exception as error:
            traceback.print_exc()
            send(
                results,
                f"the check itself failed: {type(error).__name__}: {error}",
                "This is no fault of the solution.",
            )


def main() -> None:
    """Take the command line that `sandbox` makes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("assignment", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("trace", type=Path)
    parser.add_argument("first", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("memory", type=int)
    options = parser.parse_args()
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as results, options.trace.open("w", encoding="utf-8") as trace:
        os.dup2(2, 1)
        run(options, results, trace)
        os._exit(0)  # no thread or exit function of the solution may hold this up


if __name__ == "__main__":
    main()
