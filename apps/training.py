"""A training run of train_cnn.py: the model and all that resuming it takes."""

from __future__ import annotations

import argparse
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from checkpoints import BEST, LAST
from classifiers import Classifier, make_network
from command_line import DEVICES
from image_data import ImageData
from interrupts import Interrupts
from settings import kept, make_optimizer, make_schedule

import needle as ndl
from needle import nn
from needle.data import DataLoader, ImageDataset
from needle.io import require, save
from needle.training import Score, run_epoch


class Epoch(NamedTuple):
    """What is reported of an epoch: of training, then the accuracy on validation images (or on those for testing)."""

    loss: float
    train_accuracy: float
    accuracy: float
    lr: float


class Run:
    """A run: data, model, optimizer, schedule, what the epochs so far came to, and how far the present one is."""

    def __init__(self, args: argparse.Namespace, data: ImageData) -> None:
        self.args, self.data, self.device = args, data, DEVICES[args.device]
        self.shape = data.train[0][0].shape  # (C,H,W)
        # Batch normalisation of small feature maps takes no single image.
        drop_last = len(data.train) > args.batch_size and len(data.train) % args.batch_size == 1
        self.loader = DataLoader(data.train, args.batch_size, shuffle=True, drop_last=drop_last, device=self.device)
        net = make_network(args.model, self.shape, len(data.classes), self.device, widths=args.widths)
        self.model = Classifier(net, *statistics(data.train), self.device)
        self.optimizer = make_optimizer(args, self.model.parameters())
        self.schedule = make_schedule(args, self.optimizer, args.epochs * len(self.loader))
        self.history: list[Epoch] = []
        self.seconds: dict[int, float] = {}  # of the epochs of this process, by number
        self.batches, self.score = 0, Score()  # of the present epoch
        self.order: Any = np.random.get_state()  # from which its order was drawn

    def epoch(self, interrupts: Interrupts) -> None:
        """Train on all batches, or on those that are left, and evaluate; Interrupted may be raised after a step."""
        start, trained_before = time.perf_counter(), self.batches
        number = len(self.history) + 1
        loss_fn = nn.CrossEntropyLoss(label_smoothing=self.args.label_smoothing)
        with progress_bar(f"epoch {number}/{self.args.epochs}", len(self.data.train), self._seen()) as show:

            def after_batch(score: Score) -> None:
                if not math.isfinite(score.loss):
                    raise ndl.OptionError(f"the loss of epoch {number} is {score.loss}; try a smaller --lr")
                self.batches, self.score = self.batches + 1, score
                self.schedule.step()
                show(self._seen(), score)
                interrupts.check()

            trained = run_epoch(
                self.model.train(), self._batches(), loss_fn, self.optimizer,
                clip=self.args.clip_norm, after_batch=after_batch, score=self.score,
            )  # fmt: skip
        tested = run_epoch(
            self.model.eval(), self.batches_of(self.data.validation or self.data.test), nn.SoftmaxLoss(),
            after_batch=lambda score: interrupts.check(),
        )  # fmt: skip
        (lr,) = self.schedule.get_last_lr()
        self.history.append(Epoch(trained.loss, trained.accuracy, tested.accuracy, lr))
        self.batches, self.score = 0, Score()
        if not trained_before:
            self.seconds[number] = time.perf_counter() - start

    def _batches(self) -> Iterator[tuple[ndl.Tensor, ...]]:
        """Give the batches of an epoch that are left, with the random numbers they would have had without a break."""
        now = np.random.get_state()
        if not self.batches:
            self.order = now
        np.random.set_state(self.order)
        batches = iter(self.loader)
        if self.batches:
            deque(islice(batches, self.batches), maxlen=0)
            np.random.set_state(now)
        return batches

    def _seen(self) -> int:
        return min(self.batches * self.args.batch_size, len(self.data.train))

    def batches_of(self, images: ImageDataset) -> DataLoader:
        """Give images in batches, in their order."""
        return DataLoader(images, self.args.batch_size, device=self.device)

    def best(self) -> int:
        """Give the index of the best epoch: by validation, or without by the loss in training. Tests choose nothing."""
        ranks = [row.accuracy if self.data.validation else -row.loss for row in self.history]
        return ranks.index(max(ranks))

    def stops(self) -> bool:
        """Whether there is no epoch to come, or none that is likely to be better."""
        done = len(self.history)
        waited = self.args.patience and done and done - 1 - self.best() >= self.args.patience
        return bool(done >= min(self.args.epochs, self.args.stop_after or math.inf) or waited)

    def save(self) -> None:
        """Write the last checkpoint, and before it the best one where that is the same."""
        whole_epochs = self.history and not self.batches
        for name in [BEST] if whole_epochs and self.best() == len(self.history) - 1 else []:
            save(self.args.checkpoints / name, self.state())
        save(self.args.checkpoints / LAST, self.state())

    def state(self) -> dict[str, Any]:
        """Give all that resuming, or using the model, takes; equal runs give equal bytes."""
        folder = None if self.args.data_dir is None else str(self.args.data_dir.resolve())
        return {
            "settings": kept(self.args) | {"data_dir": folder},
            "shape": self.shape,
            "classes": self.data.classes,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "random": np.random.get_state(),
            "progress": {
                "history": self.history,
                "batches": self.batches,
                "score": vars(self.score),
                "order": self.order,
            },
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        if tuple(saved["shape"]) != self.shape or saved["classes"] != self.data.classes:
            raise ndl.FileFormatError(
                f"the checkpoint is of {len(saved['classes'])} classes of images {tuple(saved['shape'])}, the data has "
                f"{len(self.data.classes)} of {self.shape}; name the same data by --data-dir"
            )
        progress = saved["progress"]
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.schedule.load_state_dict(saved["schedule"])
        self.history = [Epoch(*row) for row in progress["history"]]
        self.batches, self.score = progress["batches"], Score(**progress["score"])
        self.order = tuple(progress["order"])
        np.random.set_state(tuple(saved["random"]))


def statistics(images: ImageDataset) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Give mean and standard deviation of each channel; 1 for a channel that never changes."""
    mean, std = images.images.mean((0, 1, 2), np.float64), images.images.std((0, 1, 2), np.float64)
    return mean, np.where(std > 0, std, 1.0)


@contextmanager
def progress_bar(title: str, total: int, begin: int) -> Iterator[Callable[[int, Score], None]]:
    """Give a function that shows how many images were seen, and their score: as a bar, where there is a terminal."""
    try:
        tqdm = require("tqdm", extra="apps").tqdm
    except ndl.MissingExtraError:  # the lines of the epochs are enough
        yield lambda seen, score: None
        return
    # disable=None: no bar where the output is no terminal
    with tqdm(total=total, initial=begin, desc=title, leave=False, disable=None, unit=" images") as bar:

        def show(seen: int, score: Score) -> None:
            bar.set_postfix(loss=f"{score.loss:.4f}", accuracy=f"{score.accuracy:.2%}", refresh=False)
            bar.update(seen - bar.n)

        yield show
