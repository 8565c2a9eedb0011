"""The gradient checker finds what is wrong, and nothing else."""

import re

import numpy as np
import pytest

import needle as ndl
from needle.autograd import TensorOp
from needle.errors import DTypeError, GradientError, OptionError, ShapeError
from needle.testing import WrongGradient, assert_gradients, check_gradients
from tests.testing.faults import Doubled, Planted


def tensor(values, **options):
    return ndl.Tensor(values, dtype="float64", **options)


class Scaled(TensorOp):
    """x**3 with a gradient that is wrong, at one place or in the next order."""

    def __init__(self, wrong):
        self.wrong = wrong

    def compute(self, x):
        return x**3

    def gradient(self, out_grad, node):
        (x,) = node.inputs
        if self.wrong == "second order":
            return out_grad * 3 * x * x.detach()
        mask = np.ones(x.shape)
        mask[1] = 2.0
        return out_grad * 3 * x**2 * tensor(mask, requires_grad=False)


@pytest.mark.parametrize(
    "fn, shapes",
    [
        (lambda x: x**3, [(2, 3)]),
        (lambda a, b: a @ b, [(2, 3), (3, 4)]),
        (lambda x: (x.exp(), x.sum()), [(3,)]),
        (lambda x: 2 * x, [(3,)]),  # the gradient is a constant
        (lambda x: x * 0, [()]),
    ],
)
def test_right_gradients_pass_to_third_order(fn, shapes):
    generator = np.random.default_rng(1)
    check_gradients(fn, [tensor(generator.standard_normal(shape)) for shape in shapes], order=3)


def test_a_wrong_element_is_named():
    with pytest.raises(GradientError, match=r"of input 0 at \(1,\) \(order 1\): got 24.*, expected 12"):
        check_gradients(Scaled("an element"), tensor([1.0, 2.0, 3.0]))


class Narrow(TensorOp):
    """A square whose gradient is rounded to float32 on the way, and cut off where the values are a new Tensor's."""

    def __init__(self, cuts):
        self.cuts = cuts

    def compute(self, x):
        return x * x

    def gradient(self, out_grad, node):
        (x,) = node.inputs
        return out_grad * 2 * (ndl.Tensor(x.numpy()) if self.cuts else x.astype("float32"))


@pytest.mark.parametrize("cuts", [True, False])
@pytest.mark.parametrize("seed", range(4))  # a kink is seen with some, a wrong gradient with others
def test_float32_in_the_graph_is_told_and_not_taken_for_a_kink(cuts, seed):
    x = tensor(np.random.default_rng(0).standard_normal(4) * 3)
    with pytest.raises(GradientError) as caught:
        check_gradients(Narrow(cuts), x, seed=seed)
    text = str(caught.value)
    assert re.search(r"float32 values of shape \(4,\) are in the graph.*dtype='float64'", text), text
    assert "kink" not in text
    assert "the path is cut" in text or not (cuts and isinstance(caught.value, WrongGradient))


def test_a_wrong_second_derivative_is_found():
    check_gradients(Scaled("second order"), tensor([1.0, 2.0]), order=1)
    with pytest.raises(GradientError, match=r"order 2"):
        check_gradients(Scaled("second order"), tensor([1.0, 2.0]))


def test_float32_is_refused():
    with pytest.raises(DTypeError, match=r"input 1 is float32.*float64"):
        check_gradients(lambda a, b: a + b, [tensor([1.0]), ndl.Tensor([1.0])])
    with pytest.raises(DTypeError, match=r"output 0 is float32 though the inputs are float64"):
        check_gradients(lambda a: a.astype("float32"), tensor([1.0]))


@pytest.mark.parametrize(
    "fn, at, text",
    [
        (lambda x: ndl.ops.max_pool2d(x, 2), [[[[1.0, 2.0], [2.0, 0.0]]]], r"0, 0, 1\) and \(0, 0, 1, 0\), near 2"),
        (lambda x: x.max(), [3.0, 1.0, 3.0], r"input 0 ties at \(0,\) and \(2,\), near 3"),
        (lambda x: x.max(), np.ones(6), r"\(0,\) and \(1,\) and \(2,\) and 3 more, near 1"),
        (lambda x: x.max(), [3.0, 1.0, 3.000002], r"input 0 ties at \(0,\) and \(2,\), near 3"),
        (ndl.ops.relu, [0.0, 1.0], r"input 0 at \(0,\) is 0\)"),
        (ndl.ops.relu, [0.0, 1e-6], r"input 0 at \(0,\) is 0; input 0 at \(1,\) is 1e-06\)"),
        (ndl.ops.abs, np.zeros(5), r"is 0; input 0 at \(2,\) is 0; 2 more\)"),
        (lambda x: ndl.ops.relu(1e9 - x), [1e9, 0.0], r"input 0 at \(0,\) is 1e\+09"),
    ],
)
def test_kinks_and_ties_are_named(fn, at, text):
    with pytest.raises(GradientError, match=rf"slopes to both sides .* kink or a tie .*{text}"):
        check_gradients(fn, tensor(at))


def test_a_step_fits_large_inputs():
    check_gradients(lambda x, y: x * y, [tensor([3e9, 1e9]), tensor([1e-3, 2e-3])])


def test_a_kink_of_the_gradient_is_named():
    with pytest.raises(GradientError, match=r"order 2.*kink"):
        check_gradients(lambda x: ndl.ops.relu(x) ** 2, tensor([0.0]))


def test_inputs_that_require_no_gradient_check_nothing():
    with pytest.raises(GradientError, match="no input requires a gradient"):
        check_gradients(Scaled("an element"), ndl.rand(2, dtype="float64"))


@pytest.mark.parametrize("wrong", [2.0, np.ones(1)])
def test_inputs_are_tensors(wrong):
    with pytest.raises(DTypeError, match="check_gradients: input 1 must be a"):
        check_gradients(lambda a, b: a * b, [tensor([1.0]), wrong])


@pytest.mark.parametrize(
    "result, text",
    [
        (None, "gave None; return a Tensor"),
        (1.0, "gave a float"),
        (np.ones(2), "gave an ndarray"),
        ({"a": 1}, "gave a dict"),
        ([1.0], "gave a list"),
    ],
)
def test_outputs_are_tensors(result, text):
    with pytest.raises(DTypeError, match=f"check_gradients: the function {text}"):
        check_gradients(lambda x: result, tensor([1.0]))


def test_there_are_outputs():
    with pytest.raises(GradientError, match="gave no outputs"):
        check_gradients(lambda x: [], tensor([1.0]))


@pytest.mark.parametrize(
    "inputs, kind", [(2.0, "a float"), (np.ones(3), "a numpy.ndarray"), (None, "None"), ("x", "a str")]
)
def test_a_single_input_need_not_be_in_a_list(inputs, kind):
    with pytest.raises(DTypeError, match=rf"input 0 must be a .*Tensor, got {kind};"):
        check_gradients(ndl.exp, inputs)


@pytest.mark.parametrize(
    "options, error, text",
    [
        ({"order": 0}, ShapeError, "order must be at least 1, got 0"),
        ({"order": 1.5}, DTypeError, "order must be a whole number, got 1.5"),
        ({"step": 0}, OptionError, "step must be above 0 and finite, got 0"),
        ({"step": np.nan}, OptionError, "step must be above 0 and finite, got nan"),
        ({"rtol": -1}, OptionError, "rtol must be at least 0, got -1"),
        ({"atol": np.nan}, OptionError, "atol must be at least 0, got nan"),
    ],
)
def test_options_are_checked(options, error, text):
    with pytest.raises(error, match=f"check_gradients: {text}"):
        check_gradients(ndl.exp, tensor([1.0]), **options)


def test_no_absolute_tolerance_lets_equal_zeros_pass():
    check_gradients(lambda x: x * 0, tensor([1.0, 2.0]), atol=0)


def test_no_grad_around_a_check_does_not_matter():
    with ndl.no_grad():
        check_gradients(lambda x: x * x, tensor([1.0, 2.0]))


def test_one_tensor_cannot_be_two_inputs():
    x = tensor([1.0])
    with pytest.raises(GradientError, match="inputs 1 and 2 are one Tensor"):
        check_gradients(lambda a, b, c: a * b * c, [tensor([2.0]), x, x])


@pytest.mark.parametrize("at", [1e-12, 0.0])
def test_the_edge_of_a_domain_is_named(at):
    fn = ndl.ops.log if at else ndl.ops.sqrt
    with np.errstate(all="ignore"), pytest.raises(GradientError, match=r"not finite a step of 1e-06 away .*order 1"):
        check_gradients(fn, tensor([1.0, at]))


def test_random_functions_are_refused():
    with pytest.raises(GradientError, match="another value at each call"):
        check_gradients(lambda x: x * ndl.rand(1, dtype="float64"), tensor([1.0]))


def test_constants_are_passed_on():
    labels = ndl.Tensor([1, 0], dtype="int64", requires_grad=False)
    logits = tensor([[1.0, 2.0], [0.5, -1.0]])
    check_gradients(ndl.ops.cross_entropy, [logits, labels])


def test_nan_is_a_wrong_gradient():
    with np.errstate(all="ignore"), pytest.raises(GradientError, match="got nan"):
        check_gradients(lambda x: ndl.ops.where(x > 0, x.sqrt(), x), tensor([-1.0, 4.0]), order=1)


def test_a_wrong_gradient_can_be_read():
    with pytest.raises(WrongGradient) as caught:
        check_gradients(
            lambda a, b: a * Doubled()(b), [tensor([[3.0, 4.0]], requires_grad=False), tensor([[1.0, 2.0]])]
        )
    finding = caught.value.finding
    assert (finding.op, finding.order, finding.input, finding.index) == (
        "a graph that ends in EWiseMul",
        1,
        1,
        (0, 1),
    )
    assert (finding.got, round(finding.expected, 6), round(finding.relative_error, 6)) == (4.0, 8.0, 0.5)
    assert caught.value.culprit is None


def test_elements_decide():
    """Along a direction, errors add up that are none at each element."""
    tiny = Planted(lambda a: a * 0, lambda d, x: np.full(x.shape, 0.9e-6) + x * 0)
    check_gradients(tiny, tensor(np.ones(100)), order=1)
    with pytest.raises(WrongGradient):
        check_gradients(tiny, tensor(np.ones(100)), order=1, atol=0.8e-6)


def test_what_is_not_finite_is_refused():
    with pytest.raises(GradientError, match=r"output 0 at \(1,\) is -?inf, which has no differences"):
        check_gradients(ndl.ops.log, tensor([1.0, 0.0]))


def test_a_function_without_a_graph_is_said_to_have_none():
    with pytest.raises(WrongGradient, match=r"a function without a graph: .*zero \(the path is cut"):
        check_gradients(lambda x: x.detach(), tensor([1.0]))


def test_graders_assert():
    labels = np.array([0, 2])
    assert_gradients(ndl.ops.cross_entropy, [np.random.randn(2, 3).astype("float32"), labels])
    assert_gradients(ndl.ops.tanh, ndl.randn(3, requires_grad=True))
    with pytest.raises(AssertionError, match=r"wrong gradient of input 0.*\n.*is Doubled: .*1/2 times") as caught:
        assert_gradients(lambda x: Doubled()(x).sum(), np.ones((2, 3)))
    assert isinstance(caught.value.__cause__, WrongGradient)
    with pytest.raises(AssertionError, match="kink or a tie"):
        assert_gradients(ndl.ops.relu, np.zeros(1))


def test_graders_choose_the_device(device):
    devices = []
    assert_gradients(lambda x: devices.append(x.device) or x * x, np.ones(2), device=device)
    assert set(devices) == {device}
