"""Normalisation layers; the maths is in `needle.ops.norm`."""

from __future__ import annotations

from typing import Any, TypeVar

from needle import init, ops
from needle.autograd import NDArray, Tensor
from needle.backend_ndarray import BackendDevice
from needle.backend_ndarray.dtypes import as_floating, as_ndarray
from needle.errors import ShapeError
from needle.nn.module import Module, Parameter
from needle.ops.arguments import fraction, integer, tensor

B = TypeVar("B", bound="BatchNorm1d")


class _Norm(Module):
    """What all share: a weight of ones and a bias of zeros."""

    def __init__(self, dim: int, eps: float, device: BackendDevice | None, dtype: Any) -> None:
        super().__init__()
        name = type(self).__name__
        self.dim, self.eps, dtype = integer(name, "dim", dim, 1), eps, as_floating(dtype, name)
        self.weight = Parameter(init.ones(dim, device=device, dtype=dtype))
        self.bias = Parameter(init.zeros(dim, device=device, dtype=dtype))

    def extra_repr(self) -> str:
        return f"{self.dim}, eps={self.eps}"


class BatchNorm1d(_Norm):
    """Normalise each channel of (N,C) or (N,C,L), over all other axes, then scale by `weight` and add `bias`.

    In training by the batch's own mean and (biased) variance, and the running statistics move by
    running = (1 - momentum) * running + momentum * batch; in evaluation by the running statistics, which then stay as
    they are. An empty batch leaves them alone too.

    Args:
        dim: the number of channels C.
        eps: added to the variance.
        momentum: the weight of the new value in the running statistics.
        unbiased: whether the variance that goes into `running_var` is divided by N - 1, as in PyTorch, instead of by N
            (the biased one, as the course has it).
        relu: whether ReLU follows. The result is that of a ReLU layer behind this one, in fewer trips through memory;
            `Sequential` fuses the two layers by itself.

    Raises:
        ShapeError: another number of axes or channels; a single value per channel in training.
        OptionError: a momentum outside 0..1, or (when called) an eps below 0.

    >>> layer = BatchNorm1d(1, momentum=0.5)
    >>> y = layer(Tensor([[1.0], [5.0]]))
    >>> layer.running_mean.numpy().tolist(), layer.running_var.numpy().tolist()
    ([1.5], [2.5])
    """

    _ndims: tuple[int, ...] = (2, 3)
    _axes = "(N,C) or (N,C,L)"

    def __init__(
        self,
        dim: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        device: BackendDevice | None = None,
        dtype: Any = "float32",
        *,
        unbiased: bool = False,
        relu: bool = False,
    ) -> None:
        super().__init__(dim, eps, device, dtype)
        self.momentum = fraction(type(self).__name__, "momentum", momentum)
        self.unbiased, self.relu = unbiased, relu
        self.running_mean: Tensor
        self.running_var: Tensor
        self.register_buffer("running_mean", init.zeros(dim, device=device, dtype=dtype))
        self.register_buffer("running_var", init.ones(dim, device=device, dtype=dtype))

    @classmethod
    def from_arrays(
        cls: type[B],
        gamma: Any,
        beta: Any,
        running_mean: Any,
        running_var: Any,
        eps: float = 1e-5,
        momentum: float = 0.1,
        device: BackendDevice | None = None,
        dtype: Any = "float32",
    ) -> B:
        """Make a layer of given weight, bias and running statistics, four arrays of shape (C,), which are copied.

        >>> layer = BatchNorm1d.from_arrays([2.0], [1.0], [3.0], [4.0], eps=0.0).eval()
        >>> layer(Tensor([[5.0]])).numpy().tolist()
        [[3.0]]
        """
        shape = as_ndarray(f"{cls.__name__}.from_arrays", gamma).shape
        if len(shape) != 1:
            raise ShapeError(f"{cls.__name__}.from_arrays: gamma must have shape (C,), got {shape}")
        layer = cls(shape[0], eps, momentum, device, dtype)
        layer.load_state_dict({"weight": gamma, "bias": beta, "running_mean": running_mean, "running_var": running_var})
        return layer

    def forward(self, x: Tensor) -> Tensor:
        return self._normalize(x, self.relu)

    def _normalize(self, x: Tensor, relu: bool) -> Tensor:
        name = type(self).__name__
        if tensor(name, x, "the input").ndim not in self._ndims or x.shape[1] != self.dim:
            raise ShapeError(f"{name}: expected {self._axes} with C = {self.dim}, got shape {x.shape}")
        if self.training:
            y = ops.batch_norm(x, self.weight, self.bias, self.eps, self._update_statistics, relu)
            y.realize_cached_data()  # put off by LAZY_MODE, the statistics would move late or never
            return y
        return ops.batch_norm_inference(x, self.running_mean, self.running_var, self.weight, self.bias, self.eps, relu)

    def _update_statistics(self, mean: NDArray, variance: NDArray, count: int) -> None:
        if self.unbiased:
            variance = variance * (count / (count - 1))
        self.running_mean = self._moved_towards(self.running_mean, mean)
        self.running_var = self._moved_towards(self.running_var, variance)

    def _moved_towards(self, running: Tensor, batch: NDArray) -> Tensor:
        moved = running.cached_data * (1 - self.momentum) + batch * self.momentum
        return Tensor.make_const(moved if moved.dtype == running.dtype else moved.astype(running.dtype))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, momentum={self.momentum}{', relu=True' if self.relu else ''}"


class BatchNorm2d(BatchNorm1d):
    """Normalise each channel of (N,C,H,W); all else is as for `BatchNorm1d`, the (biased) variance too.

    >>> BatchNorm2d(3)(init.ones(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """

    _ndims = (4,)
    _axes = "(N,C,H,W)"


class LayerNorm1d(_Norm):
    """Normalise over the last axis, of length dim, then scale by `weight` and add `bias`.

    Raises:
        ShapeError: the last axis is not dim.

    >>> LayerNorm1d(2, eps=0.0)(Tensor([[1.0, 3.0]])).numpy().tolist()
    [[-1.0, 1.0]]
    """

    def __init__(
        self, dim: int, eps: float = 1e-5, device: BackendDevice | None = None, dtype: Any = "float32"
    ) -> None:
        super().__init__(dim, eps, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        if not tensor("LayerNorm1d", x, "the input").ndim or x.shape[-1] != self.dim:
            raise ShapeError(f"LayerNorm1d: expected last dimension dim = {self.dim}, got shape {x.shape}")
        return ops.layer_norm(x, self.weight, self.bias, self.eps)


class GroupNorm(_Norm):
    """Normalise each example's groups of channels, of (N,C,...), then scale by `weight` and add `bias`, both (C,).

    Raises:
        ShapeError: another number of channels, or one that num_groups does not divide.

    >>> GroupNorm(2, 4)(init.ones(1, 4, 3, 3)).shape
    (1, 4, 3, 3)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        device: BackendDevice | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(num_channels, eps, device, dtype)
        self.num_groups = integer("GroupNorm", "num_groups", num_groups, 1)
        if num_channels % num_groups:
            raise ShapeError(f"GroupNorm: {num_channels} channels cannot be cut into {num_groups} groups of one size")

    def forward(self, x: Tensor) -> Tensor:
        if tensor("GroupNorm", x, "the input").ndim < 2 or x.shape[1] != self.dim:
            raise ShapeError(f"GroupNorm: expected (N,C,...) with C = {self.dim}, got shape {x.shape}")
        return ops.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {super().extra_repr()}"
