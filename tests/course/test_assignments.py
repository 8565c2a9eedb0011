"""The built-in assignments: their reference solutions pass, and typical wrong ones are refused with the right hint."""

import re
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

from needle import autograd, nn, ops, optim
from needle.course import Finding, built_in, check, find
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


@pytest.mark.parametrize("backend", ["nd", "np"])
@pytest.mark.parametrize("name", NAMES)
def test_reference_solutions_pass_on_both_devices(name, backend, monkeypatch):
    monkeypatch.setenv("NEEDLE_BACKEND", backend)
    report = check(find(name).path)
    assert report.passed and not report.output, str(report)


OWN = {
    "autograd_basics": [
        *(ops.EWiseDiv, ops.PowerScalar, ops.ReLU, ops.Summation, ops.BroadcastTo, ops.MatMul, ops.LogSumExp),
        *(autograd.find_topo_sort, autograd.compute_gradient_of_variables),
    ],
    "nn_and_optimizers": [
        *(nn.Linear, nn.LayerNorm1d, nn.BatchNorm1d, nn.Dropout, nn.SoftmaxLoss),
        *(optim.SGD, optim.Adam),
    ],
    "convolution": [ops.Flip, ops.Dilate, ops.Conv],
    "recurrent_nets": [nn.RNNCell, nn.RNN, nn.LSTMCell],
}


@pytest.mark.parametrize("name", OWN)
def test_needle_itself_passes(name):
    """Where an op or a layer of needle is what an assignment asks for, the checks take it for a solution."""
    needle = SimpleNamespace(**{part.__name__: part for part in OWN[name]})
    tried = [one for one in CHECKS[name] if re.match(r"\w+", one.name)[0] in vars(needle)]
    assert len(tried) >= len(OWN[name])
    for one in tried:
        one.verify(needle)


@pytest.mark.parametrize("name", NAMES)
def test_a_handout_says_that_nothing_is_written_yet(name, solution):
    module = solution(without_solution(find(name).source()))
    for one in CHECKS[name]:
        with pytest.raises(Finding) as found:
            one.verify(module)
        assert found.value.hint == "This part is not written yet.", one.name


@pytest.mark.parametrize(("name", "old", "new", "failing", "hint"), ROWS, ids=[f"{row[0]}: {row[2]}" for row in ROWS])
def test_wrong_solutions_are_refused_with_the_right_hint(name, old, new, failing, hint, solution):
    source = find(name).source()
    assert source.count(old) == 1, f"{source.count(old)} places to edit"
    module = solution(source.replace(old, new))
    one = next(one for one in CHECKS[name] if one.name == failing)
    with np.errstate(all="ignore"), pytest.raises(Finding) as found:
        one.verify(module)
    assert hint in found.value.hint, str(found.value)
    assert bool(found.value.hint) == bool(hint), found.value.hint


@pytest.mark.parametrize("name", NAMES)
def test_every_assignment_has_at_least_eight_wrong_solutions(name):
    assert sum(bool(hint) for *_, hint in WRONG[name]) >= 8


@pytest.mark.parametrize("name", NAMES)
def test_mistakes_are_of_results_that_are_there_and_differ_from_the_right_ones(name):
    for one in CHECKS[name]:
        np.random.seed(0)
        expected = one.expected()
        for mistake in one.mistakes:
            right = plain(expected[mistake.part])
            wrong = one.wrong(mistake, right)
            assert difference(wrong, right) is not None, (one.name, mistake.hint)
