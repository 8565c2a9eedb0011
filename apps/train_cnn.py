"""Train a small convolutional network on images, and report how well it does.

    python apps/train_cnn.py
    python apps/train_cnn.py --data fashion-mnist
    python apps/train_cnn.py --data-dir pictures --model resnet9 --validation 0.1 --patience 3
    python apps/train_cnn.py --resume

Without --data or --data-dir it trains on the 8x8 handwritten digits that come with needle. A folder may hold the four
IDX files of MNIST or Fashion-MNIST, gzipped or not, the batches of CIFAR-10, or a folder of pictures for each class.
The defaults were chosen on parts of the training images; test images are for the report alone.

After each epoch the state is saved. Ctrl-C ends the run after the present step, and --resume goes on from there to the
very result it would have had; predict.py and evaluate.py use the model.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from checkpoints import BEST, LAST, read_checkpoint
from command_line import USER_ERRORS, print_device
from event_log import EventLog
from image_data import load_images
from interrupts import Interrupted, Interrupts
from report import write_report
from settings import make_transforms, parse
from testing import confusion_of, confusion_table, predict
from training import Run

import needle as ndl
from needle import nn
from needle.errors import sentence
from needle.io import check_writable

INTERRUPTED = 130  # as shells report a Ctrl-C


class Result(NamedTuple):
    """What a run ends with."""

    model: nn.Module
    accuracy: float
    confusion: npt.NDArray[np.int64]


def main(arguments: Sequence[str] | None = None) -> Result:
    """Train as the command line says."""
    try:
        args, saved = parse(arguments, __doc__ or "")
        return train(args, saved)
    except USER_ERRORS as error:
        sys.exit(f"train_cnn: {sentence(error)}")
    except Interrupted as interrupted:
        print(f"\ntrain_cnn: {interrupted}; the same command with --resume goes on from here", file=sys.stderr)
        sys.exit(interrupted.status)
    except KeyboardInterrupt:
        print("\ntrain_cnn: ended at once; --resume goes on from the last checkpoint", file=sys.stderr)
        sys.exit(INTERRUPTED)


def train(args: argparse.Namespace, saved: dict[str, Any] | None) -> Result:
    """Train a model, or go on with it, saving its state after each epoch; then test the best one."""
    if args.threads is not None:
        ndl.set_num_threads(args.threads)
    ndl.manual_seed(args.seed)
    transforms = make_transforms(args)
    run = Run(args, load_images(args.data, args.data_dir, args.image_size, args.validation, transforms))
    if saved is not None:
        run.restore(saved)
    args.checkpoints.mkdir(parents=True, exist_ok=True)
    check_writable(args.checkpoints / LAST)  # before the work, not after it
    print(f"{args.model}, {sum(p.size for p in run.model.parameters()):,} parameters, on {run.device}")
    print_device(run.device)
    print(settings_line(args))
    held_out = f"{len(run.data.validation):,} validation " if run.data.validation else ""
    print(f"{len(run.data.train):,} training {held_out}and {len(run.data.test):,} test images of {run.shape}\n")
    train_epochs(run)
    return finish(run)


def settings_line(args: argparse.Namespace) -> str:
    """Name the settings that a loss and an accuracy depend on most."""
    augment = " ".join(args.augment) or "none"
    return (
        f"{args.optimizer}, lr {args.lr:g} {args.schedule}, batches of {args.batch_size}, weight decay "
        f"{args.weight_decay:g}, label smoothing {args.label_smoothing:g}, augmentation {augment}, seed {args.seed}"
    )


def train_epochs(run: Run) -> None:
    """Train until the run stops, a line each epoch; where a signal ends it, its state is saved."""
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts())
        log = stack.enter_context(EventLog(run.args.log_dir)) if run.args.log_dir else None
        if log is not None:
            log.images(run)
        print(f"epoch    loss  train acc  {'valid' if run.data.validation else ' test'} acc  images/s  seconds    left")
        for number in range(1, len(run.history) + 1):
            print(epoch_line(run, number))
        sys.stdout.flush()
        try:
            while not run.stops():
                run.epoch(interrupts)
                run.save()
                print(epoch_line(run, len(run.history)), flush=True)
                if log is not None:
                    log.epoch(run)
        except Interrupted:
            run.save()
            raise


def epoch_line(run: Run, number: int) -> str:
    """Format what an epoch came to; where this process trained it, its speed too, and how long the others will take."""
    row = run.history[number - 1]
    line = f"{number:5}  {row.loss:6.4f}  {row.train_accuracy:9.2%}  {row.accuracy:9.2%}"
    if number not in run.seconds:
        return line
    seconds = run.seconds[number]
    minutes, rest = divmod(round(seconds * (run.args.epochs - number)), 60)
    return f"{line}  {len(run.data.train) / seconds:8,.0f}  {seconds:7.1f}  {minutes:4}:{rest:02}"


def finish(run: Run) -> Result:
    """Test the best model, print and draw the result."""
    run.model.load_state_dict(read_checkpoint(run.args.checkpoints / BEST)["model"])
    probabilities = predict(run.model, run.batches_of(run.data.test))
    confusion = confusion_of(run.data.test.labels, probabilities)
    correct, total = np.trace(confusion), confusion.sum()
    print(
        f"\ntest accuracy {correct / total:.2%}: {correct:,} of {total:,} images, by epoch {run.best() + 1}'s weights"
    )
    print(f"\n{confusion_table(confusion)}\n\ncheckpoints in {run.args.checkpoints}: {BEST}, {LAST}")
    if run.args.report:
        try:
            print(f"report in {write_report(run.args.report_dir, run, probabilities, confusion)}")
        except ndl.MissingExtraError as error:
            print(f"no report: {error}")
    if len(run.history) == run.args.stop_after:
        print("the same command with --resume, without --stop-after, goes on")
    return Result(run.model, float(correct / total), confusion)


if __name__ == "__main__":
    main()
