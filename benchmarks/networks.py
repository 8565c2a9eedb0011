"""The networks whose training steps are timed: each said once, as a list of layers, and built by every library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from needle import nn

Layer = tuple[Any, ...]
"""What it is, then its settings: ("conv", in, out, size, stride), ("batch norm", channels), ("residual", layers)..."""


@dataclass(frozen=True)
class Network:
    """Layers for images of `shape` (C,H,W) or vectors (C,), and the batch they are trained on."""

    name: str
    shape: tuple[int, ...]
    batch: int
    layers: Sequence[Layer]


def conv_bn(inputs: int, outputs: int, size: int = 3, stride: int = 1) -> list[Layer]:
    """Convolution with padding size // 2, batch norm, ReLU."""
    return [("conv", inputs, outputs, size, stride), ("batch norm", outputs), ("relu",)]


def residual(channels: int) -> Layer:
    """Two of them, plus their input."""
    return ("residual", [*conv_bn(channels, channels), *conv_bn(channels, channels)])


POOL: Layer = ("max pool", 2)
DIGITS = Network(
    "digits", (1, 8, 8), 64, [*conv_bn(1, 16), *conv_bn(16, 32, stride=2), ("flatten",), ("linear", 512, 10)]
)
MNIST = Network(
    "mnist", (1, 28, 28), 64, [*conv_bn(1, 16), POOL, *conv_bn(16, 32), POOL, ("flatten",), ("linear", 32 * 49, 10)]
)
RESNET9 = Network(
    "resnet9",
    (3, 32, 32),
    128,
    [
        *[*conv_bn(3, 16, 7, 4), *conv_bn(16, 32, 3, 2), residual(32)],
        *[*conv_bn(32, 64, 3, 2), *conv_bn(64, 128, 3, 2), residual(128)],
        *[("flatten",), ("linear", 128, 128), ("relu",), ("linear", 128, 10)],
    ],
)
WIDE_RESNET9 = Network(
    "wide resnet9",
    (3, 32, 32),
    64,
    [
        *[*conv_bn(3, 64), *conv_bn(64, 128), POOL, residual(128), *conv_bn(128, 256), POOL],
        *[*conv_bn(256, 512), POOL, residual(512), ("max pool", 4), ("flatten",), ("linear", 512, 10)],
    ],
)
MLP = Network(
    "mlp", (784,), 128, [("linear", 784, 512), ("relu",), ("linear", 512, 512), ("relu",), ("linear", 512, 10)]
)
NETWORKS = {network.name: network for network in (DIGITS, MNIST, RESNET9, WIDE_RESNET9, MLP)}


def needle_layer(kind: str, *settings: Any) -> nn.Module:
    """Make a layer of needle's, on the default device."""
    if kind == "residual":
        return nn.Residual(needle_module(*settings))
    kinds: dict[str, Any] = {
        "conv": nn.Conv,
        "batch norm": nn.BatchNorm2d,
        "linear": nn.Linear,
        "relu": nn.ReLU,
        "max pool": nn.MaxPool2d,
        "flatten": nn.Flatten,
    }
    layer: nn.Module = kinds[kind](*settings)
    return layer


def needle_module(layers: Sequence[Layer]) -> nn.Sequential:
    """Make needle's Sequential."""
    return nn.Sequential(*[needle_layer(*layer) for layer in layers])


class OneByOne(nn.Module):
    """The same the course's way: a forward that calls layer after layer."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        super().__init__()
        self.layers = [
            nn.Residual(OneByOne(layer[1])) if layer[0] == "residual" else needle_layer(*layer) for layer in layers
        ]

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


class TorchResidual(torch.nn.Module):
    """fn(x) + x."""

    def __init__(self, fn: torch.nn.Module) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, x: Any) -> Any:
        return self.fn(x) + x


def torch_layer(kind: str, *settings: Any) -> torch.nn.Module:
    """Make a layer of PyTorch's."""
    if kind == "conv":
        inputs, outputs, size, stride = settings
        return torch.nn.Conv2d(inputs, outputs, size, stride, size // 2)
    if kind == "residual":
        return TorchResidual(torch_module(*settings))
    kinds: dict[str, Any] = {
        "batch norm": torch.nn.BatchNorm2d,
        "linear": torch.nn.Linear,
        "relu": torch.nn.ReLU,
        "max pool": torch.nn.MaxPool2d,
        "flatten": torch.nn.Flatten,
    }
    layer: torch.nn.Module = kinds[kind](*settings)
    return layer


def torch_module(layers: Sequence[Layer]) -> torch.nn.Sequential:
    """Make PyTorch's Sequential."""
    return torch.nn.Sequential(*[torch_layer(*layer) for layer in layers])
