"""CASES.md, DA19: a recurrent network whose input and hidden sizes differ."""

import numpy as np
import pytest

import needle as ndl
from needle import nn
from tests.tolerances import GIVEN_DIGITS, assert_close

FIRST, SECOND = [0.0099997, 0.0299910, 0.0499584], [0.0670976, 0.1389915, 0.2094495]


@pytest.fixture
def weights(tensor):
    """Each 0.01 * (1..n) in PyTorch's row order; needle stores the transposes of the matrices."""
    shapes = {"W_ih": (3, 2), "W_hh": (3, 3), "bias_ih": (3,), "bias_hh": (3,)}
    return {name: tensor(0.01 * np.arange(1.0, np.prod(n) + 1).reshape(n).T) for name, n in shapes.items()}


def test_da19_cell(tensor, device, weights):
    cell = nn.RNNCell(2, 3, device=device, dtype="float64")
    for name, value in weights.items():
        setattr(cell, name, value)
    h = cell(tensor([[1.0, -1]]))
    assert_close(h, [FIRST], **GIVEN_DIGITS)
    assert_close(cell(tensor([[0.5, 2]]), h), [SECOND], **GIVEN_DIGITS)


def test_da19_layer(tensor, device, weights):
    layer = nn.RNN(2, 3, device=device, dtype="float64")
    for name, value in weights.items():
        setattr(layer.rnn_cells[0], name, value)
    outputs, h = layer(tensor([[[1.0, -1]], [[0.5, 2]]]))
    assert_close(outputs, [[FIRST], [SECOND]], **GIVEN_DIGITS)
    assert_close(h, [[SECOND]], **GIVEN_DIGITS)


def test_da19_swapped_shapes_are_refused():
    with pytest.raises(ndl.errors.ShapeError, match=r"RNNCell: expected .*input_size = 2, got shape \(1, 3\)"):
        nn.RNNCell(2, 3)(ndl.Tensor(np.zeros((1, 3))))
