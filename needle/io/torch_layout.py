"""States of PyTorch's modules and of the needle modules that match them, one made from the other.

Matching modules hold the same layers under the same names. What differs is the layout: PyTorch's Linear has weights
(out, in) and ours (in, out) with a bias (1, out); convolutions have (out, in, K, K) there and (K, K, in, out) here;
recurrent layers number their weights there, `weight_ih_l0`, and hold cells here, `rnn_cells.0.W_ih`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from needle.backend_ndarray.dtypes import as_ndarray
from needle.nn import Conv, ConvTranspose, GRUCell, Linear, LSTMCell, Module, RNNCell

Array: TypeAlias = npt.NDArray[Any]


class Layout(NamedTuple):
    """How a tensor of ours becomes PyTorch's, and back."""

    to: Callable[[Array], Array]
    back: Callable[[Array], Array]


SAME = Layout(lambda a: a, lambda a: a)
MATRIX = Layout(lambda a: a.T, lambda a: a.T)
ROW = Layout(lambda a: a.reshape(-1), lambda a: a.reshape(1, -1))
KERNEL = Layout(lambda a: a.transpose(3, 2, 0, 1), lambda a: a.transpose(2, 3, 1, 0) if a.ndim == 4 else a)
LAYOUTS: dict[tuple[type[Module], str], Layout] = {
    (Linear, "weight"): MATRIX,
    (Linear, "bias"): ROW,
    (Conv, "weight"): KERNEL,
    (ConvTranspose, "weight"): KERNEL,
} | {(cell, name): MATRIX for cell in (RNNCell, LSTMCell, GRUCell) for name in ("W_ih", "W_hh")}
# W_ih of a cell, by itself or in a layer of cells
CELL = re.compile(r"(?:(?:rnn|lstm|gru)_cells\.(?P<layer>\d+)\.)?(?P<kind>W|bias)_(?P<source>ih|hh)$")
COUNTER = "num_batches_tracked"  # of PyTorch's batch norm, for which we have no use


def from_torch(model: Module, state: Mapping[str, Any]) -> dict[str, Array]:
    """Make what `model.load_state_dict` takes from the `state_dict` of the matching PyTorch module.

    Values are arrays, such as `needle.load` reads from a safetensors file, or PyTorch's tensors. What has no
    counterpart in the model keeps its name, so `load_state_dict` names it; batch norm's count of batches is dropped.

    >>> from needle import nn
    >>> model = nn.Sequential(nn.Linear(2, 3))
    >>> state = from_torch(model, {"0.weight": np.zeros((3, 2)), "0.bias": np.zeros(3)})
    >>> {name: array.shape for name, array in state.items()}
    {'0.weight': (2, 3), '0.bias': (1, 3)}
    """
    own = {torch_path: (path, layout) for path, torch_path, layout in _entries(model)}
    made = {}
    for name, value in state.items():
        path, layout = own.get(name, (name, SAME))
        if not name.endswith(COUNTER):
            made[path] = layout.back(as_ndarray(f"from_torch: {name}", value))
    return made


def to_torch(model: Module) -> dict[str, Array]:
    """Make what `load_state_dict` of the matching PyTorch module takes, as NumPy arrays.

    Written by `needle.save` into a safetensors file, `safetensors.torch.load_file` reads it.

    >>> from needle import nn
    >>> {name: array.shape for name, array in to_torch(nn.Conv(2, 8, 3)).items()}
    {'weight': (8, 2, 3, 3), 'bias': (8,)}
    """
    state = model.state_dict()
    return {name: np.ascontiguousarray(layout.to(state[path])) for path, name, layout in _entries(model)}


def _entries(model: Module) -> Iterator[tuple[str, str, Layout]]:
    """Give the path, PyTorch's path and the layout of each parameter and buffer."""
    modules = dict(model.named_modules())
    for path in model.state_dict():
        parent, _, name = path.rpartition(".")
        kinds = type(modules[parent]).__mro__ if parent in modules else ()
        layout = next((LAYOUTS[kind, name] for kind in kinds if (kind, name) in LAYOUTS), SAME)
        yield path, CELL.sub(_cell_name, path), layout


def _cell_name(found: re.Match[str]) -> str:
    """Give PyTorch's name of a weight or bias of a cell."""
    name = f"{'weight' if found['kind'] == 'W' else 'bias'}_{found['source']}"
    return name if found["layer"] is None else f"{name}_l{found['layer']}"
