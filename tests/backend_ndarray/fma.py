"""Fused multiply-add in NumPy, and sums in the order of the native backend's contract.

Python has `math.fma` from 3.13 on only, and float64 rounds twice; so the exact result is rounded to odd (its last bit
set when anything was cut off) in a wider format, from where one more rounding is right. Boldo and Melquiond, "Emulation
of a FMA and correctly-rounded sums: proved algorithms using rounding to odd", 2008.
"""

from collections.abc import Iterable

import numpy as np

GROUP = 256


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Give a * b + c, rounded once; of float32, or of float64 far from overflow and underflow."""
    if a.dtype == np.float32:
        product = a.astype(np.float64) * b  # exact: 24 bits by 24 bits
        return _sum_to_odd(product, c.astype(np.float64)).astype(np.float32)
    high, low = _product(a, b)
    other_high, other_low = _sum(c, low)
    total, rest = _sum(high, other_high)
    return total + _sum_to_odd(other_low, rest)


def _sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a + b, and what rounding left of it (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a * b, and what rounding left of it (Dekker)."""

    def halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scaled = x * 134217729.0  # 2**27 + 1
        high = scaled - (scaled - x)
        return high, x - high

    (ah, al), (bh, bl), total = halves(a), halves(b), a * b
    return total, al * bl - (((total - ah * bh) - al * bh) - ah * bl)


def _sum_to_odd(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    total, rest = _sum(a, b)
    even = np.asarray(total).view(np.int64) % 2 == 0
    return np.where((rest != 0) & even, np.nextafter(total, np.copysign(np.inf, rest)), total)


def chain(steps: Iterable[tuple[np.ndarray, np.ndarray]], zero: np.ndarray) -> np.ndarray:
    """Add the products of the steps in order: groups of 256, each from zero, whose sums are added in order."""
    total, group = zero, zero
    for index, (a, b) in enumerate(steps):
        if index and index % GROUP == 0:
            total, group = total + group, zero
        group = fma(a, b, group)
    return total + group


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Multiply (m, n) by (n, p)."""
    zero = np.zeros((len(a), b.shape[1]), a.dtype)
    return chain(((a[:, k, None], b[None, k]) for k in range(len(b))), zero)


def conv(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, size: tuple[int, int], settings) -> np.ndarray:
    """Convolve (N,H,W,C) with (Kh,Kw,C,O) into images of the given size."""
    windows = _windows(x, weight.shape[:2], size, settings)  # (N,Ho,Wo,Kh,Kw,C)
    columns = windows.reshape(-1, weight[..., 0].size)
    result = matmul(columns, weight.reshape(-1, weight.shape[3])).reshape(len(x), *size, -1)
    return result if bias is None else result + bias


def conv_weight_gradient(x: np.ndarray, d: np.ndarray, kernel: tuple[int, int], settings) -> np.ndarray:
    """Give the gradient (Kh,Kw,C,O): sums over (n, ho, wo)."""
    windows = _windows(x, kernel, d.shape[1:3], settings)
    columns = windows.reshape(-1, windows[0, 0, 0].size)
    return matmul(columns.T, d.reshape(-1, d.shape[3])).reshape(*windows.shape[3:], d.shape[3])


def conv_input_gradient(d: np.ndarray, weight: np.ndarray, size: tuple[int, int], settings) -> np.ndarray:
    """Give the gradient (N,H,W,C): sums over (kh, kw, o), zeros where a tap meets no output."""
    stride, padding, dilation, _ = settings
    n, outputs, (kh, kw, channels, _) = d.shape[0], d.shape[3], weight.shape

    def along(axis: int, tap: int) -> tuple[np.ndarray, np.ndarray]:
        """Which output each input meets with this tap, and whether there is one."""
        place = np.arange(size[axis]) + padding[axis] - tap * dilation[axis]
        output = place // stride[axis]
        there = (place % stride[axis] == 0) & (output >= 0) & (output < d.shape[1 + axis])
        return np.where(there, output, 0), there

    def steps():
        for h, w, o in np.ndindex(kh, kw, outputs):
            (rows, row_there), (columns, column_there) = along(0, h), along(1, w)
            there = row_there[:, None] & column_there
            read = np.where(there, d[:, rows[:, None], columns, o], d.dtype.type(0))
            yield read[..., None], weight[h, w, :, o]

    return chain(steps(), np.zeros((n, *size, channels), d.dtype))


def _windows(x: np.ndarray, kernel: tuple[int, int], size: tuple[int, int], settings) -> np.ndarray:
    (sh, sw), (ph, pw), (dh, dw), _ = settings
    padded = np.pad(x, ((0, 0), (ph, ph), (pw, pw), (0, 0)))
    rows = np.arange(size[0])[:, None] * sh + np.arange(kernel[0]) * dh  # (Ho,Kh)
    columns = np.arange(size[1])[:, None] * sw + np.arange(kernel[1]) * dw
    return padded[:, rows[:, None, :, None], columns[None, :, None, :]]
