"""Dtypes: names, the default, and how they combine."""

import itertools

import numpy as np
import pytest

from needle import backend_ndarray as nd
from needle.backend_ndarray import dtypes
from needle.errors import DTypeError
from tests.backend_ndarray.strategies import DTYPES


@pytest.mark.parametrize("name", DTYPES)
def test_every_spelling(name):
    for spelling in (name, np.dtype(name), np.dtype(name).type, np.dtype(name).newbyteorder(">")):
        assert dtypes.as_dtype(spelling) is dtypes.as_dtype(name)


@pytest.mark.parametrize("dtype", ["float16", "complex64", "int8", np.uint64, object, "nonsense"])
def test_unknown_dtypes(dtype):
    with pytest.raises(DTypeError, match=r"^array: .*float32"):
        nd.array([1.0], dtype=dtype)


def test_default_dtype():
    assert nd.default_dtype() == np.float32
    try:
        nd.set_default_dtype("float64")
        assert nd.default_dtype() == np.float64
        assert nd.array([1]).dtype == nd.array(np.arange(2)).dtype == nd.empty((1,)).dtype == np.float64
        assert nd.array(np.ones(1, "float32")).dtype == np.float32
        mask = nd.array([True], dtype=bool)
        assert (mask * mask).dtype == np.float64
    finally:
        nd.set_default_dtype("float32")
    with pytest.raises(DTypeError, match=r"set_default_dtype: dtype must be float32 or float64, got int64"):
        nd.set_default_dtype("int64")


@pytest.mark.parametrize("values", [np.ones(2, dtype) for dtype in (*DTYPES, "float16", "int8", "uint64", ">f4")])
def test_what_comes_in_becomes_float32(values):
    assert nd.array(values).dtype == np.float32
    assert nd.array(values).numpy().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("values", [np.ones(1, complex), ["a"], [None], np.array(["2020"], "M8[D]")])
def test_what_is_no_number(values):
    with pytest.raises(DTypeError, match=r"^array: .*real numbers"):
        nd.array(values)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(DTYPES, DTYPES)))
def test_arrays_promote_as_in_numpy(device, a, b):
    x, y = (nd.array([3], dtype=name, device=device) for name in (a, b))
    expected = np.result_type(np.dtype(a), np.dtype(b))
    assert (x + y).dtype == (np.float32 if expected.kind == "b" else expected)
    assert (x / y).dtype == (np.float32 if expected.kind == "b" else (x.numpy() / y.numpy()).dtype)
    assert (x <= y).dtype == np.bool_
    assert (x <= y).numpy().item() == (x.numpy() <= y.numpy()).item()
    assert (x + y).numpy().item() == int(x.item()) + int(y.item())


@pytest.mark.parametrize(
    "number", [2, 2.5, True, np.float64(2.5), np.float32(2), np.int8(2), np.bool_(True), np.array(2.5)]
)
def test_numbers_never_promote_floats(device, dtype, number):
    x = nd.array([3.0], dtype=dtype, device=device)
    for result in (x + number, number + x, x - number, number - x, x * number, number / x, x**number, number**x):
        assert result.dtype == dtype
    assert (x + number).item() == 3 + number


@pytest.mark.parametrize("name", ["int64", "int32", "uint8"])
def test_integers_beside_numbers(device, name):
    x = nd.array([3], dtype=name, device=device)
    assert (x + 2).dtype == (x * np.int64(2)).dtype == (x + True).dtype == np.dtype(name)
    assert (x + 2.0).dtype == (x / 2).dtype == (2 / x).dtype == np.float64
    assert (x / 2).item() == 1.5
    assert (x < 3.5).item() is True
    assert (x == 3.5).item() is False
    assert (x < 2**40).item() is True
    assert (x > -(2**40)).item() is True
    assert x.exp().dtype == x.log().dtype == x.sqrt().dtype == np.float64
    with pytest.raises(DTypeError, match=r"^power: "):
        x**-1


def test_a_number_outside_an_integer_dtype(device):
    assert (nd.array([128], dtype="uint8", device=device) / 256).item() == 0.5
    with pytest.raises(DTypeError, match=r"^add: 300 is outside the range of uint8"):
        nd.array([1], dtype="uint8", device=device) + 300


def test_bools_act_as_numbers(device):
    mask = nd.array([True, False, True], dtype=bool, device=device)
    for result in (
        mask + mask,
        mask * 2,
        mask * 0.5,
        1 - mask,
        -mask,
        mask.exp(),
        mask.abs(),
        mask.sum(),
        mask.cumsum(0),
    ):
        assert result.dtype == np.float32
    assert mask.sum().item() == 2
    assert (mask == True).numpy().tolist() == [True, False, True]  # noqa: E712
    assert (mask == 1).numpy().tolist() == [True, False, True]
    assert (mask < 0.5).numpy().tolist() == [False, True, False]
    assert mask.max().dtype == bool
    assert (mask * nd.array([2] * 3, dtype="int64", device=device)).dtype == np.int64


def test_a_number_is_rounded_to_the_dtype_first(device):
    x = nd.array([0.1], dtype="float32", device=device)
    assert (x == 0.1).item() is True
    assert (x - 0.1).item() == 0.0
    assert (x * 1e300).item() == np.inf
