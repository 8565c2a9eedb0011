"""CASES.md, section CV: convolution."""

import numpy as np
import pytest

from needle import nn, ops
from tests.tolerances import assert_close


def run(tensor, x, w, stride, padding, upstream=None):
    """Convolve a (H, W) image with a (K, K) kernel; give y, dx and dw without their axes of length 1."""
    x, w = tensor(np.asarray(x, float)[None, :, :, None]), tensor(np.asarray(w, float)[:, :, None, None])
    y = ops.conv(x, w, stride=stride, padding=padding)
    y.backward(None if upstream is None else tensor(upstream[None, :, :, None]))
    return y.numpy()[0, :, :, 0], x.grad.numpy()[0, :, :, 0], w.grad.numpy()[:, :, 0, 0]


def ar(height, width):
    return np.arange(float(height * width)).reshape(height, width)


def test_cv01_remainder_of_the_stride(tensor):
    y, dx, dw = run(tensor, np.ones((16, 16)), np.ones((7, 7)), 3, 2)
    n = [1, 2, 2, 2, 3, 2, 2, 3, 2, 2, 3, 2, 2, 2, 1, 1]
    assert y.shape == (5, 5)
    assert_close(y[0], [25.0, 35, 35, 35, 30])
    assert y[4, 4] == 36
    assert_close(dx, np.outer(n, n).astype(float))
    assert_close(dw[0], [16.0, 16, 20, 20, 20, 20, 16])


def test_cv03_rows_that_no_window_reaches(tensor):
    y, dx, _ = run(tensor, np.ones((32, 32)), np.ones((5, 5)), 2, 0)
    counts = dx[:, 2] / dx[2, 2] * 2  # column 2 lies in two windows
    assert y.shape == (14, 14) and dx.shape == (32, 32) and dx.sum() == 4900
    assert counts[:5].tolist() == [1, 1, 2, 2, 3] and counts[-5:].tolist() == [2, 2, 1, 1, 0]
    assert not dx[31].any() and not dx[:, 31].any()


def test_cv05_padding_larger_than_the_kernel_less_one(tensor):
    y, dx, dw = run(tensor, [[1, 2], [3, 4]], [[3]], 1, 1, upstream=ar(4, 4))
    assert_close(y, np.pad([[3.0, 6], [9, 12]], 1))
    assert_close(dx, [[15.0, 18], [27, 30]])
    assert_close(dw, [[84.0]])


def test_cv09_stride_per_axis(tensor):
    y, dx, _ = run(tensor, ar(5, 5), np.ones((3, 3)), (2, 1), 0)
    assert_close(y, [[54.0, 63, 72], [144, 153, 162]])
    assert_close(dx, np.outer([1.0, 1, 2, 1, 1], [1, 2, 3, 2, 1]))


def test_cv11_groups_with_a_stride(tensor):
    x = tensor(np.arange(32.0).reshape(1, 2, 4, 4))
    w = tensor(np.arange(1.0, 9).reshape(2, 1, 2, 2))
    y = ops.conv2d(x, w, stride=2, groups=2)
    y.backward()
    assert_close(y, [[[[34.0, 54], [114, 134]], [[490, 542], [698, 750]]]])
    assert_close(x.grad, np.stack([np.tile(k, (2, 2)) for k in w.numpy()[:, 0]])[None])
    assert_close(w.grad, np.array([20.0, 24, 36, 40, 84, 88, 100, 104]).reshape(2, 1, 2, 2))


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("layout", ["conv", "conv2d"])
def test_cv12_kernel_larger_than_the_input(tensor, stride, layout):
    if layout == "conv":
        x, w, function = tensor(np.ones((1, 2, 2, 1))), tensor(np.ones((3, 3, 1, 1))), ops.conv
    else:
        x, w, function = tensor(np.ones((1, 1, 2, 2))), tensor(np.ones((1, 1, 3, 3))), ops.conv2d
    with pytest.raises(ValueError, match=r"\(3, 3\).*\(2, 2\)|\(2, 2\).*\(3, 3\)"):
        function(x, w, stride=stride, padding=0)
    if stride == 1:
        assert_close(function(x, w, stride=1, padding=1).numpy().reshape(2, 2), np.full((2, 2), 4.0))


def test_cv14_same_padding_of_even_kernels(tensor):
    image = tensor(np.ones((1, 8, 8, 1)))
    assert ops.conv(image, tensor(np.ones((4, 4, 1, 1))), padding=(4 - 1) // 2).shape == (1, 7, 7, 1)
    layer = nn.Conv(1, 1, 4, device=image.device, dtype="float64")
    assert layer(tensor(np.ones((1, 1, 8, 8)))).shape == (1, 1, 9, 9)
    assert "kernel_size // 2" in nn.Conv.__doc__


def test_cv14_same_padding_of_a_strided_row(tensor):
    row, kernel = tensor(np.arange(6.0).reshape(1, 1, 6, 1)), tensor(np.ones((1, 3, 1, 1)))
    assert_close(ops.conv(row, kernel, stride=(1, 2), padding=(0, 1)).numpy().ravel(), [1.0, 6, 12])
    padded = ops.pad(row, ((0, 0), (0, 0), (0, 1), (0, 0)))
    assert_close(ops.conv(padded, kernel, stride=(1, 2), padding=0).numpy().ravel(), [3.0, 9, 9])


def test_cv16_weight_gradient_is_a_sum(tensor):
    x, w = tensor(np.ones((2, 2, 2, 1))), tensor(np.ones((1, 1, 1, 1)))
    ops.conv(x, w, padding=0).backward()
    assert w.grad.numpy().item() == 8


def test_cv18_patches(tensor):
    y, dx, _ = run(tensor, np.ones((10, 10)), np.ones((4, 4)), 4, 0)
    assert_close(y, np.full((2, 2), 16.0))
    assert_close(dx, np.pad(np.ones((8, 8)), ((0, 2), (0, 2))))
    assert dx.sum() == 64


def test_cv01_remainder_of_the_stride_in_the_layer(tensor, device):
    layer = nn.Conv(1, 1, 3, stride=3, bias=False, device=device, dtype="float64", padding=0)
    x = tensor(np.ones((1, 1, 8, 8)))
    layer(x).backward()
    expected = np.zeros((8, 8))
    expected[:6, :6] = np.tile(layer.weight.numpy()[:, :, 0, 0], (2, 2))
    assert_close(x.grad.numpy()[0, 0], expected)
