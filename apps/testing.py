"""What a classifier makes of test images."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import needle as ndl
from needle import nn
from needle.data import DataLoader


def predict(model: nn.Module, batches: DataLoader) -> npt.NDArray[Any]:
    """Give the probabilities (n, classes) of all images."""
    model.eval()
    with ndl.no_grad():
        return np.concatenate([ndl.softmax(model(images)).numpy() for images, *_ in batches])


def confusion_of(labels: npt.NDArray[Any], probabilities: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Count the images of each true class (rows) by predicted class (columns)."""
    confusion = np.zeros((probabilities.shape[1],) * 2, np.int64)
    np.add.at(confusion, (labels.astype(int), probabilities.argmax(axis=1)), 1)
    return confusion


def confusion_table(confusion: npt.NDArray[np.int64]) -> str:
    """Format a confusion matrix."""
    width = 2 + len(str(confusion.max()))
    header = "".join(f"{label:{width}}" for label in range(len(confusion)))
    rows = [f"{label:6}" + "".join(f"{count or '.':>{width}}" for count in row) for label, row in enumerate(confusion)]
    return "\n".join(["true class by predicted class", " " * 6 + header, *rows])
