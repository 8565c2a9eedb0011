"""Tensors of a given shape: constants, random draws, one-hot rows.

Every function takes `device` (default `needle.default_device()`), `dtype` and `requires_grad`, and gives a leaf.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from needle.autograd import NDArray, Tensor
from needle.backend_ndarray import BackendDevice
from needle.backend_ndarray.devices import as_device


def manual_seed(seed: int) -> None:
    """Seed NumPy's global legacy generator, from which all of needle's random numbers come.

    >>> manual_seed(0)
    >>> rand(1, dtype="float64").item() == np.random.RandomState(0).rand()
    True
    """
    np.random.seed(seed)


def rand(
    *shape: int,
    low: float = 0.0,
    high: float = 1.0,
    device: BackendDevice | None = None,
    dtype: Any = "float32",
    requires_grad: bool = False,
) -> Tensor:
    """Draw uniformly from [low, high): `numpy.random.rand`, scaled afterwards.

    >>> np.random.seed(0)
    >>> rand(2, low=-1.0, dtype="float64").numpy().round(4).tolist()
    [0.0976, 0.4304]
    """
    array = as_device("rand", device).rand(*shape, dtype=dtype) * (high - low) + low
    return Tensor.make_const(array, requires_grad=requires_grad)


def randn(
    *shape: int,
    mean: float = 0.0,
    std: float = 1.0,
    device: BackendDevice | None = None,
    dtype: Any = "float32",
    requires_grad: bool = False,
) -> Tensor:
    """Draw from the normal distribution: `numpy.random.randn`, scaled afterwards.

    >>> np.random.seed(0)
    >>> randn(2, mean=1.0, dtype="float64").numpy().round(4).tolist()
    [2.7641, 1.4002]
    """
    array = as_device("randn", device).randn(*shape, dtype=dtype) * std + mean
    return Tensor.make_const(array, requires_grad=requires_grad)


def constant(
    *shape: int,
    c: float = 1.0,
    device: BackendDevice | None = None,
    dtype: Any = "float32",
    requires_grad: bool = False,
) -> Tensor:
    """Fill with `c`.

    >>> constant(2, 1, c=3.0).numpy().tolist()
    [[3.0], [3.0]]
    """
    array = as_device("constant", device).full(shape, c, dtype=dtype)
    return Tensor.make_const(array, requires_grad=requires_grad)


def ones(
    *shape: int, device: BackendDevice | None = None, dtype: Any = "float32", requires_grad: bool = False
) -> Tensor:
    """Fill with ones.

    >>> ones(2).numpy().tolist()
    [1.0, 1.0]
    """
    return constant(*shape, c=1.0, device=device, dtype=dtype, requires_grad=requires_grad)


def zeros(
    *shape: int, device: BackendDevice | None = None, dtype: Any = "float32", requires_grad: bool = False
) -> Tensor:
    """Fill with zeros.

    >>> zeros(2).numpy().tolist()
    [0.0, 0.0]
    """
    return constant(*shape, c=0.0, device=device, dtype=dtype, requires_grad=requires_grad)


def randb(
    *shape: int,
    p: float = 0.5,
    device: BackendDevice | None = None,
    dtype: Any = "bool",
    requires_grad: bool = False,
) -> Tensor:
    """Draw true with probability `p`: `numpy.random.rand(*shape) <= p`, in row-major order.

    >>> np.random.seed(0)
    >>> randb(4, p=0.6, dtype="float32").numpy().tolist()
    [1.0, 0.0, 0.0, 1.0]
    """
    drawn = as_device("randb", device).rand(*shape, dtype="float64") <= p
    return Tensor.make_const(drawn.astype(dtype), requires_grad=requires_grad)


def one_hot(
    n: int, i: Any, device: BackendDevice | None = None, dtype: Any = "float32", requires_grad: bool = False
) -> Tensor:
    """Give a row of `n` zeros with a one at place `i[k]`, for each id of `i`.

    Args:
        n: how many classes.
        i: ids of any dtype with whole values in 0..n-1 (a Tensor, an NDArray or what NumPy takes), of any shape.
        device: default that of `i` where it is a Tensor or an NDArray.

    Raises:
        BoundsError: an id outside 0..n-1, naming it and its place.
        DTypeError: an id that is not whole.

    >>> one_hot(3, [2, 0]).numpy().tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    device = i.device if device is None and isinstance(i, (Tensor, NDArray)) else as_device("one_hot", device)
    array = device.one_hot(n, i, dtype=dtype)
    return Tensor.make_const(array, requires_grad=requires_grad)


def zeros_like(array: Any, *, device: BackendDevice | None = None, requires_grad: bool = False) -> Tensor:
    """Fill with zeros, with the shape, dtype and (by default) device of a Tensor or NDArray.

    >>> zeros_like(ones(2, dtype="float64")).dtype
    dtype('float64')
    """
    return zeros(*array.shape, device=device or array.device, dtype=array.dtype, requires_grad=requires_grad)


def ones_like(array: Any, *, device: BackendDevice | None = None, requires_grad: bool = False) -> Tensor:
    """Fill with ones, with the shape, dtype and (by default) device of a Tensor or NDArray.

    >>> ones_like(zeros(2)).numpy().tolist()
    [1.0, 1.0]
    """
    return ones(*array.shape, device=device or array.device, dtype=array.dtype, requires_grad=requires_grad)
