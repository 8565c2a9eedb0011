"""Every row of the table: value, gradient and second gradient, for every layout, dtype and device."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import needle as ndl
from needle import Tensor, ops
from needle import backend_ndarray as nd
from needle.testing import check_gradients
from tests.ops.parity import assert_same_as_torch
from tests.ops.table import TABLE, Row
from tests.tolerances import TOLERANCE

rows = pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)


def _contiguous(x: np.ndarray, device: Any) -> nd.NDArray:
    return nd.array(x, dtype=x.dtype, device=device)


def _permuted(x: np.ndarray, device: Any) -> nd.NDArray:
    return _contiguous(x.T, device).permute(tuple(range(x.ndim))[::-1])


def _stepped(x: np.ndarray, device: Any) -> nd.NDArray:
    roomy = np.full([2 * n + 1 for n in x.shape], 99, x.dtype)
    inside = tuple([slice(1, 2 * n + 1, 2) for n in x.shape])
    roomy[inside] = x
    return _contiguous(roomy, device)[inside]


def _reversed(x: np.ndarray, device: Any) -> nd.NDArray:
    return _contiguous(np.flip(x), device)[(slice(None, None, -1),) * x.ndim]


def _broadcast(x: np.ndarray, device: Any) -> nd.NDArray:
    return _contiguous(x[:1], device).broadcast_to(x.shape)


LAYOUTS: dict[str, Callable[[np.ndarray, Any], nd.NDArray]] = {
    "contiguous": _contiguous,
    "permuted": _permuted,
    "stepped": _stepped,
    "reversed": _reversed,
    "broadcast": _broadcast,
}


def _gradients(row: Row, tensors: list[Tensor]) -> list[np.ndarray]:
    out = row.function(*tensors)
    weight = Tensor(np.random.RandomState(3).randn(*out.shape), dtype=out.dtype, device=out.device)
    return [g.numpy() for g in ndl.grad((out * weight).sum(), tensors)]


@rows
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_value_and_gradient_of_every_layout(
    row: Row, layout: Callable[..., nd.NDArray], device: nd.BackendDevice, dtype: str
) -> None:
    arrays = row.arrays(dtype)
    views = [layout(x, device) for x in arrays]
    arrays = [view.numpy() for view in views]  # a broadcast view repeats its first row

    tensors = [Tensor.make_const(view, requires_grad=True) for view in views]
    out = row.function(*tensors)
    expected = np.asarray(row.oracle(*arrays))
    assert out.shape == expected.shape
    assert out.dtype == dtype
    np.testing.assert_allclose(out.numpy(), expected, **TOLERANCE[dtype])

    plain = [Tensor(x, dtype=dtype, device=device) for x in arrays]
    for found, wanted in zip(_gradients(row, tensors), _gradients(row, plain), strict=True):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, wanted, **TOLERANCE[dtype])

    for view, x in zip(views, arrays, strict=True):
        np.testing.assert_array_equal(view.numpy(), x, err_msg="an op changed what it was given")


@rows
def test_gradient_and_second_gradient(row: Row, tensor: Callable[..., Tensor]) -> None:
    arrays = row.arrays()
    weight = np.random.randn(*np.shape(row.oracle(*arrays)))  # an input too, so that the gradient that arrives varies
    check_gradients(lambda weight, *inputs: weight * row.function(*inputs), [*map(tensor, [weight, *arrays])])


@rows
def test_float32_gradient_is_near_float64(row: Row, tensor: Callable[..., Tensor]) -> None:
    single, double = (_gradients(row, [tensor(x, dtype=t) for x in row.arrays()]) for t in ("float32", "float64"))
    for near, exact in zip(single, double, strict=True):
        np.testing.assert_allclose(near, exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parity
@pytest.mark.parametrize("row", [row for row in TABLE if row.torch], ids=lambda row: row.name)
def test_same_as_torch(row: Row, device: nd.BackendDevice) -> None:
    assert row.torch is not None
    assert_same_as_torch(row.function, row.torch, [Tensor(x, dtype="float64", device=device) for x in row.arrays()])


def test_every_function_has_a_row() -> None:
    modules = (
        "activation cast elementwise einsum indexing join linalg reduce selection shape softmax sorting transfer tuples"
    )
    without_gradient = {"argmax"}
    functions = {
        name
        for name, value in vars(ops).items()
        if getattr(value, "__module__", "").removeprefix("needle.ops.") in modules.split() and name.islower()
    }
    assert functions - without_gradient == {row.name.partition(":")[0] for row in TABLE}
