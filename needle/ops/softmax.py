"""Softmax, its logarithm, and the logarithm of a sum of exponentials. The maximum is subtracted first."""

from __future__ import annotations

from collections.abc import Sequence

from needle import backend_ndarray as nd
from needle.autograd import NDArray, Tensor, TensorOp
from needle.backend_ndarray.layout import as_axes, normalize_axes, normalize_axis
from needle.ops.arguments import tensor
from needle.ops.elementwise import exp
from needle.ops.reduce import summation
from needle.ops.shape import reshape

Axes = int | Sequence[int] | None


class LogSumExp(TensorOp):
    """log(sum(exp(a))) over axes."""

    def __init__(self, axes: Axes = None, keepdims: bool = False) -> None:
        self.axes, self.keepdims = as_axes("logsumexp", axes), keepdims

    def compute(self, a: NDArray) -> NDArray:
        axes = normalize_axes(self.axes, a.ndim, "logsumexp")
        top = a.max(axes, keepdims=True)
        top = nd.where(top - top == 0, top, 0)  # an infinite maximum is not subtracted: inf - inf is NaN
        out = (a - top).exp().sum(axes, keepdims=True).log() + top
        return out if self.keepdims else out.reshape([n for axis, n in enumerate(a.shape) if axis not in axes])

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        a = node.inputs[0]
        axes = normalize_axes(self.axes, a.ndim, "logsumexp")
        kept = [1 if axis in axes else n for axis, n in enumerate(a.shape)]
        return reshape(out_grad, kept) * exp(a - reshape(node, kept))


def logsumexp(a: Tensor, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Take log(sum(exp(a))) over axes (all of them, an int or several), without overflow.

    Infinities stand: one inf gives inf, nothing but -inf gives -inf. There the gradient is NaN, as inf - inf is.

    >>> import needle as ndl
    >>> logsumexp(ndl.Tensor([[1000.0], [-float("inf")]]), axes=(0,)).numpy().tolist()
    [1000.0]
    """
    return LogSumExp(axes, keepdims)(tensor("logsumexp", a))


class Softmax(TensorOp):
    """s = exp(a) / sum(exp(a)) along an axis; takes the gradient d to s * (d - sum(d * s))."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def compute(self, a: NDArray) -> NDArray:
        return a.softmax(self.axis)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return node * (out_grad - summation(out_grad * node, self.axis, keepdims=True))


def softmax(a: Tensor, axis: int = -1) -> Tensor:
    """Take exp(a) / sum(exp(a)) along an axis. -inf gets 0; nothing but -inf, or an inf, gives NaN.

    >>> import needle as ndl
    >>> softmax(ndl.Tensor([1000.0, 1000.0, -float("inf")])).numpy().tolist()
    [0.5, 0.5, 0.0]
    """
    axis = normalize_axis(axis, tensor("softmax", a).ndim, "softmax")
    return Softmax(axis)(a)


class LogSoftmax(TensorOp):
    """a - log(sum(exp(a))) along an axis; takes the gradient d to d - softmax(a) * sum(d)."""

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def compute(self, a: NDArray) -> NDArray:
        return a.log_softmax(self.axis)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad - exp(node) * summation(out_grad, self.axis, keepdims=True)


def logsoftmax(a: Tensor, axis: int = -1) -> Tensor:
    """Take log(softmax(a)) along an axis, exact where the softmax rounds to 0 or 1.

    >>> import needle as ndl
    >>> logsoftmax(ndl.Tensor([[0.0, 1000.0]])).numpy().tolist()
    [[-1000.0, 0.0]]
    """
    axis = normalize_axis(axis, tensor("logsoftmax", a).ndim, "logsoftmax")
    return LogSoftmax(axis)(a)
