"""`python -m needle.course`, the files that it writes, and its exit status."""

import json
import re
import shutil
import subprocess
import sys

import pytest

from needle.course import Report, Result, built_in, find, make
from needle.course.__main__ import main
from needle.course.handout import without_solution
from needle.errors import FileFormatError, OptionError

BREAK = ("x @ self.weight + self.bias", "x @ self.weight")


@pytest.fixture
def solved(tmp_path):
    """Write an assignment's reference solution, edited, under its own name."""

    def solved(name="nn_and_optimizers", old="", new=""):
        path = tmp_path / f"{name}.py"
        path.write_text(find(name).source().replace(old, new), encoding="utf-8")
        return path

    return solved


def test_list_names_the_assignments(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [assignment.name for assignment in built_in()]
    assert all(len(line.split()) > 4 for line in lines)


def test_make_writes_statements_without_solutions(tmp_path, capsys):
    assert main(["make", str(tmp_path / "new" / "folder")]) == 0
    written = sorted(path.name for path in (tmp_path / "new" / "folder").iterdir())
    names = [assignment.name for assignment in built_in()]
    assert written == sorted([f"{name}.py" for name in names] + [f"test_{name}.py" for name in names])
    assert capsys.readouterr().out.count("wrote ") == 2 * len(names)
    for name in names:
        handout = (tmp_path / "new" / "folder" / f"{name}.py").read_text(encoding="utf-8")
        assert "SOLUTION" not in handout and handout.count("raise NotImplementedError") >= 6
        assert f"python -m needle.course check {name}.py" in handout
        tests = (tmp_path / "new" / "folder" / f"test_{name}.py").read_text(encoding="utf-8")
        assert len(set(re.findall(r"def test_\w+", tests))) == len(find(name).checks())


def test_make_writes_the_one_that_is_named(tmp_path):
    assert main(["make", str(tmp_path), "--assignment", "attention"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attention.py", "test_attention.py"]


def test_make_overwrites_nothing_unless_forced(tmp_path, capsys):
    mine = tmp_path / "attention.py"
    mine.write_text("my work")
    assert main(["make", str(tmp_path)]) == 2
    assert "attention.py would be overwritten" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["attention.py"] and mine.read_text() == "my work"
    assert main(["make", str(tmp_path), "--force"]) == 0
    assert mine.read_text() != "my work"


def test_check_of_a_right_solution(solved, capsys):
    assert main(["check", str(solved())]) == 0
    out = capsys.readouterr().out
    assert "9 of 9 checks passed, 11 of 11 points" in out and "FAIL" not in out


def test_check_of_a_wrong_solution_writes_a_report_for_programs_too(solved, tmp_path, capsys):
    path = solved("nn_and_optimizers", *BREAK)
    assert main(["check", str(path), "--json", str(tmp_path / "report.json")]) == 1
    out = capsys.readouterr().out
    assert re.search(
        r"FAIL  Linear: forward\n        value at \(\d, \d\): got .*\n(?:.*\n)?        Hint: The bias is not added.",
        out,
    )
    assert "8 of 9 checks passed, 10 of 11 points" in out
    report = json.loads((tmp_path / "report.json").read_text())
    assert {key: report[key] for key in ("assignment", "file", "passed", "points", "max_points", "output")} == {
        "assignment": "nn_and_optimizers",
        "file": str(path),
        "passed": False,
        "points": 10,
        "max_points": 11,
        "output": "",
    }
    failed = [row for row in report["checks"] if not row["passed"]]
    assert len(report["checks"]) == 9 and [row["hint"] for row in failed] == ["The bias is not added."]
    assert failed[0].keys() == {"name", "passed", "points", "max_points", "message", "hint"}
    assert (failed[0]["points"], failed[0]["max_points"]) == (0, 1) and "[x (5, 3), weight" in failed[0]["message"]


def test_a_file_of_another_name_is_checked_as_the_named_assignment(solved, tmp_path, capsys):
    path = shutil.move(solved(), tmp_path / "ada.py")
    assert main(["check", str(path)]) == 2
    assert "there is no assignment 'ada'; give one of autograd_basics," in capsys.readouterr().err
    assert main(["check", str(path), "--assignment", "nn_and_optimizers"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "nope.py"], "nope.py: no such file or directory\n"),
        (["check", "."], "directory"),
        (["check", __file__, "--assignment", "nowhere.py"], "no assignment 'nowhere.py'"),
        (["check", __file__, "--assignment", __file__], "has its NAME_checks.py beside it"),
        (["check", __file__, "--assignment", "attention", "--seconds", "0"], "limits must be above 0"),
        (["make", __file__], "exists"),
    ],
)
def test_what_cannot_be_done_has_status_2(arguments, message, capsys):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["grade"], ["check"], ["check", "a.py", "--seconds", "soon"]])
def test_wrong_usage_has_status_2(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2 and "usage: python -m needle.course" in capsys.readouterr().err


def test_a_report_that_cannot_be_written_has_status_2(solved, capsys):
    assert main(["check", str(solved()), "--json", "/nonexistent/report.json"]) == 2
    assert "/nonexistent/report.json" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["-m", "pytest", "-q", "-p", "no:cacheprovider"], []], ids=["pytest", "python"])
def test_the_public_tests_run_with_and_without_pytest(command, tmp_path):
    make(tmp_path, [find("nn_and_optimizers")])
    for solution, status in ((find("nn_and_optimizers").source().replace(*BREAK), 1), (None, 0)):
        (tmp_path / "nn_and_optimizers.py").write_text(solution or find("nn_and_optimizers").source())
        test = [sys.executable, *command, str(tmp_path / "test_nn_and_optimizers.py")]
        done = subprocess.run(test, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stdout + done.stderr
        assert ("The bias is not added." in done.stdout) == bool(status)
        assert not command or ("8 passed" if status else "9 passed") in done.stdout


# An assignment of one's own

OWN = "def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION\n"
OWN_CHECKS = """
import numpy as np
from needle.course import Mistake, differentiable

CHECKS = [
    differentiable("double", lambda solution, x: solution.double(x), lambda x: 2 * x, {"x": np.ones(3)},
                   [Mistake("value", lambda case: case.x, "Nothing was doubled.")]),
]
"""


def test_a_teacher_writes_an_assignment(tmp_path, capsys):
    own = tmp_path / "own.py"
    own.write_text(OWN)
    (tmp_path / "own_checks.py").write_text(OWN_CHECKS)
    assert main(["make", str(tmp_path / "out"), "--assignment", str(own)]) == 0
    handout = tmp_path / "out" / "own.py"
    assert handout.read_text() == "def double(x):\n    raise NotImplementedError  # your code here\n"
    assert main(["check", str(handout), "--assignment", str(own)]) == 1
    handout.write_text("def double(x):\n    return x * 1\n")
    assert main(["check", str(handout), "--assignment", str(own)]) == 1
    assert "Hint: Nothing was doubled." in capsys.readouterr().out
    assert main(["check", str(own), "--assignment", str(own)]) == 0


def test_a_handout_needs_nothing_of_the_teachers(tmp_path):
    teacher, student = tmp_path / "teacher", tmp_path / "student"
    teacher.mkdir()
    (teacher / "own.py").write_text(OWN)
    (teacher / "own_checks.py").write_text(OWN_CHECKS)
    assert main(["make", str(student), "--assignment", str(teacher / "own.py")]) == 0
    shutil.rmtree(teacher)
    assert sorted(path.name for path in student.iterdir()) == ["own.py", "own_checks.py", "test_own.py"]
    assert not any("teacher" in path.read_text() for path in student.iterdir())
    for solution, status in (("return x * 1", 1), ("return 2 * x", 0)):
        (student / "own.py").write_text(f"def double(x):\n    {solution}\n")
        done = subprocess.run([sys.executable, student / "test_own.py"], capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stdout + done.stderr
        assert ("Nothing was doubled." in done.stdout) == bool(status)


def test_a_check_that_fails_itself_blames_nobody_else(tmp_path, capsys):
    own = tmp_path / "own.py"
    own.write_text(OWN.replace("2 * x", "x * 1"))
    (tmp_path / "own_checks.py").write_text(OWN_CHECKS.replace("case.x", "case.y"))
    assert main(["check", str(own), "--assignment", str(own)]) == 1
    out = capsys.readouterr().out
    assert "the check itself failed: AttributeError: 'types.SimpleNamespace' object has no attribute 'y'" in out
    assert "Hint: This is no fault of the solution." in out and "own_checks.py" in out


@pytest.mark.parametrize(
    "source",
    [
        "def double(x):\n    return 2 * x\n",
        OWN.replace("    ### END SOLUTION\n", ""),
        OWN.replace("    ### BEGIN SOLUTION\n", ""),
        OWN.replace("    ### END", "  ### END"),
        OWN + OWN.replace("    ### END SOLUTION\n", ""),
        OWN.replace("    return 2", "    ### BEGIN SOLUTION\n    return 2"),
    ],
)
def test_markers_come_in_pairs(source):
    with pytest.raises(FileFormatError, match="'### BEGIN SOLUTION', and to each an '### END SOLUTION'"):
        without_solution(source)


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        ("", "no list CHECKS"),
        ("CHECKS = []", "no list CHECKS"),
        ("CHECKS = [1]", "no list CHECKS"),
        (OWN_CHECKS + "CHECKS *= 2", "two checks are called 'double'"),
    ],
)
def test_checks_that_are_not_as_they_should_be_are_named(checks, message, tmp_path, capsys):
    own = tmp_path / "own.py"
    own.write_text(OWN)
    (tmp_path / "own_checks.py").write_text(checks)
    assert main(["make", str(tmp_path / "out"), "--assignment", str(own)]) == 2
    assert main(["check", str(own), "--assignment", str(own)]) == 2
    assert capsys.readouterr().err.count(message) == 2


def test_an_assignment_is_found_by_name_and_path_only():
    with pytest.raises(OptionError, match="there is no assignment 'Attention'"):
        find("Attention")


def test_a_report_says_once_what_many_checks_share():
    results = (Result("a", 1, "broken", "mend it"), Result("b", 2, "broken", "mend it"), Result("c", 3))
    assert str(Report("own", "own.py", results)).splitlines() == [
        "own: own.py",
        "  FAIL  a",
        "        broken",
        "        Hint: mend it",
        "  FAIL  b",
        "  pass  c",
        "1 of 3 checks passed, 3 of 6 points",
        "Mend the first failures first: later ones may come from them.",
    ]


@pytest.mark.parametrize("start", range(60, 110))
def test_a_report_breaks_no_line_within_a_shape(start):
    message = f"{'x' * start} got (2, 3, 4), strides [12, -4, 1], and more words to fill a line"
    report = str(Report("own", "own.py", (Result("a", 1, message),)))
    assert "got (2, 3, 4)," in report.replace("\n        ", " ") and len(report.splitlines()) > 3
    for line in report.splitlines():
        assert line.count("(") == line.count(")") and line.count("[") == line.count("]")
