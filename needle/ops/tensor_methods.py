"""The one table of Tensor's operators and methods. Importing this module installs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from needle.autograd import NDArray, Tensor, TensorTuple, is_foreign
from needle.backend_ndarray.dtypes import as_number
from needle.errors import DTypeError, OptionError
from needle.ops import cast, comparison, elementwise, indexing, linalg, reduce, selection, shape, transfer, tuples
from needle.ops.activation import relu, sigmoid, tanh
from needle.ops.arguments import constant, promote


def _operator(scalar_op: Callable[..., Tensor], tensor_op: Callable[..., Tensor]) -> Callable[..., Any]:
    """Make an operator: with a number, `scalar_op`; with a Tensor or an array, `tensor_op`; else not ours."""

    def operator(a: Tensor, b: Any) -> Any:
        if isinstance(b, Tensor):
            return tensor_op(a, b)
        number = as_number(b)
        if number is not None:
            return scalar_op(a, number)
        ours = isinstance(b, (NDArray, np.ndarray, list)) or is_foreign(b)  # the op's error names a foreign one
        return tensor_op(a, b) if ours else NotImplemented

    return operator


def _tensor_operator(tensor_op: Callable[..., Tensor]) -> Callable[..., Any]:
    return _operator(tensor_op, tensor_op)


def _subtract(a: Tensor, b: Any) -> Tensor:
    """Compute a + (-b), as graphs record it; in the common dtype, since an unsigned -b wraps around."""
    a, b = promote(a, constant("sub", b, a))
    return elementwise.add(a, elementwise.negate(b))


def _subtract_number(a: Tensor, c: float) -> Tensor:
    return elementwise.sub(a, c) if a.dtype.kind == "u" else elementwise.add_scalar(a, -c)


def _subtract_from(a: Tensor, b: Any) -> Tensor:
    return elementwise.sub(b, a) if a.dtype.kind in "ub" else -a + b


def _reversed(tensor_op: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda a, b: tensor_op(b, a)


def _with_shape(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Make a method that takes its shape or axes as one tuple, by name, or as separate numbers."""

    def method(a: Tensor, *sizes: Any, **named: Any) -> Tensor:
        return function(a, *sizes, **named) if named else function(a, sizes[0] if len(sizes) == 1 else sizes)

    return method


def _reduction(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Make a method that takes NumPy's name `axis` for its axes too, as numpy.sum(x, axis=0) calls it."""
    name = function.__name__.lstrip("_")

    def method(
        a: Tensor,
        axes: Any = None,
        keepdims: bool = False,
        *,
        axis: Any = None,
        dtype: None = None,
        out: None = None,
        **settings: Any,
    ) -> Tensor:
        if dtype is not None or out is not None:
            raise DTypeError(f"{name}: a Tensor takes no dtype and no out; use astype, or assign the result")
        if axes is not None and axis is not None:
            raise OptionError(f"{name}: axes={axes} and axis={axis} are two names of one argument; give one")
        return function(a, axis if axes is None else axes, keepdims, **settings)

    return method


def _var(a: Tensor, axes: Any, keepdims: bool, correction: int = 0, ddof: int | None = None) -> Tensor:
    """Take the variance; `ddof` is NumPy's name for the correction."""
    return reduce.var(a, axes, keepdims, correction if ddof is None else ddof)


METHODS: dict[str, Any] = {
    "__add__": _operator(elementwise.add_scalar, elementwise.add),
    "__radd__": _operator(elementwise.add_scalar, elementwise.add),
    "__sub__": _operator(_subtract_number, _subtract),
    "__rsub__": _subtract_from,
    "__mul__": _operator(elementwise.mul_scalar, elementwise.multiply),
    "__rmul__": _operator(elementwise.mul_scalar, elementwise.multiply),
    "__truediv__": _operator(elementwise.divide_scalar, elementwise.divide),
    "__rtruediv__": _tensor_operator(_reversed(elementwise.divide)),
    "__pow__": _operator(elementwise.power_scalar, elementwise.power),
    "__rpow__": _tensor_operator(_reversed(elementwise.power)),
    "__neg__": elementwise.negate,
    "__abs__": elementwise.abs,
    "__matmul__": linalg.matmul,
    "__rmatmul__": _reversed(linalg.matmul),
    "__lt__": comparison.less,
    "__le__": comparison.less_equal,
    "__gt__": comparison.greater,
    "__ge__": comparison.greater_equal,
    "__getitem__": indexing.getitem,
    "abs": elementwise.abs,
    "exp": elementwise.exp,
    "log": elementwise.log,
    "sqrt": elementwise.sqrt,
    "clip": selection.clip,
    "astype": cast.astype,
    "to": transfer.to_device,
    "relu": relu,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "sum": _reduction(reduce.summation),
    "mean": _reduction(reduce.mean),
    "var": _reduction(_var),
    "max": _reduction(reduce.max),
    "min": _reduction(reduce.min),
    "argmax": reduce.argmax,
    "cumsum": reduce.cumsum,
    "reshape": _with_shape(shape.reshape),
    "broadcast_to": _with_shape(shape.broadcast_to),
    "permute": _with_shape(shape.permute),
    "transpose": shape.transpose,
    "squeeze": shape.squeeze,
    "unsqueeze": shape.unsqueeze,
    "flip": shape.flip,
    "matmul": linalg.matmul,
    "T": property(shape.reverse_axes),
}

for _name, _method in METHODS.items():
    setattr(Tensor, _name, _method)

TensorTuple.__getitem__ = tuples.tuple_get_item  # type: ignore[method-assign]
TensorTuple.__add__ = tuples.tuple_add  # type: ignore[method-assign]
