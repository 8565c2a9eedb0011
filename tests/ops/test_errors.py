"""What wrong arguments are told: the package's error, with the op's name, what was given, and a way out."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from needle import Tensor, ops
from needle.errors import BoundsError, DeviceError, DTypeError, GradientError, OptionError, ShapeError

A = Tensor(np.ones((2, 3)))
B = Tensor(np.ones((4, 5)))
V = Tensor(np.ones(3))

WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    # shapes
    (lambda: ops.add(A, B), ShapeError, r"add: .*\(2, 3\).*\(4, 5\)"),
    (lambda: A * B, ShapeError, r"multiply: .*\(2, 3\).*\(4, 5\)"),
    (lambda: A - B, ShapeError, r"add: .*\(2, 3\).*\(4, 5\)"),
    (lambda: ops.maximum(A, B), ShapeError, r"maximum: .*\(2, 3\).*\(4, 5\)"),
    (lambda: ops.where(A > 0, A, B), ShapeError, r"where: .*\(2, 3\).*\(4, 5\)"),
    (lambda: ops.where(B > 0, A, A), ShapeError, r"where: .*\(4, 5\).*\(2, 3\)"),
    (lambda: ops.masked_fill(A, B > 0, 0), ShapeError, r"^masked_fill: .*\(4, 5\).*\(2, 3\)"),
    (lambda: ops.masked_fill(V, A > 0, 0), ShapeError, r"^masked_fill: the mask of shape \(2, 3\) .*\(3,\)"),
    (lambda: ops.matmul(A, B), ShapeError, r"matmul: .*\(2, 3\) @ \(4, 5\)"),
    (lambda: A @ 3, ShapeError, r"matmul: .*\(2, 3\) @ \(\)"),
    (lambda: ops.matmul(Tensor(np.ones((2, 2, 3))), Tensor(np.ones((4, 3, 2)))), ShapeError, r"matmul: .*\(2,.*\(4,"),
    (lambda: ops.reshape(A, (4, 2)), ShapeError, r"reshape: .*\(2, 3\).*\(4, 2\)"),
    (lambda: ops.reshape(A, (-1, -1)), ShapeError, r"reshape: .*\(-1, -1\)"),
    (lambda: ops.broadcast_to(V, (4,)), ShapeError, r"broadcast_to: .*\(3,\).*\(4,\)"),
    (lambda: ops.broadcast_to(A, (3,)), ShapeError, r"broadcast_to: .*\(2, 3\).*\(3,\)"),
    (lambda: ops.stack([A, B]), ShapeError, r"stack: .*\(2, 3\) and \(4, 5\)"),
    (lambda: ops.concatenate([A, B]), ShapeError, r"concatenate: .* axis 0, got \(2, 3\) and \(4, 5\)"),
    (lambda: ops.concatenate([A, V], axis=1), ShapeError, r"concatenate: .*\(2, 3\) and \(3,\)"),
    (lambda: ops.gather(A, 0, [[1, 1, 1, 1]]), ShapeError, r"gather: .*\(1, 4\).*\(2, 3\)"),
    (lambda: ops.gather(A, 0, [1]), ShapeError, r"gather: .*\(1,\).*\(2, 3\)"),
    (lambda: ops.tuple_add(ops.make_tuple(A), ops.make_tuple(A, A)), ShapeError, "tuple_add: tuples of 1 and 2"),
    (lambda: ops.tuple_add(ops.make_tuple(A), A), DTypeError, "tuple_add: expected a needle.TensorTuple, got a Tensor"),
    # axes
    (lambda: ops.summation(A, 2), ShapeError, "sum.*: axis 2 is out of range for 2 .*; choose one from -2 to 1"),
    (lambda: ops.softmax(A.sum()), ShapeError, "softmax: axis -1 is out of range for 0 .*no axis to choose"),
    (lambda: ops.summation(A, (0, -2)), ShapeError, r"sum.*: .*\(0, -2\).*twice"),
    (lambda: ops.mean(A, 2), ShapeError, "mean: axis 2 is out of range"),
    (lambda: ops.var(A, (1, 1)), ShapeError, "var: .*twice"),
    (lambda: ops.max(A, -3), ShapeError, "max: axis -3 is out of range"),
    (lambda: ops.max(Tensor(np.zeros((0, 4))), 0), ShapeError, r"max: .*\(0, 4\)"),
    (lambda: ops.min(A, (0, 0)), ShapeError, "min: .*twice"),
    (lambda: ops.argmax(A, 5), ShapeError, "argmax: axis 5 is out of range"),
    (lambda: ops.cumsum(A, 2), ShapeError, "cumsum: axis 2 is out of range"),
    (lambda: ops.transpose(V), ShapeError, "transpose: axis -2 is out of range for 1"),
    (lambda: ops.transpose(A, (0, 2)), ShapeError, "transpose: axis 2 is out of range"),
    (lambda: ops.transpose(A, (0, 1, 2)), ShapeError, r"transpose: .*two axes.*\(0, 1, 2\).*permute"),
    (lambda: ops.permute(A, (0,)), ShapeError, r"permute: axes \(0,\).*\(2, 3\)"),
    (lambda: ops.permute(A, (0, 0)), ShapeError, "permute: .*twice"),
    (lambda: ops.squeeze(A, 0), ShapeError, r"squeeze: .*0.*\(2, 3\)"),
    (lambda: ops.unsqueeze(A, 4), ShapeError, "unsqueeze: axis 4 is out of range"),
    (lambda: ops.flip(A, 2), ShapeError, "flip: axis 2 is out of range"),
    (lambda: ops.stack([A, A], 3), ShapeError, "stack: axis 3 is out of range"),
    (lambda: ops.split(A, 2), ShapeError, "split: axis 2 is out of range"),
    (lambda: ops.split(Tensor(np.ones((0, 2))), 0), ShapeError, r"split: axis 0 of shape \(0, 2\)"),
    (lambda: ops.concatenate([A, A], 2), ShapeError, "concatenate: axis 2 is out of range"),
    (lambda: ops.take(A, [0], axis=2), ShapeError, "take: axis 2 is out of range"),
    (lambda: ops.sort(A, 2), ShapeError, "sort: axis 2 is out of range"),
    (lambda: ops.topk(A, 1, 2), ShapeError, "topk: axis 2 is out of range"),
    # sizes, counts, indices
    (lambda: ops.stack([]), ShapeError, "stack: got an empty list"),
    (lambda: ops.concatenate([]), ShapeError, "concatenate: got an empty list"),
    (lambda: ops.make_tuple(), ShapeError, "make_tuple: got no tensors"),
    (lambda: ops.stack(A), ShapeError, r"stack: expected a list.*\(2, 3\)"),
    (lambda: ops.topk(A, 4), ShapeError, r"topk: k = 4 .* 3 .*\(2, 3\)"),
    (lambda: ops.topk(A, -1), ShapeError, "topk: k must be at least 0, got -1"),
    (lambda: ops.dilate(A, (0,), -1), ShapeError, "dilate: dilation must be at least 0, got -1"),
    (lambda: ops.undilate(A, (0,), -1), ShapeError, "undilate: dilation must be at least 0, got -1"),
    (lambda: ops.pad(A, ((1, 1),)), ShapeError, r"pad: .*\(2, 3\).*got \(\(1, 1\),\)"),
    (lambda: ops.pad(A, ((0, 0), (0, -1))), ShapeError, "pad: .*negative"),
    (lambda: A[2], BoundsError, r"2.*\(2, 3\)|2.*out of range.*2"),
    (lambda: A[0, 0, 0], BoundsError, r"\(2, 3\)|2"),
    (lambda: A[[0, 5]], BoundsError, "5"),
    (lambda: ops.take(A, [3], axis=0), BoundsError, r"^take: index 3 is out of range for axis 0 of shape \(2, 3\)"),
    (lambda: ops.take(A, [0, -7]), BoundsError, r"^take: index -7 is out of range for axis 0 of shape \(6,\)"),
    (lambda: ops.gather(A, 1, [[0], [3]]), BoundsError, r"^gather: index 3 is out of range for axis 1 of"),
    (lambda: ops.make_tuple(A)[1], BoundsError, "tuple_get_item: index 1 .* 1"),
    # einsum
    (lambda: ops.einsum("ij,jk->ik", A), ShapeError, "einsum: .*2 operands, got 1"),
    (lambda: ops.einsum("ijk->i", A), ShapeError, 'einsum: "ijk".* operand 0 with 2 axes'),
    (lambda: ops.einsum("ij,jk->ik", A, B), ShapeError, r'einsum: letter "j".*\(2, 3\).*\(4, 5\)'),
    (lambda: ops.einsum("ii", A), ShapeError, r'einsum: letter "i".*\(2, 3\)'),
    (lambda: ops.einsum("ij->ii", A), ShapeError, 'einsum: in "ij->ii" the result'),
    (lambda: ops.einsum("ij->k", A), ShapeError, 'einsum: in "ij->k" the result'),
    (lambda: ops.einsum("i1->i", A), ShapeError, 'einsum: "i1->i" must have a form like'),
    # types
    (lambda: ops.exp(np.ones(3)), DTypeError, "ndarray"),
    (lambda: ops.relu([1.0]), DTypeError, "list"),
    (lambda: ops.add(np.ones(3), np.ones(3)), DTypeError, "add: one operand .*ndarray"),
    (lambda: ops.add(A, "x"), DTypeError, "add: operand .*got a str;"),
    (lambda: ops.matmul([[1.0]], [[1.0]]), DTypeError, "matmul: one operand .*list"),
    (lambda: ops.summation(np.ones(3)), DTypeError, "ndarray"),
    (lambda: ops.transpose(np.ones((2, 2))), DTypeError, "transpose: .*ndarray"),
    (lambda: ops.stack([A, np.ones((2, 3))]), DTypeError, "stack: argument 1 .*ndarray"),
    (lambda: ops.concatenate([np.ones(3)]), DTypeError, "concatenate: argument 0 .*ndarray"),
    (lambda: ops.make_tuple(A, 1), DTypeError, "make_tuple: argument 1 .*int"),
    (lambda: ops.einsum("i->", np.ones(3)), DTypeError, "einsum: operand 0 .*ndarray"),
    (lambda: ops.add_scalar(A, A), DTypeError, "add_scalar: scalar must be a number, got a Tensor"),
    (lambda: ops.power_scalar(A, "2"), DTypeError, "power_scalar: scalar must be a number, got a str"),
    (lambda: ops.clip(A, min="0"), DTypeError, "clip: min must be a number"),
    (lambda: ops.tuple_get_item(A, 0), DTypeError, "tuple_get_item: .*TensorTuple, got a Tensor"),
    (lambda: A["x"], DTypeError, "getitem: .*str"),
    (lambda: A[1.5], DTypeError, "getitem: .*float"),
    (lambda: A[[0.5]], DTypeError, "getitem: indices must be whole numbers"),
    (lambda: ops.take(A, [0.5]), DTypeError, "take: indices must be whole numbers"),
    (lambda: ops.gather(A, 0, "x"), DTypeError, "gather: expected real numbers, got .*U1"),
    (lambda: ops.topk(A, 1.5), DTypeError, "topk: k must be a whole number"),
    (lambda: ops.dilate(A, (0,), 0.5), DTypeError, "dilate: dilation must be a whole number"),
    (lambda: ops.add(A, ["a"]), DTypeError, "expected real numbers, got .*U1"),
    (lambda: ops.add(A, [[1], [2, 3]]), ShapeError, "inhomogeneous"),
    (lambda: ops.add(A, 1j), DTypeError, "add: operand .*complex"),
    (lambda: ops.take(A, [True, False]), DTypeError, "take: indices must be whole numbers, not bools"),
    (lambda: ops.take(A, [np.inf]), DTypeError, "take: indices must be whole numbers, got inf"),
    (lambda: ops.take(A, [1e30]), DTypeError, r"take: indices must be whole numbers, got 1e\+30"),
    (lambda: A[[[0], [1, 2]]], ShapeError, "getitem: .*inhomogeneous"),
    (lambda: ops.softmax(A, axis=None), ShapeError, "softmax: expected one axis, got None"),
    (lambda: ops.logsoftmax(A, axis=(0, 1)), ShapeError, r"logsoftmax: expected one axis, got \(0, 1\)"),
    (lambda: ops.sort(A, axis=None), ShapeError, "sort: expected one axis"),
    (lambda: ops.topk(A, 1, axis=()), ShapeError, "topk: expected one axis"),
    (lambda: ops.split(A, axis=None), ShapeError, "split: expected one axis"),
    (lambda: ops.unsqueeze(A, None), ShapeError, "unsqueeze: expected one axis"),
    (lambda: ops.gather(A, None, [[0]]), ShapeError, "gather: expected one axis"),
    (lambda: ops.dilate(A, ("x",), 1), ShapeError, r"dilate: axes are integers, got \('x',\)"),
    (lambda: ops.pad(A, 1), ShapeError, r"pad: expected a pair .*\(2, 3\).*got 1"),
    (lambda: ops.pad(A, ((0.5, 0), (0, 0))), ShapeError, "pad: expected a pair .* whole numbers"),
    (lambda: ops.sum_to(A, (2, 2)), ShapeError, r"sum_to: shape \(2, 2\) .*\(2, 3\)"),
    (lambda: ops.sum_to(A, (1, 2, 3)), ShapeError, r"sum_to: shape \(1, 2, 3\) .*\(2, 3\)"),
    (lambda: ops.stack(None), DTypeError, "stack: expected a list of tensors, got None"),
    (lambda: ops.einsum(None, A), ShapeError, "einsum: .*form like"),
    (lambda: ops.astype(None, "int64"), DTypeError, "astype: .*None"),
    (lambda: ops.sign(np.ones(3)), DTypeError, "sign: .*ndarray"),
    (lambda: ops.masked_fill(np.ones(3), True, 0), DTypeError, "masked_fill: .*ndarray"),
    (lambda: ops.sum_to([1.0], ()), DTypeError, "sum_to: .*list"),
    (lambda: ops.var(A, correction="1"), DTypeError, "var: correction must be a number"),
    (lambda: ops.layer_norm(A, eps=None), DTypeError, "layer_norm: eps must be a number"),
    (lambda: ops.batch_norm(A, eps=[]), DTypeError, "batch_norm: eps must be a number"),
    (lambda: ops.group_norm(A, 1, eps="x"), DTypeError, "group_norm: eps must be a number"),
    (lambda: ops.cross_entropy(A, [0, 1], ignore_index=[]), DTypeError, "cross_entropy: ignore_index must be a number"),
    (lambda: ops.cross_entropy(A, [[0], [1, 2]]), ShapeError, "cross_entropy: .*inhomogeneous"),
    (lambda: ops.cross_entropy(A, ["a", "b"]), DTypeError, "cross_entropy: expected real numbers"),
    (lambda: ops.to_device(A, "cpu"), DeviceError, "to_device: 'cpu' is no device"),
    (lambda: ops.one_hot("3", [0]), ShapeError, "one_hot: a shape is made of integers"),
    (lambda: ops.one_hot(-1, []), ShapeError, "one_hot: lengths must not be negative"),
    (lambda: ops.gelu(A, approximate="erf"), OptionError, 'gelu: approximate .*"tanh"'),
]


@pytest.mark.parametrize(("call", "error", "text"), WRONG, ids=[text[:40] for _, _, text in WRONG])
def test_wrong_arguments(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_axes_out_of_range_are_ignored_by_dilate_only() -> None:
    assert ops.dilate(A, (0, 7), 1).shape == (4, 3)
    assert ops.undilate(A, (1, -5), 1).shape == (2, 2)


def test_an_op_keeps_the_axes_it_was_given() -> None:
    """A generator is read once, and a list may change between the forward pass and the gradient."""
    for function in (ops.summation, ops.max, ops.logsumexp, ops.flip, lambda a, axes: ops.dilate(a, axes, 1)):
        expected = Tensor(np.arange(6.0).reshape(2, 3))
        function(expected, (1,)).backward()
        x, axes = Tensor(np.arange(6.0).reshape(2, 3)), [1]
        y = function(x, axes)
        axes[0] = 0
        y.backward()
        z = Tensor(np.arange(6.0).reshape(2, 3))
        function(z, (axis for axis in (1,))).backward()
        assert x.grad.numpy().tolist() == z.grad.numpy().tolist() == expected.grad.numpy().tolist()


@pytest.mark.parametrize("choose", [lambda a, mask: ops.where(mask, a, 0), lambda a, mask: ops.masked_fill(a, mask, 0)])
def test_a_condition_changed_after_the_call_is_noticed(choose: Callable[[Tensor, Tensor], Tensor]) -> None:
    x, mask = Tensor([1.0, 2.0]), Tensor([True, False], dtype="bool")
    y = choose(x, mask)
    mask.cached_data[0] = False
    with pytest.raises(GradientError, match=r"the condition of shape \(2,\) was changed in place"):
        y.backward()
