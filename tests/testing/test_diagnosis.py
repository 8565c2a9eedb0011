"""Each planted fault is found, and described in words that lead to it."""

import numpy as np
import pytest

import needle as ndl
from needle.testing import WrongGradient, check_gradients
from tests.testing.faults import FAULTS, Planted


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_described(name, tensor):
    compute, gradient, shapes, text = FAULTS[name]
    inputs = [tensor(np.random.uniform(0.5, 2.0, shape)) for shape in shapes]
    with pytest.raises(WrongGradient, match=f"Planted: wrong gradient of .*{text}") as caught:
        check_gradients(Planted(compute, gradient), inputs, order=1)
    finding = caught.value.finding
    assert (finding.op, finding.order) == ("Planted", 1) and finding.suggestion in str(caught.value)


def test_an_output_that_is_left_out_is_named(tensor):
    class Pair(ndl.TensorTupleOp):
        def compute(self, a):
            return a * 2, a * 3

        def gradient(self, out_grad, node):
            return ndl.ops.tuple_get_item(out_grad, 0) * 2

    with pytest.raises(WrongGradient, match=r"Pair: .*what comes in by output 1 is left out"):
        check_gradients(lambda x: Pair()(x).tuple(), tensor([1.0, 2.0, 3.0]))
