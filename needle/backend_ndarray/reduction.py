"""Reductions, scans and the matrix product: the part of NDArray that combines elements along axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from needle.backend_ndarray.dtypes import INT64, DType, arithmetic_dtype, real_dtype
from needle.backend_ndarray.layout import (
    Shape,
    broadcast_shapes,
    compact_strides,
    like_strides,
    normalize_axes,
    normalize_axis,
    reduced_shapes,
    reshape_strides,
)
from needle.backend_ndarray.strided import StridedArray, check_devices
from needle.errors import DTypeError, ShapeError

if TYPE_CHECKING:
    from needle.backend_ndarray.ndarray import NDArray

Axis: TypeAlias = "int | Iterable[int] | None"


class Reduction(StridedArray):
    """`sum`, `max` and their like, and `@`."""

    __slots__ = ()

    def sum(self, axis: Axis = None, keepdims: bool = False, *, out: None = None) -> NDArray:
        """Sum along the given axes (all, by default). Float32 is summed in float64; bools count in the default dtype.

        `out` is there for `numpy.sum`, which passes None.

        Raises:
            ShapeError: an axis is out of range or named twice.

        >>> from needle import backend_ndarray as nd
        >>> a = nd.array([[1, 2], [3, 4]])
        >>> a.sum().numpy().tolist(), a.sum(axis=-1, keepdims=True).numpy().tolist()
        (10.0, [[3.0], [7.0]])
        """
        _check_no_out("sum", out)
        return self._cast(self._sum_dtype())._reduce("sum", self._device.kernels.reduce_sum, axis, keepdims)

    def max(self, axis: Axis = None, keepdims: bool = False, *, out: None = None) -> NDArray:
        """Give the largest element along the given axes (all, by default); NaN where there is one.

        Raises:
            ShapeError: an axis is out of range or named twice, or elements are asked for where there are none.

        >>> from needle import backend_ndarray as nd
        >>> nd.array([[1, 4], [3, 2]]).max(axis=0).numpy().tolist()
        [3.0, 4.0]
        """
        _check_no_out("max", out)
        return self._reduce("max", self._device.kernels.reduce_max, axis, keepdims)

    def min(self, axis: Axis = None, keepdims: bool = False, *, out: None = None) -> NDArray:
        """Give the smallest element along the given axes; else as `max`."""
        _check_no_out("min", out)
        return self._reduce("min", self._device.kernels.reduce_min, axis, keepdims)

    def argmax(self, axis: int | None = None) -> NDArray:
        """Give the position of the first largest element along an axis (of the flattened array, by default).

        The result is int64. NaN counts as the largest.

        >>> from needle import backend_ndarray as nd
        >>> nd.array([[1, 4, 4], [3, 2, 1]]).argmax(axis=1).numpy().tolist()
        [1, 0]
        """
        if axis is None:
            return self.reshape(-1).argmax(0)
        position = normalize_axis(axis, len(self._shape), "argmax")
        kept, dropped = reduced_shapes(self._shape, (position,))
        result = self._allocate(kept, dtype=INT64)
        if self._has_elements("argmax", kept):
            self._device.kernels.argmax(self, position, result)
        return result._view(dropped, compact_strides(dropped), 0)

    def _reduce(self, op: str, kernel: Callable[..., None], axis: Axis, keepdims: bool) -> NDArray:
        axes = tuple(sorted(normalize_axes(axis, len(self._shape), op)))
        kept, dropped = reduced_shapes(self._shape, axes)
        result = self._allocate(kept)
        if op == "sum" or self._has_elements(op, kept):
            kernel(self, axes, result)
        return result if keepdims else result._view(dropped, compact_strides(dropped), 0)

    def _has_elements(self, op: str, result_shape: Shape) -> bool:
        """Whether there is anything to compute; ShapeError where a result is to come from no element."""
        if 0 not in self._shape:
            return True
        if 0 not in result_shape:
            raise ShapeError(f"{op}: shape {self._shape} has no elements along an axis that is reduced; it needs one")
        return False

    def _sum_dtype(self) -> DType:
        dtype = self._number_dtype()
        return dtype if dtype.kind == "f" else INT64

    def cumsum(self, axis: int) -> NDArray:
        """Give the running sums along an axis; dtypes as in `sum`."""
        return self._cast(self._sum_dtype())._along("cumsum", axis)

    def softmax(self, axis: int) -> NDArray:
        """Give exp(a) / sum(exp(a)) along an axis, without overflow."""
        return self._cast(real_dtype(self._dtype))._along("softmax", axis)

    def log_softmax(self, axis: int) -> NDArray:
        """Give the logarithm of `softmax`, exact where that rounds to 0 or 1."""
        return self._cast(real_dtype(self._dtype))._along("log_softmax", axis)

    def argsort(self, axis: int) -> NDArray:
        """Give the int64 positions that sort the elements along an axis: equal ones stay in order, NaN is last."""
        return self._along("argsort", axis, INT64)

    def _along(self, op: str, axis: int, dtype: DType | None = None) -> NDArray:
        position = normalize_axis(axis, len(self._shape), op)
        result = self._allocate(self._shape, like_strides(self._shape, (self,)), dtype)
        if result.size:
            getattr(self._device.kernels, op)(self, position, result)
        return result

    def __matmul__(self, other: Any) -> NDArray:
        """Multiply matrices: (..., m, n) @ (..., n, p) -> (..., m, p); leading axes broadcast.

        Raises:
            ShapeError: the inner lengths differ, or an operand has no two axes.
        """
        if isinstance(other, np.ndarray):
            other = self._constant(other)
        return _matmul(self, other) if isinstance(other, StridedArray) else NotImplemented

    def __rmatmul__(self, other: Any) -> NDArray:
        return _matmul(self._constant(other), self) if isinstance(other, np.ndarray) else NotImplemented


def _check_no_out(op: str, out: Any) -> None:
    if out is not None:
        raise DTypeError(f"{op}: out= is not supported; assign the result with a[...] = result")


def _matmul(a: StridedArray, b: StridedArray) -> NDArray:
    check_devices("matmul", a, b)
    if len(a._shape) < 2 or len(b._shape) < 2 or a._shape[-1] != b._shape[-2]:
        raise ShapeError(
            f"matmul: shapes {a._shape} and {b._shape} do not fit; (..., m, n) @ (..., n, p) needs the same n"
        )
    dtype = arithmetic_dtype("matmul", a._dtype, b._dtype)
    a, b = a._cast(dtype), b._cast(dtype)
    shape = (*broadcast_shapes("matmul", a._shape[:-2], b._shape[:-2]), a._shape[-2], b._shape[-1])
    result = a._allocate(shape)
    if len(shape) > 2 and len(b._shape) == 2:
        stacked = (math.prod(a._shape[:-1]), a._shape[-1])
        strides = reshape_strides(a._shape, a._strides, stacked)
        if strides is not None:  # one product of (... * m, n), not many small ones
            a = a._view(stacked, strides, a._offset)
            rows = (stacked[0], shape[-1])
            a._device.kernels.matmul(a, b, result._view(rows, compact_strides(rows), 0))
            return result
    a._device.kernels.matmul(a, b, result)
    return result
