"""What a check is: a solution's results beside the right ones, and the known mistakes that would explain others."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from needle.course.evidence import Array, difference, plain, resemblance

RAISED_HINTS: Mapping[type[BaseException], str] = {
    NotImplementedError: "This part is not written yet.",
    RecursionError: "A function calls itself without end: give the recursion a case in which it stops.",
    MemoryError: "It asks for more memory than it may have: look for a shape or a loop that is far too large.",
    SystemExit: "A solution must not end the program: leave out exit() and quit().",
}

MISSING = object()


class Finding(Exception):
    """What is wrong with a solution, in words and numbers; the hint, where there is one, says why."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.hint = message, hint


@dataclass(frozen=True)
class Mistake:
    """A known mistake: the result it leads to, and what to tell the student whose result is just that.

    Args:
        part: the name of the result, as in `Check.expected`.
        wrong: the wrong result, or a function that gives it from a namespace with the right one, `expected`, and the
            check's `facts`.
        hint: what to look at, in a sentence or two.
    """

    part: str
    wrong: Any
    hint: str


@dataclass(frozen=True)
class Check:
    """One line of a report: a few results of the solution, held against the right ones, one by one.

    Args:
        name: names the op, layer or function, and the situation.
        run: gives the results of a solution, a module, in the order of `expected`; best a generator, so that each is
            computed only when those before it are right.
        expected: gives the right results, by the names that the report uses. Arrays (and Tensors, and floats) are
            compared within a tolerance, with their shapes; anything else by ==.
        mistakes: are tried in this order.
        facts: what the mistakes compute from, such as the inputs.
        setting: the inputs in words, for the report.
        points: what the check is worth.

    >>> def double(solution):
    ...     yield solution.double(np.array([1.0, 3.0]))
    >>> expected = {"value": np.array([2.0, 6.0])}
    >>> squared = Mistake("value", lambda case: case.x**2, "x is squared instead of doubled.")
    >>> check = Check("double", double, lambda: expected, [squared], {"x": np.array([1.0, 3.0])})
    >>> check.verify(SimpleNamespace(double=lambda x: x + x))
    >>> try:
    ...     check.verify(SimpleNamespace(double=lambda x: x * x))
    ... except Finding as finding:
    ...     print(finding.message, finding.hint, sep="; ")
    value at (1,): got 9, expected 6 (2 of 2 elements differ); x is squared instead of doubled.
    """

    name: str
    run: Callable[[Any], Iterable[Any]]
    expected: Callable[[], Mapping[str, Any]]
    mistakes: Sequence[Mistake] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    setting: str = ""
    points: int = 1

    def verify(self, solution: ModuleType | Any) -> None:
        """Hold the solution against the right results, one after the other.

        NumPy's global generator is seeded first, so that a check's random draws are known.

        Raises:
            Finding: the first that is not right.
            LookupError: `run` gives too few results. This, and any other error, is the check's own fault.
        """
        np.random.seed(0)
        expected = self.expected()
        np.random.seed(0)
        results = None
        for part, right in expected.items():
            try:
                results = iter(self.run(solution)) if results is None else results
                got = next(results, MISSING)
            except Finding as finding:
                raise Finding(self._located(f"{part}: {finding.message}"), finding.hint) from finding
            except BaseException as error:  # a solution may raise anything
                raise Finding(self._located(f"{part}: {raised(error, solution)}"), _hint_for(error)) from error
            if got is MISSING:
                raise LookupError(f"{self.name}: run gives no {part}")
            self._compare(part, plain(got), plain(right))

    def _compare(self, part: str, got: Any, right: Any) -> None:
        text = difference(got, right)
        if text:
            raise Finding(self._located(f"{part}{text}"), self._hint(part, got, right))

    def _hint(self, part: str, got: Any, right: Any) -> str:
        for mistake in self.mistakes:
            if mistake.part == part and difference(got, self.wrong(mistake, right)) is None:
                return mistake.hint
        return resemblance(got, right, self.facts.get("out_grad") if part.startswith("gradient") else None)

    def wrong(self, mistake: Mistake, right: Any) -> Any:
        """Give the result that a mistake leads to."""
        if not callable(mistake.wrong):
            return plain(mistake.wrong)
        with np.errstate(all="ignore"):
            return plain(mistake.wrong(SimpleNamespace(expected=right, **self.facts)))

    def _located(self, message: str) -> str:
        return f"{message} [{self.setting}]" if self.setting else message


def raised(error: BaseException, solution: Any) -> str:
    """Say what was raised, and where in the solution."""
    kind = type(error).__name__
    try:
        text = str(error)
    except Exception as unprintable:  # an exception class of the solution's
        text = f"an error whose text raises {type(unprintable).__name__}"
    if isinstance(error, AttributeError) and error.obj is solution:
        return f"the file defines no {error.name}"
    file = getattr(solution, "__file__", None)
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    place = f" (line {own[-1].lineno}, in {own[-1].name})" if own else ""
    return f"raised {kind}{': ' if text else ''}{text}{place}"


def _hint_for(error: BaseException) -> str:
    return next((hint for kind, hint in RAISED_HINTS.items() if isinstance(error, kind)), "")


def normal(*shape: int, seed: int = 0) -> Array:
    """Draw a float64 array from the normal distribution, the same for the same seed.

    >>> normal(2, 3).shape
    (2, 3)
    """
    return np.random.default_rng(seed).standard_normal(shape)
