"""NDArray, the strided array that tensors hold, and the functions on it.

Views, arithmetic and indexing are in `strided`, `elementwise`, `reduction` and `indexing`; here an array is made,
converted and copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from needle.backend_ndarray.devices import BackendDevice as BackendDevice
from needle.backend_ndarray.devices import all_devices as all_devices
from needle.backend_ndarray.devices import as_device
from needle.backend_ndarray.devices import cpu as cpu
from needle.backend_ndarray.devices import cpu_numpy as cpu_numpy
from needle.backend_ndarray.devices import cuda as cuda
from needle.backend_ndarray.devices import default_device as default_device
from needle.backend_ndarray.devices import device as device_named
from needle.backend_ndarray.dtypes import (
    BOOL,
    DType,
    as_dtype,
    as_ndarray,
    as_number,
    comparison_dtype,
    dtype_beside,
    incoming_dtype,
)
from needle.backend_ndarray.elementwise import Elementwise
from needle.backend_ndarray.indexing import Indexing
from needle.backend_ndarray.kernels import Array
from needle.backend_ndarray.layout import (
    Shape,
    Strides,
    as_shape,
    as_strides,
    as_widths,
    broadcast_shapes,
    check_bounds,
    compact_strides,
    like_strides,
    ordered_strides,
)
from needle.backend_ndarray.reduction import Axis, Reduction
from needle.backend_ndarray.strided import check_devices, new_handle
from needle.errors import DTypeError, ShapeError, kind_of

A = TypeVar("A", bound="NDArray")


class NDArray(Indexing, Elementwise, Reduction):
    """A strided view on a flat buffer of one device.

    Args:
        other: numbers, nested lists, an ndarray or an NDArray; always copied, in row-major order from NumPy.
        device: default that of an NDArray, else `default_device()`.
        dtype: default that of an NDArray, else float32 (`set_default_dtype`; NEEDLE_BACKEND=np keeps what comes in).

    Raises:
        DTypeError: the values are no real numbers.

    >>> from needle import backend_ndarray as nd
    >>> a = nd.NDArray([[1, 2], [3, 4]])
    >>> a.shape, a.strides, a.dtype.name, (a + 1).numpy().tolist()
    ((2, 2), (2, 1), 'float32', [[2.0, 3.0], [4.0, 5.0]])
    """

    __slots__ = ()

    def __init__(self, other: Any, device: BackendDevice | None = None, dtype: Any = None) -> None:
        wanted = None if dtype is None else as_dtype(dtype, "array")
        if isinstance(other, NDArray):
            self._set_copy(other, wanted or other._dtype, as_device("array", device or other._device))
            return
        values = as_ndarray("array", other)
        wanted = wanted or incoming_dtype(values, "array")
        device = as_device("array", device)
        shape = values.shape
        self._set(new_handle(shape, wanted, device), shape, compact_strides(shape), 0, wanted, device)
        device.kernels.from_numpy(values, self)

    def _set_copy(self, other: NDArray, dtype: DType, device: BackendDevice) -> None:
        shape = other._shape
        self._set(new_handle(shape, dtype, device), shape, like_strides(shape, (other,)), 0, dtype, device)
        if device == other._device:
            device.kernels.copy(other, self)
        else:
            device.kernels.from_numpy(other._device.kernels.to_numpy(other), self)

    @classmethod
    def make(
        cls: type[A],
        shape: int | Iterable[int],
        strides: Iterable[int] | None = None,
        device: BackendDevice | None = None,
        handle: Array | None = None,
        offset: int = 0,
        dtype: Any = None,
    ) -> A:
        """Make an array on a given handle (of its dtype), or on a new one whose elements are not set.

        Row-major unless strides are given; the default device unless one is given.

        Raises:
            ShapeError: the view would leave the buffer.
            MemoryError: the buffer would be too large.

        >>> from needle import backend_ndarray as nd
        >>> a = nd.array([1, 2, 3])
        >>> nd.NDArray.make((2,), (-2,), a.device, a._handle, offset=2).numpy().tolist()
        [3.0, 1.0]
        """
        shape = as_shape("make", shape)
        strides = compact_strides(shape) if strides is None else as_strides("make", strides)
        device = as_device("make", device)
        if handle is None:
            handle = new_handle(shape, as_dtype(dtype, "make"), device)
        check_bounds("make", shape, strides, offset, handle.size)
        array = cls.__new__(cls)
        array._set(handle, shape, strides, offset, as_dtype(handle.dtype), device)
        return array

    # The two calls behind every result: attributes are set in place, since a call of `_set` would cost as much again.

    def _view(self, shape: Shape, strides: Strides, offset: int) -> NDArray:
        view = NDArray.__new__(NDArray)
        view._handle, view._shape, view._strides, view._offset = self._handle, shape, strides, offset
        view._dtype, view._device = self._dtype, self._device
        return view

    def _allocate(self, shape: Shape, strides: Strides | None = None, dtype: DType | None = None) -> NDArray:
        array = NDArray.__new__(NDArray)
        array._shape, array._strides = shape, compact_strides(shape) if strides is None else strides
        array._dtype = dtype = self._dtype if dtype is None else dtype
        array._device, array._offset = self._device, 0
        array._handle = new_handle(shape, dtype, self._device)
        return array

    def _constant(self, values: np.ndarray[Any, Any], dtype: DType | None = None) -> NDArray:
        return NDArray(values, self._device, dtype or dtype_beside(self._dtype, values))

    def compact(self) -> NDArray:
        """Give the array with exactly the strides `compact_strides(shape)`: itself if it has them, else a copy.

        >>> from needle import backend_ndarray as nd
        >>> nd.array([[0, 1], [2, 3]]).T.compact().strides
        (2, 1)
        """
        if self.is_compact():
            return self
        copy = self._allocate(self._shape)
        self._device.kernels.copy(self, copy)
        return copy

    def astype(self, dtype: Any) -> NDArray:
        """Give a copy of that dtype, in the same memory order.

        >>> from needle import backend_ndarray as nd
        >>> nd.array([1.5, -2.5]).astype("int64").numpy().tolist()
        [1, -2]
        """
        return NDArray(self, dtype=dtype)

    def copy(self) -> NDArray:
        """Give a copy, in the same memory order."""
        return NDArray(self)

    def to(self, device: BackendDevice) -> NDArray:
        """Give the array on a device: itself if it is there, else a copy."""
        return self if as_device("to", device) == self._device else NDArray(self, device)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Copy into an ndarray, in row-major order."""
        values: np.ndarray[Any, Any] = self._device.kernels.to_numpy(self)
        return values.copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Give NumPy a read-only view on the elements, or a copy where it asks for one."""
        values: np.ndarray[Any, Any] = self._device.kernels.to_numpy(self)
        converts = dtype is not None and np.dtype(dtype) != self._dtype
        if copy or converts:
            if copy is False:
                raise ValueError(f"numpy: {self._dtype} becomes {dtype} only by a copy; leave copy=False out")
            return values.astype(dtype or self._dtype)
        values.flags.writeable = False
        return values

    def __dlpack__(self, **options: Any) -> Any:
        """Share the elements with another library, by DLPack. What that writes does not renew versions."""
        return self._device.kernels.to_numpy(self).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, number = self._device.kernels.to_numpy(self).__dlpack_device__()
        return int(kind), int(number)

    def item(self) -> float | int | bool:
        """Give the only element as a Python number.

        >>> from needle import backend_ndarray as nd
        >>> nd.array([[2.5]]).item()
        2.5
        """
        if self.size != 1:
            raise ShapeError(f"item: an array of shape {self._shape} has {self.size} elements, not one; use numpy()")
        value: float | int | bool = self._device.kernels.to_numpy(self).item()
        return value

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def pad(self, axes: Sequence[tuple[int, int]]) -> NDArray:
        """Give a copy with zeros around: `axes` says how many go before and after, (before, after) for each axis.

        >>> from needle import backend_ndarray as nd
        >>> nd.array([[1, 2]]).pad(((0, 1), (1, 0))).numpy().tolist()
        [[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]]
        """
        widths = as_widths("pad", axes, self._shape)
        shape = tuple([before + length + after for (before, after), length in zip(widths, self._shape)])
        result = self._allocate(shape, ordered_strides(shape, self._strides))
        result.fill(0)
        result[tuple([slice(before, before + length) for (before, _), length in zip(widths, self._shape)])] = self
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the elements in memory order, with what it takes to lay them out again."""
        copy = NDArray(self)
        line = copy.as_strided((self.size,), (1,))
        arguments = (type(self), line.numpy(), copy._shape, copy._strides, self._device.name)
        return _restore, arguments, getattr(self, "__dict__", None)  # a subclass may have attributes

    def __repr__(self) -> str:
        values = np.array2string(np.asarray(self), separator=", ", prefix="NDArray(")
        return f"NDArray({values}, dtype={self._dtype}, device={self._device})"


BackendDevice.array_type = NDArray


def _restore(
    kind: type[NDArray], line: np.ndarray[Any, Any], shape: Shape, strides: Strides, device_name: str
) -> NDArray:
    """Make an unpickled array: on its device where that is enabled here, else on the default one."""
    device = device_named(device_name)
    made = NDArray(line, device if device.enabled() else default_device(), line.dtype)
    return kind.make(shape, strides, made._device, made._handle)


def array(a: Any, dtype: Any = None, device: BackendDevice | None = None) -> NDArray:
    """Make an array of numbers, nested lists, an ndarray or an NDArray, by copying; see NDArray.

    >>> from needle import backend_ndarray as nd
    >>> nd.array([[1, 2]], dtype="int64").numpy().tolist()
    [[1, 2]]
    """
    return NDArray(a, device, dtype)


def empty(shape: int | Iterable[int], dtype: Any = None, device: BackendDevice | None = None) -> NDArray:
    """Make an array without setting its elements.

    Raises:
        MemoryError: there is not so much memory.
    """
    return NDArray.make(shape, device=device, dtype=dtype)


def full(
    shape: int | Iterable[int], fill_value: float, dtype: Any = None, device: BackendDevice | None = None
) -> NDArray:
    """Make an array that holds a number everywhere.

    >>> from needle import backend_ndarray as nd
    >>> nd.full((2,), 3).numpy().tolist()
    [3.0, 3.0]
    """
    return as_device("full", device).full(shape, fill_value, dtype)


def _known(op: str, a: Any) -> NDArray:
    if not isinstance(a, NDArray):
        raise DTypeError(f"{op}: expected an NDArray, got {kind_of(a)}; make one with array(...)")
    return a


def broadcast_to(a: NDArray, shape: int | Iterable[int]) -> NDArray:
    """View an array repeated along new axes and axes of length 1; see `NDArray.broadcast_to`."""
    return _known("broadcast_to", a).broadcast_to(shape)


def reshape(a: NDArray, new_shape: int | Iterable[int]) -> NDArray:
    """Give the elements, in row-major order, another shape; see `NDArray.reshape`."""
    return _known("reshape", a).reshape(new_shape)


def flip(a: NDArray, axes: int | Iterable[int] | None = None) -> NDArray:
    """View an array with the given axes running backwards; see `NDArray.flip`."""
    return _known("flip", a).flip(axes)


def exp(a: NDArray) -> NDArray:
    """Give e to the power of each element."""
    return _known("exp", a).exp()


def log(a: NDArray) -> NDArray:
    """Give the natural logarithms."""
    return _known("log", a).log()


def tanh(a: NDArray) -> NDArray:
    """Give the hyperbolic tangents."""
    return _known("tanh", a).tanh()


def sum(a: NDArray, axis: Axis = None, keepdims: bool = False) -> NDArray:
    """Sum along the given axes (all, by default); see `NDArray.sum`."""
    return _known("sum", a).sum(axis, keepdims)


def matmul(a: NDArray, b: NDArray) -> NDArray:
    """Multiply matrices: (..., m, n), (..., n, p) -> (..., m, p); leading axes broadcast.

    >>> from needle import backend_ndarray as nd
    >>> nd.matmul(nd.array([[1, 2]]), nd.array([[3], [4]])).numpy().tolist()
    [[11.0]]
    """
    return _known("matmul", a) @ _known("matmul", b)


def maximum(a: Any, b: Any) -> NDArray:
    """Give the larger of each two elements; one of `a` and `b` may be a number. NaN where one is NaN.

    >>> from needle import backend_ndarray as nd
    >>> nd.maximum(nd.array([-1, 2]), 0).numpy().tolist()
    [0.0, 2.0]
    """
    return a.maximum(b) if isinstance(a, NDArray) else _known("maximum", b).maximum(a)


def clip(a: NDArray, lo: Any = None, hi: Any = None) -> NDArray:
    """Give min(max(a, lo), hi); a bound may be an NDArray, a number, or None for none. NaN stays.

    >>> from needle import backend_ndarray as nd
    >>> nd.clip(nd.array([-1, 0.5, 2]), 0, 1).numpy().tolist()
    [0.0, 0.5, 1.0]
    """
    a = _known("clip", a) if lo is None else _known("clip", a).maximum(lo)
    return a if hi is None else a.minimum(hi)


def where(condition: NDArray, a: Any, b: Any) -> NDArray:
    """Take the elements of `a` where the condition holds, else those of `b`; both broadcast, and may be numbers.

    >>> from needle import backend_ndarray as nd
    >>> x = nd.array([-1, 2])
    >>> nd.where(x > 0, x, 0).numpy().tolist()
    [0.0, 2.0]
    """
    condition = _known("where", condition)
    if not isinstance(a, NDArray) and not isinstance(b, NDArray):
        a = full((), a, device=condition.device)
    arrays = [value for value in (a, b) if isinstance(value, NDArray)]
    check_devices("where", condition, *arrays)
    other: Any = arrays[1]._dtype if len(arrays) == 2 else as_number(b if isinstance(a, NDArray) else a)
    if other is None:
        raise DTypeError(f"where: expected NDArrays or numbers, got {type(a).__name__} and {type(b).__name__}")
    dtype = comparison_dtype("where", arrays[0]._dtype, other)
    shape = broadcast_shapes("where", condition._shape, *[array._shape for array in arrays])
    result = condition._allocate(shape, like_strides(shape, arrays), dtype)
    a, b = (value._cast(dtype) if isinstance(value, NDArray) else as_number(value) for value in (a, b))
    condition.device.kernels.where(condition._cast(BOOL), a, b, result)
    return result
