"""CASES.md, section DA: data, randomness, process behaviour and the application."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import needle as ndl
from apps import mlp_resnet, simple_ml
from needle import init, nn, ops
from needle.data import DataLoader, Dataset, NDArrayDataset, RandomCrop, RandomFlipHorizontal
from needle.errors import DTypeError, GradientError
from needle.testing import check_gradients
from tests.tolerances import assert_close


def epochs(loader, count):
    return [[int(v) for batch in loader for v in batch[0].numpy().ravel()] for _ in range(count)]


def test_da01_every_epoch_has_its_own_order(device):
    loader = DataLoader(NDArrayDataset(np.arange(100)), batch_size=7, shuffle=True, device=device)
    np.random.seed(1)
    first = epochs(loader, 2)
    np.random.seed(1)
    assert epochs(loader, 2) == first
    assert first[0] != first[1] and [sorted(epoch) for epoch in first] == [list(range(100))] * 2


def test_da03_last_partial_batch(device):
    loader = DataLoader(NDArrayDataset(np.arange(5) * 10, np.arange(5)), batch_size=2, shuffle=True, device=device)
    batches = list(loader)
    assert len(loader) == 3 and [len(labels) for _, labels in batches] == [2, 2, 1]
    for images, labels in batches:
        assert_close(images.numpy(), labels.numpy() * 10)


class Batches:
    """A loader of given logits as images."""

    def __init__(self, tensor, *counts):
        self.batches = []
        for correct, size in counts:
            logits = np.tile([0.0, 1.0], (size, 1))
            logits[:correct] = [1.0, 0.0]
            self.batches.append((tensor(logits), tensor(np.zeros(size))))
        self.dataset = range(sum(size for _, size in counts))

    def __iter__(self):
        return iter(self.batches)

    def __len__(self):
        return len(self.batches)


def test_da05_epoch_mean_is_over_samples(tensor):
    loader = Batches(tensor, (179, 256), (205, 256), (9, 10))
    accuracy, _ = simple_ml.evaluate_cifar10(nn.Identity(), loader)
    error, _ = mlp_resnet.epoch(loader, nn.Identity())
    assert_close(float(accuracy), 0.7528736, rtol=0, atol=6e-8)
    assert_close(float(error), 1 - 0.7528736, rtol=0, atol=6e-8)


def test_da07_dropout_scaling(tensor):
    layer, x = nn.Dropout(p=0.5), tensor(np.ones(10_000))
    y = layer(x)
    y.backward()
    assert set(np.unique(y.numpy())) == {0.0, 2.0} and abs(y.numpy().mean() - 1) <= 0.05
    assert (x.grad.numpy() == y.numpy()).all()
    layer.eval()
    assert (layer(x).numpy() == x.numpy()).all()


class OneImage(Dataset):
    """The same image, transformed anew, sixteen times."""

    def __len__(self):
        return 16

    def read(self, index):
        return np.arange(64.0, dtype="float32").reshape(8, 8, 1), np.float32(index % 2)


class OneImageByItem(OneImage):
    def __getitem__(self, index):
        image, label = self.read(index)
        return self.apply_transforms(image), label


def augmented_run(device, kind, prefetch):
    """Train for two epochs with augmentation and dropout; give the crops and the weights."""
    np.random.seed(3)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Dropout(0.5), nn.Linear(8, 2)).to(device)
    opt = ndl.optim.SGD(model.parameters(), lr=0.001)
    dataset = kind([RandomFlipHorizontal(), RandomCrop(3)])
    crops = []
    for _ in range(2):
        for images, labels in DataLoader(dataset, batch_size=4, shuffle=True, prefetch=prefetch, device=device):
            crops += [crop.tobytes() for crop in images.numpy()]
            opt.reset_grad()
            nn.SoftmaxLoss()(model(images), labels).backward()
            opt.step()
    return crops, [p.numpy().tobytes() for p in model.parameters()]


@pytest.mark.parametrize("kind", [OneImage, OneImageByItem])
def test_da10_random_numbers_do_not_depend_on_reading_ahead(device, kind):
    crops, weights = augmented_run(device, kind, prefetch=0)
    assert len(set(crops)) > 16, "both epochs and all items draw their own crops"
    assert augmented_run(device, kind, prefetch=2) == (crops, weights) == augmented_run(device, kind, prefetch=0)


def run_python(code, **options):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}, **options,
    )  # fmt: skip


def test_da12_interrupt_stops_training(device):
    process = run_python(f"""
        import signal
        before = signal.getsignal(signal.SIGINT)
        import numpy as np, needle as ndl, needle.nn as nn
        assert signal.getsignal(signal.SIGINT) is before
        device = ndl.{device}
        x, model = ndl.Tensor(np.ones((8, 3, 32, 32)), device=device), nn.Conv(3, 8, 3, device=device)
        print("training", flush=True)
        while True:
            model(x).sum().backward()
    """)
    try:
        assert process.stdout.readline() == "training\n"
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        _, errors = process.communicate(timeout=20)
        assert time.monotonic() - sent < 2 and "KeyboardInterrupt" in errors
    finally:
        process.kill()


def test_da15_fan_in_of_convolution_weights(device):
    bound = np.sqrt(2) * np.sqrt(3 / 72)
    drawn = init.kaiming_uniform(3 * 3 * 8, 3 * 3 * 16, shape=(3, 3, 8, 16), device=device)
    for w in (drawn, nn.Conv(8, 16, 3, device=device).weight):
        assert w.shape == (3, 3, 8, 16) and 0.27 < abs(w.numpy()).max() <= bound
    assert_close(bound, 0.2886751, rtol=0, atol=6e-8)


def test_da17_gradient_checker_wants_float64(tensor):
    check_gradients(lambda x: x**3, tensor([1.5]))
    with pytest.raises(DTypeError, match="float64"):
        check_gradients(lambda x: x**3, tensor([1.5], dtype="float32"))


def test_da17_gradient_checker_rejects_ties(tensor):
    with pytest.raises(GradientError, match=r"tie|differentiable"):
        check_gradients(lambda x: ops.max_pool2d(x, 2), tensor([[[[1.0, 2], [2, 0]]]]))


def test_da20_two_imports_of_the_package():
    process = run_python("""
        import sys
        import needle as first
        for name in [name for name in sys.modules if name.split(".")[0] == "needle"]:
            del sys.modules[name]
        import needle as second
        for mix in (lambda a, b: a + b, lambda a, b: b @ a, first.ops.multiply, second.ops.add):
            try:
                mix(first.Tensor([[1.0]]), second.Tensor([[2.0]]))
            except TypeError as error:
                assert str(error).count("needle.autograd.Tensor") == 2, error
            else:
                raise AssertionError("tensors of two copies of the package were mixed")
    """)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
