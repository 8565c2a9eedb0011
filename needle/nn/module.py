"""The base of all layers: finding parameters, modes, moving, saving, hooks, and what is printed."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import numpy as np

from needle import backend_ndarray as nd
from needle.autograd import NDArray, Tensor
from needle.backend_ndarray import BackendDevice
from needle.backend_ndarray.dtypes import as_floating, as_ndarray
from needle.errors import DeviceError, DTypeError, ShapeError, kind_of
from needle.nn.summary import summary

M = TypeVar("M", bound="Module")
Kind = Literal["module", "parameter", "buffer"]
Hook = Callable[..., Any]


class Parameter(Tensor):
    """A tensor that a module learns. Made like a Tensor; made from one, it shares that one's memory.

    >>> Parameter([1.0, 2.0])
    Parameter([1., 2.])
    """

    __slots__ = ()


class Module:
    """The base of all layers and models: a subclass sets attributes in `__init__` and defines `forward`.

    - *Parameters and modules* are found in attributes, also inside lists, tuples and dicts, nested, in the order in
      which they were set. One that is held twice counts once, under its first name.
    - *An attribute that was once a Parameter* goes on being one: a plain Tensor assigned to it takes its place, as the
      same object. (Inside a list or dict, replace a parameter by a Parameter.)
    - *Buffers* are tensors that are saved and moved with the module and not learned, such as running statistics;
      `register_buffer` names them. Any other plain Tensor attribute is the subclass's own business: it is neither.
    - *Freezing*: set `requires_grad = False` on parameters, and back, at any time.

    >>> import needle as ndl
    >>> class Scale(Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = Parameter([2.0])
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> scale = Scale()
    >>> scale(ndl.Tensor([3.0])).numpy().tolist(), len(scale.parameters())
    ([6.0], 1)
    """

    # Class-level defaults, replaced and never mutated: a subclass may leave out super().__init__().
    training: bool = True
    _parameter_names: frozenset[str] = frozenset()
    _buffer_names: frozenset[str] = frozenset()
    _forward_pre_hooks: Mapping[int, Hook] = MappingProxyType({})
    _forward_hooks: Mapping[int, Hook] = MappingProxyType({})

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter) and name not in self._parameter_names:
            self._parameter_names = self._parameter_names | {name}
            self._buffer_names = self._buffer_names - {name}
        super().__setattr__(name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output; a subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__}: define forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not (self._forward_pre_hooks or self._forward_hooks):
            return self.forward(*args, **kwargs)
        for hook in tuple(self._forward_pre_hooks.values()):
            replacement = hook(self, args)
            if replacement is not None:
                args = replacement if isinstance(replacement, tuple) else (replacement,)
        output = self.forward(*args, **kwargs)
        for hook in tuple(self._forward_hooks.values()):
            replacement = hook(self, args, output)
            output = output if replacement is None else replacement
        return output

    def register_forward_hook(self, hook: Hook) -> Callable[[], None]:
        """Call `hook(module, args, output)` after each forward; what it returns, if not None, replaces the output.

        Returns a function that removes the hook.

        >>> import needle as ndl
        >>> layer = Module()
        >>> layer.forward = lambda x: x + 1
        >>> remove = layer.register_forward_hook(lambda module, args, output: print(output.shape))
        >>> y = layer(ndl.Tensor([1.0, 2.0]))
        (2,)
        >>> remove()
        """
        return self._register("_forward_hooks", hook)

    def register_forward_pre_hook(self, hook: Hook) -> Callable[[], None]:
        """Call `hook(module, args)` before each forward; what it returns, if not None, replaces the arguments.

        Returns a function that removes the hook.
        """
        return self._register("_forward_pre_hooks", hook)

    def _register(self, hooks: str, hook: Hook) -> Callable[[], None]:
        if not callable(hook):
            raise DTypeError(f"{type(self).__name__}: a hook must be a function, got {kind_of(hook)}")
        key = max(getattr(self, hooks), default=0) + 1
        setattr(self, hooks, {**getattr(self, hooks), key: hook})

        def remove() -> None:
            setattr(self, hooks, {other: kept for other, kept in getattr(self, hooks).items() if other != key})

        return remove

    # What a module holds

    def register_buffer(self, name: str, tensor: Tensor | None) -> None:
        """Set the attribute `name` to `tensor`, detached, and make it a buffer; whatever is assigned later stays one.

        >>> module = Module()
        >>> module.register_buffer("count", Tensor([0.0]))
        >>> [name for name, buffer in module.named_buffers()]
        ['count']
        """
        if tensor is not None and not isinstance(tensor, Tensor):
            raise DTypeError(f"register_buffer: {name} must be a Tensor or None, got {kind_of(tensor)}")
        setattr(self, name, None if tensor is None else tensor.detach())
        self._parameter_names = self._parameter_names - {name}
        self._buffer_names = self._buffer_names | {name}

    def _attributes(self) -> Mapping[str, Any]:
        """Give what is searched for parameters and modules, by the names they get."""
        return vars(self)

    def _members(self) -> Iterator[tuple[Kind, str, Any]]:
        """Give the modules, parameters and buffers held directly, not through another module; repeats included."""
        for name, value in self._attributes().items():
            if name in _BOOKKEEPING:
                continue
            if isinstance(value, Tensor) and name in self._buffer_names:
                yield "buffer", name, value
            elif isinstance(value, Tensor) and name in self._parameter_names:
                yield "parameter", name, value
            else:
                yield from _unpack(name, value, set())

    def _walk(self, prefix: str, seen: set[int]) -> Iterator[tuple[Kind, str, Any]]:
        """Give everything held, with its path: depth first, in the order of the attributes, each object once."""
        if id(self) not in seen:
            seen.add(id(self))
            yield "module", prefix, self
            for kind, name, value in self._members():
                path = f"{prefix}.{name}" if prefix else name
                if kind == "module":
                    yield from value._walk(path, seen)
                elif id(value) not in seen:
                    seen.add(id(value))
                    yield kind, path, value

    def _named(self, kind: Kind) -> Iterator[tuple[str, Any]]:
        """Give what is held now: attributes may be set while iterating."""
        return iter([(path, value) for found, path, value in self._walk("", set()) if found == kind])

    def named_modules(self) -> Iterator[tuple[str, Module]]:
        """Give this module, named "", and all modules below it, with their paths.

        >>> from needle import nn
        >>> [name for name, module in nn.Residual(nn.Sequential(nn.ReLU())).named_modules()]
        ['', 'fn', 'fn.0']
        """
        return self._named("module")

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Give the parameters with their paths.

        >>> from needle import nn
        >>> [name for name, parameter in nn.Sequential(nn.Linear(2, 3)).named_parameters()]
        ['0.weight', '0.bias']
        """
        return self._named("parameter")

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Give the buffers with their paths.

        >>> from needle import nn
        >>> [name for name, buffer in nn.BatchNorm1d(2).named_buffers()]
        ['running_mean', 'running_var']
        """
        return self._named("buffer")

    def parameters(self) -> list[Tensor]:
        """Give the parameters of this module and of all modules below it."""
        return [parameter for _, parameter in self.named_parameters()]

    def _children(self) -> list[Module]:
        """Give all modules below this one."""
        return [module for _, module in self.named_modules()][1:]

    # What is done to all of it

    def apply(self: M, fn: Callable[[Module], Any]) -> M:
        """Call `fn` on every module below this one, then on this one, each after those that it holds; give this one."""
        self._apply(fn, set())
        return self

    def _apply(self, fn: Callable[[Module], Any], seen: set[int]) -> None:
        seen.add(id(self))
        for module in [value for kind, _, value in self._members() if kind == "module"]:
            if id(module) not in seen:
                module._apply(fn, seen)
        fn(self)

    def train(self: M, mode: bool = True) -> M:
        """Put this module and all below it into training mode; give this module."""
        for _, module in self.named_modules():
            module.training = mode
        return self

    def eval(self: M) -> M:
        """Put this module and all below it into evaluation mode; give this module."""
        return self.train(False)

    def reset_grad(self) -> None:
        """Set the gradients of all parameters to None."""
        for parameter in self.parameters():
            parameter.grad = None

    zero_grad = reset_grad  # PyTorch's name

    def to(self: M, device: BackendDevice | None = None, dtype: Any = None) -> M:
        """Move parameters, their gradients and buffers to `device`, the floating ones to `dtype`; give this module.

        The tensors stay the same objects, so an optimizer goes on with them as long as it holds no state of the
        former device or dtype: make it after moving.

        >>> from needle import nn
        >>> nn.Linear(2, 3).to(dtype="float64").weight.dtype
        dtype('float64')
        """
        if device is not None and not isinstance(device, BackendDevice):
            raise DeviceError(f"to: expected a device such as needle.cpu(), got {device!r}; a dtype is given by dtype=")
        dtype = None if dtype is None else as_floating(dtype, "to")
        for tensor in self._state().values():
            tensor.cached_data = _moved(tensor.cached_data, device, dtype)
            if tensor.requires_grad and tensor.grad is not None:
                tensor.grad = Tensor.make_const(_moved(tensor.grad.cached_data, device, dtype))
        return self

    def summary(self, input_shape: Sequence[int]) -> str:
        """Give a table of all modules: output shapes for an input of `input_shape` (batch axis included), parameters.

        A copy of the module in evaluation mode is run on zeros: statistics, modes and random state stay as they are.

        >>> from needle import nn
        >>> print(nn.Sequential(nn.Linear(4, 3), nn.ReLU()).summary((1, 4)))
        Name  Layer       Output shape  Parameters
              Sequential  (1, 3)                 0
        0     Linear      (1, 3)                15
        1     ReLU        (1, 3)                 0
        15 parameters, 15 of them trainable
        """
        return summary(self, input_shape)

    # Saving

    def _state(self) -> dict[str, Tensor]:
        """Give all parameters and buffers by their paths."""
        state: dict[str, Tensor] = {}
        for kind, path, value in self._walk("", set()):
            if kind != "module":
                if path in state:
                    raise ShapeError(f"{type(self).__name__}: two tensors are named {path}; rename a key of a dict")
                state[path] = value
        return state

    def state_dict(self) -> dict[str, np.ndarray[Any, Any]]:
        """Give copies of all parameters and buffers, as NumPy arrays, by their paths.

        >>> from needle import nn
        >>> {name: array.shape for name, array in nn.Linear(2, 3).state_dict().items()}
        {'weight': (2, 3), 'bias': (1, 3)}
        """
        return {path: tensor.numpy() for path, tensor in self._state().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Copy `state` (arrays or Tensors by path, as `state_dict` gives) into the parameters and buffers, in place.

        Values are converted to the dtype that is there. To load a part, complete it: `{**model.state_dict(), **part}`.

        Raises:
            ShapeError: names missing or unexpected, or shapes that differ. It names them all; nothing is changed then.
            DTypeError: the state is no dict, or a value no array of real numbers; nothing is changed then.
        """
        name = f"{type(self).__name__}.load_state_dict"
        if not isinstance(state, Mapping):
            raise DTypeError(
                f"{name}: expected a dict of arrays by path, got {kind_of(state)}"
                + ("; give its state_dict()" if hasattr(state, "state_dict") else "")
            )
        for path, value in state.items():
            if isinstance(value, Mapping):
                raise DTypeError(f"{name}: {path!r} is a dict; give state[{path!r}]")
        own = self._state()
        arrays = {path: as_ndarray(f"{name}: {path}", value) for path, value in state.items()}
        misfits = _misfits(own, arrays)
        if misfits:
            raise ShapeError(f"{name}: the state is not one of this module: {'; '.join(misfits)}")
        converted = [nd.array(arrays[path], dtype=tensor.dtype, device=tensor.device) for path, tensor in own.items()]
        for tensor, array in zip(own.values(), converted, strict=True):
            tensor.cached_data[...] = array

    # Printing

    def extra_repr(self) -> str:
        """Give what stands between the parentheses of the `repr`: a layer's settings."""
        return ""

    @reprlib.recursive_repr()
    def __repr__(self) -> str:
        children = [f"({name}): {value!r}" for kind, name, value in self._members() if kind == "module"]
        settings = self.extra_repr()
        if not children:
            return f"{type(self).__name__}({settings})"
        lines = "\n".join(([settings] if settings else []) + children).replace("\n", "\n  ")
        return f"{type(self).__name__}(\n  {lines}\n)"


_BOOKKEEPING = frozenset(Module.__annotations__)


def _unpack(name: str, value: Any, within: set[int]) -> Iterator[tuple[Kind, str, Any]]:
    """Give the modules and Parameters in a value, or in the lists, tuples and dicts that it is made of."""
    if isinstance(value, Module):
        yield "module", name, value
    elif isinstance(value, Parameter):
        yield "parameter", name, value
    elif isinstance(value, (dict, list, tuple)) and id(value) not in within:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _unpack(f"{name}.{key}", item, within | {id(value)})


def _misfits(own: Mapping[str, Tensor], arrays: Mapping[str, np.ndarray[Any, Any]]) -> list[str]:
    """Say what keeps `arrays` from being loaded into the tensors `own`."""
    misfits = [f"missing {path}" for path in own if path not in arrays]
    for path, array in arrays.items():
        if path not in own:
            misfits.append(f"unexpected {path}")
        elif array.shape != own[path].shape:
            misfits.append(f"{path} of shape {array.shape}, expected {own[path].shape}")
    return misfits


def _moved(array: NDArray, device: BackendDevice | None, dtype: Any) -> NDArray:
    """Give the array itself where nothing changes, else a copy."""
    dtype = array.dtype if dtype is None or array.dtype.kind != "f" else np.dtype(dtype)
    if dtype == array.dtype and device in (None, array.device):
        return array
    return nd.array(array, dtype=dtype, device=device)
