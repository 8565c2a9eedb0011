"""Attention, and the transformer made of it.

Source: Vaswani et al., "Attention is all you need" (2017), with the layer norms in front of what they normalise
("pre-norm": Xiong et al., "On layer normalization in the transformer architecture", 2020).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from needle import backend_ndarray as nd
from needle import init, ops
from needle.autograd import Tensor
from needle.backend_ndarray import BackendDevice
from needle.errors import ShapeError
from needle.nn.activation import ReLU
from needle.nn.container import Sequential
from needle.nn.dropout import Dropout
from needle.nn.embedding import Embedding
from needle.nn.linear import Linear
from needle.nn.module import Module
from needle.nn.norm import LayerNorm1d
from needle.ops.arguments import integer, tensor


class MultiHeadAttention(Module):
    """Let each query take a mean of the values, weighted by softmax(q @ k^T / sqrt(dim_head)) over the keys.

    Takes q (batch, heads, queries, dim_head), k and v (batch, heads, keys, dim_head); gives the result
    (batch, heads, queries, dim_head) and the weights (batch, heads, queries, keys), after dropout. It has no
    parameters.

    Args:
        dropout: the probability with which a weight is dropped in training.
        causal: whether a query sees no later keys; the last query is beside the last key.

    Raises:
        ShapeError: shapes that do not fit together.

    >>> q = init.ones(1, 2, 3, 4)
    >>> result, weights = MultiHeadAttention(causal=True)(q, q, q)
    >>> result.shape, weights.numpy()[0, 0].round(2).tolist()
    ((1, 2, 3, 4), [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.33000001311302185, 0.33000001311302185, 0.33000001311302185]])
    """

    def __init__(
        self, *, dropout: float = 0.0, causal: bool = False, device: BackendDevice | None = None, dtype: Any = "float32"
    ) -> None:
        super().__init__()
        self.causal = causal
        self.dropout = Dropout(dropout)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        self._check(q, k, v)
        scores = ops.matmul(q, ops.transpose(k)) / math.sqrt(q.shape[-1])  # (batch,heads,queries,keys)
        if self.causal:
            scores = scores + _causal_mask(scores)
        weights = self.dropout(ops.softmax(scores))
        return ops.matmul(weights, v), weights

    def _check(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        shapes = [tensor("MultiHeadAttention", x, name).shape for name, x in (("q", q), ("k", k), ("v", v))]
        of_q, of_k, of_v = shapes
        if len(of_q) != 4 or (*of_q[:2], of_q[3]) != (*of_k[:2], *of_k[3:]) or of_k[:3] != of_v[:3] or len(of_v) != 4:
            raise ShapeError(
                "MultiHeadAttention: expected q (batch,heads,queries,dim_head), k and v (batch,heads,keys,dim_head), "
                f"got shapes {of_q}, {of_k} and {of_v}"
            )

    def extra_repr(self) -> str:
        return f"causal={self.causal}"


def _causal_mask(scores: Tensor) -> Tensor:
    """Give what is added to the scores (..., queries, keys): next to -infinity for the keys that are too late."""
    queries, keys = scores.shape[-2:]
    late = np.triu(np.ones((1, 1, queries, keys)), keys - queries + 1)
    lowest = np.finfo(np.float32).min  # not -inf, so that a query which sees no key has no NaN
    return Tensor.make_const(nd.array(lowest * late, dtype=scores.dtype, device=scores.device))


class AttentionLayer(Module):
    """Multi-head attention between layer norms and projections: (batch, len, features) -> (batch, len, out_features).

    q, k and v are each normalised (`prenorm_q`, ...), projected to `num_head` heads of `dim_head` features
    (`q_projection`, ..., without bias), attended to (`attn`), and the heads, side by side, projected to the result
    (`out_projection`). k and v are q where they are not given. The projections are drawn in the order q, k, v, out.

    Args:
        k_features, v_features, out_features: q_features by default.
        dropout, causal: as of `MultiHeadAttention`.

    Raises:
        ShapeError: an input that is not (batch, len, features), or inputs that do not fit together.

    >>> AttentionLayer(6, num_head=2, dim_head=4)(init.ones(1, 3, 6)).shape
    (1, 3, 6)
    """

    def __init__(
        self,
        q_features: int,
        num_head: int,
        dim_head: int,
        *,
        k_features: int | None = None,
        v_features: int | None = None,
        out_features: int | None = None,
        dropout: float = 0.0,
        causal: bool = True,
        device: BackendDevice | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__()
        self.num_head = integer("AttentionLayer", "num_head", num_head, 1)
        self.dim_head = integer("AttentionLayer", "dim_head", dim_head, 1)
        k_features = q_features if k_features is None else k_features
        v_features = q_features if v_features is None else v_features
        out_features = q_features if out_features is None else out_features
        inner = num_head * dim_head
        self.prenorm_q = LayerNorm1d(q_features, device=device, dtype=dtype)
        self.prenorm_k = LayerNorm1d(k_features, device=device, dtype=dtype)
        self.prenorm_v = LayerNorm1d(v_features, device=device, dtype=dtype)
        self.q_projection = Linear(q_features, inner, bias=False, device=device, dtype=dtype)
        self.k_projection = Linear(k_features, inner, bias=False, device=device, dtype=dtype)
        self.v_projection = Linear(v_features, inner, bias=False, device=device, dtype=dtype)
        self.attn = MultiHeadAttention(dropout=dropout, causal=causal, device=device, dtype=dtype)
        self.out_projection = Linear(inner, out_features, bias=False, device=device, dtype=dtype)

    def forward(self, q: Tensor, k: Tensor | None = None, v: Tensor | None = None) -> Tensor:
        result, _ = self.attn(
            self._heads("q", q, self.prenorm_q, self.q_projection),
            self._heads("k", q if k is None else k, self.prenorm_k, self.k_projection),
            self._heads("v", q if v is None else v, self.prenorm_v, self.v_projection),
        )
        merged = ops.transpose(result, (1, 2))  # (batch,heads,len,dim) -> (batch,len,heads,dim)
        return self.out_projection(ops.reshape(merged, (*merged.shape[:2], self.num_head * self.dim_head)))

    def _heads(self, name: str, x: Tensor, norm: LayerNorm1d, projection: Linear) -> Tensor:
        if tensor("AttentionLayer", x, name).ndim != 3 or x.shape[-1] != norm.dim:
            raise ShapeError(
                f"AttentionLayer: expected {name} (batch,len,features) with {norm.dim} features, got shape {x.shape}"
            )
        heads = ops.reshape(projection(norm(x)), (*x.shape[:2], self.num_head, self.dim_head))
        return ops.transpose(heads, (1, 2))  # (batch,len,heads,dim) -> (batch,heads,len,dim)


class TransformerLayer(Module):
    """Attention, then a small network on each place, each added to its input: (batch, len, q_features), in and out.

    x + Dropout(AttentionLayer(x)), then x + MLP(x), the MLP being LayerNorm, Linear(q_features, hidden_size), ReLU,
    Dropout, Linear(hidden_size, q_features), Dropout. Drawn in the order attention, first Linear, second Linear.

    Raises:
        ShapeError: an input that is not (batch, len, q_features).

    >>> TransformerLayer(6, num_head=2, dim_head=4, hidden_size=8)(init.ones(1, 3, 6)).shape
    (1, 3, 6)
    """

    def __init__(
        self,
        q_features: int,
        num_head: int,
        dim_head: int,
        hidden_size: int,
        *,
        dropout: float = 0.0,
        causal: bool = True,
        device: BackendDevice | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__()
        self.attention = AttentionLayer(
            q_features, num_head, dim_head, dropout=dropout, causal=causal, device=device, dtype=dtype
        )
        self.dropout = Dropout(dropout)
        self.mlp = Sequential(
            LayerNorm1d(q_features, device=device, dtype=dtype),
            Linear(q_features, hidden_size, device=device, dtype=dtype),
            ReLU(),
            Dropout(dropout),
            Linear(hidden_size, q_features, device=device, dtype=dtype),
            Dropout(dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        features = self.attention.prenorm_q.dim
        if tensor("TransformerLayer", x, "the input").ndim != 3 or x.shape[2] != features:
            raise ShapeError(
                f"TransformerLayer: expected (batch,len,q_features) with q_features = {features}, got shape {x.shape}"
            )
        x = x + self.dropout(self.attention(x))
        return x + self.mlp(x)


class Transformer(Module):
    """Learned positions, added to the input, then layers: (seq, batch, embedding_size), in and out.

    Takes x, (batch, seq, embedding_size) with `batch_first`, and an h that it does not use. Gives the result and zeros
    of its shape, so that it stands where a recurrent layer does. `embedding` (sequence_len, embedding_size) is drawn
    first, then `layers`.

    Args:
        hidden_size: of the layers' small networks; see `TransformerLayer` for this and the others.
        sequence_len: the length of the longest sequence.

    Raises:
        ShapeError: an input of other axes, or longer than sequence_len.

    >>> x, h = Transformer(6, 8, num_layers=2, sequence_len=10)(init.ones(3, 1, 6))
    >>> x.shape, h.shape
    ((3, 1, 6), (3, 1, 6))
    """

    def __init__(
        self,
        embedding_size: int,
        hidden_size: int,
        num_layers: int,
        *,
        num_head: int = 8,
        dim_head: int = 32,
        dropout: float = 0.0,
        causal: bool = True,
        device: BackendDevice | None = None,
        dtype: Any = "float32",
        batch_first: bool = False,
        sequence_len: int = 2048,
    ) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.embedding = Embedding(sequence_len, embedding_size, device=device, dtype=dtype)
        self.layers = Sequential(
            *[
                TransformerLayer(
                    embedding_size, num_head, dim_head, hidden_size,
                    dropout=dropout, causal=causal, device=device, dtype=dtype,
                )
                for _ in range(integer("Transformer", "num_layers", num_layers, 1))
            ]
        )  # fmt: skip

    def forward(self, x: Tensor, h: Any = None) -> tuple[Tensor, Tensor]:
        self._check(x)
        if not self.batch_first:
            x = ops.transpose(x, (0, 1))  # (seq,batch,embedding) -> (batch,seq,embedding)
        x = self.layers(x + self.embedding(np.arange(x.shape[1])))
        if not self.batch_first:
            x = ops.transpose(x, (0, 1))
        return x, init.zeros_like(x)

    def _check(self, x: Tensor) -> None:
        longest, size = self.embedding.weight.shape
        axes = "(batch,seq,embedding_size)" if self.batch_first else "(seq,batch,embedding_size)"
        if tensor("Transformer", x, "the input").ndim != 3 or x.shape[2] != size:
            raise ShapeError(f"Transformer: expected {axes} with embedding_size = {size}, got shape {x.shape}")
        if x.shape[self.batch_first] > longest:
            raise ShapeError(
                f"Transformer: a sequence of {x.shape[self.batch_first]} is longer than sequence_len = {longest}"
            )

    def extra_repr(self) -> str:
        return f"batch_first={self.batch_first}"
