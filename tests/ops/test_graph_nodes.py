"""Which nodes the functions record, and what a node's op gives for its inputs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import needle as ndl
from needle import Tensor, ops
from needle.autograd import find_topo_sort

Make = Callable[..., Tensor]

SQUARE = np.arange(1.0, 10.0).reshape(3, 3)
MATRIX = np.arange(1.0, 7.0).reshape(2, 3)


def nodes(out: Any) -> list[str]:
    """Name the ops below `out`, in topological order."""
    return [type(node.op).__name__ for node in find_topo_sort([out]) if node.op is not None]


ONE_NODE: list[tuple[str, Callable[..., Any], int]] = [
    ("EWiseAdd", ops.add, 2),
    ("AddScalar", lambda a: ops.add_scalar(a, 2), 1),
    ("AddScalar", lambda a: a + 2, 1),
    ("AddScalar", lambda a: 2 + a, 1),
    ("AddScalar", lambda a: a - 3, 1),
    ("EWiseSub", ops.sub, 2),
    ("EWiseMul", ops.multiply, 2),
    ("MulScalar", lambda a: ops.mul_scalar(a, scalar=3), 1),
    ("MulScalar", lambda a: 3 * a, 1),
    ("MulScalar", lambda a: a * np.float64(3), 1),
    ("EWiseDiv", ops.divide, 2),
    ("DivScalar", lambda a: a / 3, 1),
    ("EWisePow", ops.power, 2),
    ("PowerScalar", lambda a: a**2, 1),
    ("Negate", lambda a: -a, 1),
    ("Log", ops.log, 1),
    ("Exp", ops.exp, 1),
    ("Sqrt", ops.sqrt, 1),
    ("Abs", abs, 1),
    ("Maximum", ops.maximum, 2),
    ("Minimum", ops.minimum, 2),
    ("Where", lambda a, b: ops.where(a > b, a, b), 2),
    ("MaskedFill", lambda a: ops.masked_fill(a, a > 2, 0), 1),
    ("Clip", lambda a: ops.clip(a, 2, 3), 1),
    ("ReLU", ops.relu, 1),
    ("LeakyReLU", ops.leaky_relu, 1),
    ("ELU", ops.elu, 1),
    ("GELU", ops.gelu, 1),
    ("TanhGELU", lambda a: ops.gelu(a, approximate="tanh"), 1),
    ("SiLU", ops.silu, 1),
    ("Softplus", ops.softplus, 1),
    ("Sigmoid", ops.sigmoid, 1),
    ("Tanh", ops.tanh, 1),
    ("Erf", ops.erf, 1),
    ("Summation", ops.summation, 1),
    ("Summation", lambda a: a.sum(), 1),
    ("Summation", lambda a: ops.summation(a, axes=(0, -1)), 1),
    ("Max", lambda a: ops.max(a, axes=1), 1),
    ("Min", ops.min, 1),
    ("CumSum", lambda a: ops.cumsum(a, 0), 1),
    ("Transpose", ops.transpose, 1),
    ("Transpose", lambda a: ops.transpose(a, axes=(0, -1)), 1),
    ("Permute", lambda a: ops.permute(a, (1, 0)), 1),
    ("Reshape", lambda a: ops.reshape(a, shape=(9, -1)), 1),
    ("Reshape", lambda a: ops.reshape(a, (3, 3)), 1),
    ("Reshape", lambda a: ops.unsqueeze(a, 0), 1),
    ("BroadcastTo", lambda a: ops.broadcast_to(a, shape=(4, 3, 3)), 1),
    ("Flip", lambda a: ops.flip(a, axes=(0, 1)), 1),
    ("Flip", lambda a: ops.flip(a, 1), 1),
    ("Dilate", lambda a: ops.dilate(a, axes=(0, 1), dilation=1), 1),
    ("UnDilate", lambda a: ops.undilate(a, axes=(0,), dilation=1), 1),
    ("Pad", lambda a: ops.pad(a, ((1, 1), (0, 2))), 1),
    ("Stack", lambda a, b: ops.stack([a, b], axis=0), 2),
    ("Concatenate", lambda a, b: ops.concatenate([a, b], axis=1), 2),
    ("Split", lambda a: ops.split(a, axis=0), 1),
    ("MakeTensorTuple", ops.make_tuple, 2),
    ("FusedAddScalars", lambda a: ops.fused_add_scalars(a, c0=1, c1=2), 1),
    ("MatMul", ops.matmul, 2),
    ("GetItem", lambda a: a[0, 1:], 1),
    ("GetItem", lambda a: ops.take(a, [1, 0], axis=1), 1),
    ("GetItem", lambda a: ops.gather(a, 1, [[1], [0], [2]]), 1),
    ("GetItem", lambda a: ops.sort(a).values, 1),
    ("Cast", lambda a: ops.astype(a, "float64"), 1),
]


@pytest.mark.parametrize(("name", "function", "arity"), ONE_NODE, ids=[name for name, _, _ in ONE_NODE])
def test_one_node_with_one_gradient_per_argument(name: str, function: Callable[..., Any], arity: int) -> None:
    arguments = [Tensor(SQUARE + i, dtype="float32") for i in range(arity)]
    out = function(*arguments)
    assert nodes(out) == [name]
    ones = out if isinstance(out, ndl.TensorTuple) else Tensor(np.ones(out.shape), dtype=out.dtype)
    gradients = out.op.gradient_as_tuple(ones, out)
    assert [g.shape for g in gradients][:arity] == [a.shape for a in arguments]
    assert [g.dtype for g in gradients][:arity] == [np.float32] * arity


def test_subtraction_is_recorded_as_adding_the_negative(tensor: Make) -> None:
    a, b = tensor([1.0]), tensor([2.0])
    assert nodes(a - b) == ["Negate", "EWiseAdd"]
    assert nodes(3 - a) == ["Negate", "AddScalar"]


def test_broadcast_is_recorded_only_where_shapes_differ(tensor: Make) -> None:
    a, b = tensor(MATRIX), tensor([1.0, 2.0, 3.0])
    assert nodes(a * b) == ["BroadcastTo", "EWiseMul"]
    assert nodes(b.reshape((3, 1)) + b) == ["Reshape", "BroadcastTo", "BroadcastTo", "EWiseAdd"]
    assert nodes(a * a) == ["EWiseMul"]


def test_cast_is_recorded_only_where_dtypes_differ(tensor: Make) -> None:
    assert nodes(tensor([1.0]) * tensor([1.0], dtype="float32")) == ["Cast", "EWiseMul"]
    x = tensor([1.0])
    assert ops.astype(x, "float64") is x


def test_matmul_broadcasts_inside_its_node(tensor: Make) -> None:
    shapes = [((2, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((2, 1, 2, 3), (4, 3, 2)), ((3,), (3,)), ((2, 3), (3,))]
    for left, right in shapes:
        a, b = tensor(np.ones(left)), tensor(np.ones(right))
        out = a @ b
        assert nodes(out) == ["MatMul"]
        assert [g.shape for g in out.op.gradient_as_tuple(out, out)] == [left, right]


def test_matmul_leaves_out_the_gradient_that_nobody_needs(tensor: Make) -> None:
    a, b = tensor(MATRIX, requires_grad=False), tensor(MATRIX.T)
    out = a @ b
    assert out.op.gradient_as_tuple(out, out)[0] is None


def test_constants_beside_a_tensor_are_no_nodes(tensor: Make) -> None:
    a = tensor(MATRIX)
    for other in (np.ones((2, 3)), tensor(np.ones((2, 3))).cached_data, [[1.0, 1.0, 1.0]] * 2):
        assert nodes(a * other) == ["EWiseMul"]
    assert nodes(ops.maximum(a, 2)) == ["Maximum"]
    assert nodes(ops.maximum(2, a)) == ["Maximum"]


def test_tuples_fold(tensor: Make) -> None:
    a, b = tensor([1.0]), tensor([2.0])
    assert ops.make_tuple(a, b)[1] is b
    assert nodes(ops.split(tensor(MATRIX), 0)[1]) == ["Split", "TupleGetItem"]


def test_stack_and_split_are_each_others_gradients(tensor: Make) -> None:
    a = tensor(MATRIX)
    parts = ops.split(a, axis=1)
    assert nodes(ops.stack(parts, axis=1))[0] == "Split"
    weights = tensor(MATRIX * 2)
    assert ndl.grad((ops.stack(parts, axis=1) * weights).sum(), [a])[0].numpy().tolist() == (MATRIX * 2).tolist()


def test_transposed_with_negative_axes(tensor: Make) -> None:
    u = tensor(np.arange(6.0).reshape(2, 3))
    out = ops.transpose(u, (-1, -2)) * tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert ndl.grad(out.sum(), [u])[0].numpy().tolist() == [[1, 3, 5], [2, 4, 6]]


def test_without_gradients_results_are_leaves(tensor: Make) -> None:
    a = tensor(MATRIX, requires_grad=False)
    for out in (a + a, a.sum(), a[0], ops.split(a, 0), ops.stack([a, a]), ops.einsum("ij,kj->ik", a, a)):
        assert out.op is None and not out.requires_grad
    with ndl.no_grad():
        assert (tensor(MATRIX) * 2).op is None
