"""Native pooling, normalisation and optimizer steps: values as the reference's, bits that no setting changes."""

import numpy as np
import pytest

import needle as ndl
from needle import backend_ndarray as nd
from needle.backend_ndarray import layers, native
from needle.backend_ndarray.devices import BackendDevice
from needle.backend_ndarray.layers import PoolSettings
from tests.devices import DTYPES
from tests.tolerances import TOLERANCE, assert_close

pytestmark = pytest.mark.skipif(not ndl.cpu().enabled(), reason="the native device is not built")

NUMPY = ndl.cpu_numpy()
THREADS = (1, 2, 3, 7)


def native_devices():
    """A device for each instruction set that is built and that this processor has."""
    if not ndl.cpu().enabled():
        return []
    supported = ndl.cpu().kernels.extension.supported_isas()
    modules = [f"{nd.__name__}._cpu_{isa}" for isa in native.built_isas() if isa in supported]
    return [BackendDevice(module.rpartition("_")[2], module) for module in modules]


LAYOUTS = {
    "row-major": lambda a, make: make(a),
    "channels innermost": lambda a, make: make(np.moveaxis(a, 1, -1)).permute((0, a.ndim - 1, *range(1, a.ndim - 1))),
    "reversed axes": lambda a, make: make(a.T).permute(tuple(range(a.ndim))[::-1]),
    "a slice": lambda a, make: make(np.pad(a, [(1, 2)] * a.ndim))[tuple([slice(1, 1 + n) for n in a.shape])],
    "every second": lambda a, make: make(np.repeat(a, 2, axis=-1))[(..., slice(None, None, 2))],
    "backwards": lambda a, make: make(a[..., ::-1])[(..., slice(None, None, -1))],
    "channels of more": lambda a, make: LAYOUTS["channels innermost"](np.concatenate([a, a], 1), make)[:, : a.shape[1]],
}


def place(a, layout, device):
    return LAYOUTS[layout](a, lambda values: nd.array(values, dtype=a.dtype, device=device))


def check(function, arguments, layout, tolerance=None):
    """Hold function(device arrays...) to the reference, and to the same bits on all threads and instruction sets."""

    def run(device):
        placed = [place(a, layout, device) if isinstance(a, np.ndarray) and a.ndim > 1 else a for a in arguments]
        placed = [nd.array(a, dtype=a.dtype, device=device) if isinstance(a, np.ndarray) else a for a in placed]
        return [result.numpy() for result in function(*placed)]

    expected = run(NUMPY)
    results = {}
    for device in native_devices():
        for threads in THREADS:
            device.kernels.set_num_threads(threads)
            results[device.name, threads] = run(device)
    (name, first), *others = results.items()
    for got, wanted in zip(first, expected, strict=True):
        assert got.dtype == wanted.dtype
        assert_close(got, wanted, **(tolerance or TOLERANCE.get(str(got.dtype), {"rtol": 0.0})))
    for other, got in others:
        assert list(map(bits, got)) == list(map(bits, first)), f"{other} and {name} differ in bits"


def bits(a):
    """Give all bits but those that tell one NaN from another: which operand's NaN passes is the compiler's choice."""
    return np.where(np.isnan(a), np.array(np.nan, a.dtype), a).tobytes() if a.dtype.kind == "f" else a.tobytes()


@pytest.fixture(autouse=True)
def _same_threads():
    before = [(device, device.kernels.num_threads()) for device in native_devices()]
    yield
    for device, threads in before:
        device.kernels.set_num_threads(threads)


# Pooling

POOLS = [  # shape, settings, ceil_mode
    ((2, 16, 8, 8), PoolSettings((2, 2), (2, 2)), False),
    ((3, 5, 7, 9), PoolSettings((2, 2), (2, 2)), True),
    ((2, 20, 9, 8), PoolSettings((3, 3), (2, 2), (1, 1)), False),
    ((2, 35, 6, 40), PoolSettings((3, 3), (1, 1), (1, 1)), False),
    ((1, 3, 11, 37), PoolSettings((5, 2), (3, 1), (2, 0)), True),
    ((2, 17, 5, 5), PoolSettings((2, 1), (3, 4)), False),
    ((4, 1, 28, 28), PoolSettings((2, 2), (2, 2)), False),
    ((1, 2, 40, 70), PoolSettings((20, 17), (5, 7), (10, 8)), True),
    ((2, 3, 1, 6), PoolSettings((1, 1), (1, 2)), False),
    ((2, 4, 6, 6), PoolSettings((6, 6), (1, 1)), False),
    ((0, 3, 4, 4), PoolSettings((2, 2), (2, 2)), False),
    ((2, 0, 4, 4), PoolSettings((2, 2), (2, 2)), False),
]


def images(shape, dtype):
    """Random whole numbers, so that there are ties, with NaN and infinities among them."""
    a = np.random.randint(-3, 4, shape).astype(dtype)
    for value in (np.nan, np.inf, -np.inf, -0.0):
        a[np.random.rand(*shape) < 0.05] = value
    return a


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("shape", "settings", "ceil_mode"), POOLS, ids=str)
def test_max_pool(shape, settings, ceil_mode, layout, dtype):
    windows = layers._pooled("max_pool2d", nd.array(np.zeros(shape)), settings, ceil_mode)

    def pooled(x, d, other):
        out, positions = layers.max_pool(x, settings, ceil_mode)
        assert positions.dtype == ("uint8" if settings.kernel[0] * settings.kernel[1] <= 256 else "int32")
        spread = layers.max_pool_gradient(d, positions, shape[2:], settings)
        return out, positions, spread, layers.max_pool_gather(other, positions, settings)

    check(pooled, [images(shape, dtype), np.random.randn(*windows).astype(dtype), images(shape, dtype)], layout)


@pytest.mark.parametrize("include_pad", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("shape", "settings", "ceil_mode"), POOLS, ids=str)
def test_avg_pool(shape, settings, ceil_mode, layout, include_pad, dtype):
    windows = layers._pooled("avg_pool2d", nd.array(np.zeros(shape)), settings, ceil_mode)

    def pooled(x, d):
        out = layers.avg_pool(x, settings, ceil_mode, include_pad)
        return out, layers.avg_pool_gradient(d, shape[2:], settings, include_pad)

    check(pooled, [images(shape, dtype), np.random.randn(*windows).astype(dtype)], layout)


@pytest.mark.parametrize("layout", ["row-major", "channels innermost"])
def test_images_of_nothing_but_minus_infinity(layout):
    x = place(np.full((1, 17, 3, 3), -np.inf), layout, ndl.cpu())
    _, positions = layers.max_pool(x, PoolSettings((2, 2), (2, 2), (1, 1)), False)
    assert positions.numpy()[0, 0].tolist() == [[3, 2], [1, 0]]  # the first pixels, not the padding


@pytest.mark.parametrize("layout", ["row-major", "channels innermost"])
def test_positions_outside_the_image_are_ignored(layout):
    settings = PoolSettings((2, 2), (2, 2))
    x = place(np.ones((1, 17, 4, 4)), layout, ndl.cpu())
    wrong = place(np.full((1, 17, 2, 2), 200, "uint8"), layout, ndl.cpu())
    assert not layers.max_pool_gather(x, wrong, settings).numpy().any()
    assert not layers.max_pool_gradient(x[:, :, :2, :2], wrong, (4, 4), settings).numpy().any()


# Normalisation

NORMS = [  # shape, axes of the statistics, shape of the parameters (None: without)
    ((8, 16, 6, 5), (0, 2, 3), (1, 16, 1, 1)),
    ((3, 33, 7, 9), (0, 2, 3), (1, 33, 1, 1)),
    ((5, 1, 3, 3), (0, 2, 3), (1, 1, 1, 1)),
    ((70, 3, 40, 2), (0, 2, 3), None),
    ((2, 300, 2, 3), (0, 2, 3), (1, 300, 1, 1)),
    ((64, 20), (0,), (1, 20)),
    ((5, 100), (0,), (1, 100)),
    ((40, 37), (1,), (1, 37)),
    ((4, 6, 50), (2,), (1, 1, 50)),
    ((4, 6, 5, 3), (1, 2, 3), (1, 6, 5, 3)),
    ((3, 2, 4, 5, 6), (2, 3, 4), (1, 2, 4, 1, 1)),
    ((3, 8, 1, 5, 6), (2, 3, 4), (1, 8, 1, 1, 1)),
    ((6, 3, 4), (2,), (1, 3, 4)),
    ((2, 9000), (1,), None),
    ((1, 2, 100, 130), (0, 2, 3), (1, 2, 1, 1)),
    ((4, 3, 5), (0, 1, 2), (4, 1, 5)),
    ((2, 3, 4, 5), (0, 2), (1, 3, 1, 1)),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("shape", "axes", "parameter_shape"), NORMS, ids=str)
def test_normalize(shape, axes, parameter_shape, layout, dtype):
    x, d = [np.random.randn(*shape).astype(dtype) for _ in range(2)]
    x += 2
    parameters = [None, None]
    if parameter_shape is not None:
        parameters = [np.random.randn(*parameter_shape).astype(dtype) for _ in range(2)]

    def forward_and_backward(x, d, weight, bias):
        out, mean, variance = layers.normalize(x, weight, bias, axes, 1e-3)
        inv_std = (variance + 1e-3) ** -0.5
        return out, mean, variance, *layers.normalize_gradient(d, x, weight, mean, inv_std, axes)

    check(forward_and_backward, [x, d, *parameters], layout, NORM_TOLERANCE[dtype])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("shape", "axes", "parameter_shape"), NORMS, ids=str)
def test_normalize_with_relu_has_the_bits_of_both(shape, axes, parameter_shape, layout, dtype):
    x, d = [place(np.random.randn(*shape).astype(dtype), layout, ndl.cpu()) for _ in range(2)]
    weight, bias = None, None
    if parameter_shape is not None:
        weight, bias = [nd.array(np.random.randn(*parameter_shape), dtype=dtype, device=ndl.cpu()) for _ in range(2)]
    plain, mean, variance = layers.normalize(x, weight, bias, axes, 1e-3)
    y, *statistics = layers.normalize(x, weight, bias, axes, 1e-3, relu=True)
    inv_std = (variance + 1e-3) ** -0.5
    got = layers.normalize_gradient(d, x, weight, mean, inv_std, axes, y)
    expected = layers.normalize_gradient(nd.where(plain <= 0, 0, d), x, weight, mean, inv_std, axes)
    pairs = zip((y, *statistics, *got), (plain.maximum(0), mean, variance, *expected), strict=True)
    assert all(a.numpy().tobytes() == b.numpy().tobytes() for a, b in pairs)


NORM_TOLERANCE = {"float32": {"rtol": 1e-5, "atol": 1e-5}, "float64": {"rtol": 1e-11, "atol": 1e-11}}


@pytest.mark.parametrize("layout", ["row-major", "channels innermost"])
def test_a_constant_is_normalized_to_zeros(layout):
    x = place(np.full((9, 5, 30, 7), 1000.1, "float32"), layout, ndl.cpu())
    for axes in ((0, 2, 3), (1, 2, 3)):
        out, mean, variance = layers.normalize(x, None, None, axes, 1e-5)
        assert not out.numpy().any() and not variance.numpy().any()
        assert (mean.numpy() == np.float32(1000.1)).all()


@pytest.mark.parametrize("layout", ["row-major", "channels innermost"])
def test_variance_far_from_zero(layout):
    a = np.random.randn(50, 3, 20, 20).astype("float32") * np.float32(1e-2) + np.float32(1e3)
    _, mean, variance = layers.normalize(place(a, layout, ndl.cpu()), None, None, (0, 2, 3), 1e-5)
    assert_close(variance.numpy(), a.var((0, 2, 3), dtype="float64", keepdims=True), rtol=1e-6)
    assert_close(mean.numpy(), a.mean((0, 2, 3), dtype="float64", keepdims=True), rtol=1e-7)


@pytest.mark.parametrize("layout", ["row-major", "channels innermost"])
def test_normalize_keeps_nan_in_its_channel(layout):
    a = np.random.randn(4, 20, 5, 5)
    a[2, 7, 1, 1] = np.nan
    a[0, 3, 0, 0] = np.inf
    out, _, _ = layers.normalize(place(a, layout, ndl.cpu()), None, None, (0, 2, 3), 1e-5)
    assert np.isnan(out.numpy()).any((0, 2, 3)).nonzero()[0].tolist() == [3, 7]


# Cross entropy


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(7, 5), (3, 16), (2, 300), (4, 10, 3, 2), (3, 1), (1, 33, 2)])
def test_cross_entropy(shape, layout, axis, dtype):
    labels = np.random.randint(0, shape[axis], np.delete(shape, axis))
    a, d = np.random.randn(*shape).astype(dtype) * 5, np.random.randn(*labels.shape).astype(dtype)

    def forward_and_backward(a, d):
        y = nd.array(labels, dtype="int64", device=a.device)
        losses, largest, inverse = layers.cross_entropy(a, y, axis)
        return losses, largest, inverse, layers.cross_entropy_gradient(d, a, y, largest, inverse, axis)

    check(forward_and_backward, [a, d], layout, CROSS_ENTROPY_TOLERANCE[dtype])


CROSS_ENTROPY_TOLERANCE = {"float32": {"rtol": 2e-6, "atol": 2e-6}, "float64": {"rtol": 1e-14, "atol": 1e-14}}


# Optimizer steps

SHAPES = [(3, 5), (70, 3), (), (0, 2), (100, 300), (7,), (2, 3, 4, 5)]
RULES = {
    "sgd": (layers.sgd_update, 3, {"momentum": 0.9, "dampening": 0.9, "nesterov": False}),
    "nesterov": (layers.sgd_update, 3, {"momentum": 0.9, "dampening": 0.0, "nesterov": True}),
    "adam": (layers.adam_update, 4, {"beta1": 0.9, "beta2": 0.99, "eps": 1e-3, "decoupled": False, "step": 3}),
    "adamw": (layers.adam_update, 4, {"beta1": 0.9, "beta2": 0.99, "eps": 1e-3, "decoupled": True, "step": 1000}),
}


@pytest.mark.parametrize("layout", ["row-major", "reversed axes", "a slice"])
@pytest.mark.parametrize("rule", RULES)
def test_updates(rule, layout, dtype):
    update, count, settings = RULES[rule]
    arrays = [np.array(abs(np.random.randn(*shape)), dtype) for shape in SHAPES for _ in range(count)]

    def step(*placed):
        update(*[placed[i::count] for i in range(count)], lr=0.1, weight_decay=0.01, **settings)
        return placed

    check(step, arrays, layout)


def test_updates_of_both_dtypes_in_one_call():
    params, grads, velocities = (
        [nd.array(np.random.randn(3, 4), dtype=dtype, device=ndl.cpu()) for dtype in DTYPES] for _ in range(3)
    )
    before = [p.numpy() for p in params]
    layers.sgd_update(params, grads, velocities, lr=0.5, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False)
    for p, was, g in zip(params, before, grads):
        assert_close(p.numpy(), was - 0.5 * g.numpy())
