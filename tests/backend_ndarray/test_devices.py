"""Devices, and backends that others register."""

import copy
import importlib.metadata
import pickle

import numpy as np
import pytest

from needle import backend_ndarray as nd
from needle.backend_ndarray import devices
from needle.errors import BoundsError, DeviceError, DTypeError


def test_names_and_equality():
    assert [repr(device) for device in nd.all_devices()[:3]] == ["cpu()", "cuda()", "cpu_numpy()"]
    assert str(nd.cpu_numpy()) == "cpu_numpy()"
    assert nd.cpu() == nd.cpu() != nd.cpu_numpy()
    assert len({nd.cpu(), nd.cpu(), nd.cuda()}) == 2
    assert nd.cpu() != "cpu()"
    for device in nd.all_devices():
        assert pickle.loads(pickle.dumps(device)) == copy.deepcopy(device) == device == nd.device(device.name)


@pytest.mark.parametrize(("device", "remedy"), [(nd.cuda(), "default_device"), (nd.cpu(), "cpu_numpy")])
def test_a_missing_backend_says_why(device, remedy):
    if device.enabled():
        pytest.skip(f"{device} is there")
    for use in (
        lambda: nd.array([1.0], device=device),
        lambda: device.zeros(2),
        lambda: device.one_hot(2, [1]),
        lambda: device.ewise_add,
        lambda: nd.array([1.0]).to(device),
    ):
        with pytest.raises(DeviceError, match=rf"^{device.name}\(\) is not enabled: .*{remedy}"):
            use()
    assert not hasattr(device, "__wrapped__")


def test_default_device():
    assert nd.default_device() == (nd.cpu() if nd.cpu().enabled() else nd.cpu_numpy())
    assert nd.array([1.0]).device == nd.default_device()


def test_an_unknown_name():
    with pytest.raises(DeviceError, match=r"'tpu'; choose one of cpu, cuda, cpu_numpy"):
        nd.device("tpu")


def test_attributes_are_the_modules(device):
    assert device.Array is device.kernels.Array
    with pytest.raises(AttributeError, match=r"no_such_kernel"):
        _ = device.no_such_kernel


@pytest.fixture
def registered(monkeypatch):
    """Two backends of other packages: one a NumPy backend under another name, one that fails to import."""
    points = [
        importlib.metadata.EntryPoint("mine", "needle.backend_ndarray.ndarray_backend_numpy", "needle.backends"),
        importlib.metadata.EntryPoint("broken", "package_that_is_not_there.kernels", "needle.backends"),
        importlib.metadata.EntryPoint("cpu_numpy", "package_that_is_not_there.kernels", "needle.backends"),
    ]
    monkeypatch.setattr(devices, "entry_points", lambda group: points if group == "needle.backends" else [])
    devices._registered.cache_clear()
    yield
    devices._registered.cache_clear()


@pytest.mark.usefixtures("registered")
def test_registered_backends():
    assert [device.name for device in nd.all_devices()] == ["cpu", "cuda", "cpu_numpy", "mine", "broken"]
    mine = nd.device("mine")
    a = nd.array([1.0, 2.0], device=mine)
    assert mine.enabled()
    assert (a + a).device == mine
    assert (a * 2).numpy().tolist() == [2.0, 4.0]
    assert a.to(nd.cpu_numpy()).device == nd.cpu_numpy()
    assert pickle.loads(pickle.dumps(a)).device == mine
    assert not nd.device("broken").enabled()
    with pytest.raises(DeviceError, match=r"^broken\(\) is not enabled: No module named 'package_that_is_not_there'"):
        nd.empty((2,), device=nd.device("broken"))
    assert nd.cpu_numpy().enabled()


@pytest.mark.usefixtures("registered")
def test_operands_on_different_devices():
    a, b = nd.array([1.0], device=nd.cpu_numpy()), nd.array([1.0], device=nd.device("mine"))
    matrix = a.reshape(1, 1)
    for use in (
        lambda: a + b,
        lambda: a < b,
        lambda: a.maximum(b),
        lambda: matrix @ b.reshape(1, 1),
        lambda: nd.where(a > 0, a, b),
        lambda: a.__setitem__(0, b),
        lambda: a.add_at([0], b),
    ):
        with pytest.raises(DeviceError, match=r"operands are on cpu_numpy\(\) and mine\(\); move one with .to"):
            use()


@pytest.mark.usefixtures("registered")
def test_unpickling_where_a_device_is_missing(monkeypatch):
    data = pickle.dumps(nd.array([1.0], device=nd.device("mine")))
    enabled = nd.BackendDevice.enabled
    monkeypatch.setattr(nd.BackendDevice, "enabled", lambda self: self.name != "mine" and enabled(self))
    assert pickle.loads(data).device == nd.default_device()


def test_creation(device, dtype):
    assert device.zeros(2, 3, dtype=dtype).numpy().tolist() == [[0] * 3] * 2
    assert device.ones((2,), dtype=dtype).numpy().tolist() == [1, 1]
    assert device.full((1, 2), 7, dtype=dtype).numpy().tolist() == [[7, 7]]
    assert device.empty((0, 2), dtype=dtype).shape == (0, 2)
    assert device.zeros(2).dtype == device.rand(1).dtype == nd.default_dtype()
    for made in (device.zeros(1, dtype=dtype), device.randn(1, dtype=dtype), device.one_hot(2, [0], dtype=dtype)):
        assert made.dtype == dtype
        assert made.device == device


def test_draws_are_those_of_numpys_global_generator(device):
    np.random.seed(1)
    a, b = device.rand(2, 3, dtype="float64"), device.randn(4)
    np.random.seed(1)
    assert (a.numpy() == np.random.rand(2, 3)).all()
    assert (b.numpy() == np.random.randn(4).astype("float32")).all()


@pytest.mark.parametrize("ids", [[0, 2, 1], 2, [[1], [0]], np.array([1.0, 2.0]), np.array([2], "uint8"), []])
def test_one_hot(device, ids):
    expected = np.eye(3)[np.asarray(ids).astype(int)]
    assert device.one_hot(3, ids).numpy().tolist() == expected.tolist()
    assert device.one_hot(3, nd.array(ids, device=device)).numpy().tolist() == expected.tolist()


def test_one_hot_refuses(device):
    with pytest.raises(BoundsError, match=r"one_hot: id 4 at \(2,\) is not in 0..3"):
        device.one_hot(4, [0, 3, 4, -1])
    with pytest.raises(BoundsError, match=r"id -1 at \(1, 0\)"):
        device.one_hot(4, [[0], [-1]])
    for ids in ([0.5], [np.nan], [np.inf], [1e30], ["a"]):
        with pytest.raises(DTypeError, match=r"one_hot: (ids must be whole|expected real) numbers"):
            device.one_hot(4, ids)
