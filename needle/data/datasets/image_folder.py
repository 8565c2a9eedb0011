"""Pictures in files: a folder of them, sorted into one folder per class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from needle.data.dataset import ImageDataset, Transforms
from needle.errors import FileFormatError, OptionError
from needle.io.optional import require
from needle.ops.arguments import PairLike, pair

MODES = {1: "L", 3: "RGB"}  # Pillow's names, by the number of channels


class ImageFolder(ImageDataset):
    """The pictures of a folder that holds a folder for each class: items are (C,H,W) float32 in 0..1 and a label.

    `classes` lists the folders' names, sorted; labels count them. All pictures are kept in memory, brought to `size`
    by `read_image`; files whose names begin with a dot are left out.

    Raises:
        FileFormatError: a file that is no picture, or a folder without classes or with an empty one. It is named.
        MissingExtraError: Pillow, which reads the files, is not there.
    """

    def __init__(
        self, folder: str | Path, size: PairLike = 32, channels: int = 3, transforms: Transforms | None = None
    ) -> None:
        folders = sorted(path for path in Path(folder).iterdir() if path.is_dir() and path.name[0] != ".")
        self.classes = [path.name for path in folders]
        files = [sorted(path for path in folder.iterdir() if path.name[0] != ".") for folder in folders]
        empty = next((name for name, paths in zip(self.classes, files) if not paths), None)
        if not folders or empty is not None:
            fault = f"the folder {empty} is empty" if folders else "it holds no folders, one per class"
            raise FileFormatError(f"{folder}: {fault}")
        images = np.stack([read_image(path, size, channels) for paths in files for path in paths])
        super().__init__(images, np.repeat(np.arange(len(files)), list(map(len, files))), transforms, True)


def read_image(path: str | Path, size: PairLike, channels: int = 3) -> npt.NDArray[Any]:
    """Read a picture, PNG, JPEG or whatever else Pillow knows, as (H,W,C) float32 in 0..1.

    It is turned as its camera says, laid on black where it is transparent, made grey or coloured, cut at two sides to
    the proportions of `size` (height, width), and scaled.

    Raises:
        OptionError: channels are neither 1 nor 3.
        FileFormatError: no picture, or a truncated one.
        MissingExtraError: Pillow is not there.

    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("RGB", (40, 30), "red").save(f"{folder}/red.png")
    ...     read_image(f"{folder}/red.png", size=(1, 2)).tolist()
    [[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]]
    """
    height, width = pair("read_image", "size", size, 1)
    if channels not in MODES:
        raise OptionError(f"read_image: channels must be 1 (grey) or 3 (colour), got {channels}")
    pillow, operations = require("PIL.Image", extra="apps"), require("PIL.ImageOps", extra="apps")
    with open(path, "rb") as file:
        try:
            picture = operations.exif_transpose(pillow.open(file)).convert("RGBA")
        except Exception as error:  # Pillow's readers raise nearly anything on a corrupt file
            raise FileFormatError(f"{path}: no whole picture that Pillow can read") from error
    black = pillow.new("RGBA", picture.size, "black")
    flat = pillow.alpha_composite(black, picture).convert(MODES[channels])
    pixels = np.asarray(operations.fit(flat, (width, height)), np.float32) / np.float32(255)
    return pixels.reshape(height, width, channels)
