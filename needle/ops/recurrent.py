"""Recurrence along a sequence: one op for all steps, so that their gradients take few and large products.

The step of each kind is written once, for arrays and Tensors alike: the op takes it on arrays, its second derivative on
Tensors. Sources: see `needle.nn.recurrent`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from needle.autograd import NDArray, Tensor, TensorTuple, TensorTupleOp
from needle.errors import DTypeError, OptionError, ShapeError, kind_of
from needle.gradients import differentiate
from needle.ops.activation import relu
from needle.ops.arguments import promote, tensor
from needle.ops.join import Concatenate, Stack, split, stack

State: TypeAlias = "tuple[Any, ...]"  # of arrays or Tensors (batch,hidden): the output h, and what else there is

_JOIN = Concatenate(1)
_STACK = Stack(0)


class Recurrence(TensorTupleOp):
    """x (seq,batch,width), weight (hidden,width), bias (width,) and a first state to the states after each step.

    A subclass has the step, from x_t and h @ weight + bias, and its gradient. The width is `gates` * hidden, and
    `parts` names what a state is made of.
    """

    gates = 1
    parts: tuple[str, ...] = ("h",)
    kept: list[tuple[NDArray, ...]]  # by each step, for its gradient

    def step(self, x: Any, hx: Any, *state: Any) -> tuple[State, tuple[Any, ...]]:
        """Give the next state, and what its gradient needs."""
        raise NotImplementedError

    def step_gradient(self, kept: Sequence[NDArray], *d: NDArray) -> tuple[NDArray, NDArray, tuple[Any, ...]]:
        """Give the gradients of x, of hx, and of the state apart from hx, from that of the next state."""
        raise NotImplementedError

    def steps(self, xs: Iterable[Any], weight: Any, bias: Any, state: State) -> tuple[list[State], list[Any]]:
        """Take all steps; give the states and what is kept, by step."""
        states, kept = [], []
        for x in xs:
            state, needed = self.step(x, state[0] @ weight + bias, *state)
            states.append(state)
            kept.append(needed)
        return states, kept

    def compute(self, x: NDArray, weight: NDArray, bias: NDArray, *state: NDArray) -> tuple[NDArray, ...]:
        states, self.kept = self.steps(x, weight, bias, state)
        return tuple([_STACK.compute(*part) for part in zip(*states, strict=True)])

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> tuple[Tensor, ...]:
        return RecurrenceGradients(self)(*out_grad, *node.inputs, node[0]).tuple()


class RecurrenceGradients(TensorTupleOp):
    """The gradients of a Recurrence's states, its inputs and its outputs h to the gradients of its inputs."""

    def __init__(self, forward: Recurrence) -> None:
        self.forward = forward

    def compute(self, *arrays: NDArray) -> tuple[NDArray, ...]:
        parts = len(self.forward.parts)
        arriving, (_, weight, _, h, *_), outputs = arrays[:parts], arrays[parts:-1], arrays[-1]
        back = weight.T.compact()
        d: State = (0.0,) * parts
        to_x, to_hx = [], []
        for kept, *now in reversed(list(zip(self.forward.kept, *arriving, strict=True))):
            dx, dhx, d = self.forward.step_gradient(kept, *[a + b for a, b in zip(now, d, strict=True)])
            d = (dhx @ back + d[0], *d[1:])
            to_x.append(dx)
            to_hx.append(dhx)
        dx = _STACK.compute(*to_x[::-1])
        dhx = dx if to_hx[0] is to_x[0] else _STACK.compute(*to_hx[::-1])
        hidden, width = weight.shape
        to_weight = h.T @ dhx.select(0) + outputs[:-1].reshape((-1, hidden)).T @ dhx[1:].reshape((-1, width))
        return dx, to_weight, dhx.sum((0, 1)), *d

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> tuple[Tensor | None, ...]:
        return differentiate(self._formula, node.inputs, out_grad.tuple())

    def _formula(self, *values: Tensor) -> tuple[Tensor, ...]:
        parts = len(self.forward.parts)
        arriving, inputs = values[:parts], values[parts:-1]
        found = differentiate(self._states, inputs, arriving)
        return tuple([value * 0 if d is None else d for value, d in zip(inputs, found, strict=True)])

    def _states(self, x: Tensor, weight: Tensor, bias: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        states, _ = self.forward.steps(split(x, 0), weight, bias, state)
        return tuple([stack(part, 0) for part in zip(*states, strict=True)])


def _gates(a: Any, count: int) -> tuple[Any, ...]:
    """Take the gates apart: (batch, count * hidden) -> `count` times (batch, hidden)."""
    batch, width = a.shape
    return tuple(a.reshape((batch, count, width // count)).permute((1, 0, 2)))


class SimpleRecurrence(Recurrence):
    """h' = tanh(x + hx), or relu."""

    def __init__(self, nonlinearity: str = "tanh") -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise OptionError(f'recurrence: nonlinearity must be "tanh" or "relu", got {nonlinearity!r}')
        self.nonlinearity = nonlinearity

    def step(self, x: Any, hx: Any, *state: Any) -> tuple[State, tuple[Any, ...]]:
        h = self._activate(x + hx)
        return (h,), (h,)

    def _activate(self, a: Any) -> Any:
        if self.nonlinearity == "tanh":
            return a.tanh()
        return relu(a) if isinstance(a, Tensor) else a.maximum(0)

    def step_gradient(self, kept: Sequence[NDArray], *d: NDArray) -> tuple[NDArray, NDArray, tuple[Any, ...]]:
        (h,), (dh,) = kept, d
        da = dh * (1 - h * h if self.nonlinearity == "tanh" else h > 0)
        return da, da, (0.0,)


class LSTMRecurrence(Recurrence):
    """c' = f * c + i * g and h' = o * tanh(c'), with the gates i, f, g, o = x + hx."""

    gates = 4
    parts = ("h", "c")

    def step(self, x: Any, hx: Any, *state: Any) -> tuple[State, tuple[Any, ...]]:
        a, (_, c) = x + hx, state
        i, f, _, o = _gates(a.sigmoid(), 4)
        g = _gates(a, 4)[2].tanh()
        after = f * c + i * g
        squashed = after.tanh()
        return (o * squashed, after), (i, f, g, o, c, squashed)

    def step_gradient(self, kept: Sequence[NDArray], *d: NDArray) -> tuple[NDArray, NDArray, tuple[Any, ...]]:
        (i, f, g, o, c, squashed), (dh, dc) = kept, d
        dc = dc + dh * o * (1 - squashed * squashed)
        da = _JOIN.compute(
            dc * g * (i * (1 - i)), dc * c * (f * (1 - f)), dc * i * (1 - g * g), dh * squashed * (o * (1 - o))
        )
        return da, da, (0.0, dc * f)


class GRURecurrence(Recurrence):
    """h' = (1 - z) * n + z * h, with r and z = sigmoid(x + hx) and n = tanh(x + r * hx) in their thirds."""

    gates = 3

    def step(self, x: Any, hx: Any, *state: Any) -> tuple[State, tuple[Any, ...]]:
        (h,), (_, _, xn), (_, _, hn) = state, _gates(x, 3), _gates(hx, 3)
        r, z, _ = _gates((x + hx).sigmoid(), 3)
        new = (xn + r * hn).tanh()
        return (new + z * (h - new),), (h, r, z, hn, new)

    def step_gradient(self, kept: Sequence[NDArray], *d: NDArray) -> tuple[NDArray, NDArray, tuple[Any, ...]]:
        (h, r, z, hn, new), (dh,) = kept, d
        dn = dh * (1 - z) * (1 - new * new)
        dr, dz = dn * hn * (r * (1 - r)), dh * (h - new) * (z * (1 - z))
        return _JOIN.compute(dr, dz, dn), _JOIN.compute(dr, dz, dn * r), (dh * z,)


def recurrence(op: Recurrence, x: Tensor, weight: Tensor, bias: Tensor, *state: Tensor) -> TensorTuple:
    """Take the steps of `op` along x (seq,batch,width) from a first state; give each part of the states, stacked.

    Args:
        op: SimpleRecurrence, LSTMRecurrence or GRURecurrence; copied, since it keeps what its gradient needs.
        x: what the input contributes to each step.
        weight, bias: (hidden,width) and (width,), what the state contributes being h @ weight + bias.
        state: the parts of the first state, each (batch,hidden).

    Raises:
        DTypeError: an op that is none, such as its class.
        ShapeError: a sequence without steps, or shapes that do not fit.

    >>> import needle as ndl
    >>> x, one, zero = ndl.ones(3, 1, 1), ndl.ones(1, 1), ndl.zeros(1)
    >>> (h,) = recurrence(SimpleRecurrence("relu"), x, one, zero, one)
    >>> h.numpy().ravel().tolist()
    [2.0, 3.0, 4.0]
    """
    _check_op(op)
    inputs = [tensor("recurrence", value) for value in (x, weight, bias, *state)]
    steps, batch, width = x.shape if x.ndim == 3 else (0, 0, 0)
    hidden = width // op.gates
    wanted = [(steps, batch, width), (hidden, hidden * op.gates), (width,), *[(batch, hidden)] * len(op.parts)]
    if not steps or [value.shape for value in inputs] != wanted:
        raise ShapeError(
            f"recurrence: expected x (seq,batch,width) with steps, weight (hidden,width), bias (width,) and the state "
            f"{' and '.join(op.parts)} (batch,hidden), width = {op.gates} * hidden, got shapes "
            f"{', '.join([str(value.shape) for value in inputs])}"
        )
    return copy.copy(op)(*promote(*inputs))


def _check_op(op: Any) -> None:
    if not isinstance(op, Recurrence):
        found = f"the class {op.__name__}" if isinstance(op, type) else kind_of(op)
        raise DTypeError(f"recurrence: op must be a Recurrence, such as SimpleRecurrence(), got {found}")
