"""The pages for teachers and students: their files are written, their commands run, and show what they say."""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from needle.course import check, find

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page, language):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return [body for kind, body in BLOCK.findall(text) if kind == language]


def commands(page):
    """Give the commands of a page, and what each prints."""
    for block in blocks(page, "console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


@pytest.mark.parametrize("page", ["students.md", "teachers.md"])
def test_commands_print_what_the_page_says(page, tmp_path):
    (tmp_path / "python").symlink_to(sys.executable)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    for block in blocks(page, "python"):
        name = re.match(r"# (\w+\.py)\n", block)
        (tmp_path / (name[1] if name else "snippet.py")).write_text(block.removeprefix(name[0] if name else ""))
    for command, expected in commands(page):
        run = {"shell": True, "cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
        done = subprocess.run(command, check=False, **run)
        right = doctest.OutputChecker().check_output(expected, done.stdout, doctest.ELLIPSIS)
        assert right and not done.stderr, f"{command}\n{done.stdout}{done.stderr}"
    if (tmp_path / "snippet.py").exists():
        done = subprocess.run("python snippet.py", check=False, **run)
        assert done.stdout.startswith("0 ['softmax', "), done.stderr


def test_the_report_that_students_read_is_one(tmp_path):
    path = tmp_path / "autograd_basics.py"
    source = find("autograd_basics").source()
    path.write_text(source.replace("return sum_to(to_a, a.shape), sum_to(to_b, b.shape)", "return to_a, to_b"))
    (shown,) = blocks("students.md", "")
    assert shown in str(check(path))


def test_the_pages_are_linked_and_name_every_assignment():
    readme, teachers = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/teachers.md"))
    assert "(docs/teachers.md)" in readme and "(docs/students.md)" in readme
    assert all(
        f"`{path.stem}`" in teachers
        for path in (ROOT / "needle/course/assignments").glob("*[!s].py")
        if "__" not in path.name
    )
