"""Settings of the native device, and what it is made of. Where it is not enabled, settings have no effect."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from operator import index
from types import ModuleType
from typing import Any

from needle.backend_ndarray import kernels
from needle.backend_ndarray.devices import all_devices, cpu
from needle.errors import OptionError
from needle.version import __version__

CONV_ALGORITHMS = ("auto", "direct", "winograd4")

_conv_algorithm = "auto"


class Setting(AbstractContextManager[None]):
    """A setting that was made. It stays, or, where this is used in `with`, is undone at the end of the block."""

    def __init__(self, undo: Callable[[], Any]) -> None:
        self._undo = undo

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None:
        self._undo()


def set_num_threads(n: int) -> Setting:
    """Set how many threads a kernel may use, in the whole process; results do not depend on it.

    At first it is NEEDLE_NUM_THREADS, or the number of processors that the process may use.

    Raises:
        OptionError: `n` is less than 1.

    >>> with set_num_threads(1):
    ...     num_threads()
    1
    """
    if index(n) < 1:
        raise OptionError(f"set_num_threads: {n} threads are too few; give 1 or more")
    before = num_threads()
    if cpu().enabled():
        _extension().set_num_threads(min(index(n), 2**31 - 1))
    return Setting(lambda: set_num_threads(before))


def num_threads() -> int:
    """Give how many threads a kernel may use."""
    return int(_extension().num_threads()) if cpu().enabled() else 1


def set_conv_algorithm(name: str) -> Setting:
    """Choose how convolutions are computed: "auto", "direct" or "winograd4".

    "auto" takes the direct sum or Winograd's F(2x2,3x3), whichever is faster for a shape; both are as exact.
    "winograd4" takes F(4x4,3x3) where it can: faster for many channels, with errors 10 to 45 times as large.

    Raises:
        OptionError: it is none of these.

    >>> with set_conv_algorithm("direct"):
    ...     conv_algorithm()
    'direct'
    """
    global _conv_algorithm
    if name not in CONV_ALGORITHMS:
        raise OptionError(f"set_conv_algorithm: {name!r} is unknown; choose one of {', '.join(CONV_ALGORITHMS)}")
    before = _conv_algorithm
    if cpu().enabled():
        _extension().set_conv_algorithm(name)
    _conv_algorithm = name
    return Setting(lambda: set_conv_algorithm(before))


def conv_algorithm() -> str:
    """Give how convolutions are computed; see `set_conv_algorithm`."""
    return _conv_algorithm


def empty_cache() -> None:
    """Give the memory that freed arrays have left for later ones back to the system.

    At most a gigabyte, or a quarter of the machine's memory if that is less, is kept so.
    """
    if cpu().enabled():
        _extension().empty_cache()


def backend_info() -> dict[str, Any]:
    """Tell the version, the devices (True, or why not), and of the native one its instruction set, threads, kernels.

    `python -m needle` prints it.

    >>> sorted(backend_info())
    ['conv_algorithm', 'devices', 'isa', 'isas', 'native_kernels', 'reference_kernels', 'threads', 'version']
    """
    devices = {device.name: device.enabled() or device.why_not() for device in all_devices()}
    names = [name for name, kernel in vars(kernels).items() if inspect.isfunction(kernel)]
    backend = cpu().kernels if cpu().enabled() else None
    reference = names if backend is None else list(backend.REFERENCE)
    return {
        "version": __version__,
        "devices": devices,
        "isa": backend and backend.isa,
        "isas": backend and backend.isas,
        "threads": num_threads(),
        "conv_algorithm": _conv_algorithm,
        "native_kernels": [name for name in names if name not in reference],  # on floating-point numbers
        "reference_kernels": reference,
    }


def _extension() -> ModuleType:
    extension: ModuleType = cpu().kernels.extension
    return extension
