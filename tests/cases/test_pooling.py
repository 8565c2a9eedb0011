"""CASES.md, section PL: pooling."""

import numpy as np
import pytest

from needle import ops
from tests.tolerances import assert_close

POOLS = [ops.max_pool2d, ops.avg_pool2d]


def image(tensor, values):
    return tensor(np.asarray(values, float)[None, None])


def test_pl01_ties_give_the_first_maximum_the_gradient(tensor):
    x = image(tensor, [[1, 2], [2, 2]])
    ops.max_pool2d(x, 2).backward()
    assert_close(x.grad.numpy().ravel(), [0.0, 1, 0, 0])
    assert "first" in ops.max_pool2d.__doc__


@pytest.mark.parametrize("reduce", [ops.max, lambda x: -ops.min(-x)], ids=["max", "min"])
def test_pl01_ties_share_the_gradient_of_max(tensor, reduce):
    x = tensor([1.0, 2, 2, 2])
    reduce(x).backward()
    assert_close(x.grad, [0.0, 1 / 3, 1 / 3, 1 / 3])


def test_pl04_padded_pool(tensor):
    x = image(tensor, [[1, 4, 7], [2, 5, 8], [3, 6, 9]])
    y = ops.max_pool2d(x, 2, stride=2, padding=1)
    y.backward()
    assert_close(y.numpy()[0, 0], [[1.0, 7], [3, 9]])
    assert_close(x.grad.numpy()[0, 0], [[1.0, 0, 1], [0, 0, 0], [1, 0, 1]])


@pytest.mark.parametrize("padding", [2, -1])
@pytest.mark.parametrize("pool", POOLS)
def test_pl06_padding_of_the_kernel_or_more(tensor, pool, padding):
    with pytest.raises(ValueError, match=rf"{pool.__name__}: .*{padding}"):
        pool(image(tensor, np.ones((2, 2))), 2, padding=padding)


@pytest.mark.parametrize("include, expected", [({}, 4 / 9), ({"count_include_pad": False}, 1.0)])
def test_pl09_divisor_with_padding(tensor, include, expected):
    y = ops.avg_pool2d(image(tensor, np.ones((2, 2))), 3, stride=1, padding=1, **include)
    assert_close(y.numpy()[0, 0], np.full((2, 2), expected))


@pytest.mark.parametrize("ceil_mode, size", [(False, 16), (True, 17)])
@pytest.mark.parametrize("pool", POOLS)
def test_pl10_size_is_rounded_down(tensor, pool, ceil_mode, size):
    y = pool(image(tensor, np.ones((100, 100))), 6, stride=6, ceil_mode=ceil_mode)
    assert_close(y, np.ones((1, 1, size, size)))


def test_pl11_near_maximum_gets_nothing(tensor):
    x = tensor([1.000, 1.005])
    ops.max(x).backward()
    assert_close(x.grad, [0.0, 1])
    x = image(tensor, [[1.000, 1.005], [0, 1.004999]])
    ops.max_pool2d(x, 2).backward()
    assert_close(x.grad.numpy().ravel(), [0.0, 1, 0, 0])
