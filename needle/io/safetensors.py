"""The safetensors format, which PyTorch, JAX and others read too: a header in JSON, then the arrays' bytes."""

from __future__ import annotations

import json
import zlib
from typing import IO, Any

import numpy as np

from needle.errors import DTypeError
from needle.io.npz import Arrays
from needle.io.optional import require

# The header's one entry beside the arrays (with several, the library's order is random): JSON of the checksum and of
# the state, with null in the place of each array.
KEY, BEGIN = "needle", '{"checksum": '


def write(file: IO[bytes], tree: dict[str, Any], arrays: Arrays) -> None:
    """Write arrays by name, and the state around them; DTypeError for dtypes that the format does not have."""
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf" or array.itemsize > 8:
            raise DTypeError(f"save: '{name}' is of dtype {array.dtype}, which safetensors does not hold; use npz")
    packed = {name: np.array(array, order="C") for name, array in arrays.items()}
    entry = json.dumps({"checksum": _checksum(tree, packed), "state": tree})
    file.write(require("safetensors.numpy", extra="apps").save(packed, {KEY: entry}))


def read(file: IO[bytes]) -> tuple[dict[str, Any], Arrays]:
    """Read what `write` wrote, or arrays that another library saved; raises nearly anything where it is damaged."""
    library = require("safetensors.numpy", extra="apps")
    content = file.read()
    try:
        arrays = {name: array.copy() for name, array in library.load(content).items()}
    except KeyError as error:
        raise ValueError(f"its dtype {error.args[0]} is none of NumPy's") from error
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    entries = header.get("__metadata__", {})
    entry = entries.get(KEY) or next((text for text in entries.values() if text.startswith(BEGIN)), None)
    if entry is None:
        return dict(arrays), {}
    stored = json.loads(entry)
    if stored["checksum"] != _checksum(stored["state"], arrays):
        raise ValueError("its checksum does not fit")
    return stored["state"], arrays


def _checksum(tree: dict[str, Any], arrays: Arrays) -> int:
    """Give the CRC-32 of the state, and of the names, dtypes, shapes and bytes of the arrays."""
    checksum = zlib.crc32(json.dumps(tree).encode())
    for name, array in sorted(arrays.items()):
        checksum = zlib.crc32(f"{name} {array.dtype.name} {array.shape}".encode(), checksum)
        checksum = zlib.crc32(array.tobytes(), checksum)
    return checksum
