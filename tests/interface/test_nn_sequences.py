"""INTERFACE.md, "nn": the recurrent, embedding, attention and transformer layers."""

import numpy as np
import pytest

import needle as ndl
from needle import nn
from tests.interface.test_nn import bounded, kaiming
from tests.tolerances import assert_close

CELLS = {"RNNCell": 1, "LSTMCell": 4, "GRUCell": 3}  # how many gates
LAYERS = {"RNN": ("rnn_cells", 1), "LSTM": ("lstm_cells", 4), "GRU": ("gru_cells", 3)}
WEIGHTS = ("W_ih", "W_hh", "bias_ih", "bias_hh")


def check_draws(make, draws):
    """Hold the weights of a module, by path, to draws from the global generator in this order, and no more."""
    np.random.seed(5)
    expected = {path: draw() for path, draw in draws.items()}
    after = np.random.rand()
    np.random.seed(5)
    module = make()
    assert np.random.rand() == after, "layers draw nothing that they do not use"
    drawn = dict(module.named_parameters())
    for path, values in expected.items():
        assert_close(drawn.pop(path), values.astype(module.parameters()[0].dtype))
    return drawn


def cell_draws(size, hidden, gates, bias, prefix=""):
    bound, width = np.sqrt(1 / hidden), gates * hidden
    shapes = [(size, width), (hidden, width), (width,), (width,)][: 4 if bias else 2]
    return {
        f"{prefix}{name}": (lambda shape=shape: bounded(shape, bound))
        for name, shape in zip(WEIGHTS, shapes, strict=False)
    }


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name, gates", CELLS.items())
def test_cells_draw(device, dtype, name, gates, bias):
    cell = lambda: getattr(nn, name)(3, 4, bias=bias, device=device, dtype=dtype)  # noqa: E731
    assert check_draws(cell, cell_draws(3, 4, gates, bias)) == {}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name, cells, gates", [(name, *row) for name, row in LAYERS.items()])
def test_layers_draw_cell_by_cell(device, name, cells, gates, bias):
    layer = lambda: getattr(nn, name)(3, 4, 2, bias, device=device)  # noqa: E731
    draws = {
        **cell_draws(3, 4, gates, bias, f"{cells}.0."),
        **cell_draws(4, 4, gates, bias, f"{cells}.1."),
    }
    assert check_draws(layer, draws) == {}
    assert len(getattr(layer(), cells)) == 2


@pytest.mark.parametrize("name", CELLS)
def test_cells_without_bias_have_none(name):
    cell = getattr(nn, name)(3, 4, bias=False)
    assert cell.bias_ih is None and cell.bias_hh is None and len(cell.parameters()) == 2


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("nonlinearity, function", [("tanh", np.tanh), ("relu", lambda x: np.maximum(x, 0))])
@pytest.mark.parametrize("given", [True, False])
def test_rnn_cell(tensor, device, nonlinearity, function, given):
    """As the course's graders do it: weights replaced by plain tensors, then the value and the gradient of W_ih."""
    cell = nn.RNNCell(3, 4, nonlinearity=nonlinearity, device=device, dtype="float64")
    arrays = {name: np.random.randn(*getattr(cell, name).shape) for name in WEIGHTS}
    for name, values in arrays.items():
        setattr(cell, name, tensor(values))
    x, h = np.random.randn(2, 3), np.random.randn(2, 4) * given
    found = cell(tensor(x), tensor(h)) if given else cell(tensor(x), None)
    before = x @ arrays["W_ih"] + arrays["bias_ih"] + h @ arrays["W_hh"] + arrays["bias_hh"]
    assert_close(found, function(before))
    assert found.device == device
    found.sum().backward()
    slope = 1 - np.tanh(before) ** 2 if nonlinearity == "tanh" else (before > 0).astype(float)
    assert_close(cell.W_ih.grad.detach().numpy(), x.T @ slope)
    assert_close(cell.W_hh.grad, h.T @ slope)
    with pytest.raises(ValueError, match="nonlinearity"):
        nn.RNNCell(3, 4, nonlinearity="sin")


@pytest.mark.parametrize("given", [True, False])
def test_lstm_cell(tensor, device, given):
    cell = nn.LSTMCell(3, 4, device=device, dtype="float64")
    x, h, c = np.random.randn(2, 3), np.random.randn(2, 4) * given, np.random.randn(2, 4) * given
    state = cell(tensor(x), (tensor(h), tensor(c)) if given else None)
    W_ih, W_hh, bias_ih, bias_hh = (getattr(cell, name).numpy() for name in WEIGHTS)
    i, f, g, o = np.split(x @ W_ih + bias_ih + h @ W_hh + bias_hh, 4, axis=1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    assert isinstance(state, tuple)
    for ours, expected in zip(state, (sigmoid(o) * np.tanh(c), c), strict=True):
        assert_close(ours, expected)


@pytest.mark.parametrize("given", [True, False])
def test_gru_cell(tensor, device, given):
    cell = nn.GRUCell(3, 4, device=device, dtype="float64")
    x, h = np.random.randn(2, 3), np.random.randn(2, 4) * given
    W_ih, W_hh, bias_ih, bias_hh = (getattr(cell, name).numpy() for name in WEIGHTS)
    (xr, xz, xn), (hr, hz, hn) = np.split(x @ W_ih + bias_ih, 3, 1), np.split(h @ W_hh + bias_hh, 3, 1)
    z, n = sigmoid(xz + hz), np.tanh(xn + sigmoid(xr + hr) * hn)
    assert_close(cell(tensor(x), tensor(h) if given else None), (1 - z) * n + z * h)


@pytest.mark.parametrize("name, cells", [(name, row[0]) for name, row in LAYERS.items()])
@pytest.mark.parametrize("given", [True, False])
def test_layers_run_their_cells(tensor, device, name, cells, given):
    layer = getattr(nn, name)(3, 4, num_layers=2, bias=True, device=device, dtype="float64")
    x, parts = np.random.randn(5, 2, 3), 2 if name == "LSTM" else 1
    start = [tensor(np.random.randn(2, 2, 4) * given) for _ in range(parts)]
    state = (tuple(start) if parts == 2 else start[0]) if given else None
    outputs, last = layer(tensor(x), state)
    steps = [tensor(step) for step in x]
    for k, cell in enumerate(getattr(layer, cells)):
        h = tuple([part[k] for part in start]) if parts == 2 else start[0][k]
        for t, step in enumerate(steps):
            h = cell(step, h)
            steps[t] = h[0] if parts == 2 else h
        for ours, expected in zip(last if parts == 2 else (last,), h if parts == 2 else (h,), strict=True):
            assert ours.shape == (2, 2, 4)
            assert_close(ours[k], expected.numpy())
    assert_close(outputs, np.stack([step.numpy() for step in steps]))
    assert isinstance(last, tuple) == (name == "LSTM")
    outputs.sum().backward()
    assert getattr(layer, cells)[0].W_ih.grad.detach().numpy().shape == getattr(layer, cells)[0].W_ih.shape


def test_hidden_states_can_be_detached_and_handed_on(device):
    layer, x = nn.LSTM(3, 4, device=device), ndl.Tensor(np.ones((2, 1, 3)), device=device)
    _, state = layer(x)
    state = tuple([part.detach() for part in state])
    outputs, _ = layer(x, state)
    outputs.sum().backward()


@pytest.mark.parametrize("name", LAYERS)
def test_zeros_take_part(device, name):
    layer = getattr(nn, name)(3, 4, device=device)
    layer(ndl.Tensor(np.ones((1, 2, 3)), device=device))[0].sum().backward()
    assert all(p.grad is not None for p in layer.parameters())


def test_embedding(device, dtype):
    layer = lambda: nn.Embedding(6, 3, device=device, dtype=dtype)  # noqa: E731
    assert check_draws(layer, {"weight": lambda: np.random.randn(6, 3)}) == {}
    layer, ids = layer(), np.array([[0, 5], [3, 3], [1, 0]])
    y = layer(ndl.Tensor(ids, device=device, dtype="float32"))
    assert (y.numpy() == layer.weight.numpy()[ids]).all() and y.shape == (3, 2, 3)
    y.sum().backward()
    assert layer.weight.grad.numpy()[:, 0].tolist() == [2, 1, 0, 2, 0, 1]


@pytest.mark.parametrize("causal", [True, False])
def test_multi_head_attention(tensor, device, causal):
    q, k, v = (np.random.randn(2, 3, 5, 4) for _ in range(3))
    layer = nn.MultiHeadAttention(dropout=0.1, causal=causal, device=device)
    np.random.seed(9)
    keep = np.random.rand(2, 3, 5, 5) <= 0.9
    np.random.seed(9)
    result, probs = layer(tensor(q), tensor(k), tensor(v))
    mask = -np.finfo(np.float32).max * np.triu(np.ones((1, 1, 5, 5)), 1) * causal  # as the course writes it
    scores = q @ k.swapaxes(2, 3) / np.sqrt(4) + mask
    expected = np.exp(scores - scores.max(3, keepdims=True))
    expected = expected / expected.sum(3, keepdims=True) * keep / 0.9
    assert_close(probs, expected)
    assert_close(result, expected @ v)
    assert layer.parameters() == []


def attention_draws(q, k, v, out, inner, prefix=""):
    fans = {"q_projection": (q, inner), "k_projection": (k, inner), "v_projection": (v, inner)}
    fans["out_projection"] = (inner, out)
    return {
        f"{prefix}{name}.weight": (lambda shape=shape: bounded(shape, kaiming(shape[0])))
        for name, shape in fans.items()
    }


def test_attention_layer(tensor, device):
    sizes = {"k_features": 5, "v_features": 7, "out_features": 9}
    make = lambda: nn.AttentionLayer(6, 2, 4, **sizes, device=device, dtype="float64")  # noqa: E731
    rest = check_draws(make, attention_draws(6, 5, 7, 9, 8))
    assert set(rest) == {f"prenorm_{name}.{part}" for name in "qkv" for part in ("weight", "bias")}
    layer = make()
    q, k, v = tensor(np.random.randn(2, 3, 6)), tensor(np.random.randn(2, 3, 5)), tensor(np.random.randn(2, 3, 7))
    heads = [
        ndl.transpose(projection(norm(x)).reshape((2, 3, 2, 4)), (1, 2))
        for x, norm, projection in (
            (q, layer.prenorm_q, layer.q_projection),
            (k, layer.prenorm_k, layer.k_projection),
            (v, layer.prenorm_v, layer.v_projection),
        )
    ]
    result, _ = nn.MultiHeadAttention(causal=True)(*heads)
    merged = ndl.transpose(result, (1, 2)).reshape((2, 3, 8))
    assert_close(layer(q, k, v), layer.out_projection(merged).numpy())
    same = nn.AttentionLayer(6, 2, 4, causal=False, dropout=0.0, device=device, dtype="float64")
    assert_close(same(q), same(q, q, q).numpy())


def linear_draws(size, out, prefix):
    return {
        f"{prefix}.weight": lambda: bounded((size, out), kaiming(size)),
        f"{prefix}.bias": lambda: bounded((1, out), kaiming(out)),
    }


def layer_draws(prefix=""):
    return {
        **attention_draws(6, 6, 6, 6, 8, f"{prefix}attention."),
        **linear_draws(6, 5, f"{prefix}mlp.1"),
        **linear_draws(5, 6, f"{prefix}mlp.4"),
    }


def test_transformer_layer(tensor, device):
    make = lambda p=0.0: nn.TransformerLayer(6, 2, 4, 5, dropout=p, device=device, dtype="float64")  # noqa: E731
    rest = check_draws(make, layer_draws())
    assert {path.split(".")[-2] for path in rest} == {"prenorm_q", "prenorm_k", "prenorm_v", "0"}
    layer, x = make(0.2), tensor(np.random.randn(2, 3, 6))
    np.random.seed(9)
    y = layer(x)
    np.random.seed(9)
    drop = nn.Dropout(0.2)
    middle = x + drop(layer.attention(x))
    norm, first, _, _, second, _ = layer.mlp
    assert_close(y, (middle + drop(second(drop(ndl.relu(first(norm(middle))))))).numpy())


@pytest.mark.parametrize("batch_first", [True, False])
def test_transformer(tensor, device, batch_first):
    def make():
        return nn.Transformer(
            6, 5, 2, num_head=2, dim_head=4, dropout=0.0, causal=True, batch_first=batch_first, sequence_len=7,
            device=device, dtype="float64",
        )  # fmt: skip

    draws = {"embedding.weight": lambda: np.random.randn(7, 6), **layer_draws("layers.0."), **layer_draws("layers.1.")}
    check_draws(make, draws)
    model, values = make(), np.random.randn(2, 3, 6)
    x, h = model(tensor(values if batch_first else values.swapaxes(0, 1)))
    positions = model.embedding(np.tile(np.arange(3), (2, 1)))
    expected = tensor(values) + positions
    for layer in model.layers:
        expected = layer(expected)
    assert_close(x.numpy() if batch_first else x.numpy().swapaxes(0, 1), expected.numpy())
    assert h.shape == x.shape and not h.numpy().any()
    model(x, h)


def test_default_sizes_of_the_transformer():
    model = nn.Transformer(16, 5, 1)
    assert model.embedding.weight.shape == (2048, 16)
    assert model.layers[0].attention.q_projection.weight.shape == (16, 8 * 32)


def test_sequence_layers_default_to_float32():
    layers = [nn.RNN(2, 2), nn.LSTM(2, 2), nn.GRU(2, 2), nn.Embedding(2, 2), nn.Transformer(2, 2, 1, sequence_len=2)]
    assert {str(p.dtype) for layer in layers for p in layer.parameters()} == {"float32"}
