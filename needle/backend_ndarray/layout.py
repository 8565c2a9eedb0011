"""Shapes, strides and axes: pure arithmetic on tuples of ints. Strides count elements."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from functools import lru_cache
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias

from needle.errors import ShapeError

if TYPE_CHECKING:
    from needle.backend_ndarray.kernels import View

Shape: TypeAlias = tuple[int, ...]
Strides: TypeAlias = tuple[int, ...]


def as_shape(op: str, shape: int | Iterable[int]) -> Shape:
    """Give a shape as a tuple of Python ints; an int is the length of a single axis.

    Raises:
        ShapeError: a length is negative or not an integer.

    >>> as_shape("empty", 3), as_shape("empty", [2, 3])
    ((3,), (2, 3))
    """
    try:
        result = _as_ints(shape)
    except TypeError:
        raise ShapeError(f"{op}: a shape is made of integers, got {shape!r}") from None
    if result and min(result) < 0:
        raise ShapeError(f"{op}: lengths must not be negative, got shape {result}")
    return result


def as_strides(op: str, strides: Iterable[int]) -> Strides:
    """Give strides as a tuple of Python ints; ShapeError for what is no integer."""
    try:
        return _as_ints(strides)
    except TypeError:
        raise ShapeError(f"{op}: strides are integers, got {strides!r}") from None


def _as_ints(values: Any) -> tuple[int, ...]:
    """Give one integer or several as a tuple of Python ints; TypeError for what is no integer."""
    if isinstance(values, int):
        return (values,)
    try:
        return tuple(map(index, values))
    except TypeError:
        return (index(values),)  # a NumPy integer, if anything


@lru_cache(maxsize=4096)
def checked_size(shape: Shape, itemsize: int) -> int:
    """Give the number of elements; MemoryError where their bytes cannot be addressed.

    >>> checked_size((1, 46342, 46341), 4)
    2147534622
    """
    size = math.prod(shape)
    if size * itemsize > sys.maxsize:
        raise MemoryError(
            f"shape {shape} takes {size * itemsize} bytes, more than can be addressed; use smaller arrays"
        )
    return size


@lru_cache(maxsize=4096)
def compact_strides(shape: Shape) -> Strides:
    """Give the strides of a row-major array without gaps.

    >>> compact_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides = []
    step = 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


@lru_cache(maxsize=4096)
def dense_strides(shape: Shape, strides: Strides) -> Strides | None:
    """Give the strides of a fresh array in the same memory order; None unless these fill memory without gaps.

    >>> dense_strides((2, 3, 4), (12, 1, 3))
    (12, 1, 3)
    >>> dense_strides((2, 3), (6, 2)) is None
    True
    """
    compact = compact_strides(shape)
    if 0 in shape:
        return compact
    filled = 1
    for stride, length in sorted((stride, length) for stride, length in zip(strides, shape) if length != 1):
        if stride != filled:
            return None
        filled *= length
    # The stride along an axis of length 1 says nothing, so it must not keep row-major memory from being compact.
    row_major = all(length == 1 or stride == fits for length, stride, fits in zip(shape, strides, compact))
    return compact if row_major else strides


def is_dense(shape: Shape, strides: Strides) -> bool:
    """Whether the elements fill a stretch of memory without gaps or overlaps, in any order of the axes.

    >>> is_dense((2, 3), (1, 2)), is_dense((2, 3), (0, 1)), is_dense((2, 3), (3, -1))
    (True, False, False)
    """
    return dense_strides(shape, strides) is not None


def like_strides(shape: Shape, arrays: Iterable[View]) -> Strides:
    """Give the strides of an elementwise result: the memory order of the first dense operand of that shape.

    Row-major where there is none, like NumPy's K order.
    """
    for array in arrays:
        if array._shape == shape and (strides := dense_strides(shape, array._strides)) is not None:
            return strides
    return compact_strides(shape)


@lru_cache(maxsize=4096)
def ordered_strides(shape: Shape, strides: Strides) -> Strides:
    """Give compact strides for `shape` whose axes lie in memory in the order that `strides` has.

    >>> ordered_strides((2, 5, 4, 4), (27, 1, 9, 3))  # N,C,H,W in N,H,W,C memory, grown to 5 channels
    (80, 1, 20, 5)
    """
    result = [0] * len(shape)
    step = 1
    for axis in sorted(range(len(shape)), key=lambda axis: (abs(strides[axis]), -axis)):
        result[axis] = step
        step *= shape[axis]
    return tuple(result)


def normalize_axes(axes: int | Iterable[int] | None, ndim: int, op: str) -> tuple[int, ...]:
    """Give axes as non-negative ints in the order given; None stands for all.

    Raises:
        ShapeError: an axis is out of range, named twice, or no integer.

    >>> normalize_axes((-1, 0), 3, "sum")
    (2, 0)
    """
    given = as_axes(op, axes)
    return tuple(range(ndim)) if given is None else _checked_axes(given, ndim, op)


def as_axes(op: str, axes: int | Iterable[int] | None) -> tuple[int, ...] | None:
    """Give axes as ints, in range or not; None stands for all.

    >>> as_axes("sum", -1), as_axes("sum", [0, 1])
    ((-1,), (0, 1))
    """
    try:
        return None if axes is None else _as_ints(axes)
    except TypeError:
        raise ShapeError(f"{op}: axes are integers, got {axes!r}") from None


def normalize_axis(axis: int, ndim: int, op: str) -> int:
    """Give one axis as a non-negative int; else as `normalize_axes`.

    >>> normalize_axis(-1, 3, "argmax")
    2
    """
    axes = normalize_axes(axis, ndim, op)
    if len(axes) != 1:
        raise ShapeError(f"{op}: expected one axis, got {axis!r}")
    return axes[0]


@lru_cache(maxsize=4096)
def _checked_axes(axes: tuple[int, ...], ndim: int, op: str) -> tuple[int, ...]:
    for axis in axes:
        if not -ndim <= axis < ndim:
            remedy = f"choose one from {-ndim} to {ndim - 1}" if ndim else "there is no axis to choose"
            raise ShapeError(f"{op}: axis {axis} is out of range for {ndim} dimensions; {remedy}")
    result = tuple([axis % ndim for axis in axes])
    if len(set(result)) != len(result):
        raise ShapeError(f"{op}: axes {axes} name an axis of {ndim} dimensions twice")
    return result


@lru_cache(maxsize=4096)
def reduced_shapes(shape: Shape, axes: tuple[int, ...]) -> tuple[Shape, Shape]:
    """Give the shape with length 1 along `axes`, and the shape without them.

    >>> reduced_shapes((2, 3, 4), (0, 2))
    ((1, 3, 1), (3,))
    """
    kept = tuple([1 if axis in axes else length for axis, length in enumerate(shape)])
    return kept, tuple([length for axis, length in enumerate(shape) if axis not in axes])


@lru_cache(maxsize=4096)
def permuted(shape: Shape, strides: Strides, order: tuple[int, ...]) -> tuple[Shape, Strides]:
    """Give shape and strides with the axes in another order.

    >>> permuted((2, 3), (3, 1), (1, 0))
    ((3, 2), (1, 3))
    """
    return tuple([shape[axis] for axis in order]), tuple([strides[axis] for axis in order])


@lru_cache(maxsize=4096)
def broadcast_shapes(op: str, *shapes: Shape) -> Shape:
    """Give the shape that all broadcast to, by NumPy's rule.

    Raises:
        ShapeError: there is none.

    >>> broadcast_shapes("add", (4, 1), (3,))
    (4, 3)
    """
    ndim = max(map(len, shapes))
    result = []
    for lengths in zip(*[(1,) * (ndim - len(shape)) + shape for shape in shapes]):
        longer = set(lengths) - {1}
        if len(longer) > 1:
            raise ShapeError(
                f"{op}: shapes {' and '.join(map(str, shapes))} do not broadcast; "
                "aligned from the right, lengths must be equal or 1"
            )
        result.append(longer.pop() if longer else 1)
    return tuple(result)


@lru_cache(maxsize=4096)
def broadcast_strides(op: str, shape: Shape, strides: Strides, target: Shape) -> Strides:
    """Give the strides that read an array of `shape` as one of `target`: 0 along repeated axes.

    Raises:
        ShapeError: `shape` does not broadcast to `target`.

    >>> broadcast_strides("broadcast_to", (3, 1), (1, 1), (2, 3, 4))
    (0, 1, 0)
    """
    added = len(target) - len(shape)
    if added < 0 or any(length not in (1, wanted) for length, wanted in zip(shape, target[added:])):
        raise ShapeError(
            f"{op}: shape {shape} does not broadcast to {target}; "
            "aligned from the right, its lengths must be 1 or those of the target"
        )
    return (0,) * added + tuple([0 if length == 1 else stride for length, stride in zip(shape, strides)])


def fill_in_shape(shape: Shape, new_shape: int | Iterable[int]) -> Shape:
    """Give `new_shape` with its -1, if it has one, replaced by the length that fits.

    Raises:
        ShapeError: the sizes differ, more than one length is -1, or a length is no integer.

    >>> fill_in_shape((2, 6), (3, -1))
    (3, 4)
    """
    try:
        return _filled_in(shape, _as_ints(new_shape))
    except TypeError:
        raise ShapeError(f"reshape: a shape is made of integers, got {new_shape!r}") from None


@lru_cache(maxsize=4096)
def _filled_in(shape: Shape, new_shape: Shape) -> Shape:
    size = math.prod(shape)
    result = new_shape
    if -1 in new_shape:
        axis = new_shape.index(-1)
        known = math.prod(new_shape[:axis] + new_shape[axis + 1 :])
        result = (*new_shape[:axis], size // known if known else 0, *new_shape[axis + 1 :])
    if math.prod(result) != size or min(result, default=0) < 0:
        raise ShapeError(
            f"reshape: {size} elements of shape {shape} do not fit shape {new_shape}; "
            "keep the number of elements, with at most one -1"
        )
    return result


@lru_cache(maxsize=4096)
def reshape_strides(shape: Shape, strides: Strides, new_shape: Shape) -> Strides | None:
    """Give the strides that read the same elements, in row-major order, as `new_shape`; None where a copy is needed.

    >>> reshape_strides((2, 3, 4), (24, 4, 1), (2, 12))
    (24, 1)
    >>> reshape_strides((2, 3), (1, 2), (6,)) is None
    True
    """
    if 0 in shape:
        return compact_strides(new_shape)
    blocks: list[tuple[int, int]] = []  # (length, stride) of runs of axes that step evenly through memory
    for length, stride in zip(shape, strides):
        if length == 1:
            continue
        if blocks and blocks[-1][1] == length * stride:
            length *= blocks.pop()[0]
        blocks.append((length, stride))
    result = []
    left, step = 1, 1  # what is left of the block that is being cut into new axes
    for length in reversed(new_shape):
        if length != 1 and left == 1:
            left, step = blocks.pop()
        if left % length:
            return None
        result.append(step)
        step *= length
        left //= length
    return tuple(reversed(result))


def as_widths(op: str, widths: Any, shape: Shape) -> tuple[tuple[int, int], ...]:
    """Give how many elements to put before and after each axis.

    >>> as_widths("pad", [(0, 1)], (3,))
    ((0, 1),)
    """
    try:
        pairs = tuple([(index(before), index(after)) for before, after in widths])
    except (TypeError, ValueError):
        pairs = None
    if pairs is None or len(pairs) != len(shape) or any(min(pair) < 0 for pair in pairs):
        raise ShapeError(
            f"{op}: expected a pair (before, after) of whole numbers for each axis of shape {shape}, none negative, "
            f"got {widths}; slice to take elements away"
        )
    return pairs


def check_bounds(op: str, shape: Shape, strides: Strides, offset: int, size: int) -> None:
    """Raise ShapeError where a view would leave its buffer of `size` elements."""
    if len(shape) != len(strides):
        raise ShapeError(f"{op}: shape {shape} and strides {strides} differ in length")
    if 0 in shape:
        return
    reach = [(length - 1) * stride for length, stride in zip(shape, strides)]
    first = offset + sum(min(step, 0) for step in reach)
    last = offset + sum(max(step, 0) for step in reach)
    if first < 0 or last >= size:
        raise ShapeError(
            f"{op}: shape {shape} with strides {strides} and offset {offset} reaches elements {first} to {last} "
            f"of a buffer that has {size}"
        )
