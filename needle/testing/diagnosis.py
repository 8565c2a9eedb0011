"""What a wrong gradient looks like: the faults that people make, recognised by what they leave behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations, permutations

import numpy as np

from needle.testing.differences import Arrays, Ndarray, Tolerance

MOST_AXES = 5  # of more, not every permutation and choice is tried


class Diagnosis:
    """Compares a gradient, `got`, with differences, `expected`.

    Args:
        got, expected: arrays of one shape.
        tolerance: what counts as equal.
        suspects: what the gradient would be, by central differences, had some fault been made; by the fault, in words.
    """

    def __init__(
        self,
        got: Ndarray,
        expected: Ndarray,
        tolerance: Tolerance,
        suspects: Mapping[str, Ndarray],
    ) -> None:
        self.got, self.expected, self.equal, self.suspects = got, expected, tolerance.equal, suspects
        self.wrong = tolerance.excess(got, expected) > 1

    def suggestion(self) -> str:
        """Say in words where the gradient is wrong, and what that suggests."""
        got, expected = self.got[self.wrong], self.expected[self.wrong]
        what = self._not_finite(got) or self._factor(got, expected) or self._fault()
        moved = "" if what else self._moved()
        where = self.count() if moved else self._border() or self._block() or self.count()
        return ": ".join([text for text in (where, what or moved or self._offset()) if text])

    def count(self) -> str:
        """Say how many elements are wrong, which is all of `suggestion` where they look like nothing known."""
        count, size = int(self.wrong.sum()), self.wrong.size
        if count == size:
            return "every element is wrong" if size > 1 else ""
        return f"{count} of {size} elements {'is' if count == 1 else 'are'} wrong"

    def _border(self) -> str:
        long = [axis for axis, length in enumerate(self.wrong.shape) if length > 2]
        axes = [axis for axis in long if self._only_at_the_ends([axis])][:1] or long
        if self.wrong.sum() < 2 or not axes or not self._only_at_the_ends(axes):
            return ""
        return (
            f"only elements at the border of {_axes(axes)} are wrong, {self.wrong.sum()} of {self.wrong.size}; "
            "the inner ones are right (look at padding, and at the sizes of the last windows)"
        )

    def _block(self) -> str:
        box = self._box()
        if not 1 < self.wrong.sum() == self.wrong[box].size < self.wrong.size:
            return ""
        return f"only the block [{', '.join([f'{part.start}:{part.stop}' for part in box])}] is wrong"

    def _only_at_the_ends(self, axes: Sequence[int]) -> bool:
        inner = tuple([slice(1, -1) if axis in axes else slice(None) for axis in range(self.wrong.ndim)])
        return not self.wrong[inner].any()

    def _box(self) -> tuple[slice, ...]:
        """Give the smallest block that holds all wrong elements."""
        return tuple([slice(int(places.min()), int(places.max()) + 1) for places in self.wrong.nonzero()])

    def _not_finite(self, got: Ndarray) -> str:
        if np.isfinite(got).all():
            return ""
        return "not finite (a division by zero, or a log, root or power at the edge of its domain)"

    def _factor(self, got: Ndarray, expected: Ndarray) -> str:
        """Recognise zeros, a wrong sign and a wrong factor at all wrong elements."""
        if self.equal(got, np.zeros_like(got)):
            return "zero (the path is cut by detach, .data or numpy(), or the gradient returned None or zeros)"
        if self.equal(got, -expected):
            return "the sign is wrong"
        if not expected.any():
            return "expected zero (a mask or a factor is missing)"
        factor = float((got * expected).sum() / (expected * expected).sum())
        whole = self._whole(factor)
        if not self.equal(got, factor * expected) or (got.size == 1 and not whole):
            return ""
        sign = ", with the wrong sign" if factor < 0 else ""
        if not whole:
            return f"{abs(factor):.6g} times what is expected{sign}"
        counted = self._counts().get(whole)
        advice = f"{whole} is {counted}: a sum for a mean?" if counted else "a factor is missing, or stands twice"
        return f"{whole if abs(factor) > 1 else f'1/{whole}'} times what is expected{sign} ({advice})"

    def _whole(self, factor: float) -> int:
        """Give the n of which `factor` is n or 1/n, up to the sign; 0 where there is none that faults leave."""
        likely = [n for n in (2, 3, 4, *self._counts()) if np.isclose([n, 1 / n], abs(factor), rtol=1e-4).any()]
        return likely[0] if likely else 0

    def _counts(self) -> dict[int, str]:
        """Give the numbers that a confusion of sum and mean leaves as a factor, and what they count."""
        counts = {n: f"the length of axis {axis}" for axis, n in enumerate(self.got.shape) if n > 1}
        return {self.got.size: "the number of elements"} | counts if self.got.size > 1 else {}

    def _fault(self) -> str:
        return next((text for text, wrong in self.suspects.items() if self.equal(self.got, wrong)), "")

    def _moved(self) -> str:
        """Recognise the right numbers in wrong places, in the block that holds the wrong ones."""
        box = self._box()
        got, expected = self.got[box], self.expected[box]
        for text, candidate in _moves(expected):
            if self.equal(got, candidate):
                return text
        for axis, n in enumerate(got.shape):
            front, back = [range(n - 1), range(1, n)]
            for a, b in ((front, back), (back, front)) if n > 2 else ():
                if self.equal(got.take(a, axis), expected.take(b, axis)):
                    return f"shifted by one along axis {axis}"
        return "the right numbers in wrong places" if self.equal(np.sort(got, None), np.sort(expected, None)) else ""

    def _offset(self) -> str:
        """Recognise a term that is the same for all elements, or for all along an axis."""
        error = self.got - self.expected
        if error.size > 1 and self.equal(error, np.broadcast_to(error.mean(), error.shape)):
            return f"off by the same number everywhere, {error.mean():.4g} (a term that sums over all is missing)"
        for axis, n in enumerate(error.shape):
            if n > 1 and self.equal(error, np.broadcast_to(error.mean(axis, keepdims=True), error.shape)):
                return f"off by the same number along axis {axis} (a term that sums over that axis is missing)"
        return ""


def _axes(axes: Sequence[int]) -> str:
    return f"axis {axes[0]}" if len(axes) == 1 else f"axes {tuple(axes)}"


def _moves(a: Ndarray) -> Iterator[tuple[str, Ndarray]]:
    """Give what `a` becomes, in its shape, by the usual confusions, and their names."""
    every = tuple(range(a.ndim))
    for order in permutations(every) if a.ndim <= MOST_AXES else ():
        if order != every:
            name = "transposed" if a.ndim == 2 else f"transposed, axes {order}"
            yield name, a.transpose(order).reshape(a.shape)
            yield f"{name} and reshaped", a.reshape([a.shape[axis] for axis in order]).transpose(np.argsort(order))
    for axes in _subsets(every):
        yield f"flipped along {_axes(axes)}", np.flip(a, axes)


def faults(weights: Arrays) -> dict[str, Arrays]:
    """Give other weights of the outputs that are as if some fault had been made; by the fault, in words."""
    found: dict[str, Arrays] = {
        "it does not depend on the gradient that comes in (multiply by out_grad)": [np.ones_like(w) for w in weights]
    }
    for output, w in enumerate(weights):
        which = f" of output {output}" if len(weights) > 1 else ""
        long = [axis for axis, n in enumerate(w.shape) if n > 1][:MOST_AXES]
        for axes in _subsets(long):
            for end, name in ((0, "the first"), (-1, "the last")):
                part = [np.zeros_like(other) for other in weights]
                place = tuple([end if axis in axes else slice(None) for axis in range(w.ndim)])
                part[output][place] = w[place]
                text = f"only {name} along {_axes(axes)}{which} of the gradient that comes in counts (a sum is missing)"
                found[text] = part
        if which:
            without = [np.zeros_like(other) if i == output else other for i, other in enumerate(weights)]
            found[f"what comes in by output {output} is left out"] = without
    return found


def _subsets(axes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Give every choice of one or more axes, small ones first."""
    return chain.from_iterable([combinations(axes, count) for count in range(1, len(axes) + 1)])
