"""Adam, and Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from needle.autograd import NDArray, Tensor
from needle.backend_ndarray import layers
from needle.optim.optimizer import Group, Hyperparameter, Optimizer, zeros_like


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015): p -= lr * m' / (sqrt(v') + eps), with the means of gradients and of their squares.

    m = beta1 * m + (1 - beta1) * g and v = beta2 * v + (1 - beta2) * g**2 begin as zeros, which m' = m / (1 - beta1**t)
    and v' = v / (1 - beta2**t) make up for; g = gradient + weight_decay * p. `t` counts the optimizer's steps,
    also for parameters that some of them left alone; `m` and `v` are dicts by parameter.

    Args:
        params: an iterable of tensors or of groups; see `Optimizer`.
        lr: the learning rate.
        beta1, beta2: how much of m and v is kept.
        eps: added to the root.
        weight_decay: an L2 penalty, in the gradient.

    >>> from needle import nn, optim
    >>> p = nn.Parameter([1.0])
    >>> p.grad = Tensor([0.01])
    >>> optim.Adam([p], lr=0.1, eps=0.01).step()
    >>> p.numpy().round(4).tolist()
    [0.95]
    """

    _state_names = ("m", "v")
    _decoupled = False
    m: dict[Tensor, NDArray]
    v: dict[Tensor, NDArray]
    lr = Hyperparameter()
    beta1 = Hyperparameter()
    beta2 = Hyperparameter()
    eps = Hyperparameter()
    weight_decay = Hyperparameter()

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay})

    def _check_hyperparameters(self, group: Group) -> None:
        for name in ("lr", "eps", "weight_decay"):
            self._check_range(group, name)
        for name in ("beta1", "beta2"):
            self._check_range(group, name, below=1.0)

    def _update(self, params: list[Tensor], grads: list[NDArray], group: Group) -> None:
        for state in (self.m, self.v):
            state.update({p: zeros_like(p) for p in params if p not in state})
        layers.adam_update(
            [p.cached_data for p in params],
            grads,
            [self.m[p] for p in params],
            [self.v[p] for p in params],
            lr=float(group["lr"]),
            beta1=float(group["beta1"]),
            beta2=float(group["beta2"]),
            eps=float(group["eps"]),
            weight_decay=float(group["weight_decay"]),
            decoupled=self._decoupled,
            step=self.t,
        )


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019): p -= lr * weight_decay * p before Adam's step.

    The decay does not pass through m and v; all else is as for `Adam`.

    >>> from needle import nn, optim
    >>> p = nn.Parameter([1.0])
    >>> p.grad = Tensor([0.0])
    >>> optim.AdamW([p], lr=0.1, weight_decay=0.5).step()
    >>> p.numpy().round(4).tolist()
    [0.95]
    """

    _decoupled = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, lr, beta1, beta2, eps, weight_decay)
