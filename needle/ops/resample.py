"""Resampling of images (N,C,H,W): weighted sums of a few pixels along the height and along the width."""

from __future__ import annotations

from typing import Any

import numpy as np

from needle.autograd import Tensor
from needle.errors import OptionError
from needle.ops.arguments import PairLike, images, pair
from needle.ops.indexing import take
from needle.ops.reduce import summation
from needle.ops.shape import broadcast_to, reshape

Ndarray = np.ndarray[Any, Any]


def weighted_taps(x: Tensor, axis: int, taps: Ndarray, weights: Ndarray) -> Tensor:
    """Give sum(weights[i] * x[taps[i]]) for each i, along an axis; taps and weights are (outputs, taps of each)."""
    gathered = take(x, taps, axis)  # the axis becomes (outputs, taps of each)
    weights = weights.reshape(*weights.shape, *[1] * (x.ndim - axis - 1))
    return summation(gathered * weights, axis + 1)


def upsample2d(x: Tensor, scale: PairLike, mode: str = "nearest", align_corners: bool = False) -> Tensor:
    """Enlarge images (N,C,H,W) by whole factors, to (N,C,H*scale,W*scale).

    Args:
        x: images.
        scale: a number, or a pair for (height, width).
        mode: "nearest" repeats pixels; "bilinear" interpolates between them.
        align_corners: for "bilinear": put the outermost pixels of both images at one place, instead of the images'
            edges; pixel i of n then comes from i * (H - 1) / (n - 1), not from (i + 0.5) * H / n - 0.5.

    >>> import needle as ndl
    >>> x = ndl.Tensor([[[[0.0, 4.0]]]])
    >>> upsample2d(x, (1, 2)).numpy().tolist()
    [[[[0.0, 0.0, 4.0, 4.0]]]]
    >>> upsample2d(x, (1, 2), mode="bilinear").numpy().tolist()
    [[[[0.0, 1.0, 3.0, 4.0]]]]
    """
    name = "upsample2d"
    factors = pair(name, "scale", scale, 1)
    images(name, x)
    if mode not in ("nearest", "bilinear") or (align_corners and mode == "nearest"):
        raise OptionError(
            f'{name}: mode must be "nearest" or "bilinear", and align_corners goes with "bilinear" only; '
            f"got {mode!r} and {align_corners}"
        )
    if mode == "nearest":
        return _repeat(x, factors)
    for axis, factor in zip((2, 3), factors):
        x = weighted_taps(x, axis, *_linear_taps(x.shape[axis], factor, align_corners))
    return x


def _repeat(x: Tensor, factors: tuple[int, int]) -> Tensor:
    (n, c, h, w), (rows, columns) = x.shape, factors
    repeated = broadcast_to(reshape(x, (n, c, h, 1, w, 1)), (n, c, h, rows, w, columns))
    return reshape(repeated, (n, c, h * rows, w * columns))


def _linear_taps(size: int, factor: int, align_corners: bool) -> tuple[Ndarray, Ndarray]:
    """Give the two pixels that each output lies between, and their shares."""
    outputs = np.arange(size * factor)
    if align_corners:
        place = outputs * (size - 1) / max(size * factor - 1, 1)
    else:
        place = np.maximum((outputs + 0.5) / factor - 0.5, 0)
    before = np.minimum(place.astype(np.int64), max(size - 1, 0))
    after = np.minimum(before + 1, max(size - 1, 0))
    return np.stack([before, after], 1), np.stack([1 - (place - before), place - before], 1)
