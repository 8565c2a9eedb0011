"""Gradient checks: the graph's gradients against central differences, to second order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from needle.autograd import Tensor
from needle.errors import DTypeError, GradientError
from needle.gradients import grad
from needle.ops.arguments import tensor

Ndarray: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"
Function: TypeAlias = Callable[..., "Tensor | tuple[Tensor, ...]"]


def check_gradients(
    fn: Function,
    inputs: Tensor | Sequence[Tensor],
    *,
    order: int = 2,
    step: float = 1e-6,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    seed: int = 0,
) -> None:
    """Check the gradients of `fn(*inputs)`, and the gradients of those up to `order`, by central differences.

    The outputs are summed with random weights to one number f. Along a random direction v, the graph's slope
    <grad f, v> must equal (f(x + step * v) - f(x - step * v)) / (2 * step); where it does not, the elements are
    compared one by one.

    Args:
        fn: takes Tensors, gives a Tensor or a tuple of them; the same result at each call.
        inputs: float64 Tensors. Those with `requires_grad` False are passed on as they are.
        order: 1 checks the gradients, 2 also their gradients, and so on.
        step: of the differences.
        rtol, atol: |slope - difference| <= atol + rtol * |difference|.
        seed: of the weights and directions; NumPy's global generator is left alone.

    Raises:
        DTypeError: an input is no Tensor, or not float64; differences in float32 pass or fail by luck.
        GradientError: a gradient is wrong (it names the order, the input, the index, got and expected), or the function
            has a kink or a tie at these inputs, or gives another value at each call, or no input requires a gradient.

    >>> import needle as ndl
    >>> check_gradients(lambda x, y: x * y.exp(), [ndl.Tensor([1.0, 2.0], dtype="float64") for _ in range(2)])
    """
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    checked = [index for index, x in enumerate(inputs) if tensor("check_gradients", x, f"input {index}").requires_grad]
    if not checked:
        raise GradientError("check_gradients: no input requires a gradient; make one with requires_grad=True")
    for index in checked:
        if inputs[index].dtype != np.float64:
            raise DTypeError(
                f"check_gradients: input {index} is {inputs[index].dtype}; differences need float64, make it with "
                'dtype="float64"'
            )
    generator = np.random.default_rng(seed)
    for level in range(1, order + 1):
        check = _Check(fn, inputs, checked, level, step, generator)
        check.along_a_direction(rtol, atol)
        fn = check.gradient


class _Check:
    """One order of a gradient check: f(x), a weighted sum of fn's outputs, and its gradient."""

    def __init__(
        self,
        fn: Function,
        inputs: list[Tensor],
        checked: list[int],
        level: int,
        step: float,
        generator: np.random.Generator,
    ) -> None:
        self.fn, self.inputs, self.checked, self.level, self.step = fn, inputs, checked, level, step
        self.generator = generator
        self.at = [inputs[index].numpy() for index in checked]
        self.weights = [generator.standard_normal(y.shape) for y in self._outputs(inputs)]

    def _outputs(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        outputs = self.fn(*inputs)
        return (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)

    def gradient(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Give the graph's gradient of f with respect to the checked inputs, itself recorded."""
        outputs = self._outputs(inputs)
        weights = [Tensor(w, dtype=y.dtype, device=y.device) for w, y in zip(self.weights, outputs)]
        wanted = [inputs[index] for index in self.checked]
        found = grad(outputs, wanted, weights, create_graph=True, allow_unused=True)
        return tuple([x * 0 if g is None else g for x, g in zip(wanted, found)])

    def value(self, arrays: Sequence[Ndarray]) -> float:
        """f, with the checked inputs replaced by `arrays`."""
        inputs = list(self.inputs)
        for index, array in zip(self.checked, arrays):
            inputs[index] = Tensor(array, dtype="float64", device=self.inputs[index].device)
        outputs = self._outputs(inputs)
        return sum(float((y.numpy() * w).sum()) for y, w in zip(outputs, self.weights))

    def _along(self, direction: Sequence[Ndarray], distance: float) -> float:
        return self.value([x + distance * v for x, v in zip(self.at, direction)])

    def along_a_direction(self, rtol: float, atol: float) -> None:
        direction = [self.generator.standard_normal(x.shape) for x in self.at]
        gradients = [g.numpy() for g in self.gradient(*self.inputs)]
        slope = sum(float((g * v).sum()) for g, v in zip(gradients, direction))
        self._check_smooth(direction)
        expected = self._difference(direction)
        if not abs(slope - expected) <= atol + rtol * abs(expected):
            self._raise_at_the_worst_element(rtol, atol)

    def _difference(self, direction: Sequence[Ndarray]) -> float:
        return (self._along(direction, self.step) - self._along(direction, -self.step)) / (2 * self.step)

    def _check_smooth(self, direction: Sequence[Ndarray]) -> None:
        """At a kink the slopes to both sides differ by as much for a smaller step; elsewhere by proportionally less."""
        here = self.value(self.at)
        if self.value(self.at) != here and not np.isnan(here):
            raise GradientError("check_gradients: the function gives another value at each call; fix its random state")
        gaps = []
        for distance in (100 * self.step, 10 * self.step):
            ahead = (self._along(direction, distance) - here) / distance
            behind = (here - self._along(direction, -distance)) / distance
            gaps.append((abs(ahead - behind), 1e-3 * (abs(ahead) + abs(behind)) + 1e-6))
        (wide, _), (narrow, noise) = gaps
        if narrow > noise and narrow > wide / 2:
            raise GradientError(
                f"check_gradients: not differentiable at these inputs (order {self.level}): the slopes to both sides "
                f"differ by {narrow:.3g}; there is a kink or a tie, move the inputs apart"
            )

    def _raise_at_the_worst_element(self, rtol: float, atol: float) -> None:
        """Compare element by element, for the plain sum of the outputs where that shows the fault too."""
        weights, self.weights = self.weights, [np.ones_like(w) for w in self.weights]
        text, wrong = self._worst_element(rtol, atol)
        if not wrong:
            self.weights = weights
            text, _ = self._worst_element(rtol, atol)
        raise GradientError(text)

    def _worst_element(self, rtol: float, atol: float) -> tuple[str, bool]:
        worst, text = -1.0, ""
        for position, gradient in enumerate(self.gradient(*self.inputs)):
            for place in np.ndindex(gradient.shape):
                direction = [np.zeros_like(x) for x in self.at]
                direction[position][place] = 1.0
                got, expected = float(gradient.numpy()[place]), self._difference(direction)
                excess = np.nan_to_num(abs(got - expected) / (atol + rtol * abs(expected)), nan=np.inf)
                if excess > worst:
                    worst = excess
                    text = (
                        f"check_gradients: wrong gradient of input {self.checked[position]} at {place} "
                        f"(order {self.level}): got {got:.7g}, expected {expected:.7g} by central differences, "
                        f"relative error {abs(got - expected) / max(abs(expected), 1e-300):.3g}"
                    )
        return text, worst > 1
