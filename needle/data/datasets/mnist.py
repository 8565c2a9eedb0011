"""MNIST and the sets in its format, such as Fashion-MNIST."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from needle.data.dataset import ImageDataset, Transforms
from needle.data.datasets.idx import read_idx
from needle.errors import FileFormatError


class MNISTDataset(ImageDataset):
    """Images and labels of two IDX files, gzipped or plain: items are (28,28,1) float32 in 0..1 and a label.

    Slices and index arrays give (n,28,28,1) and (n,). Raises FileFormatError, naming the file and its fault, for files
    that are foreign, corrupt, truncated, or do not belong together.
    """

    def __init__(
        self, image_filename: str | Path, label_filename: str | Path, transforms: Transforms | None = None
    ) -> None:
        images, labels = read_idx(image_filename, 3), read_idx(label_filename, 1)
        if len(images) != len(labels):
            raise FileFormatError(
                f"{label_filename}: {len(labels)} labels for the {len(images)} images of {image_filename}"
            )
        super().__init__(images[..., np.newaxis] / np.float32(255), labels, transforms)
