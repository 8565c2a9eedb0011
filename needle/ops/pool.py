"""Pooling of images (N,C,H,W), whatever their order of memory. Results keep that order."""

from __future__ import annotations

import numpy as np

from needle.autograd import NDArray, Tensor, TensorOp
from needle.backend_ndarray import layers
from needle.backend_ndarray.layers import PoolSettings
from needle.errors import ShapeError
from needle.ops.arguments import PairLike, images, pair, tensor
from needle.ops.reduce import mean
from needle.ops.resample import Ndarray, weighted_taps


def _settings(op: str, kernel_size: PairLike, stride: PairLike | None, padding: PairLike) -> PoolSettings:
    kernel = pair(op, "kernel_size", kernel_size, 1)
    return PoolSettings(
        kernel, kernel if stride is None else pair(op, "stride", stride, 1), pair(op, "padding", padding, 0)
    )


class MaxPool(TensorOp):
    """Each window's maximum. Where it lies is kept for the gradient."""

    positions: NDArray

    def __init__(self, settings: PoolSettings, ceil_mode: bool = False) -> None:
        self.settings, self.ceil_mode = settings, ceil_mode

    def compute(self, x: NDArray) -> NDArray:
        out, self.positions = layers.max_pool(x, self.settings, self.ceil_mode)
        return out

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return MaxPoolGradient(self.settings, self.positions, node.inputs[0].shape[2:])(out_grad)


class MaxPoolGradient(TensorOp):
    """Each window's d at the place of its maximum, in an image of the given size (H, W)."""

    def __init__(self, settings: PoolSettings, positions: NDArray, size: tuple[int, int]) -> None:
        self.settings, self.positions, self.size = settings, positions, size

    def compute(self, d: NDArray) -> NDArray:
        return layers.max_pool_gradient(d, self.positions, self.size, self.settings)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return MaxPoolGather(self.settings, self.positions)(out_grad)


class MaxPoolGather(TensorOp):
    """From each window, the pixel at the place where another image had its maximum."""

    def __init__(self, settings: PoolSettings, positions: NDArray) -> None:
        self.settings, self.positions = settings, positions

    def compute(self, x: NDArray) -> NDArray:
        return layers.max_pool_gather(x, self.positions, self.settings)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return MaxPoolGradient(self.settings, self.positions, node.inputs[0].shape[2:])(out_grad)


class AvgPool(TensorOp):
    """Each window's mean."""

    def __init__(self, settings: PoolSettings, ceil_mode: bool = False, count_include_pad: bool = True) -> None:
        self.settings, self.ceil_mode, self.count_include_pad = settings, ceil_mode, count_include_pad

    def compute(self, x: NDArray) -> NDArray:
        return layers.avg_pool(x, self.settings, self.ceil_mode, self.count_include_pad)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return AvgPoolGradient(self, node.inputs[0].shape[2:])(out_grad)


class AvgPoolGradient(TensorOp):
    """Each window's d spread evenly over its pixels, in an image of the given size (H, W)."""

    def __init__(self, pool: AvgPool, size: tuple[int, int]) -> None:
        self.pool, self.size = pool, size

    def compute(self, d: NDArray) -> NDArray:
        return layers.avg_pool_gradient(d, self.size, self.pool.settings, self.pool.count_include_pad)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return self.pool(out_grad)


def max_pool2d(
    x: Tensor, kernel_size: PairLike, stride: PairLike | None = None, padding: PairLike = 0, ceil_mode: bool = False
) -> Tensor:
    """Take the maximum of each window of images (N,C,H,W); gives (N,C,Ho,Wo).

    Ho = (H + 2 * padding - kernel) // stride + 1; with `ceil_mode` the division rounds up, as long as the last window
    still begins on the image or its near padding. Padding never wins. NaN passes. Of equal maxima the first, in
    row-major order, takes the gradient.

    Args:
        x: images, float32 or float64.
        kernel_size, stride, padding: a number, or a pair for (height, width). The stride is the kernel size by
            default; the padding at most half of the kernel size.
        ceil_mode: round the number of windows up.

    Raises:
        ShapeError: another number of axes, a kernel larger than the padded image, too much padding, a stride below 1.

    >>> import needle as ndl
    >>> max_pool2d(ndl.Tensor([[[[1.0, 4.0, 7.0], [2.0, 5.0, 8.0]]]]), 2).numpy().tolist()
    [[[[5.0]]]]
    """
    return MaxPool(_settings("max_pool2d", kernel_size, stride, padding), ceil_mode)(tensor("max_pool2d", x, "x"))


def avg_pool2d(
    x: Tensor,
    kernel_size: PairLike,
    stride: PairLike | None = None,
    padding: PairLike = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Take the mean of each window of images (N,C,H,W); sizes and arguments as for `max_pool2d`.

    Padding counts as zeros, unless `count_include_pad` is False: then the sum is divided by the number of real pixels.
    What a window of `ceil_mode` has beyond the padding never counts.

    >>> import needle as ndl
    >>> x = ndl.Tensor([[[[9.0, 9.0], [9.0, 9.0]]]])
    >>> avg_pool2d(x, 3, stride=1, padding=1).numpy().tolist()
    [[[[4.0, 4.0], [4.0, 4.0]]]]
    >>> avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False).numpy().tolist()
    [[[[9.0, 9.0], [9.0, 9.0]]]]
    """
    settings = _settings("avg_pool2d", kernel_size, stride, padding)
    return AvgPool(settings, ceil_mode, count_include_pad)(tensor("avg_pool2d", x, "x"))


def global_avg_pool2d(x: Tensor) -> Tensor:
    """Take the mean of each image's channel: (N,C,H,W) to (N,C,1,1).

    >>> import needle as ndl
    >>> global_avg_pool2d(ndl.Tensor([[[[1.0, 2.0], [3.0, 6.0]]]])).numpy().tolist()
    [[[[3.0]]]]
    """
    return mean(_with_pixels("global_avg_pool2d", x), (2, 3), keepdims=True)


def adaptive_avg_pool2d(x: Tensor, output_size: PairLike) -> Tensor:
    """Take the means of (N,C,H,W) over windows that share each axis as evenly as can be; gives (N,C,Ho,Wo).

    Window i of n along the height is the rows floor(i * H / n) up to, not including, ceil((i + 1) * H / n).

    >>> import needle as ndl
    >>> adaptive_avg_pool2d(ndl.Tensor([[[[1.0, 2.0, 6.0]]]]), (1, 2)).numpy().tolist()
    [[[[1.5, 4.0]]]]
    """
    name = "adaptive_avg_pool2d"
    sizes = pair(name, "output_size", output_size, 1)
    if _with_pixels(name, x).shape[2] % sizes[0] == 0 and x.shape[3] % sizes[1] == 0:
        return avg_pool2d(x, (x.shape[2] // sizes[0], x.shape[3] // sizes[1]))
    for axis, size in zip((2, 3), sizes):
        x = weighted_taps(x, axis, *_even_taps(x.shape[axis], size))
    return x


def _with_pixels(op: str, x: Tensor) -> Tensor:
    if 0 in images(op, x).shape[2:]:
        raise ShapeError(f"{op}: the images of the input {x.shape} have no pixels, and so no mean")
    return x


def _even_taps(size: int, windows: int) -> tuple[Ndarray, Ndarray]:
    """Each window's pixels and their shares. Shorter windows repeat their last pixel, which divides its share."""
    start = np.arange(windows) * size // windows
    stop = -(-np.arange(1, windows + 1) * size // windows)
    length = (stop - start)[:, None]
    step = np.arange(length.max())
    copies = np.where(step < length - 1, 1, length.max() - length + 1)
    return np.minimum(start[:, None] + step, stop[:, None] - 1), 1 / (length * copies)
