"""Autograd basics: ops, their gradients, and the backward pass.

An op is a class with two methods. `compute` works on NDArrays, whose methods are named as NumPy's: `+ - * / ** @`,
`sum(axis, keepdims=...)`, `max(axis, keepdims=...)`, `exp`, `log`, `maximum`, `reshape`, `broadcast_to`. `gradient`
gets the gradient of the op's output and the node, whose `inputs` are the op's; it returns the gradient of each input,
a Tensor of that input's shape, and computes with Tensors and ops only (`ndl.exp`, `ndl.summation`, ...), so that it can
be differentiated again.

Check your work with `python -m needle.course check autograd_basics.py`.
"""

from __future__ import annotations

import needle as ndl
from needle.autograd import NDArray, Tensor, TensorOp

Axes = tuple[int, ...] | None


class EWiseDiv(TensorOp):
    """a / b, element by element, for a and b of one shape."""

    def compute(self, a: NDArray, b: NDArray) -> NDArray:
        ### BEGIN SOLUTION
        return a / b
        ### END SOLUTION

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
        # The derivative of a / b is 1 / b in a, and -a / b**2 in b.
        ### BEGIN SOLUTION
        a, b = node.inputs
        return out_grad / b, -out_grad * a / (b * b)
        ### END SOLUTION


class PowerScalar(TensorOp):
    """a ** scalar, element by element."""

    def __init__(self, scalar: float) -> None:
        self.scalar = scalar

    def compute(self, a: NDArray) -> NDArray:
        ### BEGIN SOLUTION
        return a**self.scalar
        ### END SOLUTION

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        ### BEGIN SOLUTION
        (a,) = node.inputs
        return out_grad * self.scalar * a ** (self.scalar - 1)
        ### END SOLUTION


class ReLU(TensorOp):
    """max(a, 0), element by element; its derivative is 1 where a > 0, and 0 elsewhere."""

    def compute(self, a: NDArray) -> NDArray:
        ### BEGIN SOLUTION
        return a.maximum(0)
        ### END SOLUTION

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        # `a > 0` is a Tensor of ones and zeros.
        ### BEGIN SOLUTION
        (a,) = node.inputs
        return out_grad * (a > 0)
        ### END SOLUTION


class Summation(TensorOp):
    """The sum over the given axes, which the result no longer has; over all axes where `axes` is None."""

    def __init__(self, axes: Axes = None) -> None:
        self.axes = axes

    def compute(self, a: NDArray) -> NDArray:
        ### BEGIN SOLUTION
        return a.sum(self.axes)
        ### END SOLUTION

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        # Every element of a goes into one element of the sum: put 1 where axes were summed, and broadcast.
        ### BEGIN SOLUTION
        (a,) = node.inputs
        axes = range(a.ndim) if self.axes is None else self.axes
        kept = tuple(1 if i in axes else n for i, n in enumerate(a.shape))
        return ndl.broadcast_to(ndl.reshape(out_grad, kept), a.shape)
        ### END SOLUTION


class BroadcastTo(TensorOp):
    """a repeated along new axes in front, and along axes of length 1, to the given shape."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def compute(self, a: NDArray) -> NDArray:
        ### BEGIN SOLUTION
        return a.broadcast_to(self.shape)
        ### END SOLUTION

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        # An element of a goes into many of the result: add up their gradients.
        ### BEGIN SOLUTION
        return sum_to(out_grad, node.inputs[0].shape)
        ### END SOLUTION


def sum_to(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Undo a broadcast from `shape`: sum x over the axes that were new or of length 1, so that it has that shape."""
    ### BEGIN SOLUTION
    new = x.ndim - len(shape)
    axes = [i for i in range(x.ndim) if i < new or (shape[i - new] == 1 and x.shape[i] > 1)]
    return ndl.reshape(ndl.summation(x, tuple(axes)), shape) if axes else ndl.reshape(x, shape)
    ### END SOLUTION


class MatMul(TensorOp):
    """a @ b, for a of shape (..., m, k) and b of shape (..., k, n); the leading axes broadcast as NumPy's do."""

    def compute(self, a: NDArray, b: NDArray) -> NDArray:
        ### BEGIN SOLUTION
        return a @ b
        ### END SOLUTION

    def gradient(self, out_grad: Tensor, node: Tensor) -> tuple[Tensor, Tensor]:
        # For matrices, G @ b^T and a^T @ G (check that the shapes fit). Where leading axes were broadcast, sum_to.
        ### BEGIN SOLUTION
        a, b = node.inputs
        to_a = out_grad @ ndl.transpose(b)
        to_b = ndl.transpose(a) @ out_grad
        return sum_to(to_a, a.shape), sum_to(to_b, b.shape)
        ### END SOLUTION


class LogSumExp(TensorOp):
    """log(sum(exp(a))) over the given axes (all, where None), which the result no longer has.

    exp overflows for large a, so subtract the maximum m over these axes first: m + log(sum(exp(a - m))).
    """

    def __init__(self, axes: Axes = None) -> None:
        self.axes = axes

    def compute(self, a: NDArray) -> NDArray:
        ### BEGIN SOLUTION
        m = a.max(self.axes, keepdims=True)
        total = (a - m).exp().sum(self.axes)
        return total.log() + m.reshape(total.shape)
        ### END SOLUTION

    def gradient(self, out_grad: Tensor, node: Tensor) -> Tensor:
        # The derivative is the softmax, exp(a - logsumexp(a)); the node itself is logsumexp(a).
        ### BEGIN SOLUTION
        (a,) = node.inputs
        axes = range(a.ndim) if self.axes is None else self.axes
        kept = tuple(1 if i in axes else n for i, n in enumerate(a.shape))
        softmax = ndl.exp(a - ndl.broadcast_to(ndl.reshape(node, kept), a.shape))
        return ndl.broadcast_to(ndl.reshape(out_grad, kept), a.shape) * softmax
        ### END SOLUTION


def find_topo_sort(nodes: list[Tensor]) -> list[Tensor]:
    """Give all nodes that `nodes` depend on, and `nodes`, each once and after its `inputs`, which are taken in order.

    This is the post-order of a depth-first search. `==` compares Tensors by identity, and they can be in sets.
    """
    ### BEGIN SOLUTION
    order: list[Tensor] = []
    visited: set[Tensor] = set()

    def visit(node: Tensor) -> None:
        if node not in visited:
            visited.add(node)
            for value in node.inputs:
                visit(value)
            order.append(node)

    for node in nodes:
        visit(node)
    return order
    ### END SOLUTION


def compute_gradient_of_variables(output: Tensor, out_grad: Tensor) -> None:
    """Set `.grad` of every node that `output` depends on, where that of `output` itself is `out_grad`.

    Go through the nodes from the last to the first. `node.op.gradient_as_tuple(node.grad, node)` gives the gradients of
    `node.inputs`; what arrives at a node from several places is summed. A leaf has `op` None and no inputs.
    """
    ### BEGIN SOLUTION
    arrived: dict[Tensor, list[Tensor]] = {output: [out_grad]}
    for node in reversed(find_topo_sort([output])):
        total = arrived[node][0]
        for gradient in arrived[node][1:]:
            total = total + gradient
        node.grad = total
        if node.op is not None:
            for value, gradient in zip(node.inputs, node.op.gradient_as_tuple(total, node)):
                arrived.setdefault(value, []).append(gradient)
    ### END SOLUTION
