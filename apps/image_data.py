"""The image data that train_cnn.py and evaluate.py know: where it is, what it holds, and how to get it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import needle as ndl
from needle.data import CIFAR10Dataset, Digits, ImageDataset, ImageFolder, MNISTDataset, Transform

IDX_FILES = [
    f"{part}-{what}" for part in ("train", "t10k") for what in ("images-idx3-ubyte.gz", "labels-idx1-ubyte.gz")
]
CLASSES = {
    "fashion-mnist": [
        "T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"
    ],
    "cifar10": ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"],
}  # fmt: skip
SOURCES = {  # how to get each
    "digits": "they come with needle",
    "mnist": f"download {', '.join(IDX_FILES)} and name their folder by --data-dir",
    "fashion-mnist": "apt install dataset-fashion-mnist (Debian, Ubuntu), or name the folder of its four IDX files by "
    "--data-dir",
    "cifar10": "download and unpack cifar-10-python.tar.gz of www.cs.toronto.edu/~kriz/cifar.html, and name its folder "
    "cifar-10-batches-py by --data-dir",
    "folder": "name by --data-dir a folder that holds a folder of pictures for each class, or two such, train and test",
}
PACKAGED = Path("/usr/share/datasets")  # where Debian's packages put data sets


class ImageData(NamedTuple):
    """Images for training, for choosing between models (none where no share was asked for), and for testing."""

    train: ImageDataset
    validation: ImageDataset | None
    test: ImageDataset
    classes: list[str]


def kind_of(folder: Path | None) -> str:
    """Tell what a folder holds, by the names of its files."""
    if folder is None:
        return "digits"
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is no folder; see --help")
    if any(folder.glob("data_batch_1*")):
        return "cifar10"
    if any(folder.glob("*-idx?-ubyte*")):
        return "fashion-mnist" if "fashion" in folder.resolve().name else "mnist"
    return "folder"


def load_images(
    kind: str, folder: Path | None, size: int = 32, validation: float = 0.0, transforms: list[Transform] | None = None
) -> ImageData:
    """Load a data set, and hold out a share of its training images, evenly spread over each class.

    Raises FileNotFoundError, which says how to get the data, and FileFormatError for files that are not in order.
    """
    train, test = _load(kind, folder, size)
    if not len(train) or not len(test):
        raise ndl.FileFormatError(f"{folder} holds {len(train)} training and {len(test)} test images")
    numbered = [str(label) for label in range(1 + int(max(train.labels.max(), test.labels.max())))]
    classes = train.classes if isinstance(train, ImageFolder) else CLASSES.get(kind, numbered)
    held_out = None
    if validation:
        chosen = spread(train.labels, validation)
        train, held_out = train.select(~chosen), train.select(chosen)
    train.transforms = transforms
    return ImageData(train, held_out, test, classes)


def _load(kind: str, folder: Path | None, size: int) -> tuple[ImageDataset, ImageDataset]:
    """Load the training and the test images."""
    if kind == "digits":
        return Digits(train=True), Digits(train=False)
    folder = folder or PACKAGED / kind
    if not folder.is_dir():
        raise FileNotFoundError(f"{kind} is not there: {SOURCES[kind]}")
    if kind == "cifar10":
        return CIFAR10Dataset(folder, train=True), CIFAR10Dataset(folder, train=False)
    if kind == "folder":
        return _load_folders(folder, size)
    paths = [_find(folder, name, kind) for name in IDX_FILES]
    train, test = MNISTDataset(paths[0], paths[1]), MNISTDataset(paths[2], paths[3])
    train.channels_first = test.channels_first = True
    return train, test


def _load_folders(folder: Path, size: int) -> tuple[ImageDataset, ImageDataset]:
    """Load folders train and test of folders per class; where there are none, every fifth picture is for testing."""
    if (folder / "train").is_dir() and (folder / "test").is_dir():
        train, test = ImageFolder(folder / "train", size), ImageFolder(folder / "test", size)
        if train.classes != test.classes:
            raise ndl.FileFormatError(f"{folder}: train has the classes {train.classes}, but test {test.classes}")
        return train, test
    whole = ImageFolder(folder, size)
    testing = spread(whole.labels, 1 / 5)
    return whole.select(~testing), whole.select(testing)


def _find(folder: Path, name: str, kind: str) -> Path:
    """Return the path of a file, gzipped or not."""
    for path in (folder / name, folder / name.removesuffix(".gz")):
        if path.exists():
            return path
    raise FileNotFoundError(f"{folder} holds no {name}: {SOURCES[kind]}")


def spread(labels: npt.NDArray[np.integer], share: float) -> npt.NDArray[np.bool_]:
    """Choose a share of the places of each label, evenly spread."""
    chosen = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        places = np.flatnonzero(labels == label)
        chosen[places] = np.diff(np.floor(np.arange(len(places) + 1) * share + 1e-9)) > 0
    return chosen
