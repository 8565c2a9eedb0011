"""Activation functions as modules; `needle.ops` says what each computes."""

from __future__ import annotations

from needle import ops
from needle.autograd import Tensor
from needle.nn.module import Module


class ReLU(Module):
    """max(x, 0).

    >>> ReLU()(Tensor([-1.0, 2.0])).numpy().tolist()
    [0.0, 2.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        return ops.relu(x)


class Sigmoid(Module):
    """1 / (1 + exp(-x)).

    >>> Sigmoid()(Tensor([0.0])).numpy().tolist()
    [0.5]
    """

    def forward(self, x: Tensor) -> Tensor:
        return ops.sigmoid(x)


class Tanh(Module):
    """The hyperbolic tangent.

    >>> Tanh()(Tensor([0.0])).numpy().tolist()
    [0.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        return ops.tanh(x)


class LeakyReLU(Module):
    """x where it is positive, else x * negative_slope.

    >>> LeakyReLU(negative_slope=0.5)(Tensor([-1.0, 2.0])).numpy().tolist()
    [-0.5, 2.0]
    """

    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        return ops.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}"


class ELU(Module):
    """x where it is positive, else alpha * (exp(x) - 1).

    >>> ELU()(Tensor([-100.0, 2.0])).numpy().tolist()
    [-1.0, 2.0]
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return ops.elu(x, self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


class GELU(Module):
    """x times the share of a standard normal below x; `approximate="tanh"` for the approximation.

    >>> GELU()(Tensor([0.0])).numpy().tolist()
    [0.0]
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return ops.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class SiLU(Module):
    """x * sigmoid(x), also known as swish.

    >>> SiLU()(Tensor([0.0])).numpy().tolist()
    [0.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        return ops.silu(x)


class Softplus(Module):
    """log(1 + exp(x)), without overflow.

    >>> Softplus()(Tensor([1000.0])).numpy().tolist()
    [1000.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        return ops.softplus(x)


class Softmax(Module):
    """exp(x) / sum(exp(x)) along `axis`.

    >>> Softmax()(Tensor([[0.0, 0.0]])).numpy().tolist()
    [[0.5, 0.5]]
    """

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return ops.softmax(x, self.axis)

    def extra_repr(self) -> str:
        return f"axis={self.axis}"
