"""How results are compared, and what a wrong one has in common with the right one."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from needle.autograd import NDArray, Tensor
from needle.testing.diagnosis import Diagnosis
from needle.testing.differences import Tolerance

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

TOLERANCE = Tolerance(rtol=1e-5, atol=1e-6)
"""What counts as right: float32 and central differences stay within it."""


def plain(value: Any) -> Any:
    """Give tensors, arrays and floats as NumPy arrays, anything else as it is."""
    if isinstance(value, (Tensor, NDArray)):
        return value.numpy()
    return np.asarray(value) if isinstance(value, (float, np.ndarray, np.generic)) else value


def difference(got: Any, expected: Any) -> str | None:
    """Say how a result differs from the expected one, at the worst place; None where it does not.

    >>> difference(np.array([1.0, 2.5]), np.array([1.0, 2.0]))
    ' at (1,): got 2.5, expected 2 (1 of 2 elements differ)'
    >>> difference(np.zeros((2, 3)), np.zeros(3))
    ': got shape (2, 3), expected shape (3,)'
    >>> difference((2, 3), (3, 2))
    ': got (2, 3), expected (3, 2)'
    """
    if not isinstance(expected, np.ndarray):
        same = not isinstance(got, np.ndarray) and got == expected
        return None if same else f": got {_short(got)}, expected {_short(expected)}"
    if not isinstance(got, np.ndarray) or got.dtype.kind not in "biuf":
        return f": got {_short(got)}, expected an array of shape {expected.shape}"
    if got.shape != expected.shape:
        return f": got shape {got.shape}, expected shape {expected.shape}"
    wrong = ~np.isclose(got, expected, TOLERANCE.rtol, TOLERANCE.atol, equal_nan=True)
    if not wrong.any():
        return None
    with np.errstate(all="ignore"):
        excess = np.where(wrong, TOLERANCE.excess(got, expected), 0.0)
    place = tuple(int(i) for i in np.unravel_index(excess.argmax(), excess.shape))
    at = f" at {place}" if place else ""
    return f"{at}: got {got[place]:.6g}, expected {expected[place]:.6g} ({wrong.sum()} of {wrong.size} elements differ)"


def _short(value: Any) -> str:
    text = f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def resemblance(got: Any, expected: Any, out_grad: Array | None = None) -> str:
    """Say what a wrong array has in common with the right one: a sign, a factor, an order, a missing sum.

    Args:
        got, expected: the results.
        out_grad: the gradient of the output, where the results are gradients.

    >>> resemblance(np.array([-1.0, 2.0]), np.array([1.0, -2.0]))
    'Every element is wrong: the sign is wrong.'
    >>> resemblance(np.array([5.0, 6.0]), np.array([1.0, -2.0]))
    ''
    """
    if not (isinstance(got, np.ndarray) and isinstance(expected, np.ndarray) and got.size and np.any(expected)):
        return ""
    if got.shape != expected.shape:
        return _unsummed(got, expected) or _cut(got, expected)
    if out_grad is None and not got.any():
        return ""  # of a gradient, zeros tell something
    suspects = {}
    if out_grad is not None and out_grad.shape == got.shape:
        suspects["the chain rule is missing (multiply by out_grad)"] = expected / out_grad
    diagnosis = Diagnosis(got, expected, TOLERANCE, suspects)
    text = diagnosis.suggestion()
    return "" if text == diagnosis.count() else f"{text[:1].upper()}{text[1:]}."


def _same(got: Array, expected: Array) -> bool:
    return difference(got, expected) is None


def _unsummed(got: Array, expected: Array) -> str:
    extra = got.ndim - expected.ndim
    if extra < 0:
        return ""
    kept = tuple(range(extra)), tuple(i + extra for i, n in enumerate(expected.shape) if n == 1)
    summed = got.sum(kept[0]).sum(tuple(i - extra for i in kept[1]), keepdims=True)
    if not _same(summed, expected):
        return ""
    return "The sum over the broadcast axes is missing: add up the gradient along every axis that the input had not."


def _cut(got: Array, expected: Array) -> str:
    if got.ndim != expected.ndim or any(n > m for n, m in zip(got.shape, expected.shape)):
        return ""
    if not _same(got, expected[tuple(slice(n) for n in got.shape)]):
        return ""
    lost = [f"{m - n} of {m} along axis {i}" for i, (n, m) in enumerate(zip(got.shape, expected.shape)) if n < m]
    return f"What is there is right, but the last entries are missing: {', '.join(lost)}."
