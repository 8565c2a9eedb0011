"""Softmax, its logarithm, and the logarithm of a sum of exponentials. The maximum is subtracted first.

In the bounds on errors, eps is 2**-23 for float32.
"""

from __future__ import annotations

from needle import backend_ndarray as nd
from needle.autograd import NDArray, Tensor, TensorOp
from needle.backend_ndarray.layout import normalize_axes, normalize_axis, reduced_shapes
from needle.ops.arguments import AxesLike, tensor
from needle.ops.elementwise import exp
from needle.ops.reduce import Reduction, summation


class LogSumExp(Reduction):
    """log(sum(exp(a))) over axes; its slope is exp(a - out), the softmax."""

    def compute(self, a: NDArray) -> NDArray:
        axes = normalize_axes(self.axes, a.ndim, "logsumexp")
        top = a.max(axes, keepdims=True)
        top = nd.where(top - top == 0, top, 0)  # an infinite maximum is not subtracted: inf - inf is NaN
        out = (a - top).exp().sum(axes, keepdims=True).log() + top
        return out if self.keepdims else out.reshape(reduced_shapes(a.shape, axes)[1])

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        a = node.inputs[0]
        return self.spread(out_grad, a.shape) * exp(a - self.spread(node, a.shape))


def logsumexp(a: Tensor, axes: AxesLike = None, keepdims: bool = False) -> Tensor:
    """Take log(sum(exp(a))) over axes (all of them, an int or several), without overflow.

    Infinities stand: one inf gives inf, nothing but -inf gives -inf. There the gradient is NaN, as inf - inf is. Else
    within 4 eps * max(1, |out|, |max(a)|) in float32.

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

    In float32 the relative error is within eps * (3 + max(a) - a); what is below 2**-126 may become 0.

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
    """Take log(softmax(a)) along an axis: within 2 eps * (1 + |out|) in float32, where the softmax is 0 too.

    >>> import needle as ndl
    >>> logsoftmax(ndl.Tensor([[0.0, 1000.0]])).numpy().tolist()
    [[-1000.0, 0.0]]
    """
    axis = normalize_axis(axis, tensor("logsoftmax", a).ndim, "logsoftmax")
    return LogSoftmax(axis)(a)
