"""Comparisons. Their results are constants: bool tensors (`sign`: of the operand's dtype) outside every graph."""

from __future__ import annotations

from typing import Any

from needle.autograd import Tensor
from needle.ops.arguments import is_number, operands, tensor


def _arrays(op: str, a: Any, b: Any) -> tuple[Any, Any]:
    if isinstance(a, Tensor) and is_number(b):
        return a.realize_cached_data(), b
    a, b = operands(op, a, b)
    return a.realize_cached_data(), b.realize_cached_data()


def equal(a: Any, b: Any) -> Tensor:
    """Compare elementwise, a == b, broadcasting.

    >>> import needle as ndl
    >>> equal(ndl.Tensor([1.0, 2.0]), 2).numpy().tolist()
    [False, True]
    """
    x, y = _arrays("equal", a, b)
    return Tensor.make_const(x == y)


def not_equal(a: Any, b: Any) -> Tensor:
    """Compare elementwise, a != b, broadcasting.

    >>> import needle as ndl
    >>> not_equal(ndl.Tensor([1.0, 2.0]), 2).numpy().tolist()
    [True, False]
    """
    x, y = _arrays("not_equal", a, b)
    return Tensor.make_const(x != y)


def less(a: Any, b: Any) -> Tensor:
    """Compare elementwise, a < b, broadcasting.

    >>> import needle as ndl
    >>> less(ndl.Tensor([1.0, 2.0]), 2).numpy().tolist()
    [True, False]
    """
    x, y = _arrays("less", a, b)
    return Tensor.make_const(x < y)


def less_equal(a: Any, b: Any) -> Tensor:
    """Compare elementwise, a <= b, broadcasting.

    >>> import needle as ndl
    >>> less_equal(ndl.Tensor([1.0, 2.0, 3.0]), 2).numpy().tolist()
    [True, True, False]
    """
    x, y = _arrays("less_equal", a, b)
    return Tensor.make_const(x <= y)


def greater(a: Any, b: Any) -> Tensor:
    """Compare elementwise, a > b, broadcasting.

    >>> import needle as ndl
    >>> greater(ndl.Tensor([1.0, 2.0, 3.0]), 2).numpy().tolist()
    [False, False, True]
    """
    x, y = _arrays("greater", a, b)
    return Tensor.make_const(x > y)


def greater_equal(a: Any, b: Any) -> Tensor:
    """Compare elementwise, a >= b, broadcasting.

    >>> import needle as ndl
    >>> greater_equal(ndl.Tensor([1.0, 2.0]), 2).numpy().tolist()
    [False, True]
    """
    x, y = _arrays("greater_equal", a, b)
    return Tensor.make_const(x >= y)


def sign(a: Tensor) -> Tensor:
    """Give -1, 0 or 1 by the sign of each element; NaN passes.

    >>> import needle as ndl
    >>> sign(ndl.Tensor([-2.0, 0.0, 3.0])).numpy().tolist()
    [-1.0, 0.0, 1.0]
    """
    return Tensor.make_const(tensor("sign", a).realize_cached_data().sign())
