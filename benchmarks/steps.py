"""Whole training steps and inference, for needle, PyTorch (each layout, optimizer, compiled) and JAX."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from cases import Case, Work, normal
from networks import MLP, NETWORKS, Network, OneByOne, needle_module, torch_module

import needle as ndl
from needle import nn, optim

WORDS, HIDDEN, SEQUENCE = 2000, 256, 32
"""Of language models: vocabulary, width of every layer, steps."""

Kind = Literal["SGD", "Adam"]
"""Of optimizer; SGD has momentum 0.9, by PyTorch's rule."""


def batch_of(network: Network, size: int = 0) -> tuple[Any, Any]:
    """Draw images and labels."""
    size = size or network.batch
    return normal(size, *network.shape), np.random.default_rng(1).integers(0, 10, size)


def needle_step(model: nn.Module, x: Any, y: Any, kind: Kind, free_graph: bool = False) -> Work:
    """Make a training step of needle's."""
    inputs, loss_fn = ndl.Tensor(x, device=ndl.cpu(), requires_grad=False), nn.SoftmaxLoss()
    parameters = model.parameters()
    if kind == "Adam":
        optimizer: optim.Optimizer = optim.Adam(parameters, lr=0.001)
    else:
        optimizer = optim.SGD(parameters, lr=0.01, momentum=0.9, dampening=0.0)

    def step() -> None:
        optimizer.reset_grad()
        loss_fn(model(inputs), y).backward(free_graph=free_graph)
        optimizer.step()

    return step


def torch_images(x: Any, memory: Any) -> torch.Tensor:
    """Make a tensor in a layout of memory, which vectors have but one of."""
    return torch.tensor(x).contiguous(memory_format=memory) if x.ndim == 4 else torch.tensor(x)


def torch_step(
    network: Network, x: Any, y: Any, kind: Kind, memory: Any, compiled: bool = False, **options: Any
) -> Work:
    """Make a training step of PyTorch's; `options` are its optimizer's."""
    module: Any = torch_module(network.layers)
    module.to(memory_format=memory)
    return torch_module_step(module, torch_images(x, memory), torch.tensor(y), kind, compiled, **options)


def torch_module_step(
    module: Any, inputs: torch.Tensor, labels: torch.Tensor, kind: Kind, compiled: bool = False, **options: Any
) -> Work:
    """Make a training step of a module of PyTorch's."""
    if kind == "Adam":
        optimizer: Any = torch.optim.Adam(module.parameters(), lr=0.001, **options)
    else:
        optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9, **options)
    model = torch.compile(module) if compiled else module

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return step


def layouts(network: Network) -> dict[str, Any]:
    """Give PyTorch's layouts of memory that a network may be computed in, by the end of their names."""
    images = {"": torch.contiguous_format, " channels_last": torch.channels_last}
    return images if len(network.shape) == 3 else {"": torch.contiguous_format}


def training(network: Network, kind: Kind, goal: str, compiled: bool = True) -> Case:
    """Make a case of a training step."""

    def make() -> dict[str, Work]:
        x, y = batch_of(network)
        works = {
            "needle": needle_step(needle_module(network.layers), x, y, kind),
            "needle one by one": needle_step(OneByOne(network.layers), x, y, kind),
        }
        for layout, memory in layouts(network).items():
            for option in ("foreach", "fused"):
                works[f"PyTorch{layout} {option}"] = torch_step(network, x, y, kind, memory, **{option: True})
            if compiled:
                works[f"PyTorch{layout} compiled"] = torch_step(network, x, y, kind, memory, True, fused=True)
        with contextlib.suppress(ImportError):
            from jax_step import training_step  # JAX is optional

            works["JAX"] = training_step(network, x, y, kind == "Adam")
        return works

    return Case(f"{network.name}, batch {network.batch}, {kind}", make, goal=goal)


class LanguageModel(nn.Module):
    """Embedding, an LSTM or a transformer of two layers, linear: ids (seq,batch) to logits (seq * batch, WORDS)."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, HIDDEN)
        self.sequence: Any = nn.LSTM(HIDDEN, HIDDEN)
        if kind == "transformer":
            self.sequence = nn.Transformer(HIDDEN, 4 * HIDDEN, num_layers=2, sequence_len=SEQUENCE)
        self.linear = nn.Linear(HIDDEN, WORDS)

    def forward(self, x: Any) -> Any:
        y, _ = self.sequence(self.embedding(x))
        return self.linear(y.reshape((-1, HIDDEN)))


class TorchLanguageModel(torch.nn.Module):
    """The same by PyTorch."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.embedding, self.linear = torch.nn.Embedding(WORDS, HIDDEN), torch.nn.Linear(HIDDEN, WORDS)
        self.lstm = torch.nn.LSTM(HIDDEN, HIDDEN) if kind == "lstm" else None
        layer = torch.nn.TransformerEncoderLayer(HIDDEN, 8, 4 * HIDDEN, 0.0, norm_first=True)
        self.transformer: Any = None if self.lstm else torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.positions = None if self.lstm else torch.nn.Parameter(torch.randn(SEQUENCE, 1, HIDDEN))
        self.mask = torch.nn.Transformer.generate_square_subsequent_mask(SEQUENCE)

    def forward(self, x: Any) -> Any:
        y = self.embedding(x)
        if self.lstm:
            y, _ = self.lstm(y)
        else:
            y = self.transformer(y + self.positions, self.mask, is_causal=True)
        return self.linear(y.reshape(-1, HIDDEN))


def language_model(kind: str) -> Case:
    """Make a case of a step of a language model, SGD."""

    def make() -> dict[str, Work]:
        generator = np.random.default_rng(0)
        x, y = generator.integers(0, WORDS, (SEQUENCE, 32)), generator.integers(0, WORDS, SEQUENCE * 32)
        works = {"needle": needle_step(LanguageModel(kind), x, y, "SGD")}
        for option in ("foreach", "fused"):
            step = torch_module_step(
                TorchLanguageModel(kind), torch.tensor(x), torch.tensor(y), "SGD", **{option: True}
            )
            works[f"PyTorch {option}"] = step
        return works

    return Case(f"{kind} language model, hidden {HIDDEN}, sequence {SEQUENCE}, batch 32, SGD", make)


def inference(network: Network, size: int, goal: str) -> Case:
    """Make a case of a forward pass without gradients."""

    def make() -> dict[str, Work]:
        x, _ = batch_of(network, size)
        works: dict[str, Work] = {}
        for name, build in {"needle": needle_module, "needle one by one": OneByOne}.items():
            works[name] = _needle_inference(build(network.layers), x)
        for layout, memory in layouts(network).items():
            works[f"PyTorch{layout}"] = _torch_inference(network, x, memory)
        return works

    return Case(f"{network.name}, inference, batch {size}", make, goal=goal)


def _needle_inference(model: nn.Module, x: Any) -> Work:
    inputs = ndl.Tensor(x, device=ndl.cpu(), requires_grad=False)
    model.eval()

    def run() -> None:
        with ndl.no_grad():
            model(inputs)

    return run


def _torch_inference(network: Network, x: Any, memory: Any) -> Work:
    model: Any = torch_module(network.layers).eval()
    model.to(memory_format=memory)
    inputs = torch_images(x, memory)

    def run() -> None:
        with torch.inference_mode():
            model(inputs)

    return run


def chain(length: int = 1000) -> Case:
    """Make a case of many elementwise ops on ten numbers, forward and backward: Python's overhead."""

    def work(x: Any, y: Any) -> Callable[[], None]:
        def run() -> None:
            x.grad = None
            z = x
            for _ in range(length // 2):
                z = z * y + x
            z.sum().backward()

        return run

    def make() -> dict[str, Work]:
        a, b = normal(10), np.full(10, 0.5, "float32")
        own = [ndl.Tensor(v, device=ndl.cpu(), requires_grad=r) for v, r in ((a, True), (b, False))]
        return {"needle": work(*own), "PyTorch": work(torch.tensor(a, requires_grad=True), torch.tensor(b))}

    return Case(f"chain of {length} elementwise ops on 10 numbers", make, goal="1.0 / 2.4")


def cases(compiled: bool) -> list[Case]:
    """Give all cases of the report's table."""
    goals = {"digits": "2.0 / 4", "mnist": "2.0 / 3", "resnet9": "2.3 / 3.5", "wide resnet9": "1.2 / 1.6"}
    small = NETWORKS["mnist"], NETWORKS["resnet9"]
    return [
        *[training(NETWORKS[name], "SGD", goal, compiled) for name, goal in goals.items()],
        training(NETWORKS["resnet9"], "Adam", "2.5 / 4", compiled),
        training(MLP, "Adam", "1.1 / 1.5", compiled),
        language_model("lstm"),
        language_model("transformer"),
        *[inference(network, 1, "2 / 4") for network in small],
        *[inference(network, 256, "1.3 / 2") for network in small],
        chain(),
    ]
