"""The reference kernels of layers and optimizers, in plain NumPy; `kernels.py` says what each one means."""

# ruff: noqa: D103 - kernels.py says what each one means

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from needle.backend_ndarray.kernels import Axes, Pair, View
from needle.backend_ndarray.numpy_buffer import to_numpy

Ndarray = np.ndarray[Any, Any]


# Convolution. Groups are the leading axis of a batched matrix product.


def _pad(x: Ndarray, padding: Pair) -> Ndarray:
    if padding == (0, 0):
        return x
    n, h, w, c = x.shape
    padded = np.zeros((n, h + 2 * padding[0], w + 2 * padding[1], c), x.dtype)
    padded[:, padding[0] : padding[0] + h, padding[1] : padding[1] + w] = x
    return padded


def _columns(x: Ndarray, kernel: Sequence[int], stride: Pair, dilation: Pair, groups: int) -> Ndarray:
    """Give the windows of a padded image as rows: (N,H,W,C) -> (groups, N*Ho*Wo, Kh*Kw*C/groups)."""
    (n, h, w, c), (kh, kw), (dh, dw) = x.shape, kernel, dilation
    ho, wo = (h - dh * (kh - 1) - 1) // stride[0] + 1, (w - dw * (kw - 1) - 1) // stride[1] + 1
    sn, sh, sw, sc = x.strides
    windows = as_strided(  # (N,H,W,C) -> (groups,N,Ho,Wo,Kh,Kw,C/groups)
        x,
        (groups, n, ho, wo, kh, kw, c // groups),
        (sc * (c // groups), sn, sh * stride[0], sw * stride[1], sh * dh, sw * dw, sc),
        writeable=False,
    )
    return np.ascontiguousarray(windows.reshape(groups, n * ho * wo, kh * kw * (c // groups)))


def _by_group(a: Ndarray, groups: int) -> Ndarray:
    """Split the last axis: (..., O) -> (groups, rows, O/groups). A view where `a` is row-major, as results are."""
    rows, channels = math.prod(a.shape[:-1]), a.shape[-1] // groups
    return np.ascontiguousarray(a).reshape(rows, groups, channels).transpose(1, 0, 2)


def _convolve(x: Ndarray, weight: Ndarray, out: Ndarray, stride: Pair, dilation: Pair, groups: int) -> None:
    columns = _columns(x, weight.shape[:2], stride, dilation, groups)
    np.matmul(columns, _by_group(weight, groups), out=_by_group(out, groups))


@np.errstate(all="ignore")
def conv(
    x: View, weight: View, bias: View | None, out: View, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> None:
    y = to_numpy(out)
    _convolve(_pad(to_numpy(x), padding), to_numpy(weight), y, stride, dilation, groups)
    if bias is not None:
        y += to_numpy(bias)


@np.errstate(all="ignore")
def conv_input_gradient(
    d: View, weight: View, out: View, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> None:
    """Spread d out by the stride, and convolve it with the flipped kernel whose channels are swapped.

    On the padded input, d lies K - 1 (times the dilation) behind the border; the padding is left out again.
    """
    (n, h, w, _), (kh, kw, c, o) = out._shape, weight._shape
    front, behind = (dilation[0] * (kh - 1), dilation[1] * (kw - 1)), (2 * padding[0], 2 * padding[1])
    spread = np.zeros((n, h + behind[0] + front[0], w + behind[1] + front[1], o), out._dtype)
    spread[:, front[0] :: stride[0], front[1] :: stride[1]][:, : d._shape[1], : d._shape[2]] = to_numpy(d)
    spread = spread[:, padding[0] : padding[0] + h + front[0], padding[1] : padding[1] + w + front[1]]
    flipped = to_numpy(weight)[::-1, ::-1].reshape(kh, kw, c, groups, o // groups)
    flipped = flipped.transpose(0, 1, 4, 3, 2).reshape(kh, kw, o // groups, groups * c)
    _convolve(spread, flipped, to_numpy(out), (1, 1), dilation, groups)


@np.errstate(all="ignore")
def conv_weight_gradient(x: View, d: View, out: View, stride: Pair, padding: Pair, dilation: Pair, groups: int) -> None:
    columns = _columns(_pad(to_numpy(x), padding), out._shape[:2], stride, dilation, groups)
    np.matmul(columns.transpose(0, 2, 1), _by_group(to_numpy(d), groups), out=_by_group(to_numpy(out), groups))


# Pooling: a pass over whole images for each tap of the window.

Place = tuple[slice, slice, slice, slice]
ALL = slice(None)


def _taps(
    size: Sequence[int], out_size: Sequence[int], kernel: Pair, stride: Pair, padding: Pair
) -> list[tuple[int, Place, Place]]:
    """For each position in the window: itself, the windows for which it lies on the image, and those pixels."""
    rows, columns = (
        [_tap(size[axis], out_size[axis], k, stride[axis], padding[axis]) for k in range(kernel[axis])]
        for axis in (0, 1)
    )
    return [
        (i * kernel[1] + j, (ALL, ALL, out_rows, out_columns), (ALL, ALL, in_rows, in_columns))
        for i, (out_rows, in_rows) in enumerate(rows)
        for j, (out_columns, in_columns) in enumerate(columns)
    ]


def _tap(size: int, out_size: int, k: int, stride: int, padding: int) -> tuple[slice, slice]:
    """Along one axis: the windows whose k-th row lies on the image, and these rows."""
    first = max(0, -((k - padding) // stride))
    last = max(first, min(out_size, (size - 1 + padding - k) // stride + 1))
    start = first * stride + k - padding
    return slice(first, last), slice(start, start + (last - first) * stride, stride)


@np.errstate(all="ignore")
def max_pool(x: View, out: View, positions: View, kernel: Pair, stride: Pair, padding: Pair) -> None:
    a, y, position = to_numpy(x), to_numpy(out), to_numpy(positions)
    taps = _taps(x._shape[2:], out._shape[2:], kernel, stride, padding)
    y[...] = -np.inf
    for _, windows, pixels in taps:
        np.maximum(y[windows], a[pixels], out=y[windows])
    position[...] = 0
    for k, windows, pixels in reversed(taps):  # the first maximum, or NaN, has the last word
        found = (a[pixels] == y[windows]) | np.isnan(a[pixels])
        position[windows] += found * (k - position[windows])  # 30 times as fast as a masked copy of random masks


@np.errstate(all="ignore")
def max_pool_gradient(d: View, positions: View, out: View, kernel: Pair, stride: Pair, padding: Pair) -> None:
    a, y, position = to_numpy(d), to_numpy(out), to_numpy(positions)
    y[...] = 0
    for k, windows, pixels in _taps(out._shape[2:], d._shape[2:], kernel, stride, padding):
        y[pixels] += np.where(position[windows] == k, a[windows], 0)


def max_pool_gather(x: View, positions: View, out: View, kernel: Pair, stride: Pair, padding: Pair) -> None:
    a, y, position = to_numpy(x), to_numpy(out), to_numpy(positions)
    for k, windows, pixels in _taps(x._shape[2:], out._shape[2:], kernel, stride, padding):
        np.copyto(y[windows], a[pixels], where=position[windows] == k)


@np.errstate(all="ignore")
def avg_pool(x: View, out: View, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool) -> None:
    a, y = to_numpy(x), to_numpy(out)
    y[...] = 0
    for _, windows, pixels in _taps(x._shape[2:], out._shape[2:], kernel, stride, padding):
        y[windows] += a[pixels]
    y /= _counts(x._shape[2:], out._shape[2:], kernel, stride, padding, count_include_pad).astype(y.dtype)


@np.errstate(all="ignore")
def avg_pool_gradient(d: View, out: View, kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool) -> None:
    y = to_numpy(out)
    counts = _counts(out._shape[2:], d._shape[2:], kernel, stride, padding, count_include_pad)
    scaled = to_numpy(d) / counts.astype(y.dtype)
    y[...] = 0
    for _, windows, pixels in _taps(out._shape[2:], d._shape[2:], kernel, stride, padding):
        y[pixels] += scaled[windows]


def _counts(
    size: Sequence[int], out_size: Sequence[int], kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool
) -> Ndarray:
    """How many pixels each window averages. What hangs over the padding never counts."""
    counts = []
    for axis in (0, 1):
        start = np.arange(out_size[axis]) * stride[axis] - padding[axis]
        border = padding[axis] if count_include_pad else 0
        stop = np.minimum(start + kernel[axis], size[axis] + border)
        counts.append(stop - np.maximum(start, -border))
    return np.outer(*counts)


# Normalisation


@np.errstate(all="ignore")
def normalize(
    x: View,
    weight: View | None,
    bias: View | None,
    axes: Axes,
    eps: float,
    relu: bool,
    out: View,
    mean: View,
    variance: View,
) -> None:
    a, y, m, v = to_numpy(x), to_numpy(out), to_numpy(mean), to_numpy(variance)
    m[...] = _mean(a, axes)
    np.subtract(a, m, out=y)
    v[...] = _mean(np.square(y), axes)
    y /= np.sqrt(v + eps)
    if weight is not None:
        y *= to_numpy(weight)
    if bias is not None:
        y += to_numpy(bias)
    if relu:
        np.maximum(y, 0, out=y)


@np.errstate(all="ignore")
def normalize_gradient(
    d: View,
    x: View,
    y: View | None,
    weight: View | None,
    mean: View,
    inv_std: View,
    axes: Axes,
    out: View,
    out_weight: View | None,
    out_bias: View | None,
) -> None:
    incoming = to_numpy(d) if y is None else np.where(to_numpy(y) <= 0, 0, to_numpy(d))
    g = incoming if weight is None else incoming * to_numpy(weight)
    normalized = (to_numpy(x) - to_numpy(mean)) * to_numpy(inv_std)
    projection = _mean(g * normalized, axes).astype(g.dtype)
    to_numpy(out)[...] = (g - _mean(g, axes).astype(g.dtype) - normalized * projection) * to_numpy(inv_std)
    for a, result in ((incoming * normalized, out_weight), (incoming, out_bias)):
        if result is not None:
            shared = tuple([axis for axis, n in enumerate(result._shape) if n == 1])
            to_numpy(result)[...] = a.sum(shared, dtype=np.float64, keepdims=True)


def _mean(a: Ndarray, axes: Axes) -> Ndarray:
    """Give the mean, summed in float64: in float32 a constant's mean is not that constant."""
    return a.mean(axes, dtype=np.float64, keepdims=True)


# Optimizer steps


@np.errstate(all="ignore")
def sgd_update(
    params: Sequence[View],
    grads: Sequence[View],
    velocities: Sequence[View],
    lr: float,
    momentum: float,
    dampening: float,
    weight_decay: float,
    nesterov: bool,
) -> None:
    for p, grad, u in zip(map(to_numpy, params), map(to_numpy, grads), map(to_numpy, velocities)):
        g = grad + weight_decay * p
        u *= momentum
        u += (1 - dampening) * g
        p -= lr * (g + momentum * u if nesterov else u)


@np.errstate(all="ignore")
def adam_update(
    params: Sequence[View],
    grads: Sequence[View],
    firsts: Sequence[View],
    seconds: Sequence[View],
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    step: int,
) -> None:
    for p, grad, m, v in zip(*(map(to_numpy, views) for views in (params, grads, firsts, seconds))):
        if decoupled:
            p *= 1 - lr * weight_decay
        g = grad if decoupled else grad + weight_decay * p
        m += (1 - beta1) * (g - m)
        v += (1 - beta2) * (g * g - v)
        p -= lr / (1 - beta1**step) * m / (np.sqrt(v / (1 - beta2**step)) + eps)
