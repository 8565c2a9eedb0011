"""One order of a gradient check: along a random direction, and where that fails, element by element."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from needle.testing.diagnosis import Diagnosis, faults
from needle.testing.differences import Arrays, Ndarray, Tolerance, WeightedSum
from needle.testing.report import Finding
from needle.testing.smoothness import check_smooth


def find_wrong(f: WeightedSum, name: str, order: int, tolerance: Tolerance) -> Finding | None:
    """Give what is wrong with the gradient of f; None where it is right, along the direction or at each element."""
    check_smooth(f, order)
    direction = f.direction()
    slope = sum([(g * v).sum() for g, v in zip(f.gradient_arrays(f.weights), direction)])
    if tolerance.equal(np.asarray(slope), np.asarray(f.slope(direction))):
        return None
    return _worst_element(f, name, order, tolerance)


def _worst_element(f: WeightedSum, name: str, order: int, tolerance: Tolerance) -> Finding | None:
    """Compare all elements, for the plain sum of the outputs where that shows the fault, else for random weights."""
    suspects = faults(f.weights)
    weightings: list[Arrays] = [[np.ones_like(w) for w in f.weights], f.weights, *suspects.values()]
    expected = [f.differences(position, weightings) for position in range(len(f.at))]
    for choice, weights in enumerate(weightings[:2]):
        got = f.gradient_arrays(weights)
        excesses = [tolerance.excess(g, e[choice]) for g, e in zip(got, expected)]
        worst = max(range(len(excesses)), key=lambda position: excesses[position].max(initial=0))
        excess = excesses[worst]
        if excess.max(initial=0) > 1:
            index = tuple([int(i) for i in np.unravel_index(excess.argmax(), excess.shape)])
            return Finding(
                name,
                order,
                f.checked[worst],
                index,
                float(got[worst][index]),
                float(expected[worst][choice][index]),
                _suggestion(f, worst, expected[worst][1:], list(suspects), tolerance),
            )
    return None


def _suggestion(
    f: WeightedSum, position: int, expected: Sequence[Ndarray], suspects: Sequence[str], tolerance: Tolerance
) -> str:
    """Say what the gradient of one input looks like, for random weights, which tell most faults apart."""
    right, *wrong = expected
    got = f.gradient_arrays(f.weights)[position]
    suggestion = Diagnosis(got, right, tolerance, dict(zip(suspects, wrong))).suggestion()
    return "; ".join([text for text in (suggestion, f.rounding()) if text])
