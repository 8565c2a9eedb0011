"""Gradients of functions of tensors, apart from any `.grad`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from needle.autograd import NDArray, Tensor, TensorOp, Value
from needle.engine import enable_grad, no_grad, propagate
from needle.errors import DTypeError, GradientError, ShapeError, kind_of


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    *,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Any, ...]:
    """Give the gradients of the sum of `outputs` with respect to `inputs`, leaving every `.grad` alone.

    Args:
        outputs: a Tensor or several.
        inputs: a Tensor or several, leaves or results of ops.
        grad_outputs: the gradients of the outputs; ones where None.
        create_graph: record the backward pass, so that the gradients can be differentiated.
        allow_unused: give None for an input that no output depends on, instead of raising GradientError.

    >>> import needle as ndl
    >>> x = ndl.Tensor([3.0])
    >>> (slope,) = ndl.grad(x**3, x, create_graph=True)
    >>> (curvature,) = ndl.grad(slope, x)
    >>> slope.numpy().tolist(), curvature.numpy().tolist()
    ([27.0], [18.0])
    """
    outputs, inputs = _tensors("outputs", outputs), _tensors("inputs", inputs)
    seeds = tuple(grad_outputs) if isinstance(grad_outputs, (list, tuple)) else (grad_outputs,)
    if len(seeds) == 1:
        seeds *= len(outputs)
    if len(seeds) != len(outputs):
        raise ShapeError(f"grad: {len(seeds)} grad_outputs for {len(outputs)} outputs; give one each, or None")
    with enable_grad() if create_graph else no_grad():
        found = _gradients_of(outputs, seeds, inputs, ())
    missing = [index for index, gradient in enumerate(found) if gradient is None]
    if missing and not allow_unused:
        raise GradientError(f"grad: no output depends on inputs {missing}; pass allow_unused=True to get None for them")
    return found


def _tensors(name: str, values: Any) -> tuple[Tensor, ...]:
    """Give one Tensor, or several, as a tuple."""
    listed = tuple(values) if isinstance(values, Iterable) and not isinstance(values, Tensor) else (values,)
    for value in listed:
        if not isinstance(value, Tensor):
            raise DTypeError(f"grad: {name} must be Tensors, got {kind_of(value)}")
    return listed


def _gradients_of(
    outputs: Sequence[Tensor], seeds: Sequence[Tensor | None], inputs: Sequence[Tensor], stop: Sequence[Value]
) -> tuple[Tensor | None, ...]:
    pending: dict[Value, Tensor] = {}
    for output, seed in zip(outputs, seeds):
        output.realize_cached_data()
        part = output._seed(seed, copy=False)
        pending[output] = pending[output] + part if output in pending else part
    wanted = set(inputs)
    found: dict[Value, Tensor] = {}

    def visit(node: Value, gradient: Tensor) -> None:
        if node in wanted:
            found[node] = gradient

    propagate(pending, visit, stop=stop)
    return tuple([found.get(value) for value in inputs])


class _Alias(TensorOp):
    """The value itself, as a node of its own."""

    def compute(self, a: NDArray) -> NDArray:
        return a

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad


def differentiate(
    fn: Callable[..., Any], inputs: Sequence[Tensor], out_grads: Tensor | Sequence[Tensor]
) -> tuple[Tensor | None, ...]:
    """Give the gradients of `fn(*inputs)`, weighted by `out_grads`, as an op's `gradient` wants them.

    The inputs count as independent, even where one was computed from another. What is computed is recorded exactly
    when recording is on. Inputs that require no gradient get None.

    >>> import needle as ndl
    >>> x, y = ndl.Tensor([2.0]), ndl.Tensor([5.0])
    >>> dx, dy = differentiate(lambda x, y: x * x * y, [x, y], ndl.Tensor([1.0]))
    >>> dx.numpy().tolist(), dy.numpy().tolist()
    ([20.0], [4.0])
    """
    with enable_grad():
        aliases = [_Alias()(value) if value.requires_grad else value for value in inputs]
        outputs = fn(*aliases)
    outputs = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    seeds = (out_grads,) if isinstance(out_grads, Tensor) else tuple(out_grads)
    return _gradients_of(outputs, seeds, aliases, aliases)
