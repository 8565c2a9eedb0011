"""Tuples of tensors in the graph."""

from __future__ import annotations

import numpy as np

from needle import backend_ndarray as nd
from needle.autograd import NDArray, Tensor, TensorOp, TensorTuple, TensorTupleOp
from needle.errors import BoundsError, DTypeError, ShapeError
from needle.ops.arguments import number, tensor


class MakeTensorTuple(TensorTupleOp):
    """The inputs, as one tuple."""

    def compute(self, *arrays: NDArray) -> tuple[NDArray, ...]:
        return arrays

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> tuple[Tensor, ...]:
        return out_grad.tuple()


def make_tuple(*ts: Tensor) -> TensorTuple:
    """Make a TensorTuple of tensors.

    >>> import needle as ndl
    >>> len(make_tuple(ndl.Tensor([1.0]), ndl.Tensor([2.0, 3.0])))
    2
    """
    if not ts:
        raise ShapeError("make_tuple: got no tensors; give at least one")
    return MakeTensorTuple()(*[tensor("make_tuple", t, f"argument {i}") for i, t in enumerate(ts)])


class TupleGetItem(TensorOp):
    """One entry of a tuple; the others get a gradient of zeros."""

    def __init__(self, index: int) -> None:
        self.index = index

    def compute(self, arrays: tuple[NDArray, ...]) -> NDArray:
        return arrays[self.index]

    def gradient(self, out_grad: Tensor, node: Tensor) -> TensorTuple:
        entries = [_zeros_like(entry) for entry in node.inputs[0].realize_cached_data()]
        entries[self.index] = out_grad
        return make_tuple(*entries)


def _zeros_like(array: NDArray) -> Tensor:
    zero = nd.full((), 0, dtype=array.dtype, device=array.device)
    return Tensor.make_const(zero.broadcast_to(array.shape))


def tuple_get_item(t: TensorTuple, i: int) -> Tensor:
    """Take entry `i` of a TensorTuple. What `make_tuple` was given comes back itself, with no node between.

    >>> import needle as ndl
    >>> tuple_get_item(make_tuple(ndl.Tensor([1.0]), ndl.Tensor([2.0, 3.0])), 1).numpy().tolist()
    [2.0, 3.0]
    """
    if not isinstance(t, TensorTuple):
        raise DTypeError(f"tuple_get_item: expected a needle.TensorTuple, got a {type(t).__name__}")
    if not isinstance(i, (int, np.integer)):
        raise DTypeError(f"tuple_get_item: the index must be an int, got {i!r}; t.tuple() can be sliced")
    if not -len(t) <= i < len(t):
        raise BoundsError(f"tuple_get_item: index {i} is out of range for a tuple of {len(t)}")
    return t.inputs[i] if isinstance(t.op, MakeTensorTuple) else TupleGetItem(i % len(t))(t)


def tuple_add(a: TensorTuple, b: TensorTuple) -> TensorTuple:
    """Add two TensorTuples, entry by entry.

    >>> import needle as ndl
    >>> pair = make_tuple(ndl.Tensor([1.0]), ndl.Tensor([2.0]))
    >>> [entry.numpy().tolist() for entry in tuple_add(pair, pair)]
    [[2.0], [4.0]]
    """
    if not isinstance(b, TensorTuple):
        raise DTypeError(f"tuple_add: expected a needle.TensorTuple, got a {type(b).__name__}")
    if len(a) != len(b):
        raise ShapeError(f"tuple_add: tuples of {len(a)} and {len(b)} tensors do not match")
    return make_tuple(*[x + y for x, y in zip(a, b, strict=True)])


class FusedAddScalars(TensorTupleOp):
    """The pair (a + c0, a + c1)."""

    def __init__(self, c0: float, c1: float) -> None:
        self.c0, self.c1 = c0, c1

    def compute(self, a: NDArray) -> tuple[NDArray, NDArray]:
        return a + self.c0, a + self.c1

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> Tensor:
        return out_grad[0] + out_grad[1]


def fused_add_scalars(a: Tensor, c0: float, c1: float) -> TensorTuple:
    """Give the tuple (a + c0, a + c1).

    >>> import needle as ndl
    >>> [entry.numpy().tolist() for entry in fused_add_scalars(ndl.Tensor([1.0]), 2, 3)]
    [[3.0], [4.0]]
    """
    return FusedAddScalars(number("fused_add_scalars", "c0", c0), number("fused_add_scalars", "c1", c1))(a)
