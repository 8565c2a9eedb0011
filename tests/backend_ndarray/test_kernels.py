"""Every backend exports exactly the kernels of kernels.py, with their signatures."""

import inspect
from types import ModuleType

import pytest

from needle import backend_ndarray as nd
from needle.backend_ndarray import kernels

KERNELS = {name: f for name, f in vars(kernels).items() if inspect.isfunction(f) and f.__module__ == kernels.__name__}
EXTRA = {"matmul_tiled"}  # the course's, on the native device
ENABLED = [device for device in nd.all_devices() if device.enabled()]


def own_functions(backend):
    """The names a backend's package, or needle, defines in it or for it; not what it imports from others, as NumPy."""
    packages = {"needle", backend.__name__.partition(".")[0]}
    functions = {name: f for name, f in vars(backend).items() if inspect.isroutine(f) and not name.startswith("_")}
    return {name for name, f in functions.items() if (f.__module__ or "").partition(".")[0] in packages}


def test_kernels_are_found():
    assert {"add", "matmul", "conv", "reduce_sum", "adam_update"} <= set(KERNELS)


@pytest.mark.parametrize("device", ENABLED, ids=repr)
def test_names(device):
    assert own_functions(device.kernels) - EXTRA == set(KERNELS)
    assert inspect.isclass(device.kernels.Array)


def test_functions_of_a_backend_of_another_package_are_its_own():
    backend = ModuleType("other_package.kernels")
    exec("from math import sqrt\nfrom numpy import where\ndef add(a, b, out): ...\ndef _add(): ...", vars(backend))
    assert own_functions(backend) == {"add"}


@pytest.mark.parametrize("device", ENABLED, ids=repr)
@pytest.mark.parametrize("name", KERNELS)
def test_signatures(device, name):
    def arguments(function):
        return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]

    assert arguments(getattr(device.kernels, name)) == arguments(KERNELS[name])


@pytest.mark.parametrize("device", ENABLED, ids=repr)
def test_handle(device):
    handle = device.Array(6, kernels.np.dtype("float64"))
    assert handle.size == 6
    assert handle.dtype == "float64"
    assert handle.ptr() == device.to_numpy(nd.NDArray.make((6,), device=device, handle=handle)).ctypes.data


@pytest.mark.parametrize("device", ENABLED, ids=repr)
def test_a_handle_on_memory_of_others(device):
    line = kernels.np.arange(3, dtype="int64")
    handle = device.Array.wrap(line)
    assert (handle.size, handle.dtype, handle.ptr()) == (3, "int64", line.ctypes.data)
    handle.version = 5
    assert handle.version == 5
