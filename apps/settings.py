"""The options of train_cnn.py: flags, files of them, and defaults that suit the data."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from checkpoints import LAST, read_checkpoint
from classifiers import NETWORKS
from command_line import DEVICES, nearest, positive, refuse_change, require_checkpoint, seed
from image_data import SOURCES, kind_of

import needle as ndl
from needle import optim
from needle.data import Cutout, RandomCrop, RandomFlipHorizontal, Transform
from needle.io import require

OPTIMIZERS: dict[str, Callable[..., optim.Optimizer]] = {"adam": optim.Adam, "adamw": optim.AdamW, "sgd": optim.SGD}
# Default learning rate and weight decay of each; SGD is Nesterov's, by PyTorch's rule.
RATES = {"adam": (0.003, 0.0), "adamw": (0.003, 0.01), "sgd": (0.1, 5e-4)}
SCHEDULES = {
    "one-cycle": "up to --lr, then down to nothing",
    "cosine": "down to nothing in half a wave",
    "step": "a tenth after half of the steps, a hundredth after three quarters",
    "constant": "always --lr",
}
AUGMENTATIONS: dict[str, Callable[[argparse.Namespace], Transform]] = {
    "crop": lambda args: RandomCrop(args.crop_padding),
    "flip": lambda args: RandomFlipHorizontal(),
    "cutout": lambda args: Cutout(args.cutout_size),
}
# What suits each kind of data, where no option says otherwise; chosen on parts of the training images.
COMMON = {"model": "small_cnn", "epochs": 10, "batch_size": 128, "crop_padding": 2, "cutout_size": 8}
DEFAULTS: dict[str, dict[str, Any]] = {
    "digits": COMMON | {"epochs": 30, "batch_size": 64, "widths": [32, 64], "augment": []},
    "mnist": COMMON | {"widths": [32, 64], "augment": ["crop"]},
    "fashion-mnist": COMMON | {"widths": [32, 64, 128], "augment": ["flip"]},
    "cifar10": COMMON | {"widths": [32, 64, 128], "augment": ["crop", "flip"], "crop_padding": 4},
    "folder": COMMON | {"widths": [32, 64, 128], "augment": ["crop", "flip"]},
}
# What may differ between a run and one that resumes it, for the result does not depend on it.
FREE_OPTIONS = {
    "checkpoints", "config", "data_dir", "device", "log_dir", "report", "report_dir", "resume", "stop_after", "threads"
}  # fmt: skip


class Parser(argparse.ArgumentParser):
    """A parser that names the nearest option where one is unknown."""

    def parse_args(self, arguments: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parse, or end the program with a sentence."""
        args, unknown = self.parse_known_args(arguments, namespace)
        if unknown:
            self.unknown(unknown[0].partition("=")[0])
        return args

    def unknown(self, option: str, where: str = "") -> NoReturn:
        """End the program for an option that is not there."""
        self.error(f"{where}there is no option {option}{nearest(option, self.options())}")

    def options(self) -> list[str]:
        """Give the long options."""
        return [name for name in self._option_string_actions if name.startswith("--")]


def parse(arguments: Sequence[str] | None, description: str) -> tuple[argparse.Namespace, dict[str, Any] | None]:
    """Parse the command line; with --resume, give the checkpoint too, whose settings are the defaults then."""
    parser = make_parser(description)
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    args = parser.parse_args(arguments)
    if args.config is not None:
        arguments = [*options_of(args.config, parser), *arguments]
        args = parser.parse_args(arguments)
    saved = None
    if args.resume:
        require_checkpoint(args.checkpoints / LAST)
        saved = read_checkpoint(args.checkpoints / LAST)
        parser.set_defaults(**saved["settings"])
        args = parser.parse_args(arguments)
    fill(args)
    if saved is not None:
        check_unchanged(args, saved["settings"])
    if args.patience and not args.validation:
        parser.error("--patience needs --validation, a share of the training images to stop by")
    return args, saved


def make_parser(description: str) -> Parser:
    """Make the parser of the command line; what depends on the data has no default here."""
    parser = Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    rates = ", ".join(f"{rate:g} with {name}" for name, (rate, _) in RATES.items())
    schedules = "; ".join(f"{name}: {text}" for name, text in SCHEDULES.items())

    data = parser.add_argument_group("data").add_argument
    data("--data", choices=SOURCES, help="(default: what --data-dir holds; without it the embedded digits)")
    data("--data-dir", type=Path, metavar="DIR", help="folder of IDX or CIFAR-10 files, or of a folder per class")
    data("--image-size", type=positive(int), default=32, metavar="N", help="of pictures in folders (default: 32)")
    data("--validation", type=share, default=0.0, metavar="SHARE", help="of the training images, held out (default: 0)")
    data("--augment", nargs="*", choices=AUGMENTATIONS, metavar="WAY", help=f"any of {', '.join(AUGMENTATIONS)}")
    data("--crop-padding", type=positive(int), metavar="N", help="the widest shift of crop")
    data("--cutout-size", type=positive(int), metavar="N", help="of the square of cutout")

    model = parser.add_argument_group("model").add_argument
    model("--model", metavar="NAME", help=f"one of {', '.join(NETWORKS)}, or module:function of your own")
    model("--widths", type=positive(int), nargs="+", metavar="N", help="of the stages of small_cnn")

    train = parser.add_argument_group("training").add_argument
    train("--epochs", type=positive(int), metavar="N", help="passes over the data (default: 30 on digits, else 10)")
    train("--batch-size", type=positive(int), metavar="N", help="images a step (default: 64 on digits, else 128)")
    train("--optimizer", choices=OPTIMIZERS, default="adam", help="(default: adam)")
    train("--lr", type=positive(float), metavar="RATE", help=f"learning rate (default: {rates})")
    train("--schedule", choices=SCHEDULES, default="one-cycle", help=f"{schedules} (default: one-cycle)")
    train("--weight-decay", type=share, metavar="W", help="(default: 0.01 with adamw, 5e-4 with sgd, else 0)")
    train("--label-smoothing", type=share, default=0.1, metavar="SHARE", help="(default: 0.1)")
    train("--clip-norm", type=positive(float), metavar="NORM", help="limit of all gradients together (default: none)")
    train("--patience", type=positive(int), metavar="N", help="end after N epochs without a better validation")
    train("--seed", type=seed, default=0, metavar="N", help="of weights, order and augmentation (default: 0)")
    train("--threads", type=positive(int), metavar="N", help="(default: as many as there are processors)")
    train("--device", choices=DEVICES, default=ndl.default_device().name, help="(default: %(default)s)")

    files = parser.add_argument_group("files").add_argument
    files("--config", type=Path, metavar="FILE", help="TOML or JSON whose keys are these options, without the dashes")
    files("--checkpoints", type=Path, default=Path("checkpoints"), metavar="DIR", help="(default: checkpoints)")
    files("--resume", action="store_true", help="go on from the last checkpoint, with its settings")
    files("--stop-after", type=positive(int), metavar="N", help="end after epoch N, for --resume to go on")
    files("--report", action=argparse.BooleanOptionalAction, default=True, help="draw the result")
    files("--report-dir", type=Path, default=Path("report"), metavar="DIR", help="(default: report)")
    files("--log-dir", type=Path, metavar="DIR", help="write TensorBoard's event files")
    return parser


def share(text: str) -> float:
    """Parse a number from 0 up, below 1."""
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not in 0..1, 1 excluded")
    return value


def options_of(path: Path, parser: Parser) -> list[str]:
    """Read a TOML or JSON file as arguments of the command line."""
    library = json if path.suffix == ".json" else require("tomllib" if sys.version_info >= (3, 11) else "tomli", "apps")
    try:
        entries = library.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        parser.error(f"{path}: {error}")
    if not isinstance(entries, Mapping):
        parser.error(f"{path}: expected a table of options, got a {type(entries).__name__}")
    arguments: list[str] = []
    for key, value in entries.items():
        option = "--" + key.replace("_", "-")
        if option not in parser.options():
            parser.unknown(option, f"{path}: ")
        if isinstance(value, bool):
            arguments.append(option if value else option.replace("--", "--no-", 1))
        elif isinstance(value, list):
            arguments += [option, *map(str, value)]
        else:
            arguments.append(f"{option}={value}")
    return arguments


def fill(args: argparse.Namespace) -> None:
    """Give the options that depend on the data, or on other options, their defaults."""
    args.data = args.data or kind_of(args.data_dir)
    for name, value in DEFAULTS[args.data].items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    rate, decay = RATES[args.optimizer]
    args.lr = rate if args.lr is None else args.lr
    args.weight_decay = decay if args.weight_decay is None else args.weight_decay


def kept(args: argparse.Namespace) -> dict[str, Any]:
    """Give the settings that the result depends on."""
    return {name: value for name, value in vars(args).items() if name not in FREE_OPTIONS}


def check_unchanged(args: argparse.Namespace, before: Mapping[str, Any]) -> None:
    """Raise OptionError where an option differs from that of the run that is resumed."""
    for name, value in kept(args).items():
        if name == "epochs" and args.schedule == "constant":
            continue
        if value != before.get(name):
            refuse_change(name, before.get(name), value)


def make_optimizer(args: argparse.Namespace, params: list[ndl.Tensor]) -> optim.Optimizer:
    """Make the optimizer."""
    more = {"momentum": 0.9, "dampening": 0.0, "nesterov": True} if args.optimizer == "sgd" else {}
    return OPTIMIZERS[args.optimizer](params, lr=args.lr, weight_decay=args.weight_decay, **more)


def make_schedule(args: argparse.Namespace, optimizer: optim.Optimizer, steps: int) -> optim.LRScheduler:
    """Make the schedule of the learning rate over all steps."""
    if args.schedule == "one-cycle":
        return optim.OneCycleLR(optimizer, args.lr, total_steps=steps, cycle_momentum=False)
    if args.schedule == "cosine":
        return optim.CosineAnnealingLR(optimizer, T_max=steps)
    milestones = [steps // 2, steps * 3 // 4] if args.schedule == "step" else []
    return optim.MultiStepLR(optimizer, milestones)


def make_transforms(args: argparse.Namespace) -> list[Transform]:
    """Make the augmentation of training images."""
    return [AUGMENTATIONS[name](args) for name in args.augment]
