"""The dtypes arrays may have, the default one, and how they combine."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from needle.errors import BoundsError, DeviceError, DTypeError, ShapeError

DType: TypeAlias = "np.dtype[Any]"
Number: TypeAlias = "bool | int | float"

FLOAT32, FLOAT64, INT64, INT32, UINT8, BOOL = DTYPES = tuple(
    np.dtype(name) for name in ("float32", "float64", "int64", "int32", "uint8", "bool")
)

BACKEND = os.environ.get("NEEDLE_BACKEND", "nd")
"""`nd`, or `np`: the NumPy device by default, and the dtype of what comes in kept."""

if BACKEND not in ("nd", "np"):
    raise DeviceError(f"NEEDLE_BACKEND={BACKEND!r} is unknown; set it to 'nd' or 'np'")

_default = FLOAT64 if BACKEND == "np" else FLOAT32


def default_dtype() -> DType:
    """Give the floating dtype of what is made from numbers without a dtype.

    >>> default_dtype().name
    'float32'
    """
    return _default


def set_default_dtype(dtype: Any) -> None:
    """Change the default dtype.

    Raises:
        DTypeError: `dtype` is neither float32 nor float64.
    """
    global _default
    _default = as_floating(dtype, "set_default_dtype")


def as_dtype(dtype: Any, op: str = "dtype") -> DType:
    """Give a dtype named by a string, a NumPy type or a dtype.

    Raises:
        DTypeError: arrays cannot have it.

    >>> as_dtype("float32") == np.float32
    True
    """
    if dtype is None:
        return _default
    try:
        return _known(dtype)
    except (TypeError, ValueError):
        names = ", ".join(known.name for known in DTYPES)
        raise DTypeError(f"{op}: arrays cannot have dtype {dtype}; choose one of {names}") from None


def as_floating(dtype: Any, op: str) -> DType:
    """Give a floating dtype as `as_dtype` does; DTypeError for the others."""
    wanted = as_dtype(dtype, op)
    if wanted.kind != "f":
        raise DTypeError(f"{op}: dtype must be float32 or float64, got {wanted}")
    return wanted


def check_floating(op: str, name: str, dtype: DType) -> None:
    """Raise DTypeError where the argument called `name` is of a dtype that is not floating."""
    if dtype.kind != "f":
        raise DTypeError(f"{op}: {name} must be float32 or float64, got {dtype}; convert with astype")


@lru_cache(maxsize=256)
def _known(dtype: Any) -> DType:
    return DTYPES[DTYPES.index(np.dtype(dtype).newbyteorder("="))]


def as_ndarray(op: str, values: Any) -> np.ndarray[Any, Any]:
    """Give what NumPy takes as an ndarray of real numbers.

    Raises:
        ShapeError: nested lists of different lengths.
        DTypeError: something else than real numbers.

    >>> as_ndarray("array", [[1, 2]]).shape
    (1, 2)
    """
    try:
        result = np.asarray(values)
    except ValueError as error:
        raise ShapeError(f"{op}: {error}") from None
    if result.dtype.kind not in "fiub":
        raise DTypeError(f"{op}: expected real numbers, got values of dtype {result.dtype}")
    return result


def whole_numbers(op: str, name: str, values: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Give whole numbers of any real dtype as int64, a copy.

    >>> whole_numbers("take", "indices", [2.0, 0.0]).tolist()
    [2, 0]
    """
    given = as_ndarray(op, values)
    with np.errstate(invalid="ignore"):
        result = given.astype(np.int64)
    if (result != given).any():
        raise DTypeError(f"{op}: {name} must be whole numbers, got {given[result != given].flat[0]}")
    return result


def ids_below(op: str, count: int, values: Any, remedy: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Give ids, whole numbers of any real dtype in 0..count - 1, as int64, a copy.

    Raises:
        BoundsError: an id outside; the message names it and its place.

    >>> ids_below("one_hot", 3, [2.0, 0.0], "give more classes").tolist()
    [2, 0]
    """
    ids = whole_numbers(op, "ids", values)
    wrong = np.argwhere((ids < 0) | (ids >= count))
    if len(wrong):
        place = tuple(wrong[0].tolist())
        remedy = "ids count from 0" if ids[place] < 0 else remedy
        raise BoundsError(f"{op}: id {ids[place]} at {place} is not in 0..{count - 1}; {remedy}")
    return ids


def incoming_dtype(values: np.ndarray[Any, Any], op: str) -> DType:
    """Give the dtype an array gets that is made from `values` without a dtype: see `BACKEND`."""
    if BACKEND == "np":
        return as_dtype(values.dtype, op)
    return FLOAT32 if values.dtype == FLOAT32 else _default


def dtype_beside(a: DType, values: np.ndarray[Any, Any]) -> DType | None:
    """Give the dtype of an ndarray beside an array of dtype `a`: a floating one wins, else whole numbers stay whole.

    None stands for `incoming_dtype`.
    """
    if a.kind == "f":
        return a
    return values.dtype if values.dtype.kind != "f" and values.dtype in DTYPES else None


def check_holds(op: str, dtype: DType, number: Number) -> None:
    """Raise DTypeError where an integer dtype cannot hold a number, cut to a whole one."""
    if dtype.kind in "iu" and not _holds(dtype, number):
        raise DTypeError(f"{op}: {number} is outside the range of {dtype}; convert the array with astype first")


def as_number(value: Any) -> Number | None:
    """Give a Python number, NumPy scalar or 0-d ndarray as a Python number; None for anything else.

    >>> import numpy as np
    >>> as_number(np.float32(0.5)), as_number(np.array(3)), as_number([3])
    (0.5, 3, None)
    """
    if type(value) in (float, int, bool):
        return value
    if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0 and value.dtype.kind in "fiub":
        return float(value) if value.dtype.kind == "f" else value.item()
    return float(value) if isinstance(value, float) else int(value) if isinstance(value, int) else None


def arithmetic_dtype(op: str, a: DType, b: DType | Number) -> DType:
    """Give the dtype in which an array of dtype `a` and an array of dtype `b`, or a number `b`, combine.

    Arrays promote as in NumPy. A number leaves a floating dtype as it is, and an integer dtype too if it is an int.
    Bools act as 0 and 1 of the default dtype, unless the other operand's dtype says more.

    >>> arithmetic_dtype("add", FLOAT32, FLOAT64).name, arithmetic_dtype("add", FLOAT32, 2.5).name
    ('float64', 'float32')
    """
    if isinstance(b, np.dtype):
        return _default if a.kind == b.kind == "b" else _promoted(a, b)
    if a.kind == "f":
        return a
    if a.kind == "b":
        return _default
    if isinstance(b, float):
        return FLOAT64
    check_holds(op, a, b)
    return a


def division_dtype(op: str, a: DType, b: DType | Number) -> DType:
    """Give the dtype of a true division: integers divide as float64."""
    if a.kind in "iu" and not isinstance(b, np.dtype):
        return FLOAT64
    dtype = arithmetic_dtype(op, a, b)
    return dtype if dtype.kind == "f" else FLOAT64


def comparison_dtype(op: str, a: DType, b: DType | Number) -> DType:
    """Give the dtype in which operands are compared, so that no number is rounded to an integer dtype first."""
    if isinstance(b, np.dtype):
        return _promoted(a, b)
    if a.kind == "f" or isinstance(b, bool):
        return a
    if a.kind == "b":
        return _default
    return a if isinstance(b, int) and _holds(a, b) else FLOAT64


def real_dtype(a: DType) -> DType:
    """Give the dtype of exp, log, ... of an array: its own if floating."""
    if a.kind == "f":
        return a
    return _default if a.kind == "b" else FLOAT64


def _holds(integers: DType, number: Number) -> bool:
    limits = np.iinfo(integers)
    return bool(limits.min <= number <= limits.max)


@lru_cache(maxsize=64)
def _promoted(a: DType, b: DType) -> DType:
    return as_dtype(np.result_type(a, b))
