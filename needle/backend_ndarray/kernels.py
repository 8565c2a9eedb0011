"""The kernels that every backend exports: names, signatures and meanings. No code.

A backend is a module with exactly these functions and one class, `Array`, the handle of a flat typed buffer. A
kernel reads views and writes into views that NDArray has allocated; it never allocates a result, never checks what
NDArray has checked, and never changes what it reads. `ndarray_backend_numpy` is the readable definition of each.
"""

# ruff: noqa: D103 - the comments say it, a line a kernel

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np


class Array(Protocol):
    """A handle: `size` elements of `dtype` in one flat buffer at address `ptr()`.

    `version` is a number that NDArray renews at every write, so that one comparison tells whether a value is still
    the one that was there before.
    """

    size: int
    dtype: np.dtype[Any]
    version: int

    def __init__(self, size: int, dtype: np.dtype[Any]) -> None: ...
    @classmethod
    def wrap(cls, line: np.ndarray[Any, Any]) -> Array: ...  # on memory of others: writable, one axis, no gaps
    def ptr(self) -> int: ...


class View(Protocol):
    """What a kernel sees of an NDArray: strides and offset count elements."""

    _handle: Array
    _shape: tuple[int, ...]
    _strides: tuple[int, ...]
    _offset: int
    _dtype: np.dtype[Any]


Operand: TypeAlias = "View | float"  # a number is rounded to the dtype of the other operand first
Axes: TypeAlias = tuple[int, ...]  # non-negative, ascending
Pair: TypeAlias = tuple[int, int]  # (along the height, along the width)


# Moving data. Shapes are equal unless said; dtypes may differ only in `copy`, which casts.
def from_numpy(a: np.ndarray[Any, Any], out: View) -> None: ...
def to_numpy(a: View) -> np.ndarray[Any, Any]: ...  # type: ignore[empty-body]  # a NumPy view on the same memory
def fill(out: View, value: float) -> None: ...
def copy(a: View, out: View) -> None: ...
def gather(a: View, indices: View, out: View) -> None: ...  # out[i] = a[indices[i]], rows along the first axis
def scatter_add(a: View, indices: View, out: View) -> None: ...  # out[indices[i]] += a[i], in the order of i


# Elementwise, one operand.
def negate(a: View, out: View) -> None: ...
def absolute(a: View, out: View) -> None: ...
def sign(a: View, out: View) -> None: ...
def sqrt(a: View, out: View) -> None: ...
def exp(a: View, out: View) -> None: ...
def log(a: View, out: View) -> None: ...
def tanh(a: View, out: View) -> None: ...
def sigmoid(a: View, out: View) -> None: ...  # never overflows
def erf(a: View, out: View) -> None: ...


# Elementwise, two operands that broadcast to out's shape; at most one of them is a number.
def add(a: Operand, b: Operand, out: View) -> None: ...
def subtract(a: Operand, b: Operand, out: View) -> None: ...
def multiply(a: Operand, b: Operand, out: View) -> None: ...
def divide(a: Operand, b: Operand, out: View) -> None: ...
def power(a: Operand, b: Operand, out: View) -> None: ...
def maximum(a: Operand, b: Operand, out: View) -> None: ...  # NaN passes
def minimum(a: Operand, b: Operand, out: View) -> None: ...  # NaN passes
def relu_gradient(d: Operand, y: Operand, out: View) -> None: ...  # d where not (y <= 0), else 0


# Comparisons: out is bool.
def equal(a: Operand, b: Operand, out: View) -> None: ...
def not_equal(a: Operand, b: Operand, out: View) -> None: ...
def less(a: Operand, b: Operand, out: View) -> None: ...
def less_equal(a: Operand, b: Operand, out: View) -> None: ...
def greater(a: Operand, b: Operand, out: View) -> None: ...
def greater_equal(a: Operand, b: Operand, out: View) -> None: ...
def where(condition: View, a: Operand, b: Operand, out: View) -> None: ...


# Reductions: out has length 1 along the reduced axes.
def reduce_sum(a: View, axes: Axes, out: View) -> None: ...  # float32 is summed in float64
def reduce_max(a: View, axes: Axes, out: View) -> None: ...  # NaN passes
def reduce_min(a: View, axes: Axes, out: View) -> None: ...  # NaN passes
def argmax(a: View, axis: int, out: View) -> None: ...  # the first maximum; NaN counts as one
def cumsum(a: View, axis: int, out: View) -> None: ...  # out has a's shape
def softmax(a: View, axis: int, out: View) -> None: ...  # out has a's shape; the maximum is subtracted first
def log_softmax(a: View, axis: int, out: View) -> None: ...  # likewise
def cross_entropy(
    a: View, labels: View, axis: int, out: View, largest: View, inverse: View
) -> None: ...  # out = -log_softmax(a) at the int64 labels; largest = max(a), inverse = 1 / sum(exp(a - largest))
def cross_entropy_gradient(
    d: View, a: View, labels: View, largest: View, inverse: View, axis: int, out: View
) -> None: ...  # out = d * (softmax(a) - 1 at the labels), and has a's shape
def argsort(a: View, axis: int, out: View) -> None: ...  # out has a's shape; stable; NaN last


# (..., m, n) x (..., n, p) -> (..., m, p); leading axes broadcast.
def matmul(a: View, b: View, out: View) -> None: ...


# Convolution: x (N, H, W, C), weight (Kh, Kw, C / groups, O), d and out (N, Ho, Wo, O), bias (O,) or None.
def conv(
    x: View, weight: View, bias: View | None, out: View, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> None: ...
def conv_input_gradient(
    d: View, weight: View, out: View, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> None: ...  # out (N, H, W, C)
def conv_weight_gradient(
    x: View, d: View, out: View, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> None: ...  # out (Kh, Kw, C / groups, O)


# Pooling of (N, C, H, W) into (N, C, Ho, Wo). A window's position is kh * Kw + kw of its first maximum; positions are
# uint8 for windows of at most 256 pixels, else int32.
def max_pool(x: View, out: View, positions: View, kernel: Pair, stride: Pair, padding: Pair) -> None: ...
def max_pool_gradient(
    d: View, positions: View, out: View, kernel: Pair, stride: Pair, padding: Pair
) -> None: ...  # scatters d to the positions: out (N, C, H, W)
def max_pool_gather(
    x: View, positions: View, out: View, kernel: Pair, stride: Pair, padding: Pair
) -> None: ...  # reads x at the positions: the adjoint of max_pool_gradient
def avg_pool(x: View, out: View, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool) -> None: ...
def avg_pool_gradient(
    d: View, out: View, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool
) -> None: ...


# Normalisation over axes: out = (x - mean) * inv_std * weight + bias, inv_std = 1 / sqrt(variance + eps), the variance
# taken in a second pass; with `relu`, out = max(out, 0), NaN passing. Statistics have length 1 along the axes; weight
# and bias are None or have x's ndim. Gradients: out with respect to x, out_weight and out_bias (of the weight's shape,
# None without one) with respect to these two. y is what `relu` gave, or None without: d counts where not (y <= 0).
def normalize(
    x: View, weight: View | None, bias: View | None, axes: Axes, eps: float, relu: bool,
    out: View, mean: View, variance: View,
) -> None: ...
def normalize_gradient(
    d: View, x: View, y: View | None, weight: View | None, mean: View, inv_std: View, axes: Axes,
    out: View, out_weight: View | None, out_bias: View | None,
) -> None: ...


# One optimizer step over all parameters, in place. The rules are those of needle.optim.
def sgd_update(
    params: Sequence[View], grads: Sequence[View], velocities: Sequence[View],
    lr: float, momentum: float, dampening: float, weight_decay: float, nesterov: bool,
) -> None: ...
def adam_update(
    params: Sequence[View], grads: Sequence[View], firsts: Sequence[View], seconds: Sequence[View],
    lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, decoupled: bool, step: int,
) -> None: ...
