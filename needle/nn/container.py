"""Modules made of modules, and those that only reshape."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeGuard, overload

from needle import ops
from needle.autograd import Tensor
from needle.errors import BoundsError, DTypeError, ShapeError, kind_of
from needle.nn.activation import ReLU
from needle.nn.module import Module
from needle.nn.norm import BatchNorm1d, BatchNorm2d
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

    A batch norm and the ReLU behind it are computed at once, with the same bits, unless hooks watch one of them.
    It has a length, is iterated over, and is indexed like that tuple; a slice is a Sequential of the same modules.

    >>> Sequential(Identity(), Flatten())(Tensor([[[1.0], [2.0]]])).numpy().tolist()
    [[1.0, 2.0]]
    >>> Sequential(Identity(), Flatten())
    Sequential(
      (0): Identity()
      (1): Flatten()
    )
    >>> Sequential(Identity(), Flatten())[-1]
    Flatten()
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

    def __len__(self) -> int:
        return len(self.modules)

    def __bool__(self) -> bool:
        return True  # a module, also where it holds none

    def __iter__(self) -> Iterator[Module]:
        return iter(self.modules)

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    def __getitem__(self, index: int | slice) -> Module:
        if isinstance(index, slice):
            return Sequential(*self.modules[index])
        if not -len(self) <= index < len(self):
            raise BoundsError(f"Sequential: there is no module {index} among {len(self)}")
        return self.modules[index]

    def forward(self, x: Any) -> Any:
        modules = iter(zip(self.modules, (*self.modules[1:], None)))
        for module, following in modules:
            if _are_batch_norm_and_relu(module, following):
                x = module._normalize(x, relu=True)
                next(modules)  # the ReLU
            else:
                x = module(x)
        return x


def _are_batch_norm_and_relu(module: Module, following: Module | None) -> TypeGuard[BatchNorm1d]:
    """Whether the two are our own layers, as they come, that one op computes with the same bits."""
    return type(module) in (BatchNorm1d, BatchNorm2d) and type(following) is ReLU and not any(
        layer._forward_pre_hooks or layer._forward_hooks or "forward" in vars(layer) for layer in (module, following)
    )


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
        raise DTypeError(f"{op}: {name} must be a module, got {kind_of(module)}; unpack a list with *")
