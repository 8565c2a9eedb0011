"""Moving between two devices: NumPy's, and one of another name with the same kernels."""

import pytest

from needle import Tensor, cpu_numpy
from needle.backend_ndarray import BackendDevice
from needle.errors import DeviceError
from needle.testing import check_gradients

OTHER = BackendDevice("other", "needle.backend_ndarray.ndarray_backend_numpy")


def test_values_go_there_and_gradients_come_back() -> None:
    x = Tensor([1.0, 2.0], device=cpu_numpy())
    there = x.to(OTHER)
    assert there.device == OTHER and there.to(OTHER) is there
    (there * there).backward()
    assert x.grad.device == cpu_numpy()
    assert x.grad.numpy().tolist() == [2.0, 4.0]


def test_it_can_be_differentiated_twice() -> None:
    x = Tensor([1.0, 2.0], dtype="float64", device=cpu_numpy())
    check_gradients(lambda a: (a.to(OTHER) ** 3).to(cpu_numpy()) * a, x)


def test_operands_on_two_devices_raise() -> None:
    x = Tensor([1.0], device=cpu_numpy())
    with pytest.raises(DeviceError, match=r"add: operands are on cpu_numpy\(\) and other\(\); move one with \.to"):
        x + x.to(OTHER)
