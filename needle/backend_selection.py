"""The array backend in use, under the names that course code imports."""

from needle import backend_ndarray as array_api
from needle.backend_ndarray import BACKEND as BACKEND
from needle.backend_ndarray import BackendDevice as Device
from needle.backend_ndarray import NDArray as NDArray
from needle.backend_ndarray import all_devices as all_devices
from needle.backend_ndarray import cpu as cpu
from needle.backend_ndarray import cpu_numpy as cpu_numpy
from needle.backend_ndarray import cuda as cuda
from needle.backend_ndarray import default_device as default_device

__all__ = [
    "BACKEND", "Device", "NDArray", "all_devices", "array_api", "cpu", "cpu_numpy", "cuda", "default_device"
]  # fmt: skip
