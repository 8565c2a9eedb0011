"""How close is close: every tolerance of the tests, by dtype, and the comparison that uses them."""

from typing import Any

import numpy as np

TOLERANCE: dict[str, dict[str, float]] = {
    "float32": {"rtol": 1e-5, "atol": 1e-6},
    "float64": {"rtol": 1e-11, "atol": 1e-12},
}
"""A value or a gradient against an oracle of the same formula."""

GRADIENT_TOLERANCE: dict[str, dict[str, float]] = {
    "float32": {"rtol": 1e-2, "atol": 1e-2},
    "float64": {"rtol": 1e-6, "atol": 1e-7},
}
"""A gradient against central differences; the oracle's error dominates."""

GIVEN_DIGITS: dict[str, float] = {"rtol": 0.0, "atol": 6e-8}
"""A float64 value against a right answer printed with seven decimals."""


def assert_close(actual: Any, expected: Any, **tolerance: float) -> None:
    """Compare shape and values, NaN equal to NaN; the tolerance is that of `actual`'s dtype unless given."""
    got, wanted = np.asarray(actual), np.asarray(expected)
    assert got.shape == wanted.shape, f"shape {got.shape}, expected {wanted.shape}"
    np.testing.assert_allclose(got, wanted, **(tolerance or TOLERANCE.get(str(got.dtype), {"rtol": 0.0})))
