"""CASES.md, section NM: batch norm and layer norm."""

import numpy as np
import pytest

from needle import nn
from tests.tolerances import GIVEN_DIGITS, assert_close

NORMALIZED = [-1.3416354, -0.4472118, 0.4472118, 1.3416354]


@pytest.mark.parametrize("unbiased, running_var", [({}, 1.025), ({"unbiased": True}, 1 + 0.1 * (5 / 3 - 1))])
def test_nm01_nm03_running_statistics(tensor, device, unbiased, running_var):
    layer = nn.BatchNorm1d(1, eps=1e-5, momentum=0.1, device=device, dtype="float64", **unbiased)
    y = layer(tensor([[1.0], [2], [3], [4]]))
    assert_close(y.numpy().ravel(), NORMALIZED, **GIVEN_DIGITS)
    assert_close(layer.running_mean, [0.25])
    assert_close(layer.running_var, [running_var])
    assert "biased" in nn.BatchNorm1d.__doc__


def test_nm07_variance_without_cancellation(tensor, device):
    x = tensor([[40000.0, 40001, 40002, 40003]], dtype="float32")
    assert_close(nn.LayerNorm1d(4, device=device)(x), [NORMALIZED], rtol=0, atol=1e-5)


def test_nm09_constant_channel(tensor, device):
    layer = nn.BatchNorm2d(1, device=device)
    layer.bias.data = tensor([0.5], dtype="float32")
    y = layer(tensor(np.full((1, 1, 3, 3), 100.0), dtype="float32"))
    assert_close(y, np.full((1, 1, 3, 3), 0.5), rtol=0, atol=1e-3)


def test_nm12_statistics_per_channel(tensor, device):
    layer = nn.BatchNorm2d(2, device=device, dtype="float64")
    layer(tensor(np.arange(16.0).reshape(2, 2, 2, 2)))
    assert_close(layer.running_mean, [0.55, 0.95])
