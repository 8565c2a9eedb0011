"""Values at the edges: NaN, infinities, kinks, ties, zero bases, empty tensors, wide ranges."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import needle as ndl
from needle import Tensor, ops
from tests.tolerances import TOLERANCE, assert_close

Make = Callable[..., Tensor]
nan, inf = math.nan, math.inf


def gradient(function: Callable[..., Tensor], *tensors: Tensor) -> list[Any]:
    return [g.numpy().tolist() for g in ndl.grad(function(*tensors).sum(), tensors)]


def second(function: Callable[..., Tensor], x: Tensor) -> Any:
    (first,) = ndl.grad(function(x).sum(), [x], create_graph=True)
    if not first.requires_grad:  # the first derivative is constant
        return np.zeros(x.shape).tolist()
    return ndl.grad(first.sum(), [x])[0].numpy().tolist()


# relu, abs, sqrt, clip, where


def test_relu_passes_nan_and_is_flat_at_zero(tensor: Make) -> None:
    np.testing.assert_array_equal(ops.relu(tensor([nan, -1, 2])).numpy(), [nan, 0, 2])
    assert gradient(ops.relu, tensor([-1.0, 0.0, 2.0])) == [[0, 0, 1]]
    assert second(ops.relu, tensor([-1.0, 0.0, 2.0])) == [0, 0, 0]


def test_the_gradient_of_relu_is_that_of_where_to_the_bit(tensor: Make) -> None:
    values = np.concatenate([[nan, inf, -inf, 0.0, -0.0, 5e-324], np.random.default_rng(0).normal(size=67)])
    slope = np.concatenate([[inf, nan, nan, -0.0, inf, -1.0], np.random.default_rng(1).normal(size=67)])
    for dtype in ("float32", "float64"):
        x, d = tensor(values, dtype=dtype), tensor(slope, dtype=dtype)
        (got,) = ndl.grad(ops.relu(x), [x], [d])
        assert got.dtype == dtype and got.numpy().tobytes() == ops.masked_fill(d, x <= 0, 0).numpy().tobytes()


def test_the_gradient_of_relu_reads_a_result_that_was_not_changed(tensor: Make) -> None:
    x = tensor([-1.0, 2.0])
    y = ops.relu(x)
    y.cached_data[...] = 1.0
    with pytest.raises(ndl.GradientError, match="ReLU: backward needs a tensor"):
        y.backward()


def test_abs_is_flat_at_zero(tensor: Make) -> None:
    assert gradient(ops.abs, tensor([-2.0, 0.0, 3.0])) == [[-1, 0, 1]]


def test_square_is_flat_at_the_origin(tensor: Make) -> None:
    assert gradient(lambda x: (x * x).sum(), tensor([0.0, 0.0, 0.0])) == [[0, 0, 0]]


def test_where_shows_an_infinite_slope_of_the_branch_not_taken(tensor: Make) -> None:
    x = tensor([0.0, 4.0])
    assert ops.where(x > 0, ops.sqrt(x), 0).numpy().tolist() == [0, 2]
    np.testing.assert_array_equal(gradient(lambda x: ops.where(x > 0, ops.sqrt(x), 0), x), [[nan, 0.25]])


def test_where_stops_an_infinite_gradient_on_the_branch_not_taken(tensor: Make) -> None:
    slope = tensor([inf, 1.0])
    assert gradient(lambda a: ops.where([False, True], a, 0) * slope, tensor([1.0, 1.0])) == [[0, 1]]


def test_clip_passes_nan_and_its_limits_pass_the_gradient(tensor: Make) -> None:
    np.testing.assert_array_equal(ops.clip(tensor([nan, -5, 5]), 0, 1).numpy(), [nan, 0, 1])
    assert gradient(lambda x: ops.clip(x, 0, 1), tensor([-0.5, 0.0, 0.5, 1.0, 1.5])) == [[0, 1, 1, 1, 0]]


def test_comparisons_and_sign_are_constants(tensor: Make) -> None:
    x, y = tensor([1.0, 2.0, nan]), tensor([2.0, 2.0, 2.0])
    values = {
        ops.equal: [False, True, False],
        ops.not_equal: [True, False, True],
        ops.less: [True, False, False],
        ops.less_equal: [True, True, False],
        ops.greater: [False, False, False],
        ops.greater_equal: [False, True, False],
    }
    for compare, expected in values.items():
        result = compare(x, y)
        assert result.numpy().tolist() == expected, compare
        assert result.dtype == bool and result.op is None and not result.requires_grad
        assert compare(x, 2).numpy().tolist() == expected
        assert compare(x.reshape((3, 1)), y).shape == (3, 3)
    np.testing.assert_array_equal(ops.sign(tensor([-3.0, 0.0, nan])).numpy(), [-1, 0, nan])


# power


def test_zero_to_a_whole_power(tensor: Make) -> None:
    zero = tensor([0.0])
    assert [gradient(lambda x, n=n: x**n, zero) for n in range(4)] == [[[0]], [[1]], [[0]], [[0]]]
    assert [second(lambda x, n=n: x**n, zero) for n in range(4)] == [[0], [0], [2], [0]]


def test_zero_to_the_power_of_a_tensor(tensor: Make) -> None:
    base, exponent = tensor([0.0, 0.0, 0.0, 0.0]), tensor([0.0, 1.0, 2.0, 3.0])
    assert gradient(ops.power, base, exponent) == [[0, 1, 0, 0], [0, 0, 0, 0]]
    assert second(lambda x: ops.power(x, exponent.detach()), base) == [0, 0, 2, 0]


def test_mixed_derivative_of_a_power_with_exponent_zero(tensor: Make) -> None:
    base, exponent = tensor([2.0]), tensor([0.0])
    (to_base,) = ndl.grad(base**exponent, [base], create_graph=True)
    assert ndl.grad(to_base, [exponent])[0].item() == 0.5  # d2/(da db) of a**b = 1/a at b = 0


def test_power_of_a_negative_base(tensor: Make) -> None:
    base, exponent = tensor([-2.0]), tensor([3.0], requires_grad=False)
    assert gradient(lambda x: x**3, base) == [[12]]
    assert gradient(lambda x: x**exponent, base) == [[12]]


def test_power_of_whole_numbers(tensor: Make) -> None:
    base, exponent = tensor([2, 3], dtype="int64"), tensor([0, 2], dtype="int64")
    assert (base**exponent).numpy().tolist() == [1, 9]
    assert gradient(ops.power, base, exponent)[0] == [0, 6]
    assert gradient(lambda x: x**2, base) == [[4, 6]]


# Ranges


def test_division_by_tiny_and_huge_numbers(tensor: Make) -> None:
    a, b = tensor([1e-30, 1e30], dtype="float32"), tensor([1e-30, 1e30], dtype="float32")
    for found in gradient(ops.divide, a, b):
        assert np.isfinite(found).all()
    np.testing.assert_allclose(gradient(ops.divide, a, b)[1], [-1e30, -1e-30], rtol=1e-6)


def test_sigmoid_family_never_overflows(tensor: Make, dtype: str) -> None:
    x = tensor([-1e4, -90.0, 0.0, 90.0, 1e4], dtype=dtype)
    for function in (ops.sigmoid, ops.tanh, ops.softplus, ops.silu, ops.gelu, ops.elu, ops.erf):
        assert np.isfinite(function(x).numpy()).all(), function.__name__
        assert np.isfinite(gradient(function, x)).all(), function.__name__
        assert np.isfinite(second(function, x)).all(), function.__name__
    assert ops.sigmoid(x).numpy()[[0, 2, 4]].tolist() == [0, 0.5, 1]


def test_softplus_and_elu_keep_small_values(tensor: Make, dtype: str) -> None:
    x = np.array([-60.0, -20.0, -5.0, -1e-6, 1e-6, 3.0, 30.0], dtype=dtype)
    exact = x.astype("float64")
    assert_close(ops.softplus(tensor(x, dtype=dtype)).numpy(), np.log1p(np.exp(exact)), rtol=TOLERANCE[dtype]["rtol"])
    assert_close(
        ops.elu(tensor(x, dtype=dtype)).numpy(),
        np.where(exact > 0, exact, np.expm1(exact)),
        rtol=TOLERANCE[dtype]["rtol"],
    )


@pytest.mark.parametrize(
    "function", [ops.sigmoid, ops.tanh, ops.softplus, ops.silu, ops.gelu, ops.elu, ops.leaky_relu, ops.erf, ops.exp]
)
def test_nan_passes(function: Callable[..., Tensor], tensor: Make) -> None:
    assert np.isnan(function(tensor([nan])).numpy()).all()


def test_infinite_arguments_are_silent(tensor: Make) -> None:
    x = tensor([-inf, -1.0, 0.0, inf])
    np.testing.assert_array_equal(ops.log(x).numpy(), [nan, nan, -inf, inf])
    np.testing.assert_array_equal(ops.sqrt(x).numpy(), [nan, nan, 0, inf])
    np.testing.assert_array_equal((1 / x).numpy(), [0, -1, inf, 0])
    np.testing.assert_array_equal(ops.softplus(x).numpy()[[0, 3]], [0, inf])
    np.testing.assert_array_equal(ops.elu(x).numpy()[[0, 3]], [-1, inf])


# Ties


def test_maximum_and_minimum_share_ties_evenly(tensor: Make) -> None:
    a, b = tensor([1.0, 2.0, 3.0]), tensor([2.0, 2.0, 2.0])
    assert gradient(ops.maximum, a, b) == [[0, 0.5, 1], [1, 0.5, 0]]
    assert gradient(ops.minimum, a, b) == [[1, 0.5, 0], [0, 0.5, 1]]
    assert np.isnan(ops.maximum(tensor([nan, 1]), tensor([1, nan])).numpy()).all()
    assert np.isnan(ops.minimum(tensor([nan, 1]), tensor([1, nan])).numpy()).all()


def test_max_and_min_share_ties_evenly(tensor: Make) -> None:
    x = tensor([[1.0, 2.0, 2.0], [3.0, 3.0, 3.0]])
    assert gradient(lambda x: ops.max(x, 1) * tensor([1.0, 3.0]), x) == [[[0, 0.5, 0.5], [1, 1, 1]]]
    assert gradient(lambda x: ops.min(x, 1), x)[0][0] == [1, 0, 0]
    assert gradient(ops.max, x)[0][0] == [0, 0, 0]
    np.testing.assert_array_equal(ops.max(tensor([[1, nan], [2, 3]]), 1).numpy(), [nan, 3])


def test_near_maximum_gets_no_gradient(tensor: Make) -> None:
    assert gradient(ops.max, tensor([1.000, 1.005])) == [[0, 1]]


def test_argmax_gives_the_first_maximum(tensor: Make) -> None:
    x = tensor([[1.0, 3.0, 3.0], [nan, 5.0, nan]])
    assert ops.argmax(x, 1).numpy().tolist() == [1, 0]
    assert ops.argmax(x, axis=-1, keepdims=True).shape == (2, 1)
    assert ops.argmax(tensor([[1.0, 3.0], [2.0, 9.0]])).item() == 3
    assert ops.argmax(x, 1).dtype == "int64" and not ops.argmax(x, 1).requires_grad


def test_sort_and_topk_keep_the_order_of_equal_ones(tensor: Make) -> None:
    x = tensor([2.0, 1.0, 2.0, nan, 1.0])
    assert ops.sort(x).indices.numpy().tolist() == [1, 4, 0, 2, 3]
    assert ops.sort(x, descending=True).indices.numpy().tolist() == [3, 0, 2, 1, 4]
    assert ops.topk(x, 3).indices.numpy().tolist() == [3, 0, 2]
    assert ops.topk(x, 2, largest=False).indices.numpy().tolist() == [1, 4]
    assert ops.topk(x, 0).values.shape == (0,)


# Indices


def test_repeated_indices_add_up(tensor: Make) -> None:
    assert gradient(lambda a: a[[0, 2, 0, 0]], tensor([1.0, 2.0, 3.0])) == [[3, 0, 1]]


def test_an_index_array_may_change_afterwards(tensor: Make) -> None:
    a, index = tensor([1.0, 2.0, 3.0]), np.array([0, 1])
    picked = a[index]
    index[:] = 2
    assert ndl.grad(picked.sum(), [a])[0].numpy().tolist() == [1, 1, 0]


def test_indices_of_any_kind(tensor: Make) -> None:
    a = tensor([10.0, 20.0, 30.0])
    picked = [2, 0]
    for index in (picked, np.array(picked), tensor(picked, dtype="int32"), tensor(picked), tensor(picked).cached_data):
        assert a[index].numpy().tolist() == [30, 10]
        assert ops.take(a, index).numpy().tolist() == [30, 10]
    assert a[a > 15].numpy().tolist() == [20, 30]
    assert a[[]].shape == (0,)
    assert a[np.int64(1)].shape == () and a[tensor(1)].item() == 20


# Empty tensors


def test_empty_tensors(tensor: Make) -> None:
    empty = tensor(np.zeros((0, 3)))
    assert ops.summation(empty, 0).numpy().tolist() == [0, 0, 0]
    assert ops.max(empty, 1).shape == (0,)
    assert gradient(lambda x: ops.max(x, 1), empty) == [[]]
    assert ops.matmul(empty, tensor(np.ones((3, 2)))).shape == (0, 2)
    weight = tensor(np.ones((3, 2)))
    assert ndl.grad(ops.matmul(empty, weight).sum(), [weight])[0].numpy().tolist() == [[0, 0]] * 3
    functions = [
        ops.relu,
        ops.softplus,
        ops.gelu,
        ops.transpose,
        lambda x: ops.cumsum(x, 0),
        lambda x: ops.sort(x, 0)[0],
    ]
    for function in functions:
        out = function(empty)
        assert out.size == 0
        assert gradient(function, empty) == [[]]


@pytest.mark.parametrize("make", [lambda x: ops.mean(x), lambda x: ops.var(x)])
def test_mean_of_nothing_is_nan(make: Callable[..., Tensor], tensor: Make) -> None:
    assert np.isnan(make(tensor(np.zeros((0,)))).item())


# dtypes


def test_mixed_floats_promote_and_each_gradient_keeps_its_dtype(tensor: Make) -> None:
    single, double = tensor([1.5], dtype="float32"), tensor([2.0], dtype="float64")
    out = single * double
    assert out.dtype == "float64"
    assert [g.dtype for g in ndl.grad(out, [single, double])] == [np.float32, np.float64]


def test_whole_numbers_get_a_floating_gradient(tensor: Make) -> None:
    whole, half = tensor([2], dtype="int64"), tensor([0.5])
    assert gradient(ops.multiply, whole, half) == [[0.5], [2.0]]
    assert gradient(lambda x: x * x, whole) == [[4]]


def test_numbers_do_not_promote(tensor: Make) -> None:
    x = tensor([1.0], dtype="float32")
    for out in (x + 1.5, x * np.float64(2), ops.maximum(x, 0.5), ops.where(x > 0, x, 0.1), x**2.0, 1.0 / x):
        assert out.dtype == "float32"


def test_cast_to_a_whole_number_has_no_gradient(tensor: Make) -> None:
    assert not ops.astype(tensor([1.5]), "int64").requires_grad


def test_default_dtype_leaves_masked_gradients_alone(tensor: Make) -> None:
    before = ndl.default_dtype()
    ndl.set_default_dtype("float64")
    try:
        x = tensor([1.0, -2.0], dtype="float32")
        for function in (ops.relu, ops.max, ops.abs, ops.elu, lambda x: ops.maximum(x, 0), lambda x: ops.power(x, x)):
            assert ndl.grad(function(x).sum(), [x])[0].dtype == "float32"
    finally:
        ndl.set_default_dtype(before)
