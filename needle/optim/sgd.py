"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from needle.autograd import NDArray, Tensor
from needle.backend_ndarray import layers
from needle.errors import OptionError
from needle.optim.optimizer import Group, Hyperparameter, Optimizer, zeros_like


class SGD(Optimizer):
    """Stochastic gradient descent with momentum: u = momentum * u + (1 - dampening) * g; p -= lr * u.

    Here g = gradient + weight_decay * p, and u, kept by parameter in the dict `u`, begins as zeros.

    Args:
        params: an iterable of tensors or of groups; see `Optimizer`.
        lr: the learning rate.
        momentum: how much of u is kept.
        weight_decay: an L2 penalty, in the gradient.
        dampening: None stands for `momentum`, as the course has it: u is a running mean of gradients. A number is
            PyTorch's rule, which also takes u = g, undampened, at the first step of a parameter and without momentum.
        nesterov: step by g + momentum * u instead of u (Sutskever et al., 2013). Needs momentum, and dampening=0.

    >>> from needle import nn, optim
    >>> p = nn.Parameter([1.0])
    >>> p.grad = Tensor([1.0])
    >>> optim.SGD([p], lr=0.1, momentum=0.9, dampening=0).step()
    >>> p.numpy().round(4).tolist()
    [0.9]
    """

    _state_names = ("u",)
    u: dict[Tensor, NDArray]
    lr = Hyperparameter()
    momentum = Hyperparameter()
    weight_decay = Hyperparameter()
    dampening = Hyperparameter()
    nesterov = Hyperparameter()

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.01,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        *,
        dampening: float | None = None,
        nesterov: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "dampening": dampening,
            "nesterov": nesterov,
        }
        super().__init__(params, defaults)

    def _check_hyperparameters(self, group: Group) -> None:
        for name in ("lr", "momentum", "weight_decay"):
            self._check_range(group, name)
        if group["dampening"] is not None:
            self._check_range(group, "dampening")
        if group["nesterov"] and (group["dampening"] != 0 or group["momentum"] == 0):
            raise OptionError(
                f"SGD: nesterov needs momentum above 0 and dampening=0, got momentum={group['momentum']} and "
                f"dampening={group['dampening']} (None is the course's factor, 1 - momentum)"
            )

    def _update(self, params: list[Tensor], grads: list[NDArray], group: Group) -> None:
        new = [p not in self.u for p in params]
        self.u.update({p: zeros_like(p) for p in params if p not in self.u})
        momentum, dampening = group["momentum"], group["dampening"]
        if dampening is None:
            self._move(params, grads, group, momentum)
        elif dampening == 0 or momentum == 0:
            self._move(params, grads, group, 0.0)
        else:  # a first step is not dampened
            for first, factor in ((True, 0.0), (False, dampening)):
                rows = [(p, grad) for p, grad, is_new in zip(params, grads, new, strict=True) if is_new == first]
                self._move([p for p, _ in rows], [grad for _, grad in rows], group, factor)

    def _move(self, params: list[Tensor], grads: list[NDArray], group: Group, dampening: float) -> None:
        layers.sgd_update(
            [p.cached_data for p in params],
            grads,
            [self.u[p] for p in params],
            lr=float(group["lr"]),
            momentum=float(group["momentum"]),
            dampening=float(dampening),
            weight_decay=float(group["weight_decay"]),
            nesterov=bool(group["nesterov"]),
        )
