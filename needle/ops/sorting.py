"""Sorting along an axis. Positions are constants; gradients go to the values they came from."""

from __future__ import annotations

from typing import NamedTuple

from needle.autograd import NDArray, Tensor
from needle.backend_ndarray.layout import normalize_axis
from needle.errors import ShapeError
from needle.ops.arguments import integer, tensor
from needle.ops.indexing import gather


class Sorted(NamedTuple):
    """Values in order, and the positions (int64) that they had."""

    values: Tensor
    indices: Tensor


def sort(a: Tensor, axis: int = -1, descending: bool = False) -> Sorted:
    """Sort along an axis; equal ones keep their order, NaN counts as the largest. Recorded as GetItem.

    >>> import needle as ndl
    >>> values, indices = sort(ndl.Tensor([2.0, 3.0, 1.0]), descending=True)
    >>> values.numpy().tolist(), indices.numpy().tolist()
    ([3.0, 2.0, 1.0], [1, 0, 2])
    """
    length = tensor("sort", a).shape[normalize_axis(axis, a.ndim, "sort")]
    return topk(a, length, axis, largest=descending)


def topk(a: Tensor, k: int, axis: int = -1, largest: bool = True) -> Sorted:
    """Give the k largest (or smallest) along an axis, in order; the first of equal ones comes first.

    >>> import needle as ndl
    >>> topk(ndl.Tensor([2.0, 3.0, 1.0]), 2).values.numpy().tolist()
    [3.0, 2.0]
    """
    axis = normalize_axis(axis, tensor("topk", a).ndim, "topk")
    length = a.shape[axis]
    if integer("topk", "k", k, least=0) > length:
        raise ShapeError(f"topk: k = {k} is larger than the length {length} of axis {axis} of shape {a.shape}")
    order = _descending_order if largest else NDArray.argsort
    indices = Tensor.make_const(order(a.realize_cached_data(), axis))[(*[slice(None)] * axis, slice(k))]
    return Sorted(gather(a, axis, indices), indices)


def _descending_order(a: NDArray, axis: int) -> NDArray:
    """Sort from back to front, before and after, so that equal ones stay in order."""
    return (a.shape[axis] - 1) - a.flip((axis,)).argsort(axis).flip((axis,))
