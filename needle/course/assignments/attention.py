"""Attention: the softmax, scaled dot products with many heads, and a transformer layer.

Attention looks values up: every query is compared with all keys, and the result is a mean of the values, weighted by
how well their keys fit. Queries, keys and values have the shape (N, heads, T, dim): a batch, some heads that work side
by side, T places in a sequence, and a vector for each. `@` multiplies the last two axes and broadcasts the others.

Check your work with `python -m needle.course check attention.py`.
"""

from __future__ import annotations

import numpy as np

import needle as ndl
from needle import nn
from needle.autograd import Tensor


def softmax(x: Tensor) -> Tensor:
    """Give exp(x) divided by its sum over the last axis. Large x must not overflow: `ndl.logsumexp` helps."""
    ### BEGIN SOLUTION
    total = ndl.logsumexp(x, (x.ndim - 1,)).reshape((*x.shape[:-1], 1))
    return ndl.exp(x - total)
    ### END SOLUTION


def causal_mask(queries: int, keys: int) -> np.ndarray:
    """Give an array (queries, keys) to be added to scores: 0 where key j may be seen by query i, -1e9 where j > i."""
    ### BEGIN SOLUTION
    return np.triu(np.full((queries, keys), -1e9), 1)
    ### END SOLUTION


def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> tuple[Tensor, Tensor]:
    """Give softmax(q @ k^T / sqrt(dim)) @ v, of the shape of q, and the softmax, (N, heads, T of q, T of k).

    Where `causal`, a query sees only the keys of its own and of earlier places: the mask is added to the scores, before
    the softmax. Make a constant of it with `ndl.Tensor(..., dtype=q.dtype, requires_grad=False)`.
    """
    ### BEGIN SOLUTION
    scores = q @ ndl.transpose(k) / q.shape[-1] ** 0.5
    if causal:
        scores = scores + ndl.Tensor(causal_mask(*scores.shape[-2:]), dtype=q.dtype, requires_grad=False)
    probabilities = softmax(scores)
    return probabilities @ v, probabilities
    ### END SOLUTION


def split_heads(x: Tensor, num_head: int) -> Tensor:
    """Cut (N, T, heads * dim) into (N, heads, T, dim): at each place head 0 comes first, then head 1."""
    ### BEGIN SOLUTION
    n, t, features = x.shape
    return ndl.permute(x.reshape((n, t, num_head, features // num_head)), (0, 2, 1, 3))
    ### END SOLUTION


def merge_heads(x: Tensor) -> Tensor:
    """Undo `split_heads`: (N, heads, T, dim) to (N, T, heads * dim)."""
    ### BEGIN SOLUTION
    n, heads, t, dim = x.shape
    return ndl.permute(x, (0, 2, 1, 3)).reshape((n, t, heads * dim))
    ### END SOLUTION


class AttentionLayer(nn.Module):
    """Self-attention of (N, T, features): each place looks at itself and at earlier ones; gives (N, T, features).

    x is normalised first; its projections to queries, keys and values are split into heads; what the heads give is
    merged and projected back.
    """

    def __init__(self, features: int, num_head: int, dim_head: int) -> None:
        super().__init__()
        self.num_head = num_head
        self.norm = nn.LayerNorm1d(features)
        self.q_projection = nn.Linear(features, num_head * dim_head, bias=False)
        self.k_projection = nn.Linear(features, num_head * dim_head, bias=False)
        self.v_projection = nn.Linear(features, num_head * dim_head, bias=False)
        self.out_projection = nn.Linear(num_head * dim_head, features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        x = self.norm(x)
        q = split_heads(self.q_projection(x), self.num_head)
        k = split_heads(self.k_projection(x), self.num_head)
        v = split_heads(self.v_projection(x), self.num_head)
        result, _ = attention(q, k, v, causal=True)
        return self.out_projection(merge_heads(result))
        ### END SOLUTION


class TransformerLayer(nn.Module):
    """x = x + attention(x), and then x + linear2(relu(linear1(norm(x)))): (N, T, features) to the same shape."""

    def __init__(self, features: int, num_head: int, dim_head: int, hidden_size: int) -> None:
        super().__init__()
        self.attention = AttentionLayer(features, num_head, dim_head)
        self.norm = nn.LayerNorm1d(features)
        self.linear1 = nn.Linear(features, hidden_size)
        self.linear2 = nn.Linear(hidden_size, features)

    def forward(self, x: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        x = x + self.attention(x)
        return x + self.linear2(ndl.relu(self.linear1(self.norm(x))))
        ### END SOLUTION
