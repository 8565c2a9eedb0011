"""Softmax and its relatives against NumPy, central differences and PyTorch."""

import numpy as np
import pytest

from needle import ops
from needle.errors import ShapeError
from needle.ops import LogSoftmax, LogSumExp
from tests.ops.differences import check_to_second_order
from tests.tolerances import assert_close


def log_sum_exp(a, axes, keepdims=False):
    return np.log(np.exp(a.astype(float)).sum(axes, keepdims=keepdims))


@pytest.mark.parametrize("axes", [None, 0, -1, (1,), (0, 2), [-1, 0], (0, 1, 2), ()])
def test_logsumexp(tensor, dtype, axes):
    a = np.random.randn(3, 2, 4).astype(dtype)
    where = axes if axes is None or isinstance(axes, int) else tuple(axes)
    got = ops.logsumexp(tensor(a, dtype=dtype), axes)
    assert got.dtype == dtype
    assert_close(got, log_sum_exp(a, where))
    assert_close(ops.logsumexp(tensor(a, dtype=dtype), axes, keepdims=True), log_sum_exp(a, where, keepdims=True))


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmax_and_logsoftmax(tensor, dtype, axis):
    a = np.random.randn(3, 2, 4).astype(dtype)
    expected = a - log_sum_exp(a, axis, keepdims=True)
    assert_close(ops.logsoftmax(tensor(a, dtype=dtype), axis), expected)
    assert_close(ops.softmax(tensor(a, dtype=dtype), axis), np.exp(expected))


@pytest.mark.parametrize(
    "function",
    [
        ops.softmax, ops.logsoftmax, ops.logsumexp, lambda a: ops.softmax(a, 0), lambda a: ops.logsoftmax(a, axis=1),
        lambda a: ops.logsumexp(a, (0, 2)), lambda a: ops.logsumexp(a, -1, keepdims=True),
    ],
)  # fmt: skip
def test_to_second_order(tensor, function):
    check_to_second_order(function, tensor, (2, 3, 2))


@pytest.mark.parametrize("offset", [0, 1e4, -1e4, 3e38])
def test_large_values(tensor, offset):
    a = np.array([[0.0, 1, 2]]) + offset
    got = ops.softmax(tensor(a, dtype="float32" if offset == 3e38 else "float64"))
    expected = np.full((1, 3), 1 / 3) if offset == 3e38 else np.exp([[0.0, 1, 2]]) / np.exp([0.0, 1, 2]).sum()
    assert_close(got, expected)


def test_infinities_stand(tensor):
    inf = np.inf
    a = tensor([[0.0, -inf], [-inf, -inf], [inf, 0], [inf, -inf], [np.nan, 0], [1e30, -1e30]])
    assert_close(ops.logsumexp(a, 1), [0, -inf, inf, inf, np.nan, 1e30])
    b = tensor([[0.0, -inf], [1e30, -1e30]])
    assert_close(ops.softmax(b), [[1.0, 0], [1, 0]])
    assert_close(ops.logsoftmax(b), [[0.0, -inf], [0, -2e30]])


def test_gradients_of_masked_entries_are_finite(tensor):
    for function in (ops.softmax, ops.logsoftmax, lambda a: ops.logsumexp(a, 1)):
        a = tensor([[0.0, -np.inf, 1.0]])
        function(a).backward()
        assert np.isfinite(a.grad.numpy()).all() and a.grad.numpy()[0, 1] in (0.0, 1.0)


def test_classes_of_the_course(tensor):
    a = tensor(np.random.randn(3, 4))
    for op, front in ((LogSumExp(axes=(1,)), lambda a: ops.logsumexp(a, (1,))), (LogSoftmax(), ops.logsoftmax)):
        y = op(a)
        assert_close(y, front(a).numpy())
        (gradient,) = y.op.gradient_as_tuple(tensor(np.ones(y.shape)), y)
        assert gradient.shape == a.shape


def test_empty_batches(tensor):
    a = tensor(np.zeros((0, 3)))
    for y in (ops.softmax(a), ops.logsoftmax(a)):
        y.backward()
        assert y.shape == a.grad.shape == (0, 3)
    assert ops.logsumexp(a, 1).shape == (0,)


@pytest.mark.parametrize("function", [ops.softmax, ops.logsoftmax, ops.logsumexp])
def test_axes_out_of_range_raise(tensor, function):
    with pytest.raises(ShapeError, match=f"^{function.__name__}: axis 2 is out of range for 2"):
        function(tensor(np.zeros((2, 3))), 2)
    with pytest.raises(ShapeError, match=r"^logsumexp: axes \(0, -2\)"):
        ops.logsumexp(tensor(np.zeros((2, 3))), (0, -2))
