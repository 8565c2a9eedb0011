"""The first op of a graph whose gradient is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from needle.anomaly import record_origins
from needle.autograd import Tensor, TensorTuple, Value
from needle.engine import enable_grad, find_topo_sort
from needle.errors import DTypeError, GradientError
from needle.ops.tuples import make_tuple
from needle.testing.compare import find_wrong
from needle.testing.differences import Tolerance, WeightedSum
from needle.testing.report import Finding


def first_wrong_op(levels: Sequence[WeightedSum], tolerance: Tolerance) -> tuple[str, Finding | None]:
    """Say, in words and as a Finding, which op's own gradient is wrong.

    `levels` are the function and its derivatives, of which the last one's gradient was found to be wrong. The graph of
    that one is gone through, inputs first, each op by itself, to first order; then the graph of the one before, to
    second order; and so on.
    """
    for order, f in enumerate(reversed(levels), 1):
        with record_origins(), enable_grad():
            nodes = [node for node in find_topo_sort(f.outputs(*f.inputs)) if node.op is not None]
        for count, node in enumerate(nodes, 1):
            finding = _check_alone(node, f, order, tolerance)
            if finding is not None:
                graph = f"the gradient of order {len(levels) - order}" if order < len(levels) else "the function"
                place = f"op {count} of {len(nodes)} in the graph of {graph}, made in {node.made_at}"
                return f"the first op with a wrong gradient is {finding}\n({place})", finding
    return (
        f"each of the {len(nodes)} ops by itself has a right gradient: look for a path that is cut (detach, .data, "
        "numpy()), for a hook, and for an op that is given other data at each call"
    ), None


def _check_alone(node: Value, f: WeightedSum, order: int, tolerance: Tolerance) -> Finding | None:
    """Check node's op at the node's inputs; None where it is right, or at a kink, or gives no float64."""
    alone = _Alone(node)
    fn = alone.run
    name = type(node.op).__name__
    for level in range(1, order + 1):
        try:
            one = WeightedSum(fn, alone.leaves, f.step, f.generator)
            finding = find_wrong(one, name, level, tolerance)
        except (DTypeError, GradientError):
            return None
        if finding is not None:
            return finding
        fn = one.gradient
    return None


class _Alone:
    """A node's op as a function of leaves: of its inputs, floats as float64, those that are tuples entry by entry."""

    def __init__(self, node: Value) -> None:
        self.op: Any = node.op
        self.inputs = node.inputs
        self.leaves = [
            Tensor(array, dtype=_precise(array.dtype), requires_grad=value.requires_grad)
            for value in node.inputs
            for array in (value.realize_cached_data() if isinstance(value, TensorTuple) else [value.cached_data])
        ]

    def run(self, *leaves: Tensor) -> Any:
        """Call a copy of the op, as an op may keep what it computes."""
        left = iter(leaves)
        arguments = [
            make_tuple(*[next(left) for _ in range(len(value))]) if isinstance(value, TensorTuple) else next(left)
            for value in self.inputs
        ]
        return copy(self.op)(*arguments)


def _precise(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float64) if dtype.kind == "f" else dtype
