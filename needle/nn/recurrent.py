"""Recurrent layers: cells that take one step, and layers of cells that take a sequence (seq, batch, feature).

A state is a Tensor, for the LSTM a tuple (h, c); None stands for zeros. To train on a long sequence piece by piece
(truncated back-propagation), detach the state that one piece gives and hand it to the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from needle import init, ops
from needle.autograd import Tensor
from needle.backend_ndarray import BackendDevice
from needle.backend_ndarray.dtypes import as_floating
from needle.errors import ShapeError, kind_of
from needle.nn.module import Module, Parameter
from needle.ops.arguments import integer, tensor
from needle.ops.recurrent import Recurrence


class _Cell(Module):
    """What the cells share: the weights, in which the columns of the gates lie side by side, and their step."""

    kind: type[Recurrence]
    W_ih: Tensor
    W_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: BackendDevice | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.input_size = integer(name, "input_size", input_size, 1)
        self.hidden_size = integer(name, "hidden_size", hidden_size, 1)
        dtype, bound, width = as_floating(dtype, name), math.sqrt(1 / hidden_size), self.kind.gates * hidden_size

        def draw(*shape: int) -> Parameter:
            return Parameter(init.rand(*shape, low=-bound, high=bound, device=device, dtype=dtype))

        self.W_ih, self.W_hh = draw(input_size, width), draw(hidden_size, width)
        self.bias_ih, self.bias_hh = (draw(width), draw(width)) if bias else (None, None)

    def recurrence(self) -> Recurrence:
        """Give the op of this cell's step."""
        return self.kind()

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, ...]:
        """Take one step, from x (batch, input_size)."""
        _check_input(self, x, "(batch,input_size)")
        state = _state(self, self.kind.parts, state, (x.shape[0], self.hidden_size), x)
        after, _ = self.recurrence().step(self._project(x), _plus(state[0] @ self.W_hh, self.bias_hh), *state)
        return after

    def run(self, x: Tensor, state: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Take a step for each entry of x (seq, batch, input_size); give each part of the states, stacked."""
        bias = self.bias_hh
        if bias is None:
            bias = init.zeros(self.W_hh.shape[1], device=x.device, dtype=x.dtype)
        return ops.recurrence(self.recurrence(), self._project(x), self.W_hh, bias, *state).tuple()

    def _project(self, x: Tensor) -> Tensor:
        """Give what the input contributes: (..., input_size) -> (..., gates * hidden_size)."""
        return _plus(x @ self.W_ih, self.bias_ih)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}, bias={self.bias_ih is not None}"


def _plus(x: Tensor, bias: Tensor | None) -> Tensor:
    return x if bias is None else x + bias


def _check_input(module: _Cell | _Layers, x: Tensor, axes: str) -> None:
    name, size = type(module).__name__, module.input_size
    if tensor(name, x, "the input").ndim != axes.count(",") + 1 or x.shape[-1] != size:
        raise ShapeError(f"{name}: expected {axes} with input_size = {size}, got shape {x.shape}")


def _state(
    module: _Cell | _Layers, parts: Sequence[str], state: Any, shape: tuple[int, ...], x: Tensor
) -> tuple[Tensor, ...]:
    """Give the parts of a state, checked; zeros where there is none."""
    name, several = type(module).__name__, isinstance(state, (tuple, list))
    if state is None:
        return tuple([init.zeros(*shape, device=x.device, dtype=x.dtype) for _ in parts])
    given = tuple(state) if several else (state,)
    if several != (len(parts) > 1) or len(given) != len(parts):
        wanted = f"tuple ({', '.join(parts)})" if len(parts) > 1 else "Tensor h"
        found = f"{len(given)} parts" if several else f"{kind_of(state)}"
        raise ShapeError(f"{name}: the state must be a {wanted}, got {found}")
    for part, value in zip(parts, given, strict=True):
        if tensor(name, value, f"the state {part}").shape != shape:
            raise ShapeError(f"{name}: the state {part} has shape {value.shape}; for this input it must be {shape}")
    return given


class RNNCell(_Cell):
    """One step of a simple recurrent network: h' = tanh(x @ W_ih + bias_ih + h @ W_hh + bias_hh).

    Takes x (batch, input_size) and h (batch, hidden_size), None for zeros; gives h'. All weights are drawn uniformly
    from +-sqrt(1/hidden_size): `W_ih` (input_size, hidden_size), `W_hh` (hidden_size, hidden_size), `bias_ih`,
    `bias_hh` (hidden_size,), in that order.
    Source: Elman, "Finding structure in time" (1990).

    Args:
        nonlinearity: "tanh" or "relu".

    Raises:
        ShapeError: x or h of another shape.
        OptionError: another nonlinearity.

    >>> RNNCell(3, 4)(init.ones(2, 3)).shape
    (2, 4)
    """

    kind = ops.SimpleRecurrence

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: BackendDevice | None = None,
        dtype: Any = "float32",
    ) -> None:
        self.nonlinearity = nonlinearity
        self.recurrence()  # which refuses a nonlinearity that it does not know
        super().__init__(input_size, hidden_size, bias, device, dtype)

    def recurrence(self) -> Recurrence:
        return ops.SimpleRecurrence(self.nonlinearity)

    def forward(self, X: Tensor, h: Tensor | None = None) -> Tensor:
        return self.step(X, h)[0]

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, nonlinearity={self.nonlinearity!r}"


class LSTMCell(_Cell):
    """One step of a network with long short-term memory: c' = f * c + i * g and h' = o * tanh(c').

    The gates i, f, g, o are the four quarters of x @ W_ih + bias_ih + h @ W_hh + bias_hh; g goes through tanh, the
    others through the sigmoid. Takes x (batch, input_size) and the tuple (h, c), both (batch, hidden_size), None for
    zeros; gives (h', c'). The weights are drawn as those of `RNNCell`, 4 * hidden_size wide.
    Source: Hochreiter & Schmidhuber, "Long short-term memory" (1997), with the forget gate of Gers et al. (2000).

    Raises:
        ShapeError: x or the state of another shape, or a state that is no pair.

    >>> h, c = LSTMCell(3, 4)(init.ones(2, 3))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """

    kind = ops.LSTMRecurrence

    def forward(self, X: Tensor, h: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, ...]:
        return self.step(X, h)


class GRUCell(_Cell):
    """One step of a network with gated recurrent units: h' = (1 - z) * n + z * h.

    With xr, xz, xn the three thirds of x @ W_ih + bias_ih, and hr, hz, hn those of h @ W_hh + bias_hh:
    r = sigmoid(xr + hr), z = sigmoid(xz + hz), n = tanh(xn + r * hn). Takes x (batch, input_size) and
    h (batch, hidden_size), None for zeros; gives h'. The weights are drawn as those of `RNNCell`, 3 * hidden_size wide.
    Source: Cho et al., "Learning phrase representations using RNN encoder-decoder for statistical machine translation"
    (2014); r is applied after the product with W_hh, and z weighs the old state, as PyTorch has them.

    Raises:
        ShapeError: x or h of another shape.

    >>> GRUCell(3, 4)(init.ones(2, 3)).shape
    (2, 4)
    """

    kind = ops.GRURecurrence

    def forward(self, X: Tensor, h: Tensor | None = None) -> Tensor:
        return self.step(X, h)[0]


class _Layers(Module):
    """What the layers share: cells on top of each other, each fed with the outputs of the one below."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int) -> None:
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.num_layers = integer(type(self).__name__, "num_layers", num_layers, 1)

    def _input_sizes(self) -> list[int]:
        """Give the input size of each cell."""
        return [self.input_size] + [self.hidden_size] * (self.num_layers - 1)

    def _run(self, cells: Sequence[_Cell], X: Tensor, state: Any) -> tuple[Tensor, list[Tensor]]:
        """Give the top cell's outputs, and each part of the last state, stacked over the layers."""
        _check_input(self, X, "(seq,batch,input_size)")
        if not X.shape[0]:
            raise ShapeError(f"{type(self).__name__}: a sequence without steps, of shape {X.shape}, has no last state")
        shape = (len(cells), X.shape[1], self.hidden_size)
        state = _state(self, cells[0].kind.parts, state, shape, X)
        last = []
        for cell, *start in zip(cells, *[ops.split(part, 0) for part in state], strict=True):
            states = cell.run(X, start)
            X = states[0]
            last.append([part[-1] for part in states])
        return X, [ops.stack(part, 0) for part in zip(*last, strict=True)]


class RNN(_Layers):
    """Simple recurrent networks on top of each other, over a sequence; see `RNNCell`.

    Takes X (seq, batch, input_size) and h0 (num_layers, batch, hidden_size), None for zeros. Gives the top layer's
    outputs (seq, batch, hidden_size), and the last state of each layer, of h0's shape. `rnn_cells` has the cells,
    drawn from the bottom up.

    Raises:
        ShapeError: X or h0 of another shape, or a sequence without steps.
        OptionError: another nonlinearity than "tanh" and "relu".

    >>> outputs, h = RNN(3, 4, num_layers=2)(init.ones(5, 1, 3))
    >>> outputs.shape, h.shape
    ((5, 1, 4), (2, 1, 4))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: BackendDevice | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers)
        self.rnn_cells = [RNNCell(size, hidden_size, bias, nonlinearity, device, dtype) for size in self._input_sizes()]

    def forward(self, X: Tensor, h0: Tensor | None = None) -> tuple[Tensor, Tensor]:
        outputs, (h,) = self._run(self.rnn_cells, X, h0)
        return outputs, h


class LSTM(_Layers):
    """Networks with long short-term memory on top of each other, over a sequence; see `LSTMCell`.

    Takes X (seq, batch, input_size) and the tuple (h0, c0), both (num_layers, batch, hidden_size), None for zeros.
    Gives the top layer's outputs (seq, batch, hidden_size), and the last states (h, c) of the layers. `lstm_cells` has
    the cells, drawn from the bottom up.

    Raises:
        ShapeError: X or the state of another shape, a state that is no pair, or a sequence without steps.

    >>> outputs, (h, c) = LSTM(3, 4, num_layers=2)(init.ones(5, 1, 3))
    >>> outputs.shape, h.shape, c.shape
    ((5, 1, 4), (2, 1, 4), (2, 1, 4))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        device: BackendDevice | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers)
        self.lstm_cells = [LSTMCell(size, hidden_size, bias, device, dtype) for size in self._input_sizes()]

    def forward(self, X: Tensor, h: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, ...]]:
        outputs, state = self._run(self.lstm_cells, X, h)
        return outputs, tuple(state)


class GRU(_Layers):
    """Networks with gated recurrent units on top of each other, over a sequence; see `GRUCell`.

    Takes X (seq, batch, input_size) and h0 (num_layers, batch, hidden_size), None for zeros. Gives the top layer's
    outputs (seq, batch, hidden_size), and the last state of each layer, of h0's shape. `gru_cells` has the cells,
    drawn from the bottom up.

    Raises:
        ShapeError: X or h0 of another shape, or a sequence without steps.

    >>> outputs, h = GRU(3, 4, num_layers=2)(init.ones(5, 1, 3))
    >>> outputs.shape, h.shape
    ((5, 1, 4), (2, 1, 4))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        device: BackendDevice | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers)
        self.gru_cells = [GRUCell(size, hidden_size, bias, device, dtype) for size in self._input_sizes()]

    def forward(self, X: Tensor, h0: Tensor | None = None) -> tuple[Tensor, Tensor]:
        outputs, (h,) = self._run(self.gru_cells, X, h0)
        return outputs, h
