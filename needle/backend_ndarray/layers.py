"""Array-level functions of layers and optimizers: check sizes, allocate the results, call the device's kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from needle.backend_ndarray.dtypes import INT32, UINT8, DType, check_floating
from needle.backend_ndarray.kernels import Axes, Pair
from needle.backend_ndarray.layout import Shape, ordered_strides, reduced_shapes
from needle.backend_ndarray.ndarray import NDArray
from needle.backend_ndarray.strided import check_devices
from needle.errors import DTypeError, ShapeError


class ConvSettings(NamedTuple):
    """How a convolution's windows lie: a pair (along the height, along the width) each, and the number of groups."""

    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1


class PoolSettings(NamedTuple):
    """How a pooling's windows lie: a pair (along the height, along the width) each."""

    kernel: Pair
    stride: Pair
    padding: Pair = (0, 0)


# Activation.


def relu_gradient(d: NDArray, y: NDArray) -> NDArray:
    """Give d where y, a result of ReLU, is above 0 or NaN, and 0 elsewhere."""
    return d._binary("relu_gradient", y)


# Convolution: x (N,H,W,C), weight (Kh,Kw,C/groups,O), d (N,Ho,Wo,O), all of one dtype.


def conv(x: NDArray, weight: NDArray, bias: NDArray | None, settings: ConvSettings) -> NDArray:
    """Give the convolution (N,Ho,Wo,O), Ho = (H + 2P - D*(K-1) - 1) // S + 1, plus the bias (O,) if there is one."""
    _check_together("conv", x, weight, *(() if bias is None else (bias,)))
    check_floating("conv", "the input", x.dtype)
    _check_axes("conv", "the input", x, "N,H,W,C")
    _check_axes("conv", "the weight", weight, "Kh,Kw,C/groups,O")
    _check_channels("conv", x.shape[3], weight.shape, settings.groups)
    if bias is not None and bias.shape != weight.shape[3:]:
        raise ShapeError(f"conv: the bias has shape {bias.shape}, the weight {weight.shape}; it must be (O,)")
    height, width = conv_output_size("conv", x.shape[1:3], weight.shape[:2], settings)
    out = x._allocate((x.shape[0], height, width, weight.shape[3]))
    x.device.kernels.conv(x, weight, bias, out, *settings)
    return out


def conv_input_gradient(d: NDArray, weight: NDArray, size: Pair, settings: ConvSettings) -> NDArray:
    """Give the gradient (N,H,W,C) of a convolution's input of the given (H, W); zero where no window reached."""
    op = "conv_input_gradient"
    _check_together(op, d, weight)
    _check_axes(op, "the output gradient", d, "N,Ho,Wo,O")
    _check_axes(op, "the weight", weight, "Kh,Kw,C/groups,O")
    _check_gradient_size(op, d.shape, weight.shape[3], size, weight.shape[:2], settings)
    channels = weight.shape[2] * settings.groups
    _check_channels(op, channels, weight.shape, settings.groups)
    out = d._allocate((d.shape[0], *size, channels))
    d.device.kernels.conv_input_gradient(d, weight, out, *settings)
    return out


def conv_weight_gradient(x: NDArray, d: NDArray, kernel: Pair, settings: ConvSettings) -> NDArray:
    """Give the gradient (Kh,Kw,C/groups,O) of a convolution's weight: a sum over images and windows, no mean."""
    op = "conv_weight_gradient"
    _check_together(op, x, d)
    _check_axes(op, "the input", x, "N,H,W,C")
    _check_axes(op, "the output gradient", d, "N,Ho,Wo,O")
    if x.shape[0] != d.shape[0]:
        raise ShapeError(f"{op}: the input {x.shape} and the output gradient {d.shape} hold different batches")
    _check_gradient_size(op, d.shape, d.shape[3], x.shape[1:3], kernel, settings)
    shape = (*kernel, x.shape[3] // settings.groups, d.shape[3])
    _check_channels(op, x.shape[3], shape, settings.groups)
    out = x._allocate(shape)
    x.device.kernels.conv_weight_gradient(x, d, out, *settings)
    return out


def conv_output_size(op: str, size: Sequence[int], kernel: Sequence[int], settings: ConvSettings) -> Pair:
    """Give (Ho, Wo), or raise where the kernel does not fit."""
    padded = tuple([n + 2 * p for n, p in zip(size, settings.padding)])
    reach = tuple([d * (k - 1) + 1 for d, k in zip(settings.dilation, kernel)])
    if min(kernel) < 1:
        raise ShapeError(f"{op}: the kernel {tuple(kernel)} must be at least (1, 1)")
    if reach[0] > padded[0] or reach[1] > padded[1]:
        dilated = f" (dilated: {reach})" if reach != tuple(kernel) else ""
        raise ShapeError(
            f"{op}: kernel {tuple(kernel)}{dilated} is larger than the padded input {padded}; "
            "use a smaller kernel or more padding"
        )
    height, width = [(n - r) // s + 1 for n, r, s in zip(padded, reach, settings.stride)]
    return height, width


def check_groups(op: str, inputs: int, outputs: int, groups: int) -> None:
    """Raise ShapeError unless input and output channels can be cut into so many groups of one size."""
    if inputs % groups or outputs % groups:
        raise ShapeError(
            f"{op}: {inputs} input and {outputs} output channels cannot be cut into {groups} groups; "
            "groups must divide both"
        )


def _check_channels(op: str, channels: int, weight: Shape, groups: int) -> None:
    check_groups(op, channels, weight[3], groups)
    if channels != weight[2] * groups:
        times = f" in each of {groups} groups" if groups > 1 else ""
        raise ShapeError(
            f"{op}: the input has {channels} channels, the weight {weight} takes {weight[2]}{times}; "
            "its axes are Kh,Kw,C/groups,O"
        )


def _check_gradient_size(
    op: str, d: Shape, channels: int, size: Sequence[int], kernel: Sequence[int], settings: ConvSettings
) -> None:
    expected = (*conv_output_size(op, size, kernel, settings), channels)
    if d[1:] != expected:
        raise ShapeError(
            f"{op}: the output gradient {d} does not come from an input of size {tuple(size)} and a kernel "
            f"{tuple(kernel)}, whose output is (N, {', '.join(map(str, expected))})"
        )


# Pooling: x (N,C,H,W), d (N,C,Ho,Wo). Results keep the memory order of their input.


def max_pool(x: NDArray, settings: PoolSettings, ceil_mode: bool) -> tuple[NDArray, NDArray]:
    """Give each window's maximum, and its position kh * Kw + kw in the window; of equal ones the first, or a NaN."""
    out = _empty(_pooled("max_pool2d", x, settings, ceil_mode), x)
    positions = _empty(out.shape, x, UINT8 if settings.kernel[0] * settings.kernel[1] <= 256 else INT32)
    x.device.kernels.max_pool(x, out, positions, *settings)
    return out, positions


def max_pool_gradient(d: NDArray, positions: NDArray, size: Pair, settings: PoolSettings) -> NDArray:
    """Add each window's d to the pixel (of an image of the given (H, W)) that was its maximum.

    The result has the positions' order of memory, which is that of the pooled image.
    """
    out = _empty((*d.shape[:2], *size), positions, d.dtype)
    d.device.kernels.max_pool_gradient(d, positions, out, *settings)
    return out


def max_pool_gather(x: NDArray, positions: NDArray, settings: PoolSettings) -> NDArray:
    """Read from each window of x the pixel at its position."""
    out = _empty(positions.shape, x)
    x.device.kernels.max_pool_gather(x, positions, out, *settings)
    return out


def avg_pool(x: NDArray, settings: PoolSettings, ceil_mode: bool, count_include_pad: bool) -> NDArray:
    """Give each window's mean."""
    out = _empty(_pooled("avg_pool2d", x, settings, ceil_mode), x)
    x.device.kernels.avg_pool(x, out, *settings, count_include_pad)
    return out


def avg_pool_gradient(d: NDArray, size: Pair, settings: PoolSettings, count_include_pad: bool) -> NDArray:
    """Spread each window's d evenly over its pixels, in an image of the given (H, W)."""
    out = _empty((*d.shape[:2], *size), d)
    d.device.kernels.avg_pool_gradient(d, out, *settings, count_include_pad)
    return out


def _pooled(op: str, x: NDArray, settings: PoolSettings, ceil_mode: bool) -> Shape:
    """Give the shape of the result: (N,C,H,W) -> (N,C,Ho,Wo)."""
    check_floating(op, "the input", x.dtype)
    _check_axes(op, "the input", x, "N,C,H,W")
    kernel, stride, padding = settings
    if any(p > k // 2 for p, k in zip(padding, kernel)):
        raise ShapeError(f"{op}: padding {padding} must be at most half the kernel {kernel}")
    padded = tuple([n + 2 * p for n, p in zip(x.shape[2:], padding)])
    if any(k > n for k, n in zip(kernel, padded)):
        raise ShapeError(f"{op}: kernel {kernel} is larger than the padded input {padded}; use a smaller kernel")
    sizes = [_pooled_size(*along, ceil_mode) for along in zip(x.shape[2:], kernel, stride, padding)]
    return (*x.shape[:2], *sizes)


def _pooled_size(size: int, kernel: int, stride: int, padding: int, ceil_mode: bool) -> int:
    room = size + 2 * padding - kernel
    if not ceil_mode:
        return room // stride + 1
    windows = -(-room // stride) + 1
    return windows - ((windows - 1) * stride >= size + padding)  # the last window must begin on the image


# Normalisation: weight and bias have x's number of axes, and broadcast to x.


def normalize(
    x: NDArray, weight: NDArray | None, bias: NDArray | None, axes: Axes, eps: float, relu: bool = False
) -> tuple[NDArray, NDArray, NDArray]:
    """Give (x - mean) / sqrt(variance + eps) * weight + bias, the mean and the variance, over the (ascending) axes.

    With `relu`, the first is max(..., 0). The variance is divided by the number of elements, and computed in a second
    pass. Without elements, nothing is computed and the statistics are zeros.
    """
    check_floating("normalize", "the input", x.dtype)
    _check_together("normalize", x, *[a for a in (weight, bias) if a is not None])
    out = _empty(x.shape, x)
    kept, _ = reduced_shapes(x.shape, axes)
    mean, variance = _empty(kept, x), _empty(kept, x)
    if x.size:
        x.device.kernels.normalize(x, weight, bias, axes, eps, relu, out, mean, variance)
    else:
        mean.fill(0)
        variance.fill(0)
    return out, mean, variance


def normalize_gradient(
    d: NDArray,
    x: NDArray,
    weight: NDArray | None,
    mean: NDArray,
    inv_std: NDArray,
    axes: Axes,
    y: NDArray | None = None,
) -> tuple[NDArray, ...]:
    """Give the gradients of `normalize` with respect to x and, where there is a weight, to weight and bias.

    inv_std is 1 / sqrt(variance + eps); y what was computed, if with `relu`.
    """
    out = _empty(x.shape, x)
    to_weight, to_bias = (None, None) if weight is None else (x._allocate(weight.shape), x._allocate(weight.shape))
    if x.size:
        x.device.kernels.normalize_gradient(d, x, y, weight, mean, inv_std, axes, out, to_weight, to_bias)
    if to_weight is None or to_bias is None:
        return (out,)
    if not x.size:
        to_weight.fill(0)
        to_bias.fill(0)
    return out, to_weight, to_bias


def normalize_by(x: NDArray, mean: NDArray, scale: NDArray, bias: NDArray | None, relu: bool) -> NDArray:
    """Give (x - mean) * scale + bias, or with `relu` max(..., 0) of that: one array, gone through by each kernel."""
    out = x - mean
    kernels = out.device.kernels
    kernels.multiply(out, scale, out)
    if bias is not None:
        kernels.add(out, bias, out)
    if relu:
        kernels.maximum(out, 0, out)
    return out


# Cross entropy: a's rows along an axis, which has elements, and a label of int64, in range, for each.


def cross_entropy(a: NDArray, labels: NDArray, axis: int) -> tuple[NDArray, NDArray, NDArray]:
    """Give -log_softmax(a) at the labels, and for `cross_entropy_gradient` max(a) and 1 / sum(exp(a - max(a)))."""
    check_devices("cross_entropy", a, labels)
    kept, _ = reduced_shapes(a.shape, (axis,))
    losses, largest, inverse = a._allocate(kept), a._allocate(kept), a._allocate(kept)
    a.device.kernels.cross_entropy(a, labels.reshape(kept), axis, losses, largest, inverse)
    return losses.reshape(labels.shape), largest, inverse


def cross_entropy_gradient(
    d: NDArray, a: NDArray, labels: NDArray, largest: NDArray, inverse: NDArray, axis: int
) -> NDArray:
    """Give d * (softmax(a) - 1 at the labels)."""
    _check_together("cross_entropy_gradient", a, d)
    out = _empty(a.shape, a)
    kept = largest.shape
    a.device.kernels.cross_entropy_gradient(d.reshape(kept), a, labels.reshape(kept), largest, inverse, axis, out)
    return out


# Optimizer steps, in place. Parameters, gradients and states are sequences of one length.


def sgd_update(
    params: Sequence[NDArray],
    grads: Sequence[NDArray],
    velocities: Sequence[NDArray],
    *,
    lr: float,
    momentum: float,
    dampening: float,
    weight_decay: float,
    nesterov: bool,
) -> None:
    """Set u = momentum * u + (1 - dampening) * g with g = grad + weight_decay * p, and p -= lr * u.

    With `nesterov`, p -= lr * (g + momentum * u) instead.
    """
    for kernels, (p, g, u) in _by_device("sgd_update", params, grads, velocities):
        kernels.sgd_update(p, g, u, lr, momentum, dampening, weight_decay, nesterov)


def adam_update(
    params: Sequence[NDArray],
    grads: Sequence[NDArray],
    firsts: Sequence[NDArray],
    seconds: Sequence[NDArray],
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    step: int,
) -> None:
    """Take the `step`-th step (from 1) of Adam, bias-corrected: p -= lr * m / (sqrt(v) + eps).

    The gradient holds weight_decay * p, unless `decoupled`: then p shrinks by lr * weight_decay first (AdamW).
    """
    for kernels, (p, g, m, v) in _by_device("adam_update", params, grads, firsts, seconds):
        kernels.adam_update(p, g, m, v, lr, beta1, beta2, eps, weight_decay, decoupled, step)


def _by_device(
    op: str, params: Sequence[NDArray], grads: Sequence[NDArray], *states: Sequence[NDArray]
) -> Iterator[tuple[Any, list[list[NDArray]]]]:
    """For each device, its kernels and the arrays that are there, checked; what is written to is marked."""
    rows = list(zip(params, grads, *states))
    for arrays in rows:
        p = arrays[0]
        for a in arrays:  # a model has hundreds of these: equal things are mostly one object
            if a._dtype is not p._dtype or a._device is not p._device or a._shape != p._shape:
                _check_alike(op, arrays)
    while rows:
        device = rows[0][0]._device
        here, rows = [r for r in rows if r[0]._device is device], [r for r in rows if r[0]._device is not device]
        columns = [list(column) for column in zip(*here)]
        yield device.kernels, columns
        for index, column in enumerate(columns):
            if index != 1:  # the gradients, which are read only
                for written in column:
                    written._mark_written()


def _check_alike(op: str, arrays: tuple[NDArray, ...]) -> None:
    _check_together(op, *arrays)
    if any(a.shape != arrays[0].shape for a in arrays):
        raise ShapeError(
            f"{op}: a parameter of shape {arrays[0].shape} has a gradient or a state of another shape: "
            f"{[a.shape for a in arrays[1:]]}"
        )


def _check_axes(op: str, name: str, a: NDArray, axes: str) -> None:
    if a.ndim != axes.count(",") + 1:
        raise ShapeError(f"{op}: {name} must have the axes {axes}, got shape {a.shape}")


def _check_together(op: str, first: NDArray, *others: NDArray) -> None:
    check_devices(op, first, *others)
    for other in others:
        if other.dtype != first.dtype:
            raise DTypeError(f"{op}: operands have dtypes {first.dtype} and {other.dtype}; convert one with astype")


def _empty(shape: Shape, like: NDArray, dtype: DType | None = None) -> NDArray:
    """Make an array, its elements not set, with as many axes as `like` and in its order of memory."""
    return like._allocate(shape, ordered_strides(shape, like.strides), dtype)
