"""Train a language model on a text, report its perplexity, and let it write.

    python apps/train_lm.py
    python apps/train_lm.py --data-dir ptb --model transformer --epochs 10
    python apps/train_lm.py --resume --prompt "and jesus said unto"

Without --data-dir it trains on the four gospels that come with needle. A folder holds train.txt and test.txt, with
blanks between words. Perplexity is e to the mean loss: among that many words, all as likely, the next one would be as
hard to guess. A unigram model, which knows how frequent words are and nothing else, is there for comparison.

The state is saved after each epoch. Where a run was interrupted, --resume goes on from there, to the same result.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from command_line import DEVICES, USER_ERRORS, positive, print_device, refuse_change, require_checkpoint, seed
from models import SEQUENCE_MODELS, LanguageModel
from simple_ml import carrying_state

import needle as ndl
from needle import nn, optim
from needle.backend_ndarray import device
from needle.data import Corpus, batchify, get_batch
from needle.data.datasets.ptb import END_OF_LINE
from needle.errors import sentence
from needle.io import check_writable, load, require, save
from needle.training import Score, run_epoch

GOSPELS = Path(__file__).parent / "texts" / "gospels"
LEARNING_RATES = {"rnn": 0.003, "lstm": 0.01, "transformer": 0.003}
CONTENTS = {"settings", "words", "model", "optimizer", "schedule", "random", "history"}  # of a checkpoint
# What may differ between a run and one that resumes it.
FREE_OPTIONS = {"checkpoint", "data_dir", "prompt", "resume", "temperature", "words"}


class Result(NamedTuple):
    """What a run ends with."""

    model: LanguageModel
    perplexity: float
    unigram: float
    text: str


class Epoch(NamedTuple):
    """What is reported of an epoch."""

    train_perplexity: float
    test_perplexity: float
    seconds: float


def main(arguments: Sequence[str] | None = None) -> Result:
    """Train as the command line says."""
    try:
        return train(*parse_arguments(arguments))
    except USER_ERRORS as error:
        sys.exit(f"train_lm: {sentence(error)}")
    except KeyboardInterrupt as interrupt:
        print(f"\ntrain_lm: interrupted{interrupt or ' before the training'}", file=sys.stderr)
        sys.exit(130)  # as shells report SIGINT


def parse_arguments(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, dict[str, Any] | None]:
    """Parse the command line; with --resume, give the checkpoint too, whose settings are the defaults then."""
    parser = make_parser()
    args = parser.parse_args(arguments)
    if not args.resume:
        return args, None
    require_checkpoint(args.checkpoint)
    saved = load(args.checkpoint)
    if saved.keys() != CONTENTS or not isinstance(saved["settings"], dict):
        raise ndl.FileFormatError(f"{args.checkpoint}: this is no checkpoint of train_lm")
    parser.set_defaults(**saved["settings"])
    args = parser.parse_args(arguments)
    for name in saved["settings"].keys() - FREE_OPTIONS:
        given, before = getattr(args, name), saved["settings"][name]
        if given != before:
            refuse_change(name, before, given)
    return args, saved


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data-dir", type=Path, default=GOSPELS, metavar="DIR", help="folder of train.txt and test.txt")
    add("--model", choices=SEQUENCE_MODELS, default="lstm", help="(default: %(default)s)")
    add("--embedding-size", type=positive(int), default=128, metavar="N", help="of a word (default: %(default)s)")
    add("--hidden-size", type=positive(int), default=256, metavar="N", help="of a layer (default: %(default)s)")
    add("--layers", type=positive(int), default=1, metavar="N", help="(default: %(default)s)")
    add("--epochs", type=positive(int), default=3, metavar="N", help="passes over the text (default: %(default)s)")
    add("--batch-size", type=positive(int), default=16, metavar="N",
        help="parts of the text that are read side by side (default: %(default)s)")  # fmt: skip
    add("--bptt", type=positive(int), default=35, metavar="N", help="words of each part a step (default: %(default)s)")
    rates = ", ".join(f"{rate} with {name}" for name, rate in LEARNING_RATES.items())
    add("--lr", type=positive(float), metavar="RATE", help=f"peak of the one-cycle schedule (default: {rates})")
    add("--clip", type=positive(float), default=0.25, metavar="NORM", help="of the gradients (default: %(default)s)")
    add("--seed", type=seed, default=0, metavar="N", help="of weights and of what is written (default: %(default)s)")
    add("--device", choices=DEVICES, default=ndl.default_device().name, help="(default: %(default)s)")
    add("--checkpoint", type=Path, default=Path("checkpoints/train_lm.npz"), metavar="FILE",
        help="where the state is saved (default: %(default)s)")  # fmt: skip
    add("--resume", action="store_true", help="go on from the checkpoint, with its settings")
    add("--prompt", default="", metavar="TEXT", help="what the model goes on from (default: the end of a line)")
    add("--words", type=positive(int), default=100, metavar="N", help="how many it writes (default: %(default)s)")
    add("--temperature", type=positive(float), default=0.8, metavar="T",
        help="below 1 it prefers what is likely, above 1 what is not (default: %(default)s)")  # fmt: skip
    return parser


def train(args: argparse.Namespace, saved: dict[str, Any] | None) -> Result:
    """Train a model, save its state and print a line after each epoch, and print what it writes."""
    ndl.manual_seed(args.seed)
    run = Run(args)
    prompt = run.prompt()
    if saved is not None:
        run.restore(saved)
    args.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    check_writable(args.checkpoint)  # before the work, not after it

    words, corpus = len(run.corpus.dictionary), run.corpus
    unigram = unigram_perplexity(corpus.train, run.test[1:], words)
    print(f"{args.model}, {sum(p.size for p in run.model.parameters()):,} parameters, on {run.device}")
    print_device(run.device)
    print(f"{len(corpus.train):,} words for training and {len(corpus.test):,} for testing, {words:,} different ones")
    print(f"test perplexity of a unigram model: {unigram:.1f}\n")
    print("epoch  train ppl  test ppl  seconds", flush=True)
    try:
        train_epochs(run)
    except KeyboardInterrupt as interrupt:
        done = len(run.history)
        nothing = " in the first epoch; nothing is saved before its end"
        kept = f"; --resume goes on after epoch {done}" if done else nothing
        raise KeyboardInterrupt(kept) from interrupt
    tested = run.history[-1].test_perplexity
    text = run.write(prompt, args.words, args.temperature)
    print(f"\n{text}\n\nstate saved in {args.checkpoint}")
    return Result(run.model, tested, unigram, text)


def train_epochs(run: Run) -> None:
    """Train for the epochs that are left, and save the state after each; print a line for every one."""
    epochs = run.args.epochs
    for number in range(1, epochs + 1):
        if number > len(run.history):
            run.history.append(run.epoch(f"epoch {number}/{epochs}"))
            save(run.args.checkpoint, run.state())
        trained, tested, seconds = run.history[number - 1]
        print(f"{number:5}  {trained:9.1f}  {tested:8.1f}  {seconds:7.1f}", flush=True)


class Run:
    """A training run: texts, model, optimizer, schedule, and the epochs so far."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.device = args, device(args.device)
        try:
            self.corpus = Corpus(args.data_dir)
        except FileNotFoundError as error:
            raise ndl.OptionError(
                f"there is no {error.filename}; --data-dir takes a folder with train.txt and test.txt"
            ) from error
        self.train, self.test = self.cut("train.txt", self.corpus.train), self.cut("test.txt", self.corpus.test)
        self.model = LanguageModel(
            args.embedding_size, len(self.corpus.dictionary), args.hidden_size, args.layers,
            seq_model=args.model, seq_len=args.bptt, device=self.device,
        )  # fmt: skip
        rate = args.lr or LEARNING_RATES[args.model]
        self.optimizer = optim.Adam(self.model.parameters(), lr=rate)
        steps = args.epochs * len(self.starts(self.train))
        self.schedule = optim.OneCycleLR(self.optimizer, rate, total_steps=steps, cycle_momentum=False)
        self.history: list[Epoch] = []

    def prompt(self) -> list[int]:
        """Give the ids of the words that the model goes on from."""
        words, known = self.args.prompt.split(), self.corpus.dictionary.word2idx
        unknown = [word for word in dict.fromkeys(words) if word not in known]
        if unknown:
            raise ndl.OptionError(
                f"--prompt: the model does not know {', '.join(map(repr, unknown))}; use words of the training text, "
                "as they are written there"
            )
        return [known[word] for word in (END_OF_LINE, *words)]

    def cut(self, name: str, ids: list[int]) -> npt.NDArray[Any]:
        """Lay the parts of a text side by side; each has a word and a next one at least."""
        if len(ids) < 2 * self.args.batch_size:
            raise ndl.ShapeError(f"{name}: {len(ids)} words are too few for a --batch-size of {self.args.batch_size}")
        return batchify(ids, self.args.batch_size)

    def starts(self, text: npt.NDArray[Any]) -> range:
        """Give the rows with which the steps of an epoch begin."""
        return range(0, len(text) - 1, self.args.bptt)

    def batches(self, text: npt.NDArray[Any], starts: Iterable[int]) -> Iterable[tuple[ndl.Tensor, ndl.Tensor]]:
        """Give the inputs and labels of each step."""
        return (get_batch(text, i, self.args.bptt, device=self.device) for i in starts)

    def epoch(self, title: str) -> Epoch:
        """Read the training text once and learn, then the test text."""
        start = time.perf_counter()
        # disable=None: no bar where the output is no terminal
        bar = require("tqdm", extra="apps").tqdm(
            self.starts(self.train), title, leave=False, disable=None, unit="batch"
        )

        def after_batch(score: Score) -> None:
            if not math.isfinite(score.loss):
                raise ndl.OptionError(f"{title}: the loss is {score.loss}; try a smaller --lr")
            self.schedule.step()
            bar.set_postfix(perplexity=f"{perplexity(score.loss):.1f}", refresh=False)

        trained = run_epoch(
            carrying_state(self.model.train()), self.batches(self.train, bar), nn.SoftmaxLoss(), self.optimizer,
            clip=self.args.clip, after_batch=after_batch,
        )  # fmt: skip
        tested = run_epoch(
            carrying_state(self.model.eval()), self.batches(self.test, self.starts(self.test)), nn.SoftmaxLoss()
        )
        return Epoch(perplexity(trained.loss), perplexity(tested.loss), time.perf_counter() - start)

    def state(self) -> dict[str, Any]:
        """Give all that resuming takes."""
        settings = {name: value for name, value in vars(self.args).items() if name not in FREE_OPTIONS}
        return {
            "settings": settings | {"data_dir": str(self.args.data_dir.resolve())},
            "words": self.corpus.dictionary.idx2word,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "random": np.random.get_state(),
            "history": self.history,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        if saved["words"] != self.corpus.dictionary.idx2word:
            raise ndl.FileFormatError(
                f"{self.args.data_dir}: this is not the text of {self.args.checkpoint}; name that one by --data-dir"
            )
        try:
            self.model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
            self.schedule.load_state_dict(saved["schedule"])
            np.random.set_state(tuple(saved["random"]))
            self.history = [Epoch(*entries) for entries in saved["history"]]
        except (TypeError, ValueError) as error:
            raise ndl.FileFormatError(f"{self.args.checkpoint}: the state does not fit: {error}") from error

    def write(self, prompt: Sequence[int], words: int, temperature: float) -> str:
        """Go on from a prompt: each word is drawn by its probability after the `bptt` words before it."""
        ids = list(prompt)
        self.model.eval()
        with ndl.no_grad():
            for _ in range(words):
                latest = ndl.Tensor(np.array(ids[-self.args.bptt :])[:, np.newaxis], device=self.device)  # (seq,batch)
                logits, _ = self.model(latest)
                probabilities = tempered(logits.numpy()[-1], temperature)
                ids.append(np.random.choice(len(probabilities), p=probabilities))
        return readable([self.corpus.dictionary.idx2word[i] for i in ids[1:]])


def tempered(logits: npt.NDArray[Any], temperature: float) -> npt.NDArray[np.float64]:
    """Give softmax(logits / temperature), in float64 and below the largest logit: right for any temperature."""
    with np.errstate(over="ignore"):
        powers = np.exp((logits.astype(np.float64) - logits.max()) / temperature)
    return np.asarray(powers / powers.sum())


def perplexity(loss: float) -> float:
    """Give e to the mean loss, or infinity."""
    with np.errstate(over="ignore"):
        return float(np.exp(np.float64(loss)))


def unigram_perplexity(train_ids: list[int], targets: npt.NDArray[Any], words: int) -> float:
    """Give the perplexity of a model that knows how often each word was seen, one being added to each count."""
    counts = np.bincount(train_ids, minlength=words) + 1
    return perplexity(-np.log(counts / counts.sum())[targets.astype(int)].mean())


def readable(words: Iterable[str]) -> str:
    """Join words, end lines, and put punctuation marks back to where they belong."""
    text = re.sub(rf" ?{END_OF_LINE} ?", "\n", " ".join(words))
    return re.sub(r" (?=[.,:;?!)])|(?<=\() ", "", text)


if __name__ == "__main__":
    main()
