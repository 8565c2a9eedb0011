"""The checks of the assignment `recurrent_nets`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import numpy as np

import needle as ndl
from needle.course.checks import Check, Mistake, normal
from needle.course.differentiable import differentiable
from needle.course.evidence import Array

T, N, INPUT, HIDDEN = 4, 2, 3, 3
NAMES = ("W_ih", "W_hh", "bias_ih", "bias_hh")
X, STATE, CELL = normal(T, N, INPUT), normal(N, HIDDEN, seed=1), normal(N, HIDDEN, seed=2)
Weights = dict[str, Array]


def weights(gates: int, seed: int) -> Weights:
    """Make the parameters of a cell."""
    shapes = (INPUT, gates * HIDDEN), (HIDDEN, gates * HIDDEN), (gates * HIDDEN,), (gates * HIDDEN,)
    return {name: normal(*shape, seed=seed + k) for k, (name, shape) in enumerate(zip(NAMES, shapes))}


ONE, TWO, FOUR = weights(1, 10), weights(1, 20), weights(4, 30)


def cell_with(cell: Any, given: Weights) -> Any:
    """Give a cell other parameters."""
    for name, array in given.items():
        setattr(cell, name, ndl.Tensor(array, dtype="float64"))
    return cell


def linear(x: Array, h: Array, w: Weights) -> Array:
    """Compute what the functions of a cell are applied to."""
    return x @ w["W_ih"] + w["bias_ih"] + h @ w["W_hh"] + w["bias_hh"]


def rnn_step(x: Array, h: Array, w: Weights) -> Array:
    """Do a step of an RNN."""
    return np.tanh(linear(x, h, w))


def sigmoid(x: Array) -> Array:
    """Compute 1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def lstm_step(x: Array, h: Array, c: Array, order: str = "ifgo", functions: str = "sstst") -> tuple[Array, Array]:
    """Do a step of an LSTM; `functions` are those of i, f, g, o and c: s(igmoid), t(anh) or n(one)."""
    named: dict[str, Callable[[Array], Array]] = {"s": sigmoid, "t": np.tanh, "n": lambda x: x}
    parts = dict(zip(order, np.split(linear(x, h, FOUR), 4, axis=-1)))
    i, f, g, o = (named[functions[k]](parts[gate]) for k, gate in enumerate("ifgo"))
    c = f * c + i * g
    return o * named[functions[4]](c), c


def rnn(x: Array, h0: Array, carried: bool = True, stacked: bool = True) -> tuple[Array, Array]:
    """Run an RNN of two layers; give the states of the last layer, and the last states of both."""
    inputs, layers = x, []
    for w, start in zip((ONE, TWO), h0):
        h, states = start, []
        for step in inputs if stacked else x:
            h = rnn_step(step, h if carried else start, w)
            states.append(h)
        inputs = np.stack(states)
        layers.append(inputs)
    return layers[-1], np.stack([states[-1] for states in layers])


def lstm(x: Array, h: Array, c: Array, carried: bool = True) -> tuple[Array, Array, Array]:
    """Run an LSTM; give all states h, and the last h and c."""
    states, start = [], c
    for step in x:
        h, c = lstm_step(step, h, c if carried else start)
        states.append(h)
    return np.stack(states), h, c


def made(kind: str, gates: int) -> Check:
    """Make the check of what a cell draws."""

    def run(solution: Any) -> Iterator[Any]:
        cell = getattr(solution, kind)(2, 4)
        yield " ".join(sorted(name for name, _ in cell.named_parameters()))
        yield from (getattr(cell, name) for name in NAMES)

    def expected() -> dict[str, Any]:
        shapes = (2, gates * 4), (4, gates * 4), (gates * 4,), (gates * 4,)
        return {"the parameters": "W_hh W_ih bias_hh bias_ih"} | {
            name: (2 * np.random.rand(*shape) - 1) / 2 for name, shape in zip(NAMES, shapes)
        }

    by_input = Mistake(
        "W_ih",
        lambda case: case.expected * 2 / math.sqrt(2),
        "The bound is 1/sqrt(hidden_size), of all parameters; not of the input size.",
    )
    positive = Mistake(
        "W_ih",
        lambda case: case.expected / 2 + 0.25,
        "The draws are from -1/sqrt(hidden_size) on, not from 0.",
    )
    swapped = Mistake(
        "W_ih",
        np.random.RandomState(0).rand(gates * 4, 2) - 0.5,
        "W_ih has the shape (input_size, ...), since x @ W_ih is computed.",
    )
    return Check(f"{kind}: what it makes", run, expected, [by_input, positive, swapped], setting=f"{kind}(2, 4)")


def lstm_mistakes(index: int) -> list[Mistake]:
    """Give the mistakes of an LSTM's step, in h (0) or c (1)."""

    def wrong(**changes: Any) -> Callable[[Any], Any]:
        return lambda case: lstm_step(case.x, case.h, case.c, **changes)[index]

    orders = ("".join(order) for order in permutations("ifgo") if order != tuple("ifgo"))
    return [
        *(
            Mistake("value", wrong(order=order), f"The gates are in the order {', '.join(order)}: it is i, f, g, o.")
            for order in orders
        ),
        Mistake("value", wrong(functions="sssst"), "g takes the tanh, not the sigmoid."),
        Mistake("value", wrong(functions="sstsn"), "The tanh of c is missing: h = o * tanh(c)."),
        Mistake(
            "value",
            lambda case: lstm_step(case.x, case.h, case.c)[1 - index],
            "h and c are swapped: the cell gives (h, c), in that order.",
        ),
        Mistake(
            "value",
            lambda case: lstm_step(case.x, 0 * case.h, case.c)[index],
            "The state h is not used: h @ W_hh is missing.",
        ),
        Mistake("value", lambda case: lstm_step(case.x, case.h, 0 * case.c)[index], "The cell state c is not used."),
    ]


def rnn_of(solution: Any) -> Any:
    """Make the RNN of the solution, with given parameters."""
    layer = solution.RNN(INPUT, HIDDEN, 2)
    for cell, given in zip(layer.rnn_cells, (ONE, TWO)):
        cell_with(cell, given)
    return layer


def lstm_of(solution: Any) -> Any:
    """Make the LSTM of the solution, with given parameters."""
    layer = solution.LSTM(INPUT, HIDDEN)
    cell_with(layer.lstm_cell, FOUR)
    return layer


def detached_states(solution: Any) -> Iterator[Any]:
    """Detach a state, and a pair of states."""
    h = ndl.Tensor(STATE, dtype="float64") * 1
    alone = solution.detached(h)
    yield alone
    yield "a graph" if alone.requires_grad or alone.op else "no graph"
    pair = solution.detached((h, h * 2))
    yield f"{type(pair).__name__} of {len(pair)}"
    yield "a graph" if any(part.requires_grad or part.op for part in pair) else "no graph"
    yield pair[1]


NOT_CARRIED = "The state is not carried on: each step takes the state that the step before it gave."
GRAPH_KEPT = "The graph of the piece before is kept: detach every Tensor of the state."
H0 = normal(2, N, HIDDEN, seed=3)

CHECKS = [
    made("RNNCell", 1),
    differentiable(
        "RNNCell",
        lambda solution, x, h: cell_with(solution.RNNCell(INPUT, HIDDEN), ONE)(x, h),
        lambda x, h: rnn_step(x, h, ONE),
        {"x": X[0], "h": STATE},
        [
            Mistake("value", lambda case: linear(case.x, case.h, ONE), "The tanh is missing."),
            Mistake(
                "value", lambda case: np.maximum(linear(case.x, case.h, ONE), 0), "The function is tanh, not ReLU."
            ),
            Mistake("value", lambda case: rnn_step(case.x, 0 * case.h, ONE), "h is not used: h @ W_hh is missing."),
            Mistake(
                "value",
                lambda case: np.tanh(linear(case.x, case.h, ONE) - ONE["bias_hh"]),
                "bias_hh is not added.",
            ),
            Mistake(
                "value",
                lambda case: np.tanh(case.x @ ONE["W_hh"] + case.h @ ONE["W_ih"] + ONE["bias_ih"] + ONE["bias_hh"]),
                "W_ih and W_hh are swapped: x @ W_ih + h @ W_hh.",
            ),
        ],
    ),
    differentiable(
        "RNNCell without a state",
        lambda solution, x: cell_with(solution.RNNCell(INPUT, HIDDEN), ONE)(x),
        lambda x: rnn_step(x, 0 * STATE, ONE),
        {"x": X[0]},
        [
            Mistake(
                "value",
                lambda case: rnn_step(case.x, 0 * STATE + 1, ONE),
                "A state that is not given is zeros, not ones.",
            )
        ],
    ),
    differentiable(
        "RNN of two layers: the output",
        lambda solution, x, h0: rnn_of(solution)(x, h0)[0],
        lambda x, h0: rnn(x, h0)[0],
        {"x": X, "h0": H0},
        [
            Mistake("value", lambda case: rnn(case.x, case.h0, carried=False)[0], NOT_CARRIED),
            Mistake(
                "value",
                lambda case: rnn(case.x, case.h0, stacked=False)[0],
                "Every layer reads X: from the second on they read the states of the layer below.",
            ),
            Mistake("value", lambda case: case.value[::-1], "The states are in reverse order of time."),
            Mistake("value", lambda case: case.value[-1], "This is the last state: the output has those of all times."),
            Mistake("value", lambda case: rnn(case.x, 0 * case.h0)[0], "h0 is not used."),
            Mistake(
                "value", lambda case: case.value.swapaxes(0, 1), "The states are stacked along axis 1: time is axis 0."
            ),
        ],
        points=2,
    ),
    differentiable(
        "RNN of two layers: the last states",
        lambda solution, x, h0: rnn_of(solution)(x, h0)[1],
        lambda x, h0: rnn(x, h0)[1],
        {"x": X, "h0": H0},
        [
            Mistake(
                "value", lambda case: case.value[-1], "This is the last layer's: give the last state of every layer."
            ),
            Mistake("value", lambda case: case.h0, "This is h0: give the states after the last step."),
        ],
    ),
    made("LSTMCell", 4),
    differentiable(
        "LSTMCell: h",
        lambda solution, x, h, c: cell_with(solution.LSTMCell(INPUT, HIDDEN), FOUR)(x, (h, c))[0],
        lambda x, h, c: lstm_step(x, h, c)[0],
        {"x": X[0], "h": STATE, "c": CELL},
        lstm_mistakes(0),
        points=2,
    ),
    differentiable(
        "LSTMCell: c",
        lambda solution, x, h, c: cell_with(solution.LSTMCell(INPUT, HIDDEN), FOUR)(x, (h, c))[1],
        lambda x, h, c: lstm_step(x, h, c)[1],
        {"x": X[0], "h": STATE, "c": CELL},
    ),
    differentiable(
        "LSTM: the output",
        lambda solution, x, h, c: lstm_of(solution)(x, (h, c))[0],
        lambda x, h, c: lstm(x, h, c)[0],
        {"x": X, "h": STATE, "c": CELL},
        [
            Mistake("value", lambda case: lstm(case.x, case.h, case.c, carried=False)[0], NOT_CARRIED),
            Mistake(
                "value",
                lambda case: np.stack([lstm_step(x, case.h, case.c)[0] for x in case.x]),
                NOT_CARRIED,
            ),
            Mistake("value", lambda case: lstm(case.x, 0 * case.h, 0 * case.c)[0], "The given state is not used."),
            Mistake("value", lambda case: case.value[-1], "This is the last state: the output has those of all times."),
        ],
        points=2,
    ),
    differentiable(
        "LSTM without a state: the last c",
        lambda solution, x: lstm_of(solution)(x)[1][1],
        lambda x: lstm(x, 0 * STATE, 0 * CELL)[2],
        {"x": X},
        [
            Mistake(
                "value",
                lambda case: lstm(case.x, 0 * STATE, 0 * CELL)[1],
                "h and c are swapped: the last state is (h, c), in that order.",
            )
        ],
    ),
    Check(
        "detached",
        detached_states,
        lambda: {
            "a state": STATE,
            "its graph": "no graph",
            "a pair of states": "tuple of 2",
            "the graph of a pair": "no graph",
            "the second of a pair": 2 * STATE,
        },
        [
            Mistake("its graph", "a graph", GRAPH_KEPT),
            Mistake("the graph of a pair", "a graph", GRAPH_KEPT),
            Mistake("a state", 0 * STATE, "The state is thrown away: keep its values, they are carried on."),
            Mistake("the second of a pair", STATE, "The second of the pair is c, and not h again."),
        ],
    ),
]
