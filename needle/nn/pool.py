"""Pooling layers on N,C,H,W images; `needle.ops` says what each computes."""

from __future__ import annotations

from needle import ops
from needle.autograd import Tensor
from needle.nn.module import Module
from needle.ops.arguments import PairLike


class _Pool(Module):
    """What both layers share: how their windows lie. The stride is the kernel size by default."""

    def __init__(
        self, kernel_size: PairLike, stride: PairLike | None = None, padding: PairLike = 0, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.kernel_size, self.padding, self.ceil_mode = kernel_size, padding, ceil_mode
        self.stride = kernel_size if stride is None else stride

    def extra_repr(self) -> str:
        text = f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"
        return f"{text}, ceil_mode=True" if self.ceil_mode else text


class MaxPool2d(_Pool):
    """Take the maximum of each window of (N,C,H,W); see `ops.max_pool2d`.

    `kernel_size`, `stride` (default: the kernel size) and `padding` are ints, or pairs for (height, width).

    >>> MaxPool2d(2)(Tensor([[[[1.0, 2.0], [3.0, 4.0]]]])).numpy().tolist()
    [[[[4.0]]]]
    """

    def forward(self, x: Tensor) -> Tensor:
        return ops.max_pool2d(x, self.kernel_size, self.stride, self.padding, self.ceil_mode)


class AvgPool2d(_Pool):
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
        super().__init__(kernel_size, stride, padding, ceil_mode)
        self.count_include_pad = count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        return ops.avg_pool2d(x, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        text = super().extra_repr()
        return text if self.count_include_pad else f"{text}, count_include_pad=False"


class GlobalAvgPool2d(Module):
    """Take the mean of each image's channel: (N,C,H,W) -> (N,C,1,1).

    >>> GlobalAvgPool2d()(Tensor([[[[1.0, 2.0], [3.0, 6.0]]]])).numpy().tolist()
    [[[[3.0]]]]
    """

    def forward(self, x: Tensor) -> Tensor:
        return ops.global_avg_pool2d(x)
