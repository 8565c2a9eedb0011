"""Upsampling against PyTorch and central differences."""

import numpy as np
import pytest

from needle import ops
from needle.errors import DTypeError, OptionError, ShapeError
from tests.ops.differences import check_to_second_order
from tests.tolerances import assert_close

MODES = [("nearest", False), ("bilinear", False), ("bilinear", True)]


@pytest.mark.parity
@pytest.mark.parametrize("size, scale", [((3, 4), 2), ((1, 5), (3, 1)), ((2, 2), (1, 4)), ((4, 1), 3), ((3, 3), 1)])
@pytest.mark.parametrize("mode, align_corners", MODES)
def test_upsample2d_against_pytorch(tensor, size, scale, mode, align_corners):
    torch = pytest.importorskip("torch")
    x = np.random.randn(2, 3, *size)
    a, b = tensor(x), torch.tensor(x, requires_grad=True)
    got = ops.upsample2d(a, scale, mode, align_corners)
    wanted = torch.nn.functional.interpolate(
        b, scale_factor=scale, mode=mode, align_corners=None if mode == "nearest" else align_corners
    )
    d = np.random.randn(*wanted.shape)
    got.backward(tensor(d))
    wanted.backward(torch.tensor(d))
    assert_close(got, wanted.detach().numpy())
    assert_close(a.grad, b.grad.numpy())


@pytest.mark.parametrize("mode, align_corners", MODES)
def test_upsample2d_to_second_order(tensor, mode, align_corners):
    check_to_second_order(lambda x: ops.upsample2d(x, (2, 3), mode, align_corners) ** 2, tensor, (1, 2, 2, 3))


@pytest.mark.parametrize("mode, align_corners", MODES)
def test_upsample2d_keeps_dtypes_and_constants(tensor, dtype, mode, align_corners):
    y = ops.upsample2d(tensor(np.full((1, 2, 3, 3), 0.1), dtype=dtype), 2, mode, align_corners)
    assert y.dtype == dtype
    assert_close(y, np.full((1, 2, 6, 6), 0.1), rtol=1e-6)
    assert ops.upsample2d(tensor(np.zeros((0, 2, 3, 3))), 2, mode, align_corners).shape == (0, 2, 6, 6)


def test_nan_stays_near_its_pixel(tensor):
    x = np.zeros((1, 1, 4, 4))
    x[0, 0, 0, 0] = np.nan
    for mode, reach in (("nearest", 2), ("bilinear", 3)):
        assert np.argwhere(np.isnan(ops.upsample2d(tensor(x), 2, mode).numpy()[0, 0])).max() == reach - 1


def test_what_does_not_fit_raises(tensor):
    x = tensor(np.zeros((1, 2, 3, 3)))
    for call, error, message in (
        (lambda: ops.upsample2d(x[0], 2), ShapeError, r"upsample2d: .*N,C,H,W.*\(2, 3, 3\)"),
        (lambda: ops.upsample2d(x, 0), ShapeError, "upsample2d: scale must be at least 1, got 0"),
        (lambda: ops.upsample2d(x, 2, "cubic"), OptionError, "upsample2d: mode .*'cubic'"),
        (lambda: ops.upsample2d(x, 2, align_corners=True), OptionError, "upsample2d: .*align_corners"),
        (lambda: ops.upsample2d(x, 1.5), DTypeError, r"upsample2d: scale must be a whole number, got 1\.5"),
    ):
        with pytest.raises(error, match=f"^{message}"):
            call()
