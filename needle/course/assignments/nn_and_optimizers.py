"""Layers, a loss, and two optimizers.

A layer is a subclass of nn.Module: `__init__` sets its attributes, `forward` computes with Tensors and ops. What it
learns is wrapped in nn.Parameter; `self.training` tells whether it is in training or in evaluation mode. Operators
between Tensors broadcast as NumPy's do; `x.sum(axes)`, `x.mean(axes)`, `x.reshape(shape)`, `ndl.exp`, `ndl.logsumexp`
and the like are ops. Random numbers come from `ndl.init`.

Check your work with `python -m needle.course check nn_and_optimizers.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

import needle as ndl
from needle import init, nn
from needle.autograd import NDArray, Tensor
from needle.optim import Optimizer


class Linear(nn.Module):
    """x @ weight + bias: (N, in_features) -> (N, out_features).

    `weight` (in_features, out_features) is drawn first, by `init.kaiming_uniform(in_features, out_features)`, then
    `bias` (1, out_features), by `init.kaiming_uniform(out_features, 1)` and reshaped.
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.weight = nn.Parameter(init.kaiming_uniform(in_features, out_features))
        self.bias = nn.Parameter(init.kaiming_uniform(out_features, 1).reshape((1, out_features)))
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        return x @ self.weight + self.bias
        ### END SOLUTION


class LayerNorm1d(nn.Module):
    """Each row of (N, dim) normalised: weight * (x - mean) / sqrt(variance + eps) + bias.

    The mean and the variance, divided by dim, are of the row. `weight`, ones, and `bias`, zeros, have the shape (dim,).
    """

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps
        ### BEGIN SOLUTION
        self.weight = nn.Parameter(init.ones(dim))
        self.bias = nn.Parameter(init.zeros(dim))
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        centred = x - x.mean((1,)).reshape((x.shape[0], 1))
        variance = (centred**2).mean((1,)).reshape((x.shape[0], 1))
        return self.weight * centred / (variance + self.eps) ** 0.5 + self.bias
        ### END SOLUTION


class BatchNorm1d(nn.Module):
    """Each column of (N, dim) normalised: weight * (x - mean) / sqrt(variance + eps) + bias.

    In training, mean and variance are those of the column, the variance divided by N, and the running statistics move:
    running = (1 - momentum) * running + momentum * batch. They are no part of the graph (use `.detach()`). In
    evaluation, the running statistics take the place of mean and variance, and stay as they are.

    `weight`, ones, and `bias`, zeros, are learned; `running_mean`, zeros, and `running_var`, ones, are plain Tensors;
    all have the shape (dim,).
    """

    def __init__(self, dim: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.dim, self.eps, self.momentum = dim, eps, momentum
        ### BEGIN SOLUTION
        self.weight = nn.Parameter(init.ones(dim))
        self.bias = nn.Parameter(init.zeros(dim))
        self.running_mean = init.zeros(dim)
        self.running_var = init.ones(dim)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        if self.training:
            mean = x.mean((0,))
            variance = ((x - mean) ** 2).mean((0,))
            m = self.momentum
            self.running_mean = (1 - m) * self.running_mean + m * mean.detach()
            self.running_var = (1 - m) * self.running_var + m * variance.detach()
        else:
            mean, variance = self.running_mean, self.running_var
        return self.weight * (x - mean) / (variance + self.eps) ** 0.5 + self.bias
        ### END SOLUTION


class Dropout(nn.Module):
    """In training, each element is 0 with probability p, and multiplied by 1 / (1 - p) otherwise; else x as it is.

    Draw the elements that are kept by `init.randb(*x.shape, p=1 - p, dtype=x.dtype)`.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        if not self.training:
            return x
        return x * init.randb(*x.shape, p=1 - self.p, dtype=x.dtype) / (1 - self.p)
        ### END SOLUTION


class SoftmaxLoss(nn.Module):
    """The mean over the batch of logsumexp(logits) - logits[label]; logits (N, classes), labels (N,)."""

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        n, classes = logits.shape
        right = (logits * init.one_hot(classes, labels, dtype=logits.dtype)).sum((1,))
        return (ndl.logsumexp(logits, (1,)) - right).sum() / n
        ### END SOLUTION


class SGD(Optimizer):
    """Gradient descent with momentum: u = momentum * u + (1 - momentum) * g; p = p - lr * u.

    Here g is the gradient of p plus weight_decay * p, and u begins as 0. `self.params` lists the parameters; those
    whose `grad` is None are left alone. Compute with NDArrays, `p.cached_data`, which can be assigned to, and not with
    Tensors, so that no graph grows from step to step; and leave the gradients as they are.
    """

    def __init__(
        self, params: Iterable[Tensor], lr: float = 0.01, momentum: float = 0.0, weight_decay: float = 0.0
    ) -> None:
        super().__init__(params)
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.u: dict[Tensor, NDArray] = {}

    def step(self) -> None:
        ### BEGIN SOLUTION
        for p in self.params:
            if p.grad is None:
                continue
            g = p.grad.cached_data + self.weight_decay * p.cached_data
            self.u[p] = self.momentum * self.u.get(p, 0.0) + (1 - self.momentum) * g
            p.cached_data = p.cached_data - self.lr * self.u[p]
        ### END SOLUTION


class Adam(Optimizer):
    """Adam: p = p - lr * m' / (sqrt(v') + eps), with m' = m / (1 - beta1**t) and v' = v / (1 - beta2**t).

    m = beta1 * m + (1 - beta1) * g and v = beta2 * v + (1 - beta2) * g**2 begin as 0; the first step has t = 1.

    Here g is the gradient of p plus weight_decay * p. All else is as for SGD.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params)
        self.lr, self.beta1, self.beta2, self.eps, self.weight_decay = lr, beta1, beta2, eps, weight_decay
        self.m: dict[Tensor, NDArray] = {}
        self.v: dict[Tensor, NDArray] = {}
        self.t = 0

    def step(self) -> None:
        ### BEGIN SOLUTION
        self.t += 1
        for p in self.params:
            if p.grad is None:
                continue
            g = p.grad.cached_data + self.weight_decay * p.cached_data
            self.m[p] = self.beta1 * self.m.get(p, 0.0) + (1 - self.beta1) * g
            self.v[p] = self.beta2 * self.v.get(p, 0.0) + (1 - self.beta2) * g**2
            m = self.m[p] / (1 - self.beta1**self.t)
            v = self.v[p] / (1 - self.beta2**self.t)
            p.cached_data = p.cached_data - self.lr * m / (v**0.5 + self.eps)
        ### END SOLUTION
