"""INTERFACE.md, "Devices"."""

import os
import subprocess
import sys

import numpy as np
import pytest

import needle as ndl
from needle import backend_ndarray as nd
from needle import backend_selection
from needle.errors import DeviceError
from tests.devices import DEVICES
from tests.tolerances import assert_close


@pytest.mark.parametrize("module", [ndl, nd, backend_selection], ids=["needle", "nd", "backend_selection"])
def test_names(module):
    for name in ("cpu", "cpu_numpy", "cuda"):
        device = getattr(module, name)()
        assert repr(device) == str(device) == f"{name}()"
        assert device == getattr(nd, name)()
        assert hash(device) == hash(getattr(ndl, name)())
    assert len({module.cpu(), module.cpu(), module.cpu_numpy(), module.cuda()}) == 3
    assert {repr(device) for device in module.all_devices()} >= {"cpu()", "cpu_numpy()", "cuda()"}
    assert module.default_device() == (module.cpu() if module.cpu().enabled() else module.cpu_numpy())
    assert module.cpu_numpy().enabled() is True


def test_backend_selection():
    assert backend_selection.BACKEND == "nd"
    assert backend_selection.NDArray is nd.NDArray
    assert backend_selection.array_api is nd
    assert isinstance(ndl.cpu_numpy(), backend_selection.Device)


def test_a_device_that_is_not_there_says_why():
    missing = [device for device in (ndl.cuda(), ndl.cpu()) if not device.enabled()]
    for device in missing:
        with pytest.raises(DeviceError, match=repr(device).replace("()", r"\(\)")):
            nd.empty((2, 2), device=device)
        with pytest.raises(DeviceError):
            ndl.Tensor([1.0], device=device)


def test_random_draws(device):
    np.random.seed(7)
    uniform, normal = np.random.rand(2, 3), np.random.randn(2, 3)
    np.random.seed(7)
    assert_close(device.rand(2, 3, dtype="float64"), uniform)
    assert_close(device.randn(2, 3, dtype="float64"), normal)


@pytest.mark.parametrize("dtype", ["float32", np.float64, np.dtype("float32"), "int32"])
def test_makers(device, dtype):
    for made, expected in (
        (device.one_hot(4, np.array([1, 3]), dtype=dtype), np.eye(4)[[1, 3]]),
        (device.full((2, 3), 5.0, dtype=dtype), np.full((2, 3), 5)),
        (device.zeros(2, 3, dtype=dtype), np.zeros((2, 3))),
        (device.ones(2, 3, dtype=dtype), np.ones((2, 3))),
    ):
        assert isinstance(made, nd.NDArray)
        assert made.dtype == np.dtype(dtype)
        assert made.device == device
        assert made.numpy().tolist() == expected.tolist()
    assert device.empty((2, 3), dtype=dtype).shape == (2, 3)


def test_default_dtype_is_float32(device):
    made = (
        device.rand(2),
        device.randn(2),
        device.one_hot(2, 1),
        device.empty((2,)),
        device.full((2,), 1),
        device.zeros(2),
    )
    assert {str(array.dtype) for array in made} == {"float32"}


def test_handle(array):
    a = array(np.arange(6.0).reshape(2, 3))
    assert a._handle.size == 6
    assert isinstance(a._handle.ptr(), int)
    assert a[1:]._handle.ptr() == a._handle.ptr()
    assert a.compact()._handle.size == 6


def in_new_process(code, **environment):
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, env=os.environ | environment)


def test_np_backend_keeps_what_comes_in():
    in_new_process(
        """
import numpy as np, needle as ndl
from needle import backend_ndarray as nd, backend_selection
assert backend_selection.BACKEND == "np" and ndl.default_device() == ndl.cpu_numpy()
for make in (ndl.Tensor, nd.array):
    assert make([1.0]).dtype == "float64" and make(np.float32([1])).dtype == "float32"
    assert make(np.ones(2)).dtype == "float64" and make([1, 2]).dtype == np.asarray([1, 2]).dtype
a, b = ndl.Tensor([6]), ndl.Tensor([7])
c = a * b
c.backward()
assert c.numpy().tolist() == [42] and a.grad.numpy().tolist() == [7]
""",
        NEEDLE_BACKEND="np",
    )


def test_nd_backend_makes_float32():
    for value in (1.0, [1, 2], np.arange(3), np.float64(2), np.ones(2)):
        assert ndl.Tensor(value).dtype == "float32"
        assert nd.array(value).dtype == "float32"
    assert ndl.Tensor(np.arange(3), dtype="int64").dtype == "int64"


def test_set_default_dtype():
    ndl.set_default_dtype("float64")
    try:
        assert ndl.Tensor([1]).dtype == ndl.default_dtype() == "float64"
    finally:
        ndl.set_default_dtype("float32")


@pytest.mark.parametrize("device", DEVICES, ids=repr)
def test_numpy_functions_work_in_compute(device):
    """Course code of the first assignments computes with NumPy functions on what `compute` is handed."""

    class Everything(ndl.TensorOp):
        def compute(self, a):
            return np.log(a).T + np.swapaxes(a, 0, 1) + np.sum(a, axis=1).reshape((1, -1)) + a.max()

    a = np.random.rand(3, 3) + 1
    assert_close(
        Everything()(ndl.Tensor(a, device=device, dtype="float64")),
        np.log(a).T + a.T + a.sum(1).reshape(1, -1) + a.max(),
    )


@pytest.mark.parametrize("result", [np.float64(3), 3.0, np.full((), 3.0), np.array([3.0])])
def test_what_compute_returns_is_wrapped(result):
    class Returns(ndl.TensorOp):
        def compute(self, a):
            return result

    out = Returns()(ndl.Tensor([1.0]))
    assert isinstance(out.cached_data, nd.NDArray)
    assert out.numpy().item() == 3
