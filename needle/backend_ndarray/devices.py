"""Devices, and the one place that imports backends.

A backend is a module that exports the kernels of `kernels.py`. Further ones are registered by name as entry points:

    [project.entry-points."needle.backends"]
    mydevice = "my_package.my_kernels"
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable
from functools import cached_property, lru_cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from needle.backend_ndarray import kernels
from needle.backend_ndarray.dtypes import BACKEND, as_dtype, ids_below
from needle.backend_ndarray.layout import as_shape
from needle.errors import DeviceError, OptionError

if TYPE_CHECKING:
    from needle.backend_ndarray.ndarray import NDArray

_EXPORTS = ["Array", *(name for name, f in inspect.getmembers(kernels, inspect.isfunction))]


class BackendDevice:
    """A place where arrays live and compute: a name and the backend module that serves it.

    The module is imported when it is first needed. Where it cannot be, or lacks kernels, the device is not `enabled()`,
    and using it raises a DeviceError that says why, and `remedy`. Attributes that a device does not have itself are
    its module's.

    >>> from needle import backend_ndarray as nd
    >>> nd.cpu_numpy(), nd.cpu_numpy().enabled()
    (cpu_numpy(), True)
    """

    array_type: ClassVar[type[NDArray]]  # set by ndarray.py, which knows it

    def __init__(self, name: str, module: str | None, remedy: str = "use cpu_numpy()") -> None:
        self.name = name
        self._module_name = module
        self._remedy = remedy

    @cached_property
    def _loaded(self) -> ModuleType | Exception:
        if self._module_name is None:
            return ImportError(f"needle has no {self.name.upper()} backend")
        try:
            module = importlib.import_module(self._module_name)
            missing = [name for name in _EXPORTS if not hasattr(module, name)]
            return ImportError(f"{self._module_name} lacks {', '.join(missing)}") if missing else module
        except OptionError:  # a variable of the environment is set wrongly: not the same as a device that is missing
            raise
        except Exception as error:  # whatever a foreign module raises, the other devices must work
            return error

    @cached_property
    def kernels(self) -> Any:
        """The backend module.

        Raises:
            DeviceError: it cannot be imported, or is not whole.
        """
        if isinstance(self._loaded, Exception):
            raise DeviceError(f"{self} is not enabled: {self.why_not()}") from self._loaded
        return self._loaded

    def enabled(self) -> bool:
        """Whether the device can be used here."""
        return not isinstance(self._loaded, Exception)

    def why_not(self) -> str:
        """Say why the device cannot be used here, and what to do; nothing where it can.

        >>> from needle import backend_ndarray as nd
        >>> nd.cuda().why_not()
        'needle has no CUDA backend; use default_device()'
        """
        return "" if self.enabled() else f"{self._loaded}; {self._remedy}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and not self.enabled():
            raise AttributeError(f"{self} has no attribute {name!r}")  # protocols such as copy ask for what may be
        return getattr(self.kernels, name)

    def __repr__(self) -> str:
        return f"{self.name}()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BackendDevice) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.name,)

    def empty(self, shape: int | Iterable[int], dtype: Any = None) -> NDArray:
        """Make an array without setting its elements."""
        return self.array_type.make(shape, device=self, dtype=dtype)

    def full(self, shape: int | Iterable[int], value: float, dtype: Any = None) -> NDArray:
        """Make an array that holds `value` everywhere.

        >>> from needle import backend_ndarray as nd
        >>> nd.default_device().full((2,), 7).numpy().tolist()
        [7.0, 7.0]
        """
        array = self.empty(shape, dtype)
        array.fill(value)
        return array

    def zeros(self, *shape: Any, dtype: Any = None) -> NDArray:
        """Make an array of zeros; the shape may be one tuple or several ints."""
        return self.full(_shape_of("zeros", shape), 0.0, dtype)

    def ones(self, *shape: Any, dtype: Any = None) -> NDArray:
        """Make an array of ones; the shape may be one tuple or several ints."""
        return self.full(_shape_of("ones", shape), 1.0, dtype)

    def rand(self, *shape: Any, dtype: Any = None) -> NDArray:
        """Draw uniformly from [0, 1) with NumPy's global generator."""
        return self.array_type(np.random.rand(*_shape_of("rand", shape)), device=self, dtype=as_dtype(dtype))

    def randn(self, *shape: Any, dtype: Any = None) -> NDArray:
        """Draw from the standard normal distribution with NumPy's global generator."""
        return self.array_type(np.random.randn(*_shape_of("randn", shape)), device=self, dtype=as_dtype(dtype))

    def one_hot(self, n: int, i: Any, dtype: Any = None) -> NDArray:
        """Give each id of `i` as a row of `n` zeros with a one at the id; the result has shape (*i.shape, n).

        Ids may have any dtype, as long as they are whole numbers.

        Raises:
            BoundsError: an id is not in 0..n-1; the message names it and its place.
            DTypeError: an id is no whole number.

        >>> from needle import backend_ndarray as nd
        >>> nd.default_device().one_hot(3, [2.0, 0.0]).numpy().tolist()
        [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
        """
        (classes,) = as_shape("one_hot", (n,))
        ids = ids_below("one_hot", classes, i, "give more classes")
        result = self.full((*ids.shape, classes), 0.0, dtype)
        self.kernels.to_numpy(result).reshape(ids.size, classes)[np.arange(ids.size), ids.reshape(-1)] = 1
        return result


def _shape_of(op: str, lengths: tuple[Any, ...]) -> tuple[int, ...]:
    """Shapes are given as `f(2, 3)` or as `f((2, 3))`."""
    return as_shape(op, lengths[0] if len(lengths) == 1 and isinstance(lengths[0], Iterable) else lengths)


_CPU = BackendDevice(
    "cpu",
    f"{__package__}.ndarray_backend_cpu",
    "install g++ or clang++ and then needle again, or use cpu_numpy(), which default_device() gives too",
)
_CPU_NUMPY = BackendDevice("cpu_numpy", f"{__package__}.ndarray_backend_numpy")
_CUDA = BackendDevice("cuda", None, "use default_device()")


def cpu() -> BackendDevice:
    """Give the device of the native kernels."""
    return _CPU


def cpu_numpy() -> BackendDevice:
    """Give the device of the NumPy kernels, which is always enabled."""
    return _CPU_NUMPY


def cuda() -> BackendDevice:
    """Give the device of a CUDA backend; there is none, so its `enabled()` is False."""
    return _CUDA


def default_device() -> BackendDevice:
    """Give the device of what is made without one: the native one where it is enabled, else NumPy's.

    With NEEDLE_BACKEND=np in the environment it is NumPy's.
    """
    return _CPU if BACKEND == "nd" and _CPU.enabled() else _CPU_NUMPY


def as_device(op: str, device: Any) -> BackendDevice:
    """Give a device, the default one for None; DeviceError for anything else."""
    if device is None:
        return default_device()
    if not isinstance(device, BackendDevice):
        raise DeviceError(f"{op}: {device!r} is no device; give one such as needle.default_device()")
    return device


@lru_cache(maxsize=1)
def _registered() -> dict[str, BackendDevice]:
    devices = {device.name: device for device in (_CPU, _CUDA, _CPU_NUMPY)}
    for point in entry_points(group="needle.backends"):
        devices.setdefault(point.name, BackendDevice(point.name, point.module, "repair that package"))
    return devices


def all_devices() -> list[BackendDevice]:
    """Give all devices, enabled or not: needle's own, then those of other packages.

    >>> from needle import backend_ndarray as nd
    >>> nd.all_devices()[:3]
    [cpu(), cuda(), cpu_numpy()]
    """
    return list(_registered().values())


def device(name: str) -> BackendDevice:
    """Give the device of that name, those of other packages included.

    Raises:
        DeviceError: there is none.

    >>> device("cpu_numpy")
    cpu_numpy()
    """
    found = _registered().get(name)
    if found is None:
        raise DeviceError(f"device: there is no {name!r}; choose one of {', '.join(_registered())}")
    return found
