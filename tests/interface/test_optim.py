"""INTERFACE.md, "optim": each rule over several steps against plain formulas."""

import numpy as np
import pytest

import needle as ndl
from needle import nn, optim
from tests.tolerances import assert_close

STEPS = 5


def sgd(p, grads, lr=0.01, momentum=0.0, weight_decay=0.0):
    u = np.zeros_like(p)
    for g in grads:
        u = momentum * u + (1 - momentum) * (g + weight_decay * p)
        p = p - lr * u
    return p


def adam(p, grads, lr=0.01, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0):
    m = v = np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        g = g + weight_decay * p
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        p = p - lr * (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + eps)
    return p


@pytest.mark.parametrize(
    ("optimizer", "rule", "options"),
    [
        (optim.SGD, sgd, {}),
        (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.9}),
        (optim.SGD, sgd, {"lr": 0.1, "weight_decay": 0.01}),
        (optim.SGD, sgd, {"lr": 0.1, "momentum": 0.5, "weight_decay": 0.2}),
        (optim.Adam, adam, {}),
        (optim.Adam, adam, {"lr": 0.1, "weight_decay": 0.1}),
        (optim.Adam, adam, {"lr": 0.1, "beta1": 0.7, "beta2": 0.9, "eps": 1e-2}),
    ],
)
def test_rule(tensor, optimizer, rule, options):
    start = [np.random.randn(3, 2), np.random.randn(4)]
    grads = [[np.random.randn(*p.shape) for _ in range(STEPS)] for p in start]
    parameters = [nn.Parameter(tensor(p)) for p in start]
    untouched = nn.Parameter(tensor([7.0]))
    opt = optimizer([*parameters, untouched], **options)
    for step in range(STEPS):
        opt.reset_grad()
        assert all(p.grad is None for p in parameters)
        for p, g in zip(parameters, grads, strict=True):
            p.grad = tensor(g[step])
        opt.step()
        for p, g in zip(parameters, grads, strict=True):
            assert (p.grad.numpy() == g[step]).all(), "gradients are not changed by step()"
            assert p.is_leaf()
    for p, value, g in zip(parameters, start, grads, strict=True):
        assert_close(p, rule(value, g, **options))
    assert untouched.numpy().item() == 7


def test_float32_gradient_of_another_dtype(tensor):
    p = nn.Parameter(tensor([1.0], dtype="float32"))
    p.grad = tensor([1.0])
    optim.SGD([p], lr=0.1).step()
    assert p.dtype == "float32"


def test_clip_grad_norm(tensor):
    p = nn.Parameter(tensor([0.0, 0.0]))
    p.grad = tensor([3.0, 4.0])
    optim.SGD([p]).clip_grad_norm()
    assert_close(p.grad, [0.15, 0.2], rtol=1e-5)
    optim.SGD([p]).clip_grad_norm(max_norm=10.0)
    assert_close(p.grad, [0.15, 0.2], rtol=1e-5)


def test_parameters_keep_their_memory_and_steps_no_graph(tensor):
    p = nn.Parameter(tensor([1.0, 2.0]))
    handle = p.cached_data._handle
    for opt in (optim.SGD([p], momentum=0.9), optim.Adam([p])):
        (p * p).sum().backward()
        opt.step()
        assert p.cached_data._handle is handle
    assert ndl.autograd.find_topo_sort([p]) == [p]


def test_training_lowers_the_loss(device):
    """The course's learning tests: a small network on random data."""
    x, y = ndl.init.randn(16, 8, device=device), ndl.Tensor(np.arange(16) % 4, device=device)
    for make in (lambda ps: optim.SGD(ps, lr=0.5, momentum=0.9), lambda ps: optim.Adam(ps, lr=0.05)):
        model = nn.Sequential(nn.Linear(8, 32, device=device), nn.ReLU(), nn.Linear(32, 4, device=device))
        opt, losses = make(model.parameters()), []
        for _ in range(60):
            opt.reset_grad()
            loss = nn.SoftmaxLoss()(model(x), y)
            loss.backward()
            opt.step()
            losses.append(loss.numpy().item())
        assert losses[-1] < 0.1 * losses[0]
