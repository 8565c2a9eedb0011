"""Reverse-mode differentiation: topological order, the backward pass and its replay, and what is recorded.

Everything here works on nodes as `needle.autograd` defines them (`op`, `inputs`, `requires_grad`); it knows no op.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from needle.errors import GradientError, kind_of

if TYPE_CHECKING:
    from needle.autograd import Op, Tensor, Value


class _State(threading.local):
    """What belongs to one thread."""

    recording = True
    changed: tuple[tuple[Value, str], ...] = ()  # values that the gradient being computed must not read, and its op


state = _State()


class _Recording(contextlib.ContextDecorator):
    """Switch recording for a block or a function, and back again whatever happens; nestable and re-usable."""

    _value: bool

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(state.recording)
        state.recording = self._value

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        state.recording = self._before.pop()

    def _recreate_cm(self) -> _Recording:  # a decorated function may run in several threads at once
        return type(self)()


class no_grad(_Recording):
    """Record nothing in this block, in this thread: results are leaves that require no gradient.

    >>> import needle as ndl
    >>> x = ndl.Tensor([3.0])
    >>> with ndl.no_grad():
    ...     y = x * x
    >>> y.requires_grad
    False
    """

    _value = False


class enable_grad(_Recording):
    """Record in this block, inside a `no_grad` block too.

    >>> import needle as ndl
    >>> x = ndl.Tensor([3.0])
    >>> with ndl.no_grad(), ndl.enable_grad():
    ...     y = x * x
    >>> y.requires_grad
    True
    """

    _value = True


def is_grad_enabled() -> bool:
    """Whether operations are being recorded in this thread.

    >>> is_grad_enabled()
    True
    """
    return state.recording


def find_topo_sort(node_list: Iterable[Value], stop: Collection[Value] = ()) -> list[Value]:
    """Sort the nodes below `node_list` so that inputs come first.

    Post-order: the inputs of a node in their order, then the node; each node once. An explicit stack, so that a
    chain of any length works. The inputs of nodes in `stop` are not visited.

    >>> import needle as ndl
    >>> x = ndl.Tensor([3.0])
    >>> y = x * x + x
    >>> [node.op for node in find_topo_sort([y])][0] is None, find_topo_sort([y])[-1] is y
    (True, True)
    """
    order: list[Value] = []
    seen: set[Value] = set()
    for root in node_list:
        if root in seen:
            continue
        seen.add(root)
        stack = [(root, iter(() if root in stop else root.inputs))]
        while stack:
            node, inputs = stack[-1]
            for value in inputs:
                if value in seen:
                    continue
                seen.add(value)
                if value.inputs and value not in stop:
                    stack.append((value, iter(value.inputs)))
                    break
                order.append(value)
            else:
                order.append(node)
                stack.pop()
    return order


def propagate(
    gradients: Mapping[Value, Any],
    visit: Callable[[Value, Any], None],
    *,
    stop: Collection[Value] = (),
    freed: Op | None = None,
) -> None:
    """Carry the gradients of some outputs back through the graph, calling `visit(node, gradient)` at each node.

    A gradient that arrives more than once is summed, and dropped as soon as it has been handed on. With `freed`, each
    node's op is replaced by it once it has been used, so that memory is given back on the way.
    """
    order = find_topo_sort(gradients, stop)
    pending = dict(gradients)
    while order:
        node = order.pop()
        gradient = pending.pop(node, None)
        if gradient is None:
            continue
        if node.hooks:
            gradient = _hooked(node, gradient)
        visit(node, gradient)
        if node.op is None or node in stop:
            continue
        for value, part in zip(node.inputs, _input_gradients(node, gradient)):
            if part is not None and value.requires_grad:
                before = pending.get(value)
                pending[value] = part if before is None else before + part
        if freed is not None:
            node.op, node.inputs = freed, ()


def _hooked(node: Value, gradient: Any) -> Any:
    """Give the gradient that the node's hooks, called one after the other, make of `gradient`."""
    for hook in tuple(node.hooks.values()):
        replacement = hook(gradient)
        if replacement is None:
            continue
        if not isinstance(replacement, node.kind) or replacement.shape != node.shape:
            raise GradientError(
                f"hook: a gradient of shape {node.shape} was replaced by {kind_of(replacement)} of shape "
                f"{getattr(replacement, 'shape', None)}; return a {node.kind.__name__} of its shape, or None"
            )
        gradient = replacement
    return gradient


def _input_gradients(node: Value, gradient: Any) -> tuple[Any, ...]:
    """Give what node's op says its inputs' gradients are, checked."""
    op = node.op
    assert op is not None
    differentiate = op.gradient_as_tuple if node.watch is None else node.watch.differentiate
    versions = node.versions
    changed = versions and [value for value, at in zip((*node.inputs, node), versions) if value.version != at]
    if changed:
        with _unreadable(changed, type(op).__name__):
            gradients = differentiate(gradient, node)
    else:
        gradients = differentiate(gradient, node)
    if len(gradients) != len(node.inputs):
        raise GradientError(
            f"{type(op).__name__}.gradient returned {len(gradients)} gradients for {len(node.inputs)} inputs; "
            "return one per input"
        )
    for index, (value, part) in enumerate(zip(node.inputs, gradients)):
        if part is not None and not (isinstance(part, value.kind) and part.has_shape_of(value)):
            raise _misfit(node, index, part)
    return gradients


@contextlib.contextmanager
def _unreadable(changed: list[Value], reader: str) -> Iterator[None]:
    """Let no gradient read these values, which were changed since `reader` did."""
    outer, state.changed = state.changed, (*state.changed, *[(value, reader) for value in changed])
    try:
        yield
    finally:
        state.changed = outer


def _misfit(node: Value, index: int, part: Any) -> GradientError:
    """Make the error for a gradient that is not of its input's kind or shape."""
    what, value = f"{type(node.op).__name__}.gradient returned", node.inputs[index]
    if not isinstance(part, value.kind):
        return GradientError(f"{what} {kind_of(part)} for input {index}; return a {value.kind.__name__}")
    return GradientError(
        f"{what} shape {part.shape} for input {index} of shape {value.shape}; "
        "a gradient has the shape of its input (sum over the axes that were broadcast)"
    )


def check_unchanged(value: Value) -> None:
    """Raise where the gradient being computed needs a value that was written to after the forward pass read it."""
    for changed, reader in state.changed:
        if value is changed:
            made_by = "a leaf" if value.op is None else f"the result of {type(value.op).__name__}"
            raise GradientError(
                f"{reader}: backward needs a tensor of shape {value.shape} ({made_by}) that was changed in place or by "
                "setting `.data` after the forward pass read it; compute the output again before calling backward()"
            )


class BackwardCall:
    """A call of backward, remembered by the gradients it made so that they can be differentiated.

    The output is held weakly, so that no activation outlives it; except where it is itself a gradient that a replay
    has recorded, which nobody else need hold.
    """

    __slots__ = ("_output", "_out_grad", "_leaves")

    def __init__(self, output: Tensor, out_grad: Tensor) -> None:
        self._output: Callable[[], Tensor | None] = weakref.ref(output) if output._call is None else lambda: output
        self._out_grad = out_grad
        self._leaves: list[tuple[weakref.ref[Tensor], weakref.ref[Tensor], int]] = []

    def leaves(self) -> list[Tensor]:
        """Give the tensors that got a gradient, as far as they are alive."""
        return [leaf for reference, _, _ in self._leaves if (leaf := reference()) is not None]

    def assign(self, leaf: Tensor, gradient: Tensor) -> None:
        gradient._call = self
        leaf.grad = gradient
        self._leaves.append((weakref.ref(leaf), weakref.ref(gradient), gradient.version))

    def replay(self, gradient: Tensor) -> None:
        """Run the call again, recorded, and make `gradient` the node that it gives."""
        output = self._output()
        if output is None:
            raise GradientError(
                "backward: the output that this gradient came from is gone, and its graph with it; "
                "keep a reference to the output, or use backward(create_graph=True)"
            )
        leaf, version = next((leaf(), version) for leaf, made, version in self._leaves if made() is gradient)
        if gradient.version != version:
            raise GradientError("backward: this gradient was changed in place; use backward(create_graph=True)")
        recorded: dict[Value, Tensor] = {}
        with enable_grad():
            propagate({output: self._out_grad}, recorded.__setitem__)
        node = recorded[leaf]  # type: ignore[index]  # the graph of a live output keeps its leaves alive
        gradient.op, gradient.inputs, gradient.requires_grad = node.op, node.inputs, node.requires_grad
        gradient.versions, gradient._array = node.versions, node._array
