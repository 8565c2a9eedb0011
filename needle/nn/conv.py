"""Convolution layers on N,C,H,W images."""

from __future__ import annotations

import math
from typing import Any

from needle import init, ops
from needle.autograd import Tensor
from needle.backend_ndarray import BackendDevice
from needle.backend_ndarray.dtypes import as_floating
from needle.backend_ndarray.layers import check_groups
from needle.errors import ShapeError
from needle.nn.module import Module, Parameter
from needle.ops.arguments import PairLike, integer, pair, tensor
from needle.ops.conv import TO_OIHW, conv_channels_first


class _Conv(Module):
    """What both layers share: sizes, and the drawing of weight, then bias."""

    weight: Tensor
    bias: Tensor | None
    padding: PairLike

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: PairLike,
        stride: PairLike,
        dilation: PairLike,
        groups: int,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.in_channels = integer(name, "in_channels", in_channels, 1)
        self.out_channels = integer(name, "out_channels", out_channels, 1)
        self.groups = integer(name, "groups", groups, 1)
        check_groups(name, in_channels, out_channels, groups)
        pair(name, "kernel_size", kernel_size, 1)
        pair(name, "stride", stride, 1)
        pair(name, "dilation", dilation, 1)
        self.kernel_size, self.stride, self.dilation = kernel_size, stride, dilation

    def _draw(self, channels: tuple[int, int], bias: bool, device: BackendDevice | None, dtype: Any) -> None:
        name = type(self).__name__
        kernel, dtype = pair(name, "kernel_size", self.kernel_size, 1), as_floating(dtype, name)
        fan_in = self.in_channels // self.groups * math.prod(kernel)
        fan_out = self.out_channels // self.groups * math.prod(kernel)
        drawn = init.kaiming_uniform(fan_in, fan_out, shape=(*kernel, *channels), device=device, dtype=dtype)
        self.weight, self.bias = Parameter(drawn), None
        if bias:
            bound = 1 / math.sqrt(fan_in)
            drawn = init.rand(self.out_channels, low=-bound, high=bound, device=device, dtype=dtype)
            self.bias = Parameter(drawn)

    def _check(self, x: Tensor) -> None:
        name, channels = type(self).__name__, self.in_channels
        if tensor(name, x, "the input").ndim != 4 or x.shape[1] != channels:
            raise ShapeError(f"{name}: expected (N,C,H,W) with C = in_channels = {channels}, got shape {x.shape}")

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        text += f", padding={self.padding}"
        text += f", dilation={self.dilation}" if self.dilation not in (1, (1, 1)) else ""
        text += f", groups={self.groups}" if self.groups != 1 else ""
        return text if self.bias is not None else f"{text}, bias=False"


class Conv(_Conv):
    """Convolve (N,C,H,W) images; gives (N,out_channels,Ho,Wo), Ho = (H + 2P - D*(K-1) - 1) // S + 1.

    `weight` (K,K,in_channels/groups,out_channels) is drawn by `init.kaiming_uniform` with
    fan_in = in_channels/groups*K*K, then `bias` (out_channels,) uniformly from +-1/sqrt(fan_in).

    Args:
        kernel_size, stride, padding, dilation: an int, or a pair for (height, width).
        padding: by default dilation * (kernel_size // 2), which keeps the image size for odd kernels and stride 1.
        groups: output channels see only the input channels of their group.

    Raises:
        ShapeError: the input is not (N,C,H,W) with C = in_channels, or too small for the kernel.

    >>> Conv(3, 8, 3, stride=2)(init.ones(1, 3, 7, 7)).shape
    (1, 8, 4, 4)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: PairLike,
        stride: PairLike = 1,
        bias: bool = True,
        device: BackendDevice | None = None,
        dtype: Any = "float32",
        *,
        padding: PairLike | None = None,
        dilation: PairLike = 1,
        groups: int = 1,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, dilation, groups)
        if padding is None:
            kernel, gaps = pair("Conv", "kernel_size", kernel_size, 1), pair("Conv", "dilation", dilation, 1)
            padding = (gaps[0] * (kernel[0] // 2), gaps[1] * (kernel[1] // 2))
        pair("Conv", "padding", padding, 0)
        self.padding = padding
        self._draw((in_channels // groups, out_channels), bias, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        return conv_channels_first(x, self.weight, self.stride, self.padding, self.dilation, self.groups, self.bias)


class ConvTranspose(_Conv):
    """Apply the transpose of a convolution to (N,C,H,W) images, to enlarge them; see `ops.conv_transpose2d`.

    Gives (N,out_channels,Ho,Wo), Ho = (H - 1)*S - 2P + D*(K-1) + 1 + output_padding. `weight` has the shape
    (K,K,out_channels/groups,in_channels), that of the convolution whose transpose this is; draws are as for `Conv`.

    >>> ConvTranspose(8, 3, 2, stride=2)(init.ones(1, 8, 4, 4)).shape
    (1, 3, 8, 8)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: PairLike,
        stride: PairLike = 1,
        bias: bool = True,
        device: BackendDevice | None = None,
        dtype: Any = "float32",
        *,
        padding: PairLike = 0,
        output_padding: PairLike = 0,
        dilation: PairLike = 1,
        groups: int = 1,
    ) -> None:
        super().__init__(in_channels, out_channels, kernel_size, stride, dilation, groups)
        pair("ConvTranspose", "padding", padding, 0)
        pair("ConvTranspose", "output_padding", output_padding, 0)
        self.padding, self.output_padding = padding, output_padding
        self._draw((out_channels // groups, in_channels), bias, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        weight = ops.permute(self.weight, TO_OIHW)
        return ops.conv_transpose2d(
            x, weight, self.bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation
        )
