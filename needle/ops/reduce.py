"""Reductions over axes, and running sums.

`axes` is None for all axes, an int or several ints, which may be negative; each axis counts once. With `keepdims` the
reduced axes stay, with length 1. In the bounds on errors, eps is 2**-23 for float32.
"""

from __future__ import annotations

import math

from needle.autograd import NDArray, Tensor, TensorOp
from needle.backend_ndarray.layout import as_axes, normalize_axes, reduced_shapes
from needle.ops.arguments import AxesLike, number, tensor
from needle.ops.cast import astype
from needle.ops.comparison import equal, not_equal
from needle.ops.selection import masked_fill
from needle.ops.shape import broadcast_to, flip, reshape


class Reduction(TensorOp):
    """What reductions share: their axes, and the way back to the shape that was reduced."""

    def __init__(self, axes: AxesLike = None, keepdims: bool = False) -> None:
        self.axes, self.keepdims = as_axes(type(self).__name__, axes), keepdims

    def spread(self, reduced: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Give every element of `shape` the value of `reduced` that it went into."""
        kept, _ = reduced_shapes(shape, normalize_axes(self.axes, len(shape), type(self).__name__))
        return broadcast_to(reduced if reduced.shape == kept else reshape(reduced, kept), shape)


class Summation(Reduction):
    """The sum over axes; each summand takes the whole gradient."""

    def compute(self, a: NDArray) -> NDArray:
        return a.sum(axis=self.axes, keepdims=self.keepdims)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return self.spread(out_grad, node.inputs[0].shape)


def summation(a: Tensor, axes: AxesLike = None, keepdims: bool = False) -> Tensor:
    """Sum over axes. float32 sums of any length are within eps * sum(|a|) of the exact ones.

    >>> import needle as ndl
    >>> summation(ndl.Tensor([[1.0, 2.0], [3.0, 4.0]]), axes=(0,)).numpy().tolist()
    [4.0, 6.0]
    """
    return Summation(axes, keepdims)(a)


def mean(a: Tensor, axes: AxesLike = None, keepdims: bool = False) -> Tensor:
    """Average over axes: Summation, DivScalar. NaN over no elements. In float32 it is within 2 eps times that of |a|.

    >>> import needle as ndl
    >>> mean(ndl.Tensor([[1.0, 2.0], [3.0, 4.0]]), axes=1).numpy().tolist()
    [1.5, 3.5]
    """
    count = _count("mean", a, axes)
    return summation(a, axes, keepdims) / count


def var(a: Tensor, axes: AxesLike = None, keepdims: bool = False, correction: int = 0) -> Tensor:
    """Take the variance over axes, in two passes: the sum of squared distances from the mean over (n - correction).

    With the default this is NumPy's; `correction=1` gives the unbiased estimate, PyTorch's default. In float32 it is
    within 4 eps * var + (eps * mean)**2, as the mean is rounded before it is subtracted.

    >>> import needle as ndl
    >>> var(ndl.Tensor([1.0, 2.0, 3.0, 4.0])).numpy().tolist()
    1.25
    """
    count = _count("var", a, axes) - number("var", "correction", correction)
    centered = a - mean(a, axes, keepdims=True)
    return summation(centered * centered, axes, keepdims) / count


def _count(op: str, a: Tensor, axes: AxesLike) -> int:
    """Give how many elements go into one result."""
    return math.prod([a.shape[axis] for axis in normalize_axes(axes, tensor(op, a).ndim, op)])


class _Extremum(Reduction):
    """A maximum or minimum. Equal ones share the gradient evenly; a NaN gets none."""

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        a = node.inputs[0]
        best = self.spread(node, a.shape)
        count = summation(astype(equal(a, best), out_grad.dtype), self.axes, self.keepdims)
        return masked_fill(self.spread(out_grad / count, a.shape), not_equal(a, best), 0)


class Max(_Extremum):
    """The largest over axes."""

    def compute(self, a: NDArray) -> NDArray:
        return a.max(axis=self.axes, keepdims=self.keepdims)


def max(a: Tensor, axes: AxesLike = None, keepdims: bool = False) -> Tensor:
    """Take the largest over axes. NaN passes; equal ones share the gradient evenly. No elements to choose from raise.

    >>> import needle as ndl
    >>> max(ndl.Tensor([[1.0, 2.0], [4.0, 3.0]]), axes=1).numpy().tolist()
    [2.0, 4.0]
    """
    return Max(axes, keepdims)(a)


class Min(_Extremum):
    """The smallest over axes."""

    def compute(self, a: NDArray) -> NDArray:
        return a.min(axis=self.axes, keepdims=self.keepdims)


def min(a: Tensor, axes: AxesLike = None, keepdims: bool = False) -> Tensor:
    """Take the smallest over axes. NaN passes; equal ones share the gradient evenly. No elements to choose from raise.

    >>> import needle as ndl
    >>> min(ndl.Tensor([[1.0, 2.0], [4.0, 3.0]]), axes=1).numpy().tolist()
    [1.0, 3.0]
    """
    return Min(axes, keepdims)(a)


def argmax(a: Tensor, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Give the position of the first maximum along an axis (in the flattened tensor without one), as int64.

    NaN counts as a maximum. The result is a constant: positions have no gradient.

    >>> import needle as ndl
    >>> argmax(ndl.Tensor([[1.0, 2.0], [4.0, 3.0]]), axis=1).numpy().tolist()
    [1, 0]
    """
    positions = tensor("argmax", a).realize_cached_data().argmax(axis)
    if keepdims:
        positions = positions.reshape(reduced_shapes(a.shape, normalize_axes(axis, a.ndim, "argmax"))[0])
    return Tensor.make_const(positions)


class CumSum(TensorOp):
    """out[i] = a[0] + ... + a[i] along an axis; its adjoint sums up from the end."""

    def __init__(self, axis: int) -> None:
        self.axis = axis

    def compute(self, a: NDArray) -> NDArray:
        return a.cumsum(self.axis)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return flip(cumsum(flip(out_grad, self.axis), self.axis), self.axis)


def cumsum(a: Tensor, axis: int) -> Tensor:
    """Sum up along an axis: element i is the sum of elements 0 to i.

    >>> import needle as ndl
    >>> cumsum(ndl.Tensor([1.0, 2.0, 3.0]), axis=0).numpy().tolist()
    [1.0, 3.0, 6.0]
    """
    return CumSum(axis)(a)
