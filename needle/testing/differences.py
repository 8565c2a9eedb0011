"""A function of tensors as one number, with the gradient that the graph gives and central differences of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from needle.autograd import Tensor, TensorTuple
from needle.engine import enable_grad, find_topo_sort
from needle.errors import DTypeError, GradientError, kind_of
from needle.gradients import grad

Ndarray: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"
Arrays: TypeAlias = "Sequence[Ndarray]"
Function: TypeAlias = Callable[..., "Tensor | tuple[Tensor, ...]"]


@dataclass(frozen=True)
class Tolerance:
    """|got - expected| <= atol + rtol * |expected|."""

    rtol: float
    atol: float

    def excess(self, got: Ndarray, expected: Ndarray) -> Ndarray:
        """Give how many times too far apart they are; above 1 is wrong, infinite where there is a NaN."""
        distance = abs(got - expected)
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = np.where(distance == 0, 0.0, distance / (self.atol + self.rtol * abs(expected)))
        return np.nan_to_num(excess, nan=np.inf, posinf=np.inf)

    def equal(self, got: Ndarray, expected: Ndarray) -> bool:
        """Whether all elements are close enough."""
        return bool((self.excess(got, expected) <= 1).all())


class WeightedSum:
    """f(x): the outputs of `fn`, summed with random weights; x: the inputs that require a gradient, as arrays.

    A step along a direction v, or along one element, is `step` times v, times the largest |x| of that input where it
    is above 1, so that x + step is not rounded away.
    """

    def __init__(self, fn: Function, inputs: Sequence[Tensor], step: float, generator: np.random.Generator) -> None:
        self.fn, self.inputs, self.step, self.generator = fn, inputs, step, generator
        self.checked = [index for index, x in enumerate(inputs) if x.requires_grad]
        self.at: list[Ndarray] = [inputs[index].numpy() for index in self.checked]
        self.scales = [max(1.0, float(np.abs(x).max(initial=0))) for x in self.at]
        outputs = self.outputs(*inputs)
        _check_outputs(outputs)
        self.weights: Arrays = [generator.standard_normal(y.shape) for y in outputs]

    def outputs(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Call the function; a single Tensor is made a tuple."""
        with enable_grad():
            outputs = self.fn(*inputs)
        if isinstance(outputs, Tensor):
            return (outputs,)
        if not isinstance(outputs, (tuple, list, TensorTuple)) or not all(isinstance(y, Tensor) for y in outputs):
            raise DTypeError(
                f"check_gradients: the function gave {kind_of(outputs)}; return a Tensor or a tuple of Tensors"
            )
        return tuple(outputs)

    def gradient(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Give the graph's gradient of f with respect to x, itself recorded."""
        return self._gradient(inputs, self.weights)

    def gradient_arrays(self, weights: Arrays) -> list[Ndarray]:
        """Give the graph's gradient at the inputs, the outputs being summed with these weights."""
        return [g.numpy() for g in self._gradient(self.inputs, weights)]

    def _gradient(self, inputs: Sequence[Tensor], weights: Arrays) -> tuple[Tensor, ...]:
        outputs = self.outputs(*inputs)
        seeds = [Tensor(w, dtype=y.dtype, device=y.device) for w, y in zip(weights, outputs)]
        wanted = [inputs[index] for index in self.checked]
        found = grad(outputs, wanted, seeds, create_graph=True, allow_unused=True)
        return tuple([x * 0 if g is None else g for x, g in zip(wanted, found)])

    def direction(self) -> list[Ndarray]:
        """Draw a direction in the space of x."""
        return [np.asarray(self.generator.normal(0, scale, x.shape)) for x, scale in zip(self.at, self.scales)]

    def element(self, position: int, *places: tuple[int, ...]) -> list[Ndarray]:
        """Give the direction along some elements of one array of x."""
        direction: list[Ndarray] = [np.zeros(x.shape) for x in self.at]
        for place in places:
            direction[position][place] = self.scales[position]
        return direction

    def outputs_along(self, direction: Arrays, distance: float) -> list[Ndarray]:
        """Give the outputs at x + distance * direction."""
        inputs = list(self.inputs)
        for index, x, v in zip(self.checked, self.at, direction):
            inputs[index] = Tensor(x + distance * v, dtype="float64", device=inputs[index].device)
        return [y.numpy() for y in self.outputs(*inputs)]

    def along(self, direction: Arrays, distance: float) -> float:
        """Give f(x + distance * direction)."""
        return _weighted(self.outputs_along(direction, distance), self.weights)

    def slope(self, direction: Arrays) -> float:
        """Give (f(x + step * direction) - f(x - step * direction)) / (2 * step)."""
        return (self.along(direction, self.step) - self.along(direction, -self.step)) / (2 * self.step)

    def rounding(self) -> str:
        """Say that float32 values are in the graph of the outputs, where there are any."""
        for node in find_topo_sort(self.outputs(*self.inputs)):
            if isinstance(node, Tensor) and node.dtype == np.float32:
                return (
                    f"float32 values of shape {node.shape} are in the graph, and their rounding in the differences; "
                    "make them float64, such as by Tensor(array, dtype='float64')"
                )
        return ""

    def differences(self, position: int, weightings: Sequence[Arrays]) -> list[Ndarray]:
        """Give, by central differences, the gradient for one array of x, for each way to weigh the outputs."""
        x, scale = self.at[position], self.scales[position]
        gradients = [np.zeros_like(x) for _ in weightings]
        for place in np.ndindex(x.shape):
            direction = self.element(position, place)
            ahead, behind = [self.outputs_along(direction, distance) for distance in (self.step, -self.step)]
            changes = [(a - b) / (2 * self.step * scale) for a, b in zip(ahead, behind)]
            for gradient, weights in zip(gradients, weightings):
                gradient[place] = _weighted(changes, weights)
        return gradients


def _check_outputs(outputs: Sequence[Tensor]) -> None:
    if not outputs:
        raise GradientError("check_gradients: the function gave no outputs; return a Tensor or a tuple of Tensors")
    for index, output in enumerate(outputs):
        if output.dtype != np.float64:
            raise DTypeError(
                f"check_gradients: output {index} is {output.dtype} though the inputs are float64; "
                "differences need float64 all the way"
            )
        values = output.numpy()
        places = [tuple(place) for place in np.argwhere(~np.isfinite(values)).tolist()]
        if places:
            raise GradientError(
                f"check_gradients: output {index} at {places[0]} is {values[places[0]]}, which has no differences; "
                "choose other inputs"
            )


def _weighted(outputs: Arrays, weights: Arrays) -> float:
    return sum(float((y * w).sum()) for y, w in zip(outputs, weights))
