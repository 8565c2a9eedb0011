"""Operators and elementwise functions, against NumPy's."""

import math
import operator
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import needle as ndl
from needle import backend_ndarray as nd
from needle.backend_ndarray.layout import dense_strides
from needle.errors import DTypeError, ShapeError
from tests.backend_ndarray.strategies import pairs
from tests.tolerances import assert_close

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
FUNCTIONS = {
    "abs": np.abs, "sign": np.sign, "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "tanh": np.tanh,
    "sigmoid": lambda x: np.exp(-np.logaddexp(0, -x)),
    "erf": np.vectorize(math.erf, otypes=[float]),
}  # fmt: skip


@given(st.data())
def test_operators(device, data):
    a, x = data.draw(pairs(device))
    same = st.just(x.shape)
    b, y = data.draw(pairs(device, same, broadcast=False) if data.draw(st.booleans()) else pairs(device))
    op = data.draw(st.sampled_from(ARITHMETIC + COMPARISONS))
    with np.errstate(all="ignore"):
        try:
            expected = op(x, y)
        except ValueError:
            with pytest.raises(ShapeError, match=re.escape(f"{x.shape} and {y.shape}")):
                op(a, b)
            return
    result = op(a, b)
    assert result.dtype == expected.dtype
    assert_close(result, expected)
    np.testing.assert_array_equal(a.numpy(), x)


@pytest.mark.parametrize("name", FUNCTIONS)
@given(data=st.data())
def test_functions(device, name, data):
    a, x = data.draw(pairs(device, dtypes=("float32", "float64")))
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](x)
    result = getattr(a, name)()
    assert result.dtype == x.dtype
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5 if x.dtype == np.float32 else 1e-12, atol=1e-300)
    assert_close(-a, -x)


@given(st.data())
def test_layout_is_kept(device, data):
    """Results lie as their first dense operand does, and row-major where none is dense."""
    a, _ = data.draw(pairs(device))
    dense = dense_strides(a.shape, a.strides)
    wanted = dense or nd.NDArray.compact_strides(a.shape)
    for result in (a + 1, 2 - a, -a, a.exp(), a * a, a > 0, a.maximum(a), nd.clip(a, 0, 1), a.astype("float32")):
        assert result.strides == wanted
        assert result._offset == 0
        assert result._handle.size == result.size
    row_major = nd.array(a.numpy(), device=device, dtype="float64")
    assert (a + row_major).strides == (dense or row_major.strides)
    assert (row_major + a).strides == row_major.strides


def test_special_values_come_without_warnings(device, dtype):
    a = nd.array([0.0, -1.0, np.nan, np.inf, -np.inf], dtype=dtype, device=device)
    x = a.numpy()
    with np.errstate(all="ignore"):
        for result, expected in (
            (1 / a, 1 / x),
            (a / 0, x / 0),
            (a.log(), np.log(x)),
            (a.sqrt(), np.sqrt(x)),
            (a - a, x - x),
            (a**-1.0, x**-1.0),
            (a.maximum(0), np.maximum(x, 0)),
            (a.minimum(0), np.minimum(x, 0)),
            (a.sign(), np.sign(x)),
            ((a * 1e3).exp(), np.exp(x * 1e3)),
            ((a * 1e3).sigmoid(), [0.5, 0, np.nan, 1, 0]),
        ):
            np.testing.assert_array_equal(result.numpy(), np.asarray(expected, dtype))
    assert (a == a).numpy().tolist() == [True, True, False, True, True]


def test_sigmoid_keeps_its_precision_far_below_zero(device):
    a = nd.array([-700.0, -40.0, 40.0], dtype="float64", device=device)
    np.testing.assert_allclose(a.sigmoid().numpy(), [np.exp(-700.0), 1 / (1 + np.exp(40.0)), 1.0], rtol=1e-14)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1, 0, 2)])
def test_empty_and_0d(array, shape):
    a = array(np.ones(shape))
    for result in (a + a, a * 2, a.exp(), a > 0, nd.where(a > 0, a, 0.0), a.maximum(2.0)):
        assert result.shape == shape


@pytest.mark.parametrize("values", [[1.0, 2.0], np.float32(2), np.array(2), np.array([[1], [2]])])
def test_numpy_operands(device, dtype, values):
    a = nd.array([[3.0, 4.0]], dtype=dtype, device=device)
    values = np.asarray(values)
    for op in (*ARITHMETIC, *COMPARISONS, operator.pow):
        for result, expected in ((op(a, values), op(a.numpy(), values)), (op(values, a), op(values, a.numpy()))):
            assert isinstance(result, nd.NDArray)
            assert result.dtype in (dtype, "bool")
            assert_close(result, np.asarray(expected, result.dtype))


def test_other_operands(array):
    a = array([1.0])
    assert isinstance(a + ndl.Tensor([1.0], device=a.device), ndl.Tensor)
    for use in (lambda: a + "1", lambda: a - [1], lambda: a * 1j, lambda: None / a, lambda: a < "1", lambda: a @ 2):
        with pytest.raises(TypeError, match=r"not supported|unsupported operand"):
            use()
    assert (a == "1") is False
    assert (a != None) is True  # noqa: E711
    for use in (a.maximum, a.minimum, lambda x: nd.where(a > 0, a, x)):
        with pytest.raises(DTypeError, match=r"^(maximum|minimum|where): expected"):
            use("1")
    with pytest.raises(TypeError, match=r"unhashable"):
        hash(a)


def test_shapes_are_named(array):
    with pytest.raises(ShapeError, match=r"^add: shapes \(2, 3\) and \(4, 5\) do not broadcast"):
        array(np.ones((2, 3))) + array(np.ones((4, 5)))
    with pytest.raises(ShapeError, match=r"^where: shapes \(2,\) and \(3,\)"):
        nd.where(array([1.0, 0.0]) > 0, array(np.ones(3)), 0.0)


@given(st.data())
def test_where(device, data):
    condition, c = data.draw(pairs(device, dtypes=("bool", "float64")))
    a, x = data.draw(pairs(device))
    for choices, expected in (((a, 0.5), (x, 0.5)), ((2.0, a), (2.0, x)), ((a, -a), (x, -x)), ((1, -1), (1, -1))):
        try:
            wanted = np.where(c, *expected)
        except ValueError:
            with pytest.raises(ShapeError, match=r"^where: shapes"):
                nd.where(condition, *choices)
        else:
            result = nd.where(condition, *choices)
            assert_close(result, wanted.astype(result.dtype))


def test_where_dtypes(device):
    c = nd.array([True, False], dtype=bool, device=device)
    ints = nd.array([5, 6], dtype="int64", device=device)
    assert nd.where(c, ints, 1).dtype == np.int64
    assert nd.where(c, ints, 0.5).numpy().tolist() == [5.0, 0.5]
    assert nd.where(c, c, c).dtype == bool
    assert nd.where(c, 1, 0).dtype == nd.default_dtype()
    assert nd.where(c, nd.array([1.0], device=device), nd.array([2.0], "float64", device)).dtype == np.float64


def test_clip(array):
    a = array([-1.0, 0.5, 2.0, np.nan])
    np.testing.assert_array_equal(nd.clip(a, 0, 1).numpy(), [0, 0.5, 1, np.nan])
    np.testing.assert_array_equal(nd.clip(a, hi=array([0.0, 0.0, 1.0, 1.0])).numpy(), [-1, 0, 1, np.nan])
    np.testing.assert_array_equal(nd.clip(a).numpy(), a.numpy())


def test_integers_are_not_raised_to_negative_integers(device):
    two, minus = (nd.array([value], dtype="int64", device=device) for value in (2, -1))
    for power in (lambda: two**minus, lambda: 2**minus, lambda: two**-1, lambda: two ** np.array([-1])):
        with pytest.raises(DTypeError, match="power: integers cannot be raised to -1"):
            power()
    assert (two**-1.0).numpy().tolist() == (2.0**minus).numpy().tolist() == [0.5]
    assert (two ** minus[:0]).shape == (0,)
