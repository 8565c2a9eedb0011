"""Where a node was made, and where the first NaN or infinity came from.

While some thread is in one of these blocks, `Value.watch` is set, and autograd and engine show it every result and
every gradient; otherwise there is nothing to be called.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np

from needle.autograd import Op, Value
from needle.errors import AnomalyError

PACKAGE = os.path.dirname(__file__) + os.sep


class _State(threading.local):
    """What belongs to one thread."""

    blocks: tuple[record_origins, ...] = ()  # that it is in, innermost last
    differentiated: tuple[Value, ...] = ()  # the nodes whose gradient is being computed, innermost last


_state = _State()
_lock = threading.Lock()
_inside = 0  # how many blocks all threads are in


class record_origins(contextlib.ContextDecorator):
    """Let every node made in this block, in this thread, tell by `made_at` which line of the program made it.

    The line is the innermost one outside of needle. In LAZY_MODE it is the one that had the node computed.

    >>> import needle as ndl
    >>> def halve(x):
    ...     return x / 2
    >>> with ndl.record_origins():
    ...     y = halve(ndl.Tensor([1.0]))
    >>> print(y.made_at)
    <doctest ...>, line 2, in halve: return x / 2
    """

    def __enter__(self) -> None:
        _state.blocks = (*_state.blocks, self)
        _count(1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        last = max(index for index, block in enumerate(_state.blocks) if block is self)  # blocks may overlap
        _state.blocks = (*_state.blocks[:last], *_state.blocks[last + 1 :])
        _count(-1)


class detect_anomaly(record_origins):
    """Raise AnomalyError, in this thread, where the first NaN or infinity appears, forward or backward.

    The message names the op, the line of the program that called it, the element and the range of the inputs; in a
    backward pass also the node whose gradient was being computed, and where that one was made. Every result is looked
    through: this is for finding faults, not for training.

    Args:
        infinities: False lets infinities pass, which masks use on purpose, and finds NaN only.

    >>> import needle as ndl
    >>> with ndl.detect_anomaly():
    ...     y = ndl.log(ndl.Tensor([1.0, -1.0]))
    Traceback (most recent call last):
    ...
    needle.errors.AnomalyError: Log gave nan at (1,), the first of 1 such among 2 elements, in <doctest ...>, line 2, in
    <module>: y = ndl.log(ndl.Tensor([1.0, -1.0])); input 0 of shape (2,) from -1 to 1
    """

    def __init__(self, *, infinities: bool = True) -> None:
        self.infinities = infinities

    def look_at(self, node: Value, op: Op, inputs: Sequence[Value], differentiated: Sequence[Value]) -> None:
        """Raise where the result of `op` on `inputs` has what is looked for."""
        found = self._first(node)
        if found is not None:
            operands = "".join([f"; input {index} {self._about(value)}" for index, value in enumerate(inputs)])
            raise AnomalyError(f"{_name(op)} gave {found}, in {node.made_at}{_backward_of(differentiated)}{operands}")

    def check_gradient(self, node: Value, position: int, gradient: Value) -> None:
        """Raise where the gradient that node's op gave has what is looked for, though no op made it."""
        found = self._first(gradient)
        if found is not None:
            raise AnomalyError(f"{_name(node.op)}.gradient gave input {position} {found}{_backward_of([node])}")

    def _about(self, value: Value) -> str:
        parts = [f"of shape {array.shape}{_range(array)}" for array in _arrays(value)]
        return " and ".join(parts) + (", and had it already" if self._first(value) else "")

    def _first(self, value: Value) -> str | None:
        """Say what the first anomaly in `value` is, and where, if there is one."""
        for array in _arrays(value):
            wrong = ~np.isfinite(array) if self.infinities else np.isnan(array)
            if wrong.any():
                place = tuple(np.argwhere(wrong)[0].tolist())
                return f"{array[place]} at {place}, the first of {wrong.sum()} such among {wrong.size} elements"
        return None


class _Watch:
    """What `Value.watch` is while some thread is in a block; it does nothing for threads that are in none."""

    def made(self, node: Value, op: Op, inputs: Sequence[Value]) -> None:
        """Note where `node` was made, just now, from `inputs`, and look at it."""
        if _state.blocks:
            node.made_at = _line()
        for block in _looking():
            block.look_at(node, op, inputs, _state.differentiated[-1:])

    def differentiate(self, gradient: Any, node: Any) -> tuple[Any, ...]:
        """Give what `gradient_as_tuple` of node's op gives, and look at it."""
        before, _state.differentiated = _state.differentiated, (*_state.differentiated, node)
        try:
            gradients = node.op.gradient_as_tuple(gradient, node)
        finally:
            _state.differentiated = before
        for block in _looking():
            for position, part in enumerate(gradients):
                if isinstance(part, Value):
                    block.check_gradient(node, position, part)
        return gradients


def _count(step: int) -> None:
    """Count the blocks that all threads are in, and watch while there is one."""
    global _inside
    with _lock:
        _inside += step
        Value.watch = _Watch() if _inside else None


def _looking() -> list[detect_anomaly]:
    """Give the innermost block of this thread that looks for anomalies, if there is one."""
    return [block for block in _state.blocks if isinstance(block, detect_anomaly)][-1:]


def _line() -> str:
    """Give the line of the program that is running: of the innermost frame outside of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    code, number = frame.f_code, frame.f_lineno
    text = linecache.getline(code.co_filename, number, frame.f_globals).strip()
    return f"{code.co_filename}, line {number}, in {code.co_name}" + (f": {text}" if text else "")


def _name(op: Op | None) -> str:
    return type(op).__name__


def _backward_of(nodes: Sequence[Value]) -> str:
    """Say whose gradient was being computed, and where the forward pass made it."""
    places = [f", made in {node.made_at}" if node.made_at else "" for node in nodes]
    return "".join([f", in the backward pass of {_name(node.op)}{place}" for node, place in zip(nodes, places)])


def _arrays(value: Value) -> list[np.ndarray[Any, Any]]:
    """Give the arrays that `value` holds, as NumPy sees them."""
    held = value.realize_cached_data()
    return [np.asarray(part) for part in (held if isinstance(held, tuple) else (held,))]


def _range(array: np.ndarray[Any, Any]) -> str:
    finite = array[np.isfinite(array)]
    return f" from {finite.min():.7g} to {finite.max():.7g}" if finite.size else ""
