"""Indexing: the part of NDArray that reads and writes `a[index]`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from operator import index as as_int
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from needle.backend_ndarray.dtypes import INT64, as_ndarray, as_number, check_holds
from needle.backend_ndarray.layout import Shape, broadcast_shapes, reshape_strides
from needle.backend_ndarray.strided import StridedArray, check_devices
from needle.errors import BoundsError, DTypeError, ShapeError

if TYPE_CHECKING:
    from needle.backend_ndarray.ndarray import NDArray

IndexArray: TypeAlias = "np.ndarray[Any, Any]"
Entry: TypeAlias = "int | slice | IndexArray | None"


def parse_index(op: str, index: Any, shape: Shape) -> list[Entry]:
    """Give an index as one entry per axis (None adds an axis): an int, a slice, or an array of in-range integers.

    Raises:
        BoundsError: more entries than axes, or a boolean array that does not fit its axes.
        DTypeError: an entry is no kind of index.

    >>> parse_index("getitem", (..., -1), (2, 3))
    [slice(None, None, None), 2]
    """
    given = [_entry(op, entry) for entry in (index if isinstance(index, tuple) else (index,))]
    used = sum(_axes_used(entry) for entry in given)
    if used > len(shape):
        raise BoundsError(f"{op}: {used} indices for an array of shape {shape}, which has {len(shape)} axes")
    dots = [position for position, entry in enumerate(given) if entry is Ellipsis]
    if len(dots) > 1:
        raise BoundsError(f"{op}: an index can only have a single ellipsis ('...')")
    at = dots[0] if dots else len(given)
    given[at : at + 1] = [slice(None)] * (len(shape) - used)
    entries: list[Entry] = []
    axis = 0
    for entry in given:
        if isinstance(entry, np.ndarray) and entry.dtype.kind == "b":
            if entry.shape != shape[axis : axis + entry.ndim]:
                raise BoundsError(f"{op}: boolean index of shape {entry.shape} does not fit {shape} at axis {axis}")
            entries.extend(entry.nonzero())
        elif isinstance(entry, (int, np.ndarray)):
            entries.append(_in_range(op, entry, shape, axis))
        else:
            entries.append(entry)
        axis += _axes_used(entry)
    return entries


def _entry(op: str, entry: Any) -> Any:
    """Give an entry as int, slice, None, Ellipsis or an array of integers or booleans."""
    if entry is None or entry is Ellipsis or isinstance(entry, slice):
        return entry
    if not isinstance(entry, (bool, np.bool_)):
        try:
            return as_int(entry)
        except TypeError:
            pass
    array = np.asarray(entry)
    if array.size == 0 and isinstance(entry, list):
        array = array.astype(np.int64)
    if array.dtype.kind not in "biu" or (array.ndim == 0 and array.dtype.kind == "b"):
        raise DTypeError(
            f"{op}: an index is made of integers, slices, ..., None and arrays of integers or booleans, "
            f"not {type(entry).__name__} of dtype {array.dtype}"
        )
    return array if array.ndim else int(array)


def _axes_used(entry: Any) -> int:
    if entry is None or entry is Ellipsis:
        return 0
    return entry.ndim if isinstance(entry, np.ndarray) and entry.dtype.kind == "b" else 1


def _in_range(op: str, entry: int | IndexArray, shape: Shape, axis: int) -> int | IndexArray:
    """Give indices counted from the front; BoundsError where one leaves the axis."""
    length = shape[axis]
    if isinstance(entry, int):
        wrong = None if -length <= entry < length else entry
        positions: Any = entry % length if length else entry
    else:
        entry = entry.astype(np.int64)
        outside = (entry < -length) | (entry >= length)
        wrong = entry[outside][0] if outside.any() else None
        positions = np.where(entry < 0, entry + length, entry)
    if wrong is not None:
        raise BoundsError(f"{op}: index {wrong} is out of range for axis {axis} of shape {shape}")
    return positions


class _Rows(NamedTuple):
    """What an index with arrays picks: rows of a table whose first axis merges the axes that arrays index."""

    part: NDArray  # a view of the array, these axes in front, of which `table` is a reshaped view or copy
    table: NDArray
    indices: NDArray
    shape: Shape  # of the result before `order`: the index arrays' common shape, then the other axes
    order: tuple[int, ...]  # puts the index arrays' axes where NumPy has them


class Indexing(StridedArray):
    """`a[index]` in its two manners: the course's, where an int keeps its axis, and NumPy's (`select`)."""

    __slots__ = ()

    def process_slice(self, sl: slice, dim: int) -> slice:
        """Give a slice along axis `dim` with explicit start, stop and step, non-negative for positive steps.

        The elements are `range(start, stop, step)`, so a negative step may stop at -1, before element 0.

        >>> from needle import backend_ndarray as nd
        >>> nd.empty((4, 10)).process_slice(slice(-3, 100), 1)
        slice(7, 10, 1)
        """
        return _explicit(sl, self._shape[dim])

    def __getitem__(self, index: Any) -> NDArray:
        """View the elements at ints, slices, `...` and None; copy those at integer or boolean arrays.

        As the course has it, an int keeps its axis, with length 1; `select` follows NumPy.

        >>> from needle import backend_ndarray as nd
        >>> a = nd.array([[0, 1, 2], [3, 4, 5]])
        >>> a[1, 0].numpy().tolist(), a[:, ::-2].numpy().tolist()
        ([[3.0]], [[2.0, 0.0], [5.0, 3.0]])
        >>> a[a > 3].numpy().tolist()
        [4.0, 5.0]
        """
        return self._take("getitem", index, keep=True)

    def select(self, index: Any) -> NDArray:
        """Index as NumPy does: an int drops its axis. A view, unless the index holds arrays.

        >>> from needle import backend_ndarray as nd
        >>> nd.array([[0, 1], [2, 3]]).select((1, [0, 0, 1])).numpy().tolist()
        [2.0, 2.0, 3.0]
        """
        return self._take("getitem", index, keep=False)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write a number, or as many elements as the index picks, in row-major order; or what broadcasts to them.

        A value that shares memory with the array is read before anything is written.

        Raises:
            ShapeError: the value does not fit, or the array is a broadcast view.

        >>> from needle import backend_ndarray as nd
        >>> a = nd.full((2, 3), 0)
        >>> a[:, 1] = nd.array([1, 2])
        >>> a.numpy().tolist()
        [[0.0, 1.0, 0.0], [0.0, 2.0, 0.0]]
        """
        self._check_writable("setitem")
        entries = parse_index("setitem", index, self._shape)
        if _has_arrays(entries):
            self._change_rows("setitem", entries, value, keep=True)
        else:
            self._part(entries, keep=True)._write("setitem", value)

    def add_at(self, index: Any, values: Any) -> None:
        """Add in place, repeated indices adding up, in the order of the index; like `numpy.add.at`.

        An int drops its axis, as in `select`.

        >>> from needle import backend_ndarray as nd
        >>> a = nd.full((3,), 0)
        >>> a.add_at([0, 2, 0], nd.array([1, 2, 3]))
        >>> a.numpy().tolist()
        [4.0, 0.0, 2.0]
        """
        self._check_writable("add_at")
        entries = parse_index("add_at", index, self._shape)
        if _has_arrays(entries):
            self._change_rows("add_at", entries, values, keep=False)
        else:
            part = self._part(entries, keep=False)
            part._write("add_at", part + part._fitted("add_at", values))

    def fill(self, value: float) -> None:
        """Write a number everywhere.

        Raises:
            ShapeError: the array is a broadcast view.
        """
        self._check_writable("fill")
        self._write("fill", value)

    @property
    def flat(self) -> NDArray | Flat:
        """The elements in row-major order: `a.flat[i] = v` changes `a`.

        A 1-D view where the layout allows, else an object that reads and writes `a` element by element.

        >>> from needle import backend_ndarray as nd
        >>> a = nd.array([[0, 1], [2, 3]])
        >>> a.T.flat[1] += 10
        >>> a.numpy().tolist()
        [[0.0, 1.0], [12.0, 3.0]]
        """
        line = reshape_strides(self._shape, self._strides, (self.size,))
        return Flat(self) if line is None else self._view((self.size,), line, self._offset)

    def __len__(self) -> int:
        if not self._shape:
            raise DTypeError("len: an array of shape () has no length; use item()")
        return self._shape[0]

    def __iter__(self) -> Iterator[NDArray]:
        """Iterate over the first axis, dropping it, as NumPy does."""
        length, (stride, *strides), shape = len(self), self._strides, self._shape[1:]
        start, stride = (0, 0) if 0 in shape else (self._offset, stride)
        return iter([self._view(shape, tuple(strides), start + i * stride) for i in range(length)])

    def _take(self, op: str, index: Any, keep: bool) -> NDArray:
        entries = parse_index(op, index, self._shape)
        if not _has_arrays(entries):
            return self._part(entries, keep)
        rows = self._rows(op, entries, keep)
        result = self._allocate((rows.indices.size, *rows.table._shape[1:]))
        self._device.kernels.gather(rows.table, rows.indices, result)
        return result.reshape(rows.shape).permute(rows.order)

    def _part(self, entries: list[Entry], keep: bool) -> NDArray:
        """View the elements at ints, slices and None; an array takes its axis whole."""
        shape: list[int] = []
        strides: list[int] = []
        offset = self._offset
        axis = 0
        for entry in entries:
            if entry is None:
                shape.append(1)
                strides.append(self._shape[axis] * self._strides[axis] if axis < len(self._shape) else 1)
                continue
            stride = self._strides[axis]
            if isinstance(entry, int):
                picked = range(entry, entry + 1)
            else:
                explicit = self.process_slice(entry if isinstance(entry, slice) else slice(None), axis)
                picked = range(explicit.start, explicit.stop, explicit.step)
            if keep or not isinstance(entry, int):
                shape.append(len(picked))
                strides.append(stride * picked.step)
            offset += picked.start * stride
            axis += 1
        return self._view(tuple(shape), tuple(strides), 0 if 0 in shape else offset)

    def _rows(self, op: str, entries: list[Entry], keep: bool) -> _Rows:
        if not keep:  # beside arrays, NumPy takes an int for one more array
            entries = [np.asarray(entry) if isinstance(entry, int) else entry for entry in entries]
        part = self._part(entries, keep)  # each entry has one axis there
        indexed = [axis for axis, entry in enumerate(entries) if isinstance(entry, np.ndarray)]
        others = [axis for axis in range(len(entries)) if axis not in indexed]
        lengths = [part._shape[axis] for axis in indexed]
        arrays = [entry for entry in entries if isinstance(entry, np.ndarray)]
        common = broadcast_shapes(op, *[array.shape for array in arrays])
        position = np.zeros(common, dtype=np.int64)
        for array, length in zip(arrays, lengths):
            position = position * length + array
        part = part.permute(indexed + others)
        rest = part._shape[len(indexed) :]
        adjacent = indexed[-1] - indexed[0] == len(indexed) - 1
        before = indexed[0] if adjacent else 0
        order = list(range(len(common), len(common) + len(rest)))
        order[before:before] = range(len(common))
        return _Rows(
            part=part,
            table=part.reshape((math.prod(lengths), *rest)),
            indices=self._constant(position.reshape(-1), INT64),
            shape=(*common, *rest),
            order=tuple(order),
        )

    def _change_rows(self, op: str, entries: list[Entry], value: Any, keep: bool) -> None:
        rows = self._rows(op, entries, keep)
        values = self._fitted(op, value, tuple([rows.shape[axis] for axis in rows.order]))
        values = values._cast(self._dtype).permute(np.argsort(rows.order))
        values = values.reshape((rows.indices.size, *rows.table._shape[1:]))
        kernels = self._device.kernels
        if op == "add_at":
            kernels.scatter_add(values, rows.indices, rows.table)
        else:
            kernels.to_numpy(rows.table)[kernels.to_numpy(rows.indices)] = kernels.to_numpy(values)
        if rows.table._handle is not self._handle:  # a copy
            kernels.copy(rows.table.reshape(rows.part._shape), rows.part)
        self._mark_written()

    def _write(self, op: str, value: Any) -> None:
        """Write a number or fitting values to all elements."""
        number = as_number(value)
        if number is None:
            self._device.kernels.copy(self._fitted(op, value), self)
        else:
            check_holds(op, self._dtype, number)
            self._device.kernels.fill(self, number)
        self._mark_written()

    def _fitted(self, op: str, value: Any, shape: Shape | None = None) -> NDArray:
        """Give a value to be written as an array of that shape (this array's), which shares no memory with this one."""
        shape = self._shape if shape is None else shape
        if not isinstance(value, Indexing):
            value = self._constant(as_ndarray(op, value), self._dtype)
        check_devices(op, self, value)
        if value._handle is self._handle:
            value = value.astype(value._dtype)
        if value.size == math.prod(shape):
            return value.reshape(shape)
        try:
            return value.broadcast_to(shape)
        except ShapeError:
            raise ShapeError(
                f"{op}: a value of shape {value._shape} does not fit shape {shape}; "
                "give a number, as many elements, or a shape that broadcasts"
            ) from None

    def _check_writable(self, op: str) -> None:
        for axis, (length, stride) in enumerate(zip(self._shape, self._strides)):
            if stride == 0 and length > 1 and 0 not in self._shape:
                raise ShapeError(
                    f"{op}: an array of shape {self._shape} that is broadcast along axis {axis} cannot be written to; "
                    "write to a copy, a.compact()"
                )


class Flat:
    """The elements of an array in row-major order, where no strides reach them so: reads and writes the array."""

    def __init__(self, array: Indexing) -> None:
        self._array = array

    def _places(self, index: Any) -> tuple[Any, ...]:
        entry, *more = parse_index("flat", index, (len(self),))
        if more:
            raise BoundsError(f"flat: expected one index, got {index}")
        if isinstance(entry, slice):
            explicit = _explicit(entry, len(self))
            entry = np.arange(explicit.start, explicit.stop, explicit.step)
        return np.unravel_index(entry, self._array._shape)  # type: ignore[arg-type]

    def __getitem__(self, index: Any) -> NDArray:
        """Give the elements at an int (as one of length 1, a view), a slice or an array, in one axis."""
        return self._array._take("flat", self._places(index), keep=False).reshape(-1)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._array[self._places(index)] = value

    def __len__(self) -> int:
        return self._array.size

    @property
    def size(self) -> int:
        return len(self)

    @property
    def shape(self) -> Shape:
        return (len(self),)

    def __iter__(self) -> Iterator[NDArray]:
        return iter(self._array.reshape(-1))

    def numpy(self) -> np.ndarray[Any, Any]:
        """Copy the elements into a 1-D ndarray."""
        return self._array.reshape(-1).numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)


def _explicit(sl: slice, length: int) -> slice:
    """Give a slice of an axis with explicit start, stop and step."""
    if sl.step == 0:
        raise ShapeError("slice: the step must not be zero")
    try:
        return slice(*sl.indices(length))
    except TypeError:
        raise DTypeError(f"slice: start, stop and step are integers or None, got {sl}") from None


def _has_arrays(entries: list[Entry]) -> bool:
    return any(isinstance(entry, np.ndarray) for entry in entries)
