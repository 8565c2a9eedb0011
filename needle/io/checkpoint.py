"""Checkpoints: nested state in one file, written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from needle.errors import DTypeError, FileFormatError, MissingExtraError, OptionError, kind_of
from needle.io import npz, safetensors
from needle.io.files import replacing
from needle.io.npz import Arrays

FORMATS = {".npz": npz, ".safetensors": safetensors}


def save(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Write nested dicts and lists of arrays, numbers, strings, booleans and None; the format goes by the suffix.

    `.npz` files are NumPy's, `.safetensors` files those of the library of that name (of the extra "apps"). In both,
    arrays (Tensors and NDArrays too) are named by their path, such as `model/conv.weight`, so `numpy.load` and
    `safetensors` read them as well; tuples come back as lists. The file is written beside `path`, synced, and renamed:
    an interruption or a full disk leaves what was there before.

    Raises:
        OptionError: another suffix.
        DTypeError: what such a file cannot hold, or what is no dict.
        MissingExtraError: the library is not there.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(f"{folder}/a.npz", {"model": {"weight": np.ones(2)}, "epoch": 3})
    ...     load(f"{folder}/a.npz")
    {'model': {'weight': array([1., 1.])}, 'epoch': 3}
    """
    if not isinstance(state, Mapping):
        raise DTypeError(f"save: expected a dict, got {kind_of(state)}; {_remedy(state)}")
    write = _format("save", path).write
    arrays: Arrays = {}
    tree = _take_arrays(state, "", arrays)
    with replacing(path) as file:
        write(file, tree, arrays)


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `save` wrote, or the arrays by name of a safetensors file of another library's.

    Nothing in the file is unpickled or run. A changed byte is noticed in files that `save` wrote.

    Raises:
        OptionError: a suffix other than .npz and .safetensors.
        FileFormatError: the file, which is named, is foreign, truncated or corrupt.
        MissingExtraError: the library is not there.
    """
    read = _format("load", path).read
    with open(path, "rb") as file:
        try:
            return _put_arrays(*read(file))
        except MissingExtraError:
            raise
        except Exception as error:  # zipfile, NumPy and JSON raise nearly anything on a corrupt file
            reason = str(error).partition("\n")[0] or type(error).__name__
            name = f"{os.fspath(path)}: no whole {Path(path).suffix[1:]} checkpoint"
            raise FileFormatError(f"{name}: {reason}") from error


def _format(op: str, path: str | os.PathLike[str]) -> ModuleType:
    """Give the module that writes and reads files of this suffix."""
    suffix = Path(path).suffix
    if suffix not in FORMATS:
        raise OptionError(f"{op}: {os.fspath(path)} must end in {' or '.join(FORMATS)}, which says the format")
    return FORMATS[suffix]


def _take_arrays(node: Any, path: str, arrays: Arrays) -> Any:
    """Copy nested state with None in the place of each array, which goes into `arrays` by its path."""
    if isinstance(node, Mapping):
        for key in node:
            if not isinstance(key, str) or not key.isprintable() or "/" in key or not key:
                raise DTypeError(f"save: key {key!r} of '{path}' is no printable string, is empty, or holds a '/'")
        return {key: _take_arrays(value, _join(path, key), arrays) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [_take_arrays(value, _join(path, str(i)), arrays) for i, value in enumerate(node)]
    if isinstance(node, str | int | float | None):
        return node
    if not hasattr(node, "__array__"):
        raise DTypeError(f"save: '{path}' is {kind_of(node)}; {_remedy(node)}")
    arrays[path] = np.asarray(node)
    if arrays[path].dtype.hasobject:
        raise DTypeError(f"save: '{path}' is an array of Python objects; use one of numbers or strings")
    return None


def _remedy(found: Any) -> str:
    """Say what to save in the place of what no file can hold."""
    return "give its state_dict()" if hasattr(found, "state_dict") else "use arrays, numbers, strings, dicts and lists"


def _join(path: str, key: str) -> str:
    return f"{path}/{key}" if path else key


def _put_arrays(tree: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    """Put arrays back where `_take_arrays` found them."""
    for path, array in arrays.items():
        node: Any = tree
        *parents, last = path.split("/")
        for key in parents:
            node = node[int(key) if isinstance(node, list) else key]
        node[int(last) if isinstance(node, list) else last] = array
    return tree
