"""Tell what pictures show, by a model that train_cnn.py saved.

    python apps/predict.py checkpoints/best.safetensors picture.png photo.jpg

Pictures may be PNG, JPEG or what else Pillow reads, of any size, grey or coloured: they are brought to what the model
was trained on. Data sets of digits and clothes are white on black; --invert is for pictures that are black on white.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from checkpoints import read_checkpoint, restored
from command_line import DEVICES, USER_ERRORS, positive

import needle as ndl
from needle.data import read_image
from needle.errors import sentence


def main(arguments: Sequence[str] | None = None) -> list[str]:
    """Print the likeliest classes of each picture; return the likeliest one of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("images", type=Path, nargs="+", metavar="IMAGE")
    parser.add_argument("--top", type=positive(int), default=3, metavar="N", help="classes to print (default: 3)")
    parser.add_argument("--invert", action="store_true", help="take the pictures' negatives")
    parser.add_argument("--device", choices=DEVICES, default=ndl.default_device().name, help="(default: %(default)s)")
    args = parser.parse_args(arguments)
    try:
        return predict(args)
    except USER_ERRORS as error:
        sys.exit(f"predict: {sentence(error)}")


def predict(args: argparse.Namespace) -> list[str]:
    """Read the pictures, and ask the model for all of them at once."""
    saved, device = read_checkpoint(args.checkpoint), DEVICES[args.device]
    classes, (channels, height, width) = saved["classes"], saved["shape"]
    pictures = np.stack([read_image(path, (height, width), channels) for path in args.images])
    inputs = ndl.Tensor(1 - pictures if args.invert else pictures, device=device, requires_grad=False)
    with ndl.no_grad():
        logits = restored(saved, device)(inputs.permute((0, 3, 1, 2)))  # (N,H,W,C) -> (N,C,H,W)
    for path, row in zip(args.images, ndl.softmax(logits).numpy()):
        likeliest = np.argsort(-row, kind="stable")[: args.top]
        print(f"{path}: " + ", ".join(f"{classes[i]} {row[i]:.1%}" for i in likeliest.tolist()))
    return [classes[i] for i in logits.numpy().argmax(axis=1).tolist()]


if __name__ == "__main__":
    main()
