"""Modules made of modules, and those that only reshape."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from needle import ops
from needle.autograd import Tensor
from needle.errors import DTypeError, ShapeError
from needle.nn.module import Module
from needle.ops.arguments import tensor


class Identity(Module):
    """Give back what it is given.

    >>> Identity()(Tensor([1.0])).numpy().tolist()
    [1.0]
    """

    def forward(self, x: Any) -> Any:
        return x


class Flatten(Module):
    """Make all axes after the first one: (N, ...) -> (N, product of the others).

    >>> Flatten()(Tensor([[[1.0, 2.0], [3.0, 4.0]]])).numpy().tolist()
    [[1.0, 2.0, 3.0, 4.0]]
    """

    def forward(self, x: Tensor) -> Tensor:
        if not tensor("Flatten", x, "the input").ndim:
            raise ShapeError("Flatten: expected a batch axis, got shape ()")
        return ops.reshape(x, (x.shape[0], math.prod(x.shape[1:])))


class Sequential(Module):
    """Apply modules one after another; they are in the tuple `modules`, and their names are "0", "1", ...

    >>> Sequential(Identity(), Flatten())(Tensor([[[1.0], [2.0]]])).numpy().tolist()
    [[1.0, 2.0]]
    >>> Sequential(Identity(), Flatten())
    Sequential(
      (0): Identity()
      (1): Flatten()
    )
    """

    def __init__(self, *modules: Module) -> None:
        super().__init__()
        for index, module in enumerate(modules):
            _check_module("Sequential", f"entry {index}", module)
        self.modules = modules

    def _attributes(self) -> Mapping[str, Any]:
        attributes: dict[str, Any] = {}
        for name, value in vars(self).items():
            if name == "modules":
                attributes.update({str(index): module for index, module in enumerate(value)})
            else:
                attributes[name] = value
        return attributes

    def forward(self, x: Any) -> Any:
        for module in self.modules:
            x = module(x)
        return x


class Residual(Module):
    """fn(x) + x.

    >>> Residual(Identity())(Tensor([1.0])).numpy().tolist()
    [2.0]
    """

    def __init__(self, fn: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        _check_module("Residual", "fn", fn)
        self.fn = fn

    def forward(self, x: Tensor) -> Tensor:
        return self.fn(x) + x


def _check_module(op: str, name: str, module: Any) -> None:
    if isinstance(module, type):
        kind = module.__name__
        raise DTypeError(f"{op}: {name} is the class {kind}; give a module, {kind}(...)")
    if not callable(module):
        raise DTypeError(f"{op}: {name} must be a module, got a {type(module).__name__}; unpack a list with *")
