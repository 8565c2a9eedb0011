"""INTERFACE.md, "init": every draw is NumPy's, scaled afterwards."""

import numpy as np
import pytest

import needle as ndl
from needle import init
from tests.tolerances import assert_close

A = np.sqrt(6 / (5 + 7))
B = np.sqrt(2) * np.sqrt(3 / 5)
DRAWS = {
    "rand": (lambda **k: init.rand(2, 3, **k), lambda: np.random.rand(2, 3)),
    "rand range": (lambda **k: init.rand(2, 3, low=-2.0, high=3.0, **k), lambda: np.random.rand(2, 3) * 5.0 - 2.0),
    "randn": (lambda **k: init.randn(2, 3, **k), lambda: np.random.randn(2, 3)),
    "randn scaled": (lambda **k: init.randn(4, mean=3.0, std=0.5, **k), lambda: np.random.randn(4) * 0.5 + 3.0),
    "randb": (lambda **k: init.randb(50, p=0.3, **k), lambda: (np.random.rand(50) <= 0.3) * 1.0),
    "xavier_uniform": (lambda **k: init.xavier_uniform(5, 7, **k), lambda: np.random.rand(5, 7) * 2 * A - A),
    "xavier_uniform gain": (
        lambda **k: init.xavier_uniform(5, 7, gain=1.5, **k),
        lambda: np.random.rand(5, 7) * 3 * A - 1.5 * A,
    ),
    "xavier_normal": (
        lambda **k: init.xavier_normal(5, 7, gain=0.3, **k),
        lambda: np.random.randn(5, 7) * 0.3 * np.sqrt(2 / 12),
    ),
    "kaiming_uniform": (lambda **k: init.kaiming_uniform(5, 7, **k), lambda: np.random.rand(5, 7) * 2 * B - B),
    "kaiming_uniform shape": (
        lambda **k: init.kaiming_uniform(5, 7, shape=(3, 2, 2), nonlinearity="relu", **k),
        lambda: np.random.rand(3, 2, 2) * 2 * B - B,
    ),
    "kaiming_normal": (
        lambda **k: init.kaiming_normal(5, 7, **k),
        lambda: np.random.randn(5, 7) * np.sqrt(2) / np.sqrt(5),
    ),
}


@pytest.mark.parametrize("row", DRAWS)
def test_draws(device, dtype, row):
    make, oracle = DRAWS[row]
    np.random.seed(11)
    expected, after = oracle(), np.random.rand()
    np.random.seed(11)
    made = make(device=device, dtype=dtype)
    assert isinstance(made, ndl.Tensor)
    assert (made.device, made.dtype) == (device, np.dtype(dtype))
    assert_close(made, expected.astype(dtype))
    assert np.random.rand() == after, "draws no more than it uses"


def test_default_dtype_is_float32():
    for made in (
        init.rand(2),
        init.randn(2),
        init.ones(2),
        init.zeros(2),
        init.constant(2, c=3.0),
        init.xavier_normal(2, 2),
    ):
        assert made.dtype == "float32"


def test_constants(device):
    x = init.randn(2, 3, device=device, dtype="float64")
    for made, expected in (
        (init.zeros(2, 3, device=device), np.zeros((2, 3))),
        (init.ones(2, 3, device=device), np.ones((2, 3))),
        (init.constant(2, 3, c=7.0, device=device), np.full((2, 3), 7.0)),
        (init.zeros_like(x), np.zeros((2, 3))),
        (init.ones_like(x), np.ones((2, 3))),
    ):
        assert made.numpy().tolist() == expected.tolist()
        assert made.device == device
    assert init.zeros_like(x).dtype == init.ones_like(x).dtype == "float64"


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8"])
def test_one_hot(device, dtype):
    ids = np.array([2, 0, 1])
    for i in (ndl.Tensor(ids, dtype=dtype, device=device), ids.astype(dtype), ids.tolist()):
        assert init.one_hot(3, i, device=device).numpy().tolist() == np.eye(3)[ids].tolist()


@pytest.mark.parametrize("bad", [[0.5], [3], [-1]])
def test_one_hot_wants_whole_values_in_range(bad):
    with pytest.raises((ValueError, TypeError), match="one_hot"):
        init.one_hot(3, ndl.Tensor(bad))


def test_requires_grad():
    assert init.rand(2, requires_grad=True).requires_grad is True
