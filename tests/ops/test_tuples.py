"""The gradient of a tuple arrives from its entries, in any order and number, and beside that of the whole."""

import sys

import numpy as np
import pytest

import needle as ndl
from needle import ops
from needle.autograd import TensorTuple, TensorTupleOp
from tests.tolerances import assert_close


class Doubled(TensorTupleOp):
    """A tuple, each entry twice as large."""

    def compute(self, arrays):
        return tuple([array * 2 for array in arrays])

    def gradient(self, out_grad, node):
        return ops.make_tuple(*[entry * 2 for entry in out_grad])


def count_calls(function):
    """Count the Python calls that `function()` makes."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


def test_time_in_proportion_to_the_entries():
    def work(n):
        def unpack_and_join():
            x = ndl.Tensor(np.ones((n, 2)))
            y = ops.stack(ops.split(x, 0), 0)
            y.backward()
            x.grad.backward()

        return count_calls(unpack_and_join)

    work(10)
    assert work(1000) < 4.5 * work(250)


@pytest.mark.parametrize("taken", [(2,), (0, 2), (2, 0, 2, 2), (1, 1)])
def test_entries_that_are_missing_or_taken_more_than_once(tensor, taken):
    values, weights = np.random.randn(3, 4), np.random.randn(len(taken), 4)
    x = tensor(values)
    parts = ops.split(x, 0)
    y = sum([parts[i] * parts[i] * tensor(w) for i, w in zip(taken, weights, strict=True)], tensor(0.0))
    y.backward()
    slope, bend = np.zeros((3, 4)), np.zeros((3, 4))
    for i, w in zip(taken, weights, strict=True):
        slope[i] += 2 * values[i] * w
        bend[i] += 2 * w
    assert_close(x.grad, slope)
    x.grad.backward()
    assert_close(x.grad, bend)


@pytest.mark.parametrize("last", ["entry", "whole"])
def test_beside_the_gradient_of_the_whole(tensor, last):
    """The first of the operands hands on its gradient last."""
    x = tensor(np.random.randn(3, 4))
    parts = ops.split(x, 0)
    if last == "entry":
        y = parts[0] * 3 + Doubled()(parts)[0] + parts[1]
    else:
        y = Doubled()(parts)[0] + parts[0] * 3 + parts[1]
    y.backward()
    assert_close(x.grad, np.outer([5, 1, 0], np.ones(4)))


def test_an_entrys_gradient_is_a_tuple(tensor):
    parts = ops.split(tensor(np.arange(6.0).reshape(3, 2)), 0)
    entry = parts[1]
    (gradient,) = entry.op.gradient_as_tuple(tensor([7.0, 8.0]), entry)
    assert isinstance(gradient, TensorTuple)
    assert (len(gradient), gradient.shape) == (3, ((2,),) * 3)
    assert [part.numpy().tolist() for part in gradient] == [[0, 0], [7, 8], [0, 0]]
    assert [part.numpy().tolist() for part in gradient + gradient] == [[0, 0], [14, 16], [0, 0]]
    assert [part.numpy().tolist() for part in gradient + parts] == [[0, 1], [9, 11], [4, 5]]


def test_deferred(tensor, monkeypatch):
    monkeypatch.setattr(ndl.autograd, "LAZY_MODE", True)
    x = tensor(np.arange(6.0).reshape(3, 2))
    parts = ops.split(x, 0)
    (parts[0] * parts[2] + parts[0]).backward()
    assert_close(x.grad, [[5, 6], [0, 0], [0, 1]])


def test_an_entry_needs_no_value_to_be_kept(tensor):
    """Writing to the memory of a tuple whose entry was only added leaves the gradient as it is."""
    x = tensor(np.arange(4.0).reshape(2, 2))
    parts = ops.split(x, 0)
    y = parts[0] + 1
    parts[1].cached_data[...] = 9
    y.backward()
    assert_close(x.grad, [[1, 1], [0, 0]])
