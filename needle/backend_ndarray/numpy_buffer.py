"""The memory of the NumPy device: its handle, and how kernels read a view."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from needle.backend_ndarray.kernels import View


class Array:
    """A flat buffer; its elements are not set."""

    __slots__ = ("data", "dtype", "size", "version")

    def __init__(self, size: int, dtype: np.dtype[Any]) -> None:
        self.data = np.empty(size, dtype)
        self.size = size
        self.dtype = dtype
        self.version = 0

    @classmethod
    def wrap(cls, line: np.ndarray[Any, Any]) -> Array:
        """Make a handle on the memory of a writable ndarray with one axis and no gaps."""
        handle = cls.__new__(cls)
        handle.data, handle.size, handle.dtype, handle.version = line, line.size, line.dtype, 0
        return handle

    def ptr(self) -> int:
        """Give the address of the first element."""
        return self.data.ctypes.data


def to_numpy(a: View) -> np.ndarray[Any, Any]:
    """Give an ndarray on the memory behind a view."""
    step = a._dtype.itemsize
    strides = _byte_strides(a._strides, step)
    return np.ndarray(a._shape, a._dtype, a._handle.data, a._offset * step, strides)  # type: ignore[attr-defined]


@lru_cache(maxsize=4096)
def _byte_strides(strides: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    return tuple([stride * itemsize for stride in strides])
