"""What the programs' command lines share."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import needle as ndl

DEVICES = {device.name: device for device in ndl.all_devices() if device.enabled()}
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


def require_checkpoint(path: Path) -> None:
    """Raise OptionError where there is nothing to resume."""
    if not path.exists():
        raise ndl.OptionError(f"there is no checkpoint {path} to resume; leave --resume out to begin a run")


def refuse_change(name: str, before: Any, now: Any) -> None:
    """Raise OptionError for a setting that would not be that of the run which is resumed."""
    option, why = f"--{name.replace('_', '-')}", "; leave it out"
    if name == "epochs":
        why = f": the schedule is laid out over all epochs; leave it out, or begin anew with {option} {now}"
    raise ndl.OptionError(f"{option} was {before} and cannot be {now} with --resume{why}")


def print_device(device: ndl.BackendDevice) -> None:
    """Where a run computes on the NumPy device for want of the native one, print why."""
    missing = ndl.backend_info()["devices"]["cpu"]
    if device == ndl.cpu_numpy() and missing is not True:
        print(f"slower than need be: {missing}")
