"""Two revisions of needle, taking turns: a process each, which imports its own needle and runs cases.

`python compare.py` is such a process: it reads a line of JSON, [name of a case, how often], and answers the seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cases import CASES, Case
from timing import GATE, Block, block_of, measure

import needle as ndl

ROOT = Path(__file__).parents[1]


@contextmanager
def installed(revision: str) -> Iterator[Path]:
    """Install a revision into a temporary folder, built for this machine's instruction set."""
    with tempfile.TemporaryDirectory(prefix="needle-") as folder:
        tree, packages = Path(folder, "tree"), Path(folder, "packages")
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), revision], check=True)
        try:
            install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
            environment = os.environ | {"NEEDLE_BUILD_ISA": ndl.backend_info()["isa"]}
            subprocess.run([*install, "--target", str(packages), str(tree)], check=True, env=environment)
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)
        yield packages


class Worker:
    """A process that runs cases with the needle that is in a folder."""

    def __init__(self, folder: Path, threads: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(folder), "NEEDLE_NUM_THREADS": str(threads)},
        )

    def block(self, case: Case) -> Block:
        """Give a case's work as a block that this process times."""

        def run(count: int) -> float:
            assert self.process.stdin is not None and self.process.stdout is not None
            print(json.dumps([case.name, count]), file=self.process.stdin, flush=True)
            answer = json.loads(self.process.stdout.readline() or '"the process ended"')
            if isinstance(answer, str):
                raise RuntimeError(answer)
            return float(answer)

        return run

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measure_revisions(base: str, cases: list[Case], threads: int, rounds: int) -> dict[str, Any]:
    """Measure each case with both revisions."""
    rows = []
    with installed(base) as packages:
        old, new = Worker(packages, threads), Worker(ROOT, threads)
        processes = [old.process.pid, new.process.pid]
        for case in cases:
            print(f"\r{case.name:60}", end="", file=sys.stderr, flush=True)
            row: dict[str, Any] = {"name": case.name}
            try:
                found = measure({"old": old.block(case), "new": new.block(case)}, rounds, processes=processes)
            except RuntimeError as error:
                row["error"] = str(error)
            else:
                row |= {"old": found.median("old"), "new": found.median("new"), "ratio": found.ratio("old", "new")}
                row |= {"ratio of minima": found.minimum("old") / found.minimum("new"), "foreign": found.foreign}
            rows.append(row)
        print(file=sys.stderr)
        old.close()
        new.close()
    return {"base": base, "threads": threads, "cases": rows}


def as_markdown(result: dict[str, Any]) -> str:
    """Write the report."""
    lines = [
        f"# needle against {result['base']}",
        "",
        f"{result['threads']} threads. Ratio: how many times as fast as {result['base']} (in parentheses: of the "
        f"minima). Rows with more than {GATE:.0%} of foreign CPU time prove nothing.",
        "",
        "| work | ms | base, ms | ratio | foreign |",
        "|---|---|---|---|---|",
    ]
    for row in result["cases"]:
        if "error" in row:
            lines.append(f"| {row['name']} | {row['error']} | | | |")
            continue
        foreign = "unknown" if row["foreign"] is None else f"{row['foreign']:.0%}"
        ratio = f"**{row['ratio']:.2f}** ({row['ratio of minima']:.2f})"
        lines.append(f"| {row['name']} | {row['new'] * 1e3:.3g} | {row['old'] * 1e3:.3g} | {ratio} | {foreign} |")
    return "\n".join(lines)


def serve() -> None:
    """Answer requests until the input ends."""
    blocks: dict[str, Block] = {}
    for line in sys.stdin:
        name, count = json.loads(line)
        answer: float | str
        try:
            if name not in blocks:
                (case,) = [case for case in CASES if case.name == name]
                blocks = {name: block_of(case.make()["needle"])}
            answer = blocks[name](count)
        except Exception as error:  # a revision may lack what the case needs
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    if not ndl.cpu().enabled():
        sys.exit(f"{Path(ndl.__file__).parent}: {ndl.backend_info()['devices']['cpu']}")
    serve()
