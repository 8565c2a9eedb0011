"""The first op with a wrong gradient is named, wherever it is in the graph."""

import numpy as np
import pytest

import needle as ndl
import needle.nn as nn
from needle import ops
from needle.testing import WrongGradient, check_gradients
from tests.testing.faults import Doubled, Planted, square


def located(fn, inputs, **options):
    with pytest.raises(WrongGradient) as caught:
        check_gradients(fn, inputs, locate=True, **options)
    return caught.value


def test_the_first_of_two_faults_in_a_deep_graph_is_named(tensor):
    def deep(x):
        for _ in range(10):
            x = ops.tanh(x) * 1.1
        x = Doubled()(x)  # here
        for _ in range(10):
            x = ops.sigmoid(x) + x
        return Planted(square, lambda d, x: d)(x).sum()

    error = located(deep, tensor(np.random.randn(2, 3)))
    assert (error.finding.op, error.culprit.op, error.culprit.order) == ("a graph that ends in Summation", "Doubled", 1)
    assert "1/2 times" in error.culprit.suggestion
    assert "the first op with a wrong gradient is Doubled" in str(error)
    assert "op 21 of 43 in the graph of the function, made in " in str(error)
    assert "in deep: x = Doubled()(x)  # here" in str(error)


def test_a_wrong_op_in_a_network_is_named(tensor):
    device = tensor([1.0]).device
    model = nn.Sequential(
        nn.Conv(2, 3, 3), nn.BatchNorm2d(3), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 4)
    ).to(device=device, dtype="float64")
    loss = nn.SoftmaxLoss()
    x = tensor(np.random.randn(2, 2, 4, 4))
    check_gradients(lambda x: loss(model(x), [0, 3]), x)
    error = located(lambda x: loss(Doubled()(model(x)), [0, 3]), x, order=1)
    assert error.culprit.op == "Doubled"


def test_tuples_on_the_way_are_checked_too(tensor):
    def halves(x):
        parts = ops.split(x, 0) + ops.split(Doubled()(x), 0)
        return parts[0] * parts[1]

    assert located(halves, tensor([[1.0, 2.0], [3.0, 4.0]])).culprit.op == "Doubled"


def test_an_op_inside_a_gradient_is_named(tensor):
    """The gradient is right, the gradient's gradient is not, since an op within it is wrong."""
    op = Planted(square, lambda d, x: d * Doubled()(x))
    error = located(lambda x: op(x).sum(), tensor([1.0, 2.0]))
    assert (error.finding.order, error.culprit.op, error.culprit.order) == (2, "Doubled", 1)
    assert "in the graph of the gradient of order 1" in str(error)


def test_a_gradient_that_is_cut_off_is_named_at_its_order(tensor):
    op = Planted(square, lambda d, x: d * 2 * x.detach())
    error = located(lambda x: ops.tanh(op(x)), tensor([1.0, 2.0]))
    assert (error.finding.order, error.culprit.op, error.culprit.order) == (2, "Planted", 2)


def test_a_cut_between_right_ops_is_told(tensor):
    error = located(lambda x: (x * x.detach()).sum(), tensor([1.0, 2.0]))
    assert error.culprit is None
    assert "each of the 2 ops by itself has a right gradient: look for a path that is cut (detach" in str(error)


def test_ops_at_kinks_and_in_float32_are_passed_over(tensor):
    """relu's input is 0 whatever x is, and only the planted fault is told of."""

    def through_a_kink(x):
        single = ops.astype(ops.astype(x, "float32"), "float64") * 0
        return ops.relu((x - x.detach()) * 0) + single + Doubled()(x)

    assert located(through_a_kink, tensor([1.0, 2.0])).culprit.op == "Doubled"
    assert ndl.is_grad_enabled()
