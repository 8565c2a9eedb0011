"""A training step by JAX, compiled as a whole: the layers of networks.py as pure functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from networks import Layer, Network


def initial(layers: Sequence[Layer], generator: np.random.Generator) -> list[Any]:
    """Draw a layer's parameters, None where it has none; residual layers hold a list."""
    found: list[Any] = []
    for kind, *settings in layers:
        if kind == "conv":
            inputs, outputs, size, _ = settings
            weight = generator.standard_normal((size, size, inputs, outputs)) * np.sqrt(2 / (inputs * size**2))
            found.append({"weight": weight, "bias": np.zeros(outputs)})
        elif kind == "linear":
            weight = generator.standard_normal(settings) * np.sqrt(2 / settings[0])
            found.append({"weight": weight, "bias": np.zeros(settings[1])})
        elif kind == "batch norm":
            found.append({"weight": np.ones(settings), "bias": np.zeros(settings)})
        else:
            found.append(initial(settings[0], generator) if kind == "residual" else None)
    return jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), found)


def statistics(layers: Sequence[Layer]) -> list[Any]:
    """Give the initial running mean and variance of batch norms."""
    found: list[Any] = []
    for kind, *settings in layers:
        if kind == "batch norm":
            found.append((jnp.zeros(settings), jnp.ones(settings)))
        else:
            found.append(statistics(*settings) if kind == "residual" else None)
    return found


def forward(layers: Sequence[Layer], parameters: list[Any], running: list[Any], x: Any) -> tuple[Any, list[Any]]:
    """Apply the layers to x (N,H,W,C), in training; give the new running statistics too."""
    after: list[Any] = []
    for (kind, *settings), p, state in zip(layers, parameters, running):
        if kind == "conv":
            size, stride = settings[2:]
            padding = [(size // 2, size // 2)] * 2
            numbers = ("NHWC", "HWIO", "NHWC")
            x = jax.lax.conv_general_dilated(x, p["weight"], (stride, stride), padding, dimension_numbers=numbers)
            x = x + p["bias"]
        elif kind == "batch norm":
            mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
            x = (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p["weight"] + p["bias"]
            state = (0.9 * state[0] + 0.1 * mean, 0.9 * state[1] + 0.1 * variance)
        elif kind == "linear":
            x = x @ p["weight"] + p["bias"]
        elif kind == "relu":
            x = jax.nn.relu(x)
        elif kind == "max pool":
            window = (1, settings[0], settings[0], 1)
            x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")
        elif kind == "flatten":
            x = x.reshape(len(x), -1)
        else:
            inner, state = forward(settings[0], p, state, x)
            x = inner + x
        after.append(state)
    return x, after


def training_step(network: Network, images: Any, labels: Any, adam: bool) -> Callable[[], Any]:
    """Make a function that takes one step and waits for it."""

    def loss(parameters: Any, running: Any, x: Any, y: Any) -> tuple[Any, Any]:
        logits, running = forward(network.layers, parameters, running, x)
        return -jax.nn.log_softmax(logits)[jnp.arange(len(y)), y].mean(), running

    def update_sgd(p: Any, g: Any, u: Any, _: Any) -> Any:
        u = 0.9 * u + g
        return p - 0.01 * u, u

    def update_adam(p: Any, g: Any, state: Any, t: Any) -> Any:
        m, v = 0.9 * state[0] + 0.1 * g, 0.999 * state[1] + 0.001 * g * g
        return p - 0.001 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8), (m, v)

    @partial(jax.jit, donate_argnums=(0, 1, 2))
    def step(leaves: Any, running: Any, states: Any, t: Any, x: Any, y: Any) -> Any:
        gradients, running = jax.grad(loss, has_aux=True)(jax.tree.unflatten(structure, leaves), running, x, y)
        update = update_adam if adam else update_sgd
        updated = [update(p, g, s, t) for p, g, s in zip(leaves, jax.tree.leaves(gradients), states)]
        return [p for p, _ in updated], running, [s for _, s in updated]

    leaves, structure = jax.tree.flatten(initial(network.layers, np.random.default_rng(0)))
    zero = [jnp.zeros_like(p) for p in leaves]
    state = leaves, statistics(network.layers), [(z, z + 0) for z in zero] if adam else zero
    x, y = jnp.asarray(np.moveaxis(images, 1, -1)), jnp.asarray(labels)
    count = 0

    def run() -> None:
        nonlocal state, count
        count += 1
        state = step(*state, jnp.float32(count), x, y)
        jax.block_until_ready(state)

    return run
