"""docs/errors.md is what its script writes, and speaks of every op and layer."""

import importlib.util
import inspect
import re
from pathlib import Path

import pytest

import needle as ndl
from needle import nn, ops

SCRIPT = Path(__file__).parents[2] / "docs" / "make_errors.py"
SIZED = {
    "Shapes that do not fit",
    "A kernel that is too large",
    "The wrong axis",
    "The wrong number of channels or axes",
}
WITHOUT_MISTAKES = {"Identity", "Module", "recurrence"}  # takes anything; is abstract; its layers check


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("make_errors", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not ndl.cpu().enabled(), reason="the page tells of two devices")
def test_the_page_is_up_to_date(script):
    assert script.PAGE.read_text(encoding="utf-8") == script.page(), "run python docs/make_errors.py"


def test_every_op_and_layer_is_in_it(script):
    programs = "\n".join([program for _, programs in script.MISTAKES for program in programs])
    named = set(re.findall(r"\b(?:ops|nn)\.(\w+)\(", programs))
    functions = {name for name, value in vars(ops).items() if inspect.isfunction(value)}
    layers = {name for name, value in vars(nn).items() if inspect.isclass(value) and issubclass(value, nn.Module)}
    assert functions | layers <= named | WITHOUT_MISTAKES, sorted((functions | layers) - named - WITHOUT_MISTAKES)


def test_ten_mistakes_are_answered_by_name_and_with_sizes(script):
    assert len(script.MISTAKES) == 10
    for title, programs in script.MISTAKES:
        for program in programs:
            answer = script.answer(program)
            kind, name, text = re.fullmatch(r"(\w+): ([\w()]+)(?: is not enabled)?: (.+)", answer).groups()
            assert hasattr(ndl.errors, kind), answer
            assert name.islower() or any(hasattr(part, name) for part in (ops, nn, ndl.optim)), answer
            assert title not in SIZED or re.search(r"\d|\(\)", text), answer


def test_what_is_no_mistake_is_refused(script):
    with pytest.raises(RuntimeError, match="this is no mistake: x \\+ 1"):
        script.answer("x + 1")
