"""Comparisons. Their results are constants: bool tensors (`sign`: of the operand's dtype) outside every graph."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from needle.autograd import Tensor
from needle.backend_ndarray.dtypes import as_number
from needle.ops.arguments import operands, tensor


def _compare(op: str, comparison: Callable[[Any, Any], Any], a: Any, b: Any) -> Tensor:
    if not isinstance(a, Tensor) or as_number(b) is None:  # NDArray compares a number in a dtype that holds it
        a, b = operands(op, a, b)
        b = b.realize_cached_data()
    return Tensor.make_const(comparison(a.realize_cached_data(), b))


def equal(a: Any, b: Any) -> Tensor:
    """Compare elementwise, a == b, broadcasting.

    >>> import needle as ndl
    >>> equal(ndl.Tensor([1.0, 2.0]), 2).numpy().tolist()
    [False, True]
    """
    return _compare("equal", operator.eq, a, b)


def not_equal(a: Any, b: Any) -> Tensor:
    """Compare elementwise, a != b, broadcasting.

    >>> import needle as ndl
    >>> not_equal(ndl.Tensor([1.0, 2.0]), 2).numpy().tolist()
    [True, False]
    """
    return _compare("not_equal", operator.ne, a, b)


def less(a: Any, b: Any) -> Tensor:
    """Compare elementwise, a < b, broadcasting.

    >>> import needle as ndl
    >>> less(ndl.Tensor([1.0, 2.0]), 2).numpy().tolist()
    [True, False]
    """
    return _compare("less", operator.lt, a, b)


def less_equal(a: Any, b: Any) -> Tensor:
    """Compare elementwise, a <= b, broadcasting.

    >>> import needle as ndl
    >>> less_equal(ndl.Tensor([1.0, 2.0, 3.0]), 2).numpy().tolist()
    [True, True, False]
    """
    return _compare("less_equal", operator.le, a, b)


def greater(a: Any, b: Any) -> Tensor:
    """Compare elementwise, a > b, broadcasting.

    >>> import needle as ndl
    >>> greater(ndl.Tensor([1.0, 2.0, 3.0]), 2).numpy().tolist()
    [False, False, True]
    """
    return _compare("greater", operator.gt, a, b)


def greater_equal(a: Any, b: Any) -> Tensor:
    """Compare elementwise, a >= b, broadcasting.

    >>> import needle as ndl
    >>> greater_equal(ndl.Tensor([1.0, 2.0]), 2).numpy().tolist()
    [False, True]
    """
    return _compare("greater_equal", operator.ge, a, b)


def sign(a: Tensor) -> Tensor:
    """Give -1, 0 or 1 by the sign of each element; NaN passes.

    >>> import needle as ndl
    >>> sign(ndl.Tensor([-2.0, 0.0, 3.0])).numpy().tolist()
    [-1.0, 0.0, 1.0]
    """
    return Tensor.make_const(tensor("sign", a).realize_cached_data().sign())
