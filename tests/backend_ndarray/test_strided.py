"""Views, against NumPy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needle import backend_ndarray as nd
from needle.errors import DTypeError, ShapeError
from tests.backend_ndarray.strategies import pairs


def assert_same(array, expected):
    assert array.shape == expected.shape
    np.testing.assert_array_equal(array.numpy(), expected)


@given(st.data())
def test_views_hold_what_numpys_hold(device, data):
    a, x = data.draw(pairs(device))
    assert_same(a, x)
    assert (a.ndim, a.size) == (x.ndim, x.size)
    axes = data.draw(st.permutations(range(x.ndim)))
    for view, expected in (
        (a.permute([axis - data.draw(st.sampled_from([0, x.ndim])) for axis in axes]), x.transpose(axes)),
        (a.transpose(axes), x.transpose(axes)),
        (a.transpose(*axes), x.transpose(*axes)),
        (a.T, x.T),
        (a.flip(axes[:2]), np.flip(x, axes[:2])),
        (a.broadcast_to((2, *a.shape)), np.broadcast_to(x, (2, *x.shape))),
        (np.transpose(a), x.T),
    ):
        assert view._handle is a._handle
        assert_same(view, expected)


@given(st.data())
def test_reshape(device, data):
    a, x = data.draw(pairs(device))
    shape = data.draw(
        st.sampled_from([(-1,), (x.size,), (1, -1), (-1, 1), x.shape[::-1], (*x.shape, 1), (1, *x.shape)])
    )
    result = a.reshape(shape)
    assert_same(result, x.reshape(shape if x.size or -1 not in shape else [0 if n == -1 else n for n in shape]))
    if a.is_compact():
        assert result.is_compact()
        assert result._handle is a._handle


@given(st.data())
def test_compact(device, data):
    a, x = data.draw(pairs(device))
    made = a.compact()
    assert_same(made, x)
    assert made.is_compact()
    assert made.strides == nd.NDArray.compact_strides(x.shape)
    assert (made is a) == a.is_compact()


def test_is_compact_is_exact(array):
    a = array(np.arange(6.0).reshape(2, 3))
    assert a.is_compact()
    assert a[:].is_compact()
    assert a[None].is_compact()
    assert not a[:1].is_compact()
    assert not a[1:].is_compact()
    assert not a.as_strided((3,), (1,)).is_compact()
    assert not a[:, :1].is_compact()
    assert not array(np.ones((2, 1))).as_strided((2, 1), (1, 2)).is_compact()
    assert not a.broadcast_to((1, 2, 3))[:, :1].is_compact()
    assert array(3.0).is_compact()
    assert array(np.ones((0, 3))).is_compact()


def test_views_of_views_share_one_buffer(array):
    a = array(np.zeros((2, 3)))
    a.T[1:].T.reshape((2, 2, 1)).permute((1, 2, 0))[0, 0, 1] = 5
    assert a.numpy().tolist() == [[0, 0, 0], [0, 5, 0]]


def test_windows_alias(array):
    """Case NA08: a write through overlapping windows changes the base, and each window that shows the element."""
    a = array(np.arange(5.0))
    windows = a.as_strided((3, 3), (1, 1))
    windows[1] = 7.0
    assert a.numpy().tolist() == [0, 7, 7, 7, 4]
    assert windows.numpy().tolist() == [[0, 7, 7], [7, 7, 7], [7, 7, 4]]


@pytest.mark.parametrize(
    ("shape", "strides"), [((6,), (1,)), ((2,), (-1,)), ((-1,), (1,)), ((2,), (1, 1)), ((2**40,), (2**40,))]
)
def test_as_strided_stays_inside(array, shape, strides):
    with pytest.raises(ShapeError, match=r"^as_strided: "):
        array(np.arange(5.0)).as_strided(shape, strides)


def test_as_strided_starts_at_the_first_element(array):
    a = array(np.arange(5.0))[3:]
    assert a.as_strided((4,), (-1,)).numpy().tolist() == [3, 2, 1, 0]
    with pytest.raises(ShapeError, match=r"reaches elements 3 to 5 of a buffer that has 5"):
        a.as_strided((3,), (1,))


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda a: a.permute((0,)), r"permute: axes \(0,\)"),
        (lambda a: a.permute((0, 0)), "permute: .*twice"),
        (lambda a: a.permute((0, 2)), "permute: axis 2"),
        (lambda a: a.swapaxes(0, 2), "swapaxes: axis 2"),
        (lambda a: a.flip((0, -2)), "flip: .*twice"),
        (lambda a: a.broadcast_to((2, 4)), r"broadcast_to: shape \(2, 3\) does not broadcast to \(2, 4\)"),
        (lambda a: a.broadcast_to((3,)), "broadcast_to: "),
        (lambda a: a.reshape((4, 2)), r"reshape: 6 elements of shape \(2, 3\) do not fit shape \(4, 2\)"),
    ],
)
def test_what_does_not_fit(array, use, message):
    with pytest.raises(ShapeError, match=rf"^{message}"):
        use(array(np.ones((2, 3))))


def test_numpy_functions_that_call_methods(array):
    a = array(np.arange(6.0).reshape(2, 3))
    assert np.reshape(a, (3, 2)).numpy().tolist() == [[0, 1], [2, 3], [4, 5]]
    assert np.swapaxes(a, 0, 1).shape == (3, 2)
    assert a.transpose(None).shape == a.transpose().shape == (3, 2)
    with pytest.raises(DTypeError, match=r"order 'F'"):
        a.reshape((6,), order="F")
