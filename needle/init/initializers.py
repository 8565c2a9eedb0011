"""Scaled random draws for the weights of layers.

Each draws a tensor of `shape`, by default (fan_in, fan_out). `gain` makes up for what the nonlinearity after the
layer takes away. `device`, `dtype` and `requires_grad` are handed on to `rand` or `randn`.

Sources: Glorot & Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010); He et
al., "Delving deep into rectifiers" (2015).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from needle.autograd import Tensor
from needle.backend_ndarray.layout import as_shape
from needle.errors import OptionError, ShapeError
from needle.init.basic import rand, randn

_GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2.0)}


def xavier_uniform(
    fan_in: int, fan_out: int, gain: float = 1.0, shape: Sequence[int] | None = None, **kwargs: Any
) -> Tensor:
    """Draw from U(-a, a), a = gain * sqrt(6 / (fan_in + fan_out)).

    >>> xavier_uniform(3, 4).shape
    (3, 4)
    """
    lengths = _shape("xavier_uniform", fan_in, fan_out, shape)
    a = gain * math.sqrt(6 / _fan("xavier_uniform", fan_in + fan_out))
    return rand(*lengths, low=-a, high=a, **kwargs)


def xavier_normal(
    fan_in: int, fan_out: int, gain: float = 1.0, shape: Sequence[int] | None = None, **kwargs: Any
) -> Tensor:
    """Draw from N(0, std^2), std = gain * sqrt(2 / (fan_in + fan_out)).

    >>> xavier_normal(3, 4).shape
    (3, 4)
    """
    lengths = _shape("xavier_normal", fan_in, fan_out, shape)
    std = gain * math.sqrt(2 / _fan("xavier_normal", fan_in + fan_out))
    return randn(*lengths, std=std, **kwargs)


def kaiming_uniform(
    fan_in: int, fan_out: int, shape: Sequence[int] | None = None, nonlinearity: str = "relu", **kwargs: Any
) -> Tensor:
    """Draw from U(-b, b), b = gain * sqrt(3 / fan_in).

    `nonlinearity` gives the gain: sqrt(2) for "relu", 1 for "linear" and "sigmoid", 5/3 for "tanh".
    For a convolution, fan_in is kernel height * kernel width * input channels.

    >>> kaiming_uniform(72, 16, shape=(3, 3, 8, 16)).shape
    (3, 3, 8, 16)
    """
    lengths = _shape("kaiming_uniform", fan_in, fan_out, shape)
    b = _gain("kaiming_uniform", nonlinearity) * math.sqrt(3 / _fan("kaiming_uniform", fan_in))
    return rand(*lengths, low=-b, high=b, **kwargs)


def kaiming_normal(
    fan_in: int, fan_out: int, shape: Sequence[int] | None = None, nonlinearity: str = "relu", **kwargs: Any
) -> Tensor:
    """Draw from N(0, std^2), std = gain / sqrt(fan_in); the gain as in `kaiming_uniform`.

    >>> kaiming_normal(3, 4).shape
    (3, 4)
    """
    lengths = _shape("kaiming_normal", fan_in, fan_out, shape)
    std = _gain("kaiming_normal", nonlinearity) / math.sqrt(_fan("kaiming_normal", fan_in))
    return randn(*lengths, std=std, **kwargs)


def _shape(op: str, fan_in: int, fan_out: int, shape: Sequence[int] | None) -> tuple[int, ...]:
    return as_shape(op, (fan_in, fan_out) if shape is None else shape)


def _fan(op: str, fan: int) -> int:
    if fan < 1:
        raise ShapeError(f"{op}: the fan must be at least 1, got {fan}; the layer has no inputs")
    return fan


def _gain(op: str, nonlinearity: str) -> float:
    if nonlinearity not in _GAINS:
        raise OptionError(f"{op}: nonlinearity must be one of {', '.join(_GAINS)}, got {nonlinearity!r}")
    return _GAINS[nonlinearity]
