"""CASES.md, section AG: the autograd graph."""

import gc

import numpy as np
import pytest

import needle as ndl
from needle import autograd, ops
from needle.errors import GradientError
from tests.tolerances import assert_close


def test_ag01_broadcast_operands(tensor):
    a, b = tensor(np.full((1,), 2.0)), tensor(np.arange(20.0).reshape(5, 4))
    (a * b).backward()
    assert_close(a.grad, [190.0])
    assert_close(b.grad, np.full((5, 4), 2.0))
    a, b = tensor(np.arange(4.0).reshape(4, 1)), tensor(np.arange(4.0).reshape(1, 4))
    (a * b).backward()
    assert_close(a.grad, np.full((4, 1), 6.0))
    assert_close(b.grad, np.full((1, 4), 6.0))


def test_ag03_batched_matmul(tensor):
    a, b = tensor([[[1.0, 2], [3, 4]], [[5, 6], [7, 8]]]), tensor([[9.0, 10], [11, 12]])
    (a @ b).backward()
    assert_close(a.grad, np.tile([19.0, 23], (2, 2, 1)))
    assert_close(b.grad, [[16.0, 16], [20, 20]])


def test_ag06_shared_node(tensor):
    x = tensor(1.0)
    xa, xx = x * 1.0, x * x
    (x * xa + xx * 1.0 + x * xa).backward()
    assert_close(x.grad, 6.0)


def test_ag06_shared_node_of_two_leaves(tensor):
    x, a = tensor(1.0), tensor(1.0)
    xa, xx = x * a, x * x
    (x * xa + xx * a + x * xa).backward()
    assert_close(x.grad, 6.0)
    assert_close(a.grad, 3.0)


def test_ag08_deep_chain(tensor):
    x = y = tensor(1.0)
    for _ in range(2500):
        y = y * 1.0 + 0.0
    y.backward()
    assert_close(x.grad, 1.0)


def test_ag11_detach(tensor):
    x = tensor(3.0)
    cut = x.detach()
    (x * cut).backward()
    assert type(cut) is ndl.Tensor and not cut.inputs and cut.requires_grad is False
    assert_close(x.grad, 3.0)


def test_ag14_negative_axes(tensor):
    u = tensor(np.arange(6.0).reshape(2, 3))
    (ops.transpose(u, axes=(-1, -2)) * tensor([[1.0, 2], [3, 4], [5, 6]])).backward()
    assert_close(u.grad, [[1.0, 3, 5], [2, 4, 6]])


def change_data(x):
    x.data = ndl.Tensor(np.full(x.shape, 10.0), device=x.device, dtype=x.dtype)


def change_in_place(x):
    x.cached_data[...] = 10.0


def change_by_optimizer(x):
    x.grad = ndl.Tensor(np.full(x.shape, -7.0), device=x.device, dtype=x.dtype)
    ndl.optim.SGD([x], lr=1.0).step()


@pytest.mark.parametrize("change", [change_data, change_in_place, change_by_optimizer])
@pytest.mark.parametrize(
    "function, op, gradient",
    [
        (lambda x, y: x * y, "EWiseMul", 3.0),
        (lambda x, y: ops.exp(x) * y, "Exp", np.exp(3.0)),
        (lambda x, y: y / x, "EWiseDiv", 1 / 3),
        (lambda x, y: x @ y, "MatMul", 3.0),
    ],
    ids=["mul", "exp", "div", "matmul"],
)
def test_ag16_value_overwritten_before_backward(tensor, change, function, op, gradient):
    shape = (1, 1) if op == "MatMul" else (1,)
    x, y = tensor(np.full(shape, 3.0)), tensor(np.full(shape, 4.0))
    z = function(x, y)
    change(x)
    try:
        z.backward()
    except GradientError as error:
        assert op in str(error) and str(shape) in str(error), "the error names op and tensor"
    else:
        assert_close(y.grad, np.full(shape, gradient))


def live_tensors(step, count):
    gc.collect()  # what earlier tests left in cycles
    total = 0.0
    for _ in range(count):
        total = step(total)
    return autograd.TENSOR_COUNTER


def test_ag18_item_keeps_the_tensor_count_flat(tensor):
    x = tensor([1.0, 2.0])

    def step(total):
        return total + (x * x).sum().item()

    assert live_tensors(step, 100) == live_tensors(step, 10)


def test_ag18_adding_up_losses_keeps_every_graph(tensor):
    x = tensor([1.0, 2.0])

    def step(total):
        return (x * x).sum() + total

    total = step(0.0)
    for _ in range(9):
        total = step(total)
    assert len(autograd.find_topo_sort([total])) > 20


@pytest.mark.parametrize("at, expected", [(2.0, 12.0), (3.0, 18.0)])  # at 2 the first derivative is 12, too
def test_ag21_second_derivative(tensor, at, expected):
    x = tensor(at)
    y = x**3
    y.backward()
    x.grad.backward()
    assert_close(x.grad, expected)
    (first,) = ndl.grad([x**3], [x], create_graph=True)
    (second,) = ndl.grad([first], [x])
    assert_close(second, expected)
