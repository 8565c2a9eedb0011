"""One row per op, and per way of calling it, where it has several: what drives test_table.py."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from needle import ops

erf = np.vectorize(math.erf, otypes=[float])


@dataclass(frozen=True)
class Row:
    """An op and its oracles. Values are drawn from `domain`, all distinct, so that no two tie and none is 0."""

    name: str  # the function, and after a colon the variant
    function: Callable[..., Any]
    oracle: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...] = ((2, 3, 4),)
    domain: tuple[float, float] = (-2.0, 2.1)
    torch: Callable[..., Any] | None = None  # of torch and tensors; None where the oracle's formula is all there is

    def arrays(self, dtype: str = "float64") -> list[np.ndarray]:
        sizes = [math.prod(shape) for shape in self.shapes]
        drawn = np.random.RandomState(1).permutation(np.linspace(*self.domain, sum(sizes)))
        parts = np.split(drawn.astype(dtype), np.cumsum(sizes)[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]


TWO = ((2, 3, 4), (2, 3, 4))
POSITIVE = (0.3, 2.5)
MASK = np.arange(24).reshape(2, 3, 4) % 3 == 0
PLACES = np.array([[0, 2, 1], [2, 2, 0]])


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(x))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _dilated(x: np.ndarray, axis: int, dilation: int) -> np.ndarray:
    shape = list(x.shape)
    shape[axis] *= dilation + 1
    out = np.zeros(shape, x.dtype)
    out[(*[slice(None)] * axis, slice(None, None, dilation + 1))] = x
    return out


ARITHMETIC = [
    Row("add", ops.add, np.add, TWO, torch=lambda torch, a, b: a + b),
    Row("add: broadcast", ops.add, np.add, ((2, 3, 1), (3, 4)), torch=lambda torch, a, b: a + b),
    Row("add_scalar", lambda a: ops.add_scalar(a, 1.5), lambda a: a + 1.5),
    Row("sub", ops.sub, np.subtract, TWO, torch=lambda torch, a, b: a - b),
    Row("sub: operator", lambda a, b: a - b, np.subtract, ((3, 4), (2, 1, 4))),
    Row("multiply", ops.multiply, np.multiply, TWO, torch=lambda torch, a, b: a * b),
    Row("multiply: broadcast", ops.multiply, np.multiply, ((4,), (3, 1)), torch=lambda torch, a, b: a * b),
    Row("multiply: with itself", lambda a: ops.multiply(a, a), np.square),
    Row("mul_scalar", lambda a: ops.mul_scalar(a, -2.5), lambda a: a * -2.5),
    Row("divide", ops.divide, np.divide, TWO, POSITIVE, torch=lambda torch, a, b: a / b),
    Row("divide: broadcast", ops.divide, np.divide, ((2, 3, 4), (3, 1)), POSITIVE),
    Row("divide_scalar", lambda a: ops.divide_scalar(a, 4), lambda a: a / 4),
    Row("divide: number by tensor", lambda a: 3 / a, lambda a: 3 / a, domain=POSITIVE),
    Row("power", ops.power, np.power, TWO, POSITIVE, torch=lambda torch, a, b: a**b),
    Row("power: broadcast", ops.power, np.power, ((2, 3, 1), (4,)), POSITIVE),
    Row("power_scalar", lambda a: ops.power_scalar(a, 3), lambda a: a**3, torch=lambda torch, a: a**3),
    Row("power_scalar: negative", lambda a: ops.power_scalar(a, -2), lambda a: a**-2.0, domain=POSITIVE),
    Row("power_scalar: fraction", lambda a: ops.power_scalar(a, 0.5), np.sqrt, domain=POSITIVE),
    Row("power_scalar: one", lambda a: ops.power_scalar(a, 1), lambda a: a),
    Row("power_scalar: zero", lambda a: ops.power_scalar(a, 0), np.ones_like),
    Row("power: number to tensor", lambda a: 2**a, lambda a: 2**a),
    Row("negate", ops.negate, np.negative, torch=lambda torch, a: -a),
    Row("log", ops.log, np.log, domain=POSITIVE, torch=lambda torch, a: torch.log(a)),
    Row("exp", ops.exp, np.exp, torch=lambda torch, a: torch.exp(a)),
    Row("sqrt", ops.sqrt, np.sqrt, domain=POSITIVE, torch=lambda torch, a: torch.sqrt(a)),
    Row("abs", ops.abs, np.abs, torch=lambda torch, a: torch.abs(a)),
    Row("erf", ops.erf, erf, torch=lambda torch, a: torch.erf(a)),
    Row("astype", lambda a: ops.astype(ops.astype(a, "float64") * 2, a.dtype), lambda a: a * 2),
    Row("to_device", lambda a: ops.to_device(a, a.device), lambda a: a),
]

SELECTION = [
    Row("maximum", ops.maximum, np.maximum, TWO, torch=lambda torch, a, b: torch.maximum(a, b)),
    Row("maximum: broadcast", ops.maximum, np.maximum, ((2, 3, 4), (3, 1))),
    Row("maximum: number", lambda a: ops.maximum(a, 0.5), lambda a: np.maximum(a, 0.5)),
    Row("minimum", ops.minimum, np.minimum, TWO, torch=lambda torch, a, b: torch.minimum(a, b)),
    Row("minimum: broadcast", ops.minimum, np.minimum, ((4,), (2, 3, 1))),
    Row("where", lambda a, b: ops.where(MASK, a, b), lambda a, b: np.where(MASK, a, b), TWO),
    Row("where: broadcast", lambda a, b: ops.where(MASK, a, b), lambda a, b: np.where(MASK, a, b), ((4,), (3, 1))),
    Row("where: number", lambda a: ops.where(a > 0, a * a, -1), lambda a: np.where(a > 0, a * a, -1)),
    Row("masked_fill", lambda a: ops.masked_fill(a, MASK[0], 7), lambda a: np.where(MASK[0], 7, a)),
    Row("clip", lambda a: ops.clip(a, -1, 1), lambda a: np.clip(a, -1, 1), torch=lambda torch, a: a.clip(-1, 1)),
    Row("clip: one side", lambda a: ops.clip(a, max=0.5), lambda a: np.minimum(a, 0.5)),
]

ACTIVATION = [
    Row("relu", ops.relu, lambda a: np.maximum(a, 0), torch=lambda torch, a: torch.relu(a)),
    Row(
        "leaky_relu",
        lambda a: ops.leaky_relu(a, 0.2),
        lambda a: np.where(a > 0, a, 0.2 * a),
        torch=lambda torch, a: torch.nn.functional.leaky_relu(a, 0.2),
    ),
    Row(
        "elu",
        lambda a: ops.elu(a, 1.5),
        lambda a: np.where(a > 0, a, 1.5 * np.expm1(a)),
        torch=lambda torch, a: torch.nn.functional.elu(a, 1.5),
    ),
    Row("tanh", ops.tanh, np.tanh, torch=lambda torch, a: torch.tanh(a)),
    Row("sigmoid", ops.sigmoid, _sigmoid, torch=lambda torch, a: torch.sigmoid(a)),
    Row("silu", ops.silu, lambda a: a * _sigmoid(a), torch=lambda torch, a: torch.nn.functional.silu(a)),
    Row("softplus", ops.softplus, _softplus, torch=lambda torch, a: torch.nn.functional.softplus(a)),
    Row(
        "gelu",
        ops.gelu,
        lambda a: a * (1 + erf(a / math.sqrt(2))) / 2,
        torch=lambda torch, a: torch.nn.functional.gelu(a),
    ),
    Row(
        "gelu: tanh",
        lambda a: ops.gelu(a, approximate="tanh"),
        lambda a: a * (1 + np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3))) / 2,
        torch=lambda torch, a: torch.nn.functional.gelu(a, approximate="tanh"),
    ),
]

REDUCTION = [
    Row("summation", ops.summation, np.sum, torch=lambda torch, a: a.sum()),
    Row("summation: axis", lambda a: ops.summation(a, axes=1), lambda a: a.sum(1), torch=lambda torch, a: a.sum(1)),
    Row("summation: axes", lambda a: ops.summation(a, axes=(-1, 0)), lambda a: a.sum((-1, 0))),
    Row("summation: keepdims", lambda a: ops.summation(a, 1, keepdims=True), lambda a: a.sum(1, keepdims=True)),
    Row("summation: no axes", lambda a: ops.summation(a, ()), lambda a: a),
    Row("mean", ops.mean, np.mean, torch=lambda torch, a: a.mean()),
    Row("mean: axes", lambda a: ops.mean(a, (0, -1)), lambda a: a.mean((0, -1))),
    Row("mean: keepdims", lambda a: ops.mean(a, 1, keepdims=True), lambda a: a.mean(1, keepdims=True)),
    Row("var", ops.var, np.var, torch=lambda torch, a: a.var(correction=0)),
    Row("var: axes", lambda a: ops.var(a, (0, 2)), lambda a: a.var((0, 2))),
    Row(
        "var: correction",
        lambda a: ops.var(a, 1, keepdims=True, correction=1),
        lambda a: a.var(1, ddof=1, keepdims=True),
    ),
    Row("max", ops.max, np.max, torch=lambda torch, a: a.amax()),
    Row("max: axis", lambda a: ops.max(a, -1), lambda a: a.max(-1), torch=lambda torch, a: a.amax(-1)),
    Row("max: axes", lambda a: ops.max(a, (0, 2), keepdims=True), lambda a: a.max((0, 2), keepdims=True)),
    Row("min", ops.min, np.min, torch=lambda torch, a: a.amin()),
    Row("min: axes", lambda a: ops.min(a, (1, 2)), lambda a: a.min((1, 2)), torch=lambda torch, a: a.amin((1, 2))),
    Row("cumsum", lambda a: ops.cumsum(a, 1), lambda a: a.cumsum(1), torch=lambda torch, a: a.cumsum(1)),
    Row("cumsum: last axis", lambda a: ops.cumsum(a, -1), lambda a: a.cumsum(-1)),
]

SHAPE = [
    Row("transpose", ops.transpose, lambda a: a.swapaxes(-1, -2), torch=lambda torch, a: a.transpose(-1, -2)),
    Row("transpose: axes", lambda a: ops.transpose(a, axes=(0, -1)), lambda a: a.swapaxes(0, -1)),
    Row("permute", lambda a: ops.permute(a, (2, 0, -2)), lambda a: a.transpose(2, 0, 1)),
    Row("permute: T", lambda a: a.T, np.transpose),
    Row("reshape", lambda a: ops.reshape(a, (4, -1)), lambda a: a.reshape(4, -1)),
    Row("reshape: flat", lambda a: ops.reshape(a, -1), np.ravel),
    Row("broadcast_to", lambda a: ops.broadcast_to(a, (2, 3, 4)), lambda a: np.broadcast_to(a, (2, 3, 4)), ((3, 1),)),
    Row("sum_to", lambda a: ops.sum_to(a, (3, 1)), lambda a: a.sum((0, 2))[:, None]),
    Row("squeeze", ops.squeeze, np.squeeze, ((1, 3, 1, 2),)),
    Row("squeeze: axis", lambda a: ops.squeeze(a, -2), lambda a: a.squeeze(-2), ((1, 3, 1, 2),)),
    Row("unsqueeze", lambda a: ops.unsqueeze(a, -1), lambda a: a[..., None]),
    Row("flip", lambda a: ops.flip(a, (0, -1)), lambda a: np.flip(a, (0, -1)), torch=lambda torch, a: a.flip(0, -1)),
    Row("flip: axis", lambda a: ops.flip(a, 1), lambda a: np.flip(a, 1)),
    Row("dilate", lambda a: ops.dilate(a, (1,), 2), lambda a: _dilated(a, 1, 2)),
    Row("dilate: axes", lambda a: ops.dilate(a, (0, -1, 9), 1), lambda a: _dilated(_dilated(a, 0, 1), 2, 1)),
    Row("undilate", lambda a: ops.undilate(a, (0, 2), 1), lambda a: a[::2, :, ::2]),
    Row("undilate: uneven", lambda a: ops.undilate(a, (1, 7), 1), lambda a: a[:, ::2]),
    Row("pad", lambda a: ops.pad(a, ((1, 0), (0, 0), (2, 1))), lambda a: np.pad(a, ((1, 0), (0, 0), (2, 1)))),
    Row("stack", lambda *a: ops.stack(a, axis=1), lambda *a: np.stack(a, 1), TWO),
    Row("stack: last axis", lambda *a: ops.stack(a, -1), lambda *a: np.stack(a, -1), TWO),
    Row("stack: one twice", lambda a: ops.stack([a, a]), lambda a: np.stack([a, a])),
    Row("split", lambda a: ops.split(a, axis=1)[2], lambda a: a[:, 2]),
    Row("split: and stack", lambda a: ops.stack(ops.split(a, 2), 0), lambda a: np.moveaxis(a, 2, 0)),
    Row(
        "concatenate",
        lambda *a: ops.concatenate(a, 1),
        lambda *a: np.concatenate(a, 1),
        ((2, 1, 4), (2, 3, 4), (2, 0, 4)),
    ),
    Row(
        "concatenate: last axis", lambda *a: ops.concatenate(a, -1), lambda *a: np.concatenate(a, -1), ((3, 2), (3, 1))
    ),
    Row("make_tuple", lambda a, b: ops.make_tuple(a, b)[0] * b, np.multiply, TWO),
    Row("tuple_get_item", lambda a: ops.tuple_get_item(ops.split(a, 0), -1), lambda a: a[-1]),
    Row("tuple_add", lambda a, b: (ops.split(a, 0) + ops.split(b, 0))[1], lambda a, b: (a + b)[1], TWO),
    Row("fused_add_scalars", lambda a: ops.multiply(*ops.fused_add_scalars(a, 2, 3)), lambda a: (a + 2) * (a + 3)),
]

LINALG = [
    Row("matmul", ops.matmul, np.matmul, ((2, 3), (3, 4)), torch=lambda torch, a, b: a @ b),
    Row("matmul: batches", ops.matmul, np.matmul, ((2, 3, 4), (2, 4, 2)), torch=lambda torch, a, b: a @ b),
    Row("matmul: one matrix for all", ops.matmul, np.matmul, ((2, 2, 3, 4), (4, 2)), torch=lambda torch, a, b: a @ b),
    Row("matmul: broadcast", ops.matmul, np.matmul, ((2, 1, 3, 4), (3, 4, 2)), torch=lambda torch, a, b: a @ b),
    Row("matmul: left broadcast", ops.matmul, np.matmul, ((3, 4), (2, 4, 2))),
    Row("matmul: vectors", ops.matmul, np.matmul, ((4,), (4,)), torch=lambda torch, a, b: a @ b),
    Row("matmul: row", ops.matmul, np.matmul, ((4,), (2, 4, 3)), torch=lambda torch, a, b: a @ b),
    Row("matmul: column", ops.matmul, np.matmul, ((2, 3, 4), (4,)), torch=lambda torch, a, b: a @ b),
    Row("matmul: with its transpose", lambda a: a @ ops.transpose(a), lambda a: a @ a.T, ((3, 4),)),
]


def _einsum(subscripts: str, *shapes: tuple[int, ...]) -> Row:
    return Row(
        f"einsum: {subscripts}",
        lambda *a: ops.einsum(subscripts, *a),
        lambda *a: np.einsum(subscripts, *a),
        shapes,
        torch=lambda torch, *a: torch.einsum(subscripts, *a),
    )


EINSUM = [
    _einsum("ij,jk->ik", (2, 3), (3, 4)),
    _einsum("ij,jk", (2, 3), (3, 4)),
    _einsum("ba,cb->ca", (2, 3), (4, 2)),
    _einsum("bhqd,bhkd->bhqk", (2, 2, 3, 2), (2, 2, 4, 2)),
    _einsum("ij->ji", (2, 3)),
    _einsum("ij->", (2, 3)),
    _einsum("ijk->j", (2, 3, 4)),
    _einsum("ii->i", (3, 3)),
    _einsum("ii", (3, 3)),
    _einsum("iji->j", (2, 3, 2)),
    _einsum("i,i->i", (4,), (4,)),
    _einsum("i,j->ij", (2,), (3,)),
    _einsum("i,i", (4,), (4,)),
    _einsum("ij,kl->", (2, 3), (2, 2)),
    _einsum("ij,jk,kl->il", (2, 3), (3, 2), (2, 4)),
    _einsum("i,ij,j", (2,), (2, 3), (3,)),
    _einsum("bi,ij,bj->b", (2, 3), (3, 4), (2, 4)),
    _einsum("...ij,...jk->...ik", (2, 1, 3, 4), (3, 4, 2)),
    _einsum("...i->...", (2, 3, 4)),
    _einsum("i...,i...", (3, 2), (3, 2)),
    _einsum("ij,j->ij", (2, 1), (3,)),
]

INDEXING = [
    Row("getitem: int", lambda a: a[1], lambda a: a[1]),
    Row("getitem: negative int", lambda a: a[:, -1], lambda a: a[:, -1]),
    Row("getitem: slices", lambda a: a[1:, ::2, 1:3], lambda a: a[1:, ::2, 1:3]),
    Row("getitem: negative step", lambda a: a[..., ::-2], lambda a: a[..., ::-2]),
    Row("getitem: ellipsis and None", lambda a: a[0, ..., None], lambda a: a[0, ..., None]),
    Row("getitem: repeated", lambda a: a[[1, 1, 0]], lambda a: a[[1, 1, 0]], torch=lambda torch, a: a[[1, 1, 0]]),
    Row("getitem: two arrays", lambda a: a[[0, 1], :, [3, 3]], lambda a: a[[0, 1], :, [3, 3]]),
    Row("getitem: array of arrays", lambda a: a[1, PLACES], lambda a: a[1, PLACES]),
    Row("getitem: mask", lambda a: a[MASK], lambda a: a[MASK], torch=lambda torch, a: a[torch.tensor(MASK)]),
    Row("getitem: mask of rows", lambda a: a[:, [True, False, True]], lambda a: a[:, [True, False, True]]),
    Row("getitem: nothing", lambda a: a[()], lambda a: a),
    Row("take", lambda a: ops.take(a, PLACES, axis=1), lambda a: np.take(a, PLACES, axis=1)),
    Row("take: flat", lambda a: ops.take(a, [5, -1, 5]), lambda a: np.take(a, [5, -1, 5])),
    Row("take: last axis", lambda a: ops.take(a, 2, axis=-1), lambda a: np.take(a, 2, axis=-1)),
    Row("embedding", lambda a: ops.embedding(a, PLACES), lambda a: a[PLACES], ((4, 3),)),
    Row(
        "gather",
        lambda a: ops.gather(a, 1, PLACES),
        lambda a: np.take_along_axis(a, PLACES, 1),
        ((2, 3),),
        torch=lambda torch, a: torch.gather(a, 1, torch.tensor(PLACES)),
    ),
    Row(
        "gather: fewer",
        lambda a: ops.gather(a, 0, PLACES[:, :2]),
        lambda a: np.take_along_axis(a[:, :2], PLACES[:, :2], 0),
        ((3, 3),),
        torch=lambda torch, a: torch.gather(a, 0, torch.tensor(PLACES[:, :2])),
    ),
    Row("sort", lambda a: ops.sort(a, axis=1).values, lambda a: np.sort(a, 1), torch=lambda torch, a: a.sort(1).values),
    Row("sort: descending", lambda a: ops.sort(a, descending=True)[0], lambda a: -np.sort(-a)),
    Row(
        "topk",
        lambda a: ops.topk(a, 2).values,
        lambda a: -np.sort(-a)[..., :2],
        torch=lambda torch, a: a.topk(2).values,
    ),
    Row("topk: smallest", lambda a: ops.topk(a, 1, axis=0, largest=False)[0], lambda a: np.sort(a, 0)[:1]),
]


def _log_sum_exp(a: np.ndarray, axis: Any) -> np.ndarray:
    return np.log(np.exp(a).sum(axis))


SOFTMAX = [
    Row("logsumexp", ops.logsumexp, lambda a: _log_sum_exp(a, None), torch=lambda torch, a: a.logsumexp((0, 1, 2))),
    Row("logsumexp: axis", lambda a: ops.logsumexp(a, axes=1), lambda a: _log_sum_exp(a, 1)),
    Row("logsumexp: axes", lambda a: ops.logsumexp(a, axes=(0, -1)), lambda a: _log_sum_exp(a, (0, -1))),
    Row("logsumexp: keepdims", lambda a: ops.logsumexp(a, 1, True), lambda a: _log_sum_exp(a, 1)[:, None]),
    Row(
        "softmax",
        ops.softmax,
        lambda a: np.exp(a) / np.exp(a).sum(-1, keepdims=True),
        torch=lambda torch, a: a.softmax(-1),
    ),
    Row("softmax: axis", lambda a: ops.softmax(a, 0), lambda a: np.exp(a) / np.exp(a).sum(0)),
    Row(
        "logsoftmax",
        ops.logsoftmax,
        lambda a: a - _log_sum_exp(a, -1)[..., None],
        torch=lambda torch, a: a.log_softmax(-1),
    ),
    Row("logsoftmax: axis", lambda a: ops.logsoftmax(a, 1), lambda a: a - _log_sum_exp(a, 1)[:, None]),
]

TABLE = [*ARITHMETIC, *SELECTION, *ACTIVATION, *REDUCTION, *SOFTMAX, *SHAPE, *LINALG, *EINSUM, *INDEXING]
