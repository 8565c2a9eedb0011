"""Batch, layer and group norm against their formula, central differences and PyTorch."""

import numpy as np
import pytest

import needle as ndl
from needle import ops
from needle.errors import DTypeError, GradientError, OptionError, ShapeError
from needle.ops import Normalize
from tests.ops.differences import check_to_second_order
from tests.tolerances import assert_close

SHAPES = [(6, 3), (4, 3, 5), (2, 3, 4, 5), (3, 1, 2, 2), (1, 3, 1, 4)]


def parameters(*shape, dtype="float64"):
    return [np.random.uniform(0.5, 1.5, shape).astype(dtype), np.random.randn(*shape).astype(dtype)]


def normalized(x, axes, eps=1e-5):
    x = x.astype(float)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def along_channels(a, ndim):
    return a.reshape(-1, *[1] * (ndim - 2))


@pytest.mark.parametrize("shape", SHAPES)
def test_batch_norm(tensor, dtype, shape):
    x = np.random.randn(*shape).astype(dtype) * 3 + 1
    weight, bias = parameters(shape[1], dtype=dtype)
    axes = (0, *range(2, len(shape)))
    got = ops.batch_norm(*(tensor(a, dtype=dtype) for a in (x, weight, bias)))
    expected = normalized(x, axes) * along_channels(weight, x.ndim) + along_channels(bias, x.ndim)
    assert got.dtype == dtype
    assert_close(got, expected)
    assert_close(ops.batch_norm(tensor(x, dtype=dtype)), normalized(x, axes))
    assert_close(
        ops.batch_norm(tensor(x, dtype=dtype), tensor(weight, dtype=dtype)),
        normalized(x, axes) * along_channels(weight, x.ndim),
    )


PEERS = {
    "batch_norm": (ops.batch_norm, lambda f, x, *p: f.batch_norm(x, None, None, *p, training=True), 1),
    "layer_norm": (ops.layer_norm, lambda f, x, *p: f.layer_norm(x, x.shape[-1:], *p), -1),
    "one group": (lambda x, *p: ops.group_norm(x, 1, *p), lambda f, x, *p: f.group_norm(x, 1, *p), 1),
    "groups of one": (
        lambda x, *p: ops.group_norm(x, x.shape[1], *p),
        lambda f, x, *p: f.group_norm(x, x.shape[1], *p),
        1,
    ),
}


@pytest.mark.parity
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", SHAPES[1:])
@pytest.mark.parametrize("peer", PEERS)
def test_norms_against_pytorch(tensor, peer, shape, affine):
    torch = pytest.importorskip("torch")
    ours, theirs, axis = PEERS[peer]
    arrays = [np.random.randn(*shape), *(parameters(shape[axis]) if affine else ())]
    a, b = [tensor(v) for v in arrays], [torch.tensor(v, requires_grad=True) for v in arrays]
    got, wanted = ours(*a), theirs(torch.nn.functional, *b)
    d = np.random.randn(*shape)
    got.backward(tensor(d))
    wanted.backward(torch.tensor(d))
    for our, their in zip((got, *(v.grad for v in a)), (wanted.detach(), *(v.grad for v in b))):
        assert_close(our, their.numpy())


NORMS = {
    "batch norm": (lambda *inputs: ops.batch_norm(*inputs, eps=0.1), (3, 2, 2), (2,)),
    "batch norm with ReLU": (lambda *inputs: ops.batch_norm(*inputs, eps=0.1, relu=True), (3, 2, 2), (2,)),
    "batch norm of a matrix": (lambda *inputs: ops.batch_norm(*inputs), (4, 2), (2,)),
    "layer norm": (lambda *inputs: ops.layer_norm(*inputs, eps=0.1), (2, 3), (3,)),
    "layer norm of two axes": (lambda *inputs: ops.layer_norm(*inputs), (2, 3, 2), (3, 2)),
    "group norm": (lambda *inputs: ops.group_norm(inputs[0], 2, *inputs[1:]), (2, 4, 3), (4,)),
}


@pytest.mark.parametrize("kind", NORMS)
def test_norms_to_second_order(tensor, kind):
    function, shape, parameter_shape = NORMS[kind]
    check_to_second_order(function, tensor, shape, *parameters(*parameter_shape))
    if kind != "layer norm of two axes":  # without a weight the last axis alone is normalised
        check_to_second_order(function, tensor, shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_batch_norm_with_relu_has_the_bits_of_both(tensor, dtype, shape):
    arrays = [np.random.randn(*shape), *parameters(shape[1])]
    arrays[0][1:2] = 0  # some are 0 after a bias of 0
    arrays[2][0] = 0
    d = tensor(np.random.randn(*shape), dtype=dtype)

    def run(relu):
        inputs = [tensor(a, dtype=dtype) for a in arrays]
        y = relu(*inputs)
        gradients = ndl.grad(y, inputs, d, create_graph=True)
        return y, *gradients, *ndl.grad(ops.summation(gradients[0] * gradients[0]), inputs[:2])

    fused = run(lambda *inputs: ops.batch_norm(*inputs, relu=True))
    apart = run(lambda *inputs: ops.relu(ops.batch_norm(*inputs)))
    assert isinstance(fused[0].op, Normalize)
    assert [a.numpy().tobytes() for a in fused] == [a.numpy().tobytes() for a in apart]


def test_batch_norm_with_relu_lets_nan_pass_and_needs_its_output(tensor):
    x = np.random.randn(4, 2)
    x[1, 0] = np.nan
    a = tensor(x)
    y = ops.batch_norm(a, relu=True)
    y.backward()
    for values in (y, a.grad):
        assert np.isnan(values.numpy()).all(0).tolist() == [True, False]
    y = ops.batch_norm(a, relu=True)
    y.data = tensor(np.ones((4, 2)))
    with pytest.raises(GradientError, match=r"Normalize: backward needs a tensor .* that was changed"):
        y.backward()


def test_layer_norm_of_several_axes(tensor):
    x, (weight, bias) = np.random.randn(4, 3, 5), parameters(3, 5)
    got = ops.layer_norm(tensor(x), tensor(weight), tensor(bias))
    assert_close(got, normalized(x, (1, 2)) * weight + bias)


def test_group_norm(tensor):
    x, (weight, bias) = np.random.randn(2, 6, 4, 3), parameters(6)
    groups = normalized(x.reshape(2, 3, 2, 4, 3), (2, 3, 4)).reshape(x.shape)
    got = ops.group_norm(tensor(x), 3, tensor(weight), tensor(bias))
    assert_close(got, groups * along_channels(weight, 4) + along_channels(bias, 4))


@pytest.mark.parametrize("norm", [ops.batch_norm, lambda *inputs: ops.group_norm(inputs[0], 2, *inputs[1:])])
def test_one_node_and_the_memory_order_is_kept(tensor, norm):
    x = ops.permute(tensor(np.random.randn(2, 3, 5, 4)), (0, 3, 1, 2)).detach()
    x.requires_grad = True
    weight, bias = map(tensor, parameters(4))
    y = norm(x, weight, bias)
    assert isinstance(y.op, Normalize) and y.inputs == (x, weight, bias)
    d = ops.permute(tensor(np.random.randn(2, 3, 5, 4)), (0, 3, 1, 2)).detach()
    gradients = y.op.gradient_as_tuple(d, y)
    assert [g.shape for g in gradients] == [x.shape, (4,), (4,)]
    for result in (y, gradients[0]):
        assert result.cached_data.permute((0, 2, 3, 1)).is_compact()


def test_statistics_are_handed_over(tensor, dtype):
    x = np.random.randn(4, 3, 2, 2).astype(dtype) * [[[[2.0]], [[1e-4]], [[5.0]]]] + 1
    x = x.astype(dtype)
    seen = []
    ops.batch_norm(tensor(x, dtype=dtype), on_statistics=lambda *statistics: seen.append(statistics))
    ((mean, variance, count),) = seen
    assert count == 16 and mean.dtype == variance.dtype == dtype
    assert_close(mean, x.astype(float).mean((0, 2, 3)))
    assert_close(variance, x.astype(float).var((0, 2, 3)))
    assert (variance.numpy() >= 0).all()


def test_an_empty_batch_gives_an_empty_result_and_zero_gradients(tensor):
    x, (weight, bias) = tensor(np.zeros((0, 3, 2, 2))), map(tensor, parameters(3))
    y = ops.batch_norm(x, weight, bias, on_statistics=lambda *_: pytest.fail("statistics of nothing"))
    y.backward()
    assert y.shape == x.grad.shape == x.shape
    assert_close(weight.grad, np.zeros(3))
    assert_close(bias.grad, np.zeros(3))


def test_a_large_mean_does_not_cancel(tensor):
    x = 1e6 + np.arange(8.0).reshape(1, 8)
    got = ops.layer_norm(tensor(x, dtype="float32"))
    assert_close(got, normalized(x, 1), rtol=1e-5, atol=1e-6)


def test_nan_stays_in_its_channel(tensor):
    x = np.random.randn(4, 2)
    x[1, 0] = np.nan
    assert np.isnan(ops.batch_norm(tensor(x)).numpy()).all(0).tolist() == [True, False]


def test_batch_norm_inference(tensor, dtype):
    x = np.random.randn(4, 3, 2, 2).astype(dtype)
    mean, variance = np.random.randn(3).astype(dtype), np.random.uniform(0.5, 2, 3).astype(dtype)
    weight, bias = parameters(3, dtype=dtype)
    got = ops.batch_norm_inference(*(tensor(a, dtype=dtype) for a in (x, mean, variance, weight, bias)))
    mean, variance, weight, bias = (along_channels(a.astype(float), 4) for a in (mean, variance, weight, bias))
    assert got.dtype == dtype
    assert_close(got, (x - mean) / np.sqrt(variance + 1e-5) * weight + bias)
    plain = ops.batch_norm_inference(*(tensor(a) for a in (x, mean.ravel(), variance.ravel())))
    assert_close(plain, (x - mean) / np.sqrt(variance + 1e-5))


@pytest.mark.parametrize("given", [2, 3, 4], ids=["statistics", "weight", "bias"])
@pytest.mark.parametrize("relu", [False, True], ids=["", "relu"])
def test_batch_norm_inference_is_its_formula_to_the_bit(tensor, dtype, given, relu):
    drawn = np.random.default_rng(0)
    x, d = (tensor(drawn.normal(size=(2, 3, 5, 4)), dtype=dtype) for _ in range(2))
    mean, variance, weight, bias = (tensor(drawn.uniform(0.5, 2, size=3), dtype=dtype) for _ in range(4))
    inputs = [x, *(mean, variance, weight, bias)[:given]]

    def formula(x, mean, variance, *parameters):
        scale = (variance + 1e-3) ** -0.5 * parameters[0] if parameters else (variance + 1e-3) ** -0.5
        out = (x - mean.reshape((3, 1, 1))) * scale.reshape((3, 1, 1))
        out = out + parameters[1].reshape((3, 1, 1)) if len(parameters) > 1 else out
        return ops.relu(out) if relu else out

    found = []
    for function in (lambda *inputs: ops.batch_norm_inference(*inputs, eps=1e-3, relu=relu), formula):
        y = function(*inputs)
        found.append([a.numpy().tobytes() for a in (y, *ndl.grad(y, inputs, [d]))])
    assert found[0] == found[1]


def test_batch_norm_inference_to_second_order(tensor):
    check_to_second_order(
        lambda x, w, b, m: ops.batch_norm_inference(x, m, m * m + 0.5, w, b), tensor, (3, 2), (2,), (2,), (2,)
    )


def test_what_does_not_fit_raises(tensor):
    x, three, two = tensor(np.ones((4, 3))), tensor(np.ones(3)), tensor(np.ones(2))
    single = tensor(np.ones((1, 3, 1, 1)))
    for call, message in (
        (lambda: ops.batch_norm(three), r"batch_norm: .*N,C.*\(3,\)"),
        (lambda: ops.batch_norm(single), r"batch_norm: one value per channel .*\(1, 3, 1, 1\)"),
        (lambda: ops.batch_norm(x, two), r"batch_norm: the weight has shape \(2,\).*\(3,\)"),
        (lambda: ops.batch_norm(x, three, two), r"batch_norm: the bias has shape \(2,\).*\(3,\)"),
        (lambda: ops.batch_norm(x, None, three), "batch_norm: a bias needs a weight"),
        (lambda: ops.batch_norm_inference(x, two, three), r"batch_norm_inference: the mean has shape \(2,\)"),
        (lambda: ops.batch_norm_inference(x, three, two), r"batch_norm_inference: the variance has shape \(2,\)"),
        (lambda: ops.layer_norm(x, two), r"layer_norm: the weight has shape \(2,\).*\(3,\)"),
        (lambda: ops.layer_norm(three, tensor(np.ones((1, 3)))), r"layer_norm: .*\(3,\) over its last 2 axes"),
        (lambda: ops.group_norm(x, 2), "group_norm: 3 channels cannot be cut into 2 groups"),
        (lambda: ops.group_norm(x, 0), "group_norm: num_groups must be at least 1, got 0"),
        (lambda: ops.group_norm(three, 1), r"group_norm: .*\(3,\)"),
    ):
        with pytest.raises(ShapeError, match=f"^{message}"):
            call()


def test_negative_eps_raises(tensor):
    x, ones = tensor(np.ones((4, 3))), tensor(np.ones(3))
    for call, name in (
        (lambda: ops.batch_norm(x, eps=-1), "batch_norm"),
        (lambda: ops.batch_norm_inference(x, ones, ones, eps=float("nan")), "batch_norm_inference"),
        (lambda: ops.layer_norm(x, eps=-1e-9), "layer_norm"),
        (lambda: ops.group_norm(x, 1, eps=-1), "group_norm"),
    ):
        with pytest.raises(OptionError, match=f"^{name}: eps must be at least 0"):
            call()


def test_wrong_dtypes_raise(tensor):
    x = ndl.Tensor(np.ones((4, 3)), dtype="int64", device=tensor([1.0]).device)
    with pytest.raises(DTypeError, match=r"^batch_norm: .*int64.*astype"):
        ops.batch_norm(x)
    with pytest.raises(DTypeError, match=r"^layer_norm: weight must be .*Tensor"):
        ops.layer_norm(tensor(np.ones((4, 3))), np.ones(3))
