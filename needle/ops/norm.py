"""Normalisation by mean and variance: of each channel over a batch, of the last axes, or of groups of channels.

In float32, (x - mean) / std with std = sqrt(var + eps) is within 2**-23 * (2 + 2 * |out| + |mean| / std): the mean is
rounded, and that counts where it is many times the spread. Equal values give zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeAlias, TypeVar

from needle.autograd import NDArray, Tensor, TensorOp, TensorTuple, TensorTupleOp
from needle.backend_ndarray import layers
from needle.backend_ndarray.dtypes import check_floating
from needle.errors import ShapeError
from needle.gradients import differentiate
from needle.ops.activation import relu as rectify
from needle.ops.arguments import integer, not_negative, parameter, promote, tensor
from needle.ops.cast import astype
from needle.ops.comparison import less_equal
from needle.ops.reduce import mean, summation
from needle.ops.selection import masked_fill
from needle.ops.shape import reshape

A = TypeVar("A", NDArray, Tensor)
OnStatistics: TypeAlias = Callable[[NDArray, NDArray, int], None]


class Normalize(TensorOp):
    """(x - mean) / sqrt(var + eps) * weight + bias, of x, of x and weight, or of all three; or ReLU of that.

    Args:
        shape: the shape in which x is seen.
        axes: the axes of that shape, ascending, over which mean and variance are taken.
        parameter_shape: the shape in which weight and bias are seen; it broadcasts to `shape`.
        eps: what is added to the variance, which is divided by the number of elements, and taken in a second pass.
        relu: whether ReLU follows, in the same trip through memory; the bits are those of `relu` on the result.
        on_statistics: called, where there are elements, with mean, variance and number of elements once computed.
    """

    mean: NDArray
    inv_std: NDArray

    def __init__(
        self,
        shape: tuple[int, ...],
        axes: tuple[int, ...],
        parameter_shape: tuple[int, ...],
        eps: float,
        relu: bool = False,
        on_statistics: OnStatistics | None = None,
    ) -> None:
        self.shape, self.axes, self.parameter_shape, self.eps = shape, axes, parameter_shape, eps
        self.relu, self.on_statistics = relu, on_statistics

    def compute(self, x: NDArray, weight: NDArray | None = None, bias: NDArray | None = None) -> NDArray:
        weight, bias = [a if a is None else a.reshape(self.parameter_shape) for a in (weight, bias)]
        out, self.mean, variance = layers.normalize(x.reshape(self.shape), weight, bias, self.axes, self.eps, self.relu)
        self.inv_std = (variance + self.eps) ** -0.5
        if self.on_statistics and x.size:
            count = prod([self.shape[axis] for axis in self.axes])
            self.on_statistics(self.mean.reshape(-1), variance.reshape(-1), count)
        return out.reshape(x.shape)

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor | None, ...]:
        out_grad = astype(out_grad, node.dtype)
        gradients = NormalizeGradients(self, node if self.relu else None)(out_grad, *node.inputs[:2])
        return tuple([gradients[i] if value.requires_grad else None for i, value in enumerate(node.inputs)])

    def standardize(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Give (x - mean) * inv_std, and inv_std, in `shape`, by ops that can be differentiated."""
        x = reshape(x, self.shape)
        centred = x - mean(x, self.axes, keepdims=True)
        inv_std = (mean(centred * centred, self.axes, keepdims=True) + self.eps) ** -0.5
        return centred * inv_std, inv_std


class NormalizeGradients(TensorTupleOp):
    """d, x and perhaps weight to the gradients of Normalize: with respect to x, or to x, weight and bias.

    `rectified` is what Normalize gave, where ReLU followed: data, since the slope of ReLU has none itself.
    """

    def __init__(self, forward: Normalize, rectified: Tensor | None) -> None:
        self.forward, self.rectified = forward, rectified

    def compute(self, d: NDArray, x: NDArray, weight: NDArray | None = None) -> tuple[NDArray, ...]:
        op, seen = self.forward, weight
        if seen is not None:
            seen = seen.reshape(op.parameter_shape)
        y = None if self.rectified is None else self.rectified.realize_cached_data().reshape(op.shape)
        to_x, *to_parameters = layers.normalize_gradient(
            d.reshape(op.shape), x.reshape(op.shape), seen, op.mean, op.inv_std, op.axes, y
        )
        return to_x.reshape(x.shape), *[a.reshape(weight.shape) for a in to_parameters if weight is not None]

    def gradient(self, out_grad: TensorTuple, node: TensorTuple) -> tuple[Tensor | None, ...]:
        return differentiate(self._formula, node.inputs, out_grad.tuple())

    def _formula(self, d: Tensor, x: Tensor, weight: Tensor | None = None) -> tuple[Tensor, ...]:
        op, shape = self.forward, x.shape
        if self.rectified is not None:
            d = masked_fill(d, less_equal(self.rectified, 0), 0)
        standardized, inv_std = op.standardize(x)
        d = reshape(d, op.shape)
        scaled = d if weight is None else d * reshape(weight, op.parameter_shape)
        slope = mean(scaled * standardized, op.axes, keepdims=True)
        to_x = reshape((scaled - mean(scaled, op.axes, keepdims=True) - standardized * slope) * inv_std, shape)
        if weight is None:
            return (to_x,)
        shared = tuple([axis for axis, n in enumerate(op.parameter_shape) if n == 1])
        return to_x, *[reshape(summation(a, shared), weight.shape) for a in (d * standardized, d)]


def batch_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    on_statistics: OnStatistics | None = None,
    relu: bool = False,
) -> Tensor:
    """Normalise each channel of (N,C), (N,C,L) or (N,C,H,W) by its mean and variance over the other axes.

    Gives (x - mean) / sqrt(var + eps) * weight + bias (Ioffe and Szegedy, 2015), in x's order of memory. The variance
    is divided by the number of values, and taken in a second pass. For given statistics see `batch_norm_inference`.

    Args:
        x: float32 or float64.
        weight, bias: (C,). A bias needs a weight beside it.
        eps: keeps the root away from zero.
        on_statistics: called with (mean, variance, count): two arrays (C,), of which the variance is the biased one,
            and the number of values of a channel. For running averages. Not called for an empty batch.
        relu: give relu(...) of that: the same bits as one after the other, faster, and without what lies between.

    Raises:
        ShapeError: a single value per channel (its variance says nothing), parameters of another shape.
        OptionError: eps is negative or NaN.

    >>> import needle as ndl
    >>> x = ndl.Tensor([[1.0, 0.0], [3.0, 8.0]])
    >>> batch_norm(x, eps=0.0).numpy().tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """
    name = "batch_norm"
    shape = _channels_first(name, x)
    axes = (0, *range(2, x.ndim))
    if prod([shape[axis] for axis in axes]) == 1:
        raise ShapeError(
            f"{name}: one value per channel in an input of shape {shape} has no variance; "
            "train on larger batches, or normalise by running statistics (evaluation mode)"
        )
    inputs = _with_parameters(name, x, weight, bias, (shape[1],))
    spread = (1, shape[1], *[1] * (x.ndim - 2))
    return Normalize(shape, axes, spread, not_negative(name, "eps", eps), relu, on_statistics)(*inputs)


class NormalizeByStatistics(TensorOp):
    """(x - mean) / sqrt(variance + eps) * weight + bias by given statistics of axis 1, the channels; or ReLU of that.

    The inputs are x, mean and variance, then weight and bias as far as there are any.
    """

    def __init__(self, eps: float, has_weight: bool, relu: bool) -> None:
        self.eps, self.has_weight, self.relu = eps, has_weight, relu

    def compute(self, x: NDArray, *given: NDArray) -> NDArray:
        mean, scale, *bias = self._per_channel(x.ndim, given)
        return layers.normalize_by(x, mean, scale, bias[0] if bias else None, self.relu)

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor | None, ...]:
        return differentiate(self._formula, node.inputs, out_grad)

    def _formula(self, x: Tensor, *given: Tensor) -> Tensor:
        mean, scale, *bias = self._per_channel(x.ndim, given)
        out = (x - mean) * scale
        out = out + bias[0] if bias else out
        return rectify(out) if self.relu else out

    def _per_channel(self, ndim: int, given: Sequence[A]) -> list[A]:
        """Give mean, scale and, if there is one, bias, of arrays or of tensors, as they broadcast to x."""
        mean, variance, *parameters = given
        scale = (variance + self.eps) ** -0.5
        if self.has_weight:
            scale = scale * parameters.pop(0)
        return [a.reshape((-1, *[1] * (ndim - 2))) for a in (mean, scale, *parameters)]


def batch_norm_inference(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    relu: bool = False,
) -> Tensor:
    """Normalise each channel of (N,C,...) by given statistics: (x - mean) / sqrt(variance + eps) * weight + bias.

    All but x are of shape (C,). With `relu`, gives relu(...) of that, with the same bits.

    >>> import needle as ndl
    >>> x, mean, variance = ndl.Tensor([[5.0]]), ndl.Tensor([1.0]), ndl.Tensor([4.0])
    >>> batch_norm_inference(x, mean, variance, eps=0.0).numpy().tolist()
    [[2.0]]
    """
    name = "batch_norm_inference"
    shape = (_channels_first(name, x)[1],)
    given = [("mean", mean), ("variance", variance), ("weight", weight), ("bias", bias)]
    inputs = [parameter(name, what, a, shape) for what, a in given if a is not None]
    return NormalizeByStatistics(not_negative(name, "eps", eps), weight is not None, relu)(*promote(x, *inputs))


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """Normalise over the last axes, as many as the weight has (Ba et al., 2016); over the last one without a weight.

    >>> import needle as ndl
    >>> layer_norm(ndl.Tensor([[1.0, 3.0], [0.0, 8.0]]), eps=0.0).numpy().tolist()
    [[-1.0, 1.0], [-1.0, 1.0]]
    """
    name = "layer_norm"
    last = 1 if weight is None else tensor(name, weight, "weight").ndim
    if not 1 <= last <= tensor(name, x, "x").ndim:
        raise ShapeError(f"{name}: cannot normalise an input of shape {x.shape} over its last {last} axes")
    lead, normalized = x.ndim - last, x.shape[x.ndim - last :]
    inputs = _with_parameters(name, x, weight, bias, normalized)
    axes, spread = tuple(range(lead, x.ndim)), (*[1] * lead, *normalized)
    return Normalize(x.shape, axes, spread, not_negative(name, "eps", eps))(*inputs)


def group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalise each example's groups of channels, x being (N,C,...), by their mean and variance (Wu and He, 2018).

    weight and bias are of shape (C,).

    >>> import needle as ndl
    >>> group_norm(ndl.Tensor([[1.0, 3.0, 0.0, 8.0]]), 2, eps=0.0).numpy().tolist()
    [[-1.0, 1.0, -1.0, 1.0]]
    """
    name = "group_norm"
    batch, channels, *image = _channels_first(name, x)
    if channels % integer(name, "num_groups", num_groups, 1):
        raise ShapeError(f"{name}: {channels} channels cannot be cut into {num_groups} groups of one size")
    inputs = _with_parameters(name, x, weight, bias, (channels,))
    groups = (num_groups, channels // num_groups)
    axes = tuple(range(2, x.ndim + 1))
    spread = (1, *groups, *[1] * len(image))
    return Normalize((batch, *groups, *image), axes, spread, not_negative(name, "eps", eps))(*inputs)


def _channels_first(op: str, x: Tensor) -> tuple[int, ...]:
    if tensor(op, x, "x").ndim < 2:
        raise ShapeError(f"{op}: the input must have the axes N,C,..., got shape {x.shape}")
    return x.shape


def _with_parameters(
    op: str, x: Tensor, weight: Tensor | None, bias: Tensor | None, shape: tuple[int, ...]
) -> tuple[Tensor, ...]:
    """Give the inputs of Normalize, checked and of one dtype."""
    if weight is None and bias is not None:
        raise ShapeError(f"{op}: a bias needs a weight beside it; give a weight of ones")
    given = [(name, a) for name, a in (("weight", weight), ("bias", bias)) if a is not None]
    inputs = promote(x, *[parameter(op, name, a, shape) for name, a in given])
    check_floating(op, "the input", inputs[0].dtype)
    return inputs
