"""Train the app's default model beside PyTorch: the same initial weights, batches, augmentation, settings and threads.

    python benchmarks/compare_training.py --data fashion-mnist

Both take turns of some batches, of which the work alone is timed: forward, backward, step; medians are over turns. The
images come from one loader. PyTorch runs eagerly, in channels_last memory unless told otherwise, with its fused Adam.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import torch

import needle as ndl
from needle import nn
from needle.data import DataLoader
from needle.io.torch_layout import to_torch

sys.path.append(str(Path(__file__).parents[1] / "apps"))  # the app whose defaults these are
from image_data import load_images
from settings import make_transforms, parse
from training import Run

TURN = 20
"""Batches after which the other's turn comes."""

Batches = Sequence[tuple[ndl.Tensor, ...]]


class Contender(Protocol):
    """A library that trains and tests a model."""

    def train(self, batches: Batches) -> None:
        """Take a step for each batch."""

    def correct(self, images: Any, labels: Any) -> int:
        """Count the test images that are put into their class."""


class Needle:
    """needle, as train_cnn.py uses it."""

    def __init__(self, run: Run) -> None:
        self.run, self.loss_fn = run, nn.CrossEntropyLoss(label_smoothing=run.args.label_smoothing)

    def train(self, batches: Batches) -> None:
        """Take a step for each batch."""
        self.run.model.train()
        for images, labels in batches:
            loss = self.loss_fn(self.run.model(images), labels)
            self.run.optimizer.reset_grad()
            loss.backward(free_graph=True)
            self.run.optimizer.step()
            self.run.schedule.step()

    def correct(self, images: Any, labels: Any) -> int:
        """Count the test images that are put into their class."""
        with ndl.no_grad():
            logits = self.run.model.eval()(ndl.Tensor(images, requires_grad=False)).numpy()
        return int((logits.argmax(axis=1) == labels).sum())


class PyTorch:
    """PyTorch, with the weights that the run begins with."""

    def __init__(self, run: Run, memory: Any) -> None:
        args, self.memory = run.args, memory
        if args.optimizer != "adam" or args.schedule != "one-cycle":
            raise ndl.OptionError("compare_training: Adam and one cycle are what it compares")
        self.model = twin(run.model.net)
        self.model.load_state_dict({name: torch.tensor(a) for name, a in to_torch(run.model.net).items()}, strict=False)
        move: Any = self.model.to  # whose stubs do not know of layouts alone
        move(memory_format=memory)
        self.mean, self.std = (torch.tensor(tensor.numpy()) for tensor in (run.model.mean, run.model.std))
        self.loss_fn = torch.nn.CrossEntropyLoss(label_smoothing=args.label_smoothing)
        self.optimizer = torch.optim.Adam(self.model.parameters(), args.lr, weight_decay=args.weight_decay, fused=True)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, args.lr, total_steps=args.epochs * len(run.loader), cycle_momentum=False
        )

    def logits(self, images: Any) -> torch.Tensor:
        """Run the model on images (N,C,H,W) in 0..1."""
        inputs = torch.utils.dlpack.from_dlpack(images).contiguous(memory_format=self.memory)
        result: torch.Tensor = self.model((inputs - self.mean) / self.std)
        return result

    def train(self, batches: Batches) -> None:
        """Take a step for each batch."""
        self.model.train()
        for images, labels in batches:
            loss = self.loss_fn(self.logits(images), torch.utils.dlpack.from_dlpack(labels).long())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.schedule.step()

    def correct(self, images: Any, labels: Any) -> int:
        """Count the test images that are put into their class."""
        self.model.eval()
        with torch.no_grad():
            return int((self.logits(images).argmax(1).numpy() == labels).sum())


def twin(module: nn.Module) -> torch.nn.Module:
    """Make PyTorch's module of the same layers."""
    if isinstance(module, nn.Sequential):
        return torch.nn.Sequential(*[twin(layer) for layer in module])
    if isinstance(module, nn.Conv):
        settings: Any = (module.in_channels, module.out_channels, module.kernel_size, module.stride, module.padding)
        return torch.nn.Conv2d(*settings)
    if isinstance(module, nn.BatchNorm2d):
        return torch.nn.BatchNorm2d(module.dim, module.eps, module.momentum)
    if isinstance(module, nn.Linear):
        return torch.nn.Linear(module.in_features, module.out_features)
    kinds: dict[type[nn.Module], torch.nn.Module] = {
        nn.ReLU: torch.nn.ReLU(),
        nn.MaxPool2d: torch.nn.MaxPool2d(2),
        nn.GlobalAvgPool2d: torch.nn.AdaptiveAvgPool2d(1),
        nn.Flatten: torch.nn.Flatten(),
    }
    return kinds[type(module)]


def in_turns(loader: DataLoader) -> Iterator[Batches]:
    """Give the batches of an epoch, some at a time."""
    batches = iter(loader)
    return iter(lambda: list(islice(batches, TURN)), [])


def epoch(contenders: dict[str, Contender], loader: DataLoader) -> list[dict[str, float]]:
    """Let the contenders train on the same batches; give the seconds that each took for a batch, turn by turn."""
    turns = []
    for turn, batches in enumerate(in_turns(loader)):
        seconds = {}
        for name in list(contenders)[:: 1 if turn % 2 else -1]:
            start = time.perf_counter()
            contenders[name].train(batches)
            seconds[name] = (time.perf_counter() - start) / len(batches)
        turns.append(seconds)
    return turns


def accuracy(contender: Contender, run: Run) -> float:
    """Give the share of test images that are put into their class."""
    batches = run.batches_of(run.data.test)
    return sum(contender.correct(x.numpy(), y.numpy()) for x, y in batches) / len(run.data.test)


def main() -> None:
    """Train both, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", choices=("contiguous_format", "channels_last"), default="channels_last")
    own, options = parser.parse_known_args()
    args, _ = parse(options, "Options of train_cnn.py")
    ndl.set_num_threads(args.threads or ndl.num_threads())
    torch.set_num_threads(ndl.num_threads())
    ndl.manual_seed(args.seed)
    transforms = make_transforms(args)
    run = Run(args, load_images(args.data, args.data_dir, args.image_size, transforms=transforms))
    contenders: dict[str, Contender] = {"needle": Needle(run), "PyTorch": PyTorch(run, getattr(torch, own.memory))}
    turns: list[dict[str, float]] = []
    for number in range(1, args.epochs + 1):
        turns += epoch(contenders, run.loader)
        tested = {name: accuracy(contender, run) for name, contender in contenders.items()}
        print(f"epoch {number}: {', '.join(f'{name} {share:.2%}' for name, share in tested.items())}", flush=True)
    print("\n| | test accuracy | seconds per epoch |\n|---|---|---|")
    for name, share in tested.items():
        print(f"| {name} | {share:.2%} | {len(run.loader) * median(turn[name] for turn in turns):.1f} |")
    ratio = median(turn["PyTorch"] / turn["needle"] for turn in turns)
    print(f"\n{ratio:.2f} times as fast; {ndl.num_threads()} threads, PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
