"""Recurrent nets: cells, sequences, and states that are carried on.

A cell takes one step: from an input x (N, input_size) and a state to the next state. A net takes the steps of a
sequence X (T, N, input_size) one after the other; `X[t]` is an op, and so is `ndl.stack`. A state that is not given is
zeros. All parameters are drawn from -1/sqrt(hidden_size) to 1/sqrt(hidden_size), by `init.rand(..., low=, high=)`, in
the order W_ih, W_hh, bias_ih, bias_hh; zeros come from `init.zeros(..., dtype=x.dtype)`.

Check your work with `python -m needle.course check recurrent_nets.py`.
"""

from __future__ import annotations

import needle as ndl
from needle import init, nn
from needle.autograd import Tensor

State = tuple[Tensor, Tensor]


class RNNCell(nn.Module):
    """h' = tanh(x @ W_ih + bias_ih + h @ W_hh + bias_hh), of shape (N, hidden_size).

    W_ih (input_size, hidden_size), W_hh (hidden_size, hidden_size), bias_ih and bias_hh (hidden_size,).
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        ### BEGIN SOLUTION
        bound = hidden_size**-0.5
        self.W_ih = nn.Parameter(init.rand(input_size, hidden_size, low=-bound, high=bound))
        self.W_hh = nn.Parameter(init.rand(hidden_size, hidden_size, low=-bound, high=bound))
        self.bias_ih = nn.Parameter(init.rand(hidden_size, low=-bound, high=bound))
        self.bias_hh = nn.Parameter(init.rand(hidden_size, low=-bound, high=bound))
        ### END SOLUTION

    def forward(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        ### BEGIN SOLUTION
        if h is None:
            h = init.zeros(x.shape[0], self.hidden_size, dtype=x.dtype)
        return ndl.tanh(x @ self.W_ih + self.bias_ih + h @ self.W_hh + self.bias_hh)
        ### END SOLUTION


class RNN(nn.Module):
    """`num_layers` cells on top of each other: the states of one, over time, are the inputs of the next.

    `forward(X, h0)` gives the states of the last layer, (T, N, hidden_size), and the last state of every layer,
    (num_layers, N, hidden_size), which is also the shape of h0.
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1) -> None:
        super().__init__()
        self.rnn_cells = [RNNCell(input_size if k == 0 else hidden_size, hidden_size) for k in range(num_layers)]

    def forward(self, X: Tensor, h0: Tensor | None = None) -> tuple[Tensor, Tensor]:
        ### BEGIN SOLUTION
        inputs = [X[t] for t in range(X.shape[0])]
        last = []
        for k, cell in enumerate(self.rnn_cells):
            h = None if h0 is None else h0[k]
            states = []
            for x in inputs:
                h = cell(x, h)
                states.append(h)
            inputs = states
            last.append(states[-1])
        return ndl.stack(inputs, 0), ndl.stack(last, 0)
        ### END SOLUTION


class LSTMCell(nn.Module):
    """From x and (h, c) to the next (h, c), both of shape (N, hidden_size).

    x @ W_ih + bias_ih + h @ W_hh + bias_hh, of shape (N, 4 * hidden_size), holds the gates i, f, g, o side by side, in
    that order, before their functions: sigmoid for i, f and o, tanh for g. Then c' = f * c + i * g; h' = o * tanh(c').
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        ### BEGIN SOLUTION
        bound = hidden_size**-0.5
        self.W_ih = nn.Parameter(init.rand(input_size, 4 * hidden_size, low=-bound, high=bound))
        self.W_hh = nn.Parameter(init.rand(hidden_size, 4 * hidden_size, low=-bound, high=bound))
        self.bias_ih = nn.Parameter(init.rand(4 * hidden_size, low=-bound, high=bound))
        self.bias_hh = nn.Parameter(init.rand(4 * hidden_size, low=-bound, high=bound))
        ### END SOLUTION

    def forward(self, x: Tensor, state: State | None = None) -> State:
        ### BEGIN SOLUTION
        if state is None:
            zeros = init.zeros(x.shape[0], self.hidden_size, dtype=x.dtype)
            state = zeros, zeros
        h, c = state
        gates = (x @ self.W_ih + self.bias_ih + h @ self.W_hh + self.bias_hh).reshape((-1, 4, self.hidden_size))
        i, f, g, o = (gates[:, k] for k in range(4))
        c = ndl.sigmoid(f) * c + ndl.sigmoid(i) * ndl.tanh(g)
        return ndl.sigmoid(o) * ndl.tanh(c), c
        ### END SOLUTION


class LSTM(nn.Module):
    """An LSTM of one layer: `forward(X, (h0, c0))` gives the states h, (T, N, hidden_size), and the last (h, c).

    h0, c0 and the last h and c have the shape (N, hidden_size).
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.lstm_cell = LSTMCell(input_size, hidden_size)

    def forward(self, X: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        ### BEGIN SOLUTION
        states = []
        for t in range(X.shape[0]):
            state = self.lstm_cell(X[t], state)
            states.append(state[0])
        assert state is not None
        return ndl.stack(states, 0), state
        ### END SOLUTION


def detached(state: Tensor | State) -> Tensor | State:
    """Give a state, a Tensor or a tuple of two, with the same values, and cut off from the graph that made it.

    Training on a long text goes from piece to piece and carries the state on; detached in between, so that backward
    ends at the start of the piece.
    """
    ### BEGIN SOLUTION
    return state.detach() if isinstance(state, Tensor) else (state[0].detach(), state[1].detach())
    ### END SOLUTION
