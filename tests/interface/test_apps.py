"""INTERFACE.md, "apps"."""

import gzip
import importlib
import inspect
import struct

import numpy as np
import pytest

import needle as ndl
from apps import mlp_resnet, models, simple_ml
from needle import nn
from needle.data import DataLoader, NDArrayDataset
from tests.tolerances import assert_close


def write_idx(folder, prefix, count):
    pixels, labels = np.random.randint(0, 256, (count, 28, 28), "uint8"), np.arange(count, dtype="uint8") % 10
    for name, header, content in (
        (f"{prefix}-images-idx3-ubyte.gz", struct.pack(">4i", 2051, count, 28, 28), pixels),
        (f"{prefix}-labels-idx1-ubyte.gz", struct.pack(">2i", 2049, count), labels),
    ):
        with gzip.open(folder / name, "wb") as file:
            file.write(header + content.tobytes())
    return pixels, labels


def test_parse_mnist(tmp_path):
    pixels, labels = write_idx(tmp_path, "train", 5)
    images, y = simple_ml.parse_mnist(
        str(tmp_path / "train-images-idx3-ubyte.gz"), str(tmp_path / "train-labels-idx1-ubyte.gz")
    )
    assert (images.shape, images.dtype, y.dtype) == ((5, 784), np.float32, np.uint8)
    np.testing.assert_allclose(images, pixels.reshape(5, 784) / 255, rtol=1e-6)
    assert (y == labels).all()


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def test_softmax_loss():
    logits, labels = np.random.randn(6, 4), np.arange(6) % 4
    one_hot = np.eye(4)[labels]
    z = ndl.Tensor(logits, dtype="float64")
    loss = simple_ml.softmax_loss(z, ndl.Tensor(one_hot, dtype="float64"))
    assert_close(loss, -np.log(softmax(logits)[np.arange(6), labels]).mean())
    loss.backward()
    assert_close(z.grad, (softmax(logits) - one_hot) / 6)


def test_nn_epoch():
    x, y = np.random.randn(50, 5).astype("float32"), np.random.randint(3, size=(50,)).astype("uint8")
    w1, w2 = (
        np.random.randn(5, 10).astype("float32") / np.sqrt(10),
        np.random.randn(10, 3).astype("float32") / np.sqrt(3),
    )
    got = simple_ml.nn_epoch(x, y, ndl.Tensor(w1), ndl.Tensor(w2), lr=0.2, batch=25)
    for start in (0, 25):
        xb, yb = x[start : start + 25], y[start : start + 25]
        hidden = np.maximum(xb @ w1, 0)
        g = (softmax(hidden @ w2) - np.eye(3)[yb]) / 25
        w1, w2 = w1 - 0.2 * xb.T @ (g @ w2.T * (hidden > 0)), w2 - 0.2 * hidden.T @ g
    for weight, expected in zip(got, (w1, w2), strict=True):
        assert isinstance(weight, ndl.Tensor)
        assert_close(weight, expected, rtol=1e-4, atol=1e-5)


def test_loss_err():
    logits, labels = np.random.randn(10, 4), np.arange(10) % 4
    loss, error = simple_ml.loss_err(ndl.Tensor(logits), labels)
    assert_close(np.asarray(loss).item(), -np.log(softmax(logits)[np.arange(10), labels]).mean(), rtol=1e-5)
    assert error == (logits.argmax(1) != labels).mean()


def images_and_labels(count=10, shape=(3, 8, 8)):
    return NDArrayDataset(np.random.randn(count, *shape).astype("float32"), np.arange(count) % 10)


def small_net():
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.Dropout(0.5), nn.Linear(16, 10))


def test_cifar10_epochs():
    loader = DataLoader(images_and_labels(10), batch_size=4)
    model = small_net()
    before = model.parameters()[0].numpy()
    accuracy, loss = simple_ml.epoch_general_cifar10(loader, model)
    assert model.training is False
    assert (model.parameters()[0].numpy() == before).all()
    assert (accuracy, loss) == simple_ml.evaluate_cifar10(model, loader, loss_fn=nn.SoftmaxLoss)
    total, correct = 0.0, 0
    for x, y in loader:
        logits = model(x)
        total += nn.SoftmaxLoss()(logits, y).item() * len(y)
        correct += (logits.numpy().argmax(1) == y.numpy()).sum()
    assert accuracy == correct / 10
    assert_close(float(loss), total / 10, rtol=1e-5)
    opt = ndl.optim.SGD(model.parameters(), lr=0.1)
    simple_ml.epoch_general_cifar10(loader, model, loss_fn=nn.SoftmaxLoss(), opt=opt)
    assert model.training is True
    assert (model.parameters()[0].numpy() != before).any()


def test_training_seeds_with_4():
    loader = DataLoader(images_and_labels(20), batch_size=5, shuffle=True)
    weights, results = [], []
    for noise in (1, 2):
        np.random.seed(0)
        model = small_net()
        np.random.seed(noise)
        results.append(
            simple_ml.train_cifar10(model, loader, n_epochs=2, optimizer=ndl.optim.Adam, lr=0.01, weight_decay=0.001)
        )
        weights.append(model.parameters()[0].numpy().tobytes())
    assert weights[0] == weights[1]
    assert results[0] == results[1]
    assert len(results[0]) == 2


def defaults(function):
    return {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not inspect.Parameter.empty and not isinstance(parameter.default, nn.Module)
    }


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (simple_ml.nn_epoch, {"lr": 0.1, "batch": 100}),
        (
            simple_ml.train_cifar10,
            {"n_epochs": 1, "optimizer": ndl.optim.Adam, "lr": 0.001, "weight_decay": 0.001, "loss_fn": nn.SoftmaxLoss},
        ),
        (simple_ml.evaluate_cifar10, {"loss_fn": nn.SoftmaxLoss}),
        (simple_ml.epoch_general_cifar10, {"opt": None}),
        (
            simple_ml.epoch_general_ptb,
            {"seq_len": 40, "opt": None, "clip": None, "device": None, "dtype": "float32"},
        ),
        (
            simple_ml.train_ptb,
            {
                "seq_len": 40,
                "n_epochs": 1,
                "optimizer": ndl.optim.SGD,
                "lr": 4.0,
                "weight_decay": 0.0,
                "loss_fn": nn.SoftmaxLoss,
                "clip": None,
                "device": None,
                "dtype": "float32",
            },
        ),
        (
            simple_ml.evaluate_ptb,
            {"seq_len": 40, "loss_fn": nn.SoftmaxLoss, "device": None, "dtype": "float32"},
        ),
        (
            models.LanguageModel,
            {"num_layers": 1, "seq_model": "rnn", "seq_len": 40, "device": None, "dtype": "float32"},
        ),
        (mlp_resnet.ResidualBlock, {"norm": nn.BatchNorm1d, "drop_prob": 0.1}),
        (
            mlp_resnet.MLPResNet,
            {"hidden_dim": 100, "num_blocks": 3, "num_classes": 10, "norm": nn.BatchNorm1d, "drop_prob": 0.1},
        ),
        (mlp_resnet.epoch, {"opt": None}),
        (
            mlp_resnet.train_mnist,
            {
                "batch_size": 100,
                "epochs": 10,
                "optimizer": ndl.optim.Adam,
                "lr": 0.001,
                "weight_decay": 0.001,
                "hidden_dim": 100,
                "data_dir": "data",
            },
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_defaults(function, expected):
    assert defaults(function) == expected


def leaves(module):
    """The types of the modules that hold no others, in order; `_children` gives those below at any depth."""
    return [type(child) for child in module._children() if not child._children()]


def test_mlp_resnet_structure():
    block = [nn.Linear, nn.LayerNorm1d, nn.ReLU, nn.Dropout, nn.Linear, nn.LayerNorm1d, nn.ReLU]
    assert leaves(mlp_resnet.ResidualBlock(8, 4, nn.LayerNorm1d, 0.2)) == block
    model = mlp_resnet.MLPResNet(12, 8, num_blocks=2, num_classes=5, norm=nn.LayerNorm1d, drop_prob=0.2)
    assert leaves(model) == [nn.Linear, nn.ReLU, *block, *block, nn.Linear]
    assert [p.shape for p in model.parameters()][:3] == [(12, 8), (1, 8), (8, 4)]
    assert model(ndl.Tensor(np.ones((3, 12)))).shape == (3, 5)


def test_mlp_resnet_epoch(tmp_path):
    data = images_and_labels(10, (28, 28, 1))
    loader = DataLoader(data, batch_size=4)
    model = mlp_resnet.MLPResNet(784, 8)
    error, loss = mlp_resnet.epoch(loader, model)
    assert model.training is False
    logits = model(ndl.Tensor(np.stack([data[i][0].ravel() for i in range(10)])))
    labels = np.arange(10)
    assert error == (logits.numpy().argmax(1) != labels).mean()
    assert_close(float(loss), -np.log(softmax(logits.numpy())[labels, labels]).mean(), rtol=1e-5)
    mlp_resnet.epoch(loader, model, ndl.optim.Adam(model.parameters()))
    assert model.training is True


def test_batches_are_brought_to_the_device_of_the_model(device):
    """Loaders of the course know no device; theirs is the default one."""
    loader = DataLoader(images_and_labels(10), batch_size=4)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 10, device=device))
    assert len(simple_ml.train_cifar10(model, loader)) == len(simple_ml.evaluate_cifar10(model, loader)) == 2
    loader = DataLoader(images_and_labels(10, (28, 28, 1)), batch_size=4)
    model = nn.Linear(784, 10, device=device)
    assert len(mlp_resnet.epoch(loader, model, ndl.optim.Adam(model.parameters()))) == 2
    language = language_model("lstm", device)
    assert len(simple_ml.train_ptb(language, text_of(None), seq_len=5)) == 2


def test_train_mnist(tmp_path):
    write_idx(tmp_path, "train", 40)
    write_idx(tmp_path, "t10k", 20)
    results = []
    for noise in (1, 2):
        np.random.seed(noise)
        results.append(mlp_resnet.train_mnist(20, 2, ndl.optim.SGD, 0.01, 0.01, 8, data_dir=str(tmp_path)))
    assert results[0] == results[1]
    train_error, train_loss, test_error, test_loss = results[0]
    assert 0 <= train_error <= 1
    assert 0 <= test_error <= 1
    assert train_loss > 0
    assert test_loss > 0


def test_resnet9(device):
    model = models.ResNet9(device=device, dtype="float32")
    assert sum(np.prod(p.shape) for p in model.parameters()) == 431_946
    block = [nn.Conv, nn.BatchNorm2d, nn.ReLU]
    assert leaves(model) == [*block * 8, nn.Flatten, nn.Linear, nn.ReLU, nn.Linear]
    convs = [module for module in model._children() if isinstance(module, nn.Conv)]
    assert [conv.weight.shape for conv in convs] == [
        (7, 7, 3, 16), (3, 3, 16, 32), (3, 3, 32, 32), (3, 3, 32, 32),
        (3, 3, 32, 64), (3, 3, 64, 128), (3, 3, 128, 128), (3, 3, 128, 128),
    ]  # fmt: skip
    assert model(ndl.Tensor(np.zeros((2, 3, 32, 32)), device=device)).shape == (2, 10)


SEQUENCE_MODELS = ["rnn", "lstm", "transformer"]


def language_model(kind, device, dtype="float32", words=12, layers=2):
    return models.LanguageModel(6, words, 8, layers, kind, seq_len=5, device=device, dtype=dtype)


@pytest.mark.parametrize("kind", SEQUENCE_MODELS)
def test_language_model(kind, device, dtype):
    np.random.seed(3)
    model = language_model(kind, device, dtype)
    np.random.seed(3)
    layer = {"rnn": nn.RNN, "lstm": nn.LSTM, "transformer": nn.Transformer}[kind]
    length = {"sequence_len": 5} if kind == "transformer" else {}
    settings = {"device": device, "dtype": dtype}
    embedding = nn.Embedding(12, 6, **settings)
    sequence = layer(6, 8, 2, **length, **settings)
    linear = nn.Linear(6 if kind == "transformer" else 8, 12, **settings)
    own = [parameter.numpy().tobytes() for parameter in model.parameters()]
    assert own == [p.numpy().tobytes() for part in (embedding, sequence, linear) for p in part.parameters()]
    x = ndl.Tensor(np.random.randint(0, 12, (5, 3)), device=device, dtype="float32")
    for h in (None, model(x)[1]):
        logits, state = model(x, h)
        features, expected = sequence(embedding(x), h)
        assert (logits.shape, logits.dtype, logits.device) == ((15, 12), dtype, device)
        assert_close(logits, linear(features.reshape((15, features.shape[2]))).numpy())
        parts, wanted = (state, expected) if kind == "lstm" else ([state], [expected])
        assert len(parts) == len(wanted)
        for part, other in zip(parts, wanted, strict=True):
            assert_close(part, other.numpy())


def text_of(device, rows=24, columns=4):
    return ndl.data.batchify(list(np.random.randint(0, 12, rows * columns)), columns, device=device, dtype="float32")


@pytest.mark.parametrize("kind", SEQUENCE_MODELS)
def test_ptb_evaluation_averages_over_words_and_carries_the_state(kind, device):
    data, model = text_of(device), language_model(kind, device)
    np.random.seed(99)
    accuracy, loss = simple_ml.evaluate_ptb(model, data, seq_len=5, device=device)
    drawn = np.random.rand()
    np.random.seed(4)
    assert drawn == np.random.rand(), "seeded with 4, and nothing else drawn"
    assert model.training is False
    state, correct, total = None, 0, 0.0
    for i in range(0, 23, 5):  # the last piece is shorter
        x, y = ndl.data.get_batch(data, i, 5, device=device)
        logits, state = model(x, state)
        correct += (logits.numpy().argmax(1) == y.numpy()).sum()
        total += nn.SoftmaxLoss()(logits, y).item() * len(y)
    assert accuracy == correct / (23 * 4)
    assert_close(float(loss), total / (23 * 4), rtol=1e-5)
    assert (accuracy, loss) == simple_ml.epoch_general_ptb(data, model, 5, nn.SoftmaxLoss(), device=device)


@pytest.mark.parametrize("kind", SEQUENCE_MODELS)
@pytest.mark.parametrize("clip", [None, 0.1])
def test_ptb_training_is_truncated_at_the_pieces(kind, clip, device):
    data = text_of(device)
    np.random.seed(0)
    model = language_model(kind, device, "float64")
    np.random.seed(0)
    twin = language_model(kind, device, "float64")
    options = {"seq_len": 5, "clip": clip, "device": device, "dtype": "float64"}
    accuracy, loss = simple_ml.train_ptb(model, data, n_epochs=2, lr=1.0, weight_decay=0.01, **options)
    assert model.training is True
    opt = ndl.optim.SGD(twin.parameters(), lr=1.0, weight_decay=0.01)
    for _ in range(2):
        np.random.seed(4)
        state, correct, total = None, 0, 0.0
        for i in range(0, 23, 5):
            x, y = ndl.data.get_batch(data, i, 5, device=device, dtype="float64")
            logits, state = twin(x, state)
            state = tuple(part.detach() for part in state) if kind == "lstm" else state.detach()
            step_loss = nn.SoftmaxLoss()(logits, y)
            opt.reset_grad()
            step_loss.backward()
            if clip:
                opt.clip_grad_norm(clip)
            opt.step()
            correct += (logits.numpy().argmax(1) == y.numpy()).sum()
            total += step_loss.item() * len(y)
    for parameter, expected in zip(model.parameters(), twin.parameters(), strict=True):
        assert_close(parameter, expected.numpy())
    assert accuracy == correct / (23 * 4)
    assert_close(float(loss), total / (23 * 4))


@pytest.mark.parametrize("kind", SEQUENCE_MODELS)
def test_language_model_training_as_the_course_runs_it(kind, tmp_path, device):
    line = "one fish two fish red fish blue fish\n"
    for name in ("train.txt", "test.txt"):
        (tmp_path / name).write_text(line * 40)
    corpus = ndl.data.Corpus(str(tmp_path), max_lines=30)
    data = ndl.data.batchify(corpus.train, batch_size=8, device=device, dtype="float32")
    np.random.seed(0)
    model = models.LanguageModel(
        30, len(corpus.dictionary), hidden_size=10, num_layers=2, seq_model=kind, seq_len=10, device=device
    )
    before = simple_ml.evaluate_ptb(model, data, seq_len=10, device=device)
    settings = {"optimizer": ndl.optim.Adam, "lr": 0.01} if kind == "transformer" else {"lr": 1.0}
    trained = simple_ml.train_ptb(model, data, seq_len=10, n_epochs=8, device=device, clip=0.25, **settings)
    after = simple_ml.evaluate_ptb(model, data, seq_len=10, device=device)
    assert len(trained) == 2
    assert after[1] < trained[1] < before[1]


def test_an_unknown_sequence_model_is_named():
    with pytest.raises(
        ndl.OptionError, match="LanguageModel: seq_model must be one of rnn, lstm, transformer, got 'x'"
    ):
        models.LanguageModel(2, 3, 4, seq_model="x")


@pytest.mark.parametrize("name", ["models", "simple_ml", "mlp_resnet"])
def test_course_import_path(name):
    by_path, by_package = importlib.import_module(name), importlib.import_module(f"apps.{name}")
    own = [key for key, value in vars(by_path).items() if getattr(value, "__module__", "") == name]
    assert own
    assert own == [key for key, value in vars(by_package).items() if getattr(value, "__module__", "") == f"apps.{name}"]
