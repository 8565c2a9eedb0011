"""The handwritten digits that come with the package."""

from __future__ import annotations

from importlib.resources import files

import numpy as np

from needle.data.dataset import ImageDataset, Transforms, flag


class Digits(ImageDataset):
    """The UCI handwritten digits: items are (1,8,8) float32 in 0..1, as convolutions take them, and a label.

    Of each class, in the file's order, every fifth example is for testing: 355, which leaves 1,442 for training. Like
    every data set's, its transforms see (H,W,C). Source: Alpaydin and Kaynak (1998), UCI Machine Learning Repository,
    doi:10.24432/C50P49, licence CC BY 4.0.

    >>> image, label = Digits(train=True)[0]
    >>> image.shape, int(label), len(Digits(train=False))
    ((1, 8, 8), 0, 355)
    """

    def __init__(self, train: bool = True, transforms: Transforms | None = None) -> None:
        with (files(__package__) / "digits.npz").open("rb") as file, np.load(file, allow_pickle=False) as stored:
            images, labels = stored["images"], stored["labels"]
        testing = np.zeros(len(labels), bool)
        for digit in range(10):
            testing[np.flatnonzero(labels == digit)[4::5]] = True
        chosen = ~testing if flag("Digits", "train", train) else testing
        pixels = images[chosen, :, :, np.newaxis] / np.float32(16)  # levels 0..16
        super().__init__(pixels, labels[chosen], transforms, channels_first=True)
