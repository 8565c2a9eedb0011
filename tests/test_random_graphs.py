"""Graphs that hypothesis draws: against central differences and PyTorch, to second order, and deferred."""

from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import needle as ndl
from needle import Tensor, autograd, ops
from needle.testing import check_gradients
from tests.devices import DEVICES
from tests.ops.parity import assert_same_as_torch

SIDE = 3  # every node is a matrix of 3 by 3, so that any op takes any node


class Step(NamedTuple):
    """An op on nodes, and PyTorch's."""

    count: int
    function: Callable[..., Tensor]
    torch: Callable[..., Any]


STEPS = {
    "add": Step(2, lambda a, b: a + b, lambda torch, a, b: a + b),
    "sub": Step(2, lambda a, b: a - b, lambda torch, a, b: a - b),
    "multiply": Step(2, lambda a, b: a * b, lambda torch, a, b: a * b),
    "divide": Step(2, lambda a, b: a / (b * b + 1), lambda torch, a, b: a / (b * b + 1)),
    "maximum": Step(2, ops.maximum, lambda torch, a, b: torch.maximum(a, b)),
    "matmul": Step(2, lambda a, b: a @ b, lambda torch, a, b: a @ b),
    "where": Step(
        2, lambda a, b: ops.where(np.eye(SIDE) > 0, a, b), lambda torch, a, b: torch.where(torch.eye(SIDE) > 0, a, b)
    ),
    "concatenate": Step(
        2, lambda a, b: ops.concatenate([a, b], 1)[:, ::2], lambda torch, a, b: torch.cat([a, b], 1)[:, ::2]
    ),
    "stack": Step(2, lambda a, b: ops.stack([a, b], 2).max(2), lambda torch, a, b: torch.stack([a, b], 2).amax(2)),
    "outer": Step(2, lambda a, b: a[0] * b[:, 1:2], lambda torch, a, b: a[0] * b[:, 1:2]),
    "einsum": Step(
        2,
        lambda a, b: ops.einsum("ij,kj->ki", a, b),
        lambda torch, a, b: torch.einsum("ij,kj->ki", a, b),
    ),
    "exp": Step(1, lambda a: (a - a.max()).exp(), lambda torch, a: (a - a.amax()).exp()),
    "log": Step(1, lambda a: (a * a + 1).log(), lambda torch, a: (a * a + 1).log()),
    "tanh": Step(1, ops.tanh, lambda torch, a: a.tanh()),
    "relu": Step(1, ops.relu, lambda torch, a: a.relu()),
    "silu": Step(1, ops.silu, lambda torch, a: torch.nn.functional.silu(a)),
    "gelu": Step(1, ops.gelu, lambda torch, a: torch.nn.functional.gelu(a)),
    "abs": Step(1, ops.abs, lambda torch, a: a.abs()),
    "power": Step(1, lambda a: a**3 / 4, lambda torch, a: a**3 / 4),
    "softmax": Step(1, lambda a: ops.softmax(a, 0), lambda torch, a: a.softmax(0)),
    "logsumexp": Step(
        1,
        lambda a: a - ops.logsumexp(a, 1, keepdims=True),
        lambda torch, a: a - a.logsumexp(1, keepdim=True),
    ),
    "mean": Step(1, lambda a: a - a.mean(0), lambda torch, a: a - a.mean(0)),
    "var": Step(1, lambda a: a / (ops.var(a, 1) + 1), lambda torch, a: a / (a.var(1, correction=0) + 1)),
    "cumsum": Step(1, lambda a: ops.cumsum(a, 1), lambda torch, a: a.cumsum(1)),
    "transpose": Step(1, lambda a: a.T, lambda torch, a: a.T),
    "reshape": Step(1, lambda a: a.T.reshape((9,)).reshape((3, 3)), lambda torch, a: a.T.reshape(9).reshape(3, 3)),
    "flip": Step(1, lambda a: a[::-1], lambda torch, a: a.flip(0)),
    "getitem": Step(1, lambda a: a[[2, 0, 0]], lambda torch, a: a[[2, 0, 0]]),
    "broadcast": Step(1, lambda a: a[1].broadcast_to((3, 3)), lambda torch, a: a[1].broadcast_to(3, 3)),
    "split": Step(1, lambda a: ops.split(a, 1)[2] + a, lambda torch, a: a.unbind(1)[2] + a),
    "layer_norm": Step(
        1, lambda a: ops.layer_norm(a, eps=0.1), lambda torch, a: torch.nn.functional.layer_norm(a, (3,), eps=0.1)
    ),
}


class Graph(NamedTuple):
    """Each step's name and which of the nodes before it are its inputs; the first nodes are the graph's inputs."""

    steps: list[tuple[str, list[int]]]

    def ours(self, *inputs: Tensor) -> Tensor:
        return self.run(lambda name, *nodes: STEPS[name].function(*nodes), inputs)

    def theirs(self, torch: Any, *inputs: Any) -> Any:
        return self.run(lambda name, *nodes: STEPS[name].torch(torch, *nodes), inputs)

    def run(self, step: Callable[..., Any], inputs: tuple[Any, ...]) -> Any:
        """Give the sum of all nodes, so that each receives a gradient of its own besides those of its users."""
        nodes = list(inputs)
        for name, places in self.steps:
            nodes.append(step(name, *[nodes[place] for place in places]))
        return sum(nodes[1:], nodes[0])


@st.composite
def graphs(draw: st.DrawFn, inputs: int) -> Graph:
    names = draw(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=7))
    nodes = [st.integers(0, inputs + index - 1) for index in range(len(names))]
    return Graph([(name, [draw(node) for _ in range(STEPS[name].count)]) for name, node in zip(names, nodes)])


@st.composite
def inputs_of(draw: st.DrawFn, graph: Graph, count: int) -> list[Tensor]:
    generator, device = np.random.RandomState(draw(st.integers(0, 999))), draw(st.sampled_from(DEVICES))
    inputs = [Tensor(generator.randn(SIDE, SIDE), dtype="float64", device=device) for _ in range(count)]
    assume(np.abs(graph.ours(*inputs).numpy()).max() < 100)  # what grows further has no digits left for differences
    return inputs


@given(st.data())
def test_against_central_differences(data: st.DataObject) -> None:
    graph = data.draw(graphs(2))
    check_gradients(graph.ours, data.draw(inputs_of(graph, 2)))


@given(st.data())
def test_deferred_has_the_same_bits(data: st.DataObject) -> None:
    graph = data.draw(graphs(2))
    inputs, results = data.draw(inputs_of(graph, 2)), []
    for deferred in (False, True):
        with mock.patch.object(autograd, "LAZY_MODE", deferred):
            out = graph.ours(*inputs)
            results.append([value.numpy() for value in (*ndl.grad(out, inputs), out)])
    for found, wanted in zip(*results):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parity
@given(st.data())
def test_against_pytorch(data: st.DataObject) -> None:
    graph = data.draw(graphs(2))
    assert_same_as_torch(graph.ours, graph.theirs, data.draw(inputs_of(graph, 2)))
