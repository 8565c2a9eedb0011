"""Ops whose gradients are wrong in the ways that people get them wrong."""

from collections.abc import Callable
from typing import Any

import numpy as np

from needle import Tensor, TensorOp, ops


class Planted(TensorOp):
    """An op made of functions: `gradient(out_grad, *inputs)`."""

    def __init__(self, compute: Callable[..., Any], gradient: Callable[..., Any]) -> None:
        self.run, self.slope = compute, gradient

    def compute(self, *arrays: Any) -> Any:
        return self.run(*arrays)

    def gradient(self, out_grad: Tensor, node: Tensor) -> Any:
        return self.slope(out_grad, *node.inputs)


def masked(mask: np.ndarray, inside: float, outside: float) -> Callable[..., Any]:
    """The gradient of x**2, times `inside` where the mask is set and times `outside` elsewhere."""
    return lambda d, x: d * 2 * x * np.where(mask, inside, outside)


def square(x: Any) -> Any:
    return x * x


def identity(x: Any) -> Any:
    return x * 1


def ring(*shape: int) -> np.ndarray:
    """A mask of the border of the last two axes."""
    inner = np.zeros(shape, bool)
    inner[..., 1:-1, 1:-1] = True
    return ~inner


def block(*shape: int) -> np.ndarray:
    mask = np.zeros(shape, bool)
    mask[1:3, 0:2] = True
    return mask


class Doubled(TensorOp):
    """2 * x, with a slope of 1."""

    def compute(self, a: Any) -> Any:
        return a * 2

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        return out_grad


FAULTS: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[tuple[int, ...]], str]] = {
    # name: compute, wrong gradient, shapes, what the report must say
    "factor of two": (square, lambda d, x: d * x, [(3, 4)], r"1/2 times .*factor is missing"),
    "twice": (square, lambda d, x: d * 4 * x, [(5,)], "2 times what is expected"),
    "odd factor": (square, lambda d, x: d * 2.5 * x, [(5,)], "1.25 times what is expected"),
    "mean for sum": (lambda a: a.sum(1), lambda d, x: ops.broadcast_to(d.reshape((5, 1)) / 7, (5, 7)), [(5, 7)],
                     r"1/7 times what is expected \(7 is the length of axis 1: a sum for a mean"),
    "sign": (square, lambda d, x: d * -2 * x, [(3, 4)], "every element is wrong: the sign is wrong"),
    "sign and factor": (square, lambda d, x: d * -4 * x, [(3, 4)], "2 times .*with the wrong sign"),
    "zeros": (square, lambda d, x: d * x * 0, [(3, 4)], r"zero \(the path is cut"),
    "none": (lambda a, b: a * b, lambda d, a, b: (d * b, None), [(3,), (3,)], r"input 1 .*zero \(the path is cut"),
    "nan": (square, lambda d, x: d * 2 * x * np.nan, [(3,)], r"got nan.*not finite \(a division by zero"),
    "not masked": (lambda a: a * np.arange(4.0), lambda d, x: d * np.maximum(np.arange(4.0), 1), [(4,)],
                   "1 of 4 elements is wrong: expected zero"),
    "out_grad left out": (square, lambda d, x: 2 * x, [(3, 4)], "does not depend on the gradient that comes in"),
    "missing sum": (lambda a: a.broadcast_to((3, 4)), lambda d, x: d[:1], [(1, 4)],
                    r"only the first along axis 0 of the gradient that comes in counts \(a sum is missing"),
    "missing sums": (lambda a: a.broadcast_to((2, 3, 4)), lambda d, x: d[0, 0], [(4,)], r"first along axes \(0, 1\)"),
    "missing sum, last": (lambda a: a.broadcast_to((3, 4)), lambda d, x: d[2:], [(1, 4)], "only the last along axis 0"),
    "missing term": (lambda a: a - a.sum(1, keepdims=True) / 4, lambda d, x: d, [(3, 4)],
                     "off by the same number along axis 1"),
    "missing total": (lambda a: a - a.sum() / 12, lambda d, x: d, [(3, 4)], "off by the same number everywhere"),
    "transposed square": (square, lambda d, x: (d * 2 * x).transpose(), [(3, 3)], "6 of 9 elements are wrong: tran"),
    "transposed": (square, lambda d, x: (d * 2 * x).transpose().reshape((3, 4)), [(3, 4)], ": transposed"),
    "transposed back": (square, lambda d, x: (d * 2 * x).reshape((4, 3)).transpose(), [(3, 4)], "transposed and resha"),
    "axes": (square, lambda d, x: (d * 2 * x).permute((1, 0, 2)), [(3, 3, 2)], r"transposed, axes \(1, 0, 2\)"),
    "transposed block": (identity, lambda d, x: ops.concatenate([d[:3].transpose(), d[3:]]), [(5, 3)],
                         "6 of 15 elements are wrong: transposed"),
    "flipped": (square, lambda d, x: ops.flip(d * 2 * x, 0), [(4, 3)], "flipped along axis 0"),
    "flipped kernel": (square, lambda d, x: ops.flip(d * 2 * x, (0, 1)), [(3, 3, 2)], r"flipped along axes \(0, 1\)"),
    "shifted": (identity, lambda d, x: ops.concatenate([d[1:], d[:1] * 0]), [(6,)], "shifted by one along axis 0"),
    "shuffled": (identity, lambda d, x: d[[2, 0, 3, 1, 4]], [(5,)], "right numbers in wrong places"),
    "border": (square, masked(ring(2, 5, 6), 0.3, 1.0), [(2, 5, 6)], "only elements at the border of axes .*padding"),
    "last row": (square, masked(np.arange(5)[:, None] == 4, 0.3, 1.0), [(5, 4)], "at the border of axis 0 are"),
    "block": (square, masked(block(4, 4), 3.0, 1.0), [(4, 4)], r"only the block \[1:3, 0:2\] is wrong: 3 times"),
    "some": (square, masked(np.arange(12).reshape(3, 4) % 5 == 1, -1.0, 1.0), [(3, 4)], "3 of 12 .*sign is wrong"),
    "anything": (square, lambda d, x: d * 2 * x + x * x, [(3, 4)], "every element is wrong$"),
}  # fmt: skip
