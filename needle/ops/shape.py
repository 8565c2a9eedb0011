"""Rearranging and repeating elements. Results are views where the layout allows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from needle import backend_ndarray as nd
from needle.autograd import NDArray, Tensor, TensorOp
from needle.backend_ndarray.layout import as_axes, as_shape, normalize_axes, normalize_axis
from needle.errors import ShapeError
from needle.ops.arguments import AxesLike, integer, tensor


class Transpose(TensorOp):
    """Swap two axes, the last two where none are named."""

    def __init__(self, axes: Sequence[int] | None = None) -> None:
        self.axes = (-2, -1) if axes is None else tuple(axes)

    def compute(self, a: NDArray) -> NDArray:
        return a.swapaxes(*self.axes)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return transpose(out_grad, self.axes)


def transpose(a: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Swap the last two axes, or the two named; `permute` gives all axes a new order.

    >>> import needle as ndl
    >>> transpose(ndl.Tensor([[1.0, 2.0], [3.0, 4.0]])).numpy().tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    two = (-2, -1) if axes is None else axes
    if not isinstance(two, Sequence) or len(two) != 2:
        raise ShapeError(f"transpose: expected two axes to swap, got {axes}; use permute for a whole order")
    normalize_axes(two, tensor("transpose", a).ndim, "transpose")
    return Transpose(two)(a)


class Permute(TensorOp):
    """Axis i of the result is axis axes[i] of a; the inverse order takes the gradient back."""

    def __init__(self, axes: tuple[int, ...]) -> None:
        self.axes = axes

    def compute(self, a: NDArray) -> NDArray:
        return a.permute(self.axes)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return permute(out_grad, sorted(range(len(self.axes)), key=self.axes.__getitem__))


def permute(a: Tensor, axes: Sequence[int]) -> Tensor:
    """Put the axes in a new order: axis i of the result is axis axes[i] of `a`.

    >>> import needle as ndl
    >>> permute(ndl.Tensor([[[1.0, 2.0, 3.0]]]), (2, 0, 1)).shape
    (3, 1, 1)
    """
    order = normalize_axes(axes, tensor("permute", a).ndim, "permute")
    if len(order) != a.ndim:
        raise ShapeError(f"permute: axes {axes} do not name each axis of shape {a.shape}; name each once")
    return Permute(order)(a)


def reverse_axes(a: Tensor) -> Tensor:
    """Put the axes in reverse order; `a.T`.

    >>> import needle as ndl
    >>> ndl.Tensor([[1.0, 2.0, 3.0]]).T.shape
    (3, 1)
    """
    return permute(a, range(tensor("reverse_axes", a).ndim)[::-1])


class Reshape(TensorOp):
    """The same elements, in row-major order, in another shape."""

    def __init__(self, shape: int | Sequence[int]) -> None:
        self.shape = shape

    def compute(self, a: NDArray) -> NDArray:
        return a.reshape(self.shape)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return reshape(out_grad, node.inputs[0].shape)


def reshape(a: Tensor, shape: int | Sequence[int]) -> Tensor:
    """Give the elements, in row-major order, another shape of the same size; one length may be -1.

    >>> import needle as ndl
    >>> reshape(ndl.Tensor([1.0, 2.0, 3.0, 4.0]), (2, -1)).numpy().tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return Reshape(tuple(shape) if isinstance(shape, Iterable) else shape)(tensor("reshape", a))


def squeeze(a: Tensor, axes: AxesLike = None) -> Tensor:
    """Drop axes of length 1: all of them, or those named, which must have length 1. Recorded as Reshape.

    >>> import needle as ndl
    >>> squeeze(ndl.Tensor([[[1.0, 2.0]]]), axes=0).shape
    (1, 2)
    """
    shape = tensor("squeeze", a).shape
    if axes is None:
        return reshape(a, [n for n in shape if n != 1])
    dropped = normalize_axes(axes, len(shape), "squeeze")
    if any(shape[axis] != 1 for axis in dropped):
        raise ShapeError(f"squeeze: axes {axes} of shape {shape} must have length 1; use reshape to merge axes")
    return reshape(a, [n for axis, n in enumerate(shape) if axis not in dropped])


def unsqueeze(a: Tensor, axis: int) -> Tensor:
    """Put in an axis of length 1, at position `axis` of the result. Recorded as Reshape.

    >>> import needle as ndl
    >>> unsqueeze(ndl.Tensor([1.0, 2.0]), -1).shape
    (2, 1)
    """
    shape = list(tensor("unsqueeze", a).shape)
    position = normalize_axis(axis, len(shape) + 1, "unsqueeze")
    return reshape(a, [*shape[:position], 1, *shape[position:]])


class BroadcastTo(TensorOp):
    """a repeated along new axes and axes of length 1; its adjoint sums over them."""

    def __init__(self, shape: int | Sequence[int]) -> None:
        self.shape = as_shape("broadcast_to", shape)

    def compute(self, a: NDArray) -> NDArray:
        return a.broadcast_to(self.shape)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return sum_to(out_grad, node.inputs[0].shape)


def broadcast_to(a: Tensor, shape: int | Sequence[int]) -> Tensor:
    """Repeat along new leading axes and along axes of length 1, without copying.

    >>> import needle as ndl
    >>> broadcast_to(ndl.Tensor([[1.0], [2.0]]), (2, 3)).numpy().tolist()
    [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]
    """
    return BroadcastTo(shape)(a)


def sum_to(a: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Sum over the axes along which `shape` is broadcast to a's shape: the adjoint of `broadcast_to`.

    >>> import needle as ndl
    >>> sum_to(ndl.Tensor([[1.0, 2.0], [3.0, 4.0]]), (2, 1)).numpy().tolist()
    [[3.0], [7.0]]
    """
    shape = as_shape("sum_to", shape)
    if tensor("sum_to", a).shape == shape:
        return a
    lead = a.ndim - len(shape)
    if lead < 0 or any(n not in (1, wide) for n, wide in zip(shape, a.shape[lead:], strict=True)):
        raise ShapeError(f"sum_to: shape {shape} does not broadcast to {a.shape}, that of the tensor")
    axes = tuple([axis for axis, n in enumerate(a.shape) if axis < lead or shape[axis - lead] != n])
    summed = a.sum(axes)
    return summed if summed.shape == shape else reshape(summed, shape)


class Flip(TensorOp):
    """a backwards along the axes."""

    def __init__(self, axes: AxesLike) -> None:
        self.axes = as_axes("flip", axes)

    def compute(self, a: NDArray) -> NDArray:
        return a.flip(self.axes)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return flip(out_grad, self.axes)


def flip(a: Tensor, axes: AxesLike) -> Tensor:
    """Reverse the order along the axes.

    >>> import needle as ndl
    >>> flip(ndl.Tensor([[1.0, 2.0], [3.0, 4.0]]), axes=(0,)).numpy().tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    """
    return Flip(axes)(a)


def _within(axes: Sequence[int] | None, ndim: int) -> set[int]:
    """Give the axes that are in range, none of them negative."""
    return {axis % ndim for axis in (range(ndim) if axes is None else axes) if -ndim <= axis < ndim}


class Dilate(TensorOp):
    """Put `dilation` zeros after every element along the axes."""

    def __init__(self, axes: AxesLike, dilation: int) -> None:
        self.axes, self.dilation = as_axes("dilate", axes), dilation

    def compute(self, a: NDArray) -> NDArray:
        axes, step = _within(self.axes, a.ndim), self.dilation + 1
        shape = [n * step if axis in axes else n for axis, n in enumerate(a.shape)]
        out = nd.full(tuple(shape), 0, dtype=a.dtype, device=a.device)
        out[_every(axes, step, a.ndim)] = a
        return out

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return undilate(out_grad, self.axes, self.dilation)


def dilate(a: Tensor, axes: AxesLike, dilation: int) -> Tensor:
    """Put `dilation` zeros after every element along the axes: a length of n becomes n * (dilation + 1).

    Axes out of range are ignored.

    >>> import needle as ndl
    >>> dilate(ndl.Tensor([1.0, 2.0]), axes=(0,), dilation=1).numpy().tolist()
    [1.0, 0.0, 2.0, 0.0]
    """
    return Dilate(axes, integer("dilate", "dilation", dilation, least=0))(a)


class UnDilate(TensorOp):
    """Keep every (dilation + 1)-th element along the axes."""

    def __init__(self, axes: AxesLike, dilation: int) -> None:
        self.axes, self.dilation = as_axes("undilate", axes), dilation

    def compute(self, a: NDArray) -> NDArray:
        return a[_every(_within(self.axes, a.ndim), self.dilation + 1, a.ndim)]

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        dilated, shape = dilate(out_grad, self.axes, self.dilation), node.inputs[0].shape
        return dilated if dilated.shape == shape else dilated[tuple([slice(n) for n in shape])]


def undilate(a: Tensor, axes: AxesLike, dilation: int) -> Tensor:
    """Keep every (dilation + 1)-th element along the axes, beginning with the first: the inverse of `dilate`.

    Axes out of range are ignored.

    >>> import needle as ndl
    >>> undilate(ndl.Tensor([1.0, 0.0, 2.0, 0.0]), axes=(0,), dilation=1).numpy().tolist()
    [1.0, 2.0]
    """
    return UnDilate(axes, integer("undilate", "dilation", dilation, least=0))(a)


def _every(axes: set[int], step: int, ndim: int) -> Any:
    """Make an index that takes every step-th element along the axes, and all along the others."""
    return tuple([slice(None, None, step if axis in axes else 1) for axis in range(ndim)])
