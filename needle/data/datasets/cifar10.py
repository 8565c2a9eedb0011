"""CIFAR-10, in its Python and its binary version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from needle.data.dataset import ImageDataset, Transforms, flag
from needle.data.datasets import plain_pickle
from needle.errors import FileFormatError, kind_of

PIXELS = 3 * 32 * 32
TRAIN_FILES = [f"data_batch_{i}" for i in range(1, 6)]
TEST_FILES = ["test_batch"]


class CIFAR10Dataset(ImageDataset):
    """The images of a CIFAR-10 folder: items are (3,32,32) float32 in 0..1 and a label; transforms see (H,W,C).

    `X` (n,3,32,32) and `y` (n,) are the arrays. `base_folder` is `cifar-10-batches-py`, whose pickles may hold nothing
    but arrays, lists, dicts, bytes and strings, or `cifar-10-batches-bin`. `p` is the course's and has no effect: flips
    are a matter of `transforms`. Raises FileFormatError, naming the file and its fault.
    """

    def __init__(
        self, base_folder: str | Path, train: bool, p: float = 0.5, transforms: Transforms | None = None
    ) -> None:
        names = TRAIN_FILES if flag("CIFAR10Dataset", "train", train) else TEST_FILES
        batches = [_read_batch(Path(base_folder) / name) for name in names]
        pixels = np.concatenate([pixels for pixels, _ in batches]).reshape(-1, 3, 32, 32)
        images = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1)) / np.float32(255)  # (N,C,H,W) -> (N,H,W,C)
        labels = np.concatenate([labels for _, labels in batches])
        super().__init__(images, labels, transforms, channels_first=True)

    @property
    def X(self) -> npt.NDArray[Any]:
        """The images, (n,3,32,32)."""
        return np.moveaxis(self.images, -1, 1)

    @property
    def y(self) -> npt.NDArray[Any]:
        """The labels, (n,)."""
        return self.labels


def _read_batch(path: Path) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Read one file of the folder: pixels (n, 3072) and labels (n,)."""
    binary = path.with_suffix(".bin")
    path, read = (binary, _read_binary) if binary.exists() else (path, _read_pickle)
    pixels, labels = read(path)
    if labels.size and labels.max() > 9:
        raise FileFormatError(f"{path}: label {labels.max()} is none of CIFAR-10's, 0 to 9")
    return pixels, labels


def _read_binary(path: Path) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    content = np.fromfile(path, np.uint8)
    if content.size == 0 or content.size % (1 + PIXELS):
        raise FileFormatError(f"{path}: {content.size} bytes are no whole number of records of {1 + PIXELS}")
    records = content.reshape(-1, 1 + PIXELS)  # the label, then the pixels
    return records[:, 1:], records[:, 0]


def _read_pickle(path: Path) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    content = path.read_bytes()
    try:
        batch = plain_pickle.loads(content)
    except Exception as error:  # pickle documents that a corrupt file raises nearly anything
        raise FileFormatError(f"{path}: no pickle of plain data: {error or type(error).__name__}") from error
    try:
        entries = {_name(key): value for key, value in batch.items()}
        pixels = entries["data"]
        labels = np.frombuffer(bytes(list(entries["labels"])), np.uint8)  # bytes() takes nothing outside 0 to 255
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path}: no CIFAR-10 batch: no dict with data and labels in bytes") from error
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.shape != (labels.size, PIXELS):
        found = f"{pixels.dtype} {pixels.shape}" if isinstance(pixels, np.ndarray) else f"{kind_of(pixels)}"
        raise FileFormatError(
            f"{path}: no CIFAR-10 batch: data is {found} for labels {labels.shape}, not uint8 (n, {PIXELS}) for (n,)"
        )
    return np.asarray(pixels), labels


def _name(key: str | bytes) -> str:
    return key.decode() if isinstance(key, bytes) else key
