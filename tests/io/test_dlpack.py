"""Sharing memory with other libraries by DLPack."""

import gc

import numpy as np
import pytest

import needle as ndl
from needle import backend_ndarray as nd
from needle.errors import DeviceError, DTypeError

DTYPES = ["float32", "float64", "int64", "int32", "uint8", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_shares_what_we_give(device, dtype):
    a = nd.array([[0, 1, 1], [1, 0, 1]], dtype, device)
    for x, shape in ((a, (2, 3)), (a.T, (3, 2)), (a[:, 1:], (2, 2)), (ndl.Tensor.make_const(a), (2, 3))):
        values = np.from_dlpack(x)
        assert (values.shape, values.dtype) == (shape, dtype)
        assert (values == x.numpy()).all()
        assert np.shares_memory(values, np.asarray(a))
        assert x.__dlpack_device__() == (1, 0)
    kept = np.from_dlpack(nd.full((1000,), 1, dtype, device))
    gc.collect()
    others = [nd.full((1000,), 0, dtype, device) for _ in range(10)]
    assert kept.all(), others


@pytest.mark.parametrize("dtype", DTYPES)
def test_we_share_what_numpy_gives(device, dtype):
    values = np.ones((2, 3, 4), dtype)
    for given in (values, values.transpose(2, 0, 1), values[1:]):
        x = ndl.from_dlpack(given, device)
        assert (x.shape, x.dtype, x.device, x.requires_grad) == (given.shape, dtype, device, False)
        assert np.shares_memory(np.asarray(x), values)
        assert (x.numpy() == given).all()
    x.cached_data.fill(0)
    assert not values[1:].any()
    assert values[0].all()
    del values, given
    gc.collect()
    assert not (x + x).numpy().any()


def test_what_cannot_be_shared_is_copied(device):
    values = np.arange(12.0).reshape(3, 4)
    frozen = values.copy()
    frozen.flags.writeable = False
    for given in (values[:, ::2], values[::-1], np.broadcast_to(values[0], (2, 4)).copy()[:0], values[:, :3]):
        x = ndl.from_dlpack(given, device)
        assert (x.numpy() == given).all()
        assert not np.shares_memory(np.asarray(x), values)


def test_what_is_refused(device):
    class Elsewhere:
        def __dlpack__(self, **options):
            raise AssertionError("not asked for")

        def __dlpack_device__(self):
            return 2, 0

    with pytest.raises(DeviceError, match=r"from_dlpack: the memory of this array is not the processor's"):
        ndl.from_dlpack(Elsewhere(), device)
    with pytest.raises(DTypeError, match=r"from_dlpack: a list has no __dlpack__"):
        ndl.from_dlpack([1.0], device)
    with pytest.raises(DTypeError, match=r"from_dlpack: arrays cannot have dtype float16"):
        ndl.from_dlpack(np.zeros(2, "float16"), device)


def test_results_of_shared_memory(device):
    values = np.random.default_rng(0).standard_normal((4, 5)).astype("float32")
    x = ndl.from_dlpack(values.T, device)
    np.testing.assert_allclose((x @ x.transpose()).numpy(), values.T @ values, rtol=1e-5)


@pytest.mark.parity
@pytest.mark.parametrize("dtype", DTYPES)
def test_pytorch(device, dtype):
    torch = pytest.importorskip("torch")
    a = nd.array([[0, 1], [1, 0], [1, 1]], dtype, device)
    shared = torch.from_dlpack(a.T)
    assert shared.shape == (2, 3)
    assert shared.data_ptr() == a._handle.ptr()
    shared.zero_()
    assert not a.numpy().any()
    theirs = torch.ones(3, 2, dtype=shared.dtype).T
    x = ndl.from_dlpack(theirs, device)
    assert x.cached_data._handle.ptr() == theirs.data_ptr()
    theirs[0, 0] = 0
    assert x.numpy().tolist() == [[0, 1, 1], [1, 1, 1]]
    del theirs
    gc.collect()
    assert (x + x).numpy()[0, 1] == (2 if dtype != "bool" else 2.0)
    back = torch.from_dlpack(ndl.from_dlpack(torch.zeros(2), device))
    assert back.tolist() == [0, 0]
