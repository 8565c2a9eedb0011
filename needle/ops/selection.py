"""Choosing between values, element by element. Conditions and masks are data of an op, not inputs of the graph."""

from __future__ import annotations

from typing import Any

from needle import backend_ndarray as nd
from needle.autograd import NDArray, Tensor, TensorOp
from needle.backend_ndarray.layout import broadcast_shapes
from needle.errors import GradientError, ShapeError
from needle.ops.arguments import broadcast, constant, number, operands, tensor
from needle.ops.comparison import equal, less, not_equal


class Choice(TensorOp):
    """An op with a condition, which may lie in memory that the caller can write to."""

    def __init__(self, condition: NDArray) -> None:
        self._condition, self._version = condition, condition._handle.version

    @property
    def condition(self) -> NDArray:
        if self._condition._handle.version != self._version:
            raise GradientError(
                f"{type(self).__name__}: the condition of shape {self._condition.shape} was changed in place after "
                "the op was called; compute the output again before calling backward()"
            )
        return self._condition


class MaskedFill(Choice):
    """Put a number where the mask holds; no gradient passes there."""

    def __init__(self, mask: NDArray, value: float) -> None:
        super().__init__(mask)
        self.value = value

    def compute(self, a: NDArray) -> NDArray:
        return nd.where(self.condition, self.value, a)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return MaskedFill(self.condition, 0)(out_grad)


def masked_fill(a: Tensor, mask: Any, value: float) -> Tensor:
    """Put the number `value` where `mask`, which broadcasts to a's shape, holds.

    >>> import needle as ndl
    >>> a = ndl.Tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> masked_fill(a, a > 2, -1).numpy().tolist()
    [[1.0, 2.0], [-1.0, -1.0]]
    """
    mask = _condition("masked_fill", mask, tensor("masked_fill", a))
    if mask.shape != a.shape:
        if broadcast_shapes("masked_fill", mask.shape, a.shape) != a.shape:
            raise ShapeError(f"masked_fill: the mask of shape {mask.shape} is larger than the tensor, {a.shape}")
        mask = mask.broadcast_to(a.shape)
    return MaskedFill(mask.realize_cached_data(), number("masked_fill", "value", value))(a)


class Where(Choice):
    """One operand where the condition holds, the other elsewhere."""

    def compute(self, a: NDArray, b: NDArray) -> NDArray:
        return nd.where(self.condition, a, b)

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
        return MaskedFill(self.condition == 0, 0)(out_grad), MaskedFill(self.condition, 0)(out_grad)


def where(condition: Any, a: Any, b: Any) -> Tensor:
    """Take `a` where `condition` holds and `b` elsewhere, broadcasting all three. One of a and b must be a Tensor.

    The gradient that reaches the side not taken is 0. An infinite slope further up makes that NaN, as 0 * inf is:
    `where(x > 0, sqrt(x), 0)` has the gradient NaN at 0. Keep such points out of the argument of `sqrt` instead.

    >>> import needle as ndl
    >>> x = ndl.Tensor([-1.0, 4.0])
    >>> where(x > 0, x, 10 * x).numpy().tolist()
    [-10.0, 4.0]
    """
    a, b = operands("where", a, b)
    condition, a, b = broadcast("where", _condition("where", condition, a), a, b)
    return Where(condition.realize_cached_data())(a, b)


def _condition(op: str, value: Any, like: Tensor) -> Tensor:
    """Give the condition as a constant bool Tensor; numbers other than 0 hold."""
    value = constant(op, value, like).detach()
    return value if value.dtype.kind == "b" else not_equal(value, 0)


def _winner_takes(out_grad: Tensor, loses: Tensor, ties: Tensor) -> Tensor:
    """Give the gradient of one side of a maximum or minimum: nothing where it loses, half where the two are equal."""
    whole = masked_fill(out_grad, loses, 0)
    return where(ties, out_grad / 2, whole)


class Maximum(TensorOp):
    """max(a, b)."""

    def compute(self, a: NDArray, b: NDArray) -> NDArray:
        return a.maximum(b)

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
        a, b = node.inputs
        ties = equal(a, b)
        return _winner_takes(out_grad, less(a, b), ties), _winner_takes(out_grad, less(b, a), ties)


def maximum(a: Any, b: Any) -> Tensor:
    """Take the larger, broadcasting. NaN passes; where the two are equal each gets half of the gradient.

    >>> import needle as ndl
    >>> maximum(ndl.Tensor([1.0, 5.0]), ndl.Tensor([2.0, 3.0])).numpy().tolist()
    [2.0, 5.0]
    """
    return Maximum()(*operands("maximum", a, b))


class Minimum(TensorOp):
    """min(a, b)."""

    def compute(self, a: NDArray, b: NDArray) -> NDArray:
        return a.minimum(b)

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
        a, b = node.inputs
        ties = equal(a, b)
        return _winner_takes(out_grad, less(b, a), ties), _winner_takes(out_grad, less(a, b), ties)


def minimum(a: Any, b: Any) -> Tensor:
    """Take the smaller, broadcasting. NaN passes; where the two are equal each gets half of the gradient.

    >>> import needle as ndl
    >>> minimum(ndl.Tensor([1.0, 5.0]), ndl.Tensor([2.0, 3.0])).numpy().tolist()
    [1.0, 3.0]
    """
    return Minimum()(*operands("minimum", a, b))


class Clip(TensorOp):
    """min(max(a, low), high); the gradient passes where that is a."""

    def __init__(self, low: float | None, high: float | None) -> None:
        self.low, self.high = low, high

    def compute(self, a: NDArray) -> NDArray:
        a = a if self.low is None else a.maximum(self.low)
        return a if self.high is None else a.minimum(self.high)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return masked_fill(out_grad, not_equal(node.inputs[0], node), 0)


def clip(a: Tensor, min: float | None = None, max: float | None = None) -> Tensor:
    """Limit to min..max; None is no limit. NaN passes; the gradient passes at the limits and is 0 beyond them.

    >>> import needle as ndl
    >>> clip(ndl.Tensor([-3.0, 0.5, 2.0]), min=0, max=1).numpy().tolist()
    [0.0, 0.5, 1.0]
    """
    low = None if min is None else number("clip", "min", min)
    high = None if max is None else number("clip", "max", max)
    return Clip(low, high)(a)
