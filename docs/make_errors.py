"""Run the ten commonest mistakes, and write what needle answers to errors.md beside this file.

python docs/make_errors.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import needle as ndl
from needle import nn, ops

PAGE = Path(__file__).with_name("errors.md")

HEAD = """\
# What needle answers to the ten commonest mistakes

Made by running them: `python docs/make_errors.py`. A message names the op or layer, the rule, the sizes it got, and a
remedy where there is one. The errors are those of `needle/errors.py`: ShapeError is a ValueError (and an
AssertionError), BoundsError a ShapeError and an IndexError, DTypeError a TypeError, OptionError a ValueError,
DeviceError and GradientError are RuntimeErrors.
"""

SETUP = """\
x = ndl.Tensor(np.ones((2, 3)))
y = ndl.Tensor(np.ones((4, 5)))
v = ndl.Tensor(np.ones(4))
images = ndl.Tensor(np.ones((2, 3, 8, 8)))  # N,C,H,W
filters = ndl.Tensor(np.ones((6, 3, 5, 5)))  # O,C,K,K
whole = ndl.Tensor([[1, 2], [3, 4]], dtype="int64")
labels = [0, 2]"""

UNARY = ["abs", "elu", "erf", "exp", "gelu", "leaky_relu", "log", "negate", "relu", "sigmoid", "sign", "silu"]
UNARY += ["softplus", "sqrt", "tanh", "softmax", "logsoftmax", "logsumexp", "summation", "mean", "var", "max", "min"]
UNARY += ["argmax", "squeeze", "transpose", "sort", "split", "global_avg_pool2d", "conv2d_bias_gradient"]

MISTAKES: list[tuple[str, list[str]]] = [
    (
        "Shapes that do not fit",
        [
            *[f"ops.{name}(x, y)" for name in ("add", "sub", "multiply", "divide", "power", "maximum", "minimum")],
            *[f"ops.{name}(x, y)" for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")],
            "x @ y",
            "ops.matmul(images, x)",
            "ops.where(x > 0, x, y)",
            "ops.masked_fill(x, y > 0, 0.0)",
            "ops.broadcast_to(x, (4, 3))",
            "ops.sum_to(x, (4, 3))",
            "ops.reshape(x, (4, 2))",
            "ops.concatenate([x, y])",
            "ops.stack([x, y])",
            'ops.einsum("ij,jk->ik", x, y)',
            "ops.pad(x, ((1, 1),))",
            "ops.gather(x, 0, [1])",
            "ops.topk(x, 4)",
            "ops.tuple_add(ops.make_tuple(x), ops.make_tuple(x, y))",
            "ops.mse_loss(x, y)",
            "ops.cross_entropy(x, [0, 1, 2])",
            "ops.layer_norm(x, v)",
            "ops.batch_norm_inference(x, v, v)",
            "ops.conv2d_input_gradient(images, filters, 1, 0, 8, 8)",
            "ops.conv2d_weight_gradient(images, images, 5, 1, 0)",
            "nn.Linear(4, 2)(x)",
            "nn.LayerNorm1d(4)(x)",
            "nn.SoftmaxLoss()(x, [0, 1, 2])",
            "nn.CrossEntropyLoss()(x, [0, 1, 2])",
            "nn.MSELoss()(x, y)",
            "nn.Flatten()(ndl.Tensor(1.0))",
            *[f"nn.{name}(4, 2)(images[0])" for name in ("RNN", "GRU", "LSTM")],
            *[f"nn.{name}(4, 2)(x)" for name in ("RNNCell", "GRUCell", "LSTMCell")],
            "nn.MultiHeadAttention()(x, x, x)",
            "nn.AttentionLayer(4, 2, 3)(images[0])",
            "nn.TransformerLayer(4, 2, 3, 5)(images[0])",
            "nn.Transformer(4, 5, 1)(images[0])",
            "nn.Residual(nn.Linear(3, 5))(x)",
            "nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(5, 1))(x)",
            "x.backward(y)",
            "x[:, :2] @ y[0]",
        ],
    ),
    (
        "The wrong dtype",
        [
            'ndl.Tensor([1, 2], dtype="float16")',
            'ops.astype(x, "complex64")',
            'ndl.Tensor(["a"])',
            "whole.data = x",
            "ops.batch_norm(whole)",
            "ops.layer_norm(whole)",
            "ops.cross_entropy(whole, [0, 1])",
            "ops.max_pool2d(images.astype('int64'), 2)",
            "ops.take(x, [0.5])",
            "x[[0.5]]",
            'nn.Linear(3, 4, dtype="int64")',
            "ndl.testing.check_gradients(ops.exp, x)",
        ],
    ),
    (
        "Labels and indices out of range",
        [
            "ops.cross_entropy(x, [0, 3])",
            "ops.cross_entropy(x, [-1, 0])",
            "ops.cross_entropy(x, [0.5, 1])",
            "nn.SoftmaxLoss()(x, [0, 3])",
            "nn.CrossEntropyLoss()(x, [0, 3])",
            "ops.one_hot(3, [0, 3])",
            "ops.embedding(x, [0, 2])",
            "nn.Embedding(3, 4)(np.array([[0, 3]]))",
            "ops.take(x, [3], axis=0)",
            "ops.gather(x, 1, [[3], [0]])",
            "ops.getitem(x, 2)",
            "x[:, 3]",
            "ops.tuple_get_item(ops.split(x), 2)",
        ],
    ),
    (
        "A kernel that is too large",
        [
            "ops.conv2d(images, ndl.Tensor(np.ones((6, 3, 9, 9))))",
            "ops.conv(images.permute((0, 2, 3, 1)), ndl.Tensor(np.ones((9, 9, 3, 6))), padding=0)",
            "ops.conv2d(images, filters, dilation=2)",
            "ops.max_pool2d(images, 9)",
            "ops.avg_pool2d(images, 9)",
            "ops.max_pool2d(images, 2, padding=2)",
            "ops.adaptive_avg_pool2d(images, 0)",
            "nn.Conv(3, 6, 9, padding=0)(images)",
            "nn.MaxPool2d(9)(images)",
            "nn.AvgPool2d(9)(images)",
        ],
    ),
    (
        "A device that is not there",
        [
            "ndl.Tensor([1.0], device=ndl.cuda())",
            "ops.to_device(x, ndl.cuda())",
            'ops.to_device(x, "cpu")',
            'ndl.device("tpu")',
            "nn.Linear(3, 4, device=ndl.cuda())",
            "x + ndl.zeros(2, 3, device=ndl.cpu_numpy())",
        ],
    ),
    (
        "A tensor without a graph",
        [
            "ndl.zeros(3).backward()",
            "with ndl.no_grad():\n    loss = ops.exp(x)\nloss.backward()",
            "x.detach().backward()",
            "ops.exp(x).backward()\n(x.grad * x.grad).backward()",
            "ndl.grad(ops.exp(x), y)",
            "loss = ops.exp(x)\nloss.backward(free_graph=True)\nloss.backward()",
            "ndl.testing.check_gradients(ops.exp, ndl.zeros(3, dtype='float64'))",
        ],
    ),
    (
        "The wrong axis",
        [
            *[f"ops.{name}(x, 2)" for name in ("summation", "mean", "var", "max", "min", "logsumexp")],
            *[f"ops.{name}(x, 2)" for name in ("argmax", "cumsum", "flip", "softmax", "logsoftmax", "sort", "split")],
            "ops.summation(x, (0, -2))",
            "nn.Softmax(2)(x)",
            "ops.transpose(x, (0, 2))",
            "ops.permute(x, (0,))",
            "ops.squeeze(x, 0)",
            "ops.unsqueeze(x, 4)",
            "ops.stack([x, x], 3)",
            "ops.concatenate([x, x], 2)",
            "ops.take(x, [0], axis=2)",
            "ops.topk(x, 1, axis=2)",
        ],
    ),
    (
        "The wrong number of channels or axes",
        [
            "ops.conv2d(images[:, :2], filters)",
            "ops.conv2d(images, filters, groups=2)",
            "ops.conv(images, ndl.Tensor(np.ones((5, 5, 3, 6))))",
            "ops.conv_transpose2d(images, ndl.Tensor(np.ones((4, 3, 5, 5))))",
            "ops.max_pool2d(x, 2)",
            "ops.global_avg_pool2d(x)",
            "ops.upsample2d(x, 2)",
            "ops.batch_norm(images, v, v)",
            "ops.batch_norm(v)",
            "ops.batch_norm(x[:1])",
            "ops.group_norm(images, 2)",
            "nn.Conv(4, 6, 3)(images)",
            "nn.Conv(4, 6, 3, groups=4)",
            "nn.ConvTranspose(4, 6, 3)(images)",
            "nn.BatchNorm1d(4)(x)",
            "nn.BatchNorm2d(4)(images)",
            "nn.BatchNorm2d(3)(x)",
            "nn.GroupNorm(2, 3)",
            "nn.GroupNorm(2, 4)(images)",
            "nn.Dropout2d()(v)",
            "nn.GlobalAvgPool2d()(x)",
        ],
    ),
    (
        "A change in place before backward",
        [
            "loss = ops.exp(x)\nloss.cached_data[0, 0] = 5.0\nloss.backward()",
            "loss = x * x\nx.data = ndl.Tensor(np.zeros((2, 3)))\nloss.backward()",
            "mask = ndl.Tensor([[True, False, True]] * 2, dtype='bool')\nloss = ops.where(mask, x, 0.0)\n"
            "mask.cached_data[0, 0] = False\nloss.backward()",
            "loss = (x * x).sum()\nloss.backward()\nx.grad.cached_data[0, 0] = 0.0\nx.grad.backward()",
        ],
    ),
    (
        "What is no tensor, number, or module",
        [
            *[f"ops.{name}(np.ones((2, 3)))" for name in UNARY],
            'ops.add(x, "one")',
            "ops.add(np.ones(3), np.ones(3))",
            "ops.matmul([[1.0]], [[1.0]])",
            *[f"ops.{name}_scalar(x, x)" for name in ("add", "mul", "divide", "power")],
            'ops.fused_add_scalars(x, 1, "2")',
            'ops.clip(x, min="0")',
            "ops.dilate(x, (0,), 0.5)",
            "ops.undilate(x, (0,), 0.5)",
            "ops.stack(x)",
            "ops.stack([x, np.ones((2, 3))])",
            "ops.make_tuple(x, 1)",
            "ops.cross_entropy(np.ones((2, 3)), labels)",
            "ops.conv2d(images, np.ones((6, 3, 5, 5)))",
            *[f"nn.{name}()(np.ones((2, 3)))" for name in ("ReLU", "Sigmoid", "Tanh", "LeakyReLU", "ELU", "GELU")],
            *[f"nn.{name}()(np.ones((2, 3)))" for name in ("SiLU", "Softplus", "Softmax", "Flatten", "Dropout")],
            "nn.Linear(3, 4)(np.ones((2, 3)))",
            "nn.Conv(3, 6, 3)(np.ones((2, 3, 8, 8)))",
            "nn.BatchNorm1d(3)(np.ones((2, 3)))",
            "nn.Sequential(nn.Linear(3, 4), nn.ReLU)",
            "nn.Residual(nn.ReLU)",
            "ndl.optim.SGD(nn.Linear(3, 4), lr=0.1)",
        ],
    ),
]


def answer(program: str) -> str:
    """Give the error that running `program` ends in, as Python prints it."""
    names: dict[str, Any] = {"np": np, "ndl": ndl, "nn": nn, "ops": ops}
    exec(SETUP, names)
    try:
        exec(program, names)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    raise RuntimeError(f"this is no mistake: {program}")


def page() -> str:
    """Give the text of errors.md."""
    parts = [HEAD, f"```python\n{SETUP}\n```\n"]
    for number, (title, programs) in enumerate(MISTAKES, 1):
        answers = "\n".join([f"{_prompts(program)}\n{answer(program)}" for program in programs])
        parts.append(f"## {number}. {title}\n\n```\n{answers}\n```\n")
    return "\n".join(parts)


def _prompts(program: str) -> str:
    return "\n".join([("... " if line.startswith(" ") else ">>> ") + line for line in program.split("\n")])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
