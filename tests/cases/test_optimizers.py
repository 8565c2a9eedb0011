"""CASES.md, section OP: optimizers, parameters and schedules."""

import math

import numpy as np
import pytest

from needle import nn, optim
from tests.tolerances import GIVEN_DIGITS, assert_close


def parameter(tensor, value, grad):
    p = nn.Parameter(tensor([value]))
    p.grad = tensor([grad])
    return p


def test_op01_place_of_epsilon(tensor):
    p = parameter(tensor, 1.0, 0.01)
    optim.Adam([p], lr=0.1, beta1=0.9, beta2=0.999, eps=0.01).step()
    assert_close(p, [0.95])


def test_op03_weight_decay_shrinks(tensor):
    p = parameter(tensor, 1.0, 0.0)
    opt = optim.SGD([p], lr=0.1, weight_decay=0.5)
    for expected in (0.95, 0.9025):
        opt.step()
        assert_close(p, [expected])


@pytest.mark.parametrize("options, expected", [({}, [0.99, 0.971, 0.9439]), ({"dampening": 0}, [0.9, 0.71, 0.439])])
def test_op05_momentum_convention(tensor, options, expected):
    p = parameter(tensor, 1.0, 1.0)
    opt = optim.SGD([p], lr=0.1, momentum=0.9, **options)
    for value in expected:
        opt.step()
        assert_close(p, [value])


@pytest.mark.parametrize("clip", [optim.clip_grad_norm, lambda ps, norm: optim.SGD(ps).clip_grad_norm(max_norm=norm)])
def test_op07_clipping_by_the_global_norm(tensor, clip):
    a, b = parameter(tensor, 1.0, 3.0), parameter(tensor, 1.0, 4.0)
    assert math.isclose(float(clip([a, b], 1.0)), 5.0)
    assert_close(a.grad, [0.6], rtol=1e-5)
    assert_close(b.grad, [0.8], rtol=1e-5)
    clip([a, b], 7.0)
    assert_close(a.grad, [0.6], rtol=1e-5)


class Nested(nn.Module):
    def __init__(self, tensor):
        super().__init__()
        self.parts = [nn.Linear(2, 3), {"a": nn.Parameter(tensor([1.0])), "b": (nn.Parameter(tensor([2.0])),)}]
        self.blocks = {"deep": [(nn.Dropout(0.5),)]}


def test_op09_parameters_in_lists_and_dicts(tensor):
    model = Nested(tensor)
    linear, named = model.parts
    expected = [linear.weight, linear.bias, named["a"], named["b"][0]]
    for _ in range(2):
        found = model.parameters()
        assert (
            isinstance(found, list) and len(found) == 4 and all(p is q for p, q in zip(found, expected, strict=False))
        )
    dropout = model.blocks["deep"][0][0]
    model.eval()
    assert dropout.training is False and linear.training is False
    model.train()
    assert dropout.training is True


def test_op12_cosine_schedule_has_no_extra_step(tensor):
    opt = optim.SGD([parameter(tensor, 1.0, 1.0)], lr=1.0)
    schedule = optim.CosineAnnealingLR(opt, T_max=4)
    seen = []
    for _ in range(5):
        seen.append(opt.lr)
        opt.step()
        schedule.step()
    assert_close(np.array(seen), [1, 0.8535534, 0.5, 0.1464466, 0], **GIVEN_DIGITS)
