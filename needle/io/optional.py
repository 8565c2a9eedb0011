"""The one place that asks for libraries needle can do without."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from needle.errors import MissingExtraError


def require(name: str, extra: str) -> ModuleType:
    """Import an optional library, or raise MissingExtraError saying which extra of needle brings it.

    >>> require("no_such_library", extra="apps")
    Traceback (most recent call last):
    needle.errors.MissingExtraError: no_such_library is not installed; pip install "needle[apps]" brings it
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise  # the library is there, but lacks one of its own
        raise MissingExtraError(f'{name} is not installed; pip install "needle[{extra}]" brings it') from error
