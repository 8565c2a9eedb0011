"""StridedArray: the part of NDArray that knows strides. Views, and what is known without reading an element."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from needle.backend_ndarray.dtypes import DType, default_dtype
from needle.backend_ndarray.layout import (
    Shape,
    Strides,
    as_shape,
    as_strides,
    broadcast_strides,
    check_bounds,
    checked_size,
    compact_strides,
    fill_in_shape,
    normalize_axes,
    normalize_axis,
    permuted,
    reshape_strides,
)
from needle.errors import DeviceError, DTypeError, ShapeError

if TYPE_CHECKING:
    from needle.backend_ndarray.devices import BackendDevice
    from needle.backend_ndarray.kernels import Array
    from needle.backend_ndarray.ndarray import NDArray

_versions = itertools.count()


def check_devices(op: str, *arrays: StridedArray) -> None:
    """Raise DeviceError unless the arrays are on one device."""
    for array in arrays[1:]:
        if array._device != arrays[0]._device:
            raise DeviceError(
                f"{op}: operands are on {arrays[0]._device} and {array._device}; move one with .to(device)"
            )


def new_handle(shape: Shape, dtype: DType, device: BackendDevice) -> Array:
    """Take a buffer for an array of that shape; MemoryError where none can be so large."""
    handle: Array = device.kernels.Array(checked_size(shape, dtype.itemsize), dtype)
    handle.version = next(_versions)
    return handle


class StridedArray:
    """A handle on a flat buffer, and how to read it: element `(i, j)` is at `offset + i*strides[0] + j*strides[1]`.

    These six facts never change after construction, so what is derived from them cannot go stale. `_view` and
    `_allocate` make the arrays that methods return: plain NDArrays, whatever subclass the method is called on.
    """

    __slots__ = ("__weakref__", "_device", "_dtype", "_handle", "_offset", "_shape", "_strides")

    _handle: Array
    _shape: Shape
    _strides: Strides
    _offset: int
    _dtype: DType
    _device: BackendDevice

    def _view(self, shape: Shape, strides: Strides, offset: int) -> NDArray:
        """Make an array on the same buffer, unchecked."""
        raise NotImplementedError

    def _allocate(self, shape: Shape, strides: Strides | None = None, dtype: DType | None = None) -> NDArray:
        """Make an array on this device; row-major and of this dtype, unless said. `strides` must be dense."""
        raise NotImplementedError

    def astype(self, dtype: Any) -> NDArray:
        """Give a copy of that dtype."""
        raise NotImplementedError

    def _cast(self, dtype: DType) -> NDArray:
        """Give the array in that dtype; itself if it has it."""
        return self if self._dtype is dtype else self.astype(dtype)  # type: ignore[return-value]

    def _constant(self, values: np.ndarray[Any, Any], dtype: DType | None = None) -> NDArray:
        """Give an ndarray beside this array as an NDArray; see `dtype_beside`, unless a dtype is said."""
        raise NotImplementedError

    def _number_dtype(self) -> DType:
        return default_dtype() if self._dtype.kind == "b" else self._dtype

    def _set(
        self, handle: Array, shape: Shape, strides: Strides, offset: int, dtype: DType, device: BackendDevice
    ) -> None:
        self._handle, self._shape, self._strides, self._offset = handle, shape, strides, offset
        self._dtype, self._device = dtype, device

    def _mark_written(self) -> None:
        """Renew the version of the buffer; everything that writes in place calls this."""
        self._handle.version = next(_versions)

    @property
    def shape(self) -> Shape:
        return self._shape

    @property
    def strides(self) -> Strides:
        """How many elements apart neighbours along each axis are."""
        return self._strides

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def device(self) -> BackendDevice:
        return self._device

    @property
    def ndim(self) -> int:
        return len(self._shape)

    @property
    def size(self) -> int:
        return math.prod(self._shape)

    @property
    def T(self) -> NDArray:
        """The view with all axes reversed."""
        return self.transpose()

    @staticmethod
    def compact_strides(shape: Iterable[int]) -> Strides:
        """Give the strides of a row-major array of that shape."""
        return compact_strides(tuple(shape))

    def is_compact(self) -> bool:
        """Whether the array is its whole buffer, row-major: strides are exactly `compact_strides(shape)`."""
        return (
            self._offset == 0
            and self._strides == compact_strides(self._shape)
            and self._handle.size == math.prod(self._shape)
        )

    def as_strided(self, shape: Iterable[int], strides: Iterable[int]) -> NDArray:
        """View the buffer with other strides, from this array's first element on.

        Elements may appear several times in such a view. Writing through it changes each place where they appear; if
        one write gives one element several values, which of them stays is not specified.

        Raises:
            ShapeError: the view would leave the buffer.

        >>> from needle import backend_ndarray as nd
        >>> nd.array([1, 2, 3, 4]).as_strided((3, 2), (1, 1)).numpy().tolist()  # windows of 2
        [[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]]
        """
        shape, strides = as_shape("as_strided", shape), as_strides("as_strided", strides)
        check_bounds("as_strided", shape, strides, self._offset, self._handle.size)
        return self._view(shape, strides, self._offset)

    def permute(self, axes: Iterable[int]) -> NDArray:
        """View the array with its axes in another order; `axes` names them all.

        >>> from needle import backend_ndarray as nd
        >>> nd.array([[0, 1], [2, 3]]).permute((1, 0)).numpy().tolist()
        [[0.0, 2.0], [1.0, 3.0]]
        """
        order = normalize_axes(axes, len(self._shape), "permute")
        if len(order) != len(self._shape):
            raise ShapeError(f"permute: axes {order} must name each of the {len(self._shape)} axes of {self._shape}")
        return self._view(*permuted(self._shape, self._strides, order), self._offset)

    def transpose(self, *axes: Any) -> NDArray:
        """View the array with its axes in the given order, or reversed; like `numpy.transpose`."""
        order = axes[0] if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], Iterable)) else axes
        return self.permute(order or range(self.ndim - 1, -1, -1))

    def swapaxes(self, axis1: int, axis2: int) -> NDArray:
        """View the array with two axes exchanged."""
        first, second = (normalize_axis(axis, self.ndim, "swapaxes") for axis in (axis1, axis2))
        order = list(range(self.ndim))
        order[first], order[second] = second, first
        return self.permute(order)

    def reshape(self, *lengths: Any, new_shape: int | Iterable[int] | None = None, order: str = "C") -> NDArray:
        """Give the same elements, in row-major order, another shape: a view where the layout allows, else a copy.

        The shape is one tuple, by name too, or separate numbers; one of them may be -1. `order` is there for
        `numpy.reshape`, which passes it.

        Raises:
            ShapeError: the number of elements would change.

        >>> from needle import backend_ndarray as nd
        >>> nd.array([[0, 1], [2, 3]]).permute((1, 0)).reshape((4,)).numpy().tolist()
        [0.0, 2.0, 1.0, 3.0]
        """
        if order != "C":
            raise DTypeError(f"reshape: order {order!r} is not supported, only 'C'; permute first")
        if new_shape is None:
            new_shape = lengths[0] if len(lengths) == 1 else lengths
        shape = fill_in_shape(self._shape, new_shape)
        strides = reshape_strides(self._shape, self._strides, shape)
        if strides is None:
            return self.compact()._view(shape, compact_strides(shape), 0)
        return self._view(shape, strides, self._offset)

    def compact(self) -> NDArray:
        """Give the array with exactly the strides `compact_strides(shape)`: itself if it has them, else a copy."""
        raise NotImplementedError

    def broadcast_to(self, shape: int | Iterable[int]) -> NDArray:
        """View the array repeated along new axes and along axes of length 1. Such a view cannot be written to.

        Raises:
            ShapeError: it does not broadcast to that shape.

        >>> from needle import backend_ndarray as nd
        >>> nd.array([1, 2]).broadcast_to((2, 2)).numpy().tolist()
        [[1.0, 2.0], [1.0, 2.0]]
        """
        target = as_shape("broadcast_to", shape)
        if target == self._shape:
            return self._view(self._shape, self._strides, self._offset)
        return self._view(target, broadcast_strides("broadcast_to", self._shape, self._strides, target), self._offset)

    def flip(self, axes: int | Iterable[int] | None = None) -> NDArray:
        """View the array with the given axes (all, by default) running backwards.

        >>> from needle import backend_ndarray as nd
        >>> nd.array([[0, 1], [2, 3]]).flip(1).numpy().tolist()
        [[1.0, 0.0], [3.0, 2.0]]
        """
        strides, offset = list(self._strides), self._offset
        for axis in normalize_axes(axes, self.ndim, "flip"):
            offset += max(self._shape[axis] - 1, 0) * strides[axis]
            strides[axis] = -strides[axis]
        return self._view(self._shape, tuple(strides), offset if self.size else 0)
