"""What train_cnn.py leaves for itself and for the programs that use a trained model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from classifiers import Classifier, make_network

import needle as ndl
from needle.io import load

BEST, LAST = "best.safetensors", "last.safetensors"
PARTS = {"settings", "shape", "classes", "model", "optimizer", "schedule", "random", "progress"}


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint; raises FileFormatError where it is damaged, or none of train_cnn's."""
    saved = load(path)
    if not PARTS <= set(saved):
        raise ndl.FileFormatError(f"{path}: this is no checkpoint of train_cnn")
    return saved


def restored(saved: Mapping[str, Any], device: ndl.BackendDevice) -> Classifier:
    """Make the classifier that a checkpoint of train_cnn.py holds, ready to use."""
    settings, classes = saved["settings"], saved["classes"]
    net = make_network(settings["model"], saved["shape"], len(classes), device, widths=settings["widths"])
    channels = saved["shape"][0]
    model = Classifier(net, np.zeros(channels), np.ones(channels), device)
    model.load_state_dict(saved["model"])
    return model.eval()
