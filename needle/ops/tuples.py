"""Tuples of tensors in the graph."""

from __future__ import annotations

import numpy as np

from needle import backend_ndarray as nd
from needle.autograd import NDArray, Tensor, TensorOp, TensorTuple, TensorTupleOp, Value
from needle.errors import BoundsError, DTypeError, ShapeError, kind_of
from needle.ops.arguments import as_scalar, tensor


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

    reads_values = False

    def __init__(self, index: int) -> None:
        self.index = index

    def compute(self, arrays: tuple[NDArray, ...]) -> NDArray:
        return arrays[self.index]

    def gradient(self, out_grad: Tensor, node: Tensor) -> TensorTuple:
        return _Entry(node.inputs[0], self.index, out_grad)


class _Entry(TensorTuple):
    """An entry among zeros, added to the `rest`, if any: how the gradient of a tuple arrives from its entries.

    It is put together when it is read. One more entry is added in constant time, so that the gradients of n entries
    take time in proportion to n.
    """

    __slots__ = ("_like", "_index", "_entry", "_rest")

    def __init__(self, like: TensorTuple, index: int, entry: Tensor, rest: TensorTuple | None = None) -> None:
        self.op, self.inputs, self.versions, self._array = MakeTensorTuple(), (), (), None
        self.requires_grad = entry.requires_grad or (rest is not None and rest.requires_grad)
        self._like, self._index, self._entry, self._rest = like, index, entry, rest

    def has_shape_of(self, other: Value) -> bool:
        return other is self._like or super().has_shape_of(other)

    def __add__(self, other: TensorTuple) -> TensorTuple:
        return other.__radd__(self) if isinstance(other, _Entry) else tuple_add(self, other)

    def __radd__(self, other: TensorTuple) -> TensorTuple:
        alone = self._rest is None
        return _Entry(self._like, self._index, self._entry, other) if alone else tuple_add(other, self)

    def _realize_below(self) -> None:
        arrived: list[tuple[int, Tensor]] = []
        rest: TensorTuple | None = self
        while isinstance(rest, _Entry) and rest._array is None:
            arrived.append((rest._index, rest._entry))
            rest = rest._rest
        like = self._like._array
        sums: list[Tensor | None] = [None] * len(like) if rest is None else list(rest.tuple())
        for index, entry in reversed(arrived):
            before = sums[index]
            sums[index] = entry if before is None else before + entry
        whole = make_tuple(*[_zeros_like(a) if total is None else total for a, total in zip(like, sums, strict=True)])
        self._array = whole.realize_cached_data()
        self.op, self.inputs, self.versions = whole.op, whole.inputs, whole.versions
        self.requires_grad = whole.requires_grad


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
        raise DTypeError(f"tuple_get_item: expected a needle.TensorTuple, got {kind_of(t)}")
    if not isinstance(i, (int, np.integer)):
        raise DTypeError(f"tuple_get_item: the index must be an int, got {i!r}; t.tuple() can be sliced")
    if not -len(t) <= i < len(t):
        raise BoundsError(f"tuple_get_item: index {i} is out of range for a tuple of {len(t)}")
    if isinstance(t.op, MakeTensorTuple):
        return t.inputs[i]
    if not t.requires_grad and t._array is not None:
        return Tensor.make_const(t._array[i])
    return TupleGetItem(i % len(t))(t)


def tuple_add(a: TensorTuple, b: TensorTuple) -> TensorTuple:
    """Add two TensorTuples, entry by entry.

    >>> import needle as ndl
    >>> pair = make_tuple(ndl.Tensor([1.0]), ndl.Tensor([2.0]))
    >>> [entry.numpy().tolist() for entry in tuple_add(pair, pair)]
    [[2.0], [4.0]]
    """
    if not isinstance(b, TensorTuple):
        raise DTypeError(f"tuple_add: expected a needle.TensorTuple, got {kind_of(b)}")
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
    return FusedAddScalars(as_scalar("fused_add_scalars", "c0", c0), as_scalar("fused_add_scalars", "c1", c1))(a)
