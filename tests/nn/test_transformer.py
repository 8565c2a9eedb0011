"""Attention and the transformer: against NumPy, against PyTorch, against differences; masks, dropout, errors."""

import itertools

import numpy as np
import pytest

import needle as ndl
from needle import init, nn
from needle.errors import DTypeError, OptionError, ShapeError
from needle.testing import check_gradients
from tests.tolerances import assert_close

BATCH, FEATURES, HIDDEN, LAYERS, LENGTH = (1, 15), (1, 11), (1, 12), (1, 2), (1, 13)
GRID = list(itertools.product(BATCH, FEATURES, HIDDEN, LAYERS, LENGTH, (True, False)))


def drawn(device, *shape, dtype="float64"):
    return init.randn(*shape, device=device, dtype=dtype, requires_grad=True)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q, k, v, causal):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    late = np.triu(np.ones(scores.shape[-2:]), scores.shape[-1] - scores.shape[-2] + 1)
    weights = softmax(np.where(late, -np.inf, scores) if causal else scores)
    return weights @ v, weights


def normalized(norm, x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(x.var(-1, keepdims=True) + norm.eps) * norm.weight.numpy() + norm.bias.numpy()


def attention_layer(layer, *qkv):
    """AttentionLayer in NumPy."""
    heads = []
    for x, name in zip(qkv, "qkv", strict=True):
        x = normalized(getattr(layer, f"prenorm_{name}"), x) @ getattr(layer, f"{name}_projection").weight.numpy()
        heads.append(x.reshape(*x.shape[:2], layer.num_head, layer.dim_head).swapaxes(1, 2))
    result, _ = attention(*heads, layer.attn.causal)
    merged = result.swapaxes(1, 2).reshape(*qkv[0].shape[:2], -1)
    return merged @ layer.out_projection.weight.numpy()


def transformer(model, x):
    """Transformer in NumPy, batch first, without dropout."""
    x = x + model.embedding.weight.numpy()[: x.shape[1]]
    for layer in model.layers:
        x = x + attention_layer(layer.attention, x, x, x)
        norm, first, _, _, second, _ = layer.mlp
        hidden = np.maximum(normalized(norm, x) @ first.weight.numpy() + first.bias.numpy(), 0)
        x = x + hidden @ second.weight.numpy() + second.bias.numpy()
    return x


def jiggled(module):
    """Move the weights that start as ones and zeros."""
    for p in module.parameters():
        p.data = p + init.randn(*p.shape, std=0.1, device=p.device, dtype=p.dtype)
    return module


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("queries, keys", [(1, 1), (5, 5), (3, 5)])
def test_attention_against_numpy(device, queries, keys, causal):
    q, k, v = (drawn(device, 2, 3, n, 4) for n in (queries, keys, keys))
    result, weights = nn.MultiHeadAttention(causal=causal)(q, k, v)
    expected, expected_weights = attention(q.numpy(), k.numpy(), v.numpy(), causal)
    assert_close(result, expected)
    assert_close(weights, expected_weights)


def test_a_query_that_sees_no_key_takes_the_mean(device):
    q, k = drawn(device, 1, 1, 3, 4, dtype="float32"), drawn(device, 1, 1, 2, 4, dtype="float32")
    _, weights = nn.MultiHeadAttention(causal=True)(q, k, k)
    assert weights.numpy()[0, 0, :2].tolist() == [[0.5, 0.5], [1, 0]]


def test_values_of_another_width(device):
    q, v = drawn(device, 1, 2, 3, 4), drawn(device, 1, 2, 3, 7)
    assert nn.MultiHeadAttention()(q, q, v)[0].shape == (1, 2, 3, 7)


@pytest.mark.parametrize("causal", [True, False])
def test_attention_layer_against_numpy(device, causal):
    sizes = {"k_features": 5, "v_features": 7, "out_features": 9}
    layer = jiggled(nn.AttentionLayer(6, 2, 4, causal=causal, device=device, dtype="float64", **sizes))
    q, k, v = drawn(device, 2, 3, 6), drawn(device, 2, 4, 5), drawn(device, 2, 4, 7)
    assert_close(layer(q, k, v), attention_layer(layer, q.numpy(), k.numpy(), v.numpy()))


def test_attention_to_itself(device):
    layer, q = nn.AttentionLayer(6, 2, 4, device=device, dtype="float64"), drawn(device, 2, 3, 6)
    assert (layer(q).numpy() == layer(q, q, q).numpy()).all()


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_transformer_against_numpy(device, causal, batch_first):
    for batch, features, hidden, layers, length, _ in GRID[::2]:
        model = nn.Transformer(
            features, hidden, layers, num_head=2, dim_head=3, causal=causal, batch_first=batch_first,
            sequence_len=13, device=device, dtype="float64",
        )  # fmt: skip
        jiggled(model)
        values = np.random.randn(batch, length, features)
        x, h = model(ndl.Tensor(values if batch_first else values.swapaxes(0, 1), device=device, dtype="float64"))
        found = x.numpy() if batch_first else x.numpy().swapaxes(0, 1)
        assert_close(found, transformer(model, values), rtol=1e-9, atol=1e-10)
        assert (h.shape, h.numpy().any()) == (x.shape, False)


@pytest.mark.parametrize("causal", [True, False])
def test_gradients_to_second_order(device, causal):
    model = nn.Transformer(
        4, 5, 2, num_head=2, dim_head=3, causal=causal, sequence_len=3, device=device, dtype="float64"
    )
    owners = [(module, name) for _, module in model.named_modules() for name, _ in own_parameters(module)]

    def output(x, *weights):
        for (module, name), weight in zip(owners, weights, strict=True):
            vars(module)[name] = weight
        return model(x)[0]

    check_gradients(output, [drawn(device, 3, 2, 4), *[getattr(module, name) for module, name in owners]])


def own_parameters(module):
    return [(name, p) for name, p in vars(module).items() if isinstance(p, nn.Parameter)]


def test_causal_means_that_the_future_has_no_gradient(device):
    model = nn.Transformer(4, 5, 2, num_head=2, dim_head=3, sequence_len=6, device=device)
    x = drawn(device, 6, 1, 4, dtype="float32")
    model(x)[0][2].sum().backward()
    assert x.grad.numpy()[:3].any() and not x.grad.numpy()[3:].any()


# Dropout


def test_weights_are_dropped_in_logical_order(device):
    q = drawn(device, 2, 3, 4, 5)
    layer = nn.MultiHeadAttention(dropout=0.3)
    np.random.seed(9)
    keep = np.random.rand(2, 3, 4, 4) <= 0.7
    np.random.seed(9)
    result, weights = layer(q, q, q)
    expected = attention(q.numpy(), q.numpy(), q.numpy(), False)[1] * keep / 0.7
    assert_close(weights, expected)
    assert_close(result, expected @ q.numpy())
    assert_close(layer.eval()(q, q, q)[1], attention(q.numpy(), q.numpy(), q.numpy(), False)[1])


def test_a_layer_draws_for_weights_attention_hidden_and_output(device):
    layer = nn.TransformerLayer(6, 2, 3, 5, dropout=0.4, device=device)
    np.random.seed(9)
    np.random.rand(2 * 2 * 4 * 4 + 2 * 4 * 6 + 2 * 4 * 5 + 2 * 4 * 6)
    after = np.random.rand()
    np.random.seed(9)
    layer(ndl.Tensor(np.ones((2, 4, 6)), device=device))
    assert np.random.rand() == after


# Against PyTorch


def torch_layer(torch, layer, features, hidden, heads):
    """PyTorch's pre-norm encoder layer with our weights; its heads times their width must be the features."""
    theirs = torch.nn.TransformerEncoderLayer(features, heads, hidden, 0.0, norm_first=True, batch_first=True).double()
    norm, first, _, _, second, _ = layer.mlp
    own = layer.attention
    for target, value in (
        (theirs.self_attn.in_proj_weight,
         np.concatenate([getattr(own, f"{n}_projection").weight.numpy().T for n in "qkv"])),
        (theirs.self_attn.in_proj_bias, np.zeros(3 * features)),
        (theirs.self_attn.out_proj.weight, own.out_projection.weight.numpy().T),
        (theirs.self_attn.out_proj.bias, np.zeros(features)),
        (theirs.linear1.weight, first.weight.numpy().T), (theirs.linear1.bias, first.bias.numpy()[0]),
        (theirs.linear2.weight, second.weight.numpy().T), (theirs.linear2.bias, second.bias.numpy()[0]),
        (theirs.norm1.weight, own.prenorm_q.weight.numpy()), (theirs.norm1.bias, own.prenorm_q.bias.numpy()),
        (theirs.norm2.weight, norm.weight.numpy()), (theirs.norm2.bias, norm.bias.numpy()),
    ):  # fmt: skip
        target.data = torch.tensor(value.copy())
    return theirs


def pairs_of_gradients(layer, theirs):
    norm, first, _, _, second, _ = layer.mlp
    own, features = layer.attention, layer.attention.prenorm_q.dim
    for row, name in enumerate("qkv"):
        part = theirs.self_attn.in_proj_weight.grad[row * features : (row + 1) * features]
        yield getattr(own, f"{name}_projection").weight.grad, part.T
    yield own.out_projection.weight.grad, theirs.self_attn.out_proj.weight.grad.T
    for linear, other in ((first, theirs.linear1), (second, theirs.linear2)):
        yield linear.weight.grad, other.weight.grad.T
        yield linear.bias.grad, other.bias.grad[None]
    yield norm.weight.grad, theirs.norm2.weight.grad
    yield norm.bias.grad, theirs.norm2.bias.grad
    three = [own.prenorm_q, own.prenorm_k, own.prenorm_v]  # PyTorch's one norm serves q, k and v
    yield sum(n.weight.grad.numpy() for n in three), theirs.norm1.weight.grad
    yield sum(n.bias.grad.numpy() for n in three), theirs.norm1.bias.grad


@pytest.mark.parity
@pytest.mark.parametrize("batch, features, hidden, layers, length, causal", GRID)
def test_values_and_gradients_are_pytorchs(device, batch, features, hidden, layers, length, causal):
    torch = pytest.importorskip("torch")
    model = nn.Transformer(
        features, hidden, layers, num_head=1, dim_head=features, causal=causal, batch_first=True,
        sequence_len=length, device=device, dtype="float64",
    )  # fmt: skip
    theirs = [torch_layer(torch, layer, features, hidden, 1) for layer in model.layers]
    x = drawn(device, batch, length, features)
    y, _ = model(x)
    other = torch.tensor(x.numpy(), requires_grad=True)
    positions = torch.tensor(model.embedding.weight.numpy(), requires_grad=True)
    z = other + positions
    mask = torch.nn.Transformer.generate_square_subsequent_mask(length, dtype=torch.float64) if causal else None
    for layer in theirs:
        z = layer(z, src_mask=mask, is_causal=causal)
    assert_close(y, z.detach().numpy(), rtol=1e-9, atol=1e-10)
    (y * y).sum().backward()
    (z * z).sum().backward()
    found = [(x.grad, other.grad), (model.embedding.weight.grad, positions.grad)]
    for layer, their_layer in zip(model.layers, theirs, strict=True):
        found += pairs_of_gradients(layer, their_layer)
    for ours, expected in found:
        assert_close(ours, expected.numpy(), rtol=1e-8, atol=1e-9)


@pytest.mark.parity
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("queries, keys", [(5, 5), (3, 7)])
def test_attention_is_pytorchs(device, queries, keys, causal):
    torch = pytest.importorskip("torch")
    ours = [drawn(device, 2, 3, n, 4) for n in (queries, keys, keys)]
    theirs = [torch.tensor(x.numpy(), requires_grad=True) for x in ours]
    mask = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries) if causal else None
    result, _ = nn.MultiHeadAttention(causal=causal)(*ours)
    expected = torch.nn.functional.scaled_dot_product_attention(*theirs, attn_mask=mask)
    (result * result).sum().backward()
    (expected * expected).sum().backward()
    assert_close(result, expected.detach().numpy())
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a.grad, b.grad.numpy())


X = init.zeros(1, 2, 3, 4)


@pytest.mark.parametrize(
    "call, error, said",
    [
        (lambda: nn.MultiHeadAttention(dropout=2.0), OptionError, "Dropout: p must be between 0 and 1"),
        (lambda: nn.MultiHeadAttention()(X, X, None), DTypeError, "MultiHeadAttention: v must be a needle"),
        (lambda: nn.MultiHeadAttention()(X, X, init.zeros(1, 2, 5, 4)), ShapeError, "MultiHeadAttention: expected q"),
        (lambda: nn.MultiHeadAttention()(X, init.zeros(1, 2, 3, 5), X), ShapeError, "MultiHeadAttention: expected q"),
        (lambda: nn.MultiHeadAttention()(*[init.zeros(2, 3, 4)] * 3), ShapeError, r"shapes \(2, 3, 4\), \(2, 3, 4\)"),
        (lambda: nn.AttentionLayer(6, 0, 4), ShapeError, "AttentionLayer: num_head must be at least 1"),
        (lambda: nn.AttentionLayer(6, 2, 4)(init.zeros(2, 6)), ShapeError, r"AttentionLayer: expected q \(batch,len"),
        (lambda: nn.AttentionLayer(6, 2, 4)(init.zeros(2, 3, 6), init.zeros(2, 3, 5)), ShapeError, "expected k"),
        (lambda: nn.TransformerLayer(6, 2, 4, 5)(init.zeros(2, 6)), ShapeError, r"TransformerLayer: .*= 6.*\(2, 6\)"),
        (lambda: nn.TransformerLayer(6, 2, 4, 5)(init.zeros(1, 2, 5)), ShapeError, r"TransformerLayer: .*\(1, 2, 5\)"),
        (lambda: nn.TransformerLayer(6, 2, 4, 5)(None), DTypeError, "TransformerLayer: the input must be a needle"),
        (lambda: nn.AttentionLayer(6, 2, 4)(None), DTypeError, "AttentionLayer: q must be a needle"),
        (lambda: nn.TransformerLayer(6, 2, 4, 0), ShapeError, "Linear: out_features must be at least 1"),
        (lambda: nn.TransformerLayer(6, 2, 4, 5)(init.zeros(2, 3, 7)), ShapeError, "= 6, got shape"),
        (lambda: nn.Transformer(6, 5, 0), ShapeError, "Transformer: num_layers must be at least 1"),
        (lambda: nn.Transformer(6, 5, 1)(init.zeros(3, 6)), ShapeError, r"Transformer: expected \(seq,batch,emb"),
        (lambda: nn.Transformer(6, 5, 1, batch_first=True)(init.zeros(2, 3, 5)), ShapeError, r"\(batch,seq,embedd"),
        (lambda: nn.Transformer(6, 5, 1, sequence_len=4)(init.zeros(5, 1, 6)), ShapeError,
         "Transformer: a sequence of 5 is longer than sequence_len = 4"),
    ],
)  # fmt: skip
def test_wrong_input(call, error, said):
    with pytest.raises(error, match=said):
        call()
