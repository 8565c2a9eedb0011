"""CASES.md, section EX: NaN, infinities and points of non-differentiability."""

import numpy as np
import pytest

from needle import ops
from tests.tolerances import assert_close


def test_ex01_relu_keeps_nan(tensor):
    assert_close(ops.relu(tensor([np.nan, -1, 2])), [np.nan, 0, 2])


@pytest.mark.parametrize("function", [ops.max, lambda x: ops.maximum(x, -x), ops.abs, lambda x: ops.clip(x, -1.0, 1.0)])
def test_ex01_others_keep_nan(tensor, function):
    assert np.isnan(function(tensor([1.0, np.nan])).numpy()).any()


def test_ex01_max_pool_keeps_nan(tensor):
    x = tensor([[[[1.0, np.nan], [2, 3]]]])
    y = ops.max_pool2d(x, 2)
    y.backward()
    assert np.isnan(y.item())
    assert_close(x.grad, [[[[0.0, 1], [0, 0]]]])


@pytest.mark.parametrize("function", [lambda x: ops.summation(x * x), ops.abs, ops.relu])
def test_ex03_gradient_at_the_origin(tensor, function):
    x = tensor([0.0, 0, 0])
    function(x).backward()
    assert_close(x.grad, [0.0, 0, 0])


def test_ex06_nan_in_the_branch_not_taken(tensor):
    x = tensor([0.0, 4])
    y = ops.where(x > 0, ops.sqrt(x), 0)
    y.backward()
    assert_close(y, [0.0, 2])
    assert_close(x.grad, [np.nan, 0.25])
    assert "nan" in ops.where.__doc__.lower()
