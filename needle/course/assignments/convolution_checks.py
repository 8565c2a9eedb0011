"""The checks of the assignment `convolution`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from needle.course.checks import Check, Mistake, normal
from needle.course.differentiable import differentiable
from needle.course.evidence import Array


def conv(x: Array, weight: Array, stride: int = 1, padding: int = 0) -> Array:
    """Convolve (N,H,W,C) with (K,K,C,O), one tap of the kernel after the other."""
    x = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    k = weight.shape[0]
    ho, wo = ((size - k) // stride + 1 for size in x.shape[1:3])
    return sum(
        x[:, i : i + stride * (ho - 1) + 1 : stride, j : j + stride * (wo - 1) + 1 : stride] @ weight[i, j]
        for i in range(k)
        for j in range(k)
    )


def input_gradient(d: Array, weight: Array, size: int, stride: int = 1, padding: int = 0) -> Array:
    """Give the gradient (N,size,size,C) of the images: each pixel of d goes back to its window."""
    k, c, reach = weight.shape[0], weight.shape[2], stride * (d.shape[1] - 1) + 1
    x = np.zeros((len(d), size + 2 * padding, size + 2 * padding, c))
    for i in range(k):
        for j in range(k):
            x[:, i : i + reach : stride, j : j + reach : stride] += d @ weight[i, j].T
    return x[:, padding : size + padding, padding : size + padding]


def weight_gradient(x: Array, d: Array, k: int, stride: int = 1) -> Array:
    """Give the gradient (k,k,C,O) of the kernel, for images without padding."""
    reach = stride * (d.shape[1] - 1) + 1
    taps = [
        np.einsum("nhwc,nhwo->co", x[:, i : i + reach : stride, j : j + reach : stride], d)
        for i in range(k)
        for j in range(k)
    ]
    return np.stack(taps).reshape(k, k, *taps[0].shape)


def dilated(a: Array, dilation: int, start: int = 0) -> Array:
    """Put zeros between the rows and columns of (N,H,W,C)."""
    n, height, width, c = a.shape
    out = np.zeros((n, height * (dilation + 1), width * (dilation + 1), c))
    out[:, start :: dilation + 1, start :: dilation + 1] = a
    return out


def made_layer(solution: Any) -> Iterator[Any]:
    """Make a layer, and look at what it has drawn."""
    layer = solution.ConvLayer(2, 4, 3)
    yield " ".join(sorted(name for name, _ in layer.named_parameters()))
    yield layer.weight
    yield layer.bias


def drawn(generator: Any, fan_in: int, *shape: int) -> Array:
    """Draw a kernel."""
    bound = math.sqrt(6 / fan_in)
    return generator.rand(*shape) * 2 * bound - bound


def layer_with(layer: Any, weight: Any, bias: Any) -> Any:
    """Give the layer other parameters."""
    layer.weight, layer.bias = weight, bias
    return layer


def to_nhwc(x: Array) -> Array:
    """Put the channels last."""
    return np.transpose(x, (0, 2, 3, 1))


def to_nchw(x: Array) -> Array:
    """Put the channels first."""
    return np.transpose(x, (0, 3, 1, 2))


def layer_value(x: Array, weight: Array, bias: Array, padding: int = 1) -> Array:
    """Compute the layer of stride 2."""
    return to_nchw(conv(to_nhwc(x), weight, 2, padding) + bias)


CHECKS = [
    differentiable(
        "Flip",
        lambda solution, a: solution.Flip((0, 2))(a),
        lambda a: np.flip(a, (0, 2)),
        {"a": normal(2, 3, 4)},
        [
            Mistake("value", lambda case: np.flip(case.a), "All axes are flipped: flip those that are given."),
            Mistake(
                "gradient of a",
                lambda case: case.out_grad,
                "The gradient is flipped, too: it goes back to where a was.",
            ),
        ],
    ),
    differentiable(
        "Dilate",
        lambda solution, a: solution.Dilate((1, 2), 2)(a),
        lambda a: dilated(a, 2),
        {"a": normal(2, 3, 2, 2)},
        [
            Mistake(
                "value",
                lambda case: dilated(case.a, 2)[:, :-2, :-2],
                "The zeros after the last element are missing: n becomes n * (dilation + 1).",
            ),
            Mistake("value", lambda case: dilated(case.a, 1), "There are dilation zeros: the step is dilation + 1."),
            Mistake("value", lambda case: dilated(case.a, 2, 2), "The zeros come after each element, not before it."),
            Mistake(
                "gradient of a",
                lambda case: case.out_grad[:, 2::3, 2::3],
                "The gradient is taken at the wrong places: at those where the elements are.",
            ),
            Mistake(
                "gradient of a",
                lambda case: case.out_grad,
                "The gradient has the shape of a: take out_grad at the places where the elements are.",
            ),
        ],
    ),
    differentiable(
        "Conv with stride 1 and padding 1",
        lambda solution, x, weight: solution.Conv(1, 1)(x, weight),
        lambda x, weight: conv(x, weight, 1, 1),
        {"x": normal(2, 4, 4, 3), "weight": normal(3, 3, 3, 3)},
        [
            Mistake("value", lambda case: conv(case.x, case.weight), "The images are not padded."),
            Mistake(
                "value",
                lambda case: conv(case.x, case.weight[::-1, ::-1], 1, 1),
                "The kernel is flipped: in the forward pass it is not.",
            ),
            Mistake(
                "value",
                lambda case: conv(case.x, case.weight.swapaxes(0, 1), 1, 1),
                "Height and width are swapped, in the windows or in the kernel.",
            ),
            Mistake(
                "gradient of x",
                lambda case: input_gradient(case.out_grad, case.weight[::-1, ::-1], 4, 1, 1),
                "The flip is forgotten: the gradient of x takes the kernel flipped in height and width.",
            ),
            Mistake(
                "gradient of x",
                lambda case: input_gradient(case.out_grad, case.weight.swapaxes(2, 3), 4, 1, 1),
                "The channels of the kernel are not swapped: from (K,K,C,O) to (K,K,O,C).",
            ),
            Mistake(
                "gradient of weight",
                lambda case: case.expected.swapaxes(0, 1),
                "Height and width of the kernel's gradient are swapped.",
            ),
            Mistake(
                "gradient of weight",
                lambda case: case.expected.transpose(2, 0, 1, 3),
                "The gradient is (C,K,K,O) still: permute it to (K,K,C,O).",
            ),
        ],
        points=2,
    ),
    differentiable(
        "Conv with a stride that leaves rows over",
        lambda solution, x, weight: solution.Conv(2)(x, weight),
        lambda x, weight: conv(x, weight, 2),
        {"x": normal(2, 6, 6, 3), "weight": normal(3, 3, 3, 2)},
        [
            Mistake("value", lambda case: conv(case.x, case.weight), "The stride is not used."),
            Mistake(
                "value",
                lambda case: conv(case.x, case.weight)[:, :2, :2],
                "The windows are one row and column apart: multiply the strides of the window axes by the stride.",
            ),
            Mistake(
                "gradient of x",
                lambda case: case.expected[:, :-1, :-1],
                "The bottom row and the right column are lost to the stride: no window reads them, and their gradient "
                "is 0. Take H + 2P - K + 1 rows of the dilated out_grad.",
            ),
            Mistake(
                "gradient of x",
                lambda case: case.expected[:, 2:-2, 2:-2],
                "The padding is wrong: here it is K - 1 - P, not P.",
            ),
            Mistake(
                "gradient of x",
                lambda case: input_gradient(case.out_grad, case.weight, 4),
                "out_grad is not dilated: with a stride S there are S - 1 zeros after every row and column.",
            ),
            Mistake(
                "gradient of x",
                lambda case: input_gradient(dilated(case.out_grad, 2)[:, :4, :4], case.weight, 6),
                "The dilation is S - 1, not S.",
            ),
            Mistake(
                "gradient of weight",
                lambda case: weight_gradient(case.x, case.out_grad, 4, 2),
                "The gradient has more rows than the kernel: rows of x that no window reads take part. "
                "Take H + 2P - K + 1 rows of the dilated out_grad.",
            ),
            Mistake(
                "gradient of weight",
                lambda case: weight_gradient(case.x, case.out_grad, 5),
                "out_grad is not dilated: with a stride S there are S - 1 zeros after every row and column.",
            ),
        ],
        points=3,
    ),
    differentiable(
        "Conv of images that are not square",
        lambda solution, x, weight: solution.Conv(3, 1)(x, weight),
        lambda x, weight: conv(x, weight, 3, 1),
        {"x": normal(1, 5, 7, 2), "weight": normal(3, 3, 2, 2)},
        order=1,
    ),
    Check(
        "ConvLayer: what it makes",
        made_layer,
        lambda: {
            "the parameters": "bias weight",
            "weight": drawn(np.random, 18, 3, 3, 2, 4),
            "bias": (2 * np.random.rand(4) - 1) / math.sqrt(18),
        },
        [
            *(
                Mistake("the parameters", found, "What a layer learns is wrapped in nn.Parameter.")
                for found in ("", "weight", "bias")
            ),
            *(
                Mistake(
                    "weight",
                    drawn(np.random.RandomState(0), fan_in, 3, 3, 2, 4),
                    "fan_in is wrong: it counts what goes into one output, C * K * K.",
                )
                for fan_in in (2, 4, 9, 36)
            ),
            Mistake("weight", drawn(np.random.RandomState(0), 18, 4, 2, 3, 3), "The kernel's shape is (K,K,C,O)."),
            Mistake("bias", np.zeros(4), "The bias is drawn, from -1/sqrt(C*K*K) to 1/sqrt(C*K*K)."),
        ],
        setting="ConvLayer(2, 4, 3)",
    ),
    differentiable(
        "ConvLayer: forward",
        lambda solution, x, weight, bias: layer_with(solution.ConvLayer(2, 3, 3, 2), weight, bias)(x),
        layer_value,
        {"x": normal(2, 2, 5, 5), "weight": normal(3, 3, 2, 3), "bias": normal(3)},
        [
            Mistake("value", lambda case: layer_value(case.x, case.weight, case.bias, 0), "The padding is K // 2."),
            Mistake("value", lambda case: layer_value(case.x, case.weight, 0 * case.bias), "The bias is not added."),
            Mistake(
                "value", lambda case: to_nhwc(case.value), "The result is (N,Ho,Wo,O) still: permute it to (N,O,Ho,Wo)."
            ),
            Mistake(
                "value",
                lambda case: to_nhwc(case.value).reshape(case.value.shape),
                "The axes of the result are permuted by permute, not by reshape.",
            ),
            Mistake(
                "value",
                lambda case: to_nchw(conv(case.x.reshape(2, 5, 5, 2), case.weight, 2, 1) + case.bias),
                "The axes of x are permuted by permute, not by reshape.",
            ),
        ],
        order=1,
    ),
]
