"""Operators between operands of different kinds and dtypes, held to NumPy."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from needle import DTypeError, OptionError, Tensor
from needle.backend_ndarray import BackendDevice, array
from tests.tolerances import assert_close

DTYPES = ["float32", "float64", "int64", "int32", "uint8", "bool"]
OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv]
NUMBERS = [2, 2.5, True, np.float64(2.5), np.int64(2), np.uint8(2), np.bool_(True), np.array(2.5)]
VALUES = np.array([[5, 1, 3], [2, 4, 1]])


def _tensor(values: Any, dtype: str, device: BackendDevice) -> Tensor:
    return Tensor(values, dtype=dtype, device=device)


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("left", DTYPES)
@pytest.mark.parametrize("right", DTYPES)
def test_operands_of_any_dtypes(op: Callable[..., Any], left: str, right: str, device: BackendDevice) -> None:
    a, b = VALUES.astype(left), VALUES[::-1, 1:2].astype(right)
    x, y = _tensor(a, left, device), _tensor(b, right, device)
    bools = left == right == "bool"
    expected = op(a.astype(float), b.astype(float)) if bools else op(a, b)
    for result in (op(x, y), op(x, array(b, dtype=right, device=device)), op(array(a, dtype=left, device=device), y)):
        assert isinstance(result, Tensor)
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)
        assert bools or result.dtype == expected.dtype
    if left.startswith("float") or not right.startswith("float"):  # such an ndarray keeps what NumPy keeps
        np.testing.assert_allclose(op(x, b).numpy(), expected, rtol=1e-6)
        np.testing.assert_allclose(op(b, x).numpy(), op(y, x).numpy(), rtol=1e-6)


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_numbers_beside_any_dtype(op: Callable[..., Any], dtype: str, number: Any, device: BackendDevice) -> None:
    a = np.ones((2, 3), "float32") if dtype == "bool" else VALUES.astype(dtype)
    x = _tensor(a, dtype, device)
    plain = number.item() if isinstance(number, (np.generic, np.ndarray)) else number
    np.testing.assert_allclose(op(x, number).numpy(), op(a, plain), rtol=1e-6)
    np.testing.assert_allclose(op(number, x).numpy(), op(plain, a), rtol=1e-6)


def test_an_unsigned_operand_of_a_difference_does_not_wrap_around(device: BackendDevice) -> None:
    x, labels = Tensor([0.5, 1.5], device=device), _tensor([1, 2], "uint8", device)
    assert (x - labels).numpy().tolist() == [-0.5, -0.5]
    assert (labels - x).numpy().tolist() == [0.5, 0.5]
    assert (labels - 1).numpy().tolist() == [0, 1]
    assert (1.5 - labels).numpy().tolist() == [0.5, -0.5]


def test_whole_numbers_beside_an_integer_tensor_are_not_rounded(device: BackendDevice) -> None:
    large = 2**24 + 1  # no float32
    x = _tensor([large], "int64", device)
    for other in (np.array([large]), [large], large):
        assert (x + other).numpy().tolist() == [2 * large]
        assert (x >= other).numpy().tolist() == [True]
    assert (x.cached_data - np.array([large])).numpy().tolist() == [0]


@pytest.mark.parametrize("name", ["sum", "mean", "var", "max", "min"])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_numpy_reduces_tensors_by_their_own_methods(
    name: str, axis: Any, keepdims: bool, device: BackendDevice
) -> None:
    a = VALUES.astype("float64")
    x = _tensor(a, "float64", device)
    function, method = getattr(np, name), getattr(x, name)
    expected = function(a, axis=axis, keepdims=keepdims)
    for result in (
        function(x, axis=axis, keepdims=keepdims),
        method(axis=axis, keepdims=keepdims),
        method(axes=axis, keepdims=keepdims),
        method(axis, keepdims),
    ):
        assert isinstance(result, Tensor) and result.op is not None, "recorded"
        assert_close(result, expected)


def test_numpy_var_hands_its_ddof_on(device: BackendDevice) -> None:
    x = _tensor(VALUES, "float64", device)
    for result in (np.var(x, axis=1, ddof=1), x.var(1, correction=1)):
        assert_close(result, VALUES.var(axis=1, ddof=1))


def test_what_numpy_asks_of_a_reduction_and_tensors_have_not_is_refused() -> None:
    x = _tensor(VALUES, "float64", None)
    with pytest.raises(DTypeError, match=r"^max: a Tensor takes no dtype and no out"):
        np.max(x, axis=0, out=np.zeros(3))
    with pytest.raises(DTypeError, match=r"^mean: a Tensor takes no dtype"):
        np.mean(x, dtype="float32")
    with pytest.raises(OptionError, match=r"^var: axes=0 and axis=1 are two names of one argument"):
        x.var(0, axis=1)
    with pytest.raises(TypeError, match="where"):
        np.sum(x, where=VALUES > 2)
