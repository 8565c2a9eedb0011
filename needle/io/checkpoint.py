"""Checkpoints: nested state in one npz file, written whole or not at all."""

from __future__ import annotations

import json
import os
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from needle.errors import DTypeError, FileFormatError

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

STATE = "state.json"  # the member that holds the names of the arrays, and the state with null in the place of each


def save(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Write nested dicts and lists of arrays, numbers, strings, booleans and None as an npz file.

    Arrays (Tensors and NDArrays too) are named by their path, such as `model/conv.weight`, so `numpy.load` reads them
    as well; tuples come back as lists. The file is written beside `path`, synced, and renamed: an interruption or a
    full disk leaves what was there before. Raises DTypeError for what such a file cannot hold, or what is no dict.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(f"{folder}/a.npz", {"model": {"weight": np.ones(2)}, "epoch": 3})
    ...     load(f"{folder}/a.npz")
    {'model': {'weight': array([1., 1.])}, 'epoch': 3}
    """
    if not isinstance(state, Mapping):
        raise DTypeError(f"save: expected a dict, got a {type(state).__name__}")
    arrays: Arrays = {}
    tree = _take_arrays(state, "", arrays)
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        # A ZipInfo of our own keeps the time of day out of the bytes.
        archive.writestr(zipfile.ZipInfo(STATE), json.dumps({"arrays": list(arrays), "state": tree}))
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `save` wrote; nothing in it is unpickled or run.

    Raises FileFormatError, naming the file, where it is foreign, truncated or corrupt.
    """
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                if STATE not in archive.namelist():
                    raise ValueError(f"it has no {STATE}")
                stored = json.loads(archive.read(STATE))
                if archive.namelist() != [STATE, *(f"{name}.npy" for name in stored["arrays"])]:
                    raise ValueError("its arrays are not those that were saved")  # the archive's directory is damaged
                arrays = {name: _read_array(archive, name) for name in stored["arrays"]}
            return _put_arrays(stored["state"], arrays)
        except Exception as error:  # zipfile and NumPy raise nearly anything on a corrupt file
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise FileFormatError(f"{os.fspath(path)}: no whole npz checkpoint: {reason}") from error


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of `path` once it is written whole and on the disk, and else leaves no trace."""
    target = Path(path).resolve()  # a link stays one
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


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
        raise DTypeError(f"save: '{path}' is a {type(node).__name__}; use arrays, numbers, strings, dicts and lists")
    arrays[path] = np.asarray(node)
    if arrays[path].dtype.hasobject:
        raise DTypeError(f"save: '{path}' is an array of Python objects; use one of numbers or strings")
    return None


def _join(path: str, key: str) -> str:
    return f"{path}/{key}" if path else key


def _read_array(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    # Not numpy.load, which takes the names "a" and "a.npy" for the same.
    with archive.open(f"{name}.npy") as member:
        array: npt.NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        return array


def _put_arrays(tree: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    """Put arrays back where `_take_arrays` found them."""
    for path, array in arrays.items():
        node: Any = tree
        *parents, last = path.split("/")
        for key in parents:
            node = node[int(key) if isinstance(node, list) else key]
        node[int(last) if isinstance(node, list) else last] = array
    return tree
