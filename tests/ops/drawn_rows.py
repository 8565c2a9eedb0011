"""Strategies of rows like the table's, whose shapes and arguments hypothesis draws: what drives test_properties.py."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from needle import ops
from tests.backend_ndarray.strategies import indices
from tests.ops.table import ACTIVATION, ARITHMETIC, SELECTION, Row

Shape = tuple[int, ...]
ELEMENTWISE = [
    *ARITHMETIC, *ACTIVATION, *[row for row in SELECTION if not row.name.startswith(("masked_fill", "where"))]
]  # fmt: skip


def shapes(dims: int = 0, side: int = 0) -> st.SearchStrategy[Shape]:
    """Draw shapes of at least that many axes, each at least that long."""
    return hnp.array_shapes(min_dims=dims, max_dims=3, min_side=side, max_side=3)


LONG = st.sampled_from([(300,), (5, 67), (67, 5), (2, 35, 3)])  # more than a vector or a tile holds, and a rest


def axis_of(shape: Shape) -> st.SearchStrategy[int]:
    return st.integers(-len(shape), len(shape) - 1)


@st.composite
def elementwise(draw: st.DrawFn) -> Row:
    row = draw(st.sampled_from(ELEMENTWISE))
    together = hnp.mutually_broadcastable_shapes(
        num_shapes=len(row.shapes), base_shape=draw(st.just(()) | LONG), max_dims=3, min_side=0, max_side=3
    )
    low, high = row.domain  # linspace meets no kink in an interval of irrational length
    return replace(row, shapes=draw(together).input_shapes, domain=(low, high + math.pi / 100))


@st.composite
def choice(draw: st.DrawFn) -> Row:
    condition, *sides = draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3)).input_shapes
    mask = draw(hnp.arrays(bool, condition))
    if draw(st.booleans()):
        return Row("where", lambda a, b: ops.where(mask, a, b), lambda a, b: np.where(mask, a, b), tuple(sides))
    whole = np.broadcast_shapes(condition, sides[0])
    return Row("masked_fill", lambda a: ops.masked_fill(a, mask, 7), lambda a: np.where(mask, 7, a), (whole,))


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "summation": np.sum,
    "mean": np.mean,
    "var": np.var,
    "max": np.max,
    "min": np.min,
    "logsumexp": lambda a, axis, keepdims: np.log(np.exp(a).sum(axis, keepdims=keepdims)),
}


@st.composite
def reduction(draw: st.DrawFn) -> Row:
    shape = draw(shapes())
    axes = draw(st.none() | (hnp.valid_tuple_axes(len(shape)) | axis_of(shape) if shape else st.just(())))
    keepdims = draw(st.booleans())
    reduced = range(len(shape)) if axes is None else np.atleast_1d(axes)
    some = all(shape[axis] for axis in reduced)
    name = draw(st.sampled_from(list(REDUCTIONS) if some else ["summation"]))  # nothing has a sum, but no mean or max
    ours, theirs = getattr(ops, name), REDUCTIONS[name]
    return Row(
        f"{name}: {axes=}", lambda a: ours(a, axes, keepdims), lambda a: theirs(a, axes, keepdims=keepdims), (shape,)
    )


def _softmax(a: np.ndarray, axis: int) -> np.ndarray:
    return np.exp(a) / np.exp(a).sum(axis, keepdims=True)


ALONG_ONE_AXIS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "softmax": (ops.softmax, _softmax),
    "logsoftmax": (ops.logsoftmax, lambda a, axis: np.log(_softmax(a, axis))),
    "cumsum": (ops.cumsum, np.cumsum),
    "sort": (lambda a, axis: ops.sort(a, axis).values, np.sort),
    "sort: descending": (lambda a, axis: ops.sort(a, axis, descending=True).values, lambda a, axis: -np.sort(-a, axis)),
    "split and stack": (lambda a, axis: ops.stack(ops.split(a, axis), 0), lambda a, axis: np.moveaxis(a, axis, 0)),
    "unsqueeze": (ops.unsqueeze, np.expand_dims),
}


@st.composite
def along_one_axis(draw: st.DrawFn) -> Row:
    name = draw(st.sampled_from(list(ALONG_ONE_AXIS)))
    shape = draw(shapes(1, side=name.startswith("split")))
    axis = draw(axis_of(shape))
    ours, theirs = ALONG_ONE_AXIS[name]
    return Row(f"{name}: {axis=}", lambda a: ours(a, axis), lambda a: theirs(a, axis), (shape,))


@st.composite
def topk(draw: st.DrawFn) -> Row:
    shape = draw(shapes(1))
    axis = draw(axis_of(shape))
    k = draw(st.integers(0, shape[axis]))
    return Row(
        f"topk: {k=}, {axis=}",
        lambda a: ops.topk(a, k, axis).values,
        lambda a: np.take(-np.sort(-a, axis), range(k), axis),
        (shape,),
    )


@st.composite
def move(draw: st.DrawFn) -> Row:
    shape = draw(shapes(2) | LONG.filter(lambda shape: len(shape) > 1))
    order = draw(st.permutations(range(len(shape))))
    two = (order[0], order[-1] - len(shape))
    axes = draw(st.none() | hnp.valid_tuple_axes(len(shape)))
    factors = [draw(st.permutations(shape)), [-1] if math.prod(shape) else [0], [*shape, 1]]
    target = draw(st.sampled_from(factors))
    rows = {
        f"transpose: {two}": (lambda a: ops.transpose(a, two), lambda a: a.swapaxes(*two)),
        f"permute: {order}": (lambda a: ops.permute(a, order), lambda a: a.transpose(order)),
        f"flip: {axes}": (lambda a: ops.flip(a, axes), lambda a: np.flip(a, axes)),
        f"reshape: {target}": (lambda a: ops.reshape(a, target), lambda a: a.reshape(target)),
    }
    name = draw(st.sampled_from(list(rows)))
    return Row(name, *rows[name], (shape,))


def _sum_to(a: np.ndarray, shape: Shape) -> np.ndarray:
    a = a.sum(tuple(range(a.ndim - len(shape))))
    return a.sum(tuple([axis for axis, n in enumerate(shape) if n == 1]), keepdims=True)


@st.composite
def resize(draw: st.DrawFn) -> Row:
    drawn = draw(hnp.mutually_broadcastable_shapes(num_shapes=1, base_shape=draw(shapes()), max_dims=3, min_side=0))
    (small,), large = drawn
    rows = {
        f"broadcast_to: {large}": (lambda a: ops.broadcast_to(a, large), lambda a: np.broadcast_to(a, large), (small,)),
        f"sum_to: {small}": (lambda a: ops.sum_to(a, small), lambda a: _sum_to(a, small), (large,)),
        "squeeze": (ops.squeeze, np.squeeze, (small,)),
    }
    name = draw(st.sampled_from(list(rows)))
    return Row(name, *rows[name])


@st.composite
def spread(draw: st.DrawFn) -> Row:
    shape = draw(shapes(1))
    steps = draw(st.lists(st.sampled_from([1, 3]), min_size=len(shape), max_size=len(shape)))
    axes = tuple([axis for axis, step in enumerate(steps) if step == 3])
    apart = tuple([slice(None, None, step) for step in steps])
    widths = draw(st.lists(st.tuples(*[st.integers(0, 2)] * 2), min_size=len(shape), max_size=len(shape)))

    def dilated(a: np.ndarray) -> np.ndarray:
        out = np.zeros([n * step for n, step in zip(shape, steps)], a.dtype)
        out[apart] = a
        return out

    rows = {
        f"dilate: {axes}": (lambda a: ops.dilate(a, axes, 2), dilated),
        f"undilate: {axes}": (lambda a: ops.undilate(a, axes, 2), lambda a: a[apart]),
        f"pad: {widths}": (lambda a: ops.pad(a, widths), lambda a: np.pad(a, widths)),
    }
    name = draw(st.sampled_from(list(rows)))
    return Row(name, *rows[name], (shape,))


@st.composite
def join(draw: st.DrawFn) -> Row:
    shape = draw(shapes(1))
    axis, count = draw(axis_of(shape)), draw(st.integers(1, 3))
    if draw(st.booleans()):
        return Row(f"stack: {axis}", lambda *a: ops.stack(a, axis), lambda *a: np.stack(a, axis), (shape,) * count)
    place = axis % len(shape)
    parts = [(*shape[:place], draw(st.integers(0, 3)), *shape[place + 1 :]) for _ in range(count)]
    return Row(
        f"concatenate: {axis}", lambda *a: ops.concatenate(a, axis), lambda *a: np.concatenate(a, axis), tuple(parts)
    )


@st.composite
def matmul(draw: st.DrawFn) -> Row:
    m, n, p = [draw(st.integers(0, 3) | st.sampled_from([17, 40])) for _ in "mnp"]
    batches = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, min_side=0, max_side=3)).input_shapes
    left, right = (*batches[0], m, n), (*batches[1], n, p)
    vector = draw(st.sampled_from(["neither", "left", "right", "both"]))
    shapes = (left if vector in ("neither", "right") else (n,), right if vector in ("neither", "left") else (n,))
    return Row("matmul", ops.matmul, np.matmul, shapes, domain=(-0.3, 0.31))  # sums that cancel keep their digits


@st.composite
def einsum(draw: st.DrawFn) -> Row:
    lengths = {letter: draw(st.integers(0, 3)) for letter in "abc"}
    operands = draw(st.lists(st.text("abc", max_size=3), min_size=1, max_size=3).filter(any))
    subscripts = ",".join(operands)
    if draw(st.booleans()):
        letters = draw(st.permutations(sorted(set("".join(operands)))))
        subscripts += "->" + "".join(letters[: draw(st.integers(0, len(letters)))])
    return Row(
        f"einsum: {subscripts}",
        lambda *a: ops.einsum(subscripts, *a),
        lambda *a: np.einsum(subscripts, *a),
        tuple([tuple([lengths[letter] for letter in operand]) for operand in operands]),
    )


@st.composite
def getitem(draw: st.DrawFn) -> Row:
    shape = draw(shapes())
    kinds = [indices(shape), hnp.basic_indices(shape, allow_newaxis=True)]
    index = draw(st.one_of(*kinds, *[hnp.arrays(bool, shape[: axis + 1]) for axis in range(len(shape))]))
    return Row(f"getitem: {index}", lambda a: a[index], lambda a: a[index], (shape,))


@st.composite
def places(draw: st.DrawFn) -> Row:
    shape = draw(shapes(1, side=1))
    axis = draw(axis_of(shape))
    inside = st.integers(-shape[axis], shape[axis] - 1)
    at = draw(hnp.arrays(np.int64, shapes(), elements=inside))
    if draw(st.booleans()):
        return Row(f"take: {at}, {axis=}", lambda a: ops.take(a, at, axis), lambda a: np.take(a, at, axis), (shape,))
    fewer = [draw(st.integers(0, n)) for n in shape]
    crop = [slice(n) for n in fewer]
    fewer[axis], crop[axis] = draw(st.integers(0, 4)), slice(None)
    each = draw(hnp.arrays(np.int64, tuple(fewer), elements=st.integers(0, shape[axis] - 1)))
    return Row(
        f"gather: {each}, {axis=}",
        lambda a: ops.gather(a, axis, each),
        lambda a: np.take_along_axis(a[tuple(crop)], each, axis),
        (shape,),
    )


STRATEGIES = [
    elementwise, choice, reduction, along_one_axis, topk, move, resize, spread, join, matmul, einsum, getitem, places,
]  # fmt: skip
FAMILIES = {strategy.__name__: strategy() for strategy in STRATEGIES}
