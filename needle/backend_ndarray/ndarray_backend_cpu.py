"""The native kernels: those that `kernels.py` lists, from the module of one instruction set; see `cpu/` for sources.

Kernels on floating-point numbers are native. What is not, those on integers and bools and those of `REFERENCE`, runs
as in `ndarray_backend_numpy`, on the same memory.
"""

from __future__ import annotations

import inspect

from needle.backend_ndarray import kernels, native

REFERENCE = ("from_numpy", "to_numpy", "argsort")
"""Kernels that move or order data, and compute nothing."""

extension = native.load()
isa = extension.__name__.rpartition("_")[2]
isas = native.built_isas()

globals().update(
    {name: getattr(extension, name) for name, kernel in vars(kernels).items() if inspect.isfunction(kernel)}
)
Array = extension.Array
matmul_tiled = extension.matmul_tiled
__tile_size__ = extension.__tile_size__
