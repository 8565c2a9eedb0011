"""The check of an op or a layer: its value, its gradients, and the gradients of those."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from needle.autograd import Tensor
from needle.course.checks import Check, Finding, Mistake
from needle.course.evidence import Array
from needle.errors import GradientError
from needle.gradients import grad
from needle.testing import check_gradients

STEP = 1e-5
CUT_OFF = (
    "The graph ends there: compute with Tensors and ops all the way; .data, .detach(), .cached_data, .numpy() and "
    "Tensor(...) cut a value off."
)
NOT_OPS = (
    "A gradient is made of ops, so that it can be differentiated again: use out_grad and node.inputs, and not their "
    ".cached_data, .numpy(), .data or .detach()."
)


def differentiable(
    name: str,
    call: Callable[..., Tensor],
    oracle: Callable[..., Any],
    inputs: Mapping[str, Array],
    mistakes: Sequence[Mistake] = (),
    *,
    order: int = 2,
    points: int = 1,
) -> Check:
    """Make the check of an op or a layer from what it computes; its right gradients are the oracle's differences.

    The results are called `value`, `gradient of NAME` for every input, and `gradients of gradients`. A mistake's
    namespace has the inputs by their names, `value` and `out_grad`, the gradient that comes from above.

    Args:
        name: names the op or layer and the situation.
        call: gives the solution's result, a Tensor, from the solution and the inputs as float64 Tensors, by name.
        oracle: gives the right value from the same inputs as arrays.
        inputs: float64 arrays.
        mistakes: see `Check`.
        order: 1 leaves out the gradients of gradients.
        points: what the check is worth.

    >>> from types import SimpleNamespace
    >>> x = np.array([1.0, 2.0])
    >>> check = differentiable("cube", lambda solution, x: solution.cube(x), lambda x: x**3, {"x": x})
    >>> check.verify(SimpleNamespace(cube=lambda x: x * x * x))
    """
    value = np.asarray(oracle(**inputs))
    out_grad = np.random.default_rng(1).standard_normal(value.shape)
    parts = [f"gradient of {key}" for key in inputs]

    def run(solution: Any) -> Iterator[Any]:
        tensors = {key: Tensor(array, dtype="float64") for key, array in inputs.items()}
        out = _tensor(call(solution, **tensors), "the result")
        yield out
        yield from _gradients(out, tensors, Tensor(out_grad, dtype="float64"))
        if order > 1:
            yield _higher_gradients(lambda *args: call(solution, **dict(zip(inputs, args))), tensors, order)

    def expected() -> dict[str, Any]:
        found = {part: _slopes(oracle, inputs, key, out_grad) for part, key in zip(parts, inputs)}
        return {"value": value, **found, **({"gradients of gradients": "right"} if order > 1 else {})}

    setting = ", ".join(f"{key} {array.shape}" for key, array in inputs.items())
    return Check(name, run, expected, mistakes, {**inputs, "out_grad": out_grad, "value": value}, setting, points)


def _tensor(result: Any, what: str) -> Tensor:
    if isinstance(result, Tensor):
        return result
    raise Finding(f"{what} is of type {type(result).__name__}, expected a Tensor", "Return what an op gives.")


def _gradients(out: Tensor, tensors: Mapping[str, Tensor], out_grad: Tensor) -> Iterator[Tensor]:
    """Give the gradients as the solution made them, before the engine looks at their shapes where that can be."""
    if out.op is None:
        raise Finding("the result has no graph", CUT_OFF)
    inputs = list(tensors.values())
    if len(out.inputs) == len(inputs) and all(a is b for a, b in zip(out.inputs, inputs)):
        found = out.op.gradient_as_tuple(out_grad, out)
        if len(found) != len(inputs):
            raise Finding(
                f"{type(out.op).__name__}.gradient gave {len(found)} gradients for {len(inputs)} inputs",
                "Return a tuple with a gradient for each input.",
            )
    else:
        found = grad(out, inputs, out_grad, allow_unused=True)
    for name, gradient in zip(tensors, found):
        if gradient is None:
            raise Finding(f"no gradient reaches {name}", CUT_OFF)
        yield _tensor(gradient, "it")


def _higher_gradients(call: Callable[..., Tensor], tensors: Mapping[str, Tensor], order: int) -> str:
    try:
        check_gradients(call, list(tensors.values()), order=order)
    except GradientError as error:
        raise Finding(str(error).removeprefix("check_gradients: "), NOT_OPS) from error
    return "right"


def _slopes(oracle: Callable[..., Any], inputs: Mapping[str, Array], key: str, out_grad: Array) -> Array:
    """Give the gradient of sum(out_grad * oracle) by central differences, element by element."""
    slopes = np.empty_like(inputs[key])
    for place in np.ndindex(slopes.shape):
        ends = []
        for step in (STEP, -STEP):
            moved = inputs[key].copy()
            moved[place] += step
            ends.append(np.sum(out_grad * oracle(**{**inputs, key: moved})))
        slopes[place] = (ends[0] - ends[1]) / (2 * STEP)
    return slopes
