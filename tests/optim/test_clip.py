"""needle.optim.clip."""

import math

import numpy as np
import pytest

import needle as ndl
from needle import nn, optim
from needle.errors import DTypeError, OptionError
from tests.tolerances import assert_close


def parameters(*grads, dtype="float64"):
    made = [nn.Parameter(np.zeros(np.shape(g)) if g is not None else [0.0], dtype=dtype) for g in grads]
    for p, grad in zip(made, grads, strict=True):
        p.grad = None if grad is None else ndl.Tensor(grad, dtype=dtype)
    return made


def test_clips_by_the_global_norm():
    a, missing, b = parameters([3.0], None, [[4.0]])
    norm = optim.clip_grad_norm(iter([a, missing, b, a]), 1.0)
    assert isinstance(norm, float) and norm == 5
    assert_close(a.grad, [0.6])
    assert_close(b.grad, [[0.8]])
    assert missing.grad is None


@pytest.mark.parametrize("max_norm", [5.0, 100.0, math.inf])
def test_never_scales_up(max_norm):
    (p,) = parameters([3.0, 4.0])
    grad = p.grad
    assert optim.clip_grad_norm([p], max_norm) == 5
    assert p.grad is grad and grad.numpy().tolist() == [3, 4]


def test_zero_gradients_and_zero_norm():
    (p,) = parameters([0.0])
    assert optim.clip_grad_norm([p], 0.0) == 0 and p.grad.item() == 0
    (p,) = parameters([2.0])
    assert optim.clip_grad_norm([p], 0.0) == 2 and p.grad.item() == 0
    assert optim.clip_grad_norm(parameters(None), 1.0) == 0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_without_a_finite_norm_nothing_is_scaled(bad):
    a, b = parameters([bad], [3.0])
    norm = optim.clip_grad_norm([a, b], 1.0)
    assert not math.isfinite(norm) and math.isnan(norm) == math.isnan(bad)
    assert b.grad.item() == 3
    np.testing.assert_equal(a.grad.item(), bad)


def test_float32_gradients_do_not_overflow():
    (p,) = parameters([1e30, 1e30], dtype="float32")
    assert optim.clip_grad_norm([p], 1.0) == pytest.approx(math.sqrt(2) * 1e30)
    assert p.grad.dtype == "float32"
    assert_close(p.grad, [math.sqrt(0.5)] * 2)


def test_one_gradient_shared_by_two_parameters_is_scaled_once():
    a, b = parameters([3.0], [3.0])
    b.grad = a.grad
    optim.clip_grad_norm([a, b], 1.0)
    assert_close(a.grad, [math.sqrt(0.5)])
    assert_close(b.grad, [math.sqrt(0.5)])


def test_keeps_no_graph():
    p = nn.Parameter([2.0])
    (p * p).backward(create_graph=True)
    optim.clip_grad_norm(p, 1.0)
    assert p.grad.is_leaf() and p.grad.item() == 1


@pytest.mark.parametrize("max_norm", [-1.0, math.nan])
def test_wrong_max_norm(max_norm):
    with pytest.raises(OptionError, match="clip_grad_norm: max_norm must be at least 0"):
        optim.clip_grad_norm(parameters([1.0]), max_norm)


def test_wrong_types():
    with pytest.raises(DTypeError, match="clip_grad_norm: max_norm must be a number, got a str"):
        optim.clip_grad_norm(parameters([1.0]), "1")
    with pytest.raises(DTypeError, match=r"clip_grad_norm: a parameter must be .*ndarray"):
        optim.clip_grad_norm([np.ones(2)], 1.0)


@pytest.mark.parity
def test_is_pytorchs():
    torch = pytest.importorskip("torch")
    grads = [np.random.randn(3, 4), np.random.randn(5)]
    ours, theirs = parameters(*grads), [torch.zeros(g.shape, dtype=torch.float64) for g in grads]
    for p, grad in zip(theirs, grads, strict=True):
        p.grad = torch.tensor(grad)
    norm = optim.clip_grad_norm(ours, 0.5)
    assert norm == pytest.approx(torch.nn.utils.clip_grad_norm_(theirs, 0.5).item())
    for p, q in zip(ours, theirs, strict=True):
        assert_close(p.grad, q.grad.numpy(), rtol=1e-5)  # PyTorch adds 1e-6 to the norm
