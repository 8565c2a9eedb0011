"""The convolution family against plain loops, central differences and PyTorch."""

from typing import NamedTuple

import numpy as np
import pytest

import needle as ndl
from needle import ops
from needle.errors import DTypeError, ShapeError
from needle.ops import Conv, ConvInputGradient, ConvWeightGradient
from needle.ops.conv import conv_channels_first
from tests.ops import loops
from tests.ops.differences import check_to_second_order
from tests.tolerances import assert_close


class Case(NamedTuple):
    """One convolution; sizes, strides and so on as pairs."""

    size: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    channels: int
    outputs: int
    batch: int

    @property
    def settings(self):
        return self.stride, self.padding, self.dilation, self.groups

    @property
    def arguments(self):
        return dict(zip(("stride", "padding", "dilation", "groups"), self.settings))

    def arrays(self, dtype="float64"):
        """Draw x, weight, bias and an output gradient."""
        out = loops.out_size(self.size, self.kernel, *self.settings[:3])
        shapes = (
            (self.batch, *self.size, self.channels),
            (*self.kernel, self.channels // self.groups, self.outputs),
            (self.outputs,),
            (self.batch, *out, self.outputs),
        )
        return [np.random.uniform(-1, 1, shape).astype(dtype) for shape in shapes]


def case(size, kernel, stride=1, padding=0, dilation=1, groups=1, channels=2, outputs=3, batch=2):
    return Case(*map(loops.both, (size, kernel, stride, padding, dilation)), groups, channels, outputs, batch)


REMAINDERS = [
    case(kernel - 2 * padding + stride + remainder, kernel, stride, padding)
    for kernel, padding in ((3, 1), (2, 0), (5, 2))
    for stride in (2, 3, 4)
    for remainder in range(stride)
]
ONE_BY_ONE = [
    case(4, 1), case(5, 1, 2), case(6, 1, 3), case(1, 1), case(4, 1, 1, 1), case(3, 1, 2, 2), case((2, 3), 1),
    case(3, 1, groups=2, channels=4, outputs=2),
]  # fmt: skip
EVEN = [
    case(6, 2),
    case(6, 4, 1, 1),
    case(7, 4, 2, 2),
    case(5, 2, 2, 1),
    case(5, 2, 1, 1),
    case((6, 7), (4, 2), (2, 3), 1),
]
ONE_PIXEL_OUT = [case(3, 3), case(4, 4, 2), case(5, 5, 3), case((3, 5), (3, 5)), case(2, 4, 3, 1), case(7, 7, 4, 0)]
ONE_PIXEL_IN = [case(1, 3, 1, 1), case(1, 3, 2, 2), case(1, 2, 1, 1), case((1, 4), (1, 3))]
WIDE_PADDING = [
    case(4, 3, 1, 3), case(3, 2, 2, 3), case(4, 3, 2, 4), case(2, (1, 2), 1, (2, 0)), case(3, 3, 3, 5),
    case(5, 3, 4, 6), case(4, 2, 3, (2, 5)), case(3, 2, 1, 4, 2),
]  # fmt: skip
RECTANGLES = [
    case((5, 7), (3, 2), (2, 1), (1, 0)), case((4, 6), (1, 3), (1, 2), (0, 1), (1, 2)), case((7, 3), (4, 1), (3, 2)),
    case((2, 9), (2, 4), (1, 3), (0, 2)), case((8, 5), (3, 5), (2, 3), (0, 2), (2, 1)),
]  # fmt: skip
DILATED = [
    case(7, 3, 1, 0, 2), case(7, 3, 1, 2, 2), case(8, 3, 2, 2, 2), case(9, 3, 3, 4, 4), case(7, 2, 1, 1, 3),
    case((7, 9), (2, 3), 1, (1, 2), (3, 2)), case(5, 3, 1, 0, 2), case(6, 2, 4, 0, 5),
]  # fmt: skip
GROUPED = [
    case(5, 3, 1, 1, groups=2, channels=4, outputs=6), case(5, 3, 2, 1, groups=3, channels=3, outputs=6),
    case(6, 2, 3, 0, groups=2, channels=2, outputs=2), case(7, 3, 2, 2, 2, groups=2, channels=4, outputs=2),
    case((4, 5), (2, 3), (1, 2), (0, 3), 1, groups=4, channels=4, outputs=8),
]  # fmt: skip
FAR_STRIDES = [case(8, 1, 3), case(7, 2, 5), case(10, 3, 5), case(9, (2, 3), (4, 5), 1)]
EMPTY = [case(4, 3, 1, 1, batch=0), case(5, 2, 2, batch=0), case(5, 3, 2, 4, groups=2, outputs=2, batch=0)]
TABLE = [
    *REMAINDERS, *ONE_BY_ONE, *EVEN, *ONE_PIXEL_OUT, *ONE_PIXEL_IN, *WIDE_PADDING, *RECTANGLES, *DILATED, *GROUPED,
    *FAR_STRIDES, *EMPTY,
]  # fmt: skip
SECOND_ORDER = [
    case(3, 2, channels=1, outputs=2), case(4, 3, 2, 1, channels=1, outputs=2), case(3, 1, 2, 1, outputs=2, batch=1),
    case(5, 2, 1, 1, 2, channels=1, outputs=1, batch=1), case((3, 4), (2, 1), (1, 3), (2, 0), batch=1, outputs=1),
    case(4, 2, 2, groups=2, outputs=2, batch=1), case(2, 2, outputs=1, batch=1), case(6, 3, 2, channels=1, outputs=1),
    case(5, 3, 3, 3, channels=1, outputs=1), case(3, 2, 1, 2, groups=2, channels=2, outputs=4, batch=1),
    case((5, 4), (3, 2), (1, 2), 0, (1, 3), batch=1, outputs=1), case(3, 2, 2, batch=0),
]  # fmt: skip


def test_the_table_holds_what_it_should():
    assert len(set(TABLE)) == len(TABLE) >= 60
    left = {(c.stride[0], (c.size[0] + 2 * c.padding[0] - c.kernel[0]) % c.stride[0]) for c in REMAINDERS}
    assert left == {(stride, remainder) for stride in (2, 3, 4) for remainder in range(stride)}
    assert all(max(c.padding) > min(c.kernel) - 1 for c in WIDE_PADDING)
    assert all(c.arrays()[3].shape[1:3] == (1, 1) for c in ONE_PIXEL_OUT)


@pytest.mark.parametrize("c", TABLE, ids=str)
def test_conv_against_loops(tensor, dtype, c):
    x, w, bias, d = c.arrays(dtype)
    inputs = [tensor(a, dtype=dtype) for a in (x, w, bias)]
    y = ops.conv(*inputs[:2], **c.arguments, bias=inputs[2])
    y.backward(tensor(d, dtype=dtype))
    dx, dw = loops.conv_gradients(x.astype(float), w.astype(float), d.astype(float), *c.settings)
    expected = loops.conv(x.astype(float), w.astype(float), *c.settings) + bias
    for got, wanted in zip((y, *(a.grad for a in inputs)), (expected, dx, dw, d.astype(float).sum((0, 1, 2)))):
        assert got.dtype == dtype
        assert_close(got, wanted)


@pytest.mark.parity
@pytest.mark.parametrize("c", TABLE, ids=str)
def test_conv2d_against_pytorch(tensor, c):
    torch = pytest.importorskip("torch")
    x, w, bias, d = c.arrays()
    arrays = [x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), bias]
    theirs = [torch.tensor(a.copy(), requires_grad=True) for a in arrays]
    ours = [tensor(a) for a in arrays]
    wanted = torch.nn.functional.conv2d(*theirs, **c.arguments)
    wanted.backward(torch.tensor(d.transpose(0, 3, 1, 2).copy()))
    got = ops.conv2d(*ours, **c.arguments)
    got.backward(tensor(d.transpose(0, 3, 1, 2)))
    for our, their in zip((got, *(a.grad for a in ours)), (wanted.detach(), *(a.grad for a in theirs))):
        assert_close(our, their.numpy())


@pytest.mark.parametrize("c", SECOND_ORDER, ids=str)
def test_conv_to_second_order(tensor, c):
    check_to_second_order(lambda x, w, b: ops.conv(x, w, **c.arguments, bias=b), tensor, *c.arrays()[:3])


@pytest.mark.parametrize("c", SECOND_ORDER, ids=str)
def test_gradient_ops_to_second_order(tensor, c):
    x, w, _, d = c.arrays()
    settings = Conv(**c.arguments).settings
    check_to_second_order(ConvInputGradient(settings, c.size), tensor, d, w)
    check_to_second_order(ConvWeightGradient(settings, c.kernel), tensor, x, d)


def channels_first(x, w, bias, c):
    return conv_channels_first(x, w, **c.arguments, bias=bias)


def through_views(x, w, bias, c):
    y = ops.conv(ops.permute(x, (0, 2, 3, 1)), w, **c.arguments, bias=bias)
    return ops.permute(y, (0, 3, 1, 2))


@pytest.mark.parametrize("c", TABLE, ids=str)
def test_channels_first_is_conv_on_permuted_views_to_the_bit(tensor, dtype, c):
    x, w, bias, d = c.arrays(dtype)
    results = []
    for function in (channels_first, through_views):
        inputs = [tensor(a, dtype=dtype) for a in (x.transpose(0, 3, 1, 2), w, bias)]
        y = function(*inputs, c)
        y.backward(tensor(d.transpose(0, 3, 1, 2), dtype=dtype))
        results.append([y, *(a.grad for a in inputs)])
    for got, wanted in zip(*results, strict=True):
        assert got.shape == wanted.shape and got.numpy().tobytes() == wanted.numpy().tobytes()


@pytest.mark.parametrize("c", SECOND_ORDER, ids=str)
def test_channels_first_to_second_order(tensor, c):
    x, w, bias, d = c.arrays()
    x, d = (a.transpose(0, 3, 1, 2) for a in (x, d))
    check_to_second_order(lambda *inputs: channels_first(*inputs, c), tensor, x, w, bias)
    settings = Conv(**c.arguments).settings
    check_to_second_order(ConvInputGradient(settings, c.size, channels_first=True), tensor, d, w)
    check_to_second_order(ConvWeightGradient(settings, c.kernel, channels_first=True), tensor, x, d)


@pytest.mark.parametrize(
    "size, kernel, stride, padding",
    [(5, 3, 1, 1), (4, 3, 1, 0), (6, 3, 1, 2), (4, 1, 1, 0), (5, 2, 2, 0), (4, 3, 2, 1), (6, 3, 3, 1), (8, 5, 4, 2)],
)
def test_gradients_through_the_seed_formulation(tensor, size, kernel, stride, padding):
    """dilate, flip, transpose, conv; where the zeros that dilate puts after the last element are what is left over."""
    x, w, _, d = map(tensor, case(size, kernel, stride, padding).arrays())
    assert (size + 2 * padding - kernel) % stride == stride - 1

    def seed(x, w, d):
        spread = ops.dilate(d, (1, 2), stride - 1)
        swapped = ops.transpose(ops.flip(w, (0, 1)), (2, 3))
        dx = ops.conv(spread, swapped, padding=kernel - 1 - padding)
        images = ops.transpose(x, (0, 3))  # (C,H,W,N)
        gradient = ops.transpose(ops.transpose(spread, (0, 1)), (1, 2))  # (H,W,N,O)
        dw = ops.conv(images, gradient, padding=padding)  # (C,K,K,O)
        return dx, ops.transpose(ops.transpose(dw, (0, 1)), (1, 2))

    def dedicated(x, w, d):
        y = ops.conv(x, w, stride=stride, padding=padding)
        return ndl.grad(y, (x, w), d, create_graph=True)

    results = []
    for formulation in (seed, dedicated):
        dx, dw = formulation(x, w, d)
        second = ndl.grad((dx * dx).sum() + (dw * dw).sum(), (x, w, d))
        results.append((dx, dw, *second))
    for got, wanted in zip(*results):
        assert_close(got, wanted)


def test_conv_makes_one_node(tensor):
    x, w = map(tensor, case(4, 3).arrays()[:2])
    y = ops.conv(x, w, stride=1, padding=1)
    assert isinstance(y.op, Conv) and y.inputs == (x, w)
    gradients = y.op.gradient_as_tuple(tensor(np.ones(y.shape)), y)
    assert [g.shape for g in gradients] == [x.shape, w.shape]


def test_gradients_of_what_requires_none_are_not_computed(tensor):
    x, w = map(tensor, case(4, 3).arrays()[:2])
    y = ops.conv(x.detach(), w)
    assert y.op.gradient_as_tuple(tensor(np.ones(y.shape)), y)[0] is None


def test_results_lie_in_nhwc_memory(tensor):
    x, w = tensor(np.random.randn(2, 3, 5, 6)), tensor(np.random.randn(4, 3, 3, 3))
    y = ops.conv2d(x, w, padding=1)
    y.backward()
    for result in (y, x.grad):
        assert result.cached_data.permute((0, 2, 3, 1)).is_compact()


VIEWS = {
    "permuted": lambda a: a.permute(3, 1, 0, 2).permute(2, 1, 3, 0),
    "sliced": lambda a: a[:, 1:, :, ::2],
    "reversed": lambda a: a[:, ::-1],
    "broadcast": lambda a: a[:, :1].broadcast_to(a.shape),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_inputs_in_any_layout(tensor, view):
    x, w = view(tensor(np.random.randn(4, 6, 5, 4))), tensor(np.random.randn(3, 3, 4, 4))
    w = ops.permute(view(ops.permute(w, (3, 0, 1, 2))), (1, 2, 3, 0))[:, :, : x.shape[3]]
    y = ops.conv(x, w, 2, 1)
    d = view(tensor(np.random.randn(4, y.shape[1] + 1, y.shape[2], 8)))[:, : y.shape[1], :, : y.shape[3]]
    gradients = ndl.grad(y, (x, w), d)
    settings = (2, 2), (1, 1), (1, 1), 1
    assert_close(y, loops.conv(x.numpy(), w.numpy(), *settings))
    for got, wanted in zip(gradients, loops.conv_gradients(x.numpy(), w.numpy(), d.numpy(), *settings)):
        assert_close(got, wanted)


def test_inputs_are_left_alone(tensor):
    arrays = case(5, 3, 2, 1).arrays()[:3]
    inputs = list(map(tensor, arrays))
    ops.conv(*inputs[:2], 2, 1, bias=inputs[2]).backward()
    for left, was in zip(inputs, arrays):
        np.testing.assert_array_equal(left.numpy(), was)


def test_one_image_without_a_batch_axis(tensor):
    x, w = tensor(np.random.randn(2, 5, 4)), tensor(np.random.randn(3, 2, 2, 2))
    y = ops.conv2d(x, w, tensor(np.ones(3)), stride=2)
    assert_close(y, ops.conv2d(x[None], w, tensor(np.ones(3)), stride=2)[0])
    y.backward()
    assert x.grad.shape == x.shape
    d = tensor(np.random.randn(*y.shape))
    dx = ops.conv2d_input_gradient(d, w, 2, 0, 5, 4)
    assert_close(dx, ndl.grad(y, x, d)[0])
    assert_close(ops.conv2d_weight_gradient(x, d, 2, 2, 0), ndl.grad(y, w, d)[0])


@pytest.mark.parametrize("c", [case(7, 3, 2, 1), case((6, 9), (2, 3), (1, 3), (1, 0), (2, 1)), GROUPED[3]], ids=str)
def test_gradient_functions(tensor, c):
    x, w, bias, d = c.arrays()
    x, d, w = (tensor(a.transpose(0, 3, 1, 2)) for a in (x, d, w.transpose(3, 0, 1, 2)))
    bias = tensor(bias)
    wanted = ndl.grad(ops.conv2d(x, w, bias, **c.arguments), (x, w, bias), d)
    more = {"dilation": c.dilation, "groups": c.groups}
    got = (
        ops.conv2d_input_gradient(d, w, c.stride, c.padding, *c.size, **more),
        ops.conv2d_weight_gradient(x, d, c.kernel, c.stride, c.padding, **more),
        ops.conv2d_bias_gradient(d),
    )
    for ours, theirs in zip(got, wanted):
        assert_close(ours, theirs)


TRANSPOSED = [
    ((2, 2, 3, 4), (2, 3, 3, 3), {}),
    ((2, 2, 3, 4), (2, 3, 3, 2), {"stride": 2, "padding": 1, "output_padding": (1, 0)}),
    ((1, 4, 3, 3), (4, 1, 2, 2), {"stride": (2, 3), "groups": 2, "output_padding": (1, 2)}),
    ((2, 2, 4, 3), (2, 3, 2, 3), {"padding": 1, "dilation": (2, 1)}),
    ((2, 3, 1, 1), (3, 2, 4, 4), {"stride": 4}),
    ((0, 2, 3, 3), (2, 2, 3, 3), {"stride": 2}),
]


@pytest.mark.parity
@pytest.mark.parametrize("x_shape, w_shape, arguments", TRANSPOSED)
def test_conv_transpose2d_against_pytorch(tensor, x_shape, w_shape, arguments):
    torch = pytest.importorskip("torch")
    outputs = w_shape[1] * arguments.get("groups", 1)
    arrays = [np.random.randn(*shape) for shape in (x_shape, w_shape, (outputs,))]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    ours = [tensor(a) for a in arrays]
    wanted = torch.nn.functional.conv_transpose2d(*theirs, **arguments)
    got = ops.conv_transpose2d(*ours, **arguments)
    d = np.random.randn(*wanted.shape)
    wanted.backward(torch.tensor(d))
    got.backward(tensor(d))
    for our, their in zip((got, *(a.grad for a in ours)), (wanted.detach(), *(a.grad for a in theirs))):
        assert_close(our, their.numpy())


def test_conv_transpose2d_is_the_adjoint(tensor):
    """<conv2d(x), d> = <x, conv_transpose2d(d)>."""
    x, w = tensor(np.random.randn(2, 3, 7, 6)), tensor(np.random.randn(4, 3, 3, 2))
    y = ops.conv2d(x, w, stride=(2, 3), padding=1)
    d = tensor(np.random.randn(*y.shape))
    back = ops.conv_transpose2d(d, w, stride=(2, 3), padding=1, output_padding=(0, 0))
    assert back.shape == x.shape
    assert_close((y * d).sum(), (x * back).sum().numpy())
    check_to_second_order(
        lambda d, w, b: ops.conv_transpose2d(d, w, b, stride=2, output_padding=1),
        tensor,
        (1, 2, 2, 1),
        (2, 1, 2, 2),
        (1,),
    )


def test_mixed_dtypes_promote(tensor):
    x, w, bias, _ = case(4, 3).arrays()
    y = ops.conv(tensor(x, dtype="float32"), tensor(w), bias=tensor(bias, dtype="float32"))
    assert y.dtype == "float64"


ONES = {name: np.ones(shape) for name, shape in {
    "x": (1, 4, 4, 2), "w": (3, 3, 2, 4), "flat": (4, 4), "narrow": (3, 3, 1, 4), "b": (4,), "x2": (1, 2, 4, 4),
    "w2": (4, 2, 3, 3), "d2": (1, 4, 2, 2), "large": (5, 5, 2, 4), "odd": (3, 3, 2, 3), "none": (0, 3, 2, 4),
}.items()}  # fmt: skip
WRONG = [
    (lambda t: ops.conv(t["flat"], t["w"]), "conv: .*N,H,W,C.*(4, 4)"),
    (lambda t: ops.conv(t["x"], t["flat"]), "conv: .*Kh,Kw.*(4, 4)"),
    (lambda t: ops.conv(t["x"], t["narrow"]), "conv: .*2 channels.*(3, 3, 1, 4)"),
    (lambda t: ops.conv(t["x"], t["large"], padding=0), "conv: kernel (5, 5) is larger than the padded input (4, 4)"),
    (lambda t: ops.conv(t["x"], t["w"], padding=0, dilation=2), "conv: kernel (3, 3) (dilated: (5, 5)).*(4, 4)"),
    (lambda t: ops.conv(t["x"], t["none"]), "conv: .*(0, 3)"),
    (lambda t: ops.conv(t["x"], t["w"], stride=0), "conv: stride must be at least 1, got 0"),
    (lambda t: ops.conv(t["x"], t["w"], stride=(1, -2)), "conv: stride must be at least 1, got -2"),
    (lambda t: ops.conv(t["x"], t["w"], padding=-1), "conv: padding must be at least 0, got -1"),
    (lambda t: ops.conv(t["x"], t["w"], dilation=0), "conv: dilation must be at least 1, got 0"),
    (lambda t: ops.conv(t["x"], t["w"], groups=0), "conv: groups must be at least 1, got 0"),
    (lambda t: ops.conv(t["x"], t["w"], stride=(1, 2, 3)), "conv: stride .*(1, 2, 3)"),
    (lambda t: ops.conv(t["x"], t["odd"], groups=2), "conv: 2 input and 3 output channels .*2 groups"),
    (lambda t: ops.conv(t["x"], t["w"], groups=2), "conv: .*2 channels.*(3, 3, 2, 4) takes 2 in each of 2 groups"),
    (lambda t: ops.conv(t["x"], t["odd"], bias=t["b"]), "conv: the bias has shape (4,)"),
    (lambda t: ops.conv2d(t["flat"], t["w2"]), "conv2d: .*(4, 4)"),
    (lambda t: ops.conv2d(t["x2"], t["flat"]), "conv2d: .*(4, 4)"),
    (lambda t: ops.conv2d(t["x2"], t["d2"]), "conv2d: the input (1, 2, 4, 4) has 2 channels, the weight (1, 4, 2, 2)"),
    (lambda t: ops.conv2d(t["x2"][0], t["d2"]), "conv2d: the input (2, 4, 4) has 2 .* takes 4; .*O,C/groups,Kh,Kw"),
    (lambda t: ops.conv2d(t["x2"], t["w2"], groups=3), "conv2d: 2 input and 4 output channels .*3 groups"),
    (lambda t: ops.conv2d(t["x2"], t["w2"], groups=0), "conv2d: groups must be at least 1, got 0"),
    (lambda t: ops.conv2d(t["x2"], t["w2"], stride=0), "conv2d: stride must be at least 1, got 0"),
    (lambda t: ops.conv2d(t["x2"], t["w2"], dilation=2), "conv2d: kernel (3, 3) (dilated: (5, 5)) is larger"),
    (lambda t: ops.conv2d(t["x2"], t["w2"], t["odd"]), "conv2d: the bias has shape (3, 3, 2, 3).*(4,)"),
    (lambda t: ops.conv2d_input_gradient(t["d2"], t["w2"], 1, 0, 2, 2), "conv2d_input_gradient: kernel (3, 3) is la"),
    (lambda t: ops.conv2d_input_gradient(t["d2"], t["w2"], 1, 0, 4, 4, 1, 3), "conv2d_input_gradient: .*3 groups"),
    (lambda t: ops.conv2d_weight_gradient(t["x2"], t["d2"], 3, 1, 0, 1, 4), "conv2d_weight_gradient: .*4 groups"),
    (lambda t: ops.conv2d_input_gradient(t["d2"], t["w2"], 1, 0, 5, 4), "conv2d_input_gradient: .*(4, 3, 2).*(1, 4,"),
    (lambda t: ops.conv2d_input_gradient(t["d2"], t["w2"], 1, 0, 0, 4), "conv2d_input_gradient: height .*0"),
    (lambda t: ops.conv2d_input_gradient(t["x2"], t["w2"], 1, 1, 4, 4), "conv2d_input_gradient: .*(4, 4, 4).*(1, 2,"),
    (lambda t: ops.conv2d_weight_gradient(t["x2"], t["d2"], 4, 1, 0), "conv2d_weight_gradient: .*(1, 4, 1, 1).*(1,"),
    (lambda t: ops.conv2d_weight_gradient(t["x2"], t["d2"][:0], 3, 1, 0), "conv2d_weight_gradient: .*(1, 4, 2, 2)"),
    (lambda t: ops.conv2d_bias_gradient(t["flat"]), "conv2d_bias_gradient: .*(4, 4)"),
    (lambda t: ops.conv_transpose2d(t["x2"], t["w2"]), "conv_transpose2d: .*2 channels.*takes 4"),
    (lambda t: ops.conv_transpose2d(t["d2"], t["w2"], t["b"]), "conv_transpose2d: the bias has shape (4,).*(2,)"),
    (lambda t: ops.conv_transpose2d(t["d2"], t["w2"], padding=2), "conv_transpose2d: .*padding (2, 2)"),
    (lambda t: ops.conv_transpose2d(t["d2"], t["w2"], output_padding=1), "conv_transpose2d: output_padding (1, 1)"),
]  # fmt: skip


@pytest.mark.parametrize("call, message", WRONG, ids=[message for _, message in WRONG])
def test_what_does_not_fit_raises(tensor, call, message):
    pattern = ".*".join(part.replace("(", r"\(").replace(")", r"\)") for part in message.split(".*"))
    with pytest.raises(ShapeError, match=f"^{pattern}"):
        call({name: tensor(a) for name, a in ONES.items()})


@pytest.mark.parametrize("arguments", [{"stride": 1.5}, {"padding": "same"}, {"stride": True}, {"groups": None}])
def test_arguments_of_the_wrong_kind_raise(tensor, arguments):
    with pytest.raises(DTypeError, match=f"conv: {next(iter(arguments))} must be"):
        ops.conv(tensor(ONES["x"]), tensor(ONES["w"]), **arguments)


def test_what_is_no_tensor_raises(tensor):
    with pytest.raises(DTypeError, match=r"conv: a must be .*Tensor.*ndarray"):
        ops.conv(ONES["x"], tensor(ONES["w"]))
    with pytest.raises(DTypeError, match=r"conv2d: weight must be .*Tensor.*list"):
        ops.conv2d(tensor(ONES["x2"]), [1.0])


@pytest.mark.parametrize(("inputs", "outputs"), [(0, 3), (2, 0), (0, 0)])
def test_no_channels(tensor, inputs, outputs):
    x, w = tensor(np.ones((1, 4, 5, inputs))), tensor(np.ones((3, 3, inputs, outputs)))
    y = ops.conv(x, w, padding=1)
    assert y.numpy().tolist() == np.zeros((1, 4, 5, outputs)).tolist()
    y.backward()
    assert x.grad.numpy().tolist() == np.zeros(x.shape).tolist()
    assert w.grad.numpy().tolist() == np.zeros(w.shape).tolist()


@pytest.mark.parametrize("dtype", ["bool", "int64"])
def test_convolution_is_for_floats(dtype):
    x = ndl.Tensor(np.ones((1, 3, 3, 1)), dtype=dtype)
    with pytest.raises(DTypeError, match=f"conv: the input must be float32 or float64, got {dtype}"):
        ops.conv(x, x)
