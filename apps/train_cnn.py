"""Train a small convolutional network on images, and report how well it does.

    python apps/train_cnn.py
    python apps/train_cnn.py --data-dir /usr/share/datasets/fashion-mnist --epochs 5

Without --data-dir it trains on the 8x8 handwritten digits that come with needle. A folder may hold the four IDX files
of MNIST or Fashion-MNIST, gzipped or not, or the batches of CIFAR-10. The defaults were chosen by cross-validation on
the training images of the digits; test images are for the report alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from command_line import DEVICES, USER_ERRORS, positive, seed
from models import ResNet9, SmallCNN

import needle as ndl
from needle import nn, optim
from needle.data import CIFAR10Dataset, DataLoader, Digits, ImageDataset, MNISTDataset, RandomCrop, RandomFlipHorizontal
from needle.io import check_writable, require, save
from needle.training import Score, run_epoch

MODELS: dict[str, Callable[..., nn.Module]] = {"small_cnn": SmallCNN, "resnet9": ResNet9}
OPTIMIZERS: dict[str, Callable[..., optim.Optimizer]] = {"adam": optim.Adam, "adamw": optim.AdamW, "sgd": optim.SGD}
# Settings and default learning rate of each; with these SGD is Nesterov's, by PyTorch's rule.
SGD = {"momentum": 0.9, "dampening": 0.0, "nesterov": True, "weight_decay": 5e-4}
LEARNING_RATES = {"adam": 0.003, "adamw": 0.003, "sgd": 0.1}


class Result(NamedTuple):
    """What a run ends with."""

    model: nn.Module
    accuracy: float
    confusion: npt.NDArray[np.int64]


def main(arguments: Sequence[str] | None = None) -> Result:
    """Train as the command line says."""
    args = parse_arguments(arguments)
    try:
        return train(args)
    except USER_ERRORS as error:
        sys.exit(f"train_cnn: {error}")


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data-dir", type=Path, metavar="DIR", help="folder of IDX or CIFAR-10 files (default: the embedded digits)")
    add("--model", choices=MODELS, default="small_cnn", help="network to train (default: %(default)s)")
    add("--epochs", type=positive(int), metavar="N", help="passes over the data (default: 30 on digits, 10 on others)")
    add("--batch-size", type=positive(int), default=64, metavar="N", help="images a step (default: %(default)s)")
    add("--optimizer", choices=OPTIMIZERS, default="adam", help="(default: %(default)s)")
    rates = ", ".join(f"{rate} with {name}" for name, rate in LEARNING_RATES.items())
    add("--lr", type=positive(float), metavar="RATE", help=f"peak of the one-cycle schedule (default: {rates})")
    add("--seed", type=seed, default=0, metavar="N", help="of weights, order and augmentation (default: %(default)s)")
    add("--device", choices=DEVICES, default=ndl.default_device().name, help="(default: %(default)s)")
    add("--checkpoint", type=Path, default=Path("checkpoints/train_cnn.npz"), metavar="FILE",
        help="where the trained weights are saved (default: %(default)s)")  # fmt: skip
    return parser.parse_args(arguments)


def load_data(folder: Path | None) -> tuple[ImageDataset, ImageDataset]:
    """Load the training and the test images, with the augmentation that suits the former."""
    if folder is None:
        return Digits(train=True), Digits(train=False)
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is no folder; see --help")
    if any(folder.glob("data_batch_1*")):
        augmentation = [RandomFlipHorizontal(), RandomCrop(padding=4)]
        return CIFAR10Dataset(folder, train=True, transforms=augmentation), CIFAR10Dataset(folder, train=False)
    train_set, test_set = (
        MNISTDataset(find_file(folder, f"{part}-images-idx3-ubyte"), find_file(folder, f"{part}-labels-idx1-ubyte"))
        for part in ("train", "t10k")
    )
    if not len(train_set) or not len(test_set):
        raise ndl.FileFormatError(f"{folder} holds {len(train_set)} training and {len(test_set)} test images")
    train_set.channels_first = test_set.channels_first = True
    return train_set, test_set


def find_file(folder: Path, name: str) -> Path:
    """Return the path of a file, gzipped or not."""
    for path in (folder / f"{name}.gz", folder / name):
        if path.exists():
            return path
    raise FileNotFoundError(f"{folder} holds neither {name}.gz nor the files of CIFAR-10; see --help")


def train(args: argparse.Namespace) -> Result:
    """Train a model, print a line an epoch and the final result, and save the weights."""
    ndl.manual_seed(args.seed)
    device = DEVICES[args.device]
    train_set, test_set = load_data(args.data_dir)
    # Batch normalisation of small feature maps takes no single image.
    drop_last = len(train_set) > args.batch_size and len(train_set) % args.batch_size == 1
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=drop_last, device=device)
    test_loader = DataLoader(test_set, args.batch_size, device=device)
    num_classes = 1 + int(max(train_set.labels.max(), test_set.labels.max()))
    model = MODELS[args.model](in_channels=train_set.images.shape[-1], num_classes=num_classes, device=device)
    args.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    check_writable(args.checkpoint)  # before the work, not after it

    epochs = args.epochs or (10 if args.data_dir else 30)
    optimizer, schedule = make_optimizer(args, model, epochs * len(train_loader))

    print(f"{args.model}, {sum(p.size for p in model.parameters()):,} parameters, on {device}")
    print(f"{len(train_set):,} training and {len(test_set):,} test images of {train_set[0][0].shape}\n")
    print("epoch    loss  train acc  test acc  seconds")
    for epoch in range(1, epochs + 1):
        start = time.perf_counter()
        loss, train_accuracy = train_epoch(model, train_loader, optimizer, schedule, f"epoch {epoch}/{epochs}")
        confusion = evaluate(model, test_loader, num_classes)
        seconds = time.perf_counter() - start
        print(f"{epoch:5}  {loss:6.4f}  {train_accuracy:9.2%}  {accuracy(confusion):8.2%}  {seconds:7.1f}", flush=True)

    options = {name: str(value) if isinstance(value, Path) else value for name, value in vars(args).items()}
    save(args.checkpoint, {"model": model.state_dict(), "settings": options})
    print(f"\ntest accuracy {accuracy(confusion):.2%}: {np.trace(confusion):,} of {len(test_set):,} images")
    print(f"\n{confusion_table(confusion)}\n\nweights saved in {args.checkpoint}")
    return Result(model, accuracy(confusion), confusion)


def make_optimizer(
    args: argparse.Namespace, model: nn.Module, total_steps: int
) -> tuple[optim.Optimizer, optim.LRScheduler]:
    """Make the optimizer, and the schedule of its learning rate: one cycle over all steps."""
    rate = args.lr or LEARNING_RATES[args.optimizer]
    settings = SGD if args.optimizer == "sgd" else {}
    optimizer = OPTIMIZERS[args.optimizer](model.parameters(), lr=rate, **settings)
    return optimizer, optim.OneCycleLR(optimizer, rate, total_steps=total_steps, cycle_momentum=False)


def train_epoch(
    model: nn.Module, loader: DataLoader, optimizer: optim.Optimizer, schedule: optim.LRScheduler, title: str
) -> tuple[float, float]:
    """Train on every batch once; return loss and accuracy, averaged over the images as they were seen."""
    # disable=None: no bar where the output is no terminal
    bar = require("tqdm", extra="apps").tqdm(loader, title, leave=False, disable=None, unit="batch")

    def after_batch(score: Score) -> None:
        schedule.step()
        bar.set_postfix(loss=f"{score.loss:.4f}", accuracy=f"{score.accuracy:.2%}", refresh=False)

    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
    score = run_epoch(model.train(), bar, loss_fn, optimizer, after_batch=after_batch)
    return score.loss, score.accuracy


def evaluate(model: nn.Module, loader: DataLoader, num_classes: int) -> npt.NDArray[np.int64]:
    """Count the images of each true class (rows) by predicted class (columns)."""
    model.eval()
    confusion = np.zeros((num_classes, num_classes), np.int64)
    with ndl.no_grad():
        for images, labels in loader:
            predicted = model(images).numpy().argmax(axis=1)
            np.add.at(confusion, (labels.numpy().astype(int), predicted), 1)
    return confusion


def accuracy(confusion: npt.NDArray[np.int64]) -> float:
    """Return the share of images that are in their own class."""
    return float(np.trace(confusion) / confusion.sum())


def confusion_table(confusion: npt.NDArray[np.int64]) -> str:
    """Format a confusion matrix."""
    width = 2 + len(str(confusion.max()))
    header = "".join(f"{label:{width}}" for label in range(len(confusion)))
    rows = [f"{label:6}" + "".join(f"{count or '.':>{width}}" for count in row) for label, row in enumerate(confusion)]
    return "\n".join(["true class by predicted class", " " * 6 + header, *rows])


if __name__ == "__main__":
    main()
