"""INTERFACE.md, "Devices"."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import needle as ndl
from needle import backend_ndarray as nd
from needle import backend_selection
from needle.errors import DeviceError
from tests.devices import DEVICES
from tests.tolerances import assert_close

ROOT = Path(__file__).parents[2]


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
    command = [sys.executable, "-W", "error", "-c", code]
    subprocess.run(command, check=True, cwd=ROOT, env=os.environ | environment)


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


@pytest.mark.parametrize("dtype", ["float64", np.float64, np.dtype("float64")])
def test_set_default_dtype(device, dtype):
    ndl.set_default_dtype(dtype)
    try:
        for made in (
            ndl.Tensor([1], device=device), ndl.Tensor(np.arange(2), device=device), nd.array(1.0, device=device),
            nd.NDArray([True], device=device), nd.empty((1,), device=device), nd.full((1,), 1, device=device),
            device.rand(1), device.randn(1), device.zeros(1), device.ones(1), device.one_hot(2, 1),
        ):  # fmt: skip
            assert made.dtype == ndl.default_dtype() == "float64"
        assert ndl.Tensor([1], device=device, dtype="float32").dtype == "float32"
        assert ndl.nn.Linear(2, 3, device=device).weight.dtype == "float32", "layers name theirs"
    finally:
        ndl.set_default_dtype("float32")


def test_np_backend_trains_with_numpy_functions_in_ops():
    """Course code of the first assignments: its ops compute with NumPy, and everything is float64."""
    in_new_process(
        """
import numpy, numpy as np, needle as ndl
from apps import simple_ml

class Log(ndl.TensorOp):
    def compute(self, a):
        return numpy.log(a)
    def gradient(self, out_grad, node):
        return out_grad / node.inputs[0]

class MatMul(ndl.TensorOp):
    def compute(self, a, b):
        return numpy.matmul(a, b)
    def gradient(self, out_grad, node):
        a, b = node.inputs
        return MatMul()(out_grad, b.transpose()), MatMul()(a.transpose(), out_grad)

x, w = ndl.Tensor(np.random.rand(3, 4) + 1), ndl.Tensor(np.random.rand(4, 2) + 1)
y = Log()(MatMul()(x, w)).sum()
y.backward()
upstream = 1 / (x.numpy() @ w.numpy())
np.testing.assert_allclose(x.grad.numpy(), upstream @ w.numpy().T, rtol=1e-14)
np.testing.assert_allclose(w.grad.numpy(), x.numpy().T @ upstream, rtol=1e-14)

images, labels = np.random.randn(50, 5), np.random.randint(3, size=50)
weights = ndl.Tensor(np.random.randn(5, 10)), ndl.Tensor(np.random.randn(10, 3))
losses = []
for epoch in range(20):
    weights = simple_ml.nn_epoch(images, labels, *weights, lr=0.1, batch=25)
    losses.append(simple_ml.loss_err(ndl.relu(ndl.Tensor(images) @ weights[0]) @ weights[1], labels)[0])
assert losses[-1] < 0.5 * losses[0]
assert {w.dtype.name for w in weights} == {"float64"} and {w.device for w in weights} == {ndl.cpu_numpy()}
""",
        NEEDLE_BACKEND="np",
    )


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
