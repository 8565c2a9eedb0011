"""The checks of the assignment `nn_and_optimizers`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import needle as ndl
from needle.course.checks import Check, Mistake, normal
from needle.course.differentiable import differentiable
from needle.course.evidence import Array

N, DIM, EPS = 5, 3, 0.5  # such an eps shows where it is added
X, WEIGHT, BIAS = normal(N, DIM), normal(DIM, seed=1), normal(DIM, seed=2)
LABELS = [2, 0, 1, 2, 2]
UNWRAPPED = "What a layer learns is wrapped in nn.Parameter and set as an attribute, or parameters() does not find it."


# Layers


def with_parameters(layer: Any, weight: Any, bias: Any) -> Any:
    """Give the layer other parameters."""
    layer.weight, layer.bias = weight, bias
    return layer


def made_linear(solution: Any) -> Iterator[Any]:
    """Make a linear layer, and look at what it has drawn."""
    layer = solution.Linear(4, 3)
    yield " ".join(sorted(name for name, _ in layer.named_parameters()))
    yield layer.weight
    yield layer.bias


def drawn(*shape: int, fan_in: int) -> Array:
    """Draw by Kaiming's uniform rule."""
    bound = math.sqrt(6 / fan_in)
    return np.random.rand(*shape) * 2 * bound - bound


def normalised(x: Array, weight: Array, bias: Array, axis: int, *, eps: float = EPS, ddof: int = 0) -> Array:
    """Normalise along an axis."""
    variance = x.var(axis, keepdims=True, ddof=ddof)
    return weight * (x - x.mean(axis, keepdims=True)) / np.sqrt(variance + eps) + bias


def norm_mistakes(axis: int, others: str) -> list[Mistake]:
    """Give the mistakes that layer norm and batch norm share."""

    def wrong(**changes: Any) -> Callable[[Any], Any]:
        return lambda case: normalised(
            **{"x": case.x, "weight": case.weight, "bias": case.bias, "axis": axis} | changes
        )

    def outside(case: Any) -> Array:
        deviation = case.x.std(axis, keepdims=True) + EPS
        return case.weight * (case.x - case.x.mean(axis, keepdims=True)) / deviation + case.bias

    return [
        Mistake("value", wrong(ddof=1), "The variance is divided by N - 1: divide by N."),
        Mistake("value", outside, "eps is added to the root: it belongs under it, sqrt(variance + eps)."),
        Mistake("value", wrong(axis=1 - axis), f"The statistics are taken over the wrong axis: take each {others}."),
        Mistake("value", wrong(eps=0.0), "eps is not added to the variance."),
        Mistake("value", wrong(weight=1.0, bias=0.0), "weight and bias are not used."),
        Mistake(
            "value",
            lambda case: case.weight * (case.x - case.x.mean(axis, keepdims=True)) + case.bias,
            "The division by the deviation is missing.",
        ),
    ]


def running_statistics(solution: Any) -> Iterator[Any]:
    """Train on one batch, and then evaluate."""
    layer = solution.BatchNorm1d(DIM, eps=EPS, momentum=0.1)
    yield " ".join(sorted(name for name, _ in layer.named_parameters()))
    layer(ndl.Tensor(X, dtype="float64"))
    yield layer.running_mean
    yield layer.running_var
    yield "a graph" if layer.running_mean.requires_grad else "no graph"
    layer.eval()
    layer.running_mean, layer.running_var = ndl.Tensor(WEIGHT), ndl.Tensor(WEIGHT**2)
    yield layer(ndl.Tensor(X, dtype="float64"))
    yield layer.running_mean


def kept(p: float) -> Array:
    """Draw a mask as the check does."""
    return np.random.RandomState(0).rand(N, DIM) <= p


def dropped(solution: Any) -> Iterator[Any]:
    """Drop elements in training, and in evaluation."""
    layer, x = solution.Dropout(0.25), ndl.Tensor(X, dtype="float64")
    yield layer(x)
    layer.eval()
    yield layer(x)


def softmax_loss(logits: Array) -> Any:
    """Compute the loss from the formula."""
    return np.mean(np.log(np.exp(logits).sum(1)) - logits[range(N), LABELS])


# Optimizers

START = normal(4)
GRADIENTS = [normal(4, seed=seed) for seed in (1, 2, 3)]
PATH = "the parameter after each step"
Rule = Callable[[Array, Array, dict[str, Any], int], Array]


def path(rule: Rule) -> Array:
    """Give the parameter after each step of a rule, which takes (p, gradient, state, t) and gives the new p."""
    p, state, found = START, dict[str, Any](), []
    with np.errstate(invalid="ignore"):  # wrong rules may take the root of a negative number
        for t, gradient in enumerate(GRADIENTS, 1):
            p = rule(p, gradient, state, t)
            found.append(p)
    return np.stack(found)


def sgd(p: Array, g: Array, state: dict[str, Any], t: int, *, dampened: bool = True, decay: float = 0.1) -> Array:
    """Do a step of SGD."""
    g = g + decay * p
    state["u"] = 0.9 * state.get("u", 0) + (0.1 if dampened else 1) * g
    return p - 0.5 * state["u"]


def adam(
    p: Array,
    g: Array,
    state: dict[str, Any],
    t: int,
    *,
    corrected: bool = True,
    inside: bool = False,
    power: int = 2,
    decay: float = 0.1,
) -> Array:
    """Do a step of Adam."""
    g = g + decay * p
    state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
    state["v"] = 0.99 * state.get("v", 0) + 0.01 * g**power
    m, v = (state["m"] / (1 - 0.9**t), state["v"] / (1 - 0.99**t)) if corrected else (state["m"], state["v"])
    return p - 0.5 * m / (np.sqrt(v + EPS) if inside else np.sqrt(v) + EPS)


def along(wrong: Rule, hint: str) -> Mistake:
    """Make a mistake of a wrong rule."""
    return Mistake(PATH, path(wrong), hint)


def steps(make: Callable[[Any, list[Any]], Any]) -> Callable[[Any], Iterator[Any]]:
    """Do the steps with an optimizer of the solution, over a parameter with gradients and one without."""

    def run(solution: Any) -> Iterator[Any]:
        p, idle = (ndl.nn.Parameter(ndl.Tensor(START, dtype="float64")) for _ in range(2))
        optimizer = make(solution, [p, idle])
        found = []
        for gradient in GRADIENTS:
            p.grad = ndl.Tensor(gradient, dtype="float64")
            optimizer.step()
            found.append(p.numpy())
        yield np.stack(found)
        yield p.grad
        yield idle
        yield "a leaf" if p.is_leaf() and p.requires_grad else "the result of an op"

    return run


def after_steps(rule: Rule) -> Callable[[], dict[str, Any]]:
    """Give what the steps should lead to."""
    return lambda: {
        PATH: path(rule),
        "the gradient after the steps": GRADIENTS[-1],
        "a parameter without gradient": START,
        "the parameter": "a leaf",
    }


def changed_gradient(rule: Rule) -> Mistake:
    """Give the mistake of adding the weight decay to the gradient itself."""
    changed = GRADIENTS[-1] + 0.1 * path(rule)[-2]
    hint = "The step changes the gradient: add the weight decay to a copy."
    return Mistake("the gradient after the steps", changed, hint)


def ascent(rule: Rule) -> Rule:
    """Turn a rule around."""
    return lambda p, g, state, t: 2 * p - rule(p, g, state, t)


NO_DECAY = "weight_decay * p is not added to the gradient."
UPHILL = "The step goes uphill: p - lr * ..., against the gradient."

CHECKS = [
    Check(
        "Linear: what it makes",
        made_linear,
        lambda: {
            "the parameters": "bias weight",
            "weight": drawn(4, 3, fan_in=4),
            "bias": drawn(1, 3, fan_in=3),
        },
        [
            *(Mistake("the parameters", found, UNWRAPPED) for found in ("", "weight", "bias")),
            Mistake(
                "weight",
                np.random.RandomState(0).rand(3, 4) * 2 * math.sqrt(2) - math.sqrt(2),
                "The weight has the shape (in_features, out_features), in that order.",
            ),
            Mistake("bias", lambda case: case.expected.T, "The bias has the shape (1, out_features): reshape it."),
        ],
        setting="Linear(4, 3)",
    ),
    differentiable(
        "Linear: forward",
        lambda solution, x, weight, bias: with_parameters(solution.Linear(3, 2), weight, bias)(x),
        lambda x, weight, bias: x @ weight + bias,
        {"x": X, "weight": normal(3, 2), "bias": normal(1, 2)},
        [Mistake("value", lambda case: case.x @ case.weight, "The bias is not added.")],
    ),
    differentiable(
        "LayerNorm1d",
        lambda solution, x, weight, bias: with_parameters(solution.LayerNorm1d(DIM, EPS), weight, bias)(x),
        lambda x, weight, bias: normalised(x, weight, bias, 1),
        {"x": X, "weight": WEIGHT, "bias": BIAS},
        norm_mistakes(1, "row, over axis 1"),
    ),
    differentiable(
        "BatchNorm1d in training",
        lambda solution, x, weight, bias: with_parameters(solution.BatchNorm1d(DIM, EPS), weight, bias)(x),
        lambda x, weight, bias: normalised(x, weight, bias, 0),
        {"x": X, "weight": WEIGHT, "bias": BIAS},
        norm_mistakes(0, "column, over axis 0"),
        points=2,
    ),
    Check(
        "BatchNorm1d: running statistics, and evaluation",
        running_statistics,
        lambda: {
            "the parameters": "bias weight",
            "running_mean after a batch": 0.1 * X.mean(0),
            "running_var after a batch": 0.9 + 0.1 * X.var(0),
            "running_mean": "no graph",
            "value in evaluation": (X - WEIGHT) / np.sqrt(WEIGHT**2 + EPS),
            "running_mean after evaluation": WEIGHT,
        },
        [
            Mistake("the parameters", "bias running_mean running_var weight", "Running statistics are not learned."),
            Mistake("the parameters", "", UNWRAPPED),
            Mistake(
                "running_mean after a batch",
                0.9 * X.mean(0),
                "The momentum is at the wrong place: running = (1 - momentum) * running + momentum * batch.",
            ),
            Mistake("running_mean after a batch", np.zeros(DIM), "The running statistics do not move in training."),
            Mistake(
                "running_var after a batch",
                0.9 + 0.1 * X.var(0, ddof=1),
                "The running variance is of that divided by N - 1: the variance here is divided by N.",
            ),
            Mistake("running_var after a batch", np.ones(DIM), "running_var does not move in training."),
            Mistake(
                "running_mean",
                "a graph",
                "The running statistics keep the graphs of all batches alive: detach the batch's.",
            ),
            Mistake(
                "value in evaluation",
                normalised(X, np.ones(DIM), np.zeros(DIM), 0),
                "In evaluation the running statistics are used, not those of the batch: look at self.training.",
            ),
            Mistake(
                "running_mean after evaluation",
                0.9 * WEIGHT + 0.1 * X.mean(0),
                "The running statistics move in evaluation: they do so in training only.",
            ),
        ],
        setting=f"x {X.shape}, eps {EPS}, momentum 0.1",
    ),
    Check(
        "Dropout",
        dropped,
        lambda: {"value in training": X * kept(0.75) / 0.75, "value in evaluation": X},
        [
            Mistake(
                "value in training",
                X * kept(0.75),
                "What is kept is not scaled: multiply by 1 / (1 - p), so that the mean stays.",
            ),
            Mistake("value in training", X * kept(0.75) / 0.25, "The scale is 1 / (1 - p), not 1 / p."),
            *(
                Mistake("value in training", wrong, "p is the probability to be dropped: keep with 1 - p.")
                for wrong in (
                    X * kept(0.25) / 0.25,
                    X * kept(0.25) / 0.75,
                    X * kept(0.25),
                )
            ),
            Mistake("value in training", X, "Nothing is dropped in training."),
            *(
                Mistake(
                    "value in evaluation", wrong, "In evaluation nothing is dropped or scaled: look at self.training."
                )
                for wrong in (
                    lambda case: X * (np.random.RandomState(0).rand(2, N, DIM)[1] <= 0.75) / 0.75,
                    X * 0.75,
                )
            ),
        ],
        setting=f"p 0.25, x {X.shape}",
    ),
    differentiable(
        "SoftmaxLoss",
        lambda solution, logits: solution.SoftmaxLoss()(logits, ndl.Tensor(LABELS, requires_grad=False)),
        softmax_loss,
        {"logits": X},
        [
            Mistake("value", lambda case: N * case.value, "The loss is the mean over the batch, not the sum."),
            Mistake(
                "value", lambda case: N * case.value / DIM, "The loss is divided by the number of classes, not of rows."
            ),
            Mistake("value", lambda case: -case.value, "The sign is turned: logsumexp(logits) - logits[label]."),
            Mistake("value", -X[range(N), LABELS].mean(), "logsumexp(logits) is missing."),
        ],
    ),
    Check(
        "SGD",
        steps(lambda solution, params: solution.SGD(params, lr=0.5, momentum=0.9, weight_decay=0.1)),
        after_steps(sgd),
        [
            along(
                lambda *row: sgd(*row, dampened=False),
                "u takes the whole gradient, as in PyTorch: here it takes (1 - momentum) * g.",
            ),
            along(lambda *row: sgd(*row, decay=0.0), NO_DECAY),
            along(ascent(sgd), UPHILL),
            along(lambda p, g, state, t: sgd(p, g, {}, t), "u is not kept from one step to the next."),
            along(lambda p, g, state, t: p - 0.5 * (g + 0.1 * p), "The momentum is not used."),
            changed_gradient(sgd),
        ],
        setting="lr 0.5, momentum 0.9, weight_decay 0.1, given gradients",
    ),
    Check(
        "Adam",
        steps(lambda solution, params: solution.Adam(params, lr=0.5, beta1=0.9, beta2=0.99, eps=EPS, weight_decay=0.1)),
        after_steps(adam),
        [
            along(
                lambda *row: adam(*row, corrected=False),
                "The bias correction is missing: divide m by 1 - beta1**t and v by 1 - beta2**t.",
            ),
            along(lambda *row: adam(*row, inside=True), "eps is under the root: it is added to it, sqrt(v) + eps."),
            along(lambda *row: adam(*row, power=1), "v is a mean of squares: g is not squared."),
            along(lambda *row: adam(*row, decay=0.0), NO_DECAY),
            along(ascent(adam), UPHILL),
            along(
                lambda p, g, state, t: adam(p, g, state, 1),
                "t stays 1: it counts the steps, and goes up by one before the update.",
            ),
            changed_gradient(adam),
        ],
        setting=f"lr 0.5, beta1 0.9, beta2 0.99, eps {EPS}, weight_decay 0.1, given gradients",
        points=2,
    ),
]
