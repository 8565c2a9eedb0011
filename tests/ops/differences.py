"""Gradient checks of functions on random inputs."""

from collections.abc import Callable

import numpy as np

import needle as ndl
from needle.testing import check_gradients


def check_to_second_order(
    function: Callable[..., ndl.Tensor], tensor: Callable[..., ndl.Tensor], *inputs: tuple[int, ...] | np.ndarray
) -> None:
    """Check gradients, and gradients of gradients, at the given arrays, and at random ones of the given shapes."""
    arrays = [np.random.randn(*a) if isinstance(a, tuple) else a for a in inputs]
    check_gradients(function, [tensor(a) for a in arrays])
