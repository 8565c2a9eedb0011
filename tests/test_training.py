"""One pass over batches: what is counted, and what an optimizer, a norm and a function called after each do."""

import math

import numpy as np
import pytest

import needle as ndl
from needle import nn
from needle.data import DataLoader, NDArrayDataset
from needle.training import Score, on_device_of, run_epoch
from tests.devices import DEVICES
from tests.tolerances import assert_close

X, Y = np.random.RandomState(0).randn(10, 4), np.arange(10) % 3


@pytest.fixture
def model(device):
    return nn.Linear(4, 3, device=device, dtype="float64")


@pytest.fixture
def loader(device):
    return DataLoader(NDArrayDataset(X, Y), batch_size=4, device=device, dtype="float64")


def test_without_an_optimizer_it_only_counts(model, loader):
    before = model.state_dict()
    recorded = []

    def forward(x):
        logits = model(x)
        recorded.append(logits.op)
        return logits

    score = run_epoch(forward, loader, nn.SoftmaxLoss())
    logits = X @ before["weight"] + before["bias"]
    losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(10), Y]
    assert (score.correct, score.seen) == ((logits.argmax(1) == Y).sum(), 10)
    assert_close(score.loss, losses.mean())
    assert recorded == [None] * 3 and model.weight.grad is None
    assert all((model.state_dict()[name] == array).all() for name, array in before.items())


@pytest.mark.parametrize("clip", [None, 0.01])
def test_with_an_optimizer_it_takes_a_step_a_batch(model, loader, clip, device):
    twin = nn.Linear(4, 3, device=device, dtype="float64")
    twin.load_state_dict(model.state_dict())
    opts = [ndl.optim.SGD(module.parameters(), lr=0.1) for module in (model, twin)]
    total = 0.0
    for x, y in loader:
        loss = nn.SoftmaxLoss()(twin(x), y)
        opts[1].reset_grad()
        loss.backward()
        if clip:
            assert opts[1].clip_grad_norm(clip) > clip
        opts[1].step()
        total += loss.item() * len(y)
    score = run_epoch(model, loader, nn.SoftmaxLoss(), opts[0], clip=clip)
    assert_close(score.loss, total / 10)
    for name, array in model.state_dict().items():
        assert array.tobytes() == twin.state_dict()[name].tobytes()


def test_a_function_is_called_after_each_batch_with_the_score_so_far(model, loader):
    seen = []
    score = run_epoch(model, loader, nn.SoftmaxLoss(), after_batch=lambda score: seen.append((score.seen, score.loss)))
    assert [count for count, _ in seen] == [4, 8, 10] and seen[-1][1] == score.loss


def test_a_score_weighs_batches_by_their_size():
    score = Score()
    for labels, loss in ((np.array([0, 1, 1]), 1.0), (np.array([1]), 5.0)):
        score.add(ndl.Tensor(np.eye(2)[[0] * len(labels)]), ndl.Tensor(labels), loss)
    assert (score.accuracy, score.error, score.loss) == (0.25, 0.75, 2.0)


def test_a_score_of_nothing_is_no_number(model):
    score = run_epoch(model, [], nn.SoftmaxLoss())
    assert score == Score() and all(map(math.isnan, (score.accuracy, score.error, score.loss)))


def test_batches_stay_where_the_model_is(model, loader):
    batch = next(iter(loader))
    (same,) = on_device_of(model, [batch])
    assert all(part is other for part, other in zip(batch, same, strict=True))
    for device in DEVICES:
        elsewhere = ndl.Tensor([1.0], device=device)
        ((moved,),) = on_device_of(model, [(elsewhere,)])
        assert moved.device == model.weight.device and moved.numpy().tolist() == [1.0]
    assert list(on_device_of(nn.ReLU(), [(elsewhere,)])) == [(elsewhere,)]


def test_a_pass_that_was_broken_off_goes_on(model, loader):
    batches = list(loader)
    begun = run_epoch(model, batches[:1], nn.SoftmaxLoss())
    assert run_epoch(model, batches[1:], nn.SoftmaxLoss(), score=begun) == run_epoch(model, batches, nn.SoftmaxLoss())
