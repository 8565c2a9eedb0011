"""What students get: the assignment without its solution, and a test file."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from needle.course.assignment import Assignment
from needle.errors import FileFormatError, OptionError

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
SOLUTION = re.compile(rf"^( *){BEGIN}\n(?:(?!^ *###).*\n)*^\1{END}\n", re.MULTILINE)
TO_BE_WRITTEN = "raise NotImplementedError  # your code here"

TEST_FILE = '''"""The public tests of {name}.py: run this file with Python or with pytest."""

from pathlib import Path

from needle.course import check

SOLUTION = Path(__file__).with_name("{name}.py")
RESULTS = {{result.name: result for result in check(SOLUTION, {assignment}).results}}


def passes(name):
    result = RESULTS[name]
    assert result.passed, f"{{result.message}} {{result.hint}}"

{tests}

if __name__ == "__main__":
    for name, result in RESULTS.items():
        print("pass" if result.passed else "FAIL", name, result.message, result.hint)
    raise SystemExit(not all(result.passed for result in RESULTS.values()))
'''


def without_solution(source: str) -> str:
    r"""Replace what stands between the markers by `raise NotImplementedError`.

    Raises:
        FileFormatError: there are no markers, or one lacks its counterpart.

    >>> print(without_solution("def f(x):\n    ### BEGIN SOLUTION\n    return x\n    ### END SOLUTION\n"))
    def f(x):
        raise NotImplementedError  # your code here
    """
    handout, count = SOLUTION.subn(rf"\1{TO_BE_WRITTEN}\n", source)
    if not count or BEGIN in handout or END in handout:
        raise FileFormatError(f"course: there must be a {BEGIN!r}, and to each an {END!r}, indented alike")
    return handout


def public_tests(assignment: Assignment) -> str:
    """Give the source of the public tests: one function for each check."""
    tests = []
    for check in assignment.checks():
        function = re.sub(r"\W+", "_", check.name.lower()).strip("_")
        tests.append(f"\ndef test_{function}():\n    passes({json.dumps(check.name)})\n")
    # The checks of an assignment that is not built in lie beside the solution, where `find` looks for them.
    given = json.dumps(assignment.name) if assignment.built_in else "str(SOLUTION)"
    return TEST_FILE.format(name=assignment.name, assignment=given, tests="\n".join(tests))


def make(folder: str | Path, assignments: Sequence[Assignment], *, force: bool = False) -> list[Path]:
    """Write each assignment, as `NAME.py`, and its tests, as `test_NAME.py`, into the folder; give their paths.

    The tests need the checks: where these are not needle's own, `NAME_checks.py` is written too.

    Raises:
        OptionError: one of the files is there already, and `force` is False; nothing is written then.
        FileFormatError: an assignment's markers or checks are not as they should be.
    """
    folder, files = Path(folder), {}
    for assignment in assignments:
        files[folder / f"{assignment.name}.py"] = without_solution(assignment.source())
        files[folder / f"test_{assignment.name}.py"] = public_tests(assignment)
        if not assignment.built_in:
            files[folder / assignment.checks_path.name] = assignment.checks_path.read_text(encoding="utf-8")
    there = [str(path) for path in files if path.exists()]
    if there and not force:
        raise OptionError(f"course make: {', '.join(there)} would be overwritten; take another folder, or --force")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return list(files)
