"""One pass over batches, which training loops come to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

from needle.autograd import Tensor, no_grad
from needle.nn import Module
from needle.optim import Optimizer


@dataclass
class Score:
    """How well labels were predicted, so many of them having been seen.

    >>> score = Score(correct=9, seen=10, total_loss=5.0)
    >>> score.accuracy, score.error, score.loss
    (0.9, 0.1, 0.5)
    """

    correct: int = 0
    seen: int = 0
    total_loss: float = 0.0

    @property
    def accuracy(self) -> float:
        """The share of labels that were predicted; NaN where there were none."""
        return self.correct / self.seen if self.seen else float("nan")

    @property
    def error(self) -> float:
        """The share of labels that were not predicted; NaN where there were none."""
        return (self.seen - self.correct) / self.seen if self.seen else float("nan")

    @property
    def loss(self) -> float:
        """The mean loss; NaN where there were no labels."""
        return self.total_loss / self.seen if self.seen else float("nan")

    def add(self, logits: Tensor, labels: Tensor, loss: float) -> None:
        """Count a batch: logits (n, classes), labels (n,) and their mean loss."""
        self.correct += int((logits.numpy().argmax(axis=1) == labels.numpy()).sum())
        self.seen += len(labels)
        self.total_loss += loss * len(labels)


def on_device_of(model: Module, batches: Iterable[tuple[Tensor, ...]]) -> Iterator[tuple[Tensor, ...]]:
    """Bring batches to the device of a model's parameters; tensors that are there stay as they are.

    >>> import needle as ndl
    >>> model = ndl.nn.Linear(2, 3, device=ndl.cpu_numpy())
    >>> [(x, y)] = on_device_of(model, [(ndl.Tensor([[1.0, 2.0]]), ndl.Tensor([0]))])
    >>> x.device, y.device
    (cpu_numpy(), cpu_numpy())
    """
    parameters = model.parameters()
    for batch in batches:
        yield tuple([part.to(parameters[0].device) for part in batch]) if parameters else batch


def run_epoch(
    forward: Callable[[Tensor], Tensor],
    batches: Iterable[tuple[Tensor, ...]],
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    opt: Optimizer | None = None,
    *,
    clip: float | None = None,
    after_batch: Callable[[Score], object] = lambda score: None,
    score: Score | None = None,
) -> Score:
    """Run once over pairs of inputs and labels; with an optimizer, take a step after each.

    Args:
        forward: gives logits (n, classes) for inputs: a model, in the mode that is wanted, or a function that calls it.
        batches: inputs and labels (n,), such as a DataLoader gives.
        loss_fn: gives the mean loss of a batch.
        opt: without it, nothing is recorded and nothing learned.
        clip: the norm to which all gradients together are limited before a step.
        after_batch: called with the score so far.
        score: what to go on from: that of a pass that was broken off.

    Returns:
        The score of the predictions as they were made, during training that is.

    >>> import needle as ndl
    >>> model, data = ndl.nn.Sequential(ndl.nn.Flatten(), ndl.nn.Linear(64, 10)), ndl.data.Digits(train=True)
    >>> opt = ndl.optim.Adam(model.parameters(), lr=0.03)
    >>> run_epoch(model, ndl.data.DataLoader(data, 64, shuffle=True), ndl.nn.SoftmaxLoss(), opt).accuracy > 0.5
    True
    """
    score = score or Score()
    with nullcontext() if opt else no_grad():
        for inputs, labels in batches:
            logits = forward(inputs)
            loss = loss_fn(logits, labels)
            if opt:
                opt.reset_grad()
                loss.backward(free_graph=True)
                if clip is not None:
                    opt.clip_grad_norm(clip)
                opt.step()
            score.add(logits, labels, loss.item())
            after_batch(score)
    return score
