"""The IDX format of MNIST and its successors: a big-endian header, then unsigned bytes; plain or gzipped."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from needle.errors import FileFormatError

UNSIGNED_BYTE = 0x08


def read_idx(path: str | Path, ndim: int) -> npt.NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes with `ndim` axes.

    The format: two zero bytes, the type code, the number of axes, each axis' length as a 32-bit integer, the data.
    Raises FileFormatError where the file is no such file, is truncated, or is longer than its header says.
    """
    content = _content(Path(path))
    magic = bytes([0, 0, UNSIGNED_BYTE, ndim])
    if content[:4] != magic:
        found = content[:4].hex() or "nothing"
        raise FileFormatError(f"{path}: no IDX file of {ndim}-D bytes: it begins with {found}, not {magic.hex()}")
    header = 4 + 4 * ndim
    if len(content) < header:
        raise FileFormatError(f"{path}: truncated inside its header, after {len(content)} of {header} bytes")
    shape = struct.unpack(f">{ndim}I", content[4:header])
    if len(content) - header != math.prod(shape):
        fault = "truncated" if len(content) - header < math.prod(shape) else "too long"
        raise FileFormatError(f"{path}: {fault}: {len(content) - header} bytes of data for the shape {shape}")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, gzip.BadGzipFile, zlib.error, struct.error) as error:
        raise FileFormatError(f"{path}: truncated or corrupt gzip data ({error})") from error
