"""Layers: what they compute; that they read their attributes at each call, and change nothing handed to them."""

from itertools import product

import numpy as np
import pytest

import needle as ndl
from needle import init, nn, ops
from needle.errors import BoundsError, DTypeError, OptionError, ShapeError
from needle.ops.linalg import Affine
from needle.ops.norm import NormalizeByStatistics
from needle.testing import check_gradients
from tests.tolerances import assert_close

IMAGES, ROWS = (2, 4, 6, 6), (5, 4)

LAYERS = {  # layer, input shape, output shape
    "Identity": (lambda **k: nn.Identity(), ROWS, ROWS),
    "Linear": (lambda **k: nn.Linear(4, 3, **k), ROWS, (5, 3)),
    "Linear of more axes": (lambda **k: nn.Linear(6, 3, **k), IMAGES, (2, 4, 6, 3)),
    "Linear of one axis": (lambda **k: nn.Linear(4, 3, **k), (4,), (3,)),
    "Flatten": (lambda **k: nn.Flatten(), IMAGES, (2, 144)),
    "Residual": (lambda **k: nn.Residual(nn.Tanh()), ROWS, ROWS),
    "Sequential": (lambda **k: nn.Sequential(nn.Linear(4, 3, **k), nn.ReLU()), ROWS, (5, 3)),
    "Conv": (lambda **k: nn.Conv(4, 6, 3, **k), IMAGES, (2, 6, 6, 6)),
    "Conv even kernel": (lambda **k: nn.Conv(4, 6, 2, **k), IMAGES, (2, 6, 7, 7)),
    "Conv pairs": (lambda **k: nn.Conv(4, 6, (1, 3), stride=(2, 1), padding=(0, 1), **k), IMAGES, (2, 6, 3, 6)),
    "Conv dilated": (lambda **k: nn.Conv(4, 6, 3, dilation=2, **k), IMAGES, (2, 6, 6, 6)),
    "Conv groups": (lambda **k: nn.Conv(4, 6, 3, groups=2, bias=False, **k), IMAGES, (2, 6, 6, 6)),
    "ConvTranspose": (lambda **k: nn.ConvTranspose(4, 6, 2, stride=2, **k), IMAGES, (2, 6, 12, 12)),
    "ConvTranspose groups": (
        lambda **k: nn.ConvTranspose(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, **k),
        IMAGES, (2, 6, 12, 12),
    ),
    "MaxPool2d": (lambda **k: nn.MaxPool2d(2), IMAGES, (2, 4, 3, 3)),
    "AvgPool2d": (lambda **k: nn.AvgPool2d(3, stride=2, padding=1), IMAGES, (2, 4, 3, 3)),
    "GlobalAvgPool2d": (lambda **k: nn.GlobalAvgPool2d(), IMAGES, (2, 4, 1, 1)),
    "BatchNorm1d": (lambda **k: nn.BatchNorm1d(4, **k), ROWS, ROWS),
    "BatchNorm1d of three axes": (lambda **k: nn.BatchNorm1d(4, **k), (2, 4, 3), (2, 4, 3)),
    "BatchNorm2d": (lambda **k: nn.BatchNorm2d(4, **k), IMAGES, IMAGES),
    "LayerNorm1d": (lambda **k: nn.LayerNorm1d(4, **k), ROWS, ROWS),
    "GroupNorm": (lambda **k: nn.GroupNorm(2, 4, **k), IMAGES, IMAGES),
    "AttentionLayer": (lambda **k: nn.AttentionLayer(4, 2, 3, **k), (2, 5, 4), (2, 5, 4)),
    "TransformerLayer": (lambda **k: nn.TransformerLayer(4, 2, 3, 6, dropout=0.5, **k), (2, 5, 4), (2, 5, 4)),
    "Dropout": (lambda **k: nn.Dropout(0.5), ROWS, ROWS),
    "Dropout2d": (lambda **k: nn.Dropout2d(0.5), IMAGES, IMAGES),
    "Softmax": (lambda **k: nn.Softmax(), ROWS, ROWS),
    **{
        kind.__name__: (lambda kind=kind, **k: kind(), ROWS, ROWS)
        for kind in (nn.ReLU, nn.Sigmoid, nn.Tanh, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Softplus)
    },
}  # fmt: skip


def layer_and_input(row, device, dtype):
    make, shape, _ = LAYERS[row]
    return make(device=device, dtype=dtype), init.randn(*shape, device=device, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("row", LAYERS)
def test_shapes_dtypes_and_gradients_of_all_inputs(device, dtype, row):
    layer, x = layer_and_input(row, device, dtype)
    y = layer(x)
    assert (y.shape, y.dtype, y.device) == (LAYERS[row][2], dtype, device)
    if row != "Identity":
        y.backward()
    for leaf in [x, *layer.parameters()] if row != "Identity" else []:
        assert (leaf.grad.shape, leaf.grad.dtype) == (leaf.shape, dtype)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("row", LAYERS)
def test_nothing_handed_in_is_changed(device, row, training):
    layer, x = layer_and_input(row, device, "float64")
    layer.train(training)
    before, state = x.numpy(), {name: p.numpy() for name, p in layer.named_parameters()}
    y = layer(x)
    if y is not x:
        y.backward()
    assert (x.numpy() == before).all()
    assert all((p.numpy() == state[name]).all() for name, p in layer.named_parameters())


@pytest.mark.parametrize("row", [row for row, (_, shape, _) in LAYERS.items() if len(shape) > 1])
def test_empty_batches(device, row):
    make, shape, out_shape = LAYERS[row]
    layer = make(device=device)
    x = init.zeros(0, *shape[1:], device=device, requires_grad=True)
    before = layer.state_dict()
    y = layer(x)
    assert y.shape == (0, *out_shape[1:])
    if y is not x:
        y.backward()
    assert all((array == before[name]).all() for name, array in layer.state_dict().items())
    assert all(p.grad is None or not p.grad.numpy().any() for p in layer.parameters())


@pytest.mark.parametrize(
    "layer, x, change",
    [
        (lambda: nn.Conv(1, 1, 3), (1, 1, 6, 6), {"stride": 2}),
        (lambda: nn.Conv(1, 1, 3), (1, 1, 6, 6), {"padding": 0}),
        (lambda: nn.Conv(1, 1, 3), (1, 1, 6, 6), {"bias": None}),
        (lambda: nn.Conv(1, 1, 3), (1, 1, 6, 6), {"dilation": 2}),
        (lambda: nn.ConvTranspose(1, 1, 3, stride=2), (1, 1, 6, 6), {"output_padding": 1}),
        (lambda: nn.MaxPool2d(2), (1, 1, 6, 6), {"kernel_size": 3}),
        (lambda: nn.AvgPool2d(2, padding=1), (1, 1, 6, 6), {"count_include_pad": False}),
        (lambda: nn.BatchNorm1d(3), (4, 3), {"eps": 1.0}),
        (lambda: nn.BatchNorm1d(3), (4, 3), {"relu": True}),
        (lambda: nn.BatchNorm1d(3), (4, 3), {"training": False}),
        (lambda: nn.LayerNorm1d(3), (4, 3), {"eps": 1.0}),
        (lambda: nn.GroupNorm(1, 4), (4, 4), {"num_groups": 2}),
        (lambda: nn.Dropout(0.5), (4, 30), {"p": 0.9}),
        (lambda: nn.Dropout(0.5), (4, 30), {"training": False}),
        (lambda: nn.LeakyReLU(), (4, 3), {"negative_slope": 0.5}),
        (lambda: nn.ELU(), (4, 3), {"alpha": 0.5}),
        (lambda: nn.GELU(), (4, 3), {"approximate": "tanh"}),
        (lambda: nn.Softmax(), (4, 3), {"axis": 0}),
        (lambda: nn.Linear(3, 3), (4, 3), {"bias": None}),
    ],
)
def test_attributes_are_read_at_each_call(layer, x, change):
    layer, x = layer(), init.randn(*x)
    layer.bias = init.ones(1) if hasattr(layer, "bias") and isinstance(layer, nn.Conv) else getattr(layer, "bias", None)
    np.random.seed(1)
    before = layer(x).numpy()
    for name, value in change.items():
        setattr(layer, name, value)
    np.random.seed(1)
    after = layer(x).numpy()
    assert after.shape != before.shape or not np.array_equal(after, before)


def test_linear_draws_weight_then_bias_and_no_more():
    np.random.seed(4)
    nn.Linear(3, 2)
    after = np.random.rand()
    np.random.seed(4)
    init.kaiming_uniform(3, 2)
    init.kaiming_uniform(2, 1)
    assert np.random.rand() == after


def test_conv_transpose_draws_as_conv_does():
    np.random.seed(4)
    layer = nn.ConvTranspose(4, 6, (2, 3), groups=2, dtype="float64")
    assert layer.weight.shape == (2, 3, 3, 4) and layer.bias.shape == (6,)
    bound = np.sqrt(2) * np.sqrt(3 / (2 * 3 * 2))
    np.random.seed(4)
    assert_close(layer.weight, np.random.rand(2, 3, 3, 4) * 2 * bound - bound)
    assert_close(layer.bias, (np.random.rand(6) * 2 - 1) / np.sqrt(12))


@pytest.mark.parametrize("options", [{}, {"dilation": 2}, {"stride": 2, "padding": 1}, {"groups": 2}])
def test_conv_transpose_is_the_adjoint_of_conv(device, options):
    """<conv(x), y> = <x, conv_transpose(y)>, for one weight."""
    options = {"padding": 0, **options}
    down = nn.Conv(4, 6, 3, bias=False, device=device, dtype="float64", **options)
    up = nn.ConvTranspose(6, 4, 3, bias=False, device=device, dtype="float64", **options)
    up.weight = down.weight
    x = init.randn(2, 4, 7, 7, device=device, dtype="float64")
    y = init.randn(*down(x).shape, device=device, dtype="float64")
    assert_close((down(x) * y).sum(), (x * up(y)).sum().numpy())


def test_conv_result_lies_in_nhwc_memory(device):
    y = nn.Conv(2, 4, 3, device=device)(init.ones(1, 2, 5, 5, device=device))
    assert y.cached_data.strides == (100, 1, 20, 4)


# Dropout


@pytest.mark.parametrize("kind, shape", [(nn.Dropout, (100, 100)), (nn.Dropout2d, (100, 100, 2, 3))])
def test_da07_dropout_keeps_and_scales(tensor, kind, shape):
    layer, x = kind(0.5), tensor(np.ones(shape))
    y = layer(x)
    y.backward()
    values = y.numpy()
    assert set(np.unique(values)) == {0.0, 2.0}
    assert abs(values.mean() - 1) < 0.05
    assert (x.grad.numpy() == values).all(), "the gradient's mask is the forward pass's"
    assert layer.eval()(x) is x
    if kind is nn.Dropout2d:
        assert (values == values[:, :, :1, :1]).all(), "a channel is kept or dropped whole"


@pytest.mark.parametrize("p, factor", [(0.0, 1.0), (1.0, 0.0), (0.75, 4.0)])
def test_dropout_at_its_ends(tensor, p, factor):
    y = nn.Dropout(p)(tensor(np.ones(200)))
    assert set(np.unique(y.numpy())) <= {0.0, factor} and y.numpy().max() == factor


def test_dropout_draws_nothing_it_does_not_use(tensor):
    state = np.random.get_state()[1].copy()
    nn.Dropout(0.0)(tensor([1.0]))
    nn.Dropout(0.5).eval()(tensor([1.0]))
    assert (np.random.get_state()[1] == state).all()


# Normalisation


@pytest.mark.parametrize("kind, shape", [(nn.BatchNorm1d, (6, 3)), (nn.BatchNorm2d, (2, 3, 4, 5))])
def test_evaluation_and_empty_batches_leave_statistics_to_the_bit(device, kind, shape):
    layer = kind(3, device=device)
    layer(init.randn(*shape, device=device))
    kept = [(tensor, tensor.numpy().tobytes()) for tensor in (layer.running_mean, layer.running_var)]
    layer(init.zeros(0, *shape[1:], device=device))
    layer.eval()
    layer(init.randn(*shape, device=device, requires_grad=True)).backward()
    for (tensor, bits), now in zip(kept, (layer.running_mean, layer.running_var), strict=True):
        assert now is tensor and now.numpy().tobytes() == bits


def test_batch_norm_statistics_keep_their_dtype_and_no_graph(device):
    layer = nn.BatchNorm1d(3, device=device)
    layer(init.randn(4, 3, device=device, dtype="float64", requires_grad=True))
    assert layer.running_mean.dtype == layer.running_var.dtype == "float32"
    assert layer.running_mean.is_leaf() and not layer.running_mean.requires_grad


@pytest.mark.parametrize("kind, shape", [(nn.BatchNorm1d, (1, 3)), (nn.BatchNorm2d, (1, 3, 1, 1))])
def test_batch_norm_of_a_single_value(device, kind, shape):
    layer, x = kind(3, device=device), init.ones(*shape, device=device)
    with pytest.raises(ShapeError, match="batch_norm: one value per channel"):
        layer(x)
    assert layer.eval()(x).shape == shape


@pytest.mark.parametrize("make", [nn.BatchNorm1d.from_arrays, nn.BatchNorm2d.from_arrays])
def test_from_arrays_copies_and_checks(make):
    given = [np.full(3, float(i)) for i in range(1, 5)]
    layer = make(*given, eps=0.5, momentum=0.25, dtype="float64")
    given[0][:] = 9
    assert [t.numpy()[0] for t in (layer.weight, layer.bias, layer.running_mean, layer.running_var)] == [1, 2, 3, 4]
    assert (layer.eps, layer.momentum, layer.weight.dtype) == (0.5, 0.25, np.float64)
    with pytest.raises(ShapeError, match="running_var of shape"):
        make(*given[:3], np.ones(2))
    with pytest.raises(ShapeError, match=r"gamma must have shape \(C,\), got \(3, 1\)"):
        make(np.ones((3, 1)), *given[1:])


BATCH_NORM_AND_RELU = {  # whether one op computes both, and how they are put together
    "one layer": (True, lambda norm: setattr(norm, "relu", True) or norm),
    "in a Sequential": (True, lambda norm: nn.Sequential(norm, nn.ReLU())),
    "one by one": (False, lambda norm: lambda x: nn.ReLU()(norm(x))),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind, shape", [(nn.BatchNorm1d, (6, 3)), (nn.BatchNorm2d, (2, 3, 4, 5))])
def test_batch_norm_and_relu_have_the_same_bits_in_any_form(tensor, dtype, kind, shape, training):
    x, d, found = np.random.randn(*shape), np.random.randn(*shape), []
    for fused, put_together in BATCH_NORM_AND_RELU.values():
        a = tensor(x, dtype=dtype)
        norm = kind(3, device=a.device, dtype=dtype)
        norm(a + 1)  # running statistics that are not those of the beginning
        y = put_together(norm.train(training))(a)
        assert isinstance(y.op, (ops.Normalize if training else NormalizeByStatistics) if fused else ops.ReLU)
        results = y, *ndl.grad(y, [a, *norm.parameters()], tensor(d, dtype=dtype)), norm.running_mean, norm.running_var
        found.append([t.numpy().tobytes() for t in results])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("shape", [(5, 4), (1, 4), (0, 4), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_linear_is_its_product_and_its_sum_to_the_bit(tensor, dtype, shape):
    drawn = np.random.default_rng(0)
    values, d = drawn.normal(size=shape), tensor(drawn.normal(size=(*shape[:-1], 3)), dtype=dtype)
    layer = nn.Linear(4, 3, device=d.device, dtype=dtype)
    found = []
    for forward in (layer, lambda x: x @ layer.weight + layer.bias):
        x = tensor(values, dtype=dtype)
        y = forward(x)
        gradients = ndl.grad(y, [x, layer.weight, layer.bias], [d])
        found.append([(a.shape, a.dtype, a.numpy().tobytes()) for a in (y, *gradients)])
    assert found[0] == found[1]


def test_linear_to_second_order(tensor):
    layer = nn.Linear(3, 2, device=tensor([1.0]).device, dtype="float64")
    x = tensor(np.random.default_rng(0).normal(size=(4, 3)))
    assert type(layer(x).op) is Affine
    check_gradients(Affine(), [x, layer.weight, layer.bias])


def test_linear_takes_other_biases_and_dtypes_too(tensor):
    x, layer = tensor(np.ones((1, 2))), nn.Linear(2, 3, device=tensor([1.0]).device)
    layer.bias.data = tensor(np.arange(6.0).reshape(2, 3), dtype="float32")
    y = layer(x)
    assert y.shape == (2, 3) and y.dtype == "float64"
    assert_close(y, x.numpy() @ layer.weight.numpy() + layer.bias.numpy())


def test_what_sequential_does_not_fuse(tensor):
    class Own(nn.BatchNorm1d):
        pass

    class Leaky(nn.ReLU):
        def forward(self, x):
            return x * 0.5

    x, device = tensor(np.random.randn(4, 2)), tensor([1.0]).device

    def norm(kind=nn.BatchNorm1d):
        return kind(2, device=device, dtype="float64")

    def op_of(*layers):
        return type(nn.Sequential(*layers)(x).op).__name__

    assert op_of(norm(), nn.ReLU()) == "Normalize"
    assert op_of(norm(Own), nn.ReLU()) == "ReLU"
    assert op_of(norm(), Leaky()) == "MulScalar"
    replaced = nn.ReLU()
    replaced.forward = ops.tanh
    assert op_of(norm(), replaced) == "Tanh"
    for index, register in product((0, 1), ("register_forward_hook", "register_forward_pre_hook")):
        layers, seen = [norm(), nn.ReLU()], []
        remove = getattr(layers[index], register)(lambda *args, seen=seen: seen.append(args[1][0]))
        assert op_of(*layers) == "ReLU" and len(seen) == 1
        remove()
        assert op_of(*layers) == "Normalize"


def test_layers_in_several_places_of_a_sequential(tensor):
    x = tensor(np.random.randn(6, 2))
    norm, relu = nn.BatchNorm1d(2, device=x.device, dtype="float64"), nn.ReLU()
    twin = nn.BatchNorm1d(2, device=x.device, dtype="float64")
    y = nn.Sequential(norm, relu, norm, relu, relu, norm)(x)
    expected = twin(relu(relu(twin(relu(twin(x))))))
    for ours, theirs in ((y, expected), (norm.running_mean, twin.running_mean), (norm.running_var, twin.running_var)):
        assert ours.numpy().tobytes() == theirs.numpy().tobytes()


def test_normalisation_without_scale_and_shift(tensor):
    for kind, x in ((nn.BatchNorm1d, [[1.0, 5], [3, 5]]), (nn.LayerNorm1d, [[1.0, 3], [5, 5]])):
        layer = kind(2, device=tensor(x).device)
        layer.weight = layer.bias = None
        assert layer.parameters() == []
        expected = {nn.BatchNorm1d: [[-1, 0], [1, 0]], nn.LayerNorm1d: [[-1, 1], [0, 0]]}[type(layer)]
        assert_close(layer(tensor(x)), np.array(expected), rtol=0, atol=1e-4)


# Losses


def test_losses_are_the_ops(tensor):
    logits, labels = tensor(np.random.randn(4, 3)), tensor([2, 0, 1, 1])
    options = {"weight": tensor([1.0, 2, 3]), "ignore_index": 0, "label_smoothing": 0.1, "reduction": "sum"}
    assert_close(nn.CrossEntropyLoss(**options)(logits, labels), ops.cross_entropy(logits, labels, **options).numpy())
    assert_close(nn.SoftmaxLoss()(logits, labels), ops.cross_entropy(logits, labels).numpy())
    for reduction in ("mean", "sum", "none"):
        expected = ops.mse_loss(logits, logits * 2, reduction).numpy()
        assert_close(nn.MSELoss(reduction)(logits, logits * 2), expected)


def test_class_weights_are_a_buffer():
    loss = nn.CrossEntropyLoss(weight=[1.0, 2.0])
    assert loss.parameters() == [] and list(loss.state_dict()) == ["weight"]
    assert loss.to(dtype="float64").weight.dtype == "float64"


# Wrong input


@pytest.mark.parametrize("row", [row for row in LAYERS if row not in ("Identity", "Residual")])
@pytest.mark.parametrize(
    "x, said",
    [
        ([[1.0, 2.0]], "got a list; wrap it in needle.Tensor"),
        (np.ones((2, 4, 4, 4)), "got a numpy.ndarray; wrap it in needle.Tensor"),
        (None, "got None; a forward.* that forgot its `return`"),
    ],
)
def test_input_that_is_no_tensor(row, x, said):
    with pytest.raises(DTypeError, match=rf"\w+: .*needle.autograd.Tensor, {said}"):
        LAYERS[row][0]()(x)


@pytest.mark.parametrize(
    "call, error, said",
    [
        (lambda: nn.Linear(4, 2)(init.ones(3, 5)), ShapeError, r"Linear: .*in_features = 4, got shape \(3, 5\)"),
        (lambda: nn.Linear(4, 2)(init.ones()), ShapeError, "Linear: .*in_features = 4"),
        (lambda: nn.Linear(0, 2), ShapeError, "Linear: in_features must be at least 1, got 0"),
        (lambda: nn.Linear(2.5, 2), DTypeError, "Linear: in_features must be a whole number"),
        (lambda: nn.Conv(3, 8, 3)(init.ones(1, 4, 5, 5)), ShapeError, r"Conv: .*in_channels = 3.*\(1, 4, 5, 5\)"),
        (lambda: nn.Conv(3, 8, 3)(init.ones(3, 5, 5)), ShapeError, r"Conv: expected \(N,C,H,W\)"),
        (lambda: nn.Conv(3, 8, 3, padding=0)(init.ones(1, 3, 2, 2)), ShapeError, r"conv: kernel \(3, 3\) is larger"),
        (lambda: nn.Conv(3, 8, 0), ShapeError, "Conv: kernel_size must be at least 1, got 0"),
        (lambda: nn.Conv(3, 8, 3, stride=0), ShapeError, "Conv: stride must be at least 1, got 0"),
        (lambda: nn.Conv(3, 8, 3, padding=-1), ShapeError, "Conv: padding must be at least 0, got -1"),
        (lambda: nn.Conv(3, 8, 3, dilation=(1, 2, 3)), ShapeError, "Conv: dilation must be a number or a pair"),
        (lambda: nn.Conv(3, 8, 3, groups=2), ShapeError, "Conv: 3 input and 8 output channels .* 2 groups"),
        (lambda: nn.Conv(0, 8, 3), ShapeError, "Conv: in_channels must be at least 1"),
        (lambda: nn.Conv(3, 8, 1.5), DTypeError, "Conv: kernel_size must be a whole number"),
        (lambda: nn.ConvTranspose(3, 8, 3)(init.ones(1, 8, 5, 5)), ShapeError, "ConvTranspose: .*in_channels = 3"),
        (lambda: nn.ConvTranspose(3, 8, 3, groups=3), ShapeError, "ConvTranspose: 3 input and 8 output"),
        (lambda: nn.MaxPool2d(3)(init.ones(1, 1, 2, 2)), ShapeError, "max_pool2d: kernel"),
        (lambda: nn.AvgPool2d(2, padding=2)(init.ones(1, 1, 4, 4)), ShapeError, "avg_pool2d: padding"),
        (lambda: nn.GlobalAvgPool2d()(init.ones(2, 3)), ShapeError, "global_avg_pool2d"),
        (lambda: nn.BatchNorm1d(3)(init.ones(2, 4)), ShapeError, r"BatchNorm1d: .*C = 3, got shape \(2, 4\)"),
        (lambda: nn.BatchNorm1d(3)(init.ones(2, 3, 4, 4)), ShapeError, r"BatchNorm1d: expected \(N,C\)"),
        (lambda: nn.BatchNorm2d(3)(init.ones(2, 3)), ShapeError, r"BatchNorm2d: expected \(N,C,H,W\)"),
        (lambda: nn.BatchNorm2d(0), ShapeError, "BatchNorm2d: dim must be at least 1"),
        (lambda: nn.LayerNorm1d(3)(init.ones(2, 4)), ShapeError, r"LayerNorm1d: .*dim = 3, got shape \(2, 4\)"),
        (lambda: nn.GroupNorm(3, 4), ShapeError, "GroupNorm: 4 channels cannot be cut into 3 groups"),
        (lambda: nn.GroupNorm(2, 4)(init.ones(2, 6)), ShapeError, "GroupNorm: .*C = 4"),
        (lambda: nn.Dropout(1.5), OptionError, "Dropout: p must be between 0 and 1, got 1.5"),
        (lambda: nn.Dropout(-0.1), OptionError, "Dropout: p must"),
        (lambda: nn.Dropout2d(0.5)(init.ones(2, 3)), ShapeError, r"Dropout2d: expected \(N,C,H,W\)"),
        (lambda: nn.Flatten()(init.ones()), ShapeError, "Flatten"),
        (lambda: nn.Softmax(2)(init.ones(2, 3)), ShapeError, "softmax: axis 2"),
        (lambda: nn.GELU("cubic")(init.ones(2)), OptionError, "gelu: approximate"),
        (lambda: nn.Sequential([nn.ReLU()]), DTypeError, "Sequential: entry 0 must be .*a list; unpack"),
        (lambda: nn.Sequential(nn.ReLU(), nn.Tanh), DTypeError, r"Sequential: entry 1 is the class Tanh; .*Tanh\("),
        (lambda: nn.Residual(None), DTypeError, "Residual: fn must be a module, got None"),
        (lambda: nn.Residual(nn.ReLU), DTypeError, "Residual: fn is the class ReLU"),
        (lambda: nn.Linear(4, 2, dtype="int64"), DTypeError, "Linear: dtype must be float32 or float64, got int64"),
        (lambda: nn.Conv(1, 2, 3, dtype="bool"), DTypeError, "Conv: dtype must be float32 or float64, got bool"),
        (lambda: nn.ConvTranspose(1, 2, 3, dtype="uint8"), DTypeError, "ConvTranspose: dtype must be"),
        (lambda: nn.BatchNorm2d(3, dtype="int32"), DTypeError, "BatchNorm2d: dtype must be float32 or float64"),
        (lambda: nn.LayerNorm1d(3, dtype="float16"), DTypeError, "LayerNorm1d: .*float16"),
        (lambda: nn.BatchNorm1d(3, momentum=1.5), OptionError, "BatchNorm1d: momentum must be between 0 and 1"),
        (lambda: nn.BatchNorm1d(3, momentum=None), DTypeError, "BatchNorm1d: momentum must be a number"),
        (lambda: nn.BatchNorm1d(3, eps=-1)(init.ones(2, 3)), OptionError, "batch_norm: eps must be at least 0, got -1"),
        (lambda: nn.LayerNorm1d(3, eps=float("nan"))(init.ones(2, 3)), OptionError, "layer_norm: eps .* got nan"),
        (lambda: nn.BatchNorm1d.from_arrays([[1], [1, 2]], [1], [1], [1]), ShapeError, "BatchNorm1d.from_arrays"),
        (lambda: nn.Dropout("0.5"), DTypeError, "Dropout: p must be a number, got a str"),
        (lambda: nn.ReLU().register_forward_hook(None), DTypeError, "ReLU: a hook must be a function, got None"),
        (lambda: nn.SoftmaxLoss()(init.ones(2, 3), ndl.Tensor([0, 3])), BoundsError, "cross_entropy: .*3"),
        (lambda: nn.SoftmaxLoss()(init.ones(2, 3), ndl.Tensor([0, 1, 2])), ShapeError, "cross_entropy"),
        (lambda: nn.CrossEntropyLoss(reduction="all")(init.ones(2, 3), ndl.Tensor([0, 1])), OptionError, "reduction"),
        (lambda: nn.MSELoss()(init.ones(2, 3), init.ones(2, 4)), ShapeError, "mse_loss"),
    ],
)  # fmt: skip
def test_wrong_input(call, error, said):
    with pytest.raises(error, match=said):
        call()


def test_sequential_is_a_sequence_of_its_modules():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    assert len(model) == 3 and tuple(model) == model.modules
    assert model[0] is model.modules[0] and model[-1] is model.modules[2]
    assert type(model[:2]) is nn.Sequential and model[:2].modules == model.modules[:2]
    with pytest.raises(BoundsError, match="Sequential: there is no module 3 among 3"):
        model[3]
    assert len(nn.Sequential()) == 0 and nn.Sequential(), "a module is true, also without modules"
