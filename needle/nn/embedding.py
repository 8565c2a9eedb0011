"""The embedding of ids in vectors."""

from __future__ import annotations

from typing import Any

from needle import init, ops
from needle.autograd import Tensor
from needle.backend_ndarray import BackendDevice
from needle.backend_ndarray.dtypes import as_floating
from needle.nn.module import Module, Parameter
from needle.ops.arguments import integer


class Embedding(Module):
    """Look up a row of `weight` for each id: (seq, batch) -> (seq, batch, embedding_dim), or ids of any other shape.

    `weight` (num_embeddings, embedding_dim) is drawn from N(0, 1). Ids have any dtype with whole values; no gradient
    reaches them, and that of a row is the sum over the places that took it.

    Raises:
        BoundsError: an id outside 0..num_embeddings - 1, named with its place.
        DTypeError: an id that is not whole.

    >>> layer = Embedding(5, 3)
    >>> layer(Tensor([[4.0, 0.0]])).shape
    (1, 2, 3)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, device: BackendDevice | None = None, dtype: Any = "float32"
    ) -> None:
        super().__init__()
        self.num_embeddings = integer("Embedding", "num_embeddings", num_embeddings, 1)
        self.embedding_dim = integer("Embedding", "embedding_dim", embedding_dim, 1)
        dtype = as_floating(dtype, "Embedding")
        self.weight = Parameter(init.randn(num_embeddings, embedding_dim, device=device, dtype=dtype))

    def forward(self, x: Any) -> Tensor:
        return ops.embedding(self.weight, x)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"
