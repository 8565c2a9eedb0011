"""PyTorch as the oracle: value, gradients and gradients of gradients."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import needle as ndl
from needle import Tensor


def assert_same_as_torch(function: Callable[..., Tensor], peer: Callable[..., Any], inputs: Sequence[Tensor]) -> None:
    """Compare `function(*inputs)` with `peer(torch, *inputs)`, in float64, to second order."""
    torch = pytest.importorskip("torch")
    theirs = [torch.tensor(x.numpy(), requires_grad=True) for x in inputs]
    out, wanted = function(*inputs), peer(torch, *theirs)
    assert out.shape == tuple(wanted.shape)
    np.testing.assert_allclose(out.numpy(), wanted.detach().numpy(), rtol=1e-12, atol=1e-12)

    weight = np.asarray(np.random.RandomState(4).randn(*out.shape))  # a float would be float32 to torch
    loss = (out * Tensor(weight, dtype="float64", device=out.device) * out).sum()
    their_loss = (wanted * torch.tensor(weight) * wanted).sum()
    gradients = ndl.grad(loss, inputs, create_graph=True)
    their_gradients = torch.autograd.grad(their_loss, theirs, create_graph=True)
    second = ndl.grad(sum([(g * g).sum() for g in gradients[1:]], (gradients[0] * gradients[0]).sum()), inputs)
    their_second = torch.autograd.grad(sum((g * g).sum() for g in their_gradients), theirs)
    for found, expected in zip((*gradients, *second), (*their_gradients, *their_second), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-10)
