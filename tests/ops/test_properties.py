"""Indexing, broadcasting and reductions against NumPy, for shapes, axes and indices that hypothesis draws."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import needle as ndl
from needle import Tensor, ops
from tests.devices import DEVICES
from tests.tolerances import TOLERANCE

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
few = settings(max_examples=80, deadline=None, derandomize=True)


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.RandomState(5).permutation(np.arange(1.0, np.prod(shape, dtype=int) + 1)).reshape(shape)


def tensor(x: Any, device: Any) -> Tensor:
    return Tensor(x, dtype="float64", device=device)


def gradient(out: Tensor, *inputs: Tensor) -> list[np.ndarray]:
    weights = tensor(numbers(out.shape), out.device)
    return [g.numpy() for g in ndl.grad((out * weights).sum(), inputs)]


def same(found: Any, expected: Any) -> None:
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, **TOLERANCE["float64"])


def check_index(x: np.ndarray, index: Any) -> None:
    for device in DEVICES:
        a = tensor(x, device)
        out = a[index]
        same(out.numpy(), x[index])
        expected = np.zeros_like(x)
        np.add.at(expected, index, numbers(out.shape))
        same(gradient(out, a)[0], expected)


@few
@given(st.data())
def test_basic_indices(data: st.DataObject) -> None:
    x = numbers(data.draw(SHAPES))
    check_index(x, data.draw(hnp.basic_indices(x.shape, allow_newaxis=True)))


@few
@given(st.data())
def test_integer_arrays(data: st.DataObject) -> None:
    x = numbers(data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=4)))
    axis = data.draw(st.integers(0, x.ndim - 1))
    n = x.shape[axis]
    places = data.draw(hnp.arrays(np.int64, hnp.array_shapes(max_dims=2, max_side=3), elements=st.integers(-n, n - 1)))
    check_index(x, (*[slice(None)] * axis, places))
    check_index(x, data.draw(hnp.integer_array_indices(x.shape, result_shape=hnp.array_shapes(max_dims=2, max_side=3))))
    for device in DEVICES:
        same(ops.take(tensor(x, device), places, axis).numpy(), np.take(x, places, axis))


@few
@given(st.data())
def test_boolean_masks(data: st.DataObject) -> None:
    x = numbers(data.draw(SHAPES.filter(len)))
    masked_axes = data.draw(st.integers(1, x.ndim))
    check_index(x, data.draw(hnp.arrays(bool, x.shape[:masked_axes])))


@few
@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, min_side=0, max_side=3))
def test_operands_broadcast(shapes: hnp.BroadcastableShapes) -> None:
    x, y = map(numbers, shapes.input_shapes)
    for device in DEVICES:
        a, b = tensor(x, device), tensor(y, device)
        for ours, theirs in ((ops.multiply, np.multiply), (ops.maximum, np.maximum), (ops.sub, np.subtract)):
            same(ours(a, b).numpy(), theirs(x, y))
        out = a * b
        weights = numbers(out.shape)
        same(
            gradient(out, a, b)[0], ops.sum_to(tensor(weights * np.broadcast_to(y, out.shape), device), x.shape).numpy()
        )
        assert [g.shape for g in gradient(ops.minimum(a, b), a, b)] == [x.shape, y.shape]


@few
@given(st.data())
def test_reductions(data: st.DataObject) -> None:
    x = numbers(data.draw(hnp.array_shapes(min_dims=0, max_dims=4, max_side=3)))
    axes = data.draw(st.none() | hnp.valid_tuple_axes(x.ndim)) if x.ndim else None
    keepdims = data.draw(st.booleans())
    for device in DEVICES:
        a = tensor(x, device)
        for ours, theirs in ((ops.summation, np.sum), (ops.mean, np.mean), (ops.max, np.max), (ops.min, np.min)):
            out = ours(a, axes, keepdims)
            same(out.numpy(), theirs(x, axis=axes, keepdims=keepdims))
            (found,) = gradient(out, a)
            if ours is not ops.mean:  # each weight arrives once, or at each element of its sum
                ones = 1 if ours is not ops.summation else x.size // max(out.size, 1)
                same(found.sum(), numbers(out.shape).sum() * ones)


@few
@given(hnp.mutually_broadcastable_shapes(signature="(m?,n),(n,p?)->(m?,p?)", max_dims=2, max_side=3))
def test_matmul(shapes: hnp.BroadcastableShapes) -> None:
    x, y = map(numbers, shapes.input_shapes)
    for device in DEVICES:
        a, b = tensor(x, device), tensor(y, device)
        out = a @ b
        same(out.numpy(), x @ y)
        to_a, to_b = gradient(out, a, b)
        assert (to_a.shape, to_b.shape) == (x.shape, y.shape)
        total = (numbers(out.shape) * out.numpy()).sum()  # the product is linear in each operand
        same((to_a * x).sum(), total)
        same((to_b * y).sum(), total)


@few
@given(st.data())
def test_stack_split_concatenate(data: st.DataObject) -> None:
    x = numbers(data.draw(hnp.array_shapes(max_dims=3, max_side=3)))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    for device in DEVICES:
        a = tensor(x, device)
        same(ops.stack(ops.split(a, axis), axis).numpy(), x)
        joined = ops.concatenate([a, a * 2], axis)
        same(joined.numpy(), np.concatenate([x, x * 2], axis))
        first, second = np.split(numbers(joined.shape), 2, axis)
        same(gradient(joined, a)[0], first + 2 * second)
