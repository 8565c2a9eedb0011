"""Losses as modules; the maths is in `needle.ops.loss`."""

from __future__ import annotations

from typing import Any

from needle import ops
from needle.autograd import Tensor
from needle.nn.module import Module


class SoftmaxLoss(Module):
    """The mean over the batch of the cross entropy of softmax(logits) (N,C) and y.

    A 1-D y, of any dtype with whole values, holds labels; a y of the logits' shape holds rows of probabilities.

    >>> SoftmaxLoss()(Tensor([[0.0, 0.0]]), Tensor([1.0])).numpy().round(4).tolist()
    0.6931
    """

    def forward(self, logits: Tensor, y: Tensor) -> Tensor:
        return ops.cross_entropy(logits, y)


class CrossEntropyLoss(Module):
    """The cross entropy of softmax(logits) and labels or probabilities, with the options of `ops.cross_entropy`.

    Args:
        weight: (C,), what each class counts.
        ignore_index: rows with this label count nothing.
        label_smoothing: how much of the target is spread evenly over all classes.
        reduction: "mean", "sum" or "none".

    >>> CrossEntropyLoss(reduction="sum")(Tensor([[0.0, 0.0]] * 2), Tensor([1, 0])).numpy().round(4).tolist()
    1.3863
    """

    def __init__(
        self,
        weight: Any = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.weight: Tensor | None
        self.register_buffer("weight", None if weight is None else Tensor(weight, requires_grad=False))
        self.ignore_index, self.label_smoothing, self.reduction = ignore_index, label_smoothing, reduction

    def forward(self, logits: Tensor, y: Tensor) -> Tensor:
        return ops.cross_entropy(
            logits,
            y,
            weight=self.weight,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            reduction=self.reduction,
        )

    def extra_repr(self) -> str:
        return f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, reduction={self.reduction!r}"


class MSELoss(Module):
    """The squared difference of prediction and target: its mean, its sum, or "none" for each element's.

    >>> MSELoss()(Tensor([1.0, 2.0]), Tensor([1.0, 4.0])).numpy().tolist()
    2.0
    """

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        return ops.mse_loss(prediction, target, self.reduction)

    def extra_repr(self) -> str:
        return f"reduction={self.reduction!r}"
