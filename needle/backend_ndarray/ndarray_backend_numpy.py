"""The reference kernels: what each kernel of `kernels.py` means, in plain NumPy."""

# ruff: noqa: D103 - kernels.py says what each one means

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from needle.backend_ndarray.kernels import Axes, Operand, View
from needle.backend_ndarray.numpy_buffer import Array as Array
from needle.backend_ndarray.numpy_buffer import to_numpy as to_numpy
from needle.backend_ndarray.numpy_layers import adam_update as adam_update
from needle.backend_ndarray.numpy_layers import avg_pool as avg_pool
from needle.backend_ndarray.numpy_layers import avg_pool_gradient as avg_pool_gradient
from needle.backend_ndarray.numpy_layers import conv as conv
from needle.backend_ndarray.numpy_layers import conv_input_gradient as conv_input_gradient
from needle.backend_ndarray.numpy_layers import conv_weight_gradient as conv_weight_gradient
from needle.backend_ndarray.numpy_layers import max_pool as max_pool
from needle.backend_ndarray.numpy_layers import max_pool_gather as max_pool_gather
from needle.backend_ndarray.numpy_layers import max_pool_gradient as max_pool_gradient
from needle.backend_ndarray.numpy_layers import normalize as normalize
from needle.backend_ndarray.numpy_layers import normalize_gradient as normalize_gradient
from needle.backend_ndarray.numpy_layers import sgd_update as sgd_update


@np.errstate(all="ignore")
def from_numpy(a: np.ndarray[Any, Any], out: View) -> None:
    np.copyto(to_numpy(out), a, casting="unsafe")


@np.errstate(all="ignore")
def fill(out: View, value: float) -> None:
    to_numpy(out)[...] = value


@np.errstate(all="ignore")
def copy(a: View, out: View) -> None:
    np.copyto(to_numpy(out), to_numpy(a), casting="unsafe")


def gather(a: View, indices: View, out: View) -> None:
    to_numpy(out)[...] = to_numpy(a)[to_numpy(indices)]


def scatter_add(a: View, indices: View, out: View) -> None:
    np.add.at(to_numpy(out), to_numpy(indices), to_numpy(a))


@np.errstate(all="ignore")  # division by zero, log(-1), overflow: the values say it
def _unary(function: Callable[..., Any], a: View, out: View) -> None:
    function(to_numpy(a), out=to_numpy(out))


@np.errstate(all="ignore")
def _binary(function: Callable[..., Any], a: Operand, b: Operand, out: View) -> None:
    function(_operand(a, b), _operand(b, a), out=to_numpy(out))


def _operand(a: Any, other: Any) -> Any:
    """Give a view as an ndarray, a number rounded to the other operand's dtype."""
    return to_numpy(a) if hasattr(a, "_handle") else other._dtype.type(a)


def negate(a: View, out: View) -> None:
    _unary(np.negative, a, out)


def absolute(a: View, out: View) -> None:
    _unary(np.absolute, a, out)


def sign(a: View, out: View) -> None:
    _unary(np.sign, a, out)


def sqrt(a: View, out: View) -> None:
    _unary(np.sqrt, a, out)


def exp(a: View, out: View) -> None:
    _unary(np.exp, a, out)


def log(a: View, out: View) -> None:
    _unary(np.log, a, out)


def tanh(a: View, out: View) -> None:
    _unary(np.tanh, a, out)


def sigmoid(a: View, out: View) -> None:
    _unary(_sigmoid, a, out)


def _sigmoid(x: np.ndarray[Any, Any], out: np.ndarray[Any, Any]) -> None:
    np.divide(np.exp(np.minimum(x, 0)), 1 + np.exp(-np.abs(x)), out=out)  # no exponent is above 0


def erf(a: View, out: View) -> None:
    _unary(_erf, a, out)


_erf_of_one = np.frompyfunc(math.erf, 1, 1)


def _erf(x: np.ndarray[Any, Any], out: np.ndarray[Any, Any]) -> None:
    out[...] = _erf_of_one(x)


def add(a: Operand, b: Operand, out: View) -> None:
    _binary(np.add, a, b, out)


def subtract(a: Operand, b: Operand, out: View) -> None:
    _binary(np.subtract, a, b, out)


def multiply(a: Operand, b: Operand, out: View) -> None:
    _binary(np.multiply, a, b, out)


def divide(a: Operand, b: Operand, out: View) -> None:
    _binary(np.divide, a, b, out)


def power(a: Operand, b: Operand, out: View) -> None:
    _binary(np.power, a, b, out)


def maximum(a: Operand, b: Operand, out: View) -> None:
    _binary(np.maximum, a, b, out)


def minimum(a: Operand, b: Operand, out: View) -> None:
    _binary(np.minimum, a, b, out)


def equal(a: Operand, b: Operand, out: View) -> None:
    _binary(np.equal, a, b, out)


def not_equal(a: Operand, b: Operand, out: View) -> None:
    _binary(np.not_equal, a, b, out)


def relu_gradient(d: Operand, y: Operand, out: View) -> None:
    to_numpy(out)[...] = np.where(_operand(y, out) <= 0, 0, _operand(d, out))


def less(a: Operand, b: Operand, out: View) -> None:
    _binary(np.less, a, b, out)


def less_equal(a: Operand, b: Operand, out: View) -> None:
    _binary(np.less_equal, a, b, out)


def greater(a: Operand, b: Operand, out: View) -> None:
    _binary(np.greater, a, b, out)


def greater_equal(a: Operand, b: Operand, out: View) -> None:
    _binary(np.greater_equal, a, b, out)


def where(condition: View, a: Operand, b: Operand, out: View) -> None:
    result = to_numpy(out)
    np.copyto(result, _operand(b, out))
    np.copyto(result, _operand(a, out), where=to_numpy(condition))


@np.errstate(all="ignore")
def reduce_sum(a: View, axes: Axes, out: View) -> None:
    x = to_numpy(a)
    to_numpy(out)[...] = x.sum(axis=axes, dtype=_sum_dtype(x), keepdims=True)


def _sum_dtype(x: np.ndarray[Any, Any]) -> Any:
    return np.float64 if x.dtype == np.float32 else x.dtype


@np.errstate(all="ignore")
def reduce_max(a: View, axes: Axes, out: View) -> None:
    to_numpy(out)[...] = to_numpy(a).max(axis=axes, keepdims=True)


@np.errstate(all="ignore")
def reduce_min(a: View, axes: Axes, out: View) -> None:
    to_numpy(out)[...] = to_numpy(a).min(axis=axes, keepdims=True)  # out= is wrong for reversed views in NumPy 1.26


def argmax(a: View, axis: int, out: View) -> None:
    to_numpy(out)[...] = np.expand_dims(to_numpy(a).argmax(axis), axis)


@np.errstate(all="ignore")
def cumsum(a: View, axis: int, out: View) -> None:
    x = to_numpy(a)
    to_numpy(out)[...] = x.cumsum(axis, dtype=_sum_dtype(x))


@np.errstate(all="ignore")
def softmax(a: View, axis: int, out: View) -> None:
    x = to_numpy(a)
    powers = np.exp(x - x.max(axis, keepdims=True))
    to_numpy(out)[...] = powers / powers.sum(axis, dtype=np.float64, keepdims=True)


@np.errstate(all="ignore")
def log_softmax(a: View, axis: int, out: View) -> None:
    x = to_numpy(a)
    shifted = x - x.max(axis, keepdims=True)
    to_numpy(out)[...] = shifted - np.log(np.exp(shifted).sum(axis, dtype=np.float64, keepdims=True))


@np.errstate(all="ignore")
def cross_entropy(a: View, labels: View, axis: int, out: View, largest: View, inverse: View) -> None:
    x = to_numpy(a)
    to_numpy(largest)[...] = x.max(axis, keepdims=True)
    shifted = x - to_numpy(largest)
    total = np.exp(shifted).sum(axis, dtype=np.float64, keepdims=True)
    to_numpy(out)[...] = np.log(total) - np.take_along_axis(shifted, to_numpy(labels), axis)
    to_numpy(inverse)[...] = 1 / total


@np.errstate(all="ignore")
def cross_entropy_gradient(
    d: View, a: View, labels: View, largest: View, inverse: View, axis: int, out: View
) -> None:
    y, places = to_numpy(out), to_numpy(labels)
    y[...] = np.exp(to_numpy(a) - to_numpy(largest)) * to_numpy(inverse)
    np.put_along_axis(y, places, np.take_along_axis(y, places, axis) - 1, axis)
    y *= to_numpy(d)


def argsort(a: View, axis: int, out: View) -> None:
    to_numpy(out)[...] = to_numpy(a).argsort(axis, kind="stable")


@np.errstate(all="ignore")
def matmul(a: View, b: View, out: View) -> None:
    np.matmul(_for_blas(to_numpy(a)), _for_blas(to_numpy(b)), out=to_numpy(out))


def _for_blas(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Copy matrices of which neither rows nor columns lie in one piece.

    NumPy 1.26 and 2.0 multiply those with plain loops: at 200 by 200, 30 times as slowly as a copy and BLAS together.
    """
    rows, columns = x.strides[-2:]
    plain = (columns == x.itemsize and rows >= x.shape[-1] * x.itemsize) or (
        rows == x.itemsize and columns >= x.shape[-2] * x.itemsize
    )
    return x if plain else np.ascontiguousarray(x)
