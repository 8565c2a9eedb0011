"""Reading and writing `a[index]`, against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needle import backend_ndarray as nd
from needle.errors import BoundsError, DTypeError, ShapeError
from tests.backend_ndarray.strategies import DTYPES, indices, masks, pairs


def as_course(index):
    """The NumPy index that means what the course's index means: an int keeps its axis."""
    return tuple(slice(i, i + 1 if i != -1 else None) if isinstance(i, int) else i for i in index)


def has_arrays(index):
    return any(isinstance(entry, np.ndarray) for entry in index)


@given(st.data())
def test_select_is_numpys_indexing(device, data):
    a, x = data.draw(pairs(device, dtypes=DTYPES))
    index = data.draw(indices(x.shape))
    result = a.select(index)
    assert result.dtype == x.dtype
    assert result.shape == x[index].shape
    np.testing.assert_array_equal(result.numpy(), x[index])
    assert (result._handle is a._handle) == (not has_arrays(index))


@given(st.data())
def test_getitem_keeps_the_axis_of_an_int(device, data):
    a, x = data.draw(pairs(device))
    index = data.draw(indices(x.shape))
    expected = x[as_course(index)]
    assert a[index].shape == expected.shape
    np.testing.assert_array_equal(a[index].numpy(), expected)
    if len(index) == 1:
        np.testing.assert_array_equal(a[index[0]].numpy(), expected)


@given(st.data())
def test_setitem(device, data):
    a, x = data.draw(pairs(device, dtypes=DTYPES, broadcast=False))
    index = as_course(data.draw(indices(x.shape)))
    expected = x.copy()
    shape = expected[index].shape
    value = np.random.RandomState(0).randint(0, 9, shape) if data.draw(st.booleans()) else 5
    a[index] = value if np.isscalar(value) else nd.array(value, device=device)
    expected[index] = value
    np.testing.assert_array_equal(a.numpy(), expected)


@given(st.data())
def test_add_at(device, data):
    a, x = data.draw(pairs(device, broadcast=False))
    index = data.draw(indices(x.shape))
    values = np.random.RandomState(0).randint(0, 9, x[index].shape).astype(float)
    expected = x.copy()
    np.add.at(expected, index, values)
    a.add_at(index, nd.array(values, device=device))
    np.testing.assert_array_equal(a.numpy(), expected)


@given(st.data())
def test_masks(device, data):
    a, x = data.draw(pairs(device, broadcast=False))
    axes = data.draw(st.integers(1, max(x.ndim, 1)))
    if x.ndim < axes:
        return
    mask = data.draw(masks(x.shape[:axes]))
    np.testing.assert_array_equal(a[mask].numpy(), x[mask])
    np.testing.assert_array_equal(a.select(nd.array(mask, dtype=bool, device=device)).numpy(), x[mask])
    expected = x.copy()
    expected[mask] = -1
    a[mask] = -1
    np.testing.assert_array_equal(a.numpy(), expected)


@pytest.mark.parametrize(
    "index",
    [
        ([0, 2], slice(None), [1, 0]),  # separated: the arrays' axis comes first
        (slice(None), [0, 2], [1, 0]),
        (slice(None), [[0, 2], [1, 1]], None, slice(1, None)),
        (1, slice(None), [0, 1]),
        (..., [0, -1]),
        ([True, False, True], 2),
        [],
        np.array(1),
        (np.array([2, 0], "uint8"), np.array([1], "int8")),
    ],
)
def test_where_numpy_puts_the_axes(device, index):
    x = np.arange(36.0).reshape(3, 3, 4)
    a = nd.array(x, dtype="float64", device=device)
    for array, values in ((a, x), (a.permute((2, 0, 1)).permute((1, 2, 0)), x)):
        np.testing.assert_array_equal(array.select(index).numpy(), values[index])


@pytest.mark.parametrize("kind", ["basic", "array", "permuted array", "mask"])
def test_value_in_the_same_memory_is_read_first(array, kind):
    x = np.arange(12.0).reshape(3, 4)
    a = array(x) if kind != "permuted array" else array(x.T).T
    expected = x.copy()
    source, target = {"basic": (np.s_[:-1], np.s_[1:]), "mask": (np.s_[::-1], np.array([True] * 3))}.get(
        kind, (np.s_[::-1], [0, 1, 2])
    )
    a[target] = a[source]
    expected[target] = expected[source].copy()
    np.testing.assert_array_equal(a.numpy(), expected)
    b = array(np.arange(6.0))
    b[1:] = b[:-1]
    b[::-1] = b
    assert b.numpy().tolist() == [4, 3, 2, 1, 0, 0]


def test_as_many_elements_are_enough(array):
    a = array(np.zeros((2, 1, 3)))
    a[:, 0] = array(np.arange(6.0).reshape(3, 2))
    assert a.numpy().tolist() == [[[0, 1, 2]], [[3, 4, 5]]]
    a[:] = array([7.0, 8.0, 9.0])  # broadcast
    assert a.numpy().tolist() == [[[7, 8, 9]], [[7, 8, 9]]]
    a[[1, 0]] = np.arange(6)
    assert a.numpy().tolist() == [[[3, 4, 5]], [[0, 1, 2]]]
    for value in (np.ones(4), np.ones((2, 2))):
        with pytest.raises(ShapeError, match=r"^setitem: a value of shape .* does not fit shape \(2, 1, 3\)"):
            a[:] = array(value)


def test_values_are_cast(device):
    a = nd.array([1, 2, 3], dtype="int64", device=device)
    a[0] = 7.9
    a[1:] = nd.array([2.5, -1.5], device=device)
    assert a.numpy().tolist() == [7, 2, -1]
    a[[0, 1]] = nd.array([0.5, 9.5], device=device)
    assert a.numpy().tolist() == [0, 9, -1]
    a.add_at([0, 0], 2)
    assert a.numpy().tolist() == [4, 9, -1]


@pytest.mark.parametrize(
    "write",
    [
        lambda a: a.fill(1),
        lambda a: a.__setitem__(0, 1.0),
        lambda a: a.__setitem__([0, 1], 1.0),
        lambda a: a.add_at(0, 1.0),
        lambda a: a.add_at([0, 1], 1.0),
    ],
)
def test_broadcast_views_are_read_only(array, write):
    a = array([[1.0], [2.0]])
    with pytest.raises(ShapeError, match=r"broadcast along axis . cannot be written to; write to a copy"):
        write(a.broadcast_to((2, 3)))
    assert a.numpy().tolist() == [[1], [2]]
    with pytest.raises(ShapeError, match=r"broadcast along axis 0"):
        write(a[:1].broadcast_to((2, 1)))  # although one row of it could be written to
    copy = a.broadcast_to((2, 3)).compact()
    write(copy)
    assert a.numpy().tolist() == [[1], [2]]


def test_small_index_dtypes_reach_far(array):
    a = array(np.arange(1000.0))
    assert a[np.array([255, 3], "uint8")].numpy().tolist() == [255, 3]
    assert a[np.array([-1, -128], "int8")].numpy().tolist() == [999, 872]


def test_versions(array):
    """Every write renews the version of the buffer; nothing else does."""
    a, other = array(np.ones((2, 2))), array(np.ones((2, 2)))
    assert a._handle.version != other._handle.version
    for write in (
        lambda: a.fill(1),
        lambda: a.__setitem__(0, 2.0),
        lambda: a.T.__setitem__(([0], [1]), 2.0),
        lambda: a.add_at(0, 1.0),
        lambda: a.add_at([0, 0], 1.0),
        lambda: a.flat.__setitem__(1, 2.0),
        lambda: a.T.flat.__setitem__(1, 2.0),
    ):
        before = a._handle.version
        write()
        assert a._handle.version > before
    before = a._handle.version
    _ = a + a, a[0], a[[0]], a.sum(), a.compact(), a.T.compact(), a.numpy(), a.flat[0]
    assert a._handle.version == before


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (2, BoundsError, r"index 2 is out of range for axis 0 of shape \(2, 3\)"),
        ((0, -4), BoundsError, "index -4 is out of range for axis 1"),
        ([0, 5], BoundsError, "index 5 is out of range for axis 0"),
        ((0, 0, 0), BoundsError, "3 indices for an array of shape"),
        ((..., ...), BoundsError, "single ellipsis"),
        (np.ones((2, 2), bool), BoundsError, r"boolean index of shape \(2, 2\) does not fit \(2, 3\)"),
        (0.5, DTypeError, "not float of dtype float64"),
        ([0.0, 1.0], DTypeError, "not list of dtype float64"),
        ("a", DTypeError, "not str"),
        (True, DTypeError, "not bool"),
        (np.s_[::0], ShapeError, "step must not be zero"),
        (([0, 1], [0, 1, 2]), ShapeError, r"shapes \(2,\) and \(3,\) do not broadcast"),
    ],
)
def test_wrong_indices(array, index, error, message):
    a = array(np.ones((2, 3)))
    for use in (lambda: a[index], lambda: a.select(index), lambda: a.__setitem__(index, 0), lambda: a.add_at(index, 0)):
        with pytest.raises(error, match=message):
            use()


def test_bounds_errors_are_index_errors(array):
    with pytest.raises(IndexError):
        array([1.0])[1]
    with pytest.raises(IndexError):
        array(np.zeros((0, 2)))[0]


def test_flat(array):
    x = np.arange(24.0).reshape(2, 3, 4)
    for a in (array(x), array(x.transpose(2, 0, 1)).permute((1, 2, 0)), array(np.repeat(x, 2, 0))[::2]):
        flat = a.flat
        assert (len(flat), flat.size, flat.shape) == (24, 24, (24,))
        assert [element.item() for element in flat] == x.ravel().tolist()
        assert flat[5].shape == (1,)
        assert flat[-1].item() == 23
        assert flat[4:20:5].numpy().tolist() == [4, 9, 14, 19]
        assert flat[[3, 3]].numpy().tolist() == [3, 3]
        assert np.asarray(flat).tolist() == flat.numpy().tolist() == x.ravel().tolist()
        a.flat[7] += 100
        a.flat[0:3] = array([10.0, 11.0, 12.0])
        assert a.numpy().ravel()[[0, 1, 2, 3, 7]].tolist() == [10, 11, 12, 3, 107]
        assert flat[7].item() == 107  # what was taken before the write shows it
        with pytest.raises(BoundsError, match=r"index 24"):
            a.flat[24]
    assert np.asarray(array(x).T.flat, dtype="float32").dtype == np.float32


def test_flat_of_small_arrays(array):
    assert array(3.0).flat[0].item() == 3
    assert len(array(np.zeros((0, 2))).T.flat) == 0


def test_length_and_iteration(array):
    a = array(np.arange(6.0).reshape(3, 2))
    assert len(a) == 3
    assert [row.numpy().tolist() for row in a] == [[0, 1], [2, 3], [4, 5]]
    for row in a:
        row.fill(0.0)
    assert a.numpy().sum() == 0
    assert list(array(np.zeros((0, 2)))) == []
    for use in (len, iter):
        with pytest.raises(DTypeError, match=r"^len: an array of shape \(\)"):
            use(array(1.0))


class Reversing(nd.NDArray):
    """A subclass with a say in what slices mean."""

    def process_slice(self, sl, dim):
        start, stop, step = sl.indices(self.shape[dim])
        return slice(stop - 1, start - 1, -step)


def test_process_slice_can_be_overridden(device):
    a = Reversing(np.arange(6).reshape(2, 3), device=device)
    assert a[:, 1:].numpy().tolist() == [[5, 4], [2, 1]]
    a[:1, :] = nd.array([10, 11, 12], device=device)
    assert a.numpy().tolist() == [[12, 11, 10], [3, 4, 5]]


@pytest.mark.parametrize(
    "given", [np.s_[:], np.s_[2:100], np.s_[-100:2], np.s_[5:2], np.s_[::3], np.s_[8:1:-2], np.s_[::-1]]
)
def test_process_slice(array, given):
    explicit = array(np.zeros((2, 10))).process_slice(given, 1)
    assert list(range(10))[given] == list(range(explicit.start, explicit.stop, explicit.step))
    assert explicit.start >= 0
    assert explicit.stop >= 0 or explicit.step < 0


def test_what_is_written_takes_the_dtype_of_the_array(device):
    large = 2**24 + 1  # no float32
    for index, value in (([0], large), (0, [large]), ([0], [large]), (slice(0, 1), np.array([large]))):
        a = nd.array([0, 0], dtype="int64", device=device)
        a[index] = value
        assert a.numpy().tolist() == [large, 0]
        a.add_at(index, value)
        assert a.numpy().tolist() == [2 * large, 0]


def test_a_number_that_integers_cannot_hold(device):
    a = nd.array([1, 2], dtype="uint8", device=device)
    for number in (-1, 256, np.nan, np.inf):
        with pytest.raises(DTypeError, match=rf"^setitem: {number} is outside the range of uint8"):
            a[0] = number
        with pytest.raises(DTypeError, match=rf"^fill: {number} is outside the range of uint8"):
            a.fill(number)
    assert a.numpy().tolist() == [1, 2]


def test_slices_are_made_of_integers(array):
    a = array(np.arange(6.0).reshape(2, 3))
    for index in (slice("a"), slice(None, 1.5), (0, slice(None, None, "x"))):
        with pytest.raises(DTypeError, match="slice: start, stop and step are integers or None"):
            a[index]
    for wrong in (a.flat, a.T.flat):
        with pytest.raises(ShapeError, match="slice: the step must not be zero"):
            wrong[::0]
        with pytest.raises(DTypeError, match="slice: start, stop and step"):
            wrong["a":]
    assert a.T.flat[::-2].numpy().tolist() == [5, 4, 3]
    with pytest.raises(BoundsError, match="flat: expected one index"):
        a.T.flat[None]
