"""Pooling layers on N,C,H,W images; `needle.ops` says what each computes."""

from __future__ import annotations

from needle import ops
from needle.autograd import Tensor
from needle.nn.module import Module
from needle.ops.arguments import PairLike


class MaxPool2d(Module):
    """Take the maximum of each window of (N,C,H,W); see `ops.max_pool2d`.

    `kernel_size`, `stride` (default: the kernel size) and `padding` are ints, or pairs for (height, width).

    >>> MaxPool2d(2)(Tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).numpy().tolist()
    [[[[4.0]]]]
    """

    def __init__(
        self, kernel_size: PairLike, stride: PairLike | None = None, padding: PairLike = 0, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding, self.ceil_mode = kernel_size, stride, padding, ceil_mode

    def forward(self, x: Tensor) -> Tensor:
        return ops.max_pool2d(x, self.kernel_size, self.stride, self.padding, self.ceil_mode)

    def extra_repr(self) -> str:
        stride = self.kernel_size if self.stride is None else self.stride
        return f"kernel_size={self.kernel_size}, stride={stride}, padding={self.padding}"


class AvgPool2d(Module):
    """Take the mean of each window of (N,C,H,W); see `ops.avg_pool2d`.

    `kernel_size`, `stride` (default: the kernel size) and `padding` are ints, or pairs for (height, width).

    >>> AvgPool2d(2)(Tensor([[[[1.0, 2.0], [3.0, 6.0]]]])).numpy().tolist()
    [[[[3.0]]]]
    """

    def __init__(
        self,
        kernel_size: PairLike,
        stride: PairLike | None = None,
        padding: PairLike = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        return ops.avg_pool2d(x, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        stride = self.kernel_size if self.stride is None else self.stride
        return f"kernel_size={self.kernel_size}, stride={stride}, padding={self.padding}"


class GlobalAvgPool2d(Module):
    """Take the mean of each image's channel: (N,C,H,W) -> (N,C,1,1).

    >>> GlobalAvgPool2d()(Tensor([[[[1.0, 2.0], [3.0, 6.0]]]])).numpy().tolist()
    [[[[3.0]]]]
    """

    def forward(self, x: Tensor) -> Tensor:
        return ops.global_avg_pool2d(x)
