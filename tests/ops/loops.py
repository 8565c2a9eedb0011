"""Convolution and pooling by plain loops over windows and taps: the oracles of their tests."""

from collections.abc import Iterator

import numpy as np


def both(value):
    """Give a number twice, a pair as it is."""
    return value if isinstance(value, tuple) else (value, value)


def taps(size, kernel, stride, padding, dilation=(1, 1)) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Give (output row, output column, kernel row, kernel column, row, column) of every tap that is on the image."""
    rows, columns = [
        [(o, k, o * s - p + k * d) for o in range((n + 2 * p - d * (q - 1) - 1) // s + 1) for k in range(q)]
        for n, q, s, p, d in zip(size, kernel, stride, padding, dilation)
    ]
    for i, a, row in rows:
        for j, b, column in columns:
            if 0 <= row < size[0] and 0 <= column < size[1]:
                yield i, j, a, b, row, column


def out_size(size, kernel, stride, padding, dilation=(1, 1)) -> tuple[int, ...]:
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(size, kernel, stride, padding, dilation)
    )


def conv(x, w, stride, padding, dilation, groups):
    """x (N,H,W,C), w (Kh,Kw,C/groups,O) to (N,Ho,Wo,O)."""
    y = np.zeros((len(x), *out_size(x.shape[1:3], w.shape[:2], stride, padding, dilation), w.shape[3]), x.dtype)
    for inputs, outputs in _groups(x.shape[3], w.shape[3], groups):
        for i, j, a, b, row, column in taps(x.shape[1:3], w.shape[:2], stride, padding, dilation):
            y[:, i, j, outputs] += x[:, row, column, inputs] @ w[a, b, :, outputs]
    return y


def conv_gradients(x, w, d, stride, padding, dilation, groups):
    """The gradients of sum(d * conv(x, w)) with respect to x and w."""
    dx, dw = np.zeros_like(x), np.zeros_like(w)
    for inputs, outputs in _groups(x.shape[3], w.shape[3], groups):
        for i, j, a, b, row, column in taps(x.shape[1:3], w.shape[:2], stride, padding, dilation):
            dx[:, row, column, inputs] += d[:, i, j, outputs] @ w[a, b, :, outputs].T
            dw[a, b, :, outputs] += x[:, row, column, inputs].T @ d[:, i, j, outputs]
    return dx, dw


def _groups(channels, outputs, groups):
    for group in range(groups):
        yield (
            slice(group * channels // groups, (group + 1) * channels // groups),
            slice(group * outputs // groups, (group + 1) * outputs // groups),
        )


def max_pool(x, kernel, stride, padding):
    """x (N,C,H,W) to the maxima and to the flat position, on the image, of each window's first maximum."""
    y = np.full((*x.shape[:2], *out_size(x.shape[2:], kernel, stride, padding)), -np.inf, x.dtype)
    place = np.full(y.shape, -1)
    for i, j, _, _, row, column in taps(x.shape[2:], kernel, stride, padding):
        pixel = x[:, :, row, column]
        better = (place[:, :, i, j] < 0) | (pixel > y[:, :, i, j])
        y[:, :, i, j] = np.where(better, pixel, y[:, :, i, j])
        place[:, :, i, j] = np.where(better, row * x.shape[3] + column, place[:, :, i, j])
    return y, place


def avg_pool(x, kernel, stride, padding, count_include_pad):
    y = np.zeros((*x.shape[:2], *out_size(x.shape[2:], kernel, stride, padding)), x.dtype)
    count = np.zeros(y.shape[2:])
    for i, j, _, _, row, column in taps(x.shape[2:], kernel, stride, padding):
        y[:, :, i, j] += x[:, :, row, column]
        count[i, j] += 1
    return y / (kernel[0] * kernel[1] if count_include_pad else count)
