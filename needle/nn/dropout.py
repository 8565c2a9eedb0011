"""Dropout: of elements, and of whole channels."""

from __future__ import annotations

from collections.abc import Sequence

from needle import init
from needle.autograd import Tensor
from needle.errors import ShapeError
from needle.nn.module import Module
from needle.ops.arguments import fraction, tensor


class Dropout(Module):
    """In training, keep each element with probability 1 - p and scale it by 1 / (1 - p); else give x back.

    The mask is `init.randb(p=1 - p)`, drawn in row-major order of the shape; with p = 0 nothing is drawn.
    Source: Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting" (2014).

    >>> Dropout(0.5).eval()(Tensor([1.0])).numpy().tolist()
    [1.0]
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = fraction(type(self).__name__, "p", p)

    def forward(self, x: Tensor) -> Tensor:
        return self._drop(x, tensor("Dropout", x, "the input").shape)

    def _drop(self, x: Tensor, mask_shape: Sequence[int]) -> Tensor:
        p = fraction(type(self).__name__, "p", self.p)  # again, since it may have been set
        if not self.training or p == 0:
            return x
        mask = init.randb(*mask_shape, p=1 - p, device=x.device, dtype=x.dtype)
        return x * (mask * (1 / (1 - p) if p < 1 else 0.0))

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Dropout2d(Dropout):
    """In training, keep each channel of (N,C,H,W) with probability 1 - p and scale it by 1 / (1 - p); else give x back.

    Source: Tompson et al., "Efficient object localization using convolutional networks" (2015).

    >>> Dropout2d(0.5).eval()(Tensor([[[[1.0]]]])).numpy().tolist()
    [[[[1.0]]]]
    """

    def forward(self, x: Tensor) -> Tensor:
        if tensor("Dropout2d", x, "the input").ndim != 4:
            raise ShapeError(f"Dropout2d: expected (N,C,H,W), got shape {x.shape}")
        return self._drop(x, (*x.shape[:2], 1, 1))
