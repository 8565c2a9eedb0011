"""Gradient checks for users and graders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from needle.autograd import Tensor, Value
from needle.backend_ndarray import BackendDevice
from needle.errors import DTypeError, GradientError, OptionError
from needle.ops.arguments import integer, not_negative, number, tensor
from needle.ops.tuples import TupleGetItem
from needle.testing.compare import find_wrong
from needle.testing.differences import Function, Tolerance, WeightedSum
from needle.testing.locate import first_wrong_op
from needle.testing.report import WrongGradient


def check_gradients(
    fn: Function,
    inputs: Tensor | Sequence[Tensor],
    *,
    order: int = 2,
    step: float = 1e-6,
    rtol: float = 1e-5,
    atol: float = 1e-6,
    seed: int = 0,
    locate: bool = False,
) -> None:
    """Check the gradients of `fn(*inputs)`, and the gradients of those up to `order`, by central differences.

    The outputs are summed with random weights to one number f. Along a random direction v, the graph's slope
    <grad f, v> must equal (f(x + step * v) - f(x - step * v)) / (2 * step). Where it does not, the elements are
    compared one by one, which decides, and what their pattern suggests is said: a factor, a sign, a missing sum, a
    transposed block, a border, and so on.

    Args:
        fn: takes Tensors, gives a Tensor or a tuple of them; the same result at each call.
        inputs: float64 Tensors. Those with `requires_grad` False are passed on as they are.
        order: 1 checks the gradients, 2 also their gradients, and so on.
        step: of the differences; times the largest |x| of an input where that is above 1.
        rtol, atol: |got - expected| <= atol + rtol * |expected|.
        seed: of the weights and directions; NumPy's global generator is left alone.
        locate: where a gradient is wrong, check each op of the graph by itself, inputs first, and name the first one
            whose own gradient is wrong, and the line that called it.

    Raises:
        DTypeError: an input is no Tensor, or it or an output is not float64; differences in float32, which has seven
            digits, pass or fail by luck.
        WrongGradient: a GradientError that names the op, the order, the input, the index, got and expected.
        ShapeError, OptionError: an order below 1, a step or a tolerance out of range.
        GradientError: the function has a kink or a tie at these inputs (it names them), or is not finite, or gives
            another value at each call, or no input requires a gradient.

    >>> import needle as ndl
    >>> check_gradients(lambda x, y: x * y.exp(), [ndl.Tensor([1.0, 2.0], dtype="float64") for _ in range(2)])
    >>> class Square(ndl.TensorOp):
    ...     def compute(self, a):
    ...         return a * a
    ...     def gradient(self, out_grad, node):
    ...         return out_grad * node.inputs[0]
    >>> check_gradients(Square(), ndl.Tensor([1.0, 2.0, 3.0], dtype="float64"))
    Traceback (most recent call last):
    ...
    needle.testing.report.WrongGradient: check_gradients: Square: wrong gradient of input 0 at (2,) (order 1): got 3,
    expected 6 by central differences, relative error 0.5; every element is wrong: 1/2 times what is expected (a factor
    is missing, or stands twice)
    """
    inputs = _listed(inputs)
    _check_inputs(inputs)
    _check_options(order, step, rtol, atol)
    generator, tolerance = np.random.default_rng(seed), Tolerance(rtol, atol)
    levels: list[WeightedSum] = []
    for level in range(1, order + 1):
        levels.append(WeightedSum(levels[-1].gradient if levels else fn, inputs, step, generator))
        finding = find_wrong(levels[-1], _name(levels[0]), level, tolerance)
        if finding is not None:
            verdict, culprit = first_wrong_op(levels, tolerance) if locate else ("", None)
            raise WrongGradient(finding, verdict, culprit)


def assert_gradients(
    fn: Function,
    inputs: Any,
    *,
    device: BackendDevice | None = None,
    locate: bool = True,
    **options: Any,
) -> None:
    """Assert that `check_gradients` finds nothing wrong; for graders, with or without a test framework.

    Args:
        fn: as for `check_gradients`.
        inputs: a Tensor or an ndarray, or a sequence of them. Floats are made float64, and the gradients for them
            checked, unless a Tensor has `requires_grad` False; whole numbers, such as labels, are passed on.
        device: of what is made of ndarrays.
        locate: name the first op whose own gradient is wrong.
        options: as for `check_gradients`.

    Raises AssertionError with check_gradients' report, whose cause is the GradientError.

    >>> import needle as ndl
    >>> assert_gradients(ndl.ops.matmul, [np.eye(3), np.ones((3, 2))])
    >>> assert_gradients(lambda x: x * x.detach(), np.ones(2), order=1)
    Traceback (most recent call last):
    ...
    AssertionError: check_gradients: EWiseMul: wrong gradient of input 0 at (0,) (order 1): got 1, expected 2 ...
    each of the 1 ops by itself has a right gradient: look for a path that is cut (detach, .data, numpy()), ...
    """
    try:
        check_gradients(fn, [_as_leaf(x, device) for x in _listed(inputs)], locate=locate, **options)
    except GradientError as error:
        raise AssertionError(str(error)) from error


def _listed(inputs: Any) -> list[Any]:
    return list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]


def _check_options(order: int, step: float, rtol: float, atol: float) -> None:
    name = "check_gradients"
    integer(name, "order", order, 1)
    if not 0 < number(name, "step", step) < np.inf:
        raise OptionError(f"{name}: step must be above 0 and finite, got {step}")
    not_negative(name, "rtol", rtol)
    not_negative(name, "atol", atol)


def _check_inputs(inputs: Sequence[Any]) -> None:
    checked = [index for index, x in enumerate(inputs) if tensor("check_gradients", x, f"input {index}").requires_grad]
    if not checked:
        raise GradientError("check_gradients: no input requires a gradient; make one with requires_grad=True")
    for index in checked:
        twin = next(other for other, x in enumerate(inputs) if x is inputs[index])
        if twin != index:
            raise GradientError(
                f"check_gradients: inputs {twin} and {index} are one Tensor, whose gradients add up; give each its own"
            )
        if inputs[index].dtype != np.float64:
            raise DTypeError(
                f"check_gradients: input {index} is {inputs[index].dtype}; differences need float64, make it with "
                'dtype="float64"'
            )


def _as_leaf(value: Any, device: BackendDevice | None) -> Tensor:
    array = value if isinstance(value, Tensor) else np.asarray(value)
    if array.dtype.kind != "f":
        return Tensor(array, dtype=array.dtype, device=device, requires_grad=False)
    return Tensor(array, dtype="float64", device=device, requires_grad=getattr(value, "requires_grad", True))


def _name(f: WeightedSum) -> str:
    """Name what is checked: the op, where there is one only, else the one that the graph ends in."""
    node: Value = f.outputs(*f.inputs)[0]
    while isinstance(node.op, TupleGetItem):
        (node,) = node.inputs
    if node.op is None:
        return "a function without a graph"
    name = type(node.op).__name__
    return name if all(value.op is None for value in node.inputs) else f"a graph that ends in {name}"
