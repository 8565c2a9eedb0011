"""The checks of the assignment `attention`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import needle as ndl
from needle.course.checks import Check, Mistake, normal
from needle.course.differentiable import differentiable
from needle.course.evidence import Array

N, HEADS, T, DIM, FEATURES, HIDDEN = 2, 2, 4, 3, 5, 7
Q, K, V = (normal(N, HEADS, T, DIM, seed=seed) for seed in (1, 2, 3))
X = normal(N, T, FEATURES, seed=4)
W_Q, W_K, W_V = (normal(FEATURES, HEADS * DIM, seed=seed) for seed in (5, 6, 7))
W_OUT, W_1, W_2 = normal(HEADS * DIM, FEATURES, seed=8), normal(FEATURES, HIDDEN), normal(HIDDEN, FEATURES)
ALLOWED = np.tri(T, dtype=bool)  # row i: the places that i may see


def softmax(x: Array, axis: int = -1) -> Array:
    """Compute exp(x) / sum(exp(x)) over an axis."""
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def probabilities(q: Array, k: Array, allowed: Any = True, scale: float = DIM**-0.5, axis: int = -1) -> Array:
    """Compute what the values are weighted with."""
    return softmax(np.where(allowed, q @ k.swapaxes(-1, -2) * scale, -1e9), axis)


def split(x: Array) -> Array:
    """Split (N, T, HEADS * DIM) into heads."""
    return x.reshape(N, T, HEADS, DIM).swapaxes(1, 2)


def merge(x: Array) -> Array:
    """Merge the heads of (N, HEADS, T, DIM)."""
    return x.swapaxes(1, 2).reshape(N, T, HEADS * DIM)


def norm(x: Array) -> Array:
    """Normalise over the last axis."""
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def attention_layer(x: Array, allowed: Any = ALLOWED, normalise: Any = norm, weights: Any = (W_Q, W_K, W_V)) -> Array:
    """Compute the attention layer."""
    x = normalise(x)
    q, k, v = (split(x @ weight) for weight in weights)
    return merge(probabilities(q, k, allowed) @ v) @ W_OUT


def mlp(x: Array) -> Array:
    """Compute what follows the norm in the second half of the transformer layer."""
    return np.maximum(x @ W_1, 0) @ W_2


def transformer_layer(x: Array) -> Array:
    """Compute the transformer layer."""
    x = x + attention_layer(x)
    return x + mlp(norm(x))


def constant(array: Array) -> Any:
    """Make a float64 Tensor."""
    return ndl.Tensor(array, dtype="float64")


def with_weights(layer: Any) -> Any:
    """Give an attention layer its weights."""
    layer.to(dtype="float64")
    layer.q_projection.weight, layer.k_projection.weight = constant(W_Q), constant(W_K)
    layer.v_projection.weight, layer.out_projection.weight = constant(W_V), constant(W_OUT)
    return layer


def transformer_of(solution: Any) -> Any:
    """Make the solution's transformer layer, with given weights, and without biases."""
    layer = solution.TransformerLayer(FEATURES, HEADS, DIM, HIDDEN).to(dtype="float64")
    with_weights(layer.attention)
    layer.linear1.weight, layer.linear2.weight = constant(W_1), constant(W_2)
    layer.linear1.bias, layer.linear2.bias = constant(np.zeros((1, HIDDEN))), constant(np.zeros((1, FEATURES)))
    return layer


def large_softmax(solution: Any) -> Iterator[Any]:
    """Take the softmax of values whose exponential is infinite."""
    yield solution.softmax(constant(np.array([[1000.0, 1000.0], [-1000.0, -1000.0]])))


def masks(solution: Any) -> Iterator[Any]:
    """Make a mask."""
    yield np.asarray(solution.causal_mask(T, T), "float64")


def masked(allowed: Array) -> Array:
    """Make the mask that leaves these places."""
    return np.where(allowed, 0.0, -1e9)


UNSCALED = "The scores are not divided by sqrt(dim)."
SCALE = "The scores are divided by sqrt(dim), where dim is the length of one head's query: "

CHECKS = [
    differentiable(
        "softmax",
        lambda solution, x: solution.softmax(x),
        softmax,
        {"x": normal(2, 3, 3)},
        [
            Mistake("value", lambda case: softmax(case.x, 0), "The sum is over the first axis: it is over the last."),
            Mistake("value", lambda case: softmax(case.x, 1), "The sum is over axis 1: it is over the last."),
            Mistake(
                "value",
                lambda case: np.exp(case.x) / np.exp(case.x).sum(),
                "The sum is over all axes: it is over the last.",
            ),
            Mistake("value", lambda case: np.exp(case.x), "exp(x) is not divided by its sum."),
            Mistake("value", lambda case: np.log(case.value), "This is the logarithm of the softmax."),
        ],
    ),
    Check(
        "softmax of large values",
        large_softmax,
        lambda: {"value": np.full((2, 2), 0.5)},
        [
            Mistake(
                "value", np.full((2, 2), np.nan), "exp overflows: subtract the maximum, or the logsumexp, before it."
            ),
        ],
        setting="x [[1000, 1000], [-1000, -1000]]",
    ),
    Check(
        "causal_mask",
        masks,
        lambda: {"value": masked(ALLOWED)},
        [
            Mistake("value", masked(ALLOWED.T), "The mask is upside down: hidden is what comes later, j > i."),
            Mistake("value", masked(~ALLOWED), "The mask hides what may be seen, and shows what may not."),
            Mistake("value", masked(~ALLOWED.T), "A place sees itself, too: only j > i is hidden."),
            Mistake(
                "value", ALLOWED.astype(float), "The mask is added to scores: 0 where a key may be seen, -1e9 else."
            ),
        ],
        setting=f"{T} queries, {T} keys",
    ),
    differentiable(
        "attention",
        lambda solution, q, k, v: solution.attention(q, k, v)[0],
        lambda q, k, v: probabilities(q, k) @ v,
        {"q": Q, "k": K, "v": V},
        [
            Mistake("value", lambda case: probabilities(case.q, case.k, scale=1.0) @ case.v, UNSCALED),
            Mistake("value", lambda case: probabilities(case.q, case.k, scale=1 / DIM) @ case.v, f"{SCALE}not by dim."),
            Mistake(
                "value",
                lambda case: probabilities(case.q, case.k, scale=T**-0.5) @ case.v,
                f"{SCALE}not the length of the sequence.",
            ),
            Mistake(
                "value",
                lambda case: probabilities(case.q, case.k, axis=-2) @ case.v,
                "The softmax is over the wrong axis: along the last, the keys, the probabilities add up to 1.",
            ),
            Mistake(
                "value",
                lambda case: case.q @ case.k.swapaxes(-1, -2) / np.sqrt(DIM) @ case.v,
                "The softmax of the scores is missing.",
            ),
            Mistake(
                "value",
                lambda case: probabilities(case.q, case.k, ALLOWED) @ case.v,
                "The mask is for causal=True only.",
            ),
            Mistake(
                "value",
                lambda case: probabilities(case.q, case.k) @ case.k,
                "The keys are averaged: it is the values that are.",
            ),
            Mistake("value", lambda case: probabilities(case.q, case.k), "Multiply the probabilities by the values."),
        ],
        points=2,
    ),
    differentiable(
        "attention, causal",
        lambda solution, q, k, v: solution.attention(q, k, v, causal=True)[0],
        lambda q, k, v: probabilities(q, k, ALLOWED) @ v,
        {"q": Q, "k": K, "v": V},
        [
            Mistake("value", lambda case: probabilities(case.q, case.k) @ case.v, "The causal mask is missing."),
            Mistake(
                "value",
                lambda case: probabilities(case.q, case.k) * ALLOWED @ case.v,
                "The mask comes after the softmax, so that the probabilities do not add up to 1: add it to the scores.",
            ),
            Mistake(
                "value",
                lambda case: probabilities(case.q, case.k, ALLOWED.T) @ case.v,
                "The mask is upside down: a query sees earlier places, not later ones.",
            ),
        ],
        points=2,
    ),
    differentiable(
        "attention: the probabilities",
        lambda solution, q, k: solution.attention(q, k, constant(V))[1],
        lambda q, k: probabilities(q, k),
        {"q": Q, "k": K},
        [
            Mistake(
                "value",
                lambda case: case.q @ case.k.swapaxes(-1, -2) / np.sqrt(DIM),
                "These are the scores: give their softmax.",
            ),
        ],
        order=1,
    ),
    differentiable(
        "split_heads",
        lambda solution, x: solution.split_heads(x, HEADS),
        split,
        {"x": normal(N, T, HEADS * DIM)},
        [
            Mistake(
                "value",
                lambda case: case.x.reshape(N, HEADS, T, DIM),
                "A mere reshape mixes places and heads: reshape to (N, T, heads, dim), then permute.",
            ),
            Mistake(
                "value", lambda case: case.x.reshape(N, T, HEADS, DIM), "The heads come before the places: permute."
            ),
            Mistake(
                "value",
                lambda case: case.x.reshape(N, T, DIM, HEADS).transpose(0, 3, 1, 2),
                "Each head's vector is in one piece: reshape to (N, T, heads, dim), not (N, T, dim, heads).",
            ),
        ],
        order=1,
    ),
    differentiable(
        "merge_heads",
        lambda solution, x: solution.merge_heads(x),
        merge,
        {"x": Q},
        [
            Mistake(
                "value",
                lambda case: case.x.reshape(N, T, HEADS * DIM),
                "A mere reshape mixes places and heads: permute back to (N, T, heads, dim) first.",
            ),
        ],
        order=1,
    ),
    differentiable(
        "AttentionLayer",
        lambda solution, x: with_weights(solution.AttentionLayer(FEATURES, HEADS, DIM))(x),
        attention_layer,
        {"x": X},
        [
            Mistake(
                "value", lambda case: attention_layer(case.x, True), "The layer is causal: attention(..., causal=True)."
            ),
            Mistake(
                "value",
                lambda case: attention_layer(case.x, normalise=lambda x: x),
                "x is not normalised: self.norm comes first.",
            ),
            Mistake(
                "value",
                lambda case: case.x + case.value,
                "x is added: that is for the transformer layer to do.",
            ),
            Mistake(
                "value",
                lambda case: attention_layer(case.x, weights=(W_K, W_Q, W_V)),
                "Queries and keys are swapped.",
            ),
            Mistake(
                "value",
                lambda case: attention_layer(case.x, weights=(W_Q, W_K, W_K)),
                "The values are the keys: use v_projection.",
            ),
        ],
        order=1,
        points=2,
    ),
    differentiable(
        "TransformerLayer",
        lambda solution, x: transformer_of(solution)(x),
        transformer_layer,
        {"x": X},
        [
            Mistake(
                "value",
                lambda case: attention_layer(case.x) + mlp(norm(attention_layer(case.x))),
                "x + attention(x): the first residual, x, is missing.",
            ),
            Mistake(
                "value",
                lambda case: mlp(norm(case.x + attention_layer(case.x))),
                "x is not added to what the second half gives.",
            ),
            Mistake(
                "value",
                lambda case: case.x + attention_layer(case.x) + mlp(norm(case.x)),
                "The second half takes the result of the first, not x again.",
            ),
            Mistake(
                "value",
                lambda case: case.x + attention_layer(case.x) + mlp(case.x + attention_layer(case.x)),
                "The norm before linear1 is missing.",
            ),
            Mistake(
                "value",
                lambda case: case.x + attention_layer(case.x) + norm(case.x + attention_layer(case.x)) @ W_1 @ W_2,
                "The ReLU between the linear layers is missing.",
            ),
            Mistake(
                "value",
                lambda case: norm(case.x + attention_layer(case.x) + mlp(case.x + attention_layer(case.x))),
                "The norm comes first, inside the residual: x + linear2(relu(linear1(norm(x)))).",
            ),
        ],
        order=1,
        points=2,
    ),
]
