"""Conversion between dtypes."""

from __future__ import annotations

from typing import Any

from needle.autograd import NDArray, Tensor, TensorOp
from needle.backend_ndarray.dtypes import as_dtype
from needle.ops.arguments import tensor


class Cast(TensorOp):
    """Convert to another dtype; the gradient is converted back to that of a floating input."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = as_dtype(dtype, "astype")

    def compute(self, a: NDArray) -> NDArray:
        return a.astype(self.dtype)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        dtype = node.inputs[0].dtype
        return astype(out_grad, dtype) if dtype.kind == "f" else out_grad  # an int would cut the gradient off


def astype(a: Tensor, dtype: Any) -> Tensor:
    """Convert to `dtype`; the tensor itself where it has that dtype. Conversion to an int or bool has no gradient.

    >>> import needle as ndl
    >>> astype(ndl.Tensor([1.5, -2.5]), "int64").numpy().tolist()
    [1, -2]
    """
    dtype = as_dtype(dtype, "astype")
    if tensor("astype", a).dtype == dtype:
        return a
    return Cast(dtype)(a if dtype.kind == "f" else a.detach())
