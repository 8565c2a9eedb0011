"""Operators and elementwise functions: the part of NDArray that computes element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from needle.backend_ndarray.dtypes import (
    BOOL,
    DType,
    Number,
    arithmetic_dtype,
    as_number,
    comparison_dtype,
    division_dtype,
    real_dtype,
)
from needle.backend_ndarray.layout import broadcast_shapes, like_strides
from needle.backend_ndarray.strided import StridedArray, check_devices
from needle.errors import DTypeError, kind_of

if TYPE_CHECKING:
    from needle.backend_ndarray.ndarray import NDArray

DTypeRule: TypeAlias = Callable[[str, DType, "DType | Number"], DType]


class Elementwise(StridedArray):
    """Operators and elementwise functions."""

    __slots__ = ()

    __array_priority__ = 500  # NumPy leaves `numpy_array * ndarray` to us

    def _binary(
        self, op: str, other: Any, *, rule: DTypeRule = arithmetic_dtype, out: DType | None = None, swap: bool = False
    ) -> NDArray:
        """Compute `op(self, other)`, or `op(other, self)` if `swap`, in the dtype that `rule` gives."""
        a: Elementwise = self
        if isinstance(other, Elementwise):
            if a._device is not other._device:
                check_devices(op, a, other)
            dtype = a._dtype
            if dtype is not other._dtype or dtype.kind != "f":
                dtype = rule(op, dtype, other._dtype)
                a, other = a._cast(dtype), other._cast(dtype)
            shape = a._shape
            if shape != other._shape:
                shape = broadcast_shapes(op, shape, other._shape)
            strides = like_strides(shape, (other, a) if swap else (a, other))
        else:
            number = as_number(other)
            if number is None:
                if isinstance(other, np.ndarray):
                    return self._binary(op, self._constant(other), rule=rule, out=out, swap=swap)
                return NotImplemented
            dtype = a._dtype
            if dtype.kind != "f":
                dtype = rule(op, dtype, number)
                a = a._cast(dtype)
            other, shape = number, a._shape
            strides = like_strides(shape, (a,))
        result = self._allocate(shape, strides, dtype if out is None else out)
        kernel = getattr(self._device.kernels, op)
        if swap:
            kernel(other, a, result)
        else:
            kernel(a, other, result)
        return result

    def __add__(self, other: Any) -> NDArray:
        return self._binary("add", other)

    def __radd__(self, other: Any) -> NDArray:
        return self._binary("add", other, swap=True)

    def __sub__(self, other: Any) -> NDArray:
        return self._binary("subtract", other)

    def __rsub__(self, other: Any) -> NDArray:
        return self._binary("subtract", other, swap=True)

    def __mul__(self, other: Any) -> NDArray:
        return self._binary("multiply", other)

    def __rmul__(self, other: Any) -> NDArray:
        return self._binary("multiply", other, swap=True)

    def __truediv__(self, other: Any) -> NDArray:
        return self._binary("divide", other, rule=division_dtype)

    def __rtruediv__(self, other: Any) -> NDArray:
        return self._binary("divide", other, rule=division_dtype, swap=True)

    def __pow__(self, other: Any) -> NDArray:
        other = self._constant(other) if isinstance(other, np.ndarray) and other.ndim else other
        _check_exponent(self, other)
        return self._binary("power", other)

    def __rpow__(self, other: Any) -> NDArray:
        other = self._constant(other) if isinstance(other, np.ndarray) and other.ndim else other
        _check_exponent(other, self)
        return self._binary("power", other, swap=True)

    def maximum(self, other: Any) -> NDArray:
        """Give the larger of each two elements; NaN where one is NaN."""
        return _operands_known("maximum", other, self._binary("maximum", other))

    def minimum(self, other: Any) -> NDArray:
        """Give the smaller of each two elements; NaN where one is NaN."""
        return _operands_known("minimum", other, self._binary("minimum", other))

    def _compare(self, op: str, other: Any) -> NDArray:
        return self._binary(op, other, rule=comparison_dtype, out=BOOL)

    def __eq__(self, other: Any) -> NDArray:  # type: ignore[override]
        return self._compare("equal", other)

    def __ne__(self, other: Any) -> NDArray:  # type: ignore[override]
        return self._compare("not_equal", other)

    def __lt__(self, other: Any) -> NDArray:
        return self._compare("less", other)

    def __le__(self, other: Any) -> NDArray:
        return self._compare("less_equal", other)

    def __gt__(self, other: Any) -> NDArray:
        return self._compare("greater", other)

    def __ge__(self, other: Any) -> NDArray:
        return self._compare("greater_equal", other)

    __hash__ = None  # type: ignore[assignment]  # == is elementwise

    def _unary(self, op: str, dtype: DType) -> NDArray:
        a = self._cast(dtype)
        result = self._allocate(a._shape, like_strides(a._shape, (a,)), dtype)
        getattr(self._device.kernels, op)(a, result)
        return result

    def __neg__(self) -> NDArray:
        return self._unary("negate", self._number_dtype())

    def abs(self) -> NDArray:
        """Give the absolute values."""
        return self._unary("absolute", self._number_dtype())

    __abs__ = abs

    def sign(self) -> NDArray:
        """Give -1, 0 or 1 by the sign of each element; NaN for NaN."""
        return self._unary("sign", self._number_dtype())

    def sqrt(self) -> NDArray:
        """Give the square roots; NaN for negative elements."""
        return self._unary("sqrt", real_dtype(self._dtype))

    def exp(self) -> NDArray:
        """Give e to the power of each element."""
        return self._unary("exp", real_dtype(self._dtype))

    def log(self) -> NDArray:
        """Give the natural logarithms; -inf for 0, NaN for negative elements."""
        return self._unary("log", real_dtype(self._dtype))

    def tanh(self) -> NDArray:
        """Give the hyperbolic tangents."""
        return self._unary("tanh", real_dtype(self._dtype))

    def sigmoid(self) -> NDArray:
        """Give 1 / (1 + exp(-x)), without overflow."""
        return self._unary("sigmoid", real_dtype(self._dtype))

    def erf(self) -> NDArray:
        """Give the error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x."""
        return self._unary("erf", real_dtype(self._dtype))


def _check_exponent(base: Any, exponent: Any) -> None:
    """Raise DTypeError where an integer would be raised to a negative integer, which gives none."""
    if _is_whole(base) and _is_whole(exponent):
        values = np.asarray(exponent)
        if values.size and (least := values.min()) < 0:
            raise DTypeError(f"power: integers cannot be raised to {least}; convert the array with astype first")


def _is_whole(a: Any) -> bool:
    return a._dtype.kind in "iu" if isinstance(a, Elementwise) else isinstance(as_number(a), int)


def _operands_known(op: str, other: Any, result: NDArray) -> NDArray:
    if result is NotImplemented:
        raise DTypeError(f"{op}: expected an NDArray or a number, got {kind_of(other)}")
    return result
