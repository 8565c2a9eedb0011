"""Whatever is handed to a native kernel by hand: one of the package's errors, or a result, and never a crash."""

import itertools
import random
from types import SimpleNamespace

import numpy as np
import pytest

import needle as ndl
from needle import backend_ndarray as nd
from needle.errors import BoundsError, DeviceError, DTypeError, ShapeError
from tests.backend_ndarray.test_kernels import KERNELS
from tests.backend_ndarray.test_native_build import arguments
from tests.native import needs_native, run_python, view

pytestmark = needs_native

HUGE = 2**62


def full(*shape, dtype="float32", value=0.5):
    return nd.full(shape, value, dtype=dtype, device=ndl.cpu())


def labels(*shape, value=0):
    return full(*shape, dtype="int64", value=value)


@pytest.fixture
def kernels():
    return ndl.cpu().kernels


@pytest.mark.parametrize(
    "facts",
    [
        {"offset": 1},
        {"offset": -1},
        {"offset": HUGE},
        {"offset": -HUGE},
        {"strides": (3, 2)},
        {"strides": (-3, 1)},
        {"strides": (HUGE, 1)},
        {"strides": (-HUGE, HUGE)},
        {"shape": (3, 3)},
        {"shape": (HUGE, HUGE), "strides": (0, 0)},
        {"shape": (HUGE, 4), "strides": (1, 1)},
        {"shape": (2**70, 3)},
        {"strides": (2**70, 1)},
        {"offset": 2**70},
        {"shape": (-2, 3)},
        {"shape": (2, 3, 1)},
        {"shape": [2, 3]},
        {"strides": None},
        {"offset": "0"},
        {"offset": 0.0},
        {"shape": ("2", "3")},
        {"shape": (1,) * 64, "strides": (1,) * 64},
    ],
    ids=str,
)
def test_views_that_are_none(kernels, facts):
    a, out = full(2, 3), full(2, 3)
    for call in (
        lambda: kernels.exp(view(a, **facts), out),
        lambda: kernels.exp(a, view(out, **facts)),
        lambda: kernels.add(a, view(a, **facts), out),
        lambda: kernels.copy(view(a, **facts), out),
        lambda: kernels.fill(view(a, **facts), 1),
        lambda: kernels.to_numpy(view(a, **facts)),
        lambda: kernels.from_numpy(np.zeros((2, 3)), view(out, **facts)),
        lambda: kernels.reduce_sum(view(a, **facts), (0,), full(1, 3)),
        lambda: kernels.matmul(view(a, **facts), full(3, 2), full(2, 2)),
        lambda: kernels.add(view(full(2, 3, dtype="int64"), **facts), 1, full(2, 3, dtype="int64")),
        lambda: kernels.sgd_update([view(a, **facts)], [a], [out], 0.1, 0.0, 0.0, 0.0, False),
    ):
        with pytest.raises(ShapeError):
            call()


def test_empty_views_may_lie_anywhere(kernels):
    a = view(full(0, 3), offset=HUGE, strides=(HUGE, -HUGE))
    kernels.exp(a, a)
    kernels.reduce_sum(a, (0,), out := full(1, 3))
    assert np.asarray(out).tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("label", [-1, 3, HUGE])
def test_labels_out_of_range(kernels, label):
    wrong, column = labels(2, 1, value=label), [full(2, 1) for _ in range(3)]
    with pytest.raises(BoundsError, match=rf"cross_entropy: label {label} is not in 0\.\.2"):
        kernels.cross_entropy(full(2, 3), wrong, 1, *column)
    with pytest.raises(BoundsError, match=rf"cross_entropy_gradient: label {label} is not in 0\.\.2"):
        kernels.cross_entropy_gradient(column[0], full(2, 3), wrong, *column[1:], 1, full(2, 3))


def test_foreign_and_freed_handles(kernels):
    a, out = full(2, 3), full(2, 3)
    for handle in (full(2, 3).to(ndl.cpu_numpy())._handle, None, 3, np.zeros(6, "float32"), bytearray(24)):
        with pytest.raises(DeviceError, match=r"exp: a is not on cpu\(\); move it"):
            kernels.exp(view(a, handle=handle), out)
    freed = view(a)
    del freed._handle
    for wrong in (freed, nd.NDArray.__new__(nd.NDArray), None, "a", object(), np.zeros((2, 3))):
        with pytest.raises(DTypeError, match=r"exp: a must be an NDArray, got"):
            kernels.exp(wrong, out)
    other = ndl.cpu_numpy().full((2, 3), 1.0)
    for call in (lambda: kernels.add(a, other, out), lambda: kernels.add(a, 1.0, other)):
        with pytest.raises(DeviceError):
            call()


def test_errors_of_foreign_objects_pass(kernels):
    class Odd:
        @property
        def _handle(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kernels.exp(Odd(), full(2))


def test_wrong_dtypes(kernels):
    a, d, i, b = (full(2, 3, dtype=dtype) for dtype in ("float32", "float64", "int64", "bool"))
    for call in (
        lambda: kernels.exp(a, d),
        lambda: kernels.exp(i, i),
        lambda: kernels.negate(b, b),
        lambda: kernels.add(a, d, a),
        lambda: kernels.add(a, a, i),
        lambda: kernels.add(1.0, 2.0, a),
        lambda: kernels.add("1", a, a),
        lambda: kernels.less(a, a, a),
        lambda: kernels.where(a, a, a, a),
        lambda: kernels.where(b, a, d, a),
        lambda: kernels.fill(a, "1"),
        lambda: kernels.reduce_sum(a, (0,), full(1, 3, dtype="float64")),
        lambda: kernels.argmax(a, 0, full(1, 3)),
        lambda: kernels.matmul(a, full(3, 2, dtype="float64"), full(2, 2)),
        lambda: kernels.gather(a, full(2), a),
        lambda: kernels.gather(a, full(2, dtype="int32"), a),
        lambda: kernels.sgd_update([i], [i], [i], 0.1, 0.0, 0.0, 0.0, False),
        lambda: kernels.sgd_update(3, [a], [a], 0.1, 0.0, 0.0, 0.0, False),
    ):
        with pytest.raises(DTypeError):
            call()


def test_wrong_shapes(kernels):
    a = full(2, 3)
    for call in (
        lambda: kernels.exp(a, full(3, 2)),
        lambda: kernels.add(a, full(2), full(2, 3)),
        lambda: kernels.add(a, full(1, 2, 3), full(2, 3)),
        lambda: kernels.where(full(3, 3, dtype="bool"), a, a, full(2, 3)),
        lambda: kernels.copy(a, full(6)),
        lambda: kernels.reduce_sum(a, (0,), full(2, 1)),
        lambda: kernels.reduce_sum(a, (2,), full(2, 3)),
        lambda: kernels.reduce_sum(a, (-1,), full(2, 1)),
        lambda: kernels.reduce_sum(a, (1, 0), full(1, 1)),
        lambda: kernels.reduce_sum(a, (0, 0), full(1, 3)),
        lambda: kernels.reduce_max(full(0, 3), (0,), full(1, 3)),
        lambda: kernels.argmax(full(0, 3), 0, full(1, 3, dtype="int64")),
        lambda: kernels.argmax(a, 5, full(1, 3, dtype="int64")),
        lambda: kernels.cumsum(a, 0, full(3, 2)),
        lambda: kernels.matmul(a, full(2, 3), full(2, 3)),
        lambda: kernels.matmul(a, full(3, 4), full(3, 4)),
        lambda: kernels.matmul(full(2, 2, 3), full(3, 4), full(3, 2, 4)),
        lambda: kernels.matmul(a, full(3), full(2)),
        lambda: kernels.gather(a, full(3, dtype="int64", value=0), full(2, 3)),
        lambda: kernels.scatter_add(a, full(2, dtype="int64", value=0), full(2, 4)),
        lambda: kernels.normalize(a, None, None, (0,), 1e-5, True, full(2, 3), full(1, 2), full(1, 3)),
        lambda: kernels.normalize_gradient(
            a, full(2, 3), full(2, 2), None, full(1, 3), full(1, 3), (0,), full(2, 3), None, None
        ),
        lambda: kernels.cross_entropy(a, labels(2), 1, *(full(2, 1) for _ in range(3))),
        lambda: kernels.cross_entropy(a, labels(2, 1), 2, *(full(2, 1) for _ in range(3))),
        lambda: kernels.cross_entropy(full(2, 0), labels(2, 1), 1, *(full(2, 1) for _ in range(3))),
        lambda: kernels.cross_entropy(a, labels(2, 1), 1, full(2, 1), full(1, 1), full(2, 1)),
        lambda: kernels.cross_entropy_gradient(full(2, 3), a, labels(2, 1), full(2, 1), full(2, 1), 1, full(2, 3)),
        lambda: kernels.cross_entropy_gradient(full(2, 1), a, labels(2, 1), full(2, 1), full(2, 1), 1, full(3, 2)),
        lambda: kernels.sgd_update([a], [full(3, 2)], [full(2, 3)], 0.1, 0.0, 0.0, 0.0, False),
        lambda: kernels.sgd_update([a], [full(2, 3)], [], 0.1, 0.0, 0.0, 0.0, False),
    ):
        with pytest.raises(ShapeError):
            call()


@pytest.mark.parametrize("index", [-1, 2, HUGE, -HUGE])
def test_indices_out_of_range(kernels, index):
    rows, indices = full(1, 3), nd.array([index], "int64", ndl.cpu())
    with pytest.raises(BoundsError, match=rf"gather: index {index} at 0 is not in 0\.\.1"):
        kernels.gather(full(2, 3), indices, rows)
    with pytest.raises(BoundsError, match=rf"scatter_add: index {index} at 0"):
        kernels.scatter_add(rows, indices, full(2, 3))


@pytest.mark.parametrize("position", [4, 255, -1, 2**31 - 1, -(2**31)])
def test_positions_out_of_the_window(kernels, position):
    """They name no pixel: nothing outside the image is read or written."""
    dtype = "uint8" if 0 <= position < 256 else "int32"
    positions = full(1, 1, 2, 2, dtype=dtype, value=position)
    images = full(1, 1, 4, 4)
    kernels.max_pool_gradient(full(1, 1, 2, 2), positions, images, (2, 2), (2, 2), (0, 0))
    assert not np.asarray(images).any()
    kernels.max_pool_gather(images, positions, full(1, 1, 2, 2), (2, 2), (2, 2), (0, 0))


def test_wrong_settings_of_windows(kernels):
    x, w, y = full(1, 4, 4, 2), full(3, 3, 2, 5), full(1, 4, 4, 5)
    images, windows = full(1, 2, 4, 4), full(1, 2, 2, 2)
    one, none = (1, 1), (0, 0)
    for call in (
        lambda: kernels.conv(x, w, None, y, one, none, one, 1),
        lambda: kernels.conv(x, w, None, y, none, one, one, 1),
        lambda: kernels.conv(x, w, None, y, one, (-1, -1), one, 1),
        lambda: kernels.conv(x, w, None, y, one, (HUGE, HUGE), one, 1),
        lambda: kernels.conv(x, w, None, y, one, one, (2**31 - 1, 2**31 - 1), 1),
        lambda: kernels.conv(x, w, None, y, one, one, one, 2),
        lambda: kernels.conv(x, w, None, y, one, one, one, 0),
        lambda: kernels.conv(x, w, full(4), y, one, one, one, 1),
        lambda: kernels.conv(x, w, None, y, 1, one, one, 1),
        lambda: kernels.conv(x, full(3, 3, 5), None, y, one, one, one, 1),
        lambda: kernels.conv_input_gradient(y, w, full(1, 5, 4, 2), one, one, one, 1),
        lambda: kernels.conv_weight_gradient(x, y, full(5, 3, 2, 5), one, one, one, 1),
        lambda: kernels.avg_pool(images, windows, none, one, none, True),
        lambda: kernels.avg_pool(images, windows, (2, 2), none, none, True),
        lambda: kernels.avg_pool(images, windows, (2, 2), (9, 9), none, True),
        lambda: kernels.avg_pool(images, windows, (2, 2), (2, 2), (2, 2), True),
        lambda: kernels.avg_pool(images, full(1, 3, 2, 2), (2, 2), (2, 2), none, True),
    ):
        with pytest.raises(ShapeError):
            call()


def test_a_broadcast_view_is_not_written_to(kernels):
    a, repeated = full(2, 3), full(1, 3).broadcast_to((2, 3))
    for call in (
        lambda: kernels.exp(a, repeated),
        lambda: kernels.fill(repeated, 1),
        lambda: kernels.copy(a, repeated),
        lambda: kernels.sgd_update([repeated], [a], [full(2, 3)], 0.1, 0.0, 0.0, 0.0, False),
    ):
        with pytest.raises(ShapeError, match="broadcast along axis 0, and cannot be written to"):
            call()


def test_source_and_destination_overlap(kernels):
    """Results are those of a source that was copied first, or the call is refused."""

    def line():
        return nd.array(np.arange(20000.0), device=ndl.cpu())

    values = np.arange(20000.0, dtype="float32")
    for source, target in (
        (slice(None, -1), slice(1, None)),
        (slice(1, None), slice(None, -1)),
        (slice(None, None, -1), slice(None)),
        (slice(None), slice(None)),
        (slice(0, 10000), slice(10000, None)),
        (slice(0, 10000), slice(0, None, 2)),
    ):
        a = line()
        kernels.copy(a[source], a[target])
        expected = values.copy()
        expected[target] = values[source]
        assert (a.numpy() == expected).all()
        a = line()
        kernels.add(a[source], a[source], a[target])
        expected[target] = values[source] + values[source]
        assert (a.numpy() == expected).all()
        a = line()
        kernels.negate(a[source], a[target])
        expected[target] = -values[source]
        assert (a.numpy() == expected).all()
    square = nd.array(np.eye(50) + 1, device=ndl.cpu())
    expected = square.numpy() @ square.numpy()
    kernels.matmul(square, square, square)
    assert (square.numpy() == expected).all()
    a = nd.array(np.ones((4, 3)), device=ndl.cpu())
    kernels.reduce_sum(a, (0,), a[:1])
    assert a.numpy().tolist() == [[4] * 3] + [[1] * 3] * 3
    with pytest.raises(ShapeError, match="must not share memory"):
        kernels.sgd_update([a], [full(4, 3)], [a], 0.1, 0.9, 0.0, 0.0, False)
    with pytest.raises(ShapeError, match="must not share memory"):
        kernels.normalize(a, None, None, (0,), 1e-5, False, a, a[:1], full(1, 3))
    with pytest.raises(ShapeError, match="must not share memory"):
        kernels.cross_entropy(a, labels(4, 1), 1, a[:, :1], a[:, :1], full(4, 1))
    a, result = nd.array(np.eye(3), device=ndl.cpu()), full(3, 3)
    given = [full(3, 1), a, labels(3, 1), full(3, 1), full(3, 1), 1]
    kernels.cross_entropy_gradient(*given, result)
    kernels.cross_entropy_gradient(*given, a)
    assert (a.numpy() == result.numpy()).all()


def test_matmul_tiled(kernels):
    t = ndl.cpu().__tile_size__
    assert t == 8
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2 * t, 3 * t)), rng.standard_normal((3 * t, t))
    tiled_a, tiled_b, out = (
        nd.array(x.reshape(x.shape[0] // t, t, x.shape[1] // t, t).transpose(0, 2, 1, 3), device=ndl.cpu())
        for x in (a, b, np.zeros((2 * t, t)))
    )
    ndl.cpu().matmul_tiled(tiled_a._handle, tiled_b._handle, out._handle, 2 * t, 3 * t, t)
    result = out.numpy().transpose(0, 2, 1, 3).reshape(2 * t, t)
    np.testing.assert_allclose(result, a @ b, rtol=1e-5, atol=1e-5)
    handles = (tiled_a._handle, tiled_b._handle, out._handle)
    for handles_, sizes, error in (
        (handles, (2 * t, 3 * t, 2 * t), ShapeError),
        (handles, (2 * t, 3 * t, 7), ShapeError),
        (handles, (-t, 3 * t, t), ShapeError),
        (handles, (2**40, 2**40, 8), ShapeError),
        ((*handles[:2], handles[0]), (2 * t, 3 * t, t), ShapeError),
        ((*handles[:2], full(2 * t, t, dtype="float64")._handle), (2 * t, 3 * t, t), DTypeError),
        ((*handles[:2], out), (2 * t, 3 * t, t), DeviceError),
        ((*handles[:2], None), (2 * t, 3 * t, t), DeviceError),
    ):
        with pytest.raises(error):
            kernels.matmul_tiled(*handles_, *sizes)


EXPECTED = (ShapeError, DTypeError, DeviceError, MemoryError, TypeError, OverflowError)


def odd_arguments():
    """Things that are no arguments, or seldom the right ones."""
    a = full(2, 3)
    return [
        None, 0, -1, 2**31, 2**70, 0.5, float("nan"), True, "a", b"", (), (0,), (1, 1), (-1, 9**9), [None], [a], [], {},
        a, full(0, 3), full(1, 4, 4, 2), full(2, 3, dtype="int32"), full(3, dtype="bool"), full(5, dtype="float64"),
        view(a, offset=5), view(a, shape=(HUGE, 3), strides=(0, 1)), a.T, a.broadcast_to((4, 2, 3)),
        SimpleNamespace(_handle=a._handle), np.zeros(3), a._handle, ndl.cpu_numpy().zeros(2, 3),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("name", KERNELS)
def test_one_or_two_wrong_arguments(kernels, name, dtype):
    rng = random.Random(name)
    if dtype == "int64" and name.startswith(("normalize", "avg")):
        pytest.skip("of floating-point numbers only")
    count = len(arguments(name, dtype))
    odd = odd_arguments()
    places = [(i,) for i in range(count)] + list(itertools.combinations(range(count), 2))
    for place in places:
        for wrong in rng.sample(odd, 8) if len(place) == 2 else odd:
            given = list(arguments(name, dtype))
            for i in place:
                given[i] = wrong
            try:
                getattr(kernels, name)(*given)
            except EXPECTED:
                pass
            except (ValueError, IndexError) as error:  # NumPy's, of a reference kernel
                assert dtype == "int64" or name in ("from_numpy", "to_numpy", "argsort"), error


def test_any_other_number_of_arguments(kernels):
    for name in KERNELS:
        given = arguments(name, "float32")
        for wrong in ((), given[:-1], (*given, 1)):
            with pytest.raises(TypeError):
                getattr(kernels, name)(*wrong)


def test_a_handle_that_is_replaced_while_a_kernel_runs():
    """The kernel keeps the buffer that it was handed."""
    code = """
import threading, numpy as np, needle as ndl
from needle import backend_ndarray as nd
a = nd.full((1200, 1200), 1.0, device=ndl.cpu())
out = nd.full((1200, 1200), 0.0, device=ndl.cpu())
thread = threading.Thread(target=lambda: ndl.cpu().kernels.matmul(a, a, out))
thread.start()
for _ in range(2000):
    a._handle = nd.full((1200, 1200), 2.0, device=ndl.cpu())._handle
    ndl.empty_cache()
    if not thread.is_alive(): break
thread.join()
assert set(np.unique(np.asarray(out))) <= {1200.0, 4800.0}, np.unique(np.asarray(out))
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
