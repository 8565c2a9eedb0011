"""Random changes of an image, (H,W,C), drawn from NumPy's global generator so that one seed fixes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from needle.errors import ShapeError
from needle.ops.arguments import fraction, integer


class Transform:
    """A change of one image, (H,W,C)."""

    def __call__(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define __call__")


@dataclass
class RandomFlipHorizontal(Transform):
    """Mirror an image left to right with probability p.

    >>> RandomFlipHorizontal(p=1)(np.arange(3).reshape(1, 3, 1)).ravel().tolist()
    [2, 1, 0]
    """

    p: float = 0.5

    def __post_init__(self) -> None:
        fraction("RandomFlipHorizontal", "p", self.p)

    def __call__(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        _check_image("RandomFlipHorizontal", x)
        return np.flip(x, axis=1) if np.random.rand() < self.p else x


@dataclass
class RandomCrop(Transform):
    """Shift an image by up to `padding` pixels along each axis, as if cropped from one padded with zeros.

    out[i, j] = image[i + shift_x, j + shift_y], zeros outside, both shifts uniform in -padding..padding.

    >>> np.random.seed(0)
    >>> RandomCrop(padding=1)(np.arange(1, 10).reshape(3, 3, 1))[:, :, 0].tolist()
    [[0, 0, 0], [1, 2, 3], [4, 5, 6]]
    """

    padding: int = 3

    def __post_init__(self) -> None:
        integer("RandomCrop", "padding", self.padding, 0)

    def __call__(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        _check_image("RandomCrop", x)
        shift_x, shift_y = np.random.randint(-self.padding, self.padding + 1, size=2)
        top, left = self.padding + shift_x, self.padding + shift_y
        height, width = x.shape[:2]
        margin = ((self.padding, self.padding),) * 2 + ((0, 0),) * (x.ndim - 2)
        return np.pad(x, margin)[top : top + height, left : left + width]


@dataclass
class Cutout(Transform):
    """Set a square of an image to zero, whose centre is any of its pixels; what lies outside is cut off.

    Source: DeVries and Taylor, "Improved regularization of convolutional neural networks with cutout" (2017).

    >>> np.random.seed(0)
    >>> Cutout(size=2)(np.ones((3, 3, 1)))[:, :, 0].tolist()
    [[0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """

    size: int = 8

    def __post_init__(self) -> None:
        integer("Cutout", "size", self.size, 1)

    def __call__(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        _check_image("Cutout", x)
        top, left = (np.random.randint(length) - self.size // 2 for length in x.shape[:2])
        cut = x.copy()
        cut[max(top, 0) : max(top + self.size, 0), max(left, 0) : max(left + self.size, 0)] = 0
        return cut


def _check_image(transform: str, x: npt.NDArray[Any]) -> None:
    if np.ndim(x) not in (2, 3):
        raise ShapeError(f"{transform}: an image has the axes H,W or H,W,C, got shape {np.shape(x)}")
