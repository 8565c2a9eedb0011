"""Matrix products."""

from __future__ import annotations

import math
from typing import Any

from needle.autograd import NDArray, Tensor, TensorOp
from needle.errors import ShapeError
from needle.ops.arguments import constant, promote, tensor
from needle.ops.shape import sum_to, transpose


class MatMul(TensorOp):
    """Matrix products; leading axes are broadcast here, and summed back here."""

    def compute(self, a: NDArray, b: NDArray) -> NDArray:
        rows, columns = _as_matrices(a, b)
        out = rows @ columns
        *lead, m, p = out.shape
        return _fit(out, (*lead, *[m] * (a.ndim > 1), *[p] * (b.ndim > 1)))

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor | None, Tensor | None]:
        return _factor_gradients(out_grad, *node.inputs)


class Affine(TensorOp):
    """x @ weight + bias: x (..., n), weight (n, p) and bias (1, p) to (..., p); two axes of x or more."""

    def compute(self, x: NDArray, weight: NDArray, bias: NDArray) -> NDArray:
        return x @ weight + bias

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias = node.inputs
        to_bias = sum_to(out_grad, bias.shape) if bias.requires_grad else None
        return *_factor_gradients(out_grad, x, weight), to_bias


def _factor_gradients(d: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Give the gradients of the factors of a @ b, where they require one, from that of the product."""
    rows, columns = _as_matrices(a, b)
    lead = d.shape[: max(rows.ndim, columns.ndim) - 2]
    d = _fit(d, (*lead, rows.shape[-2], columns.shape[-1]))
    to_a = to_b = None
    if a.requires_grad:
        to_a = _fit(sum_to(matmul(d, transpose(columns)), rows.shape), a.shape)
    if b.requires_grad:
        if columns.ndim == 2:  # one product over all rows, rather than a sum of products
            rows, d = (_fit(t, (math.prod(t.shape[:-1]), t.shape[-1])) for t in (rows, d))
        to_b = _fit(sum_to(matmul(transpose(rows), d), columns.shape), b.shape)
    return to_a, to_b


def _as_matrices(a: Any, b: Any) -> tuple[Any, Any]:
    """View a vector on the left as a row, one on the right as a column."""
    return (_fit(a, (1, *a.shape)) if a.ndim == 1 else a), (_fit(b, (*b.shape, 1)) if b.ndim == 1 else b)


def _fit(a: Any, shape: tuple[int, ...]) -> Any:
    return a if a.shape == shape else a.reshape(shape)


def matmul(a: Any, b: Any) -> Tensor:
    """Multiply matrices: (..., m, n) @ (..., n, p) -> (..., m, p).

    Leading axes broadcast. As in NumPy, a vector on the left is a row and one on the right a column, and the result
    has no axis for it.

    >>> import needle as ndl
    >>> matmul(ndl.Tensor([[1.0, 2.0]]), ndl.Tensor([[3.0], [4.0]])).numpy().tolist()
    [[11.0]]
    """
    if not isinstance(a, Tensor):
        a = constant("matmul", a, tensor("matmul", b, "one operand"))
    a, b = promote(a, constant("matmul", b, a))
    if not (a.ndim and b.ndim) or a.shape[-1] != b.shape[max(b.ndim - 2, 0)]:
        raise ShapeError(
            f"matmul: the last axis of the first operand must be as long as the last but one of the second, "
            f"got {a.shape} @ {b.shape}; transpose or reshape one of them"
        )
    return MatMul()(a, b)
