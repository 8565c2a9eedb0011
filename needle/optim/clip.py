"""Gradient clipping."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from needle.autograd import Tensor
from needle.errors import DTypeError, kind_of
from needle.nn import Module
from needle.ops.arguments import not_negative, tensor


def clip_grad_norm(params: Tensor | Iterable[Tensor], max_norm: float) -> float:
    """Scale all gradients by one factor, so that their norm, taken over all of them together, is at most `max_norm`.

    Gradients are never scaled up. Parameters without a gradient are passed over; one that is listed twice counts once.
    Where the norm is not finite (a gradient holds NaN or inf) nothing is scaled: look at the result before stepping.
    It is summed in float64: float32 gradients of any size have a norm, to 12 digits.

    Returns:
        The norm before scaling.

    Raises:
        OptionError: max_norm is negative or NaN.
        DTypeError: what is no tensor.

    >>> p = Tensor([0.0, 0.0])
    >>> p.grad = Tensor([3.0, 4.0])
    >>> clip_grad_norm([p], max_norm=1.0)
    5.0
    >>> p.grad.numpy().round(4).tolist()
    [0.6, 0.8]
    """
    max_norm = not_negative("clip_grad_norm", "max_norm", max_norm)
    listed = [params] if isinstance(params, Tensor) else listed_parameters("clip_grad_norm", params)
    params = dict.fromkeys([tensor("clip_grad_norm", p, "a parameter") for p in listed])
    with_grad = [(p, p.grad.detach()) for p in params if p.grad is not None]
    norm = math.sqrt(sum(_square_sum(grad) for _, grad in with_grad))
    if math.isfinite(norm) and norm > max_norm:
        for p, grad in with_grad:
            p.grad = grad * (max_norm / norm)  # a new tensor: two parameters may share the memory of one gradient
    return norm


def listed_parameters(op: str, params: Any) -> list[Any]:
    """Give an iterable of parameters as a list, or raise; a Sequential is one of modules."""
    if isinstance(params, Tensor | Module) or not isinstance(params, Iterable):
        raise DTypeError(f"{op}: expected an iterable of tensors, got {kind_of(params)}; give model.parameters()")
    return list(params)


def _square_sum(grad: Tensor) -> float:
    values = grad.cached_data.astype("float64")
    return float((values * values).sum().item())
