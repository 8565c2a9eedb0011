"""The checks of the assignment `autograd_basics`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import needle as ndl
from needle.course.checks import Check, Mistake, normal
from needle.course.differentiable import differentiable

POSITIVE = 0.5 + np.abs(normal(2, 3, seed=2))


def logsumexp(a: Any, axes: Any = None) -> Any:
    """Compute log(sum(exp(a))) of values that do not overflow."""
    return np.log(np.exp(a).sum(axes))


def large_logsumexp(solution: Any) -> Iterator[Any]:
    """Take the logsumexp of values whose exponential is infinite."""
    yield solution.LogSumExp((1,))(ndl.Tensor([[1000.0, 1000.0], [-1000.0, -1000.0]], dtype="float64"))


def order_of_nodes(solution: Any) -> Iterator[Any]:
    """Name the nodes of c = a * b, d = c + b in the order that the solution finds."""
    a, b = ndl.Tensor([2.0]), ndl.Tensor([3.0])
    c = a * b
    d = c + b
    names = {a: "a", b: "b", c: "c", d: "d"}
    yield " ".join(names[node] for node in solution.find_topo_sort([d]))


def gradients_of_variables(solution: Any) -> Iterator[Any]:
    """Differentiate x * y + exp(x) + x, with 10 as the gradient of the output."""
    x, y = ndl.Tensor([2.0, 0.0], dtype="float64"), ndl.Tensor([3.0, 5.0], dtype="float64")
    output = x * y + ndl.exp(x) + x
    solution.compute_gradient_of_variables(output, ndl.Tensor([10.0, 10.0], dtype="float64"))
    yield y.grad
    yield x.grad


CHECKS = [
    differentiable(
        "EWiseDiv",
        lambda solution, a, b: solution.EWiseDiv()(a, b),
        lambda a, b: a / b,
        {"a": normal(2, 3), "b": POSITIVE},
        [
            Mistake("value", lambda case: case.b / case.a, "The operands are swapped: a is divided by b."),
            Mistake(
                "gradient of b",
                lambda case: -case.out_grad * case.a / case.b,
                "The derivative of a / b in b is -a / b**2: b is there squared.",
            ),
            Mistake(
                "gradient of b",
                lambda case: case.out_grad * case.a / case.b**2,
                "The minus sign is missing: the derivative of a / b in b is -a / b**2.",
            ),
            Mistake(
                "gradient of a",
                lambda case: -case.out_grad * case.a / case.b**2,
                "The gradients are in the wrong order: that of a comes first, as in node.inputs.",
            ),
        ],
    ),
    differentiable(
        "PowerScalar",
        lambda solution, a: solution.PowerScalar(3.0)(a),
        lambda a: a**3,
        {"a": POSITIVE},
        [
            Mistake(
                "gradient of a",
                lambda case: case.out_grad * 3 * case.a**3,
                "The exponent of the derivative is scalar - 1: n * a ** (n - 1).",
            ),
            Mistake(
                "gradient of a",
                lambda case: case.out_grad * case.a**2,
                "The factor in front is missing: the derivative is n * a ** (n - 1).",
            ),
        ],
    ),
    differentiable(
        "ReLU",
        lambda solution, a: solution.ReLU()(a),
        lambda a: np.maximum(a, 0),
        {"a": normal(3, 4)},
        [
            Mistake(
                "gradient of a",
                lambda case: case.out_grad,
                "Where a is below 0, the output does not depend on it: the mask a > 0 is missing.",
            ),
            Mistake(
                "gradient of a",
                lambda case: np.maximum(case.out_grad, 0),
                "The mask is of the wrong values: it says where the input a is above 0, not where out_grad is.",
            ),
        ],
    ),
    differentiable(
        "Summation over some axes",
        lambda solution, a: solution.Summation((0, 2))(a),
        lambda a: a.sum((0, 2)),
        {"a": normal(3, 3, 3)},
        [
            Mistake(
                "value",
                lambda case: case.a.sum((0, 2), keepdims=True),
                "The axes that are summed vanish from the result: no keepdims.",
            ),
            Mistake(
                "gradient of a",
                lambda case: case.out_grad,
                "The gradient has the shape of the input: broadcast out_grad along the axes that were summed.",
            ),
            Mistake(
                "gradient of a",
                lambda case: np.broadcast_to(case.out_grad, case.a.shape),
                "out_grad is broadcast along the wrong axes: reshape it first, with 1 for every axis that was summed.",
            ),
        ],
    ),
    differentiable(
        "Summation over all axes",
        lambda solution, a: solution.Summation()(a),
        lambda a: a.sum(),
        {"a": normal(2, 3)},
    ),
    differentiable(
        "BroadcastTo",
        lambda solution, a: solution.BroadcastTo((2, 3, 4))(a),
        lambda a: np.broadcast_to(a, (2, 3, 4)),
        {"a": normal(3, 1)},
        [
            Mistake(
                "gradient of a",
                lambda case: case.out_grad.sum(0),
                "The sum over the broadcast axes of length 1 is missing: only the new axes in front are summed.",
            ),
            Mistake(
                "gradient of a",
                lambda case: case.out_grad.mean((0, 2), keepdims=True)[0],
                "The gradients of the copies are added up, not averaged.",
            ),
        ],
    ),
    differentiable(
        "MatMul of square matrices",
        lambda solution, a, b: solution.MatMul()(a, b),
        lambda a, b: a @ b,
        {"a": normal(3, 3), "b": normal(3, 3, seed=1)},
        [
            Mistake(
                "gradient of a",
                lambda case: case.out_grad @ case.b,
                "The transposition is missing: the gradient of a is out_grad @ b^T.",
            ),
            Mistake(
                "gradient of b",
                lambda case: case.a @ case.out_grad,
                "The transposition is missing: the gradient of b is a^T @ out_grad.",
            ),
            Mistake(
                "gradient of b",
                lambda case: case.out_grad @ case.a.T,
                "The factors are in the wrong order: the gradient of b is a^T @ out_grad.",
            ),
        ],
    ),
    differentiable(
        "MatMul with leading axes that broadcast",
        lambda solution, a, b: solution.MatMul()(a, b),
        lambda a, b: a @ b,
        {"a": normal(2, 1, 2, 3), "b": normal(4, 3, 2)},
        points=2,
    ),
    differentiable(
        "LogSumExp",
        lambda solution, a: solution.LogSumExp((0, 2))(a),
        lambda a: logsumexp(a, (0, 2)),
        {"a": normal(2, 3, 4)},
        [
            Mistake(
                "value",
                lambda case: case.value - case.a.max((0, 2)),
                "The maximum that was subtracted is not added back.",
            ),
            Mistake("value", lambda case: np.exp(case.value), "The logarithm is missing."),
            Mistake(
                "gradient of a",
                lambda case: case.out_grad[:, None] * np.exp(case.a),
                "exp(a) is not divided by its sum: the derivative is the softmax, exp(a - logsumexp(a)).",
            ),
        ],
        points=2,
    ),
    Check(
        "LogSumExp of large values",
        large_logsumexp,
        lambda: {"value": np.array([1000, -1000]) + np.log(2)},
        [
            Mistake(
                "value",
                np.array([np.inf, -np.inf]),
                "exp overflows: subtract the maximum before it, and add it back after the logarithm.",
            ),
        ],
        setting="a [[1000, 1000], [-1000, -1000]], axes (1,)",
    ),
    Check(
        "find_topo_sort",
        order_of_nodes,
        lambda: {"the order": "a b c d"},
        [
            Mistake("the order", "d c b a", "The order is reversed: a node comes after its inputs."),
            Mistake("the order", "d c a b", "A node comes after its inputs: append it when they are done."),
            Mistake("the order", "b a c d", "The inputs are taken from the last to the first."),
            Mistake("the order", "a b c b d", "A node comes more than once: remember which were visited."),
        ],
        setting="of d, where c = a * b and d = c + b",
    ),
    Check(
        "compute_gradient_of_variables",
        gradients_of_variables,
        lambda: {
            "gradient of y": np.array([20.0, 0.0]),
            "gradient of x": 10 * (np.array([3.0, 5.0]) + np.exp([2.0, 0.0]) + 1),
        },
        [
            Mistake(
                "gradient of y",
                np.array([2.0, 0.0]),
                "The given out_grad is not used: it is the gradient of the output itself.",
            ),
            *(
                Mistake(
                    "gradient of x",
                    10 * last,
                    "x is used several times, and only one of its gradients is there: add them up.",
                )
                for last in (np.array([3.0, 5.0]), np.exp([2.0, 0.0]), np.ones(2))
            ),
        ],
        setting="of x * y + exp(x) + x",
        points=2,
    ),
]
