"""Native matrix products and convolutions: the bits of the contract's sums for shapes and layouts drawn at random."""

import random

import numpy as np
import pytest

import needle as ndl
from needle import backend_ndarray as nd
from needle.backend_ndarray import layers
from needle.backend_ndarray.layers import ConvSettings, conv_output_size
from tests.backend_ndarray import fma
from tests.native import needs_native
from tests.tolerances import assert_close

pytestmark = needs_native

LAYOUTS = ["row-major", "column-major", "channels first", "backwards"]


def place(a, layout):
    """Put values on the native device, in another order of memory."""
    if layout == "column-major":
        return nd.array(a.T, dtype=a.dtype, device=ndl.cpu()).permute(tuple(range(a.ndim))[::-1])
    if layout == "channels first" and a.ndim == 4:
        return nd.array(a.transpose(0, 3, 1, 2), dtype=a.dtype, device=ndl.cpu()).permute((0, 2, 3, 1))
    if layout == "backwards":
        spread = np.repeat(a[..., ::-1], 2, axis=-1)
        return nd.array(spread, dtype=a.dtype, device=ndl.cpu())[(..., slice(None, None, -2))]
    return nd.array(a, dtype=a.dtype, device=ndl.cpu())


def assert_same_bits(found, expected):
    found = found.numpy()
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    different = np.argwhere(found.view(f"i{found.itemsize}") != expected.view(f"i{found.itemsize}"))
    assert len(different) == 0, f"{len(different)} of {found.size} differ, the first at {different[0]}"


@pytest.mark.parametrize("seed", range(12))
def test_matmul_is_the_sum_in_order(seed, dtype):
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    for _ in range(4):
        m, k, n = (draw.choice([1, 2, 7, 15, 16, 17, 33, 64, 70]) for _ in range(3))
        k = draw.choice([0, k, k, 255, 257, 600])
        a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
        found = nd.matmul(place(a, draw.choice(LAYOUTS)), place(b, draw.choice(LAYOUTS)))
        assert_same_bits(found, fma.matmul(a, b))


def test_leading_axes_broadcast(dtype):
    rng = np.random.default_rng(0)
    for left, right in [((3, 1), (2,)), ((), (2, 3)), ((2, 3), ()), ((4,), (1,)), ((0,), (1,))]:
        a, b = rng.standard_normal((*left, 5, 40)).astype(dtype), rng.standard_normal((*right, 40, 18)).astype(dtype)
        both = np.broadcast_shapes(left, right)
        pairs = zip(*(np.broadcast_to(x, (*both, *x.shape[-2:])).reshape(-1, *x.shape[-2:]) for x in (a, b)))
        expected = np.array([fma.matmul(*pair) for pair in pairs], dtype).reshape(*both, 5, 18)
        assert_same_bits(nd.matmul(place(a, "row-major"), place(b, "column-major")), expected)


def test_a_large_product():
    """More than one block of rows and columns; strides that share the sets of a cache; both operands transposed."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((512, 1024)), rng.standard_normal((600, 512))
    for dtype in ("float32", "float64"):
        x, y = nd.array(a, dtype=dtype, device=ndl.cpu()), nd.array(b, dtype=dtype, device=ndl.cpu())
        expected = a.astype(dtype).astype("float64").T @ b.astype(dtype).astype("float64").T
        tolerance = 512 * np.finfo(dtype).eps
        assert_close(nd.matmul(x.permute((1, 0)), y.permute((1, 0))).numpy(), expected, rtol=0, atol=8 * tolerance)


def test_matmul_tiled():
    a, b = np.random.randn(24, 16).astype("float32"), np.random.randn(16, 40).astype("float32")

    def tiled(x):  # (m, n) -> (m/8, n/8, 8, 8)
        return x.reshape(x.shape[0] // 8, 8, x.shape[1] // 8, 8).transpose(0, 2, 1, 3)

    left, right = (nd.array(np.ascontiguousarray(tiled(x)), device=ndl.cpu()) for x in (a, b))
    out = nd.empty((3, 5, 8, 8), device=ndl.cpu())
    ndl.cpu().matmul_tiled(left._handle, right._handle, out._handle, 24, 16, 40)
    assert_same_bits(out, np.ascontiguousarray(tiled(fma.matmul(a, b))))


def drawn_convolution(draw):
    """Give (N, H, W), kernel, channels in and out, settings: paddings beyond the kernel, strides beyond it too."""
    while True:
        groups = draw.choice([1, 1, 1, 2, 3])
        inputs, outputs = (groups * draw.choice([1, 2, 5, 16, 17, 33]) for _ in range(2))
        if draw.random() < 0.3:
            groups = inputs = outputs = draw.choice([3, 16, 20, 70])
        kernel = draw.choice([(1, 1), (3, 3), (3, 3), (2, 3), (5, 1)])
        settings = ConvSettings(
            draw.choice([(1, 1), (1, 1), (2, 2), (3, 2), (1, 4)]),
            draw.choice([(0, 0), (1, 1), (1, 1), (2, 0), (4, 5)]),
            draw.choice([(1, 1), (1, 1), (2, 3)]),
            groups,
        )
        size = draw.choice([1, 2, 3, 5, 8, 9]), draw.choice([1, 2, 4, 7, 8, 13])
        reach = [d * (k - 1) for d, k in zip(settings.dilation, kernel)]
        if all(n + 2 * p > r for n, p, r in zip(size, settings.padding, reach)):
            return (draw.choice([1, 2, 5]), *size), kernel, inputs, outputs, settings


def by_groups(function, groups, *arrays):
    """Join what function(*parts) gives for each group; None stays None. Weights are cut along their last axis alone."""
    parts = [[None] * groups if a is None else np.split(a, groups, axis=-1) for a in arrays]
    return np.concatenate([function(*one) for one in zip(*parts)], axis=-1)


@pytest.mark.parametrize("seed", range(30))
def test_convolutions_are_the_sums_in_order(seed, dtype):
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    (n, *size), kernel, inputs, outputs, settings = drawn_convolution(draw)
    groups = settings.groups
    out_size = conv_output_size("conv", size, kernel, settings)
    x = rng.standard_normal((n, *size, inputs)).astype(dtype)
    weight = rng.standard_normal((*kernel, inputs // groups, outputs)).astype(dtype)
    d = rng.standard_normal((n, *out_size, outputs)).astype(dtype)
    bias = draw.choice([None, rng.standard_normal(outputs).astype(dtype)])
    placed_x, placed_weight, placed_d = (place(a, draw.choice(LAYOUTS)) for a in (x, weight, d))

    with ndl.set_conv_algorithm("direct"):
        found = layers.conv(placed_x, placed_weight, None if bias is None else place(bias, "row-major"), settings)
        input_gradient = layers.conv_input_gradient(placed_d, placed_weight, tuple(size), settings)
        weight_gradient = layers.conv_weight_gradient(placed_x, placed_d, kernel, settings)

    expected = by_groups(lambda x, w, b: fma.conv(x, w, b, out_size, settings), groups, x, weight, bias)
    assert_same_bits(found, expected)
    expected = by_groups(lambda d, w: fma.conv_input_gradient(d, w, size, settings), groups, d, weight)
    assert_same_bits(input_gradient, expected)
    expected = by_groups(lambda x, d: fma.conv_weight_gradient(x, d, kernel, settings), groups, x, d)
    assert_same_bits(weight_gradient, expected)


WINOGRAD_SIZES = [  # (N, H, W), channels in and out, padding
    ((2, 32, 32), 32, 48, (1, 1)),
    ((3, 9, 14), 64, 32, (1, 0)),
    ((1, 17, 8), 16, 64, (2, 3)),
    ((2, 6, 5), 272, 16, (0, 2)),
]


@pytest.mark.parametrize(("shape", "inputs", "outputs", "padding"), WINOGRAD_SIZES)
def test_winograd_is_near_the_direct_sum(shape, inputs, outputs, padding, dtype):
    """F(2x2,3x3) errs about as much as the direct sum, F(4x4,3x3) an order of magnitude more."""
    rng = np.random.default_rng(0)
    settings = ConvSettings(padding=padding)
    x = rng.standard_normal((*shape, inputs)).astype(dtype)
    weight = rng.standard_normal((3, 3, inputs, outputs)).astype(dtype)
    bias = rng.standard_normal(outputs).astype(dtype)
    wide = [nd.array(a, dtype="float64", device=ndl.cpu_numpy()) for a in (x, weight, bias)]
    exact = layers.conv(*wide, settings).numpy()
    d = rng.standard_normal(exact.shape).astype(dtype)
    exact_gradient = layers.conv_input_gradient(
        nd.array(d, dtype="float64", device=ndl.cpu_numpy()), wide[1], shape[1:], settings
    ).numpy()
    a, w, b, g = (place(values, "row-major") for values in (x, weight, bias, d))
    for algorithm, ulps in (("direct", 8), ("auto", 8), ("winograd4", 60)):
        with ndl.set_conv_algorithm(algorithm):
            found = layers.conv(a, w, b, settings).numpy()
            gradient = layers.conv_input_gradient(g, w, shape[1:], settings).numpy()
        for got, expected in ((found, exact), (gradient, exact_gradient)):
            error = np.sqrt(np.mean((got - expected) ** 2)) / np.sqrt(np.mean(expected**2))
            assert error < ulps * np.finfo(dtype).eps, f"{algorithm}: {error / np.finfo(dtype).eps:.1f} ulp"


@pytest.mark.parametrize("algorithm", ["auto", "direct", "winograd4"])
def test_zeros_and_infinities_stay_in_their_images(algorithm):
    x = np.zeros((3, 12, 12, 32), "float32")
    x[1] = np.inf
    weight = np.ones((3, 3, 32, 32), "float32")
    with ndl.set_conv_algorithm(algorithm):
        found = layers.conv(place(x, "row-major"), place(weight, "row-major"), None, ConvSettings()).numpy()
    assert np.all(found[[0, 2]] == 0)
    assert not np.isfinite(found[1]).any()
