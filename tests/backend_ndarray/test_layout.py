"""Shapes, strides and axes, against what NumPy does."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needle.backend_ndarray import layout
from needle.errors import ShapeError
from tests.backend_ndarray.strategies import SHAPES


def numpy_strides(values):
    return tuple(stride // values.itemsize for stride in values.strides)


@given(st.lists(st.integers(1, 5), max_size=4).map(tuple))
def test_compact_strides_are_numpys(shape):
    assert layout.compact_strides(shape) == numpy_strides(np.empty(shape))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_dense_in_any_order_of_axes(shape, data):
    axes = data.draw(st.permutations(range(len(shape))))
    dense = np.empty(shape).transpose(axes)
    assert layout.is_dense(dense.shape, numpy_strides(dense))
    assert layout.dense_strides(dense.shape, numpy_strides(dense)) is not None
    gap = np.empty([*shape, 2])[..., 0].transpose(axes)
    assert layout.is_dense(gap.shape, numpy_strides(gap)) == (gap.size == 1)


def test_axes_of_length_1_do_not_hide_row_major_order():
    assert layout.dense_strides((2, 1, 3), (3, 77, 1)) == (3, 3, 1)
    assert layout.dense_strides((1, 1), (0, 5)) == (1, 1)


@pytest.mark.parametrize("strides", [(0, 1), (3, -1), (6, 1), (1, 1)])
def test_not_dense(strides):
    assert not layout.is_dense((2, 3), strides)


@given(SHAPES, st.data())
def test_ordered_strides_keep_the_order(shape, data):
    axes = data.draw(st.permutations(range(len(shape))))
    values = np.empty(shape).transpose(axes)
    grown = tuple(length + 1 for length in values.shape)
    strides = layout.ordered_strides(grown, numpy_strides(values))
    assert layout.is_dense(grown, strides)
    if 0 not in shape and 1 not in shape:
        assert np.argsort(strides).tolist() == np.argsort(numpy_strides(values)).tolist()


@pytest.mark.parametrize(
    ("axes", "expected"), [(None, (0, 1, 2)), (-1, (2,)), ([2, 0], (2, 0)), ((), ()), (np.int64(1), (1,))]
)
def test_normalize_axes(axes, expected):
    assert layout.normalize_axes(axes, 3, "sum") == expected


@pytest.mark.parametrize("axes", [3, -4, (0, 0), (1, -2), 0.5, ("a",)])
def test_wrong_axes(axes):
    with pytest.raises(ShapeError, match=r"^flip: "):
        layout.normalize_axes(axes, 3, "flip")


@given(st.lists(SHAPES, min_size=1, max_size=3))
def test_broadcast_shapes(shapes):
    try:
        expected = np.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(ShapeError, match=r"^add: shapes .* do not broadcast"):
            layout.broadcast_shapes("add", *shapes)
    else:
        assert layout.broadcast_shapes("add", *shapes) == expected


@given(SHAPES, SHAPES)
def test_broadcast_strides(shape, target):
    values = np.empty(shape)
    try:
        expected = np.broadcast_to(values, target)
    except ValueError:
        with pytest.raises(ShapeError, match=r"^broadcast_to: "):
            layout.broadcast_strides("broadcast_to", shape, layout.compact_strides(shape), target)
    else:
        strides = layout.broadcast_strides("broadcast_to", shape, layout.compact_strides(shape), target)
        if expected.size:
            assert strides == numpy_strides(expected)


@pytest.mark.parametrize(
    ("shape", "new_shape", "expected"),
    [((2, 6), (3, -1), (3, 4)), ((), (1, -1), (1, 1)), ((0, 3), (3, -1), (3, 0)), ((4,), (np.int64(4),), (4,))],
)
def test_fill_in_shape(shape, new_shape, expected):
    assert layout.fill_in_shape(shape, new_shape) == expected


@pytest.mark.parametrize("new_shape", [(4, 2), (-1, -1), (5, -1), (-2, -3), (0, -1), (1.5, 4)])
def test_shapes_that_do_not_fit(new_shape):
    with pytest.raises(ShapeError, match=r"^reshape: "):
        layout.fill_in_shape((2, 3), new_shape)


@given(st.data())
def test_reshape_is_a_view_wherever_numpy_has_one(data):
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4))
    values = np.empty(shape).transpose(data.draw(st.permutations(range(len(shape)))))
    values = values[tuple(slice(None, None, data.draw(st.sampled_from([1, 1, 1, 2, -1]))) for _ in shape)]
    factors = [n for length in values.shape for n in ([2, length // 2] if length % 2 == 0 else [length])]
    cut = data.draw(st.integers(0, len(factors)))
    new_shape = (*factors[:cut], int(np.prod(factors[cut:])))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # NumPy 2.5 has reshape(copy=False) instead, 1.26 not
            viewed = values.view()
            viewed.shape = new_shape
        expected = numpy_strides(viewed)
    except AttributeError:
        expected = None
    strides = layout.reshape_strides(values.shape, numpy_strides(values), new_shape)
    assert (strides is None) == (expected is None)
    if strides is not None:
        long = [axis for axis, length in enumerate(new_shape) if length > 1]
        assert [strides[axis] for axis in long] == [expected[axis] for axis in long]


def test_sizes_are_64_bit():
    assert layout.checked_size((1, 46342, 46341), 4) == 2147534622
    with pytest.raises(MemoryError, match=r"\(4294967296, 4294967296\)"):
        layout.checked_size((2**32, 2**32), 4)


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [((3, 2), (2, 1), 1), ((7,), (1,), 0), ((3,), (-1,), 1), ((2,), (-1,), 6), ((2, 2), (5, -2), 0), ((2,), (1, 1), 0)],
)
def test_views_that_leave_their_buffer(shape, strides, offset):
    with pytest.raises(ShapeError, match=r"^as_strided: "):
        layout.check_bounds("as_strided", shape, strides, offset, 6)


@pytest.mark.parametrize(
    ("shape", "strides", "offset"), [((3,), (-2,), 5), ((2, 3), (0, 2), 1), ((0, 9), (9, 9), 0), ((), (), 5)]
)
def test_views_that_stay_in_their_buffer(shape, strides, offset):
    layout.check_bounds("as_strided", shape, strides, offset, 6)
