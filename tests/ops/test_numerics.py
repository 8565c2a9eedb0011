"""float32 results at hard values stay within the bounds that the docstrings state: a float64 oracle of the inputs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import needle as ndl
from needle import Tensor, ops
from needle.optim import clip_grad_norm

Array = np.ndarray[Any, Any]
EPS = 2.0**-23
SMALLEST = 2.0**-126  # the smallest normal number; results below it may be flushed


def _draw(mean: float, spread: float) -> Array:
    return mean + spread * np.random.RandomState(0).standard_normal((48, 1000))


HARD: dict[str, Array] = {
    "normal": _draw(0, 1),
    "wide": _draw(0, 100),
    "large mean": _draw(1e4, 1),
    "very large mean": _draw(-1e6, 1),
    "tiny spread": _draw(1, 1e-6),
    "huge": _draw(0, 1e15),
    "small": _draw(0, 1e-15),
    "denormal": _draw(0, 1e-41),
    "one value": np.full((48, 1000), 0.1),
    "equal and huge": np.full((48, 1000), 3e30),
    "one stands out": np.where(np.arange(1000) == 7, 1e5, _draw(0, 1)),
}


def inputs(name: str, device: ndl.BackendDevice) -> tuple[Tensor, Array]:
    """A hard case in float32, and the same numbers in float64."""
    values = HARD[name].astype("float32")
    return Tensor(values, device=device), values.astype("float64")


def within(actual: Tensor, exact: Array, bound: Any) -> None:
    error = abs(actual.numpy().astype("float64") - exact)
    assert actual.dtype == np.float32 and actual.shape == exact.shape
    assert (error <= bound).all(), f"error up to {(error / bound).max():.3g} of the bound"


def log_softmax(x: Array) -> Array:
    centred = x - x.max(1, keepdims=True)
    return centred - np.log(np.exp(centred).sum(1, keepdims=True))


@pytest.mark.parametrize("name", HARD)
class TestHardValues:
    @pytest.mark.parametrize("axis", [0, 1, (0, 1)])
    def test_sums_and_means(self, name: str, axis: Any, device: ndl.BackendDevice) -> None:
        x, exact = inputs(name, device)
        within(ops.summation(x, axis), exact.sum(axis), EPS * abs(exact).sum(axis))
        within(ops.mean(x, axis), exact.mean(axis), 2 * EPS * abs(exact).mean(axis) + SMALLEST)

    @pytest.mark.parametrize("axis", [0, 1, (0, 1)])
    def test_variance(self, name: str, axis: Any, device: ndl.BackendDevice) -> None:
        x, exact = inputs(name, device)
        var, mean = exact.var(axis), exact.mean(axis)
        within(ops.var(x, axis), var, 4 * EPS * var + (EPS * mean) ** 2 + SMALLEST)

    def test_normalization(self, name: str, device: ndl.BackendDevice) -> None:
        x, exact = inputs(name, device)
        for normalize, axis in ((ops.layer_norm, 1), (ops.batch_norm, 0)):
            mean, std = exact.mean(axis, keepdims=True), np.sqrt(exact.var(axis, keepdims=True) + 1e-5)
            out = (exact - mean) / std
            within(normalize(x), out, EPS * (2 + 2 * abs(out) + abs(mean) / std))

    def test_logsumexp(self, name: str, device: ndl.BackendDevice) -> None:
        x, exact = inputs(name, device)
        top = exact.max(1)
        out = top + np.log(np.exp(exact - top[:, None]).sum(1))
        within(ops.logsumexp(x, 1), out, 4 * EPS * np.maximum(1, np.maximum(abs(out), abs(top))))

    def test_softmax(self, name: str, device: ndl.BackendDevice) -> None:
        x, exact = inputs(name, device)
        logs = log_softmax(exact)
        below = exact.max(1, keepdims=True) - exact
        within(ops.softmax(x), np.exp(logs), EPS * (3 + below) * np.exp(logs) + SMALLEST)
        within(ops.logsoftmax(x), logs, 2 * EPS * (1 + abs(logs)))

    def test_cross_entropy(self, name: str, device: ndl.BackendDevice) -> None:
        x, exact = inputs(name, device)
        labels = np.random.randint(0, 1000, len(exact))
        losses = -log_softmax(exact)[np.arange(len(exact)), labels]
        within(ops.cross_entropy(x, labels, reduction="none"), losses, 2 * EPS * (1 + losses))
        (slope,) = ndl.grad(ops.cross_entropy(x, labels, reduction="sum"), [x])
        within(slope, np.exp(log_softmax(exact)) - (np.arange(1000) == labels[:, None]), 4 * EPS)

    def test_norm_of_gradients(self, name: str, device: ndl.BackendDevice) -> None:
        x, exact = inputs(name, device)
        x.grad = x.detach()
        assert clip_grad_norm([x], 1e30) == pytest.approx(np.linalg.norm(exact), rel=1e-12)


def test_gradients_of_normalization_by_float64(device: ndl.BackendDevice) -> None:
    """Of one layer_norm in float32 and in float64: within the bound of the values, times the slope's scale."""
    weights = np.random.standard_normal((48, 1000))
    for name in ("normal", "large mean", "tiny spread", "one stands out"):
        x, exact = inputs(name, device)
        slopes = [
            ndl.grad(ops.layer_norm(t), [t], Tensor(weights, dtype=t.dtype, device=device))[0]
            for t in (x, Tensor(exact, dtype="float64", device=device))
        ]
        std = np.sqrt(exact.var(1, keepdims=True) + 1e-5)
        condition = abs(exact.mean(1, keepdims=True)) / std + abs(exact - exact.mean(1, keepdims=True)).max() / std
        within(slopes[0], slopes[1].numpy(), 8 * EPS * (1 + condition) / std)


@pytest.mark.parametrize("function", [ops.logsumexp, ops.softmax, ops.logsoftmax])
def test_rows_with_infinities(function: Callable[..., Tensor], device: ndl.BackendDevice) -> None:
    """-inf counts for nothing beside finite numbers; the rest is as if it was not there."""
    for finite in ([0.5, -1.0, 2.0], [3e38, 3e38, -3e38], [1e-44, -1e-44, 0.0]):
        clean = Tensor([finite], device=device)
        masked = Tensor([[-np.inf, *finite, -np.inf]], device=device)
        if function is ops.logsumexp:
            assert function(masked, 1).numpy().tolist() == function(clean, 1).numpy().tolist()
        else:
            out = function(masked).numpy()
            assert out[:, 1:-1].tolist() == function(clean).numpy().tolist()
            assert set(out[:, [0, -1]].ravel()) == {0.0 if function is ops.softmax else -np.inf}


def test_normalizing_equal_values_gives_zeros(device: ndl.BackendDevice) -> None:
    for value in (0.1, 1e-40, -3e30, 16777217.0):
        x = Tensor(np.full((6, 5), value), device=device)
        for out in (ops.layer_norm(x), ops.batch_norm(x), ops.group_norm(x, 1), ops.var(x, 0)):
            assert not out.numpy().any()


@pytest.mark.slow
@pytest.mark.parametrize("value", ["random", 0.1, "alternating"])
def test_sums_of_a_hundred_million(value: Any, device: ndl.BackendDevice) -> None:
    n = 10**8
    x = np.random.RandomState(0).random_sample(n).astype("float32") if value == "random" else np.full(n, 0.1, "float32")
    if value == "alternating":  # a large sum of terms of both signs
        x[::2] = -0.07
    exact = float(x.sum(dtype="float64"))
    for shape, axes in (((n,), None), ((n // 4, 4), 0), ((4, n // 4), 1)):
        sums = ops.summation(Tensor(x.reshape(shape), device=device, requires_grad=False), axes)
        total = sums.numpy().sum(dtype="float64")
        assert abs(total - exact) <= 1e-6 * abs(exact)
