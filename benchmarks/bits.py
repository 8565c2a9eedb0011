"""Which results change with the number of threads: PyTorch's in its deterministic mode, and needle's."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from cases import images, normal

import needle as ndl
from needle import nn

THREADS = (1, 2, 3, 7)


def make_works() -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Give, to each name, the same work in PyTorch and in needle."""
    x, d, logits, values = normal(64, 16, 14, 14), normal(64, 32, 14, 14), normal(20_000, 10), normal(1_000_003)
    labels = np.random.default_rng(0).integers(0, 10, len(logits))
    layer, module = torch.nn.Conv2d(16, 32, 3, padding=1), nn.Conv(16, 32, 3, device=ndl.cpu())
    own_x, own_d = images(x, False), images(d, False)
    own_logits, own_values = (ndl.Tensor(a, device=ndl.cpu(), requires_grad=False) for a in (logits, values))
    zeros, own_zeros = torch.zeros(len(values)), ndl.zeros(len(values), device=ndl.cpu())
    t = {name: torch.tensor(a) for name, a in (("x", x), ("d", d), ("y", labels), ("z", logits), ("v", values))}
    return {
        "weight gradient of a convolution": (
            lambda: torch.autograd.grad(layer(t["x"]), layer.weight, t["d"])[0],
            lambda: ndl.grad(module(own_x), module.weight, own_d)[0],
        ),
        "mean squared error": (
            lambda: torch.nn.functional.mse_loss(t["v"], zeros),
            lambda: ndl.mse_loss(own_values, own_zeros),
        ),
        "cross entropy": (
            lambda: torch.nn.functional.cross_entropy(t["z"], t["y"]),
            lambda: ndl.cross_entropy(own_logits, labels),
        ),
        "sum": (lambda: t["v"].sum(), lambda: own_values.sum()),
    }


def changing_bits() -> dict[str, dict[str, list[str]]]:
    """Give, to each work and library, the hash of the result at each number of threads in THREADS."""
    before = torch.get_num_threads()
    torch.use_deterministic_algorithms(True)
    found: dict[str, dict[str, list[str]]] = {}
    for name, (pytorch, own) in make_works().items():
        found[name] = {"PyTorch": [], "needle": []}
        for threads in THREADS:
            torch.set_num_threads(threads)
            found[name]["PyTorch"].append(_hash(pytorch().detach().numpy()))
            with ndl.set_num_threads(threads):
                found[name]["needle"].append(_hash(own().numpy()))
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(before)
    return found


def _hash(a: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()[:8]
