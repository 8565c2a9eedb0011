"""The fully connected layer."""

from __future__ import annotations

from typing import Any

from needle import init, ops
from needle.autograd import Tensor
from needle.backend_ndarray import BackendDevice
from needle.backend_ndarray.dtypes import as_floating
from needle.errors import ShapeError
from needle.nn.module import Module, Parameter
from needle.ops.arguments import integer, tensor
from needle.ops.linalg import Affine


class Linear(Module):
    """x @ weight + bias over the last axis: (..., in_features) -> (..., out_features).

    `weight` (in_features, out_features) is drawn by `init.kaiming_uniform`, then `bias` (1, out_features).

    Raises:
        ShapeError: the last axis of x is not in_features.

    >>> Linear(2, 3)(Tensor([[1.0, 2.0]])).shape
    (1, 3)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: BackendDevice | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__()
        self.in_features = in_features = integer("Linear", "in_features", in_features, 1)
        self.out_features = out_features = integer("Linear", "out_features", out_features, 1)
        dtype = as_floating(dtype, "Linear")
        self.weight = Parameter(init.kaiming_uniform(in_features, out_features, device=device, dtype=dtype))
        self.bias = None
        if bias:
            drawn = init.kaiming_uniform(out_features, 1, shape=(1, out_features), device=device, dtype=dtype)
            self.bias = Parameter(drawn)

    def forward(self, x: Tensor) -> Tensor:
        if not tensor("Linear", x, "the input").ndim or x.shape[-1] != self.weight.shape[0]:
            raise ShapeError(
                f"Linear: expected last dimension in_features = {self.weight.shape[0]}, got shape {x.shape}"
            )
        weight, bias = self.weight, self.bias
        if bias is None:
            return ops.matmul(x, weight)
        if x.ndim == 1:  # a bias (1, out) would add an axis to (out,)
            return ops.matmul(x, weight) + ops.reshape(bias, (-1,))
        if bias.size != weight.shape[-1] or not x.dtype == weight.dtype == bias.dtype:
            return ops.matmul(x, weight) + bias
        return Affine()(x, weight, bias)  # the line above in one node, with the same bits

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
