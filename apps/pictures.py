"""Figures of a training run, made with matplotlib: each function gives one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from training import Epoch

from needle import nn
from needle.io import require

Figure = Any  # matplotlib's; it is an optional library
TILES = 24  # of filters and of images


def new_figure(width: float, height: float) -> Figure:
    """Make an empty figure, of a size in inches."""
    return require("matplotlib.figure", extra="apps").Figure((width, height), layout="constrained")


def curves(history: Sequence[Epoch], held_out: str) -> Figure:
    """Draw loss and accuracy by epoch; `held_out` names what the accuracy beside that of training was measured on."""
    figure = new_figure(9, 3.2)
    left, right = figure.subplots(1, 2)
    epochs = range(1, len(history) + 1)
    left.plot(epochs, [row.loss for row in history], marker=".", color="tab:blue", label="training")
    left.set(xlabel="epoch", ylabel="loss")
    right.plot(epochs, [row.train_accuracy for row in history], marker=".", color="tab:blue", label="training")
    right.plot(epochs, [row.accuracy for row in history], marker=".", color="tab:orange", label=held_out)
    right.set(xlabel="epoch", ylabel="accuracy")
    right.yaxis.set_major_formatter(require("matplotlib.ticker", extra="apps").PercentFormatter(1))
    for axes in (left, right):
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
        axes.legend()
    return figure


def confusion_matrix(confusion: npt.NDArray[np.int64], classes: Sequence[str]) -> Figure:
    """Draw how many images of each true class (rows) were taken for each class (columns)."""
    size = 2 + 0.5 * len(classes)
    figure = new_figure(size + 1, size)
    axes = figure.subplots()
    shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set(xlabel="predicted class", ylabel="true class")
    axes.set_xticks(range(len(classes)), classes, rotation=45, ha="right")
    axes.set_yticks(range(len(classes)), classes)
    for (row, column), count in np.ndenumerate(confusion):
        if count:
            color = "white" if shares[row, column] > 0.5 else "black"
            axes.text(column, row, count, ha="center", va="center", fontsize=8, color=color)
    return figure


def filters(model: nn.Module) -> Figure | None:
    """Draw the kernels of the first convolution, in colour where it sees colours; None where there is none."""
    layer = next((layer for _, layer in model.named_modules() if isinstance(layer, nn.Conv)), None)
    if layer is None:
        return None
    kernels = np.moveaxis(layer.weight.numpy(), -1, 0)  # (K,K,in,out) -> (out,K,K,in)
    if kernels.shape[-1] != 3:
        kernels = kernels[..., :1]
    limit = np.abs(kernels).max() or 1.0
    return _tiles(0.5 + kernels / (2 * limit), [""] * len(kernels))


def mistakes(
    images: npt.NDArray[Any], labels: npt.NDArray[Any], probabilities: npt.NDArray[Any], classes: Sequence[str]
) -> Figure | None:
    """Draw the images (n,H,W,C) that were taken for another class with the highest probability; None without such."""
    predicted, confidence = probabilities.argmax(axis=1), probabilities.max(axis=1)
    wrong = np.flatnonzero(predicted != labels)
    wrong = wrong[np.argsort(-confidence[wrong], kind="stable")][:TILES]
    if not len(wrong):
        return None
    titles = [f"{classes[labels[i]]}, not\n{classes[predicted[i]]} ({confidence[i]:.0%})" for i in wrong.tolist()]
    return _tiles(images[wrong], titles)


def _tiles(images: npt.NDArray[Any], titles: Sequence[str]) -> Figure:
    """Draw images (n,H,W,C) in 0..1 side by side."""
    columns = 8
    rows = -(-len(images) // columns)
    figure = new_figure(9, 1.1 * rows + 0.35 * rows * any(titles))
    for axes in figure.subplots(rows, columns, squeeze=False).flat:
        axes.axis("off")
    for axes, image, title in zip(figure.axes, images, titles):
        axes.imshow(image, cmap="gray", vmin=0, vmax=1)
        axes.set_title(title, fontsize=7)
    return figure
