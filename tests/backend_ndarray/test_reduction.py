"""Reductions, scans and the matrix product, against NumPy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needle import backend_ndarray as nd
from needle.errors import DTypeError, ShapeError
from tests.backend_ndarray.strategies import DTYPES, pairs
from tests.tolerances import assert_close


@given(st.data())
def test_reductions(device, data):
    a, x = data.draw(pairs(device))
    axis = data.draw(
        st.none() | st.lists(st.integers(0, x.ndim - 1), unique=True).map(tuple) | st.integers(-x.ndim, x.ndim - 1)
        if x.ndim
        else st.none() | st.just(())
    )
    keepdims = data.draw(st.booleans())
    for name in ("sum", "max", "min"):
        try:
            expected = getattr(x, name)(axis=axis, keepdims=keepdims)
        except ValueError:
            if a.sum(axis, keepdims).size == 0:
                continue  # NumPy refuses an empty axis of some empty results; there is no element to ask for
            with pytest.raises(ShapeError, match=rf"^{name}: shape .* has no elements"):
                getattr(a, name)(axis, keepdims)
        else:
            assert_close(getattr(a, name)(axis, keepdims), expected)
            assert_close(getattr(np, name)(a, axis=axis, keepdims=keepdims), expected)


@given(st.data())
def test_along_an_axis(device, data):
    shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)
    a, x = data.draw(pairs(device, shapes).filter(lambda pair: pair.values.size))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    assert_close(a.argmax(axis), x.argmax(axis))
    assert_close(a.argmax(), x.argmax())
    assert_close(a.cumsum(axis), x.cumsum(axis))
    assert_close(a.argsort(axis), x.argsort(axis, kind="stable"))
    assert a.argmax(axis).dtype == a.argsort(axis).dtype == np.int64


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(device, name):
    a = nd.array([[1, 0], [1, 1]], dtype=name, device=device)
    total = {"bool": "float32", "uint8": "int64", "int32": "int64"}.get(name, name)
    assert a.sum().dtype == a.cumsum(0).dtype == total
    assert a.sum(0).numpy().tolist() == [2, 1]
    assert a.max().dtype == a.min().dtype == name
    assert a.argmax(1).numpy().tolist() == [0, 0]


def test_nan_passes(device, dtype):
    a = nd.array([[1.0, np.nan, 3.0], [1.0, 2.0, 3.0]], dtype=dtype, device=device)
    np.testing.assert_array_equal(a.max(1).numpy(), [np.nan, 3])
    np.testing.assert_array_equal(a.min(1).numpy(), [np.nan, 1])
    np.testing.assert_array_equal(a.sum(1).numpy(), [np.nan, 6])
    assert a.argmax(1).numpy().tolist() == [1, 2]
    assert a.argsort(1).numpy().tolist() == [[0, 2, 1], [0, 1, 2]]
    infinite = nd.array([np.inf, -np.inf], dtype=dtype, device=device)
    assert np.isnan(infinite.sum().item())


def test_float32_is_summed_in_float64(device):
    """Case NA13, and that rounding happens once."""
    a = nd.array(np.full(1_000_000, np.float32(1 / 255)), device=device)
    exact = float(np.float32(1 / 255)) * 1e6
    assert a.sum().item() == np.float32(exact)
    assert a.reshape((1000, 1000)).sum(axis=1).sum().item() == pytest.approx(exact, abs=0.01)
    assert a.cumsum(0)[-1].item() == pytest.approx(exact, rel=1e-7)


@pytest.mark.parametrize("name", ["sum", "max", "min", "argmax", "cumsum", "argsort"])
def test_wrong_axes(array, name):
    for axis in (3, -4):
        with pytest.raises(ShapeError, match=rf"^{name}: axis {axis} is out of range for 3"):
            getattr(array(np.ones((2, 3, 4))), name)(axis)


@pytest.mark.parametrize("name", ["argmax", "cumsum", "argsort"])
def test_one_axis_only(array, name):
    with pytest.raises(ShapeError, match=f"^{name}: expected one axis, got \\(0, 1\\)"):
        getattr(array(np.ones((2, 3))), name)((0, 1))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_empty_arrays(array, shape):
    a = array(np.zeros(shape))
    assert a.sum().item() == 0
    assert a.cumsum(0).shape == a.argsort(-1).shape == shape
    assert a.sum(axis=0).numpy().tolist() == np.zeros(shape).sum(axis=0).tolist()
    for name in ("max", "min", "argmax"):
        with pytest.raises(ShapeError, match=rf"^{name}: "):
            getattr(a, name)()
    if len(shape) == 2:
        assert a.max(axis=shape.index(3)).shape == a.argmax(axis=shape.index(3)).shape == (0,)


def test_out_is_refused(array):
    a = array([1.0])
    for function in (np.sum, np.max, np.min):
        with pytest.raises(DTypeError, match=r"out= is not supported"):
            function(a, out=np.zeros(()))


@given(st.data())
def test_matmul(device, data):
    m, n, p = (data.draw(st.integers(0, 4)) for _ in range(3))
    leading = st.sampled_from([(), (2,), (3, 1), (1, 2), (0,)])
    a, x = data.draw(pairs(device, leading.map(lambda lead: (*lead, m, n)), broadcast=False))
    b, y = data.draw(pairs(device, leading.map(lambda lead: (*lead, n, p)), broadcast=False))
    try:
        expected = x @ y
    except ValueError:
        with pytest.raises(ShapeError, match=r"^matmul: shapes \("):
            a @ b
        return
    result = a @ b
    assert_close(result, expected)
    assert_close(nd.matmul(a, b), expected)
    assert result.is_compact()


@pytest.mark.parametrize(
    "right", [lambda b: b, lambda b: b[..., ::-1], lambda b: b.T, lambda b: b[:1].broadcast_to((6, 6))]
)
@pytest.mark.parametrize("left", [lambda a: a, lambda a: a[::2, ::2].broadcast_to((4, 3, 3)), lambda a: a.T[:, 3:]])
def test_matmul_reads_any_layout(array, left, right):
    values = np.random.randn(6, 6)
    a, b = left(array(values)), right(array(values))
    b = b[: a.shape[-1]]
    assert_close(a @ b, a.numpy() @ b.numpy())


def test_matmul_of_other_dtypes_and_operands(device):
    a = nd.array([[1, 2], [3, 4]], dtype="int64", device=device)
    assert (a @ a).numpy().tolist() == [[7, 10], [15, 22]]
    assert (a @ nd.array([[1.0], [1.0]], dtype="float64", device=device)).dtype == np.float64
    halves = nd.array([[0.5, 0.5]], device=device)
    assert (halves @ np.ones((2, 1))).dtype == (np.ones((1, 1)) @ halves).dtype == np.float32
    mask = a > 1
    assert (mask @ mask).numpy().tolist() == [[1, 1], [2 * 0 + 1, 2]]


def test_matmul_errors(array):
    for x, y in (((2, 3), (4, 5)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 2, 3), (3, 3, 4))):
        with pytest.raises(ShapeError, match=r"^matmul: shapes"):
            array(np.ones(x)) @ array(np.ones(y))


@pytest.mark.parametrize("axis", [0, 1])
def test_cumulative_sums_are_rounded_once(device, axis):
    a = np.ones((20, 20), "float32")
    a[0], a[:, 0] = 2**24, 2**24  # which float32 cannot add a single 1 to
    found = nd.array(a, device=device).cumsum(axis).numpy()
    np.testing.assert_array_equal(found, a.cumsum(axis, dtype="float64").astype("float32"))
