"""States go to PyTorch's modules and back, and both modules then compute the same."""

import numpy as np
import pytest

import needle as ndl
from needle import nn
from needle.io.torch_layout import from_torch, to_torch
from tests.tolerances import assert_close

# name, needle's module, PyTorch's, shape of an input
PAIRS = [
    ("linear", lambda: nn.Linear(3, 4), lambda t: t.Linear(3, 4), (5, 3)),
    ("without bias", lambda: nn.Linear(3, 4, bias=False), lambda t: t.Linear(3, 4, bias=False), (5, 3)),
    ("conv", lambda: nn.Conv(4, 6, (3, 5), groups=2), lambda t: t.Conv2d(4, 6, (3, 5), padding=(1, 2), groups=2),
     (2, 4, 7, 8)),
    ("transpose", lambda: nn.ConvTranspose(3, 4, 3, 2), lambda t: t.ConvTranspose2d(3, 4, 3, 2), (2, 3, 5, 6)),
    ("batch norm", lambda: nn.BatchNorm2d(3), lambda t: t.BatchNorm2d(3), (2, 3, 4, 5)),
    ("layer norm", lambda: nn.LayerNorm1d(6), lambda t: t.LayerNorm(6), (4, 6)),
    ("rnn", lambda: nn.RNN(3, 4, 2), lambda t: t.RNN(3, 4, 2), (5, 2, 3)),
    ("lstm", lambda: nn.LSTM(3, 4, 2), lambda t: t.LSTM(3, 4, 2), (5, 2, 3)),
    ("gru cell", lambda: nn.GRUCell(3, 4), lambda t: t.GRUCell(3, 4), (2, 3)),
    ("nested", lambda: nn.Sequential(nn.Sequential(nn.Conv(1, 2, 3), nn.BatchNorm2d(2)), nn.Flatten(), nn.Linear(8, 2)),
     lambda t: t.Sequential(t.Sequential(t.Conv2d(1, 2, 3, padding=1), t.BatchNorm2d(2)), t.Flatten(), t.Linear(8, 2)),
     (4, 1, 2, 2)),
]  # fmt: skip


def outputs(ours, theirs, shape):
    torch = pytest.importorskip("torch")
    x = np.random.standard_normal(shape).astype("float32")
    got, expected = ours.eval()(ndl.Tensor(x)), theirs.eval()(torch.tensor(x))
    got, expected = (y[0] if isinstance(y, tuple) else y for y in (got, expected))
    return got.numpy(), expected.detach().numpy()


@pytest.mark.parity
@pytest.mark.parametrize(("name", "ours", "theirs", "shape"), PAIRS, ids=[pair[0] for pair in PAIRS])
def test_both_compute_the_same_after_going_through_a_file(name, ours, theirs, shape, tmp_path):
    torch = pytest.importorskip("torch")
    library = pytest.importorskip("safetensors.torch")
    ours, theirs, path = ours(), theirs(torch.nn), tmp_path / "a.safetensors"
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.uniform_(-1, 1)
    library.save_file(theirs.state_dict(), path)
    ours.load_state_dict(from_torch(ours, ndl.load(path)))
    assert_close(*outputs(ours, theirs, shape))
    with ndl.no_grad():
        for parameter in ours.parameters():
            parameter.data = ndl.Tensor(np.random.uniform(-1, 1, parameter.shape).astype("float32"))
    ndl.save(path, to_torch(ours))
    theirs.load_state_dict(library.load_file(path))
    assert_close(*outputs(ours, theirs, shape))


@pytest.mark.parametrize(("name", "ours", "theirs", "shape"), PAIRS, ids=[pair[0] for pair in PAIRS])
def test_back_again_gives_the_same_bits(name, ours, theirs, shape):
    model = ours()
    state, again = model.state_dict(), from_torch(model, to_torch(model))
    assert list(again) == list(state)
    assert all(again[path].shape == a.shape and (again[path] == a).all() for path, a in state.items())


def test_what_does_not_fit_is_named_when_it_is_loaded():
    model = nn.Sequential(nn.Conv(1, 2, 3))
    state = from_torch(model, {"0.weight": np.ones((2, 1, 3)), "features.0.bias": np.ones(2)})
    with pytest.raises(ndl.ShapeError, match=r"missing 0\.bias; .*0\.weight of shape .*; unexpected features\.0\.bias"):
        model.load_state_dict(state)


def test_a_subclass_keeps_the_layout_of_its_layer():
    class Scaled(nn.Linear):
        pass

    assert to_torch(Scaled(2, 3))["weight"].shape == (3, 2)
