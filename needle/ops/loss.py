"""Losses. Targets of cross entropy are data of its op, not inputs of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from needle import backend_ndarray as nd
from needle.autograd import NDArray, Tensor, TensorOp
from needle.backend_ndarray import layers
from needle.backend_ndarray.dtypes import INT64, as_ndarray, check_floating
from needle.errors import BoundsError, OptionError, ShapeError
from needle.ops.arguments import constant, fraction, number, tensor
from needle.ops.indexing import gather
from needle.ops.reduce import summation
from needle.ops.selection import masked_fill
from needle.ops.shape import reshape, unsqueeze
from needle.ops.softmax import softmax

Ndarray = np.ndarray[Any, Any]


class CrossEntropy(TensorOp):
    """-sum(target * logsoftmax(logits)) along the axis of the classes. A target of 0 ignores an infinite logit."""

    def __init__(self, target: NDArray, axis: int) -> None:
        self.target, self.axis = target, axis

    def compute(self, logits: NDArray) -> NDArray:
        terms = self.target * logits.log_softmax(self.axis)
        return -nd.where(self.target == 0, 0, terms).sum(self.axis)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        target = Tensor.make_const(self.target)
        total = summation(target, self.axis, keepdims=True)
        return unsqueeze(out_grad, self.axis) * (softmax(node.inputs[0], self.axis) * total - target)


class LabelCrossEntropy(TensorOp):
    """-logsoftmax(logits)[label] along the axis of the classes: one label a row. Two numbers a row are kept."""

    largest: NDArray
    inverse: NDArray

    def __init__(self, labels: NDArray, axis: int) -> None:
        self.labels, self.axis = labels, axis

    def compute(self, logits: NDArray) -> NDArray:
        losses, self.largest, self.inverse = layers.cross_entropy(logits, self.labels, self.axis)
        return losses

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return LabelCrossEntropyGradient(self)(out_grad, node.inputs[0])


class LabelCrossEntropyGradient(TensorOp):
    """d * (softmax(logits) - 1 at the labels), d being one number a row."""

    def __init__(self, forward: LabelCrossEntropy) -> None:
        self.forward = forward

    def compute(self, d: NDArray, logits: NDArray) -> NDArray:
        op = self.forward
        return layers.cross_entropy_gradient(d, logits, op.labels, op.largest, op.inverse, op.axis)

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
        (d, logits), axis = node.inputs, self.forward.axis
        powers = softmax(logits, axis)
        mean = summation(out_grad * powers, axis, keepdims=True)
        at_labels = gather(out_grad, axis, np.expand_dims(self.forward.labels.numpy(), axis))
        return reshape(mean - at_labels, d.shape), unsqueeze(d, axis) * powers * (out_grad - mean)


def cross_entropy(
    logits: Tensor,
    y: Any,
    weight: Any = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Compare logits with labels, or with class probabilities: -sum(target * logsoftmax(logits)), as PyTorch does.

    Args:
        logits: (N,C), (N,C,...) with the classes along axis 1, or (C,).
        y: labels, of the logits' shape without the classes and of any dtype with whole values; or probabilities, of
            the logits' shape. A Tensor or an array; no gradient reaches it.
        weight: (C,), a factor for each class.
        ignore_index: rows with this label (PyTorch's -100, say) count nowhere, whatever their logits. For labels only.
        reduction: "mean": over the rows, for labels each weighing what its class weighs (NaN over no rows); "sum";
            "none": each row's loss, in float32 within 2**-22 * (1 + loss) times its weight.
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
    _check_reduction(name, reduction)
    label_smoothing = fraction(name, "label_smoothing", label_smoothing)
    axis = min(1, tensor(name, logits, "logits").ndim - 1)
    if axis < 0 or logits.shape[axis] == 0:
        raise ShapeError(
            f"{name}: the logits must have the axes C, N,C or N,C,... with C > 0, got shape {logits.shape}"
        )
    check_floating(name, "the logits", logits.dtype)
    y = as_ndarray(name, y)
    if weight is None and ignore_index is None and not label_smoothing and y.shape != logits.shape:
        labels = _labels(y, None, logits, axis)[0]
        return _reduce(_label_losses(logits, labels, axis), reduction, labels.size)
    weights = _weights(weight, logits.shape[axis]).astype(logits.dtype)
    per_class = (-1, *[1] * (logits.ndim - axis - 1))
    if y.shape == logits.shape:
        if ignore_index is not None:
            raise OptionError(f"{name}: ignore_index needs labels, not probabilities; give such rows the target 0")
        target, counted, count = y.astype(logits.dtype), np.array(True), y.size / y.shape[axis]
    else:
        ignored = None if ignore_index is None else number(name, "ignore_index", ignore_index)
        labels, row_counts = _labels(y, ignored, logits, axis)
        row_weights, counted = weights[labels] * row_counts, np.expand_dims(row_counts, axis)
        count = float(row_weights.sum(dtype=np.float64))
        if not counted.all():  # NaN in an ignored row reaches neither the loss nor a gradient
            logits = masked_fill(logits, ~counted, 0)
        if not label_smoothing:
            losses = _label_losses(logits, labels, axis)
            if (row_weights != 1).any():
                losses = masked_fill(losses * Tensor.make_const(_like(logits, row_weights)), row_weights == 0, 0)
            return _reduce(losses, reduction, count)
        target = (np.expand_dims(labels, axis) == np.arange(logits.shape[axis]).reshape(per_class)) * counted
    if label_smoothing:
        target = (1 - label_smoothing) * target + label_smoothing / logits.shape[axis] * counted
    losses = CrossEntropy(_like(logits, weights.reshape(per_class) * target), axis)(logits)
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


def _label_losses(logits: Tensor, labels: Ndarray, axis: int) -> Tensor:
    return LabelCrossEntropy(nd.array(labels, dtype=INT64, device=logits.device), axis)(logits)


def _like(logits: Tensor, values: Ndarray) -> NDArray:
    return nd.array(values, dtype=logits.dtype, device=logits.device)


def _labels(y: Ndarray, ignored: float | None, logits: Tensor, axis: int) -> tuple[Ndarray, Ndarray]:
    """Give the labels as integers, 0 where they do not count, and whether they count."""
    shape, classes = logits.shape, logits.shape[axis]
    if y.shape != shape[:axis] + shape[axis + 1 :]:
        raise ShapeError(
            f"cross_entropy: y of shape {y.shape} does not fit logits {shape}; give labels of shape "
            f"{shape[:axis] + shape[axis + 1 :]} or probabilities of shape {shape}"
        )
    counted = np.ones(y.shape, bool) if ignored is None else np.asarray(y != ignored)
    if ignored is None and y.size and y.dtype.kind in "iu" and 0 <= y.min() and y.max() < classes:
        return y, counted
    astray = counted & ~((y >= 0) & (y < classes) & (y == np.floor(y)))
    if astray.any():
        place = tuple(np.argwhere(astray)[0].tolist())
        raise BoundsError(
            f"cross_entropy: label {y[place]} at {place} is none of the {classes} classes, "
            f"which are counted from 0 to {classes - 1}"
        )
    return np.where(counted, y, 0).astype(np.int64), counted


def _weights(weight: Any, classes: int) -> Ndarray:
    """Give one factor per class."""
    weights = np.ones(classes) if weight is None else as_ndarray("cross_entropy", weight)
    if weights.shape != (classes,):
        raise ShapeError(f"cross_entropy: weight has shape {weights.shape}; one factor per class is {(classes,)}")
    return weights


def _check_reduction(op: str, reduction: str) -> None:
    if reduction not in ("mean", "sum", "none"):
        raise OptionError(f'{op}: reduction must be "mean", "sum" or "none", got {reduction!r}')
