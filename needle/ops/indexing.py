"""Indexing as NumPy does it, `take`, `gather`, `embedding`. Where an element is taken twice, its gradients add up."""

from __future__ import annotations

from typing import Any

import numpy as np

from needle import backend_ndarray as nd
from needle.autograd import NDArray, Tensor, TensorOp
from needle.backend_ndarray.dtypes import as_ndarray, ids_below, whole_numbers
from needle.backend_ndarray.layout import normalize_axis
from needle.errors import BoundsError, DTypeError, ShapeError
from needle.ops.arguments import tensor


class GetItem(TensorOp):
    """Take the elements at an index: ints, slices, None, Ellipsis, integer and boolean arrays."""

    def __init__(self, index: tuple[Any, ...]) -> None:
        self.index = index

    def compute(self, a: NDArray) -> NDArray:
        return a.select(self.index)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return AddAt(self.index, node.inputs[0].shape)(out_grad)


class AddAt(TensorOp):
    """Add elements into zeros of a given shape at an index: the adjoint of GetItem."""

    def __init__(self, index: tuple[Any, ...], shape: tuple[int, ...]) -> None:
        self.index, self.shape = index, shape

    def compute(self, a: NDArray) -> NDArray:
        out = nd.full(self.shape, 0, dtype=a.dtype, device=a.device)
        out.add_at(self.index, a)
        return out

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return GetItem(self.index)(out_grad)


def getitem(a: Tensor, index: Any) -> Tensor:
    """Index as NumPy does: `a[index]`. An int drops its axis; arrays of ints (of any dtype with whole values) copy.

    >>> import needle as ndl
    >>> a = ndl.Tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> getitem(a, (0, slice(None, None, -1))).numpy().tolist(), a[[0, 0, 1], 1].numpy().tolist()
    ([2.0, 1.0], [2.0, 2.0, 4.0])
    """
    items = index if isinstance(index, tuple) else (index,)
    return GetItem(tuple([_plain("getitem", item) for item in items]))(tensor("getitem", a))


def _plain(op: str, item: Any) -> Any:
    """Copy an array that an index is made of, so that nobody else can change it; leave other entries."""
    if not isinstance(item, (Tensor, NDArray, np.ndarray, list)):
        return item
    array = as_ndarray(op, item)
    return array.copy() if array.dtype.kind == "b" else whole_numbers(op, "indices", array)


def _indices(op: str, values: Any, shape: tuple[int, ...], axis: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Give the indices along an axis as whole numbers in range, or raise."""
    array = as_ndarray(op, values)
    if array.dtype.kind == "b":
        raise DTypeError(f"{op}: indices must be whole numbers, not bools; index with a[mask] instead")
    array = whole_numbers(op, "indices", array)
    astray = array[(array < -shape[axis]) | (array >= shape[axis])]
    if astray.size:
        raise BoundsError(f"{op}: index {astray[0]} is out of range for axis {axis} of shape {shape}")
    return array


def take(a: Tensor, indices: Any, axis: int | None = None) -> Tensor:
    """Take the entries at `indices`, an array of any shape, along an axis (of the flattened tensor without one).

    The result has the shape of `indices` in the place of the axis, as `numpy.take` gives it.

    >>> import needle as ndl
    >>> take(ndl.Tensor([[1.0, 2.0], [3.0, 4.0]]), [1, 1, 0], axis=0).numpy().tolist()
    [[3.0, 4.0], [3.0, 4.0], [1.0, 2.0]]
    """
    if axis is None:
        a, axis = tensor("take", a).reshape(-1), 0
    axis = normalize_axis(axis, tensor("take", a).ndim, "take")
    return GetItem((*[slice(None)] * axis, _indices("take", indices, a.shape, axis)))(a)


def embedding(weight: Tensor, ids: Any) -> Tensor:
    """Take a row of `weight` (rows, dim) for each id: ids of any shape -> (*ids.shape, dim).

    Ids have any dtype with whole values, and no gradient. One outside 0..rows - 1 raises BoundsError, which names it
    and its place.

    >>> import needle as ndl
    >>> embedding(ndl.Tensor([[1.0, 2.0], [3.0, 4.0]]), [1, 1, 0]).numpy().tolist()
    [[3.0, 4.0], [3.0, 4.0], [1.0, 2.0]]
    """
    if tensor("embedding", weight, "the weight").ndim != 2:
        raise ShapeError(f"embedding: expected a weight of axes (rows,dim), got shape {weight.shape}")
    return GetItem((ids_below("embedding", weight.shape[0], ids, "give a weight of more rows"),))(weight)


def gather(a: Tensor, axis: int, indices: Any) -> Tensor:
    """Take, at each place, the entry at indices[place] along an axis, as `torch.gather`.

    For axis 1 of a matrix: out[i, j] = a[i, indices[i, j]]. `indices` has a's number of axes, and along the others
    it is no longer than `a`; the result has its shape.

    >>> import needle as ndl
    >>> gather(ndl.Tensor([[1.0, 2.0], [3.0, 4.0]]), 1, [[1], [0]]).numpy().tolist()
    [[2.0], [3.0]]
    """
    axis = normalize_axis(axis, tensor("gather", a).ndim, "gather")
    places = _indices("gather", indices, a.shape, axis)
    others = [n for other, n in enumerate(a.shape) if other != axis]
    if places.ndim != a.ndim or any(m > n for m, n in zip(np.delete(places.shape, axis), others, strict=True)):
        raise ShapeError(
            f"gather: indices of shape {places.shape} do not fit shape {a.shape}; "
            f"they need its number of axes and, but for axis {axis}, at most its lengths"
        )
    mesh: list[Any] = list(np.ogrid[tuple([slice(n) for n in places.shape])])
    mesh[axis] = places
    return GetItem(tuple(mesh))(a)
