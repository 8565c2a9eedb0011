"""The built-in assignments: their reference solutions pass, and typical wrong ones are refused with the right hint."""

from importlib import import_module

import numpy as np
import pytest

from needle.course import Finding, built_in, find
from needle.course.assignment import load_module
from needle.course.evidence import difference, plain
from needle.course.handout import without_solution

NAMES = [assignment.name for assignment in built_in()]
WRONG = {name: import_module(f"tests.course.wrong.{name}").WRONG for name in NAMES}
CHECKS = {name: find(name).checks() for name in NAMES}
ROWS = [(name, *row) for name, rows in WRONG.items() for row in rows]


@pytest.fixture
def solution(tmp_path):
    """Make a module of the source of a solution."""

    def make(source):
        path = tmp_path / "solution.py"
        path.write_text(source, encoding="utf-8")
        return load_module(path, "solution")

    return make


@pytest.mark.parametrize("name", NAMES)
def test_reference_solutions_pass(name, solution):
    module = solution(find(name).source())
    for check in CHECKS[name]:
        check.verify(module)


@pytest.mark.parametrize("name", NAMES)
def test_a_handout_says_that_nothing_is_written_yet(name, solution):
    module = solution(without_solution(find(name).source()))
    for check in CHECKS[name]:
        with pytest.raises(Finding) as found:
            check.verify(module)
        assert found.value.hint == "This part is not written yet.", check.name


@pytest.mark.parametrize(("name", "old", "new", "failing", "hint"), ROWS, ids=[f"{row[0]}: {row[2]}" for row in ROWS])
def test_wrong_solutions_are_refused_with_the_right_hint(name, old, new, failing, hint, solution):
    source = find(name).source()
    assert source.count(old) == 1, f"{source.count(old)} places to edit"
    module = solution(source.replace(old, new))
    check = next(check for check in CHECKS[name] if check.name == failing)
    with np.errstate(all="ignore"), pytest.raises(Finding) as found:
        check.verify(module)
    assert hint in found.value.hint, str(found.value)
    assert bool(found.value.hint) == bool(hint), found.value.hint


@pytest.mark.parametrize("name", NAMES)
def test_every_assignment_has_at_least_eight_wrong_solutions(name):
    assert sum(bool(hint) for *_, hint in WRONG[name]) >= 8


@pytest.mark.parametrize("name", NAMES)
def test_mistakes_are_of_results_that_are_there_and_differ_from_the_right_ones(name):
    for check in CHECKS[name]:
        np.random.seed(0)
        expected = check.expected()
        for mistake in check.mistakes:
            right = plain(expected[mistake.part])
            wrong = check.wrong(mistake, right)
            assert difference(wrong, right) is not None, (check.name, mistake.hint)
