"""Activation functions, with the names and defaults of the field."""

from __future__ import annotations

import math

from needle import backend_ndarray as nd
from needle.autograd import NDArray, Tensor, TensorOp
from needle.backend_ndarray import layers
from needle.errors import OptionError
from needle.ops.arguments import number
from needle.ops.comparison import greater
from needle.ops.elementwise import exp
from needle.ops.selection import Choice, minimum, where


class ReLU(TensorOp):
    """max(a, 0); the slope at 0 is 0."""

    def compute(self, a: NDArray) -> NDArray:
        return a.maximum(0)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return ReLUGradient(node.realize_cached_data())(out_grad)


class ReLUGradient(Choice):
    """d where ReLU gave more than 0 or NaN, else 0: its input is not needed."""

    def compute(self, d: NDArray) -> NDArray:
        return layers.relu_gradient(d, self.condition)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return ReLUGradient(self.condition)(out_grad)


def relu(a: Tensor) -> Tensor:
    """Take max(a, 0). NaN passes; the gradient at 0 is 0.

    >>> import needle as ndl
    >>> relu(ndl.Tensor([-1.0, 0.0, 2.0])).numpy().tolist()
    [0.0, 0.0, 2.0]
    """
    return ReLU()(a)


class LeakyReLU(TensorOp):
    """a where a > 0, else negative_slope * a."""

    def __init__(self, negative_slope: float) -> None:
        self.negative_slope = negative_slope

    def compute(self, a: NDArray) -> NDArray:
        return nd.where(a > 0, a, a * self.negative_slope)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return where(greater(node.inputs[0], 0), out_grad, out_grad * self.negative_slope)


def leaky_relu(a: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Take a where it is positive, else a * negative_slope. The slope at 0 is negative_slope.

    >>> import needle as ndl
    >>> leaky_relu(ndl.Tensor([-2.0, 2.0]), negative_slope=0.5).numpy().tolist()
    [-1.0, 2.0]
    """
    return LeakyReLU(number("leaky_relu", "negative_slope", negative_slope))(a)


class ELU(TensorOp):
    """a where a > 0, else alpha * (exp(a) - 1)."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def compute(self, a: NDArray) -> NDArray:
        half = (a.minimum(0) / 2).tanh()  # exp(a) - 1 = 2t / (1 - t) with t = tanh(a / 2), exact near 0 too
        return nd.where(a > 0, a, half * (2 * self.alpha) / (1 - half))

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        a = node.inputs[0]
        return where(greater(a, 0), out_grad, out_grad * exp(minimum(a, 0)) * self.alpha)


def elu(a: Tensor, alpha: float = 1.0) -> Tensor:
    """Take a where it is positive, else alpha * (exp(a) - 1) (Clevert et al., 2015).

    >>> import needle as ndl
    >>> elu(ndl.Tensor([-100.0, 2.0]), alpha=0.5).numpy().tolist()
    [-0.5, 2.0]
    """
    return ELU(number("elu", "alpha", alpha))(a)


class Tanh(TensorOp):
    """tanh(a), whose slope is 1 - tanh(a)**2."""

    def compute(self, a: NDArray) -> NDArray:
        return a.tanh()

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad * (1 - node * node)


def tanh(a: Tensor) -> Tensor:
    """Take the hyperbolic tangent.

    >>> import needle as ndl
    >>> tanh(ndl.Tensor([0.0, 100.0])).numpy().tolist()
    [0.0, 1.0]
    """
    return Tanh()(a)


class Sigmoid(TensorOp):
    """s(a) = 1 / (1 + exp(-a)), whose slope is s * (1 - s)."""

    def compute(self, a: NDArray) -> NDArray:
        return a.sigmoid()

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad * (node * (1 - node))


def sigmoid(a: Tensor) -> Tensor:
    """Take 1 / (1 + exp(-a)), without overflow.

    >>> import needle as ndl
    >>> sigmoid(ndl.Tensor([0.0, 1000.0])).numpy().tolist()
    [0.5, 1.0]
    """
    return Sigmoid()(a)


class SiLU(TensorOp):
    """a * s(a), s being the sigmoid."""

    def compute(self, a: NDArray) -> NDArray:
        return a * a.sigmoid()

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        a = node.inputs[0]
        gate = sigmoid(a)
        return out_grad * (gate * (1 + a * (1 - gate)))


def silu(a: Tensor) -> Tensor:
    """Take a * sigmoid(a), also known as swish.

    >>> import needle as ndl
    >>> silu(ndl.Tensor([0.0, 100.0])).numpy().tolist()
    [0.0, 100.0]
    """
    return SiLU()(a)


class Softplus(TensorOp):
    """log(1 + exp(a)) = max(a, 0) + log(1 + exp(-|a|))."""

    def compute(self, a: NDArray) -> NDArray:
        tail = (-a.abs()).exp()
        grown = tail + 1
        # log(1 + tail), keeping the digits that 1 + tail rounds off: Kahan's correction
        small = grown == 1
        log1p = nd.where(small, tail, grown.log() * tail / nd.where(small, 1, grown - 1))
        return a.maximum(0) + log1p

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad * sigmoid(node.inputs[0])


def softplus(a: Tensor) -> Tensor:
    """Take log(1 + exp(a)), without overflow and exact in both tails.

    >>> import needle as ndl
    >>> softplus(ndl.Tensor([1000.0])).numpy().tolist()
    [1000.0]
    """
    return Softplus()(a)


class Erf(TensorOp):
    """erf(a), whose slope is 2 / sqrt(pi) * exp(-a**2)."""

    def compute(self, a: NDArray) -> NDArray:
        return a.erf()

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        a = node.inputs[0]
        return out_grad * exp(-(a * a)) * (2 / math.sqrt(math.pi))


def erf(a: Tensor) -> Tensor:
    """Take the error function.

    >>> import needle as ndl
    >>> erf(ndl.Tensor([0.0, 10.0])).numpy().tolist()
    [0.0, 1.0]
    """
    return Erf()(a)


class GELU(TensorOp):
    """a * P(a), P(a) = (1 + erf(a / sqrt(2))) / 2 being the normal distribution's share below a."""

    def compute(self, a: NDArray) -> NDArray:
        return a * ((a * math.sqrt(0.5)).erf() + 1) * 0.5

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        a = node.inputs[0]
        below = (erf(a * math.sqrt(0.5)) + 1) * 0.5
        density = exp(a * a * -0.5) * (1 / math.sqrt(2 * math.pi))
        return out_grad * (below + a * density)


class TanhGELU(TensorOp):
    """GELU by tanh: a * (1 + tanh(u)) / 2 = a * sigmoid(2u), with 2u = a * (SLOPE + CUBIC * a**2)."""

    SLOPE = math.sqrt(8 / math.pi)
    CUBIC = SLOPE * 0.044715

    def compute(self, a: NDArray) -> NDArray:
        return a * (a * (a * a * self.CUBIC + self.SLOPE)).sigmoid()

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        a = node.inputs[0]
        square = a * a
        gate = sigmoid(a * (square * self.CUBIC + self.SLOPE))
        return out_grad * (gate * (1 + a * (1 - gate) * (square * (3 * self.CUBIC) + self.SLOPE)))


def gelu(a: Tensor, approximate: str = "none") -> Tensor:
    """Take a times the share of a standard normal below a (Hendrycks and Gimpel, 2016).

    Args:
        a: any shape.
        approximate: "none" for the error function, "tanh" for the paper's approximation.

    >>> import needle as ndl
    >>> gelu(ndl.Tensor([0.0, 100.0])).numpy().tolist()
    [0.0, 100.0]
    """
    if approximate not in ("none", "tanh"):
        raise OptionError(f'gelu: approximate must be "none" or "tanh", got {approximate!r}')
    return GELU()(a) if approximate == "none" else TanhGELU()(a)
