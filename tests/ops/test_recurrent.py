"""The recurrence op: what it records, keeps and refuses. Its numbers are in tests/nn/test_recurrent.py."""

import gc

import numpy as np
import pytest

import needle as ndl
from needle import ops
from needle.errors import DTypeError, GradientError, OptionError, ShapeError
from tests.tolerances import assert_close

OPS = {"tanh": (ops.SimpleRecurrence, 1, 1), "lstm": (ops.LSTMRecurrence, 4, 2), "gru": (ops.GRURecurrence, 3, 1)}


def inputs_of(tensor, kind, steps=3, batch=2, hidden=4):
    """x, weight, bias and a state."""
    _, gates, parts = OPS[kind]
    width = gates * hidden
    shapes = [(steps, batch, width), (hidden, width), (width,), *[(batch, hidden)] * parts]
    return [tensor(np.random.randn(*shape)) for shape in shapes]


@pytest.mark.parametrize("kind", OPS)
def test_one_node_whatever_the_length(tensor, kind):
    inputs = inputs_of(tensor, kind)
    states = ops.recurrence(OPS[kind][0](), *inputs)
    assert states.inputs == tuple(inputs)
    assert states.shape == ((3, 2, 4),) * OPS[kind][2]
    gradients = states.op.gradient_as_tuple(states, states)
    assert [g.shape for g in gradients] == [x.shape for x in inputs]


@pytest.mark.parametrize("kind", OPS)
def test_an_op_can_be_used_again(tensor, kind):
    """What one use keeps for its gradient is not what another keeps."""
    op, inputs, others = OPS[kind][0](), inputs_of(tensor, kind), inputs_of(tensor, kind)
    ops.recurrence(op, *inputs)[0].backward()
    expected = inputs[0].grad.numpy()
    first = ops.recurrence(op, *inputs)[0]
    ops.recurrence(op, *others)
    first.backward()
    assert (inputs[0].grad.numpy() == expected).all()


@pytest.mark.parametrize("changed", range(4))
def test_what_the_gradient_needs_must_not_change(tensor, changed):
    inputs = inputs_of(tensor, "gru")
    states = ops.recurrence(ops.GRURecurrence(), *inputs)
    inputs[changed].cached_data[...] = 0.0
    with pytest.raises(GradientError, match="GRURecurrence: backward needs a tensor"):
        states[0].backward()


def test_outputs_must_not_change(tensor):
    (h,) = ops.recurrence(ops.SimpleRecurrence(), *inputs_of(tensor, "tanh"))
    y = h * 2
    h.cached_data[...] = 0.0
    with pytest.raises(GradientError, match="Recurrence: backward needs a tensor"):
        y.backward()


def test_nothing_is_kept_without_a_gradient(tensor):
    gc.collect()
    before = sum(type(value) is ops.LSTMRecurrence for value in gc.get_objects())
    with ndl.no_grad():
        states = ops.recurrence(ops.LSTMRecurrence(), *inputs_of(tensor, "lstm"))
    gc.collect()
    assert states.op is None
    assert sum(type(value) is ops.LSTMRecurrence for value in gc.get_objects()) == before


def test_dtypes_are_promoted(tensor):
    x, *others = inputs_of(tensor, "gru")
    x32 = x.detach().astype("float32")
    (h,) = ops.recurrence(ops.GRURecurrence(), x32, *others)
    assert h.dtype == np.float64
    assert_close(h, ops.recurrence(ops.GRURecurrence(), x32.astype("float64"), *others)[0].numpy())


ONES = [ndl.ones(3, 2, 4), ndl.ones(4, 4), ndl.ones(4), ndl.ones(2, 4)]


@pytest.mark.parametrize(
    "call, error, said",
    [
        (lambda op: ops.recurrence(op, *ONES[:3]), ShapeError, r"recurrence: .*state h .* shapes \(3, 2, 4\), "),
        (lambda op: ops.recurrence(op, ONES[1], *ONES[1:]), ShapeError, "recurrence: expected x"),
        (lambda op: ops.recurrence(op, ndl.ones(0, 2, 4), *ONES[1:]), ShapeError, "with steps"),
        (lambda op: ops.recurrence(op, *ONES[:3], ndl.ones(3, 4)), ShapeError, "recurrence: expected x"),
        (lambda op: ops.recurrence(ops.GRURecurrence(), *ONES), ShapeError, r"width = 3 \* hidden"),
        (lambda op: ops.recurrence(op, *ONES[:3], None), DTypeError, "recurrence: the argument must be a needle"),
        (lambda op: ops.recurrence(type(op), *ONES), DTypeError, "got the class SimpleRecurrence"),
        (lambda op: ops.recurrence("rnn", *ONES), DTypeError, "op must be a Recurrence, .* got a str"),
        (lambda op: ops.SimpleRecurrence("sin"), OptionError, "recurrence: nonlinearity must be .* got 'sin'"),
    ],
)  # fmt: skip
def test_wrong_input(call, error, said):
    with pytest.raises(error, match=said):
        call(ops.SimpleRecurrence())
