"""Pickle files of plain data, read without running anything that they name."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt


def loads(content: bytes) -> Any:
    """Unpickle arrays of numbers, lists, dicts, bytes, strings and numbers; what Python 2 called strings are bytes.

    Arrays are subclasses of ndarray. Whatever else is named raises pickle.UnpicklingError; a corrupt file raises that
    or, as pickle does, nearly any other exception.

    >>> loads(pickle.dumps({"labels": [1, 2]}))
    {'labels': [1, 2]}
    >>> loads(pickle.dumps(print))
    Traceback (most recent call last):
    _pickle.UnpicklingError: it names builtins.print, which is no plain data
    """
    return _Unpickler(io.BytesIO(content), encoding="bytes").load()


class _DType:
    """Stands in for numpy.dtype, which takes flags on the layout of memory from the file unchecked."""

    def __init__(self, code: str | bytes, *_: Any) -> None:
        self.dtype = np.dtype(_text(code))
        if self.dtype.kind not in "biuf":
            raise pickle.UnpicklingError(f"it holds an array of dtype {self.dtype}, which is no plain data")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype = self.dtype.newbyteorder(_text(state[1]))  # type: ignore[arg-type]


class _Array(np.ndarray[Any, Any]):
    """An array whose state is checked by ndarray, its dtype being one of ours."""

    def __setstate__(self, state: Any) -> None:
        version, shape, stand_in, fortran_order, data = state
        super().__setstate__((version, shape, stand_in.dtype, fortran_order, data))


def _reconstruct(*_: Any) -> _Array:
    return _Array(0)


def _from_buffer(data: bytes, stand_in: _DType, shape: tuple[int, ...], order: str) -> npt.NDArray[Any]:
    return np.frombuffer(data, stand_in.dtype).reshape(shape, order="F" if order == "F" else "C")


def _encode(text: str, *_: Any) -> bytes:
    return text.encode("latin-1")  # how protocols below 3 hold bytes


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


# What a pickled array names, under NumPy 1 and 2, and what is used in its place.
_STAND_INS: dict[str, Callable[..., Any] | None] = {
    "numpy.ndarray": None,  # only ever an argument of _reconstruct
    "numpy.dtype": _DType,
    "numpy.core.multiarray._reconstruct": _reconstruct,
    "numpy._core.multiarray._reconstruct": _reconstruct,
    "numpy.core.numeric._frombuffer": _from_buffer,
    "numpy._core.numeric._frombuffer": _from_buffer,
    "_codecs.encode": _encode,
}


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to an object outside of it, which is no plain data")

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _STAND_INS[f"{module}.{name}"]
        except KeyError:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is no plain data") from None
