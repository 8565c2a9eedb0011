"""Arithmetic, element by element.

Operands of different dtypes or shapes are brought together by nodes of their own (Cast, BroadcastTo), so that no
gradient here has to undo a broadcast.
"""

from __future__ import annotations

from typing import Any

from needle.autograd import NDArray, Tensor, TensorOp
from needle.ops.arguments import as_scalar, operands
from needle.ops.comparison import equal, greater_equal, sign
from needle.ops.selection import masked_fill


class EWiseAdd(TensorOp):
    """a + b."""

    reads_values = False

    def compute(self, a: NDArray, b: NDArray) -> NDArray:
        return a + b

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
        return out_grad, out_grad


def add(a: Any, b: Any) -> Tensor:
    """Add, broadcasting.

    >>> import needle as ndl
    >>> add(ndl.Tensor([1.0, 2.0]), ndl.Tensor([10.0, 20.0])).numpy().tolist()
    [11.0, 22.0]
    """
    return EWiseAdd()(*operands("add", a, b))


class AddScalar(TensorOp):
    """a + scalar."""

    reads_values = False

    def __init__(self, scalar: float) -> None:
        self.scalar = scalar

    def compute(self, a: NDArray) -> NDArray:
        return a + self.scalar

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad


def add_scalar(a: Tensor, scalar: float) -> Tensor:
    """Add a number.

    >>> import needle as ndl
    >>> add_scalar(ndl.Tensor([1.0, 2.0]), 3).numpy().tolist()
    [4.0, 5.0]
    """
    return AddScalar(as_scalar("add_scalar", "scalar", scalar))(a)


class EWiseSub(TensorOp):
    """a - b."""

    reads_values = False

    def compute(self, a: NDArray, b: NDArray) -> NDArray:
        return a - b

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
        return out_grad, -out_grad


def sub(a: Any, b: Any) -> Tensor:
    """Subtract, broadcasting. The operator `a - b` records `a + (-b)` instead.

    >>> import needle as ndl
    >>> sub(ndl.Tensor([1.0, 2.0]), ndl.Tensor([10.0, 20.0])).numpy().tolist()
    [-9.0, -18.0]
    """
    return EWiseSub()(*operands("sub", a, b))


class EWiseMul(TensorOp):
    """a * b, with the slopes b and a."""

    def compute(self, a: NDArray, b: NDArray) -> NDArray:
        return a * b

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a, b = node.inputs
        return out_grad * b if a.requires_grad else None, out_grad * a if b.requires_grad else None


def multiply(a: Any, b: Any) -> Tensor:
    """Multiply, broadcasting.

    >>> import needle as ndl
    >>> multiply(ndl.Tensor([1.0, 2.0]), ndl.Tensor([10.0, 20.0])).numpy().tolist()
    [10.0, 40.0]
    """
    return EWiseMul()(*operands("multiply", a, b))


class MulScalar(TensorOp):
    """a * scalar."""

    reads_values = False

    def __init__(self, scalar: float) -> None:
        self.scalar = scalar

    def compute(self, a: NDArray) -> NDArray:
        return a * self.scalar

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad * self.scalar


def mul_scalar(a: Tensor, scalar: float) -> Tensor:
    """Multiply by a number.

    >>> import needle as ndl
    >>> mul_scalar(ndl.Tensor([1.0, 2.0]), 3).numpy().tolist()
    [3.0, 6.0]
    """
    return MulScalar(as_scalar("mul_scalar", "scalar", scalar))(a)


class EWiseDiv(TensorOp):
    """a / b, with the slopes 1 / b and -a / b**2."""

    def compute(self, a: NDArray, b: NDArray) -> NDArray:
        return a / b

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
        to_a = out_grad / node.inputs[1]
        return to_a, -(to_a * node)  # not a / b**2, which overflows and underflows earlier


def divide(a: Any, b: Any) -> Tensor:
    """Divide, broadcasting.

    >>> import needle as ndl
    >>> divide(ndl.Tensor([1.0, 6.0]), ndl.Tensor([2.0, 3.0])).numpy().tolist()
    [0.5, 2.0]
    """
    return EWiseDiv()(*operands("divide", a, b))


class DivScalar(TensorOp):
    """a / scalar."""

    reads_values = False

    def __init__(self, scalar: float) -> None:
        self.scalar = scalar

    def compute(self, a: NDArray) -> NDArray:
        return a / self.scalar

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad / self.scalar


def divide_scalar(a: Tensor, scalar: float) -> Tensor:
    """Divide by a number.

    >>> import needle as ndl
    >>> divide_scalar(ndl.Tensor([1.0, 6.0]), 2).numpy().tolist()
    [0.5, 3.0]
    """
    return DivScalar(as_scalar("divide_scalar", "scalar", scalar))(a)


class EWisePow(TensorOp):
    """a**b, with the slopes b * a**(b - 1) and a**b * log(a).

    At a = 0 these give 0 * inf. The gradient to the base is then 0 for b = 0, and that to the exponent 0 for b >= 0,
    the limit for b > 0.
    """

    def compute(self, a: NDArray, b: NDArray) -> NDArray:
        return a**b

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a, b = node.inputs
        at_zero = equal(a, 0)
        to_a = to_b = None
        if a.requires_grad:
            zero_to_zero = equal(at_zero * equal(b, 0), 1)
            to_a = out_grad * b * a ** masked_fill(b - 1.0, zero_to_zero, 0)  # 1.0: an int has no power -1
        if b.requires_grad:
            to_b = out_grad * node * log(masked_fill(a, equal(at_zero * greater_equal(b, 0), 1), 1))
        return to_a, to_b


def power(a: Any, b: Any) -> Tensor:
    """Raise to a power, broadcasting. The gradient to the exponent is NaN where the base is negative.

    >>> import needle as ndl
    >>> power(ndl.Tensor([2.0, 3.0]), ndl.Tensor([3.0, 0.0])).numpy().tolist()
    [8.0, 1.0]
    """
    return EWisePow()(*operands("power", a, b))


class PowerScalar(TensorOp):
    """a**scalar, whose slope is scalar * a**(scalar - 1)."""

    def __init__(self, scalar: float) -> None:
        self.scalar = scalar

    def compute(self, a: NDArray) -> NDArray:
        return a**self.scalar

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        if self.scalar == 0:
            return out_grad * 0  # 0 * a**-1 is not 0 at a = 0
        return out_grad * (node.inputs[0] ** (self.scalar - 1) * self.scalar)


def power_scalar(a: Tensor, scalar: float) -> Tensor:
    """Raise to the power of a number.

    >>> import needle as ndl
    >>> power_scalar(ndl.Tensor([1.0, -3.0]), 2).numpy().tolist()
    [1.0, 9.0]
    """
    return PowerScalar(as_scalar("power_scalar", "scalar", scalar))(a)


class Negate(TensorOp):
    """-a."""

    reads_values = False

    def compute(self, a: NDArray) -> NDArray:
        return -a

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return -out_grad


def negate(a: Tensor) -> Tensor:
    """Change the sign.

    >>> import needle as ndl
    >>> negate(ndl.Tensor([1.0, -2.0])).numpy().tolist()
    [-1.0, 2.0]
    """
    return Negate()(a)


class Log(TensorOp):
    """log(a), whose slope is 1 / a."""

    def compute(self, a: NDArray) -> NDArray:
        return a.log()

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad / node.inputs[0]


def log(a: Tensor) -> Tensor:
    """Take the natural logarithm: -inf at 0, NaN below.

    >>> import needle as ndl
    >>> log(ndl.Tensor([1.0])).numpy().tolist()
    [0.0]
    """
    return Log()(a)


class Exp(TensorOp):
    """exp(a), which is its own slope."""

    def compute(self, a: NDArray) -> NDArray:
        return a.exp()

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad * node


def exp(a: Tensor) -> Tensor:
    """Take the exponential.

    >>> import needle as ndl
    >>> exp(ndl.Tensor([0.0])).numpy().tolist()
    [1.0]
    """
    return Exp()(a)


class Sqrt(TensorOp):
    """sqrt(a), whose slope is 1 / (2 * sqrt(a))."""

    def compute(self, a: NDArray) -> NDArray:
        return a.sqrt()

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad / (node * 2)


def sqrt(a: Tensor) -> Tensor:
    """Take the square root: NaN below 0. The gradient at 0 is inf (NaN where the gradient that arrives is 0).

    >>> import needle as ndl
    >>> sqrt(ndl.Tensor([4.0, 9.0])).numpy().tolist()
    [2.0, 3.0]
    """
    return Sqrt()(a)


class Abs(TensorOp):
    """|a|, whose slope is sign(a)."""

    def compute(self, a: NDArray) -> NDArray:
        return a.abs()

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad * sign(node.inputs[0])


def abs(a: Tensor) -> Tensor:
    """Take the absolute value; its gradient at 0 is 0.

    >>> import needle as ndl
    >>> abs(ndl.Tensor([-2.0, 3.0])).numpy().tolist()
    [2.0, 3.0]
    """
    return Abs()(a)
