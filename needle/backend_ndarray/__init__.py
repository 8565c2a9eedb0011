"""Strided arrays on flat buffers, and the devices whose kernels compute on them."""

from needle.backend_ndarray.devices import BackendDevice as BackendDevice
from needle.backend_ndarray.devices import all_devices as all_devices
from needle.backend_ndarray.devices import cpu as cpu
from needle.backend_ndarray.devices import cpu_numpy as cpu_numpy
from needle.backend_ndarray.devices import cuda as cuda
from needle.backend_ndarray.devices import default_device as default_device
from needle.backend_ndarray.devices import device as device
from needle.backend_ndarray.dtypes import BACKEND as BACKEND
from needle.backend_ndarray.dtypes import default_dtype as default_dtype
from needle.backend_ndarray.dtypes import set_default_dtype as set_default_dtype
from needle.backend_ndarray.ndarray import NDArray as NDArray
from needle.backend_ndarray.ndarray import array as array
from needle.backend_ndarray.ndarray import broadcast_to as broadcast_to
from needle.backend_ndarray.ndarray import clip as clip
from needle.backend_ndarray.ndarray import empty as empty
from needle.backend_ndarray.ndarray import exp as exp
from needle.backend_ndarray.ndarray import flip as flip
from needle.backend_ndarray.ndarray import full as full
from needle.backend_ndarray.ndarray import log as log
from needle.backend_ndarray.ndarray import matmul as matmul
from needle.backend_ndarray.ndarray import maximum as maximum
from needle.backend_ndarray.ndarray import reshape as reshape
from needle.backend_ndarray.ndarray import sum as sum
from needle.backend_ndarray.ndarray import tanh as tanh
from needle.backend_ndarray.ndarray import where as where
