"""Anomaly mode names the op and the line where the first NaN or infinity appeared, and leaves nothing behind."""

import re
import threading

import numpy as np
import pytest

import needle as ndl
from needle import AnomalyError, detect_anomaly, ops, record_origins
from needle.autograd import TensorOp, Value
from tests.testing.faults import Planted


@pytest.fixture(autouse=True)
def _nothing_is_left_behind():
    yield
    assert Value.watch is None


def caught(call, **options):
    with pytest.raises(AnomalyError) as error, detect_anomaly(**options):
        call()
    return str(error.value)


def test_forward(tensor):
    x = tensor([[1.0, 2.0], [-1.0, -2.0]])

    def model():
        y = x * 2
        y = ops.log(y)  # here
        return y.sum()

    text = caught(model)
    assert text.startswith("Log gave nan at (1, 0), the first of 2 such among 4 elements, in ")
    assert re.search(r"test_anomaly.py, line \d+, in model: y = ops.log\(y\)  # here; ", text)
    assert text.endswith("input 0 of shape (2, 2) from -4 to 4")


def test_infinities(tensor):
    x = tensor([0.0, 1.0])
    assert caught(lambda: 1 / x).startswith("EWiseDiv gave inf at (0,)")
    with detect_anomaly(infinities=False):
        masked = ops.masked_fill(x, [True, False], -np.inf)
        np.testing.assert_array_equal(ops.softmax(masked).numpy(), [0, 1])
    assert "MaskedFill gave -inf" in caught(lambda: ops.masked_fill(x, [True, False], -np.inf))
    assert "EWiseAdd gave nan" in caught(lambda: masked - masked, infinities=False)


def test_backward_names_the_node_and_its_line(tensor):
    x = tensor([0.0, 4.0])

    def train():
        y = x**0.5  # here
        y.sum().backward()

    text = caught(train)
    assert re.match(
        r"PowerScalar gave inf at \(0,\), .* in train: y.sum\(\).backward\(\), in the backward pass of "
        r"PowerScalar, made in .*test_anomaly.py, line \d+, in train: y = x\*\*0.5  # here; input 0",
        text,
    )


def test_backward_of_a_graph_made_before(tensor):
    y = tensor([0.0, 4.0]) ** 0.5
    assert "in the backward pass of PowerScalar; input 0" in caught(y.backward)


def test_a_gradient_that_no_op_made(tensor):
    y = Planted(lambda a: a * 1, lambda d, x: ndl.Tensor([np.nan], dtype="float64", device=x.device))(tensor([1.0]))
    text = caught(y.backward)
    assert text.startswith("Planted.gradient gave input 0 nan at (0,), the first of 1") and "pass of Planted" in text


def test_an_input_without_a_gradient_is_passed_over(tensor):
    x, y = tensor([1.0]), tensor([2.0])
    with detect_anomaly():
        Planted(lambda a, b: a * b, lambda d, a, b: (d * b, None))(x, y).backward()
    assert x.grad.numpy().tolist() == [2.0] and y.grad is None


def test_a_bad_input_is_told_from_a_bad_op(tensor):
    assert caught(lambda: tensor([np.nan, 1.0]) + 1).endswith("input 0 of shape (2,) from 1 to 1, and had it already")


def test_results_without_a_graph_and_tuples(tensor):
    with ndl.no_grad():
        assert "Log gave nan" in caught(lambda: ops.log(tensor([-1.0])))

    class Pair(ndl.TensorTupleOp):
        def compute(self, a):
            return a, a / 0

    assert "Pair gave inf at (0,)" in caught(lambda: Pair()(tensor([2.0, 1.0])))
    with detect_anomaly():
        assert ops.split(tensor([[1.0], [2.0]]), 0)[1].numpy().tolist() == [2.0]
        assert ops.argmax(tensor([1.0, 2.0])).item() == 1


def test_origins(tensor):
    x = tensor([1.0, 2.0])

    @record_origins()
    def line():
        return ops.sigmoid(x).sum()

    total = line()
    assert total.made_at == total.inputs[0].made_at
    assert re.search(r"test_anomaly.py, line \d+, in line: return ops.sigmoid\(x\).sum\(\)$", total.made_at)
    assert x.made_at is None and (x * 2).made_at is None
    with record_origins():
        assert np.isnan(ops.log(-x).numpy()).all()  # origins only, nothing raises


def test_deferred_ops_are_looked_at_when_they_are_computed(tensor, monkeypatch):
    monkeypatch.setattr(ndl.autograd, "LAZY_MODE", True)
    y = ops.log(tensor([-1.0]))
    assert "Log gave nan" in caught(lambda: y.realize_cached_data())


def test_blocks_nest_and_the_innermost_decides(tensor):
    x = tensor([0.0])
    with detect_anomaly():
        with detect_anomaly(infinities=False), record_origins():
            assert np.isinf((1 / x).numpy())
        with pytest.raises(AnomalyError):
            1 / x


def test_blocks_may_overlap(tensor):
    x, strict, lenient = tensor([0.0]), detect_anomaly(), detect_anomaly(infinities=False)
    strict.__enter__()
    lenient.__enter__()
    strict.__exit__(None, None, None)
    assert np.isinf((1 / x).numpy())
    lenient.__exit__(None, None, None)


def test_other_threads_are_not_watched(tensor):
    found = []

    def other():
        y = ops.log(tensor([-1.0]))
        y.backward()
        found.append(y)

    with detect_anomaly():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert np.isnan(found[0].numpy()).all() and found[0].made_at is None


def test_an_op_of_ones_own_is_named_by_its_line(tensor):
    class Root(TensorOp):
        def compute(self, a):
            return a**0.5

        def gradient(self, out_grad, node):
            return out_grad / (2 * node)  # the user's line

    y = Root()(tensor([0.0]))
    text = caught(y.backward)
    assert text.startswith("EWiseDiv gave inf") and "in gradient: return out_grad / (2 * node)  # the user's" in text
