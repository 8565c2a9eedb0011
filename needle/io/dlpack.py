"""Tensors of other libraries, without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from needle.autograd import Tensor
from needle.backend_ndarray import BackendDevice, NDArray, default_device
from needle.backend_ndarray.dtypes import as_dtype
from needle.backend_ndarray.layout import is_dense
from needle.errors import DeviceError, DTypeError, kind_of

CPU_MEMORY = (1, 3)  # DLPack's numbers for it: ordinary, and pinned for a CUDA device


def from_dlpack(x: Any, device: BackendDevice | None = None) -> Tensor:
    """Make a tensor, without gradient, of an array of another library: PyTorch, JAX, NumPy ...

    It shares memory with `x` where `x` is writable and dense, in any order of its axes; else it is a copy. A change
    that the other library makes later is not noticed: backward then computes with the new values.

    Raises:
        DTypeError: `x` does not speak DLPack, or has a dtype that arrays cannot have.
        DeviceError: its memory is not the processor's.

    >>> import numpy as np
    >>> a = np.zeros((2, 3), "float32")
    >>> x = from_dlpack(a)
    >>> a[0, 0] = 7
    >>> x.numpy().tolist()
    [[7.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise DTypeError(f"from_dlpack: {kind_of(x)} has no __dlpack__; give an array of a library that has it")
    if x.__dlpack_device__()[0] not in CPU_MEMORY:
        raise DeviceError("from_dlpack: the memory of this array is not the processor's; copy it there first")
    values = np.from_dlpack(x)
    dtype = as_dtype(values.dtype, "from_dlpack")
    device = device or default_device()
    step = values.itemsize
    strides = tuple([stride // step for stride in values.strides])
    aligned = values.flags.aligned and not any(stride % step for stride in values.strides)
    if not (aligned and values.flags.writeable and values.size and is_dense(values.shape, strides)):
        return Tensor.make_const(NDArray(values, device, dtype))
    handle = device.kernels.Array.wrap(as_strided(values, (values.size,), (step,)))
    return Tensor.make_const(NDArray.make(values.shape, strides, device, handle))
