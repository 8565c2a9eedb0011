"""Test a model that train_cnn.py saved.

    python apps/evaluate.py checkpoints/best.safetensors
    python apps/evaluate.py checkpoints/best.safetensors --data-dir pictures

Without --data-dir it takes the test images of the data that the model was trained on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from checkpoints import read_checkpoint, restored
from command_line import DEVICES, USER_ERRORS, positive
from image_data import kind_of, load_images
from testing import confusion_of, confusion_table, predict

import needle as ndl
from needle.data import DataLoader
from needle.errors import sentence


def main(arguments: Sequence[str] | None = None) -> float:
    """Print and return the test accuracy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="(default: the data of the training)")
    parser.add_argument("--batch-size", type=positive(int), default=256, metavar="N", help="(default: 256)")
    parser.add_argument("--device", choices=DEVICES, default=ndl.default_device().name, help="(default: %(default)s)")
    args = parser.parse_args(arguments)
    try:
        return evaluate(args)
    except USER_ERRORS as error:
        sys.exit(f"evaluate: {sentence(error)}")


def evaluate(args: argparse.Namespace) -> float:
    """Test a model on test images of its own classes and shape."""
    saved = read_checkpoint(args.checkpoint)
    settings, shape, classes = saved["settings"], tuple(saved["shape"]), saved["classes"]
    kind = settings["data"] if args.data_dir is None else kind_of(args.data_dir)
    folder = args.data_dir or settings["data_dir"]
    data = load_images(kind, None if folder is None else Path(folder), settings["image_size"])
    if data.test[0][0].shape != shape or len(data.classes) != len(classes):
        raise ndl.ShapeError(
            f"the model takes images {shape} of {len(classes)} classes, the data has {data.test[0][0].shape} of "
            f"{len(data.classes)}"
        )
    model = restored(saved, DEVICES[args.device])
    probabilities = predict(model, DataLoader(data.test, args.batch_size, device=DEVICES[args.device]))
    confusion = confusion_of(data.test.labels, probabilities)
    accuracy = float(np.trace(confusion) / confusion.sum())
    print(f"test accuracy {accuracy:.2%}: {np.trace(confusion):,} of {confusion.sum():,} images\n")
    width = max(map(len, classes))
    for name, row, right in zip(classes, confusion, confusion.diagonal()):
        print(f"{name:{width}}  {right / max(row.sum(), 1):7.2%}  {right:,} of {row.sum():,}")
    print(f"\n{confusion_table(confusion)}")
    return accuracy


if __name__ == "__main__":
    main()
