"""Kinks, ties and randomness: where differences say nothing about a gradient."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from needle.errors import GradientError
from needle.testing.differences import Arrays, WeightedSum

SHOWN = 3  # how many elements a message lists


def check_smooth(f: WeightedSum, order: int) -> None:
    """Raise GradientError where f has a kink or a tie at x, or is rounded to float32, or changes from call to call."""
    direction = f.direction()
    here = f.along(direction, 0)
    if f.along(direction, 0) != here and not np.isnan(here):
        raise GradientError("check_gradients: the function gives another value at each call; fix its random state")
    if np.isnan(f.slope(direction)):
        raise GradientError(
            f"check_gradients: the function is not finite a step of {f.step:g} away from these inputs (order {order}); "
            "move them away from the edge of its domain, or take a smaller step"
        )
    gap = _gap(f, direction, here)
    if gap:
        differ = f"the slopes to both sides differ by {gap:.3g}"
        rounding = f.rounding()
        if rounding:
            raise GradientError(f"check_gradients: no slope to compare with (order {order}): {differ}; {rounding}")
        raise GradientError(
            f"check_gradients: not differentiable at these inputs (order {order}): {differ}; "
            f"there is a kink or a tie{_places(f, here)}; move the inputs apart, or away from it"
        )


def _gap(f: WeightedSum, direction: Arrays, here: float) -> float:
    """Give by how much the slopes to both sides differ, 0 where f is smooth.

    At a kink they differ by as much for a smaller step; elsewhere by proportionally less.
    """
    gaps = []
    for distance in (100 * f.step, 10 * f.step):
        ahead = (f.along(direction, distance) - here) / distance
        behind = (here - f.along(direction, -distance)) / distance
        gaps.append((abs(ahead - behind), 1e-3 * (abs(ahead) + abs(behind)) + 1e-6))
    (wide, _), (narrow, noise) = gaps
    return narrow if narrow > noise and narrow > wide / 2 else 0.0


def _places(f: WeightedSum, here: float) -> str:
    """Say which elements are at a kink, and which of them tie: move together, they meet none."""
    found = []
    for position, x in enumerate(f.at):
        kinks = [place for place in np.ndindex(x.shape) if _gap(f, f.element(position, place), here)]
        while kinks:
            value = x[kinks[0]]
            near = [place for place in kinks if abs(x[place] - value) <= 100 * f.step * f.scales[position]]
            if len(near) > 1 and not _gap(f, f.element(position, *near), here):
                tied = _shortened([str(place) for place in near], " and ")
                found.append(f"input {f.checked[position]} ties at {tied}, near {value:.7g}")
            else:
                near = near[:1]
                found.append(f"input {f.checked[position]} at {near[0]} is {value:.7g}")
            kinks = [place for place in kinks if place not in near]
    return f" ({_shortened(found, '; ')})" if found else ""


def _shortened(texts: Sequence[str], separator: str) -> str:
    more = [f"{len(texts) - SHOWN} more"] if len(texts) > SHOWN else []
    return separator.join([*texts[:SHOWN], *more])
