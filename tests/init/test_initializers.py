"""needle.init.initializers: bounds, spread, gains, fans."""

import math

import numpy as np
import pytest

from needle import init
from needle.errors import OptionError, ShapeError

UNIFORM = {
    "xavier": (lambda **k: init.xavier_uniform(30, 70, gain=2.0, **k), 2 * math.sqrt(6 / 100)),
    "kaiming": (lambda **k: init.kaiming_uniform(30, 70, **k), math.sqrt(2) * math.sqrt(3 / 30)),
    "linear": (lambda **k: init.kaiming_uniform(30, 70, nonlinearity="linear", **k), math.sqrt(3 / 30)),
    "tanh": (lambda **k: init.kaiming_uniform(30, 70, nonlinearity="tanh", **k), 5 / 3 * math.sqrt(3 / 30)),
}
NORMAL = {
    "xavier": (lambda **k: init.xavier_normal(30, 70, gain=2.0, **k), 2 * math.sqrt(2 / 100)),
    "kaiming": (lambda **k: init.kaiming_normal(30, 70, **k), math.sqrt(2 / 30)),
    "linear": (lambda **k: init.kaiming_normal(30, 70, nonlinearity="linear", **k), math.sqrt(1 / 30)),
}


@pytest.mark.parametrize("row", UNIFORM)
def test_bounds(device, dtype, row):
    make, bound = UNIFORM[row]
    values = make(shape=(100, 100), device=device, dtype=dtype).numpy()
    assert values.dtype == dtype
    assert 0.99 * bound < np.abs(values).max() <= bound * (1 + 1e-6)
    assert abs(values.mean()) < 0.02 * bound


@pytest.mark.parametrize("row", NORMAL)
def test_spread(device, dtype, row):
    make, std = NORMAL[row]
    values = make(shape=(100, 100), device=device, dtype=dtype).numpy()
    assert abs(values.std() / std - 1) < 0.03
    assert abs(values.mean()) < 0.03 * std


def test_da15_fan_in_of_a_convolution_counts_the_kernel():
    values = np.abs(init.kaiming_uniform(3 * 3 * 8, 3 * 3 * 16, shape=(3, 3, 8, 16)).numpy())
    assert 0.27 < values.max() <= 0.2886752


@pytest.mark.parametrize("make", [init.kaiming_uniform, init.kaiming_normal])
def test_errors_of_kaiming(make):
    with pytest.raises(ShapeError, match=rf"{make.__name__}: the fan must be at least 1, got 0"):
        make(0, 3)
    with pytest.raises(OptionError, match=rf"{make.__name__}: nonlinearity must be one of .*relu.*'swish'"):
        make(3, 3, nonlinearity="swish")


@pytest.mark.parametrize("make", [init.xavier_uniform, init.xavier_normal])
def test_errors_of_xavier(make):
    with pytest.raises(ShapeError, match=rf"{make.__name__}: the fan"):
        make(0, 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: init.kaiming_uniform(2, 3, shape=(2, -3)),
        lambda: init.kaiming_normal(2, 3, shape="ab"),
        lambda: init.xavier_uniform(2.5, 3),
        lambda: init.xavier_normal("2", 3),
        lambda: init.rand(-1),
        lambda: init.randn(2.5),
        lambda: init.randb(-1),
    ],
)
def test_wrong_shapes_draw_nothing(make):
    state = np.random.get_state()[2]
    with pytest.raises(ShapeError, match=r"^(kaiming|xavier|rand)\w*: "):
        make()
    assert np.random.get_state()[2] == state
