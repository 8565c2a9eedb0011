"""What the front functions of ops do to their arguments: check, make constants, promote, broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from needle import backend_ndarray as nd
from needle.autograd import NDArray, Tensor, not_a_tensor
from needle.backend_ndarray.dtypes import Number, arithmetic_dtype, as_ndarray, as_number, dtype_beside
from needle.backend_ndarray.layout import broadcast_shapes
from needle.errors import DTypeError, OptionError, ShapeError, kind_of

PairLike: TypeAlias = "int | tuple[int, int]"  # a number, or a pair for (height, width)
AxesLike: TypeAlias = "int | Sequence[int] | None"  # None stands for all


def number(op: str, name: str, value: Any) -> Number:
    """Give `value` as a Python number, or raise."""
    result = as_number(value)
    if result is None:
        raise DTypeError(f"{op}: {name} must be a number, got {kind_of(value)}")
    return result


def as_scalar(op: str, name: str, value: Any) -> Number:
    """Give what stands as a number beside a tensor as a Python number; an array of one element will do."""
    if isinstance(value, (np.ndarray, NDArray)) and value.size == 1:
        value = value.item()
    return number(op, name, value)


def not_negative(op: str, name: str, value: Any) -> Number:
    """Give a number of at least 0 as a Python number, or raise."""
    result = number(op, name, value)
    if not result >= 0:
        raise OptionError(f"{op}: {name} must be at least 0, got {value}")
    return result


def fraction(op: str, name: str, value: Any) -> Number:
    """Give a number from 0 to 1 as a Python number, or raise."""
    result = number(op, name, value)
    if not 0 <= result <= 1:
        raise OptionError(f"{op}: {name} must be between 0 and 1, got {value}")
    return result


def tensor(op: str, value: Any, name: str = "the argument") -> Tensor:
    """Give `value` back if it is a Tensor, else raise."""
    if not isinstance(value, Tensor):
        raise not_a_tensor(op, name, value)
    return value


def parameter(op: str, name: str, value: Any, shape: tuple[int, ...]) -> Tensor:
    """Give `value` back if it is a Tensor of that shape, else raise."""
    if tensor(op, value, name).shape != shape:
        raise ShapeError(f"{op}: the {name} has shape {value.shape}; for this input it must be {shape}")
    return value


def constant(op: str, value: Any, like: Tensor) -> Tensor:
    """Make what stands beside the Tensor `like` a Tensor: numbers and arrays become constants on its device.

    A number takes the dtype in which it combines with the tensor; an ndarray that of a float tensor, and keeps whole
    numbers whole beside others; an NDArray keeps its own.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, NDArray):
        return Tensor.make_const(value)
    scalar = as_number(value)
    if scalar is not None:
        dtype = arithmetic_dtype(op, like.dtype, scalar)
        return Tensor.make_const(nd.full((), scalar, dtype=dtype, device=like.device))
    if isinstance(value, (np.ndarray, list, tuple)):
        value = as_ndarray(op, value)
        return Tensor(value, dtype=dtype_beside(like.dtype, value), device=like.device, requires_grad=False)
    return tensor(op, value, "operand")


def promote(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Bring tensors to their common dtype, as NumPy does; a cast is recorded only where dtypes differ."""
    dtype = tensors[0].dtype
    if all(t.dtype == dtype for t in tensors):
        return tensors
    dtype = np.result_type(*[t.dtype for t in tensors])
    return tuple([t if t.dtype == dtype else t.astype(dtype) for t in tensors])


def broadcast(op: str, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Bring tensors to their common shape; a BroadcastTo is recorded only where shapes differ."""
    shape = tensors[0].shape
    if all(t.shape == shape for t in tensors):
        return tensors
    shape = broadcast_shapes(op, *[t.shape for t in tensors])
    return tuple([t if t.shape == shape else t.broadcast_to(shape) for t in tensors])


def operands(op: str, a: Any, b: Any) -> tuple[Tensor, ...]:
    """Bring the two operands of an elementwise op together: constants made, dtypes promoted, shapes broadcast."""
    if not isinstance(a, Tensor):
        a = constant(op, a, tensor(op, b, "one operand"))
    elif not isinstance(b, Tensor):
        b = constant(op, b, a)
    if a.dtype is not b.dtype:
        a, b = promote(a, b)
    return (a, b) if a.shape == b.shape else broadcast(op, a, b)


def integer(op: str, name: str, value: Any, least: int) -> int:
    """Give a whole number of at least `least` as an int, or raise."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise DTypeError(f"{op}: {name} must be a whole number, got {value!r}")
    if value < least:
        raise ShapeError(f"{op}: {name} must be at least {least}, got {value}")
    return int(value)


def pair(op: str, name: str, value: Any, least: int) -> tuple[int, int]:
    """Give an int, or a pair of ints for (height, width), as a pair; each at least `least`."""
    both = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(both) != 2:
        raise ShapeError(f"{op}: {name} must be a number or a pair (height, width), got {value!r}")
    return integer(op, name, both[0], least), integer(op, name, both[1], least)


def images(op: str, x: Any) -> Tensor:
    """Give `x` back if it is a Tensor (N,C,H,W), else raise."""
    if tensor(op, x, "x").ndim != 4:
        raise ShapeError(f"{op}: the input must have the axes N,C,H,W, got shape {x.shape}")
    return x
