"""SGD, Adam and AdamW against PyTorch's over several steps, and their own rules where these differ."""

import numpy as np
import pytest

import needle as ndl
from needle import nn, optim
from tests.tolerances import assert_close


def follow(opt, parameters, grads):
    """Step through the gradients of each step; None leaves a parameter without one."""
    values = []
    for step in grads:
        for p, grad in zip(parameters, step, strict=True):
            p.grad = None if grad is None else ndl.Tensor(grad, dtype="float64", device=p.device)
        opt.step()
        values.append([p.numpy() for p in parameters])
    return values


def test_none_is_the_factor_of_the_course(device):
    p, q = (nn.Parameter([1.0], dtype="float64", device=device) for _ in range(2))
    grads = [[np.array([g])] for g in (1.0, 2.0, -1.0)]
    course = follow(optim.SGD([p], lr=0.1, momentum=0.9), [p], grads)
    u, value, expected = 0.0, 1.0, []
    for ((g,),) in grads:
        u = 0.9 * u + 0.1 * g
        value -= 0.1 * u
        expected.append(value)
    assert_close(np.ravel(course), expected)
    plain = follow(optim.SGD([q], lr=0.1, dampening=0.7), [q], grads)
    assert_close(np.ravel(plain), [0.9, 0.7, 0.8])  # without momentum nothing is dampened


def test_adam_counts_the_steps_of_the_optimizer(device):
    """A parameter whose first gradient comes at step 3 is corrected for 3 steps."""
    p = nn.Parameter([1.0], dtype="float64", device=device)
    opt = optim.Adam([p], lr=0.1)
    follow(opt, [p], [[None], [None], [np.array([2.0])]])
    m, v = 0.1 * 2 / (1 - 0.9**3), 0.001 * 4 / (1 - 0.999**3)
    assert opt.t == 3
    assert_close(p, [1 - 0.1 * m / (np.sqrt(v) + 1e-8)])


TORCH = {
    "SGD": (optim.SGD, {}, "SGD", {}),
    "momentum": (optim.SGD, {"momentum": 0.9, "dampening": 0}, "SGD", {"momentum": 0.9}),
    "decay": (
        optim.SGD, {"momentum": 0.9, "dampening": 0, "weight_decay": 0.1},
        "SGD", {"momentum": 0.9, "weight_decay": 0.1},
    ),
    "dampening": (
        optim.SGD, {"momentum": 0.9, "dampening": 0.3}, "SGD", {"momentum": 0.9, "dampening": 0.3},
    ),
    "nesterov": (
        optim.SGD, {"momentum": 0.9, "dampening": 0, "nesterov": True, "weight_decay": 0.1},
        "SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    ),
    "Adam": (optim.Adam, {}, "Adam", {}),
    "Adam decay": (
        optim.Adam, {"beta1": 0.8, "beta2": 0.95, "eps": 1e-3, "weight_decay": 0.1},
        "Adam", {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1},
    ),
    "AdamW": (optim.AdamW, {}, "AdamW", {}),
    "AdamW decay": (optim.AdamW, {"weight_decay": 0.3}, "AdamW", {"weight_decay": 0.3}),
}  # fmt: skip


@pytest.mark.parity
@pytest.mark.parametrize("row", TORCH)
def test_rule_is_pytorchs(device, row):
    torch = pytest.importorskip("torch")
    kind, options, name, torch_options = TORCH[row]
    start, grads = [np.random.randn(3, 2), np.random.randn(4)], []
    for _ in range(6):
        grads.append([np.random.randn(3, 2), np.random.randn(4)])
    if kind is optim.SGD:  # one whose first gradient comes late; Adam's t is the optimizer's here
        grads[0][1] = None
    ours = [nn.Parameter(p, dtype="float64", device=device) for p in start]
    theirs = [torch.tensor(p, requires_grad=True) for p in start]
    values = follow(kind(ours, lr=0.05, **options), ours, grads)
    opt = getattr(torch.optim, name)(theirs, lr=0.05, **torch_options)
    for step, expected in zip(grads, values, strict=True):
        for p, grad in zip(theirs, step, strict=True):
            p.grad = None if grad is None else torch.tensor(grad)
        opt.step()
        for p, value in zip(theirs, expected, strict=True):
            assert_close(value, p.detach().numpy())


@pytest.mark.parity
def test_training_follows_pytorchs(device):
    """A whole network for twenty steps: layers, loss, gradients and optimizer together."""
    torch = pytest.importorskip("torch")
    ours = nn.Sequential(
        nn.Conv(1, 4, 3, device=device), nn.BatchNorm2d(4, device=device, unbiased=True), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(4 * 16, 3, device=device),
    ).to(dtype="float64")  # fmt: skip
    theirs = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(4 * 16, 3),
    ).double()  # fmt: skip
    orders = {"0.weight": (3, 2, 0, 1), "5.weight": (1, 0)}
    state = {
        name: torch.tensor(a.transpose(orders[name]) if name in orders else a.reshape(-1))
        for name, a in ours.state_dict().items()
    }
    theirs.load_state_dict(state, strict=False)
    our_opt, their_opt = optim.AdamW(ours.parameters(), lr=0.01), torch.optim.AdamW(theirs.parameters(), lr=0.01)
    images, labels = np.random.randn(12, 1, 8, 8), np.arange(12) % 3
    for _ in range(20):
        our_opt.reset_grad()
        loss = nn.SoftmaxLoss()(
            ours(ndl.Tensor(images, dtype="float64", device=device)), ndl.Tensor(labels, device=device)
        )
        loss.backward()
        our_opt.step()
        their_opt.zero_grad()
        expected = torch.nn.functional.cross_entropy(theirs(torch.tensor(images)), torch.tensor(labels))
        expected.backward()
        their_opt.step()
        assert_close(loss, expected.detach().numpy(), rtol=1e-8)
