"""`python -m needle.course`: write assignments, and check solutions."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from needle.course.assignment import built_in, find
from needle.course.handout import make
from needle.course.report import Report
from needle.course.sandbox import Limits, check
from needle.errors import FileFormatError, OptionError, sentence

EPILOG = "Exit status: 0 all checks passed, 1 some failed, 2 wrong usage, or a file that cannot be read or written."


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    top = argparse.ArgumentParser("python -m needle.course", description="The course kit of needle.", epilog=EPILOG)
    commands = top.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="list the assignments")
    writes = commands.add_parser("make", help="write assignments and their public tests into a folder")
    writes.add_argument("folder", type=Path)
    writes.add_argument("--assignment", action="append", help="a name, or the path of your own (default: all)")
    writes.add_argument("--force", action="store_true", help="overwrite files that are there")
    checks = commands.add_parser("check", help="check a solution", epilog=EPILOG)
    checks.add_argument("file", type=Path)
    checks.add_argument("--assignment", help="a name, or the path of your own (default: the file's name tells it)")
    checks.add_argument("--json", type=Path, metavar="FILE", help="write a report for programs, too")
    checks.add_argument("--seconds", type=float, default=Limits.seconds, help="for each check (%(default)s)")
    checks.add_argument("--memory", type=int, default=Limits.memory, help="of address space, in MB (%(default)s)")
    return top


def main(arguments: list[str] | None = None) -> int:
    """Run a command; give the exit status."""
    options = parser().parse_args(arguments)
    try:
        if options.command == "list":
            text = "\n".join(f"{assignment.name:20} {assignment.title()}" for assignment in built_in())
        elif options.command == "make":
            chosen = [find(name) for name in options.assignment] if options.assignment else built_in()
            text = "\n".join(f"wrote {path}" for path in make(options.folder, chosen, force=options.force))
        else:
            return _check(options)
    except (OSError, OptionError, FileFormatError) as error:
        sys.stderr.write(f"{sentence(error)}\n")
        return 2
    sys.stdout.write(f"{text}\n")
    return 0


def _check(options: argparse.Namespace) -> int:
    report: Report = check(options.file, options.assignment, Limits(options.seconds, options.memory))
    if options.json:
        options.json.write_text(json.dumps(report.as_json(), indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"{report}\n")
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
