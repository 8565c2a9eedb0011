"""The table that `Module.summary` gives."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from needle import backend_ndarray as nd
from needle.autograd import Tensor, TensorTuple, no_grad

if TYPE_CHECKING:
    from needle.nn.module import Module


def summary(module: Module, input_shape: Sequence[int]) -> str:
    """Make the table; see `Module.summary`."""
    shapes = _output_shapes(module, input_shape)
    rows = [("Name", "Layer", "Output shape", "Parameters")]
    counted: set[int] = set()
    for path, layer in module.named_modules():
        own = {id(value): value.size for kind, _, value in layer._members() if kind == "parameter"}
        size = sum(size for key, size in own.items() if key not in counted)
        counted.update(own)
        rows.append((path, type(layer).__name__, shapes.get(path, "not called"), f"{size:,}"))
    name, layer_type, shape, _ = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"{a:{name}}  {b:{layer_type}}  {c:{shape}}  {d:>10}" for a, b, c, d in rows]
    parameters = module.parameters()
    total = sum(p.size for p in parameters)
    trainable = sum(p.size for p in parameters if p.requires_grad)
    return "\n".join([*lines, f"{total:,} parameters, {trainable:,} of them trainable"])


def _output_shapes(module: Module, input_shape: Sequence[int]) -> dict[str, str]:
    """Give each module's output shape as text, by path: of a run of a copy, so that nothing is changed."""
    shapes: dict[str, str] = {}

    def record(path: str) -> Callable[..., None]:
        return lambda module, args, output: shapes.__setitem__(path, _shape(output))

    twin = copy.deepcopy(module).eval()
    for path, layer in twin.named_modules():
        layer._forward_pre_hooks = {}
        layer._forward_hooks = {0: record(path)}
    first = next(iter(module.parameters()), None)
    device, dtype = (None, None) if first is None else (first.device, first.dtype)
    zeros = Tensor.make_const(nd.full(tuple(input_shape), 0.0, device=device, dtype=dtype))
    random_state = np.random.get_state()
    try:
        with no_grad():
            twin(zeros)
    finally:
        np.random.set_state(random_state)
    return shapes


def _shape(output: Any) -> str:
    if isinstance(output, (tuple, list)):
        return ", ".join(map(_shape, output))
    return str(output.shape) if isinstance(output, (Tensor, TensorTuple)) else "-"
