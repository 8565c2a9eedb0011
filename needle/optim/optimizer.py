"""The base of all optimizers: parameter groups, the step, and saving."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from needle import backend_ndarray as nd
from needle.autograd import NDArray, Tensor
from needle.backend_ndarray.dtypes import as_ndarray
from needle.errors import DeviceError, DTypeError, GradientError, OptionError, ShapeError, kind_of
from needle.ops.arguments import integer, number
from needle.optim.clip import clip_grad_norm, listed_parameters

Group = dict[str, Any]


class Hyperparameter:
    """An attribute of an optimizer that stands for the entry of that name in all its groups.

    Setting it sets them all; reading it gives their common value, and raises where they differ.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, optimizer: Optimizer | None, owner: type) -> Any:
        if optimizer is None:
            return self
        value = optimizer.param_groups[0][self._name]
        if any(group[self._name] != value for group in optimizer.param_groups):
            raise AttributeError(f"{type(optimizer).__name__}: {self._name} differs between groups; read param_groups")
        return value

    def __set__(self, optimizer: Optimizer, value: Any) -> None:
        for group in optimizer.param_groups:
            group[self._name] = value


class Optimizer:
    """Updates parameters in place from their gradients, which it leaves as they are.

    Args:
        params: an iterable of tensors, or of groups: dicts with "params" and any of the hyperparameters by name, to be
            used for these parameters instead of `defaults`. A parameter listed twice in a group is updated once.
        defaults: the hyperparameters.

    `param_groups` lists the groups; `params` all parameters; `t` counts steps. Parameters whose gradient is None, and
    frozen ones (requires_grad False), are left alone. The values of a parameter stay in their memory, so `p.data`
    taken before a step shows it.

    A subclass defines `_update`, or `step` whole.

    Raises:
        ShapeError: there are no parameters.
        OptionError: a parameter in two groups; a hyperparameter out of its range, or that the optimizer does not have.
        DTypeError: what is no floating-point tensor.
        GradientError: a tensor that an op made.
    """

    _state_names: tuple[str, ...] = ()  # attributes that map a parameter to an array of its shape

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, Any] | None = None) -> None:
        self.defaults = dict(defaults or {})
        self.param_groups: list[Group] = []
        self.params: list[Tensor] = []
        self.t = 0
        for name in self._state_names:
            setattr(self, name, {})
        listed = listed_parameters(self._name, params)
        if not listed:
            raise ShapeError(
                f"{self._name}: there are no parameters; the list is empty (or an iterator used up); "
                "a module has those tensors that are wrapped in nn.Parameter"
            )
        groups = listed if any(isinstance(entry, Mapping) for entry in listed) else [{"params": listed}]
        for group in groups:
            self.add_param_group(group)

    @property
    def _name(self) -> str:
        return type(self).__name__

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Add a group: a dict with "params", an iterable of tensors or one, and any of the hyperparameters by name."""
        if not isinstance(group, Mapping):
            raise DTypeError(f"{self._name}: a group must be a dict with params, got {kind_of(group)}")
        unknown = set(group) - set(self.defaults) - {"params"}
        if unknown or "params" not in group:
            known = ", ".join(["params", *self.defaults])
            raise OptionError(f"{self._name}: a group has params and maybe some of {known}; got {', '.join(group)}")
        given = group["params"]
        listed = [given] if isinstance(given, Tensor) else listed_parameters(f"{self._name}: params of a group", given)
        for index, p in enumerate(listed):
            self._check_parameter(index, p)
        params = list(dict.fromkeys(listed))
        if not set(params).isdisjoint(self.params):
            raise OptionError(f"{self._name}: a parameter is in two groups; list it in one")
        merged = {**self.defaults, **group, "params": params}
        self._check_hyperparameters(merged)
        self.param_groups.append(merged)
        self.params += params

    def _check_parameter(self, index: int, p: Any) -> None:
        if not isinstance(p, Tensor):
            raise DTypeError(f"{self._name}: parameter {index} must be a Tensor, got {kind_of(p)}")
        if not p.is_leaf():
            raise GradientError(f"{self._name}: parameter {index} is the result of an op; only leaves can be updated")
        if p.dtype.kind != "f":
            raise DTypeError(f"{self._name}: parameter {index} is of dtype {p.dtype}; convert it to a float dtype")

    def _check_hyperparameters(self, group: Group) -> None:
        """Raise where a value is out of its range; a subclass says which are."""

    def _check_range(self, group: Group, name: str, below: float = float("inf")) -> None:
        if not 0 <= number(self._name, name, group[name]) < below:
            limit = "" if below == float("inf") else f" and below {below:g}"
            raise OptionError(f"{self._name}: {name} must be at least 0{limit}, got {group[name]}")

    def reset_grad(self) -> None:
        """Set all gradients to None."""
        for p in self.params:
            p.grad = None

    zero_grad = reset_grad  # PyTorch's name

    def clip_grad_norm(self, max_norm: float = 0.25) -> float:
        """Scale the gradients to a common norm of at most `max_norm`; see `optim.clip_grad_norm`."""
        return clip_grad_norm(self.params, max_norm)

    def step(self) -> None:
        """Update every parameter that has a gradient, as one kernel call per group.

        Raises:
            ShapeError, DTypeError, DeviceError: a gradient, or state of former steps, does not match its parameter, and
                none of the group is changed. (A gradient of another dtype is converted.)
        """
        self._check_devices()
        self.t += 1
        for group in self.param_groups:
            ready = [(p, grad) for p in group["params"] if p.requires_grad and (grad := p.grad) is not None]
            for p, _ in ready:
                _unshare(p)
            if ready:
                grads = [_converted(grad.cached_data, p.dtype) for p, grad in ready]
                self._update([p for p, _ in ready], grads, group)

    def _check_devices(self) -> None:
        for arrays in self._states().values():
            for p, array in arrays.items():
                if array.device is not p.device and array.device != p.device:
                    raise DeviceError(
                        f"{self._name}: its state is on {array.device}, the parameters on {p.device}; "
                        "make the optimizer after moving, or load its state_dict again"
                    )

    def _update(self, params: list[Tensor], grads: list[NDArray], group: Group) -> None:
        """Update these parameters of the group in place from their gradients."""
        raise NotImplementedError(f"{self._name}: define _update() or step()")

    def _states(self) -> dict[str, dict[Tensor, NDArray]]:
        return {name: getattr(self, name) for name in self._state_names}

    # Saving

    def state_dict(self) -> dict[str, Any]:
        """Give all that resuming bit for bit takes: steps, groups (with numbers for parameters) and copied state.

        The state is a list for each name, with an array, or None, for each parameter.

        >>> from needle import nn, optim
        >>> optim.SGD(nn.Linear(2, 3).parameters(), lr=0.1).state_dict()["param_groups"][0]["params"]
        [0, 1]
        """
        number = {p: index for index, p in enumerate(self.params)}
        groups = [{**group, "params": [number[p] for p in group["params"]]} for group in self.param_groups]
        state = {
            name: [arrays[p].numpy() if p in arrays else None for p in self.params]
            for name, arrays in self._states().items()
        }
        return {"t": self.t, "param_groups": groups, "state": state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` of an optimizer of this class over the same parameters gave.

        Raises:
            ShapeError: groups, hyperparameters or arrays that do not fit. It names them all; nothing is changed then.
            OptionError, DTypeError: values out of range, or that are no numbers. Nothing is changed then either.
        """
        name = f"{self._name}.load_state_dict"
        if not isinstance(state, Mapping):
            raise DTypeError(f"{name}: expected what state_dict() gives, got {kind_of(state)}")
        problems = self._misfits(state)
        if problems:
            raise ShapeError(f"{name}: the state does not fit: {'; '.join(problems)}")
        t = integer(name, "t", state["t"], 0)
        for group in state["param_groups"]:
            self._check_hyperparameters(group)
        states = {
            key: {
                p: nd.array(a, dtype=p.dtype, device=p.device)
                for p, a in zip(self.params, arrays, strict=True)
                if a is not None
            }
            for key, arrays in state["state"].items()
        }
        self.t = t
        for group, saved in zip(self.param_groups, state["param_groups"], strict=True):
            group.update({**saved, "params": group["params"]})
        for key, loaded in states.items():
            setattr(self, key, loaded)

    def _misfits(self, state: Mapping[str, Any]) -> list[str]:
        missing = [f"missing {name}" for name in ("t", "param_groups", "state") if name not in state]
        if missing:
            return missing
        sizes, own_sizes = [[len(g["params"]) for g in groups] for groups in (state["param_groups"], self.param_groups)]
        if sizes != own_sizes:
            return [f"groups of {sizes} parameters, expected {own_sizes}"]
        problems = [f"missing {name}" for g in state["param_groups"] for name in self.defaults if name not in g]
        if set(state["state"]) != set(self._state_names):
            return [*problems, f"state of {sorted(state['state'])}, expected {sorted(self._state_names)}"]
        for name, arrays in state["state"].items():
            if len(arrays) != len(self.params):
                problems.append(f"{name} of {len(arrays)} parameters, expected {len(self.params)}")
            for index, (p, array) in enumerate(zip(self.params, arrays)):
                what = f"{name} of parameter {index}"
                shape = p.shape if array is None else as_ndarray(f"{self._name}.load_state_dict: {what}", array).shape
                if shape != p.shape:
                    problems.append(f"{what} has shape {shape}, expected {p.shape}")
        return problems

    def __repr__(self) -> str:
        lines = []
        for group in self.param_groups:
            settings = ", ".join(f"{name}={value}" for name, value in group.items() if name != "params")
            lines.append(f"  {len(group['params'])} parameters: {settings}\n")
        return f"{self._name}(\n{''.join(lines)})"


def _unshare(p: Tensor) -> None:
    """Copy p's array where it is a broadcast one, whose elements lie in the same memory."""
    array = p.cached_data
    if 0 not in array.strides:
        return
    if any(stride == 0 and length > 1 for stride, length in zip(array.strides, array.shape, strict=True)):
        p.cached_data = array.compact()


def _converted(grad: NDArray, dtype: np.dtype[Any]) -> NDArray:
    return grad if grad.dtype == dtype else grad.astype(dtype)


def zeros_like(p: Tensor) -> NDArray:
    """Fresh state for a parameter."""
    return nd.full(p.shape, 0.0, dtype=p.dtype, device=p.device)
