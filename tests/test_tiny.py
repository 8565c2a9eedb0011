"""Seconds through the whole stack: a CNN with every kind of layer learns, is saved, and predicts the same again."""

import copy
import pickle

import numpy as np

import needle as ndl
from needle import nn, optim
from needle.data import DataLoader, Digits, NDArrayDataset


def network(device):
    return nn.Sequential(
        nn.Conv(1, 8, 3, device=device),
        nn.BatchNorm2d(8, device=device),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Residual(nn.Conv(8, 8, 3, device=device)),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(128, 10, device=device),
    )


def train(device):
    """Train on bars: class k has column k of an 8x8 image lit, row k - 8 for the last two."""
    np.random.seed(0)
    labels = np.arange(160) % 10
    images = 0.1 * np.random.rand(160, 1, 8, 8)
    for image, label in zip(images[:, 0], labels, strict=True):
        image[(slice(None), label) if label < 8 else (label - 8,)] = 1.0
    loader = DataLoader(NDArrayDataset(images, labels), batch_size=40, shuffle=True, device=device)
    model, losses = network(device), []
    opt = optim.Adam(model.parameters(), lr=0.01)
    for _ in range(8):
        for x, y in loader:
            opt.reset_grad()
            loss = nn.SoftmaxLoss()(model(x), y)
            loss.backward()
            optim.clip_grad_norm(model.parameters(), 5.0)
            opt.step()
            losses.append(loss.item())
    return model.eval() or model, ndl.Tensor(images, device=device), labels, losses


def test_a_network_learns(device):
    model, images, labels, losses = train(device)
    with ndl.no_grad():
        logits = model(images).numpy()
    assert losses[-1] < 0.2 * losses[0]
    assert (logits.argmax(1) == labels).mean() > 0.95
    other = network(device)
    other.eval()
    other.load_state_dict(model.state_dict())
    for twin in (other, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin(images).numpy().tobytes() == logits.tobytes()


def test_two_runs_give_the_same_bits(device):
    first, second = (train(device) for _ in range(2))
    assert first[3] == second[3]
    assert [p.numpy().tobytes() for p in first[0].parameters()] == [p.numpy().tobytes() for p in second[0].parameters()]


def test_embedded_digits():
    train_set, test_set = Digits(train=True), Digits(train=False)
    assert (len(train_set), len(test_set)) == (1442, 355)
    images, labels = train_set[:100]
    assert len(images) == len(labels) == 100
    assert set(np.unique(labels)) == set(range(10))
    assert np.ptp(images) > 0


def test_version():
    assert isinstance(ndl.__version__, str)
