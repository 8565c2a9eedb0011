"""Plant faults in a copy of the tree, one at a time, and see whether the tests notice: `make mutations`.

The copy lies in build/mutations; kernels are compiled there, incrementally, for one instruction set. The table goes to
docs/mutations.md. The exit status is 1 where a fault was not noticed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.mutations.faults import FAULTS, Fault

ROOT = Path(__file__).parents[2]
TREE = ROOT / "build" / "mutations"
LIMIT = 300
"""Seconds for the tests of a fault; what hangs is noticed, too."""


class Outcome(NamedTuple):
    """The first test that failed, None where none did; and how long it took."""

    fault: Fault
    noticed_by: str | None
    seconds: float


def main() -> None:
    """Try the faults, print how each fares, and write the table if all were tried."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--only", default="", metavar="WORD", help="faults with this in their description or file")
    word = parser.parse_args().only
    make_copy()
    outcomes = []
    for fault in FAULTS:
        if word in fault.what or word in fault.file:
            outcomes.append(try_fault(fault))
            print(f"{outcomes[-1].noticed_by or 'NOT NOTICED':80} {fault.what}", flush=True)
    if not word:
        (ROOT / "docs" / "mutations.md").write_text(as_markdown(outcomes), encoding="utf-8")
    missed = [outcome for outcome in outcomes if not outcome.noticed_by]
    sys.exit(f"{len(missed)} of {len(outcomes)} faults were not noticed" if missed else 0)


def make_copy() -> None:
    """Copy what the tests need, and build it."""
    TREE.mkdir(parents=True, exist_ok=True)
    ignore = shutil.ignore_patterns("*.so", "__pycache__")
    for name in ("needle", "apps", "tests"):
        shutil.copytree(ROOT / name, TREE / name, ignore=ignore, dirs_exist_ok=True)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy2(ROOT / name, TREE)
    build()


def build() -> None:
    """Compile what changed, or raise."""
    isa = subprocess.run(
        [sys.executable, "-c", "import needle; print(needle.backend_info()['isa'])"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    log = run("setup.py", "--quiet", "build_ext", "--inplace", NEEDLE_BUILD_ISA=isa, CXXFLAGS="-O1").stdout
    if f"built {isa}" not in log:
        raise RuntimeError(log)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the copy."""
    return subprocess.run(
        [sys.executable, *arguments], cwd=TREE, env=os.environ | {"PYTHONPATH": str(TREE)} | environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=LIMIT,
    )  # fmt: skip


def try_fault(fault: Fault) -> Outcome:
    """Plant a fault, run its tests, and take it out again."""
    path, start = TREE / fault.file, time.monotonic()
    text = path.read_text(encoding="utf-8")
    if text.count(fault.right) != 1:
        raise ValueError(f"{fault.what}: {fault.right!r} occurs {text.count(fault.right)} times in {fault.file}")
    compiled = path.suffix in (".cc", ".h")
    try:
        path.write_text(text.replace(fault.right, fault.wrong), encoding="utf-8")
        if compiled:
            build()
        noticed_by = first_failure(fault.tests.split())
    finally:
        path.write_text(text, encoding="utf-8")
    return Outcome(fault, noticed_by, time.monotonic() - start)


def first_failure(tests: list[str]) -> str | None:
    """Run tests until one fails; give it."""
    try:
        done = run("-m", "pytest", "-q", "-x", "-rf", "-m", "not slow", "-p", "no:cacheprovider", *tests)
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT} s"
    if done.returncode == 0:
        return None
    if done.returncode < 0:
        return f"a crash, signal {-done.returncode}"
    found = re.search(r"^FAILED (.+?)(?: - |$)", done.stdout, re.MULTILINE)
    if not found:
        raise RuntimeError(done.stdout)  # the tests could not be run
    return found[1]


def as_markdown(outcomes: list[Outcome]) -> str:
    """Write the table."""
    noticed = sum(outcome.noticed_by is not None for outcome in outcomes)
    minutes = sum(outcome.seconds for outcome in outcomes) / 60
    lines = [
        "# Planted faults",
        "",
        "Written by `make mutations`, which plants each of these faults in a copy of the tree and runs the tests of "
        f"the changed file until one fails. {noticed} of {len(outcomes)} were noticed, in {minutes:.0f} minutes.",
        "",
        "| fault | file | noticed by |",
        "|---|---|---|",
    ]
    for fault, noticed_by, _ in outcomes:
        lines.append(f"| {fault.what} | {fault.file} | {f'`{noticed_by}`' if noticed_by else '**nothing**'} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
