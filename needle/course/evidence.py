"""How results are compared, and what a wrong one has in common with the right one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from needle.autograd import NDArray, Tensor

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

RTOL, ATOL = 1e-5, 1e-6
"""A result is right where |got - expected| <= ATOL + RTOL * |expected|; float32 and central differences stay within."""


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
    wrong = ~np.isclose(got, expected, RTOL, ATOL, equal_nan=True)
    if not wrong.any():
        return None
    with np.errstate(all="ignore"):
        excess = np.abs(got - expected) / (ATOL + RTOL * np.abs(expected))
    excess = np.where(wrong, np.nan_to_num(excess, nan=np.inf), 0.0)
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
    'Every element has the wrong sign.'
    >>> resemblance(np.array([5.0, 6.0]), np.array([1.0, -2.0]))
    ''
    """
    if not (isinstance(got, np.ndarray) and isinstance(expected, np.ndarray) and got.size and np.any(expected)):
        return ""
    with np.errstate(all="ignore"):
        return next((hint for hint in _resemblances(got, expected, out_grad) if hint), "")


def _resemblances(got: Array, expected: Array, out_grad: Array | None) -> Iterator[str]:
    yield _finite(got)
    if got.shape != expected.shape:
        yield _unsummed(got, expected)
        yield _cut(got, expected)
    elif got.size > 1:
        yield _without_chain_rule(got, expected, out_grad)
        yield _scaled(got, expected)
    yield _rearranged(got, expected)


def _same(got: Array, expected: Array) -> bool:
    return difference(got, expected) is None


def _finite(got: Array) -> str:
    return "" if np.isfinite(got).all() else "There are inf or nan: look for an overflow, a log or a division by 0."


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


def _without_chain_rule(got: Array, expected: Array, out_grad: Array | None) -> str:
    if out_grad is None or out_grad.shape != got.shape or not _same(got * out_grad, expected):
        return ""
    return "The chain rule is missing: multiply by out_grad, the gradient of the output."


def _scaled(got: Array, expected: Array) -> str:
    ratio = float(np.sum(got * expected) / np.sum(expected * expected))
    if math.isclose(ratio, 0, abs_tol=ATOL) or not _same(got, ratio * expected):
        return ""
    if math.isclose(ratio, -1, rel_tol=RTOL):
        return "Every element has the wrong sign."
    return f"Every element is {ratio:.4g} times the right one."


def _rearranged(got: Array, expected: Array) -> str:
    forms = [("transposed", expected.T)]
    if expected.ndim > 1:
        forms.append(("with its last two axes swapped", np.swapaxes(expected, -1, -2)))
    forms += [(f"in reverse along axis {axis}", np.flip(expected, axis)) for axis in range(expected.ndim)]
    return next((f"This is the right array {name}." for name, form in forms if _same(got, form)), "")
