"""Convolutional networks to train: the small one of train_cnn.py, and the course's ResNet9."""

from __future__ import annotations

from typing import Any

import needle as ndl
from needle import nn


class ConvBN(nn.Sequential):
    """Conv, BatchNorm2d, ReLU."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        device: ndl.BackendDevice | None = None,
        dtype: str = "float32",
    ) -> None:
        super().__init__(
            nn.Conv(in_channels, out_channels, kernel_size, stride, device=device, dtype=dtype),
            nn.BatchNorm2d(out_channels, device=device, dtype=dtype),
            nn.ReLU(),
        )


class SmallCNN(nn.Sequential):
    """Two stages of two 3x3 convolutions, the mean over what is left of the image, one linear layer.

    Takes (N,C,H,W) images of any size from 2x2 up.
    """

    def __init__(
        self,
        in_channels: int = 1,
        num_classes: int = 10,
        device: ndl.BackendDevice | None = None,
        dtype: str = "float32",
    ) -> None:
        settings: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__(
            ConvBN(in_channels, 32, 3, **settings),
            ConvBN(32, 32, 3, **settings),
            nn.MaxPool2d(2),
            ConvBN(32, 64, 3, **settings),
            ConvBN(64, 64, 3, **settings),
            nn.GlobalAvgPool2d(),
            nn.Flatten(),
            nn.Linear(64, num_classes, **settings),
        )


class ResNet9(nn.Sequential):
    """The course's residual network, for images of up to 32x32; 431,946 parameters with its defaults."""

    def __init__(
        self,
        device: ndl.BackendDevice | None = None,
        dtype: str = "float32",
        in_channels: int = 3,
        num_classes: int = 10,
    ) -> None:
        def conv_bn(in_channels: int, out_channels: int, kernel_size: int, stride: int) -> ConvBN:
            return ConvBN(in_channels, out_channels, kernel_size, stride, device, dtype)

        super().__init__(
            conv_bn(in_channels, 16, 7, 4),
            conv_bn(16, 32, 3, 2),
            nn.Residual(nn.Sequential(conv_bn(32, 32, 3, 1), conv_bn(32, 32, 3, 1))),
            conv_bn(32, 64, 3, 2),
            conv_bn(64, 128, 3, 2),
            nn.Residual(nn.Sequential(conv_bn(128, 128, 3, 1), conv_bn(128, 128, 3, 1))),
            nn.Flatten(),
            nn.Linear(128, 128, device=device, dtype=dtype),
            nn.ReLU(),
            nn.Linear(128, num_classes, device=device, dtype=dtype),
        )
