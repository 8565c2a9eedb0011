"""Losses. Targets of cross entropy are data of its op, not inputs of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from needle import backend_ndarray as nd
from needle.autograd import NDArray, Tensor, TensorOp
from needle.backend_ndarray.dtypes import as_ndarray, check_floating
from needle.errors import BoundsError, OptionError, ShapeError
from needle.ops.arguments import constant, number, tensor
from needle.ops.reduce import summation
from needle.ops.selection import masked_fill
from needle.ops.shape import unsqueeze
from needle.ops.softmax import LogSoftmax, softmax

Ndarray = np.ndarray[Any, Any]


class CrossEntropy(TensorOp):
    """-sum(target * logsoftmax(logits)) along the axis of the classes. A target of 0 ignores an infinite logit."""

    def __init__(self, target: NDArray, axis: int) -> None:
        self.target, self.axis = target, axis

    def compute(self, logits: NDArray) -> NDArray:
        terms = self.target * LogSoftmax(self.axis).compute(logits)
        return -nd.where(self.target == 0, 0, terms).sum(self.axis)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        target = Tensor.make_const(self.target)
        total = summation(target, self.axis, keepdims=True)
        return unsqueeze(out_grad, self.axis) * (softmax(node.inputs[0], self.axis) * total - target)


def cross_entropy(
    logits: Tensor,
    y: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Compare logits with labels, or with class probabilities: -sum(target * logsoftmax(logits)), as PyTorch does.

    Args:
        logits: (N,C), (N,C,...) with the classes along axis 1, or (C,).
        y: labels, of the logits' shape without the classes and of any dtype with whole values; or probabilities, of
            the logits' shape. A Tensor or an array; no gradient reaches it.
        weight: (C,), a factor for each class.
        ignore_index: rows with this label count nowhere, whatever their logits. For labels only.
        reduction: "mean": over the rows, for labels each weighing what its class weighs (NaN over no rows); "sum";
            "none": each row's loss.
        label_smoothing: the share of each target, between 0 and 1, that is spread evenly over all classes.

    Raises:
        BoundsError: a label that is no class, named with its place.
        ShapeError: shapes that do not fit.
        OptionError: an option out of range.

    >>> import needle as ndl
    >>> logits = ndl.Tensor([[0.0, 1000.0], [1000.0, 0.0]])
    >>> cross_entropy(logits, [1, 1], reduction="none").numpy().tolist()
    [0.0, 1000.0]
    """
    name = "cross_entropy"
    _check_options(reduction, label_smoothing)
    axis = min(1, tensor(name, logits, "logits").ndim - 1)
    if axis < 0 or logits.shape[axis] == 0:
        raise ShapeError(
            f"{name}: the logits must have the axes C, N,C or N,C,... with C > 0, got shape {logits.shape}"
        )
    check_floating(name, "the logits", logits.dtype)
    weights, y = _weights(weight, logits, axis), as_ndarray(name, y)
    if y.shape == logits.shape:
        if ignore_index != -100:
            raise OptionError(f"{name}: ignore_index needs labels, not probabilities; give such rows the target 0")
        target, counted = y.astype(logits.dtype), np.array(True)
        count = y.size / y.shape[axis]
    else:
        target, counted = _one_hot(y, number(name, "ignore_index", ignore_index), logits, axis)
        count = float((target * weights).sum(dtype=np.float64))
        if not counted.all():  # NaN in an ignored row reaches neither the loss nor a gradient
            logits = masked_fill(logits, ~counted, 0)
    if label_smoothing:
        target = (1 - label_smoothing) * target + label_smoothing / logits.shape[axis] * counted
    target = weights * target
    losses = CrossEntropy(nd.array(target, dtype=logits.dtype, device=logits.device), axis)(logits)
    return _reduce(losses, reduction, count)


def mse_loss(prediction: Tensor, target: Any, reduction: str = "mean") -> Tensor:
    """Take the squares of prediction - target, and their mean, their sum or (reduction="none") neither.

    `target` is a Tensor or an array of the prediction's shape: nothing is broadcast.

    >>> import needle as ndl
    >>> mse_loss(ndl.Tensor([1.0, 5.0]), [1.0, 2.0]).numpy().tolist()
    4.5
    """
    _check_reduction("mse_loss", reduction)
    target = constant("mse_loss", target, tensor("mse_loss", prediction, "prediction"))
    if prediction.shape != target.shape:
        raise ShapeError(f"mse_loss: prediction {prediction.shape} and target {target.shape} must have one shape")
    distance = prediction - target
    return _reduce(distance * distance, reduction, distance.size)


def _reduce(losses: Tensor, reduction: str, count: float) -> Tensor:
    if reduction == "none":
        return losses
    return summation(losses) if reduction == "sum" else summation(losses) / (count or np.nan)


def _one_hot(labels: Ndarray, ignore_index: float, logits: Tensor, axis: int) -> tuple[Ndarray, Ndarray]:
    """Give 1 at each label and 0 elsewhere, in the logits' shape, and (axis kept) whether the label counts."""
    shape, classes = logits.shape, logits.shape[axis]
    if labels.shape != shape[:axis] + shape[axis + 1 :]:
        raise ShapeError(
            f"cross_entropy: y of shape {labels.shape} does not fit logits {shape}; give labels of shape "
            f"{shape[:axis] + shape[axis + 1 :]} or probabilities of shape {shape}"
        )
    labels = np.expand_dims(labels, axis)
    every = np.arange(classes).reshape(-1, *[1] * (len(shape) - axis - 1))
    hot, counted = labels == every, labels != ignore_index
    astray = counted & ~hot.any(axis, keepdims=True)
    if astray.any():
        place = tuple(int(i) for i in np.delete(np.argwhere(astray)[0], axis))
        raise BoundsError(
            f"cross_entropy: label {labels[astray][0]} at {place} is none of the {classes} classes, "
            f"which are counted from 0 to {classes - 1}"
        )
    return (hot & counted).astype(logits.dtype), counted


def _weights(weight: Any, logits: Tensor, axis: int) -> Ndarray:
    """Give the classes' factors, in a shape that broadcasts to the logits."""
    classes = logits.shape[axis]
    weights = np.ones(classes) if weight is None else as_ndarray("cross_entropy", weight)
    if weights.shape != (classes,):
        raise ShapeError(f"cross_entropy: weight has shape {weights.shape}; one factor per class is {(classes,)}")
    return weights.astype(logits.dtype).reshape(-1, *[1] * (logits.ndim - axis - 1))


def _check_options(reduction: str, label_smoothing: float) -> None:
    _check_reduction("cross_entropy", reduction)
    if not 0 <= number("cross_entropy", "label_smoothing", label_smoothing) <= 1:
        raise OptionError(f"cross_entropy: label_smoothing must be between 0 and 1, got {label_smoothing}")


def _check_reduction(op: str, reduction: str) -> None:
    if reduction not in ("mean", "sum", "none"):
        raise OptionError(f'{op}: reduction must be "mean", "sum" or "none", got {reduction!r}')
