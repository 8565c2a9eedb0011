"""The course's training loops: two layers on MNIST, convolutional networks on CIFAR-10, language models on text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import needle as ndl
from needle import nn
from needle.data import get_batch
from needle.training import on_device_of, run_epoch


def parse_mnist(image_file: str | Path, label_file: str | Path) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Read a pair of IDX files: images as float32 (n, rows * columns) in 0..1, and labels as uint8 (n,)."""
    dataset = ndl.data.MNISTDataset(image_file, label_file)
    return dataset.images.reshape(len(dataset), -1), dataset.labels


def softmax_loss(Z: ndl.Tensor, y_one_hot: ndl.Tensor) -> ndl.Tensor:
    """Average log sum exp(Z_i) - Z_i[y_i] over the batch; Z and y_one_hot are (batch, classes)."""
    return (ndl.ops.logsumexp(Z, axes=1).sum() - (Z * y_one_hot).sum()) / Z.shape[0]


def nn_epoch(
    X: npt.NDArray[Any],
    y: npt.NDArray[Any],
    W1: ndl.Tensor,
    W2: ndl.Tensor,
    lr: float = 0.1,
    batch: int = 100,
) -> tuple[ndl.Tensor, ndl.Tensor]:
    """Run one epoch of SGD, in the order of X and without bias terms, on logits = relu(X W1) W2; return new weights."""
    targets = np.eye(W2.shape[1], dtype=W2.dtype)[y]
    for start in range(0, len(X), batch):
        x, y_one_hot = (
            ndl.Tensor(a[start : start + batch], device=W1.device, requires_grad=False) for a in (X, targets)
        )
        gradients = ndl.grad(softmax_loss(ndl.relu(x @ W1) @ W2, y_one_hot), [W1, W2])
        W1, W2 = (ndl.Tensor(W.data - lr * g.data) for W, g in zip((W1, W2), gradients, strict=True))
    return W1, W2


def loss_err(h: ndl.Tensor, y: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Any]:
    """Return the softmax loss and the error rate of logits h (n, classes) for labels y (n,)."""
    y_one_hot = ndl.Tensor(np.eye(h.shape[1], dtype=h.dtype)[y], device=h.device)
    return softmax_loss(h, y_one_hot).numpy(), np.mean(h.numpy().argmax(axis=1) != y)


def epoch_general_cifar10(
    dataloader: ndl.data.DataLoader,
    model: nn.Module,
    loss_fn: Callable[..., ndl.Tensor] = nn.SoftmaxLoss(),  # noqa: B008  (it holds no state)
    opt: ndl.optim.Optimizer | None = None,
) -> tuple[float, float]:
    """Run one epoch, of training if there is an optimizer and of evaluation if not; seeds NumPy with 4 first.

    Returns accuracy and loss, averaged over the samples.
    """
    np.random.seed(4)
    model.train(opt is not None)
    score = run_epoch(model, on_device_of(model, dataloader), loss_fn, opt)
    return score.accuracy, score.loss


def train_cifar10(
    model: nn.Module,
    dataloader: ndl.data.DataLoader,
    n_epochs: int = 1,
    optimizer: Callable[..., ndl.optim.Optimizer] = ndl.optim.Adam,
    lr: float = 0.001,
    weight_decay: float = 0.001,
    loss_fn: type[nn.Module] = nn.SoftmaxLoss,
) -> tuple[float, float]:
    """Train for some epochs; seeds NumPy with 4 first. Returns accuracy and loss of the last, while it trained."""
    np.random.seed(4)
    opt = optimizer(model.parameters(), lr=lr, weight_decay=weight_decay)
    for _ in range(n_epochs):
        accuracy, loss = epoch_general_cifar10(dataloader, model, loss_fn(), opt)
    return accuracy, loss


def evaluate_cifar10(
    model: nn.Module, dataloader: ndl.data.DataLoader, loss_fn: type[nn.Module] = nn.SoftmaxLoss
) -> tuple[float, float]:
    """Return accuracy and loss over a data set; seeds NumPy with 4 first."""
    return epoch_general_cifar10(dataloader, model, loss_fn())


def epoch_general_ptb(
    data: npt.NDArray[Any],
    model: nn.Module,
    seq_len: int = 40,
    loss_fn: Callable[..., ndl.Tensor] = nn.SoftmaxLoss(),  # noqa: B008  (it holds no state)
    opt: ndl.optim.Optimizer | None = None,
    clip: float | None = None,
    device: ndl.BackendDevice | None = None,
    dtype: Any = "float32",
) -> tuple[float, float]:
    """Run one epoch over what `batchify` gave, as `epoch_general_cifar10` does over images.

    Pieces of `seq_len` rows follow each other, and each begins with the state in which the one before ended, cut off
    from its graph. Returns accuracy and loss, averaged over the words.
    """
    np.random.seed(4)
    model.train(opt is not None)
    pieces = (get_batch(data, i, seq_len, device=device, dtype=dtype) for i in range(0, len(data) - 1, seq_len))
    score = run_epoch(carrying_state(model), on_device_of(model, pieces), loss_fn, opt, clip=clip)
    return score.accuracy, score.loss


def carrying_state(model: nn.Module) -> Callable[[ndl.Tensor], ndl.Tensor]:
    """Make a function that calls a language model with the state its last call left, cut off from that call's graph."""
    state: Any = None

    def forward(x: ndl.Tensor) -> ndl.Tensor:
        nonlocal state
        logits, state = model(x, state)
        state = tuple(part.detach() for part in state) if isinstance(state, tuple) else state.detach()
        return logits

    return forward


def train_ptb(
    model: nn.Module,
    data: npt.NDArray[Any],
    seq_len: int = 40,
    n_epochs: int = 1,
    optimizer: Callable[..., ndl.optim.Optimizer] = ndl.optim.SGD,
    lr: float = 4.0,
    weight_decay: float = 0.0,
    loss_fn: type[nn.Module] = nn.SoftmaxLoss,
    clip: float | None = None,
    device: ndl.BackendDevice | None = None,
    dtype: Any = "float32",
) -> tuple[float, float]:
    """Train for some epochs; seeds NumPy with 4 first. Returns accuracy and loss of the last, while it trained."""
    np.random.seed(4)
    opt = optimizer(model.parameters(), lr=lr, weight_decay=weight_decay)
    for _ in range(n_epochs):
        accuracy, loss = epoch_general_ptb(data, model, seq_len, loss_fn(), opt, clip, device, dtype)
    return accuracy, loss


def evaluate_ptb(
    model: nn.Module,
    data: npt.NDArray[Any],
    seq_len: int = 40,
    loss_fn: type[nn.Module] = nn.SoftmaxLoss,
    device: ndl.BackendDevice | None = None,
    dtype: Any = "float32",
) -> tuple[float, float]:
    """Return accuracy and loss over a text; seeds NumPy with 4 first."""
    return epoch_general_ptb(data, model, seq_len, loss_fn(), device=device, dtype=dtype)
