"""What is measured: each case makes the same work for needle, PyTorch (in each layout of memory) and NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import needle as ndl
from needle import nn, optim

Work = Callable[[], object]
F32 = 4  # bytes


@dataclass
class Case:
    """Work to be done by several contenders, and what it costs at least.

    `make` gives a function for each contender. `goal` is how many times as fast as PyTorch's best needle is to be, at
    least and as hoped for; `direct_goal` the same without Winograd.
    """

    name: str
    make: Callable[[], dict[str, Work]]
    operations: float = 0
    bytes: float = 0
    goal: str = ""
    direct_goal: str = ""


def normal(*shape: int, dtype: str = "float32") -> Any:
    """Draw from the standard normal distribution."""
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def directly(work: Work) -> Work:
    """Do the same without Winograd."""

    def run() -> None:
        with ndl.set_conv_algorithm("direct"):
            work()

    return run


def images(a: Any, requires_grad: bool = True) -> ndl.Tensor:
    """Make a tensor N,C,H,W of N,H,W,C memory, as a network's own activations are."""
    array = ndl.backend_ndarray.array(np.moveaxis(a, 1, -1), device=ndl.cpu(), dtype=a.dtype)
    return ndl.Tensor(array.permute((0, 3, 1, 2)), device=ndl.cpu(), dtype=a.dtype, requires_grad=requires_grad)


def needle_layer(layer: nn.Module, x: Any, input_gradient: bool = True) -> Work:
    """Forward and backward pass of a layer, by needle."""
    inputs = images(x, input_gradient)
    wanted = [*[inputs] * input_gradient, *layer.parameters()]
    d = images(normal(*layer(inputs).shape, dtype=str(x.dtype)), False)
    return lambda: ndl.grad(layer(inputs), wanted, d)


def torch_layer(layer: Any, x: Any, memory: Any, input_gradient: bool = True) -> Work:
    """Forward and backward pass of a layer, by PyTorch."""
    layer.to(memory_format=memory)
    inputs = torch.tensor(x).contiguous(memory_format=memory).requires_grad_(input_gradient)
    wanted = [*[inputs] * input_gradient, *layer.parameters()]
    d = torch.tensor(normal(*layer(inputs).shape)).contiguous(memory_format=memory)
    return lambda: torch.autograd.grad(layer(inputs), wanted, d)


def layer_case(
    name: str,
    shape: tuple[int, ...],
    needle: Callable[[], nn.Module],
    pytorch: Callable[[], torch.nn.Module],
    direct: bool = False,
    input_gradient: bool = True,
    **facts: Any,
) -> Case:
    """Make a case of a layer; `needle` and `pytorch` make it."""

    def make() -> dict[str, Work]:
        x = normal(*shape)
        own = needle_layer(needle(), x, input_gradient)
        return {
            "needle": own,
            **({"needle direct": directly(own)} if direct else {}),
            "PyTorch": torch_layer(pytorch(), x, torch.contiguous_format, input_gradient),
            "PyTorch channels_last": torch_layer(pytorch(), x, torch.channels_last, input_gradient),
        }

    return Case(name, make, **facts)


def conv(
    n: int,
    c: int,
    o: int,
    size: int,
    kernel: int = 3,
    stride: int = 1,
    groups: int = 1,
    input_gradient: bool = True,
    **goals: str,
) -> Case:
    """Make a case of a convolution with padding kernel // 2 and bias."""
    padding = kernel // 2
    out = (size + 2 * padding - kernel) // stride + 1
    taps = sum(0 <= place * stride + tap - padding < size for place in range(out) for tap in range(kernel))
    passes = 3 if input_gradient else 2
    name = f"conv {c}->{o}, {kernel}x{kernel}" + f" stride {stride}" * (stride > 1) + " depthwise" * (groups > 1)
    return layer_case(
        f"{name}, {size}x{size}, batch {n}" + ", no input gradient" * (not input_gradient),
        (n, c, size, size),
        lambda: nn.Conv(c, o, kernel, stride, groups=groups, device=ndl.cpu()),
        lambda: torch.nn.Conv2d(c, o, kernel, stride, padding, groups=groups),
        direct="direct_goal" in goals,
        operations=passes * 2.0 * n * taps**2 * c // groups * o,  # taps on padding are no work
        bytes=passes * F32 * n * (c * size**2 + o * out**2),
        input_gradient=input_gradient,
        **goals,
    )


def matmul(m: int, n: int, p: int, goal: str) -> Case:
    """Make a case of a matrix product, forward."""

    def make() -> dict[str, Work]:
        a, b = normal(m, n), normal(n, p)
        x, y = (ndl.Tensor(v, device=ndl.cpu(), requires_grad=False) for v in (a, b))
        s, t = torch.tensor(a), torch.tensor(b)
        return {"needle": lambda: x @ y, "PyTorch": lambda: s @ t, "NumPy": lambda: a @ b}

    return Case(f"matmul {m}x{n}x{p}, forward", make, 2.0 * m * n * p, F32 * (m * n + n * p + m * p), goal)


def function(
    name: str, shape: tuple[int, ...], arrays: int, own: Any, pytorch: Any, numpy: Any, writes: bool = True
) -> Case:
    """Make a case of a function of some arrays, forward; `writes` says whether the result is as large as they are."""

    def make() -> dict[str, Work]:
        values = [normal(*shape) for _ in range(arrays)]
        tensors = [ndl.Tensor(v, device=ndl.cpu(), requires_grad=False) for v in values]
        theirs = [torch.tensor(v) for v in values]
        return {
            "needle": lambda: own(*tensors),
            "PyTorch": lambda: pytorch(*theirs),
            "NumPy": lambda: numpy(*values),
        }

    return Case(f"{name}, forward", make, 0, F32 * (arrays + writes) * float(np.prod(shape)), "1.0 / 1.3")


def recurrent(kind: str, goal: str) -> Case:
    """Make a case of a recurrent layer of 256 on (32,32,256), forward and backward."""

    def make() -> dict[str, Work]:
        values = normal(32, 32, 256)
        own, theirs = getattr(nn, kind)(256, 256, device=ndl.cpu()), getattr(torch.nn, kind)(256, 256)
        x, s = ndl.Tensor(values, device=ndl.cpu()), torch.tensor(values, requires_grad=True)
        d, e = ndl.Tensor(values, device=ndl.cpu(), requires_grad=False), torch.tensor(values)
        return {
            "needle": lambda: ndl.grad(own(x)[0], [x, *own.parameters()], d),
            "PyTorch": lambda: torch.autograd.grad(theirs(s)[0], [s, *theirs.parameters()], e),
        }

    products = {"RNN": 1, "LSTM": 4, "GRU": 3}[kind]
    return Case(f"{kind}(256,256) on (32,32,256)", make, 3 * products * 2.0 * 32 * 32 * 256 * (256 + 256), goal=goal)


def transformer_layer() -> dict[str, Work]:
    """Take a causal layer of 8 heads and 1024 hidden units on (32,32,256), batch first, forward and backward."""
    values = normal(32, 32, 256)
    own = nn.TransformerLayer(256, 8, 32, 1024, device=ndl.cpu())
    theirs = torch.nn.TransformerEncoderLayer(256, 8, 1024, 0.0, norm_first=True, batch_first=True)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(32)
    x, s = ndl.Tensor(values, device=ndl.cpu()), torch.tensor(values, requires_grad=True)
    d, e = ndl.Tensor(values, device=ndl.cpu(), requires_grad=False), torch.tensor(values)
    return {
        "needle": lambda: ndl.grad(own(x), [x, *own.parameters()], d),
        "PyTorch": lambda: torch.autograd.grad(theirs(s, mask, is_causal=True), [s, *theirs.parameters()], e),
    }


def cross_entropy() -> dict[str, Work]:
    """Compute the loss of (1024, 1000), forward and backward."""
    logits, labels = normal(1024, 1000), np.random.default_rng(0).integers(0, 1000, 1024)
    x, s, t = ndl.Tensor(logits, device=ndl.cpu()), torch.tensor(logits, requires_grad=True), torch.tensor(labels)
    return {
        "needle": lambda: ndl.grad(ndl.cross_entropy(x, labels), x),
        "PyTorch": lambda: torch.autograd.grad(torch.nn.functional.cross_entropy(s, t), s),
    }


def adam() -> dict[str, Work]:
    """Update 70 tensors with 500 k parameters in all."""
    shapes = [(128, 128)] * 30 + [(210,)] * 40  # 499,920
    own = [nn.Parameter(normal(*shape), device=ndl.cpu()) for shape in shapes]
    for p in own:
        p.grad = ndl.Tensor(normal(*p.shape), device=ndl.cpu(), requires_grad=False)
    steps: dict[str, Work] = {"needle": optim.Adam(own, lr=0.001).step}
    variants: dict[str, dict[str, Any]] = {"": {}, " foreach": {"foreach": True}, " fused": {"fused": True}}
    for name, options in variants.items():
        theirs = [torch.tensor(normal(*shape), requires_grad=True) for shape in shapes]
        for q in theirs:
            q.grad = torch.tensor(normal(*q.shape))
        steps["PyTorch" + name] = torch.optim.Adam(theirs, lr=0.001, **options).step
    return steps


def over_axis(name: str, own: Any, pytorch: Any, numpy: Any) -> list[Case]:
    """Make cases of a reduction over each axis of (1024,1024)."""

    def case(axis: int) -> Case:
        first, second, third = [lambda x, f=f: f(x, axis) for f in (own, pytorch, numpy)]
        return function(f"{name} over axis {axis} of (1024,1024)", (1024, 1024), 1, first, second, third, writes=False)

    return [case(0), case(1)]


CASES = [
    conv(64, 64, 64, 32, goal="1.3 / 1.6", direct_goal="0.9 / 1.0"),
    conv(64, 128, 128, 16, goal="1.3 / 1.6", direct_goal="0.9 / 1.0"),
    conv(64, 256, 256, 8, goal="1.3 / 1.6", direct_goal="0.9 / 1.0"),
    conv(64, 512, 512, 4, goal="1.0 / 1.3"),
    conv(64, 16, 32, 14, goal="1.0 / 1.5"),
    conv(128, 32, 32, 4, goal="1.7 / 2.5"),
    conv(128, 128, 128, 1, goal="3 / 6"),
    conv(64, 1, 16, 28, input_gradient=False, goal="1.7 / 2.5"),
    conv(128, 3, 16, 32, 7, 4, input_gradient=False, goal="0.95 / 1.5"),
    conv(64, 64, 64, 32, groups=64, goal="1.0 / 1.5"),
    matmul(2048, 2048, 2048, "0.85 / 1.0"),
    matmul(512, 512, 512, "0.7 / 1.0"),
    matmul(65536, 576, 64, "1.0 / 1.2"),
    layer_case(
        "batch norm + ReLU (64,32,14,14)",
        (64, 32, 14, 14),
        lambda: nn.Sequential(nn.BatchNorm2d(32, device=ndl.cpu()), nn.ReLU()),
        lambda: torch.nn.Sequential(torch.nn.BatchNorm2d(32), torch.nn.ReLU()),
        bytes=6 * F32 * 64 * 32 * 14 * 14,
        goal="2.5 / 4",
    ),
    layer_case(
        "2x2 max pooling (64,16,28,28)",
        (64, 16, 28, 28),
        lambda: nn.MaxPool2d(2),
        lambda: torch.nn.MaxPool2d(2),
        bytes=2.5 * F32 * 64 * 16 * 28 * 28,
        goal="1.5 / 3",
    ),
    recurrent("RNN", "1.0 / 1.5"),
    recurrent("GRU", "1.0 / 1.5"),
    recurrent("LSTM", "0.5 / 1.0"),
    Case(
        "transformer layer on (32,32,256)",
        transformer_layer,
        operations=3 * 2.0 * 32 * 32 * (4 * 256**2 + 2 * 256 * 1024),
        goal="1.0 / 1.5",
    ),
    Case("softmax cross entropy (1024,1000)", cross_entropy, bytes=3 * F32 * 1024 * 1000, goal="1.0 / 2"),
    Case("Adam, 70 tensors, 500 k parameters", adam, bytes=7 * F32 * 499_920, goal="3 / 5"),
    function("add of 10^6", (10**6,), 2, ndl.add, torch.add, np.add),
    function("relu of 10^6", (10**6,), 1, ndl.relu, torch.relu, lambda x: np.maximum(x, 0)),
    function("exp of 10^6", (10**6,), 1, ndl.exp, torch.exp, np.exp),
    *over_axis("sum", ndl.summation, torch.sum, np.sum),
    *over_axis("max", ndl.max, torch.amax, np.max),
]
