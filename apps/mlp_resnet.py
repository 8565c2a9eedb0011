"""The course's multilayer perceptron with residual blocks, on MNIST."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import needle as ndl
from needle import nn
from needle.training import on_device_of, run_epoch


def ResidualBlock(
    dim: int, hidden_dim: int, norm: Callable[[int], nn.Module] = nn.BatchNorm1d, drop_prob: float = 0.1
) -> nn.Module:
    """Make relu(x + f(x)), f being Linear, norm, ReLU, Dropout, Linear, norm."""
    f = nn.Sequential(
        nn.Linear(dim, hidden_dim),
        norm(hidden_dim),
        nn.ReLU(),
        nn.Dropout(drop_prob),
        nn.Linear(hidden_dim, dim),
        norm(dim),
    )
    return nn.Sequential(nn.Residual(f), nn.ReLU())


def MLPResNet(
    dim: int,
    hidden_dim: int = 100,
    num_blocks: int = 3,
    num_classes: int = 10,
    norm: Callable[[int], nn.Module] = nn.BatchNorm1d,
    drop_prob: float = 0.1,
) -> nn.Module:
    """Make Linear, ReLU, residual blocks with half the width inside, Linear."""
    return nn.Sequential(
        nn.Linear(dim, hidden_dim),
        nn.ReLU(),
        *(ResidualBlock(hidden_dim, hidden_dim // 2, norm, drop_prob) for _ in range(num_blocks)),
        nn.Linear(hidden_dim, num_classes),
    )


def epoch(
    dataloader: ndl.data.DataLoader, model: nn.Module, opt: ndl.optim.Optimizer | None = None
) -> tuple[float, float]:
    """Run one epoch, of training if there is an optimizer and of evaluation if not; seeds NumPy with 4 first.

    Returns error rate and loss, averaged over the samples.
    """
    np.random.seed(4)
    model.train(opt is not None)
    flat = ((X.reshape((len(X), -1)), y) for X, y in on_device_of(model, dataloader))
    score = run_epoch(model, flat, nn.SoftmaxLoss(), opt)
    return score.error, score.loss


def train_mnist(
    batch_size: int = 100,
    epochs: int = 10,
    optimizer: Callable[..., ndl.optim.Optimizer] = ndl.optim.Adam,
    lr: float = 0.001,
    weight_decay: float = 0.001,
    hidden_dim: int = 100,
    data_dir: str | Path = "data",
) -> tuple[float, float, float, float]:
    """Train an MLPResNet on the MNIST files of a folder; seeds NumPy with 4, then builds the model.

    Returns the training error and loss of the last epoch, and the test error and loss after it.
    """
    np.random.seed(4)
    model = MLPResNet(28 * 28, hidden_dim)
    opt = optimizer(model.parameters(), lr=lr, weight_decay=weight_decay)
    train, test = (
        ndl.data.MNISTDataset(
            Path(data_dir, f"{part}-images-idx3-ubyte.gz"), Path(data_dir, f"{part}-labels-idx1-ubyte.gz")
        )
        for part in ("train", "t10k")
    )
    train_loader = ndl.data.DataLoader(train, batch_size, shuffle=True)
    for _ in range(epochs):
        train_error, train_loss = epoch(train_loader, model, opt)
    test_error, test_loss = epoch(ndl.data.DataLoader(test, batch_size), model)
    return train_error, train_loss, test_error, test_loss


if __name__ == "__main__":
    try:
        print("train error, train loss, test error, test loss:", train_mnist(data_dir="data"))
    except FileNotFoundError as error:
        sys.exit(
            f"mlp_resnet: there is no {error.filename}; put MNIST's four files, "
            "{train,t10k}-{images-idx3,labels-idx1}-ubyte.gz, into a folder data (Debian, Ubuntu: "
            "apt install dataset-fashion-mnist, then ln -s /usr/share/datasets/fashion-mnist data)"
        )
