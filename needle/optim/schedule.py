"""Schedules of the learning rate, with PyTorch's names, arguments and values.

A schedule is a function of the number of its steps so far, `last_epoch`, and of each group's base rate, so it is
resumed by setting that number. Making one sets the rates of step 0; `step()` sets those of the next.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from needle.errors import DTypeError, OptionError, ShapeError, kind_of
from needle.ops.arguments import fraction, integer, number
from needle.optim.optimizer import Optimizer

Values = dict[str, float]  # hyperparameters by name


class LRScheduler:
    """The base of all schedules: sets each group's learning rate. A subclass defines `_rate`.

    Args:
        optimizer: whose groups' rates are set. Their rates when the first schedule is made are the base rates, kept in
            the groups as "initial_lr".
        last_epoch: the number of steps done so far, less one; for resuming without `load_state_dict`.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        name = type(self).__name__
        self.optimizer = _optimizer(name, optimizer)
        if integer(name, "last_epoch", last_epoch, -1) == -1:
            for group in optimizer.param_groups:
                group.setdefault("initial_lr", group["lr"])
        elif any("initial_lr" not in group for group in optimizer.param_groups):
            raise OptionError(f"{name}: resuming at last_epoch={last_epoch} needs initial_lr in all groups; load them")
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch + 1
        self._apply()

    def _rate(self, step: int, base: float) -> float:
        """Give the rate after `step` steps of a group with the base rate `base`."""
        raise NotImplementedError(f"{type(self).__name__}: define _rate()")

    def _values(self, step: int) -> list[Values]:
        """Give what is set in each group after `step` steps."""
        return [{"lr": self._rate(step, base)} for base in self.base_lrs]

    def _apply(self) -> None:
        groups, values = self.optimizer.param_groups, self._values(self.last_epoch)
        if len(groups) != len(values):
            raise ShapeError(
                f"{type(self).__name__}: made for {len(values)} groups, but the optimizer has {len(groups)} now; "
                "make the schedule after the last add_param_group"
            )
        for group, group_values in zip(groups, values, strict=True):
            group.update(group_values)

    def step(self) -> None:
        """Set the rates of the next step; to be called after `optimizer.step()`, once per epoch or per batch."""
        self.last_epoch += 1
        self._apply()

    def get_last_lr(self) -> list[float]:
        """Give the groups' present rates."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Give what resuming takes, beside the arguments the schedule was made with."""
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where `state_dict` was taken, and set the rates of that step."""
        if set(state) != {"last_epoch", "base_lrs"} or len(state["base_lrs"]) != len(self.base_lrs):
            raise ShapeError(
                f"{type(self).__name__}.load_state_dict: expected last_epoch and base_lrs of {len(self.base_lrs)} "
                f"groups, got {dict(state)}"
            )
        self.last_epoch, self.base_lrs = state["last_epoch"], list(state["base_lrs"])
        self._apply()


class StepLR(LRScheduler):
    """base * gamma ** (step // step_size).

    >>> from needle import nn, optim
    >>> opt = optim.SGD([nn.Parameter([1.0])], lr=1.0)
    >>> schedule, rates = StepLR(opt, step_size=2), []
    >>> for _ in range(4):
    ...     rates.append(round(opt.lr, 6))
    ...     schedule.step()
    >>> rates
    [1.0, 1.0, 0.1, 0.1]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = integer("StepLR", "step_size", step_size, 1), number("StepLR", "gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def _rate(self, step: int, base: float) -> float:
        return base * self.gamma ** (step // self.step_size)


class MultiStepLR(LRScheduler):
    """base * gamma ** (how many of the milestones are reached).

    >>> from needle import nn, optim
    >>> opt = optim.SGD([nn.Parameter([1.0])], lr=1.0)
    >>> schedule, rates = MultiStepLR(opt, milestones=[2, 3]), []
    >>> for _ in range(4):
    ...     rates.append(round(opt.lr, 6))
    ...     schedule.step()
    >>> rates
    [1.0, 1.0, 0.1, 0.01]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        if not isinstance(milestones, Iterable):
            raise DTypeError(f"MultiStepLR: milestones must be a list of steps, got {kind_of(milestones)}")
        self.milestones = sorted(integer("MultiStepLR", "a milestone", step, 0) for step in milestones)
        self.gamma = number("MultiStepLR", "gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def _rate(self, step: int, base: float) -> float:
        return base * self.gamma ** bisect_right(self.milestones, step)


class ExponentialLR(LRScheduler):
    """base * gamma ** step.

    >>> from needle import nn, optim
    >>> opt = optim.SGD([nn.Parameter([1.0])], lr=1.0)
    >>> schedule = ExponentialLR(opt, gamma=0.5)
    >>> schedule.step()
    >>> opt.lr
    0.5
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = number("ExponentialLR", "gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def _rate(self, step: int, base: float) -> float:
        return base * self.gamma**step


class LinearLR(LRScheduler):
    """base times a factor that goes from start_factor to end_factor in total_iters equal steps, and stays there.

    >>> from needle import nn, optim
    >>> opt = optim.SGD([nn.Parameter([1.0])], lr=1.0)
    >>> LinearLR(opt, start_factor=0.25).get_last_lr()
    [0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        ends = number("LinearLR", "start_factor", start_factor), number("LinearLR", "end_factor", end_factor)
        if not 0 < ends[0] <= 1 or not 0 <= ends[1] <= 1:
            raise OptionError(
                f"LinearLR: factors must lie between 0 and 1, start_factor above 0, got {start_factor} and {end_factor}"
            )
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = integer("LinearLR", "total_iters", total_iters, 1)
        super().__init__(optimizer, last_epoch)

    def _rate(self, step: int, base: float) -> float:
        done = min(step, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * done)


class CosineAnnealingLR(LRScheduler):
    """eta_min + (base - eta_min) * (1 + cos(pi * step / T_max)) / 2 (Loshchilov and Hutter, 2017), without restarts.

    >>> from needle import nn, optim
    >>> opt = optim.SGD([nn.Parameter([1.0])], lr=1.0)
    >>> schedule = CosineAnnealingLR(opt, T_max=2)
    >>> schedule.step()
    >>> round(opt.lr, 6)
    0.5
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = integer("CosineAnnealingLR", "T_max", T_max, 1)
        self.eta_min = number("CosineAnnealingLR", "eta_min", eta_min)
        super().__init__(optimizer, last_epoch)

    def _rate(self, step: int, base: float) -> float:
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * step / self.T_max)) / 2


class OneCycleLR(LRScheduler):
    """Up from max_lr / div_factor to max_lr, then down to max_lr / div_factor / final_div_factor.

    Source: Smith and Topin, "Super-convergence" (2018).
    Momentum (SGD's, or Adam's beta1) goes the other way, from max_momentum to base_momentum and back, unless
    `cycle_momentum` is False.

    Args:
        optimizer: whose groups are set.
        max_lr: the highest rate; one, or one for each group. So are base_momentum and max_momentum.
        total_steps: the length of the cycle; or else epochs times steps_per_epoch.
        pct_start: the share of the cycle in which the rate goes up.
        anneal_strategy: "cos" or "linear".
        cycle_momentum, base_momentum, max_momentum: see above.
        div_factor, final_div_factor: see above.
        three_phase: come down to the initial rate as slowly as up, then to the final one.
        last_epoch: see `LRScheduler`.

    Raises:
        OptionError: a step beyond the cycle, among others.

    >>> from needle import nn, optim
    >>> opt = optim.SGD([nn.Parameter([1.0])], momentum=0.9)
    >>> schedule = OneCycleLR(opt, max_lr=1.0, total_steps=10)
    >>> round(opt.lr, 6), opt.momentum
    (0.04, 0.95)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.total_steps = _cycle_length(total_steps, epochs, steps_per_epoch)
        if anneal_strategy not in _ANNEAL:
            raise OptionError(f"OneCycleLR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}")
        self.anneal_strategy = anneal_strategy
        self._momentum = _momentum_name(_optimizer("OneCycleLR", optimizer)) if cycle_momentum else None
        groups = len(optimizer.param_groups)
        self.max_lrs = _per_group("max_lr", max_lr, groups)
        self.max_momenta = _per_group("max_momentum", max_momentum, groups)
        self.base_momenta = _per_group("base_momentum", base_momentum, groups)
        for name, factor in (("div_factor", div_factor), ("final_div_factor", final_div_factor)):
            if not number("OneCycleLR", name, factor) > 0:
                raise OptionError(f"OneCycleLR: {name} must be above 0, got {factor}")
        self.div_factor, self.final_div_factor = div_factor, final_div_factor
        up = fraction("OneCycleLR", "pct_start", pct_start) * self.total_steps - 1
        self._ends = [up, 2 * up, self.total_steps - 1.0][0 : 3 : 1 if three_phase else 2]
        if last_epoch == -1:
            for group, peak in zip(optimizer.param_groups, self.max_lrs, strict=True):
                group["initial_lr"] = peak / div_factor
        super().__init__(optimizer, last_epoch)

    def _values(self, step: int) -> list[Values]:
        if step > self.total_steps:  # the step after the last one may be made, though its rate is for nothing
            raise OptionError(f"OneCycleLR: step {step} is beyond the cycle of {self.total_steps} steps")
        phase = next((index for index, end in enumerate(self._ends) if step <= end), len(self._ends) - 1)
        start, end = self._ends[phase - 1] if phase else 0.0, self._ends[phase]
        done = (step - start) / (end - start) if end > start else 1.0
        return [self._group_values(group, phase, done) for group in range(len(self.max_lrs))]

    def _group_values(self, group: int, phase: int, done: float) -> Values:
        initial, peak = self.base_lrs[group], self.max_lrs[group]
        high, low = self.max_momenta[group], self.base_momenta[group]
        rates = [initial, peak, *([initial] if len(self._ends) == 3 else []), initial / self.final_div_factor]
        momenta = [high, low, high, high]
        anneal = _ANNEAL[self.anneal_strategy]
        values = {"lr": anneal(rates[phase], rates[phase + 1], done)}
        if self._momentum is not None:
            values[self._momentum] = anneal(momenta[phase], momenta[phase + 1], done)
        return values


class SequentialLR(LRScheduler):
    """Follow one schedule after another: schedulers[k + 1] begins, at its step 0, at milestones[k].

    All must be made for the same optimizer; only the SequentialLR is stepped.

    >>> from needle import nn, optim
    >>> opt = optim.SGD([nn.Parameter([1.0])], lr=1.0)
    >>> parts = [LinearLR(opt, start_factor=0.5, total_iters=2), ExponentialLR(opt, gamma=0.1)]
    >>> schedule, rates = SequentialLR(opt, parts, milestones=[2]), []
    >>> for _ in range(4):
    ...     rates.append(round(opt.lr, 6))
    ...     schedule.step()
    >>> rates
    [0.5, 0.75, 1.0, 0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        if not schedulers or len(milestones) != len(schedulers) - 1:
            raise ShapeError(
                f"SequentialLR: {len(schedulers)} schedulers need one milestone between each two, got {len(milestones)}"
            )
        for scheduler in schedulers:
            if not isinstance(scheduler, LRScheduler):
                raise DTypeError(f"SequentialLR: expected schedules, got {kind_of(scheduler)}")
        if any(scheduler.optimizer is not optimizer for scheduler in schedulers):
            raise OptionError("SequentialLR: the schedulers are of different optimizers; make them for the one given")
        self.schedulers = list(schedulers)
        self.milestones = [integer("SequentialLR", "a milestone", step, 0) for step in milestones]
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Give what resuming takes, the state of each of the schedulers included."""
        return {**super().state_dict(), "schedulers": [scheduler.state_dict() for scheduler in self.schedulers]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where `state_dict` was taken, and set the rates of that step."""
        own, parts = dict(state), state.get("schedulers", [])
        if len(parts) != len(self.schedulers):
            raise ShapeError(f"SequentialLR.load_state_dict: {len(parts)} states for {len(self.schedulers)} schedulers")
        for scheduler, part in zip(self.schedulers, parts, strict=True):
            scheduler.load_state_dict(part)
        del own["schedulers"]
        super().load_state_dict(own)

    def _values(self, step: int) -> list[Values]:
        index = bisect_right(self.milestones, step)
        begin = self.milestones[index - 1] if index else 0
        return self.schedulers[index]._values(step - begin)


def _optimizer(name: str, optimizer: Optimizer) -> Optimizer:
    if not isinstance(optimizer, Optimizer):
        raise DTypeError(f"{name}: expected an optimizer, got {kind_of(optimizer)}")
    return optimizer


def _linear(start: float, end: float, done: float) -> float:
    return start + (end - start) * done


def _cosine(start: float, end: float, done: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * done)) / 2


_ANNEAL = {"linear": _linear, "cos": _cosine}


def _cycle_length(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total_steps is None:
        if epochs is None or steps_per_epoch is None:
            raise OptionError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
        total_steps = epochs * steps_per_epoch
    return integer("OneCycleLR", "total_steps", total_steps, 1)


def _momentum_name(optimizer: Optimizer) -> str:
    """Give the name of the hyperparameter that goes the other way."""
    for name in ("momentum", "beta1"):
        if name in optimizer.defaults:
            return name
    raise OptionError("OneCycleLR: the optimizer has neither momentum nor beta1; set cycle_momentum=False")


def _per_group(name: str, value: float | Sequence[float], groups: int) -> list[float]:
    given = list(value) if isinstance(value, (list, tuple)) else [value] * groups
    values = [float(number("OneCycleLR", name, one)) for one in given]
    if len(values) != groups:
        raise ShapeError(f"OneCycleLR: {name} has {len(values)} values for {groups} groups")
    return values
