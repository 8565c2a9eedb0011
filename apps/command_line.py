"""What the programs' command lines share."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

import needle as ndl

DEVICES = {device.name: device for device in ndl.all_devices()}
# What wrong options and files come to.
USER_ERRORS = (
    MemoryError, OSError, ndl.DeviceError, ndl.FileFormatError, ndl.MissingExtraError, ndl.OptionError, ndl.ShapeError
)  # fmt: skip


def positive(kind: type[Any]) -> Callable[[str], Any]:
    """Make a parser of numbers above zero."""

    def parse(text: str) -> Any:
        value = kind(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"{text} is not above 0")
        if value == math.inf:
            raise argparse.ArgumentTypeError(f"{text} is not finite")
        return value

    parse.__name__ = f"positive {kind.__name__}"  # what argparse calls it in its errors
    return parse


def seed(text: str) -> int:
    """Parse what NumPy's generator takes as a seed."""
    value = int(text)
    if not 0 <= value < 2**32:
        raise argparse.ArgumentTypeError(f"{text} is not in 0..{2**32 - 1}")
    return value


def nearest(word: str, words: Iterable[str]) -> str:
    """Ask whether the word nearest to one that is unknown was meant; give nothing where none is near."""
    found = get_close_matches(word, list(words), n=1)
    return f" (did you mean {found[0]}?)" if found else ""
