"""Convolution. It, its input gradient and its weight gradient are ops, and each one's gradients are the other two.

The kernels speak N,H,W,C and Kh,Kw,C/groups,O. An op that is `channels_first` has N,C,H,W to both sides in the graph
and permutes views on the way, so that its results lie in N,H,W,C memory; so do the functions with `2d` in their names,
whose weights are O,C/groups,Kh,Kw.
"""

from __future__ import annotations

from needle.autograd import NDArray, Tensor, TensorOp
from needle.backend_ndarray import layers
from needle.backend_ndarray.layers import ConvSettings, check_groups, conv_output_size
from needle.errors import ShapeError
from needle.ops.arguments import PairLike, integer, pair, parameter, promote, tensor
from needle.ops.cast import astype
from needle.ops.reduce import summation
from needle.ops.shape import permute, reshape

TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
TO_HWIO, TO_OIHW = (2, 3, 1, 0), (3, 2, 0, 1)


def _settings(op: str, stride: PairLike, padding: PairLike, dilation: PairLike, groups: int) -> ConvSettings:
    return ConvSettings(
        pair(op, "stride", stride, 1),
        pair(op, "padding", padding, 0),
        pair(op, "dilation", dilation, 1),
        integer(op, "groups", groups, 1),
    )


class _ConvOp(TensorOp):
    """What the three share: settings, and whether images are N,C,H,W to the graph, as views of N,H,W,C memory."""

    def __init__(self, settings: ConvSettings, channels_first: bool = False) -> None:
        self.settings, self.channels_first = settings, channels_first

    def channels_last(self, images: NDArray) -> NDArray:
        """Give images as the kernels take them."""
        return images.permute(TO_NHWC) if self.channels_first else images

    def as_given(self, images: NDArray) -> NDArray:
        """Give a kernel's images as the graph takes them."""
        return images.permute(TO_NCHW) if self.channels_first else images

    def to_output(self, x: Tensor, weight: Tensor) -> Tensor:
        """Convolve."""
        return Conv(*self.settings, self.channels_first)(x, weight)

    def to_input(self, d: Tensor, weight: Tensor, x: Tensor) -> Tensor:
        """Give the gradient of an input such as x."""
        height, width = x.shape[2:] if self.channels_first else x.shape[1:3]
        return ConvInputGradient(self.settings, (height, width), self.channels_first)(d, weight)

    def to_weight(self, x: Tensor, d: Tensor, weight: Tensor) -> Tensor:
        """Give the gradient of a weight such as that."""
        height, width = weight.shape[:2]
        return ConvWeightGradient(self.settings, (height, width), self.channels_first)(x, d)


class Conv(_ConvOp):
    """x (N,H,W,C), weight (Kh,Kw,C/groups,O) and, if given, bias (O,) to (N,Ho,Wo,O).

    With `channels_first`, from (N,C,H,W) to (N,O,Ho,Wo).
    """

    def __init__(
        self,
        stride: PairLike = 1,
        padding: PairLike = 0,
        dilation: PairLike = 1,
        groups: int = 1,
        channels_first: bool = False,
    ) -> None:
        super().__init__(_settings("conv", stride, padding, dilation, groups), channels_first)

    def compute(self, x: NDArray, weight: NDArray, bias: NDArray | None = None) -> NDArray:
        return self.as_given(layers.conv(self.channels_last(x), weight, bias, self.settings))

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, *bias = node.inputs
        out_grad = astype(out_grad, node.dtype)
        pixels = (0, 2, 3) if self.channels_first else (0, 1, 2)
        return (
            self.to_input(out_grad, weight, x) if x.requires_grad else None,
            self.to_weight(x, out_grad, weight) if weight.requires_grad else None,
            *(summation(out_grad, pixels) for _ in bias),
        )


class ConvInputGradient(_ConvOp):
    """d (N,Ho,Wo,O) and weight to the gradient (N,H,W,C) of an input of the given size (H, W)."""

    def __init__(self, settings: ConvSettings, size: tuple[int, int], channels_first: bool = False) -> None:
        super().__init__(settings, channels_first)
        self.size = size

    def compute(self, d: NDArray, weight: NDArray) -> NDArray:
        x = layers.conv_input_gradient(self.channels_last(d), weight, self.size, self.settings)
        return self.as_given(x)

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor | None, ...]:
        d, weight = node.inputs
        out_grad = astype(out_grad, node.dtype)
        return (
            self.to_output(out_grad, weight) if d.requires_grad else None,
            self.to_weight(out_grad, d, weight) if weight.requires_grad else None,
        )


class ConvWeightGradient(_ConvOp):
    """x (N,H,W,C) and d (N,Ho,Wo,O) to the gradient of a weight of the given kernel size (Kh, Kw)."""

    def __init__(self, settings: ConvSettings, kernel: tuple[int, int], channels_first: bool = False) -> None:
        super().__init__(settings, channels_first)
        self.kernel = kernel

    def compute(self, x: NDArray, d: NDArray) -> NDArray:
        return layers.conv_weight_gradient(self.channels_last(x), self.channels_last(d), self.kernel, self.settings)

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor | None, ...]:
        x, d = node.inputs
        out_grad = astype(out_grad, node.dtype)
        return (
            self.to_input(d, out_grad, x) if x.requires_grad else None,
            self.to_output(x, out_grad) if d.requires_grad else None,
        )


def conv(
    a: Tensor,
    b: Tensor,
    stride: PairLike = 1,
    padding: PairLike = 1,
    dilation: PairLike = 1,
    groups: int = 1,
    bias: Tensor | None = None,
) -> Tensor:
    """Convolve images (N,H,W,C) with a kernel (Kh,Kw,C/groups,O); gives (N,Ho,Wo,O).

    Ho = (H + 2 * padding - dilation * (Kh - 1) - 1) // stride + 1, and Wo likewise: the padding of zeros lies on both
    sides alike, and what no window reaches at the end is left out. As everywhere in the field, the kernel is not
    flipped. The weight gradient is a sum over images and windows.

    Args:
        a: images.
        b: kernel.
        stride, padding, dilation: a number, or a pair for (height, width).
        groups: output channels see only the input channels of their group.
        bias: (O,), added to every pixel.

    Raises:
        ShapeError: channels that differ, a kernel larger than the padded images, a stride below 1.

    >>> import needle as ndl
    >>> images, kernel = ndl.ones(1, 3, 3, 1), ndl.Tensor([[[[2.0]]]])
    >>> conv(images, kernel, stride=2, padding=1).numpy()[0, :, :, 0].tolist()
    [[0.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]]
    """
    return _convolve(Conv(stride, padding, dilation, groups), a, b, bias)


def conv_channels_first(
    x: Tensor,
    weight: Tensor,
    stride: PairLike = 1,
    padding: PairLike = 1,
    dilation: PairLike = 1,
    groups: int = 1,
    bias: Tensor | None = None,
) -> Tensor:
    """Convolve images (N,C,H,W) with a kernel (Kh,Kw,C/groups,O), as one node; `conv` on permuted views, to the bit.

    The result (N,O,Ho,Wo) is a view of N,H,W,C memory.

    >>> import needle as ndl
    >>> images, kernel = ndl.ones(1, 1, 3, 3), ndl.Tensor([[[[2.0]]]])
    >>> conv_channels_first(images, kernel, padding=0).shape
    (1, 1, 3, 3)
    """
    return _convolve(Conv(stride, padding, dilation, groups, channels_first=True), x, weight, bias)


def _convolve(op: Conv, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    inputs = [tensor("conv", x, "a"), tensor("conv", weight, "b")]
    return op(*promote(*inputs, *(() if bias is None else (tensor("conv", bias, "bias"),))))


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: PairLike = 1,
    padding: PairLike = 0,
    dilation: PairLike = 1,
    groups: int = 1,
) -> Tensor:
    """Convolve images (N,C,H,W), or one image (C,H,W), with a weight (O,C/groups,Kh,Kw); see `conv`.

    The result (N,O,Ho,Wo) is a view of N,H,W,C memory.

    >>> import needle as ndl
    >>> image, weight = ndl.Tensor([[[1.0, 2.0], [3.0, 4.0]]]), ndl.Tensor([[[[1.0, 1.0], [1.0, 1.0]]]])
    >>> conv2d(image, weight, ndl.Tensor([0.5])).numpy().tolist()
    [[[10.5]]]
    """
    images, kernel = _images("conv2d", x, "x"), _weight("conv2d", weight)
    _check_channels("conv2d", x, weight, groups)
    conv_output_size("conv2d", x.shape[-2:], weight.shape[2:], _settings("conv2d", stride, padding, dilation, groups))
    if bias is not None:
        parameter("conv2d", "bias", bias, weight.shape[:1])
    return _like(x, conv_channels_first(images, permute(kernel, TO_HWIO), stride, padding, dilation, groups, bias))


def conv2d_input_gradient(
    d: Tensor,
    weight: Tensor,
    stride: PairLike,
    padding: PairLike,
    height: int,
    width: int,
    dilation: PairLike = 1,
    groups: int = 1,
) -> Tensor:
    """Give the gradient (N,C,height,width) of `conv2d`'s input from that of its output, d (N,O,Ho,Wo).

    With a stride above 1 several input sizes give one output size, so height and width are asked for.

    >>> import needle as ndl
    >>> d, weight = ndl.Tensor([[[[1.0]]]]), ndl.Tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> conv2d_input_gradient(d, weight, stride=2, padding=0, height=3, width=3).numpy()[0, 0].tolist()
    [[1.0, 2.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 0.0]]
    """
    name = "conv2d_input_gradient"
    settings = _settings(name, stride, padding, dilation, groups)
    size = integer(name, "height", height, 1), integer(name, "width", width, 1)
    inputs = promote(_images(name, d, "d"), permute(_weight(name, weight), TO_HWIO))
    check_groups(name, weight.shape[1] * settings.groups, weight.shape[0], settings.groups)
    _check_gradient(name, d, (weight.shape[0], *conv_output_size(name, size, weight.shape[2:], settings)))
    return _like(d, ConvInputGradient(settings, size, channels_first=True)(*inputs))


def conv2d_weight_gradient(
    x: Tensor,
    d: Tensor,
    kernel_size: PairLike,
    stride: PairLike,
    padding: PairLike,
    dilation: PairLike = 1,
    groups: int = 1,
) -> Tensor:
    """Give the gradient (O,C/groups,Kh,Kw) of `conv2d`'s weight from the input x and the output's gradient d.

    >>> import needle as ndl
    >>> x, d = ndl.Tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), ndl.Tensor([[[[10.0]]]])
    >>> conv2d_weight_gradient(x, d, kernel_size=2, stride=1, padding=0).numpy()[0, 0].tolist()
    [[10.0, 20.0], [30.0, 40.0]]
    """
    name = "conv2d_weight_gradient"
    settings = _settings(name, stride, padding, dilation, groups)
    kernel = pair(name, "kernel_size", kernel_size, 1)
    inputs = promote(_images(name, x, "x"), _images(name, d, "d"))
    check_groups(name, x.shape[-3], d.shape[-3], settings.groups)
    _check_gradient(name, d, (*x.shape[:-3], d.shape[-3], *conv_output_size(name, x.shape[-2:], kernel, settings)))
    return permute(ConvWeightGradient(settings, kernel, channels_first=True)(*inputs), TO_OIHW)


def conv2d_bias_gradient(d: Tensor) -> Tensor:
    """Give the gradient (O,) of `conv2d`'s bias from the output's gradient d: its sum over images and pixels.

    >>> import needle as ndl
    >>> conv2d_bias_gradient(ndl.Tensor([[[[1.0, 2.0]], [[3.0, 4.0]]]])).numpy().tolist()
    [3.0, 7.0]
    """
    return summation(_images("conv2d_bias_gradient", d, "d"), (0, 2, 3))


def conv_transpose2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: PairLike = 1,
    padding: PairLike = 0,
    output_padding: PairLike = 0,
    groups: int = 1,
    dilation: PairLike = 1,
) -> Tensor:
    """Apply the transpose of a convolution to (N,C,H,W), or one image (C,H,W), with a weight (C,O/groups,Kh,Kw).

    This is the input gradient of the `conv2d` with the same arguments. Gives (N,O,Ho,Wo), with
    Ho = (H - 1) * stride - 2 * padding + dilation * (Kh - 1) + 1 + output_padding. `output_padding`, at the far end
    only, chooses between the input sizes that `conv2d` maps to H, so it is below the stride.

    >>> import needle as ndl
    >>> x, weight = ndl.Tensor([[[[1.0, 2.0]]]]), ndl.Tensor([[[[1.0, 10.0]]]])
    >>> conv_transpose2d(x, weight, stride=(1, 2), output_padding=(0, 1)).numpy().tolist()
    [[[[1.0, 10.0, 2.0, 20.0, 0.0]]]]
    """
    name = "conv_transpose2d"
    settings = _settings(name, stride, padding, dilation, groups)
    extra = pair(name, "output_padding", output_padding, 0)
    if extra[0] >= settings.stride[0] or extra[1] >= settings.stride[1]:
        raise ShapeError(f"{name}: output_padding {extra} must be below the stride {settings.stride}")
    images, kernel = promote(_images(name, x, "x"), _weight(name, weight))
    if images.shape[1] != kernel.shape[0]:
        raise ShapeError(
            f"{name}: the input {x.shape} has {images.shape[1]} channels, "
            f"the weight {weight.shape} takes {kernel.shape[0]}; its axes are C,O/groups,Kh,Kw"
        )
    size = _transposed_size(images.shape[2:], kernel.shape[2:], settings, extra)
    out = ConvInputGradient(settings, size, channels_first=True)(images, permute(kernel, TO_HWIO))
    if bias is not None:
        out = out + reshape(parameter(name, "bias", bias, out.shape[1:2]), (-1, 1, 1))
    return _like(x, out)


def _transposed_size(
    size: tuple[int, ...], kernel: tuple[int, ...], settings: ConvSettings, extra: tuple[int, int]
) -> tuple[int, int]:
    stride, padding, dilation, _ = settings
    height, width = [
        (size[i] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (kernel[i] - 1) + 1 + extra[i] for i in (0, 1)
    ]
    if height < 1 or width < 1:
        raise ShapeError(
            f"conv_transpose2d: input {size}, kernel {kernel} and padding {padding} leave an output of size "
            f"{height, width}; use less padding"
        )
    return height, width


def _images(op: str, x: Tensor, name: str) -> Tensor:
    """Images with their batch axis."""
    if tensor(op, x, name).ndim not in (3, 4):
        raise ShapeError(f"{op}: {name} must have the axes N,C,H,W or C,H,W, got shape {x.shape}")
    return x if x.ndim == 4 else reshape(x, (1, *x.shape))


def _weight(op: str, weight: Tensor) -> Tensor:
    if tensor(op, weight, "weight").ndim != 4:
        raise ShapeError(f"{op}: the weight must have four axes, the last two of the kernel, got shape {weight.shape}")
    return weight


def _check_channels(op: str, x: Tensor, weight: Tensor, groups: int) -> None:
    """Raise ShapeError where images do not have the channels that a weight (O,C/groups,Kh,Kw) takes."""
    channels, taken = x.shape[-3], weight.shape[1] * integer(op, "groups", groups, 1)
    check_groups(op, channels, weight.shape[0], groups)
    if channels != taken:
        raise ShapeError(
            f"{op}: the input {x.shape} has {channels} channels, the weight {weight.shape} with groups={groups} takes "
            f"{taken}; its axes are O,C/groups,Kh,Kw"
        )


def _check_gradient(op: str, d: Tensor, shape: tuple[int, ...]) -> None:
    """Raise ShapeError where the gradient of an output of that shape, with or without its batch axis, has another."""
    if d.shape[-len(shape) :] != shape:
        raise ShapeError(
            f"{op}: d must have the shape of the output, which ends in {shape} for these sizes, got {d.shape}"
        )


def _like(x: Tensor, out: Tensor) -> Tensor:
    """Drop the batch axis where x had none."""
    return out if x.ndim == 4 else reshape(out, out.shape[1:])
