"""Convolutions, pools, norms and cross entropy of drawn sizes, settings and layouts, against PyTorch and float64."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import needle as ndl
from needle import Tensor, ops
from tests.backend_ndarray.strategies import laid_out
from tests.devices import DEVICES
from tests.ops.parity import assert_same_as_torch
from tests.tolerances import assert_close


class Call(NamedTuple):
    """A call of an op, PyTorch's, and the shapes of its inputs; named, so that a failure shows the settings."""

    settings: dict[str, Any]
    function: Callable[..., Tensor]
    torch: Callable[..., Any]
    shapes: list[tuple[int, ...]]


def two(values: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(values, values)


def sizes(draw: st.DrawFn, kernel: tuple[int, int], padding: tuple[int, int]) -> tuple[int, ...]:
    """Draw a height and width which that kernel fits, padded."""
    return tuple([max(1, k - 2 * p) + draw(st.integers(0, 5) | st.just(9)) for k, p in zip(kernel, padding)])


CHANNELS = st.sampled_from([1, 2, 3, 17])  # of a group; 17 is more than a vector holds


@st.composite
def conv2d(draw: st.DrawFn) -> Call:
    kernel, groups = draw(two(st.integers(1, 4))), draw(st.integers(1, 3))
    channels, outputs = draw(CHANNELS), draw(CHANNELS)
    settings = {
        "stride": draw(two(st.integers(1, 4))),
        "padding": draw(two(st.integers(0, 4))),
        "dilation": draw(two(st.integers(1, 3))),
        "groups": groups,
    }
    reach = tuple([d * (k - 1) + 1 for d, k in zip(settings["dilation"], kernel)])
    image = sizes(draw, reach, settings["padding"])
    shapes = [(draw(st.integers(1, 2)), groups * channels, *image), (groups * outputs, channels, *kernel)]
    return Call(
        settings,
        lambda x, w, *bias: ops.conv2d(x, w, *bias, **settings),
        lambda torch, x, w, *bias: torch.nn.functional.conv2d(x, w, *bias, **settings),
        shapes + [(groups * outputs,)] * draw(st.integers(0, 1)),
    )


@st.composite
def conv_transpose2d(draw: st.DrawFn) -> Call:
    kernel, groups = draw(two(st.integers(1, 3))), draw(st.integers(1, 2))
    stride, dilation = draw(two(st.integers(1, 3))), draw(two(st.integers(1, 2)))
    settings = {
        "stride": stride,
        "padding": tuple([draw(st.integers(0, d * (k - 1) // 2)) for d, k in zip(dilation, kernel)]),
        "output_padding": tuple([draw(st.integers(0, s - 1)) for s in stride]),
        "groups": groups,
        "dilation": dilation,
    }
    channels, outputs = draw(CHANNELS), draw(CHANNELS)
    return Call(
        settings,
        lambda x, w: ops.conv_transpose2d(x, w, **settings),
        lambda torch, x, w: torch.nn.functional.conv_transpose2d(x, w, **settings),
        [(2, groups * channels, *draw(two(st.integers(1, 4)))), (groups * channels, outputs, *kernel)],
    )


@st.composite
def pool2d(draw: st.DrawFn) -> Call:
    kernel = draw(two(st.integers(1, 4)))
    settings = {
        "kernel_size": kernel,
        "stride": draw(two(st.integers(1, 4))),
        "padding": tuple([draw(st.integers(0, k // 2)) for k in kernel]),
        "ceil_mode": draw(st.booleans()),
    }
    name = draw(st.sampled_from(["max_pool2d", "avg_pool2d"]))
    if name == "avg_pool2d":
        settings["count_include_pad"] = draw(st.booleans())
    return Call(
        settings,
        lambda x: getattr(ops, name)(x, **settings),
        lambda torch, x: getattr(torch.nn.functional, name)(x, **settings),
        [(2, draw(CHANNELS), *sizes(draw, kernel, settings["padding"]))],
    )


@st.composite
def adaptive_avg_pool2d(draw: st.DrawFn) -> Call:
    size = draw(two(st.integers(1, 5)))
    return Call(
        {"output_size": size},
        lambda x: ops.adaptive_avg_pool2d(x, size),
        lambda torch, x: torch.nn.functional.adaptive_avg_pool2d(x, size),
        [(2, 3, *draw(two(st.integers(1, 7))))],
    )


EPS = st.sampled_from([1e-3, 0.1])


@st.composite
def batch_norm(draw: st.DrawFn) -> Call:
    batch, channels, eps = draw(st.integers(3, 5)), draw(CHANNELS), draw(EPS)
    places = draw(st.lists(st.integers(1, 3), max_size=2))
    return Call(
        {"eps": eps},
        lambda *inputs: ops.batch_norm(*inputs, eps=eps),
        lambda torch, x, *p: torch.nn.functional.batch_norm(x, None, None, *p, training=True, eps=eps),
        [(batch, channels, *places)] + [(channels,)] * draw(st.integers(0, 2)),
    )


@st.composite
def layer_norm(draw: st.DrawFn) -> Call:
    shape, eps = tuple(draw(st.lists(st.integers(2, 5), min_size=2, max_size=4))), draw(EPS)
    given_parameters = draw(st.integers(0, 2))
    last = shape[-draw(st.integers(1, len(shape) - 1)) :] if given_parameters else shape[-1:]
    return Call(
        {"eps": eps},
        lambda *inputs: ops.layer_norm(*inputs, eps=eps),
        lambda torch, x, *parameters: torch.nn.functional.layer_norm(x, last, *parameters, eps=eps),
        [shape] + [last] * given_parameters,
    )


@st.composite
def group_norm(draw: st.DrawFn) -> Call:
    groups, each, eps = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(EPS)
    places = [*draw(st.lists(st.integers(1, 3), max_size=2)), 3]
    return Call(
        {"eps": eps, "num_groups": groups},
        lambda x, *parameters: ops.group_norm(x, groups, *parameters, eps=eps),
        lambda torch, x, *parameters: torch.nn.functional.group_norm(x, groups, *parameters, eps=eps),
        [(2, groups * each, *places)] + [(groups * each,)] * draw(st.integers(0, 2)),
    )


@st.composite
def cross_entropy(draw: st.DrawFn) -> Call:
    classes = draw(st.integers(1, 5))
    labels = np.array(draw(st.lists(st.integers(0, classes - 1), min_size=1, max_size=6)))
    settings = {
        "label_smoothing": draw(st.sampled_from([0.0, 0.1, 1.0])),
        "ignore_index": draw(st.sampled_from([-100, *[label for label in range(classes) if (labels != label).any()]])),
        "reduction": draw(st.sampled_from(["mean", "sum", "none"])),
    }

    def theirs(torch: Any, logits: Any) -> Any:
        return torch.nn.functional.cross_entropy(logits, torch.tensor(labels), **settings)

    return Call(
        settings, lambda logits: ops.cross_entropy(logits, labels, **settings), theirs, [(len(labels), classes)]
    )


STRATEGIES = [conv2d, conv_transpose2d, pool2d, adaptive_avg_pool2d, batch_norm, layer_norm, group_norm, cross_entropy]
LAYERS = {strategy.__name__: strategy() for strategy in STRATEGIES}


def inputs(data: st.DataObject, call: Call, dtype: str) -> list[Tensor]:
    """Draw a device, values and layouts."""
    generator, device = np.random.RandomState(data.draw(st.integers(0, 999))), data.draw(st.sampled_from(DEVICES))
    arrays = [generator.uniform(-1, 1, shape).astype(dtype) for shape in call.shapes]
    views = [data.draw(laid_out(x, device, broadcast=False)).array for x in arrays]
    return [Tensor.make_const(view, requires_grad=True) for view in views]


@pytest.mark.parity
@pytest.mark.parametrize("layer", LAYERS)
@given(st.data())
def test_same_as_torch(layer: str, data: st.DataObject) -> None:
    call = data.draw(LAYERS[layer])
    assert_same_as_torch(call.function, call.torch, inputs(data, call, "float64"))


@pytest.mark.parametrize("layer", LAYERS)
@given(st.data())
def test_float32_is_near_float64(layer: str, data: st.DataObject) -> None:
    """The kernels of either dtype have tiles of their own; the reference in float64 has none."""
    call = data.draw(LAYERS[layer])
    single = inputs(data, call, "float32")
    double = [Tensor(x.numpy(), dtype="float64", device=ndl.cpu_numpy()) for x in single]
    with ndl.set_conv_algorithm(data.draw(st.sampled_from(["auto", "direct", "winograd4"]))):
        near, exact = call.function(*single), call.function(*double)
        weight = np.random.RandomState(5).randn(*exact.shape)
        results = [
            (y, *ndl.grad(y, xs, Tensor(weight, dtype=y.dtype, device=y.device)))
            for y, xs in ((near, single), (exact, double))
        ]
    for found, wanted in zip(*results):
        assert found.dtype == "float32"
        assert_close(found, wanted.numpy(), rtol=1e-4, atol=1e-4)
