"""How results are compared, what hints the evidence gives, and the check of an op."""

from types import SimpleNamespace

import numpy as np
import pytest

import needle as ndl
from needle.autograd import TensorOp
from needle.course import Check, Finding, Mistake, differentiable, normal
from needle.course.evidence import difference, resemblance

RIGHT = normal(3, 4)


@pytest.mark.parametrize(
    ("got", "expected", "text"),
    [
        (RIGHT, RIGHT, None),
        (RIGHT + 1e-7, RIGHT, None),
        (RIGHT.astype("float32"), RIGHT, None),
        (np.array([1.0, 5.0, 2.1]), np.array([1.0, 2.0, 2.0]), " at (1,): got 5, expected 2 (2 of 3 elements differ)"),
        (np.array([np.nan, 9.0]), np.ones(2), " at (0,): got nan, expected 1 (2 of 2 elements differ)"),
        (np.array(3.0), np.array(4.0), ": got 3, expected 4 (1 of 1 elements differ)"),
        (RIGHT.T, RIGHT, ": got shape (4, 3), expected shape (3, 4)"),
        ([1.0, 2.0], np.ones(2), ": got [1.0, 2.0], expected an array of shape (2,)"),
        (np.array(["a"]), np.ones(1), ": got an array of shape (1,), expected an array of shape (1,)"),
        (RIGHT, (3, 4), ": got an array of shape (3, 4), expected (3, 4)"),
        ("a b", "a c", ": got 'a b', expected 'a c'"),
        ((1, 2), (1, 2), None),
        ("x" * 1000, "y", f": got '{'x' * 199}..., expected 'y'"),
    ],
)
def test_differences_are_said_in_words_and_numbers(got, expected, text):
    assert difference(got, expected) == text


@pytest.mark.parametrize(
    ("got", "expected", "hint"),
    [
        (-RIGHT, RIGHT, "the sign is wrong"),
        (2 * RIGHT, RIGHT, "2 times what is expected"),
        (normal(3, 3).T, normal(3, 3), "transposed"),
        (normal(2, 3, 3).swapaxes(1, 2), normal(2, 3, 3), "transposed, axes (0, 2, 1)"),
        (RIGHT[:, ::-1], RIGHT, "flipped along axis 1"),
        (RIGHT[:-1], RIGHT, "last entries are missing: 1 of 3 along axis 0"),
        (RIGHT, RIGHT.sum(0), "sum over the broadcast axes is missing"),
        (RIGHT, RIGHT.sum(1, keepdims=True), "sum over the broadcast axes is missing"),
        (np.where(RIGHT > 1, np.inf, RIGHT), RIGHT, "not finite"),
        (RIGHT / normal(3, 4, seed=1), RIGHT, "chain rule is missing"),
        (normal(3, 4, seed=2), RIGHT, ""),
        (np.zeros((3, 4)), RIGHT, "path is cut"),
        (np.ones((3, 4)), np.zeros((3, 4)), ""),
        ("text", RIGHT, ""),
    ],
)
def test_what_a_wrong_array_resembles(got, expected, hint):
    assert hint in resemblance(got, expected, normal(3, 4, seed=1))
    assert bool(hint) == bool(resemblance(got, expected, normal(3, 4, seed=1)))


class Square(TensorOp):
    """x * x with one of several wrong gradients."""

    def __init__(self, wrong=""):
        self.wrong = wrong

    def compute(self, x):
        return x * x

    def gradient(self, out_grad, node):
        (x,) = node.inputs
        right = 2 * out_grad * x
        wrong = {
            "array": right.cached_data,
            "two": (right, right),
            "detached": 2 * out_grad * x.detach(),
            "sign": -right,
            "None": (None,),
        }
        return wrong.get(self.wrong, right)


SQUARE = differentiable("square", lambda solution, x: solution.square(x), lambda x: x * x, {"x": RIGHT})


@pytest.mark.parametrize(
    ("square", "message", "hint"),
    [
        (lambda x: x.cached_data, "value: the result is of type NDArray, expected a Tensor", "Return what an op gives"),
        (lambda x: (x * x).detach(), "gradient of x: the result has no graph", "The graph ends there"),
        (lambda x: x * x.detach() * 1, "gradient of x at", "1/2 times what is expected"),
        (
            lambda x: x.detach() ** 2 + ndl.zeros_like(x),
            "gradient of x: the result has no graph",
            "The graph ends there",
        ),
        (Square("array"), "gradient of x: it is of type NDArray, expected a Tensor", "Return what an op gives"),
        (Square("two"), "gradient of x: Square.gradient gave 2 gradients for 1 inputs", "a gradient for each input"),
        (Square("None"), "gradient of x: no gradient reaches x", "The graph ends there"),
        (Square("detached"), "gradients of gradients: Square: wrong gradient", "A gradient is made of ops"),
        (Square("sign"), "gradient of x at", "the sign is wrong"),
        (lambda x: x.no_such_method(), "value: raised AttributeError", ""),
    ],
)
def test_what_can_be_wrong_with_an_op(square, message, hint):
    with pytest.raises(Finding) as found:
        SQUARE.verify(SimpleNamespace(square=square))
    assert found.value.message.startswith(message) and found.value.message.endswith("[x (3, 4)]")
    assert hint in found.value.hint and bool(hint) == bool(found.value.hint)


@pytest.mark.parametrize("square", [Square(), lambda x: x * x, lambda x: ndl.exp(2 * ndl.log(ndl.abs(x)))])
def test_a_right_op_passes_however_it_is_made(square):
    SQUARE.verify(SimpleNamespace(square=square))


def test_an_input_that_takes_no_part_has_no_gradient():
    check = differentiable("sum", lambda s, x, y: s.add(x, y), lambda x, y: x + y, {"x": RIGHT, "y": RIGHT})
    with pytest.raises(Finding, match="gradient of y: no gradient reaches y"):
        check.verify(SimpleNamespace(add=lambda x, y: x + y.numpy()))


def test_the_first_mistake_that_fits_gives_the_hint():
    mistakes = [Mistake("a", 3, "three"), Mistake("b", 4, "not of this part"), Mistake("a", 4, "four")]
    check = Check("own", lambda solution: iter([solution, 4]), lambda: {"a": 1, "b": 1}, mistakes)
    with pytest.raises(Finding) as found:
        check.verify(4)
    assert found.value.hint == "four"
    with pytest.raises(Finding, match="b: got 4, expected 1"):
        check.verify(1)


def test_random_draws_are_the_same_for_both_sides():
    check = Check("draws", lambda solution: iter([np.random.rand(3)]), lambda: {"draws": np.random.rand(3)})
    check.verify(None)


def test_a_check_that_gives_too_little_is_at_fault_itself():
    check = Check("two", lambda solution: [1], lambda: {"first": 1, "second": 2})
    with pytest.raises(LookupError, match="two: run gives no second"):
        check.verify(None)
