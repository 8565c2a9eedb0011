"""needle.optim.schedule: the values, PyTorch's beside them, groups, resuming, errors."""

from functools import partial

import pytest

from needle import nn, optim
from needle.errors import DTypeError, OptionError, ShapeError

SCHEDULES = {
    "StepLR": lambda m, o: m.StepLR(o, step_size=3, gamma=0.5),
    "MultiStepLR": lambda m, o: m.MultiStepLR(o, milestones=[7, 2, 7], gamma=0.3),
    "ExponentialLR": lambda m, o: m.ExponentialLR(o, gamma=0.9),
    "LinearLR": lambda m, o: m.LinearLR(o),
    "LinearLR down": lambda m, o: m.LinearLR(o, start_factor=1.0, end_factor=0.1, total_iters=7),
    "CosineAnnealingLR": lambda m, o: m.CosineAnnealingLR(o, T_max=5, eta_min=0.01),
    "OneCycleLR": lambda m, o: m.OneCycleLR(o, max_lr=1.0, total_steps=12),
    "OneCycleLR groups": lambda m, o: m.OneCycleLR(o, max_lr=[1.0, 2.0], epochs=3, steps_per_epoch=4, pct_start=0.5),
    "OneCycleLR linear": lambda m, o: m.OneCycleLR(o, max_lr=1.0, total_steps=12, anneal_strategy="linear"),
    "OneCycleLR three phases": lambda m, o: m.OneCycleLR(
        o, max_lr=1.0, total_steps=12, three_phase=True, div_factor=10, final_div_factor=100, pct_start=0.25,
        base_momentum=[0.8, 0.7], max_momentum=0.9,
    ),
    "OneCycleLR at once": lambda m, o: m.OneCycleLR(o, max_lr=1.0, total_steps=12, pct_start=0.0, cycle_momentum=False),
    "SequentialLR": lambda m, o: m.SequentialLR(
        o, [m.LinearLR(o, start_factor=0.1, total_iters=4), m.CosineAnnealingLR(o, T_max=8)], milestones=[4]
    ),
    "SequentialLR of three": lambda m, o: m.SequentialLR(
        o, [m.LinearLR(o), m.StepLR(o, step_size=2), m.ExponentialLR(o, gamma=0.5)], milestones=[3, 8]
    ),
}  # fmt: skip


def sgd(lr=0.5):
    return optim.SGD(
        [{"params": [nn.Parameter([1.0])]}, {"params": [nn.Parameter([1.0])], "lr": 0.1}], lr, momentum=0.9
    )


def rates(opt, schedule, steps):
    """What each step would use: the rates and momenta of both groups, read before it."""
    seen = []
    for _ in range(steps):
        assert schedule.get_last_lr() == [group["lr"] for group in opt.param_groups]
        seen.append([group[name] for group in opt.param_groups for name in ("lr", "momentum")])
        opt.step()
        schedule.step()
    return seen


@pytest.mark.parity
@pytest.mark.parametrize("row", SCHEDULES)
def test_values_are_pytorchs(row):
    torch = pytest.importorskip("torch")
    opt = sgd()
    ours = rates(opt, SCHEDULES[row](optim, opt), 12)
    groups = [{"params": [torch.zeros(1)]}, {"params": [torch.zeros(1)], "lr": 0.1}]
    opt = torch.optim.SGD(groups, 0.5, momentum=0.9)
    theirs = rates(opt, SCHEDULES[row](torch.optim.lr_scheduler, opt), 12)
    for got, expected in zip(ours, theirs, strict=True):
        assert got == pytest.approx(expected, rel=1e-10, abs=1e-14)


@pytest.mark.parametrize("row", SCHEDULES)
def test_resumes(row):
    opt = sgd()
    whole = rates(opt, SCHEDULES[row](optim, opt), 12)
    opt = sgd()
    schedule = SCHEDULES[row](optim, opt)
    start = rates(opt, schedule, 5)
    states = opt.state_dict(), schedule.state_dict()
    opt = sgd(lr=0.25)
    schedule = SCHEDULES[row](optim, opt)
    opt.load_state_dict(states[0])
    schedule.load_state_dict(states[1])
    assert start + rates(opt, schedule, 7) == whole


@pytest.mark.parametrize(
    "make", [partial(optim.StepLR, step_size=3), partial(optim.OneCycleLR, max_lr=1.0, total_steps=12)]
)
def test_resumes_by_last_epoch(make):
    opt = sgd()
    whole = rates(opt, make(opt), 12)
    opt = sgd()
    rates(opt, make(opt), 5)
    state, opt = opt.state_dict(), sgd()
    opt.load_state_dict(state)
    assert rates(opt, make(opt, last_epoch=4), 7) == whole[5:]
    with pytest.raises(OptionError, match=f"{make.func.__name__}: resuming at last_epoch=4 needs initial_lr"):
        make(sgd(), last_epoch=4)


def test_adams_beta1_cycles():
    opt = optim.Adam([nn.Parameter([1.0])])
    schedule = optim.OneCycleLR(opt, max_lr=1.0, total_steps=10)
    assert opt.beta1 == 0.95
    for _ in range(2):
        schedule.step()
    assert opt.beta1 == pytest.approx(0.85) and opt.lr == pytest.approx(1.0)


def test_one_cycle_ends():
    schedule = optim.OneCycleLR(sgd(), max_lr=1.0, total_steps=3)
    for _ in range(3):
        schedule.step()  # as many as there are steps, in a loop that steps the schedule last
    with pytest.raises(OptionError, match="OneCycleLR: step 4 is beyond the cycle of 3 steps"):
        schedule.step()


def test_own_schedule():
    class Halves(optim.LRScheduler):
        def _rate(self, step, base):
            return base / (step + 1)

    opt = sgd()
    assert [row[0] for row in rates(opt, Halves(opt), 3)] == [0.5, 0.25, 0.5 / 3]
    with pytest.raises(NotImplementedError, match="LRScheduler: define _rate"):
        optim.LRScheduler(sgd())


@pytest.mark.parametrize(
    "make, error, said",
    [
        (lambda o: optim.StepLR(o, 0), ShapeError, "StepLR: step_size must be at least 1, got 0"),
        (lambda o: optim.StepLR(o, 1.5), DTypeError, "StepLR: step_size must be a whole number"),
        (lambda o: optim.CosineAnnealingLR(o, 0), ShapeError, "CosineAnnealingLR: T_max must be at least 1"),
        (lambda o: optim.LinearLR(o, start_factor=0.0), OptionError, "LinearLR: factors must lie between 0 and 1"),
        (lambda o: optim.LinearLR(o, total_iters=0), ShapeError, "LinearLR: total_iters must be at least 1"),
        (lambda o: optim.OneCycleLR(o, 1.0), OptionError, "OneCycleLR: give total_steps, or epochs"),
        (lambda o: optim.OneCycleLR(o, 1.0, 10, pct_start=2), OptionError, "OneCycleLR: pct_start must be between"),
        (lambda o: optim.OneCycleLR(o, 1.0, 10, anneal_strategy="exp"), OptionError, "OneCycleLR: anneal_strategy"),
        (lambda o: optim.OneCycleLR(o, [1.0] * 3, 10), ShapeError, "OneCycleLR: max_lr has 3 values for 2 groups"),
        (lambda o: optim.OneCycleLR(optim.Optimizer([nn.Parameter([1.0])], {"lr": 1.0}), 1.0, 10), OptionError,
         "OneCycleLR: the optimizer has neither momentum nor beta1"),
        (lambda o: optim.OneCycleLR(o, 1.0, 10, div_factor=0), OptionError, "OneCycleLR: div_factor must be above 0"),
        (lambda o: optim.OneCycleLR(o, "1", 10), DTypeError, "OneCycleLR: max_lr must be a number"),
        (lambda o: optim.StepLR(None, 1), DTypeError, "StepLR: expected an optimizer, got None"),
        (lambda o: optim.OneCycleLR([o], 1.0, 10), DTypeError, "OneCycleLR: expected an optimizer, got a list"),
        (lambda o: optim.ExponentialLR(o, "0.9"), DTypeError, "ExponentialLR: gamma must be a number"),
        (lambda o: optim.MultiStepLR(o, 3), DTypeError, "MultiStepLR: milestones must be a list of steps, got an int"),
        (lambda o: optim.MultiStepLR(o, [0.5]), DTypeError, "MultiStepLR: a milestone must be a whole number"),
        (lambda o: optim.SequentialLR(o, [None], []), DTypeError, "SequentialLR: expected schedules, got None"),
        (lambda o: optim.SequentialLR(o, [], []), ShapeError, "SequentialLR: 0 schedulers"),
        (lambda o: optim.SequentialLR(o, [optim.LinearLR(o)], [3]), ShapeError, "SequentialLR: 1 schedulers"),
        (lambda o: optim.SequentialLR(o, [optim.LinearLR(sgd())], []), OptionError, "SequentialLR: .*different"),
        (lambda o: optim.StepLR(o, 1).load_state_dict({"last_epoch": 1}), ShapeError, "StepLR.load_state_dict"),
        (lambda o: optim.SequentialLR(o, [optim.LinearLR(o)], []).load_state_dict({"last_epoch": 1}), ShapeError,
         "SequentialLR.load_state_dict: 0 states for 1"),
    ],
)  # fmt: skip
def test_wrong_input(make, error, said):
    with pytest.raises(error, match=said):
        make(sgd())


def test_a_group_added_later_needs_a_new_schedule():
    opt = sgd()
    schedule = optim.StepLR(opt, 1)
    opt.add_param_group({"params": [nn.Parameter([1.0])]})
    with pytest.raises(ShapeError, match="StepLR: made for 2 groups, but the optimizer has 3 now"):
        schedule.step()
