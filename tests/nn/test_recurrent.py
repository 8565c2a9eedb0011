"""Recurrent layers: against a loop in NumPy, against PyTorch, against differences; states that are carried on."""

import itertools

import numpy as np
import pytest

import needle as ndl
from needle import init, nn
from needle.errors import DTypeError, OptionError, ShapeError
from needle.testing import check_gradients
from tests.native import needs_native
from tests.tolerances import assert_close

KINDS = {  # name: layer, its cells, cell, how many parts the state has, options
    "tanh": (nn.RNN, "rnn_cells", nn.RNNCell, 1, {}),
    "relu": (nn.RNN, "rnn_cells", nn.RNNCell, 1, {"nonlinearity": "relu"}),
    "lstm": (nn.LSTM, "lstm_cells", nn.LSTMCell, 2, {}),
    "gru": (nn.GRU, "gru_cells", nn.GRUCell, 1, {}),
}
WEIGHTS = ("W_ih", "W_hh", "bias_ih", "bias_hh")
BATCH, INPUT, HIDDEN, LAYERS, STEPS = (1, 15), (1, 11), (1, 12), (1, 2), (1, 13)
CELL_GRID = list(itertools.product(BATCH, INPUT, HIDDEN, (True, False), (True, False)))
GRID = list(itertools.product(BATCH, INPUT, HIDDEN, LAYERS, STEPS, (True, False), (True, False)))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def loop_step(kind, cell, x, state):
    """One step of the formulas in the papers, in NumPy."""
    W_ih, W_hh, b_ih, b_hh = (0.0 if getattr(cell, name) is None else getattr(cell, name).numpy() for name in WEIGHTS)
    xs, hs = x @ W_ih + b_ih, state[0] @ W_hh + b_hh
    if kind == "lstm":
        i, f, g, o = np.split(xs + hs, 4, axis=1)
        c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        return [sigmoid(o) * np.tanh(c), c]
    if kind == "gru":
        (xr, xz, xn), (hr, hz, hn) = np.split(xs, 3, axis=1), np.split(hs, 3, axis=1)
        z, n = sigmoid(xz + hz), np.tanh(xn + sigmoid(xr + hr) * hn)
        return [(1 - z) * n + z * state[0]]
    return [np.tanh(xs + hs) if kind == "tanh" else np.maximum(xs + hs, 0)]


def loop(kind, cells, x, states):
    """A layer in NumPy: `states` has a list of parts for each cell, which become the last ones."""
    for layer, cell in enumerate(cells):
        outputs = []
        for step in x:
            states[layer] = loop_step(kind, cell, step, states[layer])
            outputs.append(states[layer][0])
        x = np.stack(outputs)
    return x, [np.stack(part) for part in zip(*states, strict=True)]


def parts_of(state):
    return list(state) if isinstance(state, tuple) else [state]


def state_of(parts):
    """What a layer takes: a tuple where there are several parts."""
    return None if not parts else parts[0] if len(parts) == 1 else tuple(parts)


def drawn(device, *shape, dtype="float64"):
    return init.randn(*shape, device=device, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("kind", KINDS)
def test_cells_against_a_loop(device, kind):
    _, _, cell_type, count, options = KINDS[kind]
    for batch, size, hidden, bias, given in CELL_GRID:
        cell = cell_type(size, hidden, bias=bias, device=device, dtype="float64", **options)
        x, parts = drawn(device, batch, size), [drawn(device, batch, hidden) for _ in range(count * given)]
        found = parts_of(cell(x, state_of(parts)))
        start = [part.numpy() for part in parts] or [np.zeros((batch, hidden))] * count
        for ours, expected in zip(found, loop_step(kind, cell, x.numpy(), start), strict=True):
            assert_close(ours, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_layers_against_a_loop(device, kind):
    layer_type, cells, _, count, options = KINDS[kind]
    for batch, size, hidden, layers, steps, bias, given in GRID:
        layer = layer_type(size, hidden, layers, bias=bias, device=device, dtype="float64", **options)
        x = drawn(device, steps, batch, size)
        parts = [drawn(device, layers, batch, hidden) for _ in range(count * given)]
        outputs, last = layer(x, state_of(parts))
        start = [part.numpy() for part in parts] or [np.zeros((layers, batch, hidden))] * count
        expected, states = loop(kind, getattr(layer, cells), x.numpy(), [list(s) for s in zip(*start, strict=True)])
        assert_close(outputs, expected)
        for ours, wanted in zip(parts_of(last), states, strict=True):
            assert_close(ours, wanted)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_to_second_order(device, kind, bias):
    layer_type, cells, _, count, options = KINDS[kind]
    layer = layer_type(2, 3, 2, bias=bias, device=device, dtype="float64", **options)
    named = [(cell, name) for cell in getattr(layer, cells) for name in WEIGHTS[: 4 if bias else 2]]

    def outputs(x, *rest):
        for (cell, name), weight in zip(named, rest[count:], strict=True):
            vars(cell)[name] = weight
        y, last = layer(x, state_of(rest[:count]))
        return (y, *parts_of(last))

    weights = [getattr(cell, name) for cell, name in named]
    check_gradients(outputs, [drawn(device, 3, 2, 2), *[drawn(device, 2, 2, 3) for _ in range(count)], *weights])


# Against PyTorch


def torch_layer(kind, torch, size, hidden, layers, bias):
    options = {"nonlinearity": kind} if kind in ("tanh", "relu") else {}
    name = "RNN" if options else kind.upper()
    return getattr(torch.nn, name)(size, hidden, layers, bias=bias, **options).double()


def share_weights(cells, theirs):
    """Set PyTorch's weights to ours, and give the pairs."""
    import torch

    pairs = []
    for k, cell in enumerate(cells):
        for ours, name in zip(WEIGHTS, ("weight_ih", "weight_hh", "bias_ih", "bias_hh"), strict=True):
            own = getattr(cell, ours)
            if own is not None:
                other = getattr(theirs, f"{name}_l{k}")
                other.data = torch.tensor(own.numpy().T.copy())
                pairs.append((own, other))
    return pairs


@pytest.mark.parity
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch, size, hidden, layers, steps, bias, given", GRID)
def test_values_and_gradients_are_pytorchs(device, kind, batch, size, hidden, layers, steps, bias, given):
    torch = pytest.importorskip("torch")
    layer_type, cells, _, count, options = KINDS[kind]
    ours = layer_type(size, hidden, layers, bias=bias, device=device, dtype="float64", **options)
    theirs = torch_layer(kind, torch, size, hidden, layers, bias)
    pairs = share_weights(getattr(ours, cells), theirs)
    leaves = [drawn(device, steps, batch, size)]
    leaves += [drawn(device, layers, batch, hidden) for _ in range(count * given)]
    others = [torch.tensor(leaf.numpy(), requires_grad=True) for leaf in leaves]
    y, state = ours(leaves[0], state_of(leaves[1:]))
    z, their_state = theirs(others[0], state_of(others[1:]))
    found, expected = [y, *parts_of(state)], [z, *parts_of(their_state)]
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b.detach().numpy())
    sum([(a * a).sum() for a in found[1:]], (y * y).sum()).backward()
    sum((b * b).sum() for b in expected).backward()
    for a, b in [*zip(leaves, others, strict=True), *pairs]:
        assert_close(a.grad, b.grad.numpy().T if any(a is own for own, _ in pairs) else b.grad.numpy())


# States


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_in_two_pieces(device, kind):
    """The state carried on, the outputs are those of the whole; detached, no gradient passes from piece to piece."""
    layer_type, _, _, _, options = KINDS[kind]
    layer = layer_type(3, 4, 2, device=device, dtype="float64", **options)
    values = np.random.randn(7, 2, 3)
    whole, last = layer(ndl.Tensor(values, device=device, dtype="float64"))
    first, second = (ndl.Tensor(part, device=device, dtype="float64") for part in (values[:3], values[3:]))
    outputs, state = layer(first)
    detached = state_of([part.detach() for part in parts_of(state)])
    for carried, reaches in ((state, True), (detached, False)):
        more, end = layer(second, carried)
        assert_close(np.concatenate([outputs.numpy(), more.numpy()]), whole.numpy())
        for a, b in zip(parts_of(end), parts_of(last), strict=True):
            assert_close(a, b.numpy())
        first.grad = None
        more.backward()
        assert (first.grad is not None) == reaches


@pytest.mark.parametrize("kind", KINDS)
def test_zeros_take_part(device, kind):
    """Without a state and with one step, every weight gets a gradient; that of W_hh is of zeros."""
    layer = KINDS[kind][0](3, 4, device=device, **KINDS[kind][4])
    layer(drawn(device, 1, 2, 3, dtype="float32"))[0].backward()
    assert all(p.grad is not None for p in layer.parameters())
    assert not getattr(layer, KINDS[kind][1])[0].W_hh.grad.numpy().any()


@needs_native
@pytest.mark.parametrize("kind", KINDS)
def test_bits_do_not_depend_on_threads(kind):
    layer_type, _, _, _, options = KINDS[kind]
    layer = layer_type(40, 70, device=ndl.cpu(), **options)
    x, found = drawn(ndl.cpu(), 5, 33, 40, dtype="float32"), set()
    for threads in (1, 2, 3, 7):
        with ndl.set_num_threads(threads):
            outputs, _ = layer(x)
            outputs.backward()
        found.add(b"".join(a.numpy().tobytes() for a in (outputs, x.grad, *[p.grad for p in layer.parameters()])))
    assert len(found) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_deferred_computes_the_same_bits(device, kind, monkeypatch):
    layer_type, _, _, _, options = KINDS[kind]
    layer, x, found = layer_type(3, 4, 2, device=device, **options), drawn(device, 5, 2, 3, dtype="float32"), []
    for lazy in (False, True):
        monkeypatch.setattr(ndl.autograd, "LAZY_MODE", lazy)
        layer(x)[0].backward()
        found.append([a.numpy().tobytes() for a in (x.grad, *[p.grad for p in layer.parameters()])])
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", KINDS)
def test_empty_batch(device, kind):
    layer = KINDS[kind][0](3, 4, 2, device=device, **KINDS[kind][4])
    outputs, state = layer(init.zeros(5, 0, 3, device=device, requires_grad=True))
    outputs.backward()
    assert outputs.shape == (5, 0, 4) and {part.shape for part in parts_of(state)} == {(2, 0, 4)}
    assert not any(p.grad.numpy().any() for p in layer.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_read_at_each_call(kind):
    layer_type, cells, _, _, options = KINDS[kind]
    layer, x = layer_type(3, 4, **options), init.randn(2, 1, 3)
    before = layer(x)[0].numpy()
    getattr(layer, cells)[0].W_ih = ndl.Tensor(np.ones_like(getattr(layer, cells)[0].W_ih.numpy()))
    assert not np.array_equal(layer(x)[0].numpy(), before)
    assert len(layer.parameters()) == 4
    getattr(layer, cells)[0].bias_ih = None
    getattr(layer, cells)[0].bias_hh = None
    layer(x)
    assert len(layer.parameters()) == 2


def test_printed():
    assert repr(nn.RNN(3, 4, nonlinearity="relu")).splitlines()[1:] == [
        "  (rnn_cells.0): RNNCell(3, 4, bias=True, nonlinearity='relu')", ")",
    ]  # fmt: skip
    assert repr(nn.LSTMCell(3, 4, bias=False)) == "LSTMCell(3, 4, bias=False)"


X, H = init.zeros(5, 2, 3), init.zeros(1, 2, 4)


@pytest.mark.parametrize(
    "call, error, said",
    [
        (lambda: nn.RNN(3, 4, nonlinearity="sigmoid"), OptionError, "recurrence: nonlinearity must be .*got 'sigmoid'"),
        (lambda: nn.RNNCell(3, 4, nonlinearity=None), OptionError, "nonlinearity must be .*, got None"),
        (lambda: nn.RNN(3, 0), ShapeError, "hidden_size must be at least 1, got 0"),
        (lambda: nn.LSTMCell(0, 4), ShapeError, "LSTMCell: input_size must be at least 1, got 0"),
        (lambda: nn.GRU(3, 4, 0), ShapeError, "GRU: num_layers must be at least 1, got 0"),
        (lambda: nn.LSTM(3, 4, 1.5), DTypeError, "LSTM: num_layers must be a whole number"),
        (lambda: nn.LSTMCell(3, 4, dtype="int32"), DTypeError, "LSTMCell: dtype must be float32 or float64"),
        (lambda: nn.RNN(2, 4)(X), ShapeError, r"RNN: expected \(seq,batch,input_size\) .* = 2, got shape \(5, 2, 3\)"),
        (lambda: nn.RNN(3, 4)(init.zeros(5, 3)), ShapeError, r"RNN: expected \(seq,batch,input_size\)"),
        (lambda: nn.RNN(3, 4)(np.zeros((5, 2, 3))), DTypeError, "RNN: the input must be a needle.autograd.Tensor"),
        (lambda: nn.RNN(3, 4)(init.zeros(0, 2, 3)), ShapeError, "RNN: a sequence without steps"),
        (lambda: nn.GRUCell(3, 4)(X), ShapeError, r"GRUCell: expected \(batch,input_size\) with input_size = 3"),
        (lambda: nn.RNN(3, 4)(X, init.zeros(2, 4)), ShapeError, r"RNN: the state h has shape \(2, 4\);.*\(1, 2, 4\)"),
        (lambda: nn.RNN(3, 4)(X, (H, H)), ShapeError, "RNN: the state must be a Tensor h, got 2 parts"),
        (lambda: nn.RNN(3, 4)(X, np.zeros((1, 2, 4))), DTypeError, "RNN: the state h must be a needle"),
        (lambda: nn.LSTM(3, 4)(X, H), ShapeError, r"LSTM: the state must be a tuple \(h, c\), got a Tensor"),
        (lambda: nn.LSTM(3, 4)(X, (H,)), ShapeError, r"LSTM: the state must be a tuple \(h, c\), got 1 part"),
        (lambda: nn.LSTM(3, 4)(X, (H, None)), DTypeError, "LSTM: the state c must be a needle"),
        (lambda: nn.LSTM(3, 4)(X, (H, init.zeros(1, 3, 4))), ShapeError, r"LSTM: the state c has shape \(1, 3, 4\)"),
        (lambda: nn.LSTM(3, 4, 2)(X, (H, H)), ShapeError, r"the state h has shape \(1, 2, 4\); .* \(2, 2, 4\)"),
        (lambda: nn.LSTMCell(3, 4)(init.zeros(2, 3), init.zeros(2, 4)), ShapeError, "LSTMCell: the state must be a"),
        (lambda: nn.GRUCell(3, 4)(init.zeros(2, 3), init.zeros(2, 5)), ShapeError, r"GRUCell: the state h .*\(2, 4\)"),
    ],
)  # fmt: skip
def test_wrong_input(call, error, said):
    with pytest.raises(error, match=said):
        call()
