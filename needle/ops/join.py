"""Joining tensors along an axis, taking them apart, and padding."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from needle import backend_ndarray as nd
from needle.autograd import NDArray, Tensor, TensorOp, TensorTuple, TensorTupleOp
from needle.backend_ndarray.layout import as_widths, normalize_axis
from needle.errors import DTypeError, ShapeError, kind_of
from needle.ops.arguments import promote, tensor


def _at(axis: int, index: int | slice) -> tuple[int | slice, ...]:
    """Make an index along one axis."""
    return (*[slice(None)] * axis, index)


def _joined(op: str, arrays: Iterable[Tensor], free_axis: int | None) -> tuple[Tensor, ...]:
    """Give the tensors to join, promoted: at least one, and of equal shapes but for `free_axis`."""
    tensors = promote(*[tensor(op, a, f"argument {i}") for i, a in enumerate(_some(op, arrays))])
    first = tensors[0].shape
    for other in tensors[1:]:
        differ = [axis for axis in range(other.ndim) if other.shape[axis : axis + 1] != first[axis : axis + 1]]
        if other.ndim != len(first) or not {free_axis}.issuperset(differ):
            rule = "shapes must be equal" if free_axis is None else f"shapes must be equal but for axis {free_axis}"
            raise ShapeError(f"{op}: {rule}, got {first} and {other.shape}")
    return tensors


def _some(op: str, arrays: Iterable[Tensor]) -> list[Tensor]:
    if isinstance(arrays, Tensor):
        raise ShapeError(f"{op}: expected a list of tensors, got one Tensor of shape {arrays.shape}; put it in a list")
    if not isinstance(arrays, Iterable):
        raise DTypeError(f"{op}: expected a list of tensors, got {kind_of(arrays)}")
    listed = list(arrays)
    if not listed:
        raise ShapeError(f"{op}: got an empty list; give at least one tensor")
    return listed


class Stack(TensorOp):
    """Tensors of equal shape along a new axis."""

    def __init__(self, axis: int) -> None:
        self.axis = axis

    def compute(self, *arrays: NDArray) -> NDArray:
        first = arrays[0]
        axis = normalize_axis(self.axis, first.ndim + 1, "stack")
        shape = (*first.shape[:axis], len(arrays), *first.shape[axis:])
        out = nd.empty(shape, dtype=first.dtype, device=first.device)
        for index, array in enumerate(arrays):
            out[_at(axis, slice(index, index + 1))] = array
        return out

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor, ...]:
        return split(out_grad, self.axis).tuple()


def stack(arrays: Iterable[Tensor], axis: int = 0) -> Tensor:
    """Join tensors of equal shape along a new axis, at position `axis` of the result.

    >>> import needle as ndl
    >>> stack([ndl.Tensor([1.0, 2.0]), ndl.Tensor([3.0, 4.0])], axis=1).numpy().tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    return Stack(axis)(*_joined("stack", arrays, free_axis=None))


class Split(TensorTupleOp):
    """The entries along an axis, as a tuple: the inverse of Stack."""

    def __init__(self, axis: int) -> None:
        self.axis = axis

    def compute(self, a: NDArray) -> tuple[NDArray, ...]:
        axis = normalize_axis(self.axis, a.ndim, "split")
        return tuple(a.permute([axis, *range(axis), *range(axis + 1, a.ndim)]))

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> Tensor:
        return stack(out_grad.tuple(), self.axis)


def split(a: Tensor, axis: int = 0) -> TensorTuple:
    """Take a tensor apart along an axis, which the parts no longer have: the inverse of `stack`.

    >>> import needle as ndl
    >>> [part.numpy().tolist() for part in split(ndl.Tensor([[1.0, 2.0], [3.0, 4.0]]), axis=1)]
    [[1.0, 3.0], [2.0, 4.0]]
    """
    axis = normalize_axis(axis, tensor("split", a).ndim, "split")
    if not a.shape[axis]:
        raise ShapeError(f"split: axis {axis} of shape {a.shape} has length 0; there is nothing to give")
    return Split(axis)(a)


class Concatenate(TensorOp):
    """Tensors one behind the other along an axis."""

    def __init__(self, axis: int) -> None:
        self.axis = axis

    def compute(self, *arrays: NDArray) -> NDArray:
        first, lengths = arrays[0], [array.shape[self.axis] for array in arrays]
        shape = (*first.shape[: self.axis], sum(lengths), *first.shape[self.axis + 1 :])
        out = nd.empty(shape, dtype=first.dtype, device=first.device)
        for part, array in zip(_parts(self.axis, lengths), arrays, strict=True):
            out[part] = array
        return out

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor, ...]:
        return tuple([out_grad[part] for part in _parts(self.axis, [a.shape[self.axis] for a in node.inputs])])


def _parts(axis: int, lengths: Sequence[int]) -> list[tuple[int | slice, ...]]:
    """Give the index of each part in the whole."""
    ends = list(itertools.accumulate(lengths))
    return [_at(axis, slice(end - length, end)) for end, length in zip(ends, lengths, strict=True)]


def concatenate(arrays: Iterable[Tensor], axis: int = 0) -> Tensor:
    """Join tensors along an axis that they have; all other lengths are equal.

    >>> import needle as ndl
    >>> concatenate([ndl.Tensor([1.0, 2.0]), ndl.Tensor([3.0])]).numpy().tolist()
    [1.0, 2.0, 3.0]
    """
    listed = _some("concatenate", arrays)
    axis = normalize_axis(axis, tensor("concatenate", listed[0], "argument 0").ndim, "concatenate")
    return Concatenate(axis)(*_joined("concatenate", listed, free_axis=axis))


class Pad(TensorOp):
    """Zeros around a: for each axis a pair, how many before and how many after."""

    def __init__(self, padding: tuple[tuple[int, int], ...]) -> None:
        self.padding = padding

    def compute(self, a: NDArray) -> NDArray:
        return a.pad(self.padding)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        shape = node.inputs[0].shape
        return out_grad[tuple([slice(before, before + n) for (before, _), n in zip(self.padding, shape, strict=True)])]


def pad(a: Tensor, padding: Sequence[tuple[int, int]]) -> Tensor:
    """Put zeros around the elements. `padding` has a pair for each axis: how many before, how many after.

    >>> import needle as ndl
    >>> pad(ndl.Tensor([[1.0, 2.0]]), ((0, 1), (1, 0))).numpy().tolist()
    [[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]]
    """
    return Pad(as_widths("pad", padding, tensor("pad", a).shape))(a)
