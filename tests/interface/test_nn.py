"""INTERFACE.md, "nn", less the sequence layers, which are in test_nn_sequences.py."""

import numpy as np
import pytest

import needle as ndl
from needle import nn, ops
from tests.tolerances import assert_close


def bounded(shape, bound):
    """What `init` draws: U(-bound, bound) from the global generator."""
    return np.random.rand(*shape) * (2 * bound) - bound


def kaiming(fan_in):
    return np.sqrt(2) * np.sqrt(3 / fan_in)


def test_parameter():
    p = nn.Parameter(ndl.Tensor([1.0]))
    assert isinstance(p, ndl.Tensor)
    assert p.requires_grad


class Tree(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Parameter(ndl.Tensor([1.0]))
        self.parts = [nn.Linear(2, 2, bias=False), (nn.Linear(2, 2, bias=False), {"again": self.shared})]
        self.by_name = {"x": {"y": [nn.Parameter(ndl.Tensor([2.0]))]}, "act": nn.ReLU()}
        self.number, self.plain = 3, ndl.Tensor([4.0])

    def forward(self, x):
        return x * self.shared


def test_module_finds_parameters_and_children():
    tree = Tree()
    parameters = tree.parameters()
    assert isinstance(parameters, list)
    assert len(parameters) == 4
    assert {id(p) for p in parameters} == {
        id(tree.shared), id(tree.parts[0].weight), id(tree.parts[1][0].weight), id(tree.by_name["x"]["y"][0]),
    }  # fmt: skip
    assert {type(child) for child in tree._children()} == {nn.Linear, nn.ReLU}
    assert tree.training is True
    tree.eval()
    assert [module.training for module in (tree, tree.parts[1][0], tree.by_name["act"])] == [False] * 3
    tree.train()
    assert tree.parts[0].training is True
    assert tree(ndl.Tensor([5.0])).numpy().item() == 5


def test_assigning_a_tensor_in_place_of_a_parameter(tensor, device):
    linear = nn.Linear(2, 1, bias=False, device=device, dtype="float64")
    linear.weight = tensor([[2.0], [3.0]])
    assert_close(linear(tensor([[1.0, 1.0]])), [[5.0]])
    linear.weight = tensor([[4.0], [3.0]])
    assert_close(linear(tensor([[1.0, 1.0]])), [[7.0]])


@pytest.mark.parametrize("bias", [True, False])
def test_linear(device, dtype, bias):
    np.random.seed(5)
    weight = bounded((4, 3), kaiming(4))
    offset = bounded((3, 1), kaiming(3)).reshape(1, 3) if bias else 0.0
    after = np.random.rand()
    np.random.seed(5)
    layer = nn.Linear(4, 3, bias=bias, device=device, dtype=dtype)
    assert np.random.rand() == after, "no bias, no draw"
    assert_close(layer.weight, weight.astype(dtype))
    assert len(layer.parameters()) == 1 + bias
    if bias:
        assert_close(layer.bias, offset.astype(dtype))
    x = np.random.randn(2, 5, 4)
    assert_close(layer(ndl.Tensor(x, device=device, dtype=dtype)), (x @ weight + offset).astype(dtype))


def test_linear_bias_of_another_shape(tensor, device):
    layer = nn.Linear(2, 3, device=device, dtype="float64")
    layer.bias.data = tensor([1.0, 2, 3])
    assert layer(tensor(np.zeros((4, 2)))).numpy().tolist() == [[1, 2, 3]] * 4


def test_simple_layers(tensor):
    values = np.random.randn(2, 3, 4)
    x = tensor(values)
    for layer, expected in (
        (nn.Identity(), values),
        (nn.Flatten(), values.reshape(2, 12)),
        (nn.ReLU(), np.maximum(values, 0)),
        (nn.Sigmoid(), 1 / (1 + np.exp(-values))),
        (nn.Tanh(), np.tanh(values)),
        (nn.Residual(nn.Tanh()), np.tanh(values) + values),
        (nn.Sequential(nn.ReLU(), nn.Tanh()), np.tanh(np.maximum(values, 0))),
    ):
        assert_close(layer(x), expected)
        assert layer.parameters() == []
    sequence = nn.Sequential(nn.ReLU(), nn.Tanh())
    assert [type(module) for module in sequence.modules] == [nn.ReLU, nn.Tanh]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_dropout_draws_in_logical_order(tensor, order):
    values = np.random.randn(3, 4, 5)
    x = tensor(values.transpose(np.argsort(order))).cached_data.permute(order)  # another memory order
    np.random.seed(9)
    keep = np.random.rand(*x.shape) <= 1 - 0.3
    np.random.seed(9)
    y = nn.Dropout(0.3)(ndl.Tensor.make_const(x, requires_grad=True))
    assert_close(y, x.numpy() * keep / 0.7)


def test_softmax_loss(tensor):
    logits, labels = np.random.randn(4, 3), np.array([2, 0, 1, 1])
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    expected = -log_p[np.arange(4), labels].mean()
    for y in (
        tensor(labels, dtype="float32"),
        tensor(labels, dtype="int64"),
        tensor(labels, dtype="uint8"),
        tensor(np.eye(3)[labels]),
    ):
        z = tensor(logits)
        loss = nn.SoftmaxLoss()(z, y)
        loss.backward()
        assert loss.shape == ()
        assert_close(loss, expected)
        assert_close(z.grad, (np.exp(log_p) - np.eye(3)[labels]) / 4)
    soft = np.random.dirichlet(np.ones(3), 4)
    assert_close(nn.SoftmaxLoss()(tensor(logits), tensor(soft)), -(soft * log_p).sum() / 4)


def batch_norm_case(kind):
    shape, axes = ((6, 3), (0,)) if kind is nn.BatchNorm1d else ((2, 3, 4, 5), (0, 2, 3))
    return np.random.randn(*shape) * 2 + 1, axes, (1, 3) + (1,) * (len(shape) - 2)


@pytest.mark.parametrize("kind", [nn.BatchNorm1d, nn.BatchNorm2d])
def test_batch_norm(tensor, device, kind):
    values, axes, column = batch_norm_case(kind)
    layer = kind(3, eps=1e-3, momentum=0.2, device=device, dtype="float64")
    assert [t.numpy().tolist() for t in (layer.weight, layer.bias, layer.running_mean, layer.running_var)] == [
        [1] * 3, [0] * 3, [0] * 3, [1] * 3,
    ]  # fmt: skip
    assert len(layer.parameters()) == 2
    layer.weight.data, layer.bias.data = tensor([1.0, 2, 3]), tensor([3.0, 2, 1])
    scale, shift = np.reshape([1.0, 2, 3], column), np.reshape([3.0, 2, 1], column)
    mean, var = values.mean(axes, keepdims=True), values.var(axes, keepdims=True)
    assert_close(layer(tensor(values)), (values - mean) / np.sqrt(var + 1e-3) * scale + shift)
    assert_close(layer.running_mean, 0.2 * mean.ravel())
    assert_close(layer.running_var, 0.8 + 0.2 * var.ravel())
    before = layer.running_mean.numpy().tobytes(), layer.running_var.numpy().tobytes()
    layer.eval()
    mean, var = (np.reshape(t.numpy(), column) for t in (layer.running_mean, layer.running_var))
    assert_close(layer(tensor(values)), (values - mean) / np.sqrt(var + 1e-3) * scale + shift)
    assert (layer.running_mean.numpy().tobytes(), layer.running_var.numpy().tobytes()) == before


def test_batch_norm_counts_batches_whose_result_is_put_off(tensor, device, monkeypatch):
    monkeypatch.setattr(ndl.autograd, "LAZY_MODE", True)
    layer = nn.BatchNorm1d(3, device=device, dtype="float64")
    values = np.random.randn(2, 4, 3)
    for batch in values:
        layer(tensor(batch))
    first, second = values.mean(1)
    assert_close(layer.running_mean, 0.9 * 0.1 * first + 0.1 * second)


def test_batch_norm_from_arrays(tensor):
    arrays = [np.array([1.0, 2]), np.array([3.0, 4]), np.array([5.0, 6]), np.array([7.0, 8])]
    layer = nn.BatchNorm2d.from_arrays(*arrays, eps=1e-4, momentum=0.3)
    layer.eval()
    gamma, beta, mean, var = (a.reshape(1, 2, 1, 1) for a in arrays)
    x = np.random.randn(2, 2, 3, 3)
    y = layer(ndl.Tensor(x, dtype=layer.weight.dtype))
    assert_close(y, (x - mean) / np.sqrt(var + 1e-4) * gamma + beta, rtol=1e-5, atol=1e-5)
    assert (layer.running_mean.numpy() == arrays[2]).all()
    assert (layer.eps, layer.momentum) == (1e-4, 0.3)


def test_layer_norm(tensor, device):
    layer = nn.LayerNorm1d(4, eps=1e-3, device=device, dtype="float64")
    assert [t.numpy().tolist() for t in (layer.weight, layer.bias)] == [[1] * 4, [0] * 4]
    for shape in ((3, 4), (2, 3, 4)):
        x = np.random.randn(*shape)
        expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-3)
        assert_close(layer(tensor(x)), expected)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (1, 1), (5, 2)])
def test_conv(device, kernel, stride, bias):
    np.random.seed(5)
    weight = bounded((kernel, kernel, 2, 3), kaiming(2 * kernel**2))
    offset = bounded((3,), 1 / np.sqrt(2 * kernel**2)) if bias else np.zeros(3)
    after = np.random.rand()
    np.random.seed(5)
    layer = nn.Conv(2, 3, kernel, stride=stride, bias=bias, device=device, dtype="float64")
    assert np.random.rand() == after
    assert_close(layer.weight, weight)
    assert len(layer.parameters()) == 1 + bias
    x = ndl.Tensor(np.random.randn(2, 2, 6, 7), device=device, dtype="float64")
    nhwc = ndl.Tensor(x.numpy().transpose(0, 2, 3, 1), device=device, dtype="float64")
    expected = ops.conv(nhwc, layer.weight, stride=stride, padding=kernel // 2).numpy() + offset
    assert_close(layer(x), expected.transpose(0, 3, 1, 2))


def test_layers_default_to_float32():
    layers = [nn.Linear(2, 2), nn.Conv(2, 2, 3), nn.BatchNorm1d(2), nn.BatchNorm2d(2), nn.LayerNorm1d(2)]
    assert {str(p.dtype) for layer in layers for p in layer.parameters()} == {"float32"}
