"""What the command lines of the benchmarks share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import Protocol, TypeVar


class Named(Protocol):
    """A case."""

    @property
    def name(self) -> str:
        """What `--only` looks for a word in."""


N = TypeVar("N", bound=Named)


def positive(text: str) -> int:
    """Parse a whole number of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return value


positive.__name__ = "positive int"  # what argparse calls it in its errors


def choose(cases: Iterable[N], word: str) -> list[N]:
    """Give the cases with this word in their names; end the program where there are none, before results are lost."""
    cases = list(cases)
    chosen = [case for case in cases if word in case.name]
    if not chosen:
        sys.exit(f"--only: no name has {word!r} in it; there are {', '.join([case.name for case in cases])}")
    return chosen
