"""The array-level functions: optimizer steps against their rules, and sizes that do not fit."""

import numpy as np
import pytest

from needle.backend_ndarray import layers
from needle.errors import DTypeError, ShapeError
from tests.tolerances import assert_close

SGD = {"lr": 0.1, "momentum": 0.9, "dampening": 0.9, "weight_decay": 0.01, "nesterov": False}
ADAM = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-3, "weight_decay": 0.01, "decoupled": False, "step": 3}


def draw(*shapes):
    return [np.random.randn(*shape) for shape in shapes]


def sgd(p, g, u, lr, momentum, dampening, weight_decay, nesterov):
    g = g + weight_decay * p
    u = momentum * u + (1 - dampening) * g
    return p - lr * (g + momentum * u if nesterov else u), u


def adam(p, g, m, v, lr, beta1, beta2, eps, weight_decay, decoupled, step):
    g, p = (g, p - lr * weight_decay * p) if decoupled else (g + weight_decay * p, p)
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
    return p - lr * (m / (1 - beta1**step)) / (np.sqrt(v / (1 - beta2**step)) + eps), m, v


@pytest.mark.parametrize(
    "change", [{}, {"nesterov": True, "dampening": 0.0}, {"momentum": 0.0, "dampening": 0.0}, {"weight_decay": 0.0}]
)
def test_sgd_update(array, dtype, change):
    shapes = [(3, 4), (5,), (), (0, 2)]
    given = [draw(*shapes) for _ in range(3)]
    params, grads, velocities = ([array(a, dtype=dtype) for a in arrays] for arrays in given)
    layers.sgd_update(params, grads, velocities, **(SGD | change))
    for p, u, g, *was in zip(params, velocities, grads, *given):
        expected = sgd(*was, **(SGD | change))
        for got, wanted in zip((p, u, g), (*expected, was[1])):
            assert got.dtype == dtype
            assert_close(got, wanted)


@pytest.mark.parametrize("change", [{}, {"decoupled": True}, {"step": 1, "weight_decay": 0.0}])
def test_adam_update(array, dtype, change):
    shapes = [(3, 4), (5,), (), (0, 2)]
    given = [draw(*shapes) for _ in range(4)]
    given[3] = [a * a for a in given[3]]
    params, grads, firsts, seconds = ([array(a, dtype=dtype) for a in arrays] for arrays in given)
    layers.adam_update(params, grads, firsts, seconds, **(ADAM | change))
    for p, m, v, g, *was in zip(params, firsts, seconds, grads, *given):
        expected = adam(*was, **(ADAM | change))
        for got, wanted in zip((p, m, v, g), (*expected, was[1])):
            assert got.dtype == dtype
            assert_close(got, wanted)


def test_updates_mark_what_they_write(array):
    p, g, u = map(array, draw((2,), (2,), (2,)))
    versions = [a._handle.version for a in (p, g, u)]
    layers.sgd_update([p], [g], [u], **SGD)
    assert [a._handle.version != was for a, was in zip((p, g, u), versions)] == [True, False, True]


def test_parameters_in_any_order_of_memory(array):
    a, g, u = draw((3, 4), (3, 4), (3, 4))
    base, velocity = array(a.T), array(u)
    layers.sgd_update([base.permute((1, 0))], [array(g)], [velocity], **SGD)
    assert_close(base, sgd(a, g, u, **SGD)[0].T)


def test_updates_of_what_does_not_fit_raise(array):
    p, g, u = map(array, draw((2,), (3,), (2,)))
    with pytest.raises(ShapeError, match=r"^sgd_update: .*\(2,\).*\(3,\)"):
        layers.sgd_update([p], [g], [u], **SGD)
    with pytest.raises(DTypeError, match=r"^adam_update: .*float64 and float32.*astype"):
        layers.adam_update([p], [p.astype("float32")], [u], [u], **ADAM)


def test_operands_of_different_dtypes_raise(array):
    settings = layers.ConvSettings()
    x, weight = array(np.zeros((1, 3, 3, 1))), array(np.zeros((1, 1, 1, 1)), dtype="float32")
    with pytest.raises(DTypeError, match=r"^conv: .*float64 and float32"):
        layers.conv(x, weight, None, settings)
    with pytest.raises(DTypeError, match=r"^normalize: .*float64 and float32"):
        layers.normalize(x, weight, None, (0, 1, 2), 1e-5)
