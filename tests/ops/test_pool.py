"""Pooling against plain loops, central differences and PyTorch."""

import numpy as np
import pytest

import needle as ndl
from needle import ops
from needle.errors import DTypeError, ShapeError
from needle.testing import check_gradients
from tests.ops import loops
from tests.ops.differences import check_to_second_order
from tests.tolerances import assert_close

# (H, W), kernel, stride, padding
TABLE = [
    (size, kernel, stride, padding)
    for size in ((5, 6), (7, 4))
    for kernel, stride, padding in (
        (2, 2, 0), (2, 1, 1), (3, 2, 1), (3, 1, 0), (1, 1, 0), (1, 2, 0), (2, 3, 1), ((3, 2), (1, 2), (1, 0)),
        ((1, 4), (2, 1), (0, 2)), (4, 4, 2), (4, 1, 2),
    )
]  # fmt: skip
TABLE += [((3, 3), 3, 1, 0), ((1, 1), 1, 1, 0), ((1, 1), 2, 1, 1), ((100, 100), 6, 6, 0), ((2, 9), (2, 3), (2, 3), 0)]
SMALL = [((3, 4), 2, 1, 1), ((4, 3), 2, 2, 0), ((5, 3), (3, 2), (2, 1), (1, 0))]


def draw(size, batch=2, channels=3, dtype="float64"):
    """Draw an image without ties."""
    shape = (batch, channels, *size)
    return np.random.permutation(np.prod(shape)).reshape(shape).astype(dtype) / np.prod(shape) - 0.5


@pytest.mark.parametrize("size, kernel, stride, padding", TABLE)
def test_max_pool2d_against_loops(tensor, dtype, size, kernel, stride, padding):
    x = draw(size, dtype=dtype)
    y, place = loops.max_pool(x, *map(loops.both, (kernel, stride, padding)))
    image = tensor(x, dtype=dtype)
    got = ops.max_pool2d(image, kernel, stride, padding)
    d = np.random.randn(*y.shape).astype(dtype)
    got.backward(tensor(d, dtype=dtype))
    dx = np.zeros((x.shape[0] * x.shape[1], x.shape[2] * x.shape[3]))
    np.add.at(dx, (np.arange(len(dx))[:, None], place.reshape(len(dx), -1)), d.reshape(len(dx), -1))
    assert got.dtype == image.grad.dtype == dtype
    assert_close(got, y)
    assert_close(image.grad, dx.reshape(x.shape))


@pytest.mark.parametrize("count_include_pad", [True, False])
@pytest.mark.parametrize("size, kernel, stride, padding", TABLE)
def test_avg_pool2d_against_loops(tensor, dtype, size, kernel, stride, padding, count_include_pad):
    x = draw(size, dtype=dtype)
    pairs = [loops.both(value) for value in (kernel, stride, padding)]
    y = loops.avg_pool(x.astype(float), *pairs, count_include_pad)
    image = tensor(x, dtype=dtype)
    got = ops.avg_pool2d(image, kernel, stride, padding, count_include_pad=count_include_pad)
    assert got.dtype == dtype
    assert_close(got, y)
    d = np.random.randn(*y.shape).astype(dtype)
    got.backward(tensor(d, dtype=dtype))
    other = np.random.randn(*x.shape).astype(dtype)  # the gradient is the adjoint: <pool(other), d> = <other, dx>
    wanted = (loops.avg_pool(other.astype(float), *pairs, count_include_pad) * d).sum()
    np.testing.assert_allclose((other * image.grad.numpy().astype(float)).sum(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parity
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("size, kernel, stride, padding", TABLE)
def test_pooling_against_pytorch(tensor, size, kernel, stride, padding, ceil_mode):
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    x = draw(size)
    arguments = {"stride": stride, "padding": padding, "ceil_mode": ceil_mode}
    for ours, theirs, more in (
        (ops.max_pool2d, functional.max_pool2d, {}),
        (ops.avg_pool2d, functional.avg_pool2d, {"count_include_pad": True}),
        (ops.avg_pool2d, functional.avg_pool2d, {"count_include_pad": False}),
    ):
        a, b = tensor(x), torch.tensor(x, requires_grad=True)
        got, wanted = ours(a, kernel, **arguments, **more), theirs(b, kernel, **arguments, **more)
        d = np.random.randn(*wanted.shape)
        got.backward(tensor(d))
        wanted.backward(torch.tensor(d))
        assert_close(got, wanted.detach().numpy())
        assert_close(a.grad, b.grad.numpy())


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("size, kernel, stride, padding", SMALL)
def test_pooling_to_second_order(tensor, size, kernel, stride, padding, ceil_mode):
    x = draw(size, channels=1) * 10
    arguments = (kernel, stride, padding, ceil_mode)
    check_to_second_order(lambda x: ops.max_pool2d(x, *arguments) ** 2, tensor, x)
    check_to_second_order(lambda x: ops.avg_pool2d(x, *arguments, count_include_pad=False) ** 2, tensor, x)


@pytest.mark.parametrize("pool", [ops.max_pool2d, ops.avg_pool2d])
def test_overlapping_windows_to_third_order(tensor, pool):
    check_gradients(lambda x: pool(x, 3, 1, 1) ** 4, tensor(draw((4, 4), channels=1)), order=3)


def test_memory_order_is_kept(tensor):
    nhwc = tensor(np.random.randn(2, 6, 6, 3))
    for pool in (ops.max_pool2d, ops.avg_pool2d):
        x = ops.permute(nhwc, (0, 3, 1, 2)).detach()
        x.requires_grad = True
        y = pool(x, 2)
        y.backward(ops.permute(tensor(np.ones((2, 3, 3, 3))), (0, 3, 1, 2)))
        for result in (y, x.grad):
            assert result.cached_data.permute((0, 2, 3, 1)).is_compact()
        assert pool(tensor(nhwc.numpy()), 2).cached_data.is_compact()


@pytest.mark.parametrize("view", [lambda x: x[:, ::2, 1:], lambda x: x[:, :, ::-1], lambda x: x.permute(3, 2, 1, 0)])
def test_inputs_in_any_layout(tensor, view):
    x = view(tensor(draw((6, 6)))).detach()
    assert_close(ops.max_pool2d(x, 2), loops.max_pool(x.numpy(), (2, 2), (2, 2), (0, 0))[0])
    assert_close(ops.avg_pool2d(x, 2), loops.avg_pool(x.numpy(), (2, 2), (2, 2), (0, 0), True))


@pytest.mark.parametrize("pool", [ops.max_pool2d, ops.avg_pool2d])
def test_nan_passes(tensor, dtype, pool):
    x = draw((4, 4), 1, 1, dtype)
    x[0, 0, 1, 1] = np.nan
    got = pool(tensor(x, dtype=dtype), 2).numpy()[0, 0]
    assert np.isnan(got).tolist() == [[True, False], [False, False]]


def test_the_first_nan_takes_the_gradient(tensor):
    x = tensor([[[[np.nan, 5.0], [np.nan, np.nan]]]])
    ops.max_pool2d(x, 2).backward()
    assert_close(x.grad, [[[[1.0, 0], [0, 0]]]])


def test_infinities_stand(tensor):
    x = tensor([[[[-np.inf, -np.inf], [-np.inf, 3.0]]]])
    y = ops.max_pool2d(x, 2, 1, 1)
    y.backward()
    assert_close(y, [[[[-np.inf, -np.inf, -np.inf], [-np.inf, 3, 3], [-np.inf, 3, 3]]]])
    assert_close(x.grad, [[[[3.0, 1], [1, 4]]]])  # padding takes no gradient


def test_empty_batches(tensor):
    x = tensor(np.zeros((0, 3, 4, 4)))
    for pool in (lambda x: ops.max_pool2d(x, 2), lambda x: ops.avg_pool2d(x, 2)):
        y = pool(x)
        y.backward()
        assert y.shape == (0, 3, 2, 2) and x.grad.shape == x.shape
    assert ops.global_avg_pool2d(x).shape == (0, 3, 1, 1)
    assert ops.adaptive_avg_pool2d(x, 3).shape == (0, 3, 3, 3)


def test_global_avg_pool2d(tensor, dtype):
    x = tensor(draw((3, 5), dtype=dtype), dtype=dtype)
    y = ops.global_avg_pool2d(x)
    y.backward()
    assert_close(y, x.numpy().mean((2, 3), keepdims=True))
    assert_close(ops.adaptive_avg_pool2d(x, (1, 5)), x.numpy().mean(2, keepdims=True))
    assert_close(x.grad, np.full(x.shape, 1 / 15))
    check_to_second_order(lambda x: ops.global_avg_pool2d(x) ** 2, tensor, (1, 2, 2, 3))


@pytest.mark.parity
@pytest.mark.parametrize(
    "size, output", [((6, 4), (3, 2)), ((7, 5), 3), ((5, 7), (4, 2)), ((3, 3), 5), ((7, 7), 1), ((10, 3), (7, 3))]
)
def test_adaptive_avg_pool2d_against_pytorch(tensor, size, output):
    torch = pytest.importorskip("torch")
    x = draw(size)
    a, b = tensor(x), torch.tensor(x, requires_grad=True)
    got, wanted = ops.adaptive_avg_pool2d(a, output), torch.nn.functional.adaptive_avg_pool2d(b, output)
    d = np.random.randn(*wanted.shape)
    got.backward(tensor(d))
    wanted.backward(torch.tensor(d))
    assert_close(got, wanted.detach().numpy())
    assert_close(a.grad, b.grad.numpy())


def test_adaptive_avg_pool2d_to_second_order(tensor):
    for output in ((2, 2), (3, 1)):
        check_to_second_order(lambda x, output=output: ops.adaptive_avg_pool2d(x, output) ** 2, tensor, (1, 2, 4, 3))


@pytest.mark.parametrize("pool", [ops.max_pool2d, ops.avg_pool2d])
def test_what_does_not_fit_raises(tensor, pool):
    x, name = tensor(draw((4, 4))), pool.__name__
    for call, message in (
        (lambda: pool(x[0], 2), rf"{name}: .*N,C,H,W.*\(3, 4, 4\)"),
        (lambda: pool(x, 5), rf"{name}: kernel \(5, 5\) is larger than the padded input \(4, 4\)"),
        (lambda: pool(x, 0), rf"{name}: kernel_size must be at least 1, got 0"),
        (lambda: pool(x, 2, stride=0), rf"{name}: stride must be at least 1, got 0"),
        (lambda: pool(x, 2, padding=2), rf"{name}: padding \(2, 2\) must be at most half the kernel \(2, 2\)"),
        (lambda: pool(x, (2, 2, 2)), rf"{name}: kernel_size .*pair"),
    ):
        with pytest.raises(ShapeError, match=f"^{message}"):
            call()
    with pytest.raises(DTypeError, match=f"^{name}: .*int64.*astype"):
        pool(ndl.Tensor(np.ones((1, 1, 2, 2)), device=x.device, dtype="int64"), 2)
    with pytest.raises(DTypeError, match=f"^{name}: x must be"):
        pool(x.numpy(), 2)


def test_global_and_adaptive_pooling_refuse_what_does_not_fit(tensor):
    x = tensor(draw((4, 4)))
    for call, message in (
        (lambda: ops.global_avg_pool2d(x[0]), r"global_avg_pool2d: .*\(3, 4, 4\)"),
        (lambda: ops.global_avg_pool2d(x[:, :, :0]), r"global_avg_pool2d: .*no pixels"),
        (lambda: ops.adaptive_avg_pool2d(x[:, :, :0], 1), r"adaptive_avg_pool2d: .*\(2, 3, 0, 4\) have no pixels"),
        (lambda: ops.adaptive_avg_pool2d(x, 0), "adaptive_avg_pool2d: output_size must be at least 1, got 0"),
        (lambda: ops.adaptive_avg_pool2d(x[0], 1), r"adaptive_avg_pool2d: .*\(3, 4, 4\)"),
    ):
        with pytest.raises(ShapeError, match=f"^{message}"):
            call()
