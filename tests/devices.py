"""The devices and dtypes that tests run over, and the fixtures `device`, `dtype`, `tensor` and `array`."""

from collections.abc import Callable
from functools import partial

import pytest

import needle as ndl
from needle import backend_ndarray as nd

DEVICES = [device for device in ndl.all_devices() if device.enabled()]
DTYPES = ["float32", "float64"]


@pytest.fixture(params=DEVICES, ids=repr)
def device(request: pytest.FixtureRequest) -> nd.BackendDevice:
    """Every enabled device in turn."""
    return request.param


@pytest.fixture(params=DTYPES)
def dtype(request: pytest.FixtureRequest) -> str:
    """Every floating-point dtype in turn."""
    return request.param


@pytest.fixture
def tensor(device: nd.BackendDevice) -> Callable[..., ndl.Tensor]:
    """`ndl.Tensor` on every enabled device, float64 unless told otherwise."""
    return partial(ndl.Tensor, device=device, dtype="float64")


@pytest.fixture
def array(device: nd.BackendDevice) -> Callable[..., nd.NDArray]:
    """`nd.array` on every enabled device, float64 unless told otherwise."""
    return partial(nd.array, device=device, dtype="float64")
