"""Making, converting and copying arrays."""

import copy
import pickle
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needle import backend_ndarray as nd
from needle.errors import DTypeError, ShapeError
from tests.backend_ndarray.strategies import DTYPES, pairs


class Sub(nd.NDArray):
    pass


@pytest.mark.parametrize(
    "values", [3, [1, 2], [[1.5], [2.5]], np.arange(6)[::-2], np.ones((0, 3)), np.ones((2, 3)).T, (1, 2), range(3)]
)
def test_making_copies_row_major(device, values):
    a = nd.array(values, device=device)
    assert a.is_compact()
    assert a.numpy().tolist() == np.asarray(values).tolist()
    if isinstance(values, np.ndarray) and values.size:
        before = values.copy()
        a.fill(99)
        assert (values == before).all()


def test_flipped_images(device):
    """Case NA03."""
    assert nd.array(np.flip([1, 34]), device=device).numpy().tolist() == [34, 1]


@given(st.data())
def test_copies_of_arrays(device, data):
    a, x = data.draw(pairs(device, dtypes=DTYPES))
    for made in (nd.NDArray(a), nd.array(a), a.astype(a.dtype), pickle.loads(pickle.dumps(a)), copy.deepcopy(a)):
        assert made._handle is not a._handle
        assert (made.dtype, made.device, made.shape) == (a.dtype, a.device, a.shape)
        assert made.strides == (a + 1).strides or a.dtype == bool
        np.testing.assert_array_equal(made.numpy(), x)


def test_subclasses(device):
    a = Sub([[1, 2], [3, 4]], device=device)
    a.name = "a"
    assert copy.deepcopy(a).name == "a"
    assert type(a) is Sub
    assert type(Sub(a)) is Sub
    assert type(Sub.make((2,), device=device)) is Sub
    assert type(pickle.loads(pickle.dumps(a))) is Sub
    assert type(a + 1) is type(a[0]) is type(a.T) is type(a.sum()) is type(a.compact().reshape(4)) is nd.NDArray
    assert type(nd.array(a)) is nd.NDArray


def test_make(device):
    a = nd.array(np.arange(6), device=device)
    assert nd.NDArray.make((2, 3), None, device, a._handle).numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert nd.NDArray.make((3,), (-2,), device, a._handle, 5).numpy().tolist() == [5, 3, 1]
    assert nd.NDArray.make((2, 3), (1, 2), device).strides == (1, 2)
    assert nd.NDArray.make((2,), device=device, dtype="int64").dtype == np.int64
    ints = nd.array([1, 2], dtype="int64", device=device)
    assert nd.NDArray.make((1,), device=device, handle=ints._handle).dtype == np.int64
    for shape, strides, offset in (
        ((7,), None, 0),
        ((3,), None, 4),
        ((2,), (-1,), 0),
        ((2,), (1,), -1),
        ((-1,), None, 0),
    ):
        with pytest.raises(ShapeError, match=r"^make: "):
            nd.NDArray.make(shape, strides, device, a._handle, offset)
    with pytest.raises(ShapeError, match=r"^make: "):
        nd.NDArray.make((2, 3), (3, 3), device)


@pytest.mark.parametrize("shape", [(2**31, 2**31, 2**31), (2**62,), (2**33, 2**9, 2**9)])
def test_too_large(device, shape):
    """Case NA15: sizes are 64-bit, and nothing is touched before the error."""
    for make in (nd.empty, lambda shape, device: nd.full(shape, 1.0, device=device)):
        with pytest.raises(MemoryError):
            make(shape, device=device)
    with pytest.raises(MemoryError):
        nd.array([1.0], device=device).broadcast_to(shape) + 1


@pytest.mark.parametrize("shape", [-1, (2, -3), (1.5,), "ab", (None,)])
def test_wrong_shapes(device, shape):
    with pytest.raises(ShapeError):
        nd.empty(shape, device=device)


def test_ragged_lists():
    with pytest.raises(ShapeError, match=r"^array: "):
        nd.array([[1, 2], [3]])


def test_numpy_copies_and_asarray_views(array):
    a = array(np.arange(6.0).reshape(2, 3)).T
    assert a.numpy().flags.c_contiguous
    a.numpy()[...] = 9
    assert a.numpy().max() == 5
    view = np.asarray(a)
    assert not view.flags.writeable
    a[0] = 7.0
    assert view[0].tolist() == [7, 7]
    del a
    assert view[0].tolist() == [7, 7]  # the view keeps the memory


def test_array_protocol(array):
    a = array([1.0, 2.0])
    assert np.array(a).flags.writeable
    made = np.array(a)
    made[0] = 9
    assert a.numpy().tolist() == [1, 2]
    assert np.asarray(a, dtype="float32").dtype == np.float32
    assert a.__array__(copy=True).flags.writeable
    assert a.__array__("int64", copy=True).tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"only by a copy"):
        a.__array__("float32", copy=False)
    assert np.stack([a, a]).shape == (2, 2)
    assert isinstance(np.exp(a), np.ndarray)
    assert np.mean(a) == 1.5


def test_numbers(array):
    a = array([[2.5]])
    assert (a.item(), float(a), int(a), bool(a)) == (2.5, 2.5, 2, True)
    assert type(array([1], dtype="int64").item()) is int
    assert type((a > 1).item()) is bool
    for use in (lambda x: x.item(), float, int, bool):
        with pytest.raises(ShapeError, match=r"item: an array of shape \(2,\) has 2 elements"):
            use(array([1.0, 2.0]))


def test_astype(device):
    a = nd.array([[1.7, -1.7], [0.0, np.nan]], device=device).T
    assert a.astype("float64").dtype == np.float64
    assert a.astype(bool).numpy().tolist() == [[True, False], [True, True]]
    assert a[:, :1].astype("int32").numpy().tolist() == [[1], [-1]]
    a.astype("int64")  # NaN is cast without a warning
    with pytest.raises(DTypeError, match=r"complex"):
        a.astype(complex)


def test_to(device):
    a = nd.array([1.0], device=device)
    assert a.to(device) is a
    other = a.to(nd.cpu_numpy())
    assert other.device == nd.cpu_numpy()
    assert other.numpy().tolist() == [1]


def test_pad(array):
    x = np.arange(6.0).reshape(2, 3)
    a = array(x.T).T
    widths = ((1, 0), (0, 2))
    assert a.pad(widths).numpy().tolist() == np.pad(x, widths).tolist()
    assert a.pad(widths).strides == (1, 3)  # the memory order is kept
    assert array(x).pad(widths).is_compact()
    assert array(np.zeros((0, 2))).pad(((1, 1), (0, 0))).numpy().tolist() == [[0, 0], [0, 0]]
    for wrong in (((1, 1),), ((1, 1), (-1, 0)), ((1,), (1, 1))):
        with pytest.raises(ShapeError, match=r"^pad: expected a pair"):
            a.pad(wrong)


def test_repr(array):
    assert repr(array([1.0, 2.0])) == f"NDArray([1., 2.], dtype=float64, device={array([0.0]).device})"


def test_weak_references(array):
    a = array([1.0])
    reference = weakref.ref(a)
    del a
    assert reference() is None


def test_an_unknown_attribute_raises(array):
    with pytest.raises(AttributeError):
        array([1.0]).shpae = (2,)


def test_module_functions_take_ndarrays():
    wrong = np.ones(3)
    for function in (nd.exp, nd.log, nd.tanh, nd.sum, nd.flip, nd.clip):
        with pytest.raises(DTypeError, match=f"^{function.__name__}: expected an NDArray, got an ndarray"):
            function(wrong)
    for function in (nd.reshape, nd.broadcast_to, nd.matmul, nd.maximum):
        with pytest.raises(DTypeError, match=f"^{function.__name__}: expected an NDArray, got an ndarray"):
            function(wrong, wrong)
    with pytest.raises(DTypeError, match=r"^where: expected an NDArray"):
        nd.where(wrong, 1, 2)


def test_strides_are_integers(array):
    with pytest.raises(ShapeError, match="as_strided: strides are integers"):
        array([1, 2]).as_strided((2,), (1.5,))
    with pytest.raises(ShapeError, match="make: strides are integers"):
        nd.NDArray.make((2,), "ab")
