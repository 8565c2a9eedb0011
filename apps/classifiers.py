"""Classifiers of images by name, as train_cnn.py makes them and its checkpoints bring them back."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
from command_line import nearest
from mlp_resnet import MLPResNet
from models import ResNet9, SmallCNN

import needle as ndl
from needle import nn


def mlp_resnet(in_channels: int, height: int, width: int, num_classes: int, device: ndl.BackendDevice) -> nn.Module:
    """Make the course's perceptron with residual blocks, for images."""
    return nn.Sequential(nn.Flatten(), MLPResNet(in_channels * height * width, num_classes=num_classes)).to(device)


NETWORKS: dict[str, Callable[..., nn.Module]] = {"small_cnn": SmallCNN, "resnet9": ResNet9, "mlp_resnet": mlp_resnet}


class Classifier(nn.Module):
    """A network behind the normalisation of its images, (images - mean) / std by channel: both are saved with it.

    Takes (N,C,H,W) images in 0..1, gives logits (N,classes).
    """

    def __init__(self, net: nn.Module, mean: npt.ArrayLike, std: npt.ArrayLike, device: ndl.BackendDevice) -> None:
        super().__init__()
        self.net = net
        self.mean: ndl.Tensor
        self.std: ndl.Tensor
        for name, value in (("mean", mean), ("std", std)):
            by_channel = np.asarray(value, np.float32).reshape(1, -1, 1, 1)
            self.register_buffer(name, ndl.Tensor(by_channel, device=device, requires_grad=False))

    def forward(self, images: ndl.Tensor) -> ndl.Tensor:
        logits: ndl.Tensor = self.net((images - self.mean) / self.std)
        return logits


def make_network(
    name: str, shape: Sequence[int], num_classes: int, device: ndl.BackendDevice, **settings: Any
) -> nn.Module:
    """Make a network of NETWORKS, or of a `module:function` that stands in the folder one is in or can be imported.

    The function is called with those of the keywords in_channels, height, width, num_classes, device, and of
    `settings`, that it takes. Raises OptionError where there is none of that name.
    """
    function = NETWORKS[name] if name in NETWORKS else _imported(name)
    in_channels, height, width = shape
    offered: dict[str, Any] = {"in_channels": in_channels, "height": height, "width": width, "num_classes": num_classes}
    taken = inspect.signature(function).parameters
    every = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values())
    offered |= {"device": device, **settings}
    network = function(**{key: value for key, value in offered.items() if every or key in taken})
    if not isinstance(network, nn.Module):
        raise ndl.OptionError(f"{name} gave a {type(network).__name__}; let it return a needle.nn.Module")
    return network


def _imported(name: str) -> Callable[..., Any]:
    """Give the function that `module:function` names."""
    module, colon, function = name.partition(":")
    if not colon:
        known = ", ".join(NETWORKS)
        raise ndl.OptionError(
            f"there is no model {name}{nearest(name, NETWORKS)}; take one of {known}, or module:function"
        )
    sys.path.append(os.getcwd())
    try:
        found: Callable[..., Any] = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ndl.OptionError(f"the model {name} cannot be imported: {error}") from error
    finally:
        sys.path.pop()
    return found
