"""Every op at shapes, layouts and arguments that hypothesis draws: against NumPy, and by central differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import needle as ndl
from needle import Tensor
from needle.testing import check_gradients
from tests.backend_ndarray.strategies import laid_out
from tests.devices import DEVICES, DTYPES
from tests.ops.drawn_rows import FAMILIES
from tests.ops.table import Row
from tests.tolerances import TOLERANCE, assert_close

NEAR_FLOAT64 = {"float32": {"rtol": 1e-4, "atol": 1e-5}, "float64": TOLERANCE["float64"]}


def gradients(row: Row, inputs: list[Tensor]) -> list[np.ndarray]:
    out = row.function(*inputs)
    weight = Tensor(np.random.RandomState(3).randn(*out.shape), dtype=out.dtype, device=out.device)
    return [g.numpy() for g in ndl.grad((out * weight).sum(), inputs)]


@pytest.mark.parametrize("family", FAMILIES)
@given(st.data())
def test_op(family: str, data: st.DataObject) -> None:
    row = data.draw(FAMILIES[family])
    device, dtype = data.draw(st.sampled_from(DEVICES)), data.draw(st.sampled_from(DTYPES))

    views, arrays = zip(*[data.draw(laid_out(x, device)) for x in row.arrays(dtype)])
    inputs = [Tensor.make_const(view, requires_grad=True) for view in views]
    out, expected = row.function(*inputs), np.asarray(row.oracle(*arrays))
    assert out.dtype == dtype
    np.testing.assert_allclose(out.numpy(), expected, **TOLERANCE[dtype])
    assert out.shape == expected.shape

    reference = [Tensor(x, dtype="float64", device=ndl.cpu_numpy()) for x in arrays]
    for found, wanted in zip(gradients(row, inputs), gradients(row, reference)):
        assert_close(found, wanted, **NEAR_FLOAT64[dtype])
    for view, x in zip(views, arrays):
        np.testing.assert_array_equal(view.numpy(), x, err_msg="an op changed what it was given")

    check_gradients(row.function, [Tensor(x, dtype="float64", device=device) for x in row.arrays()])
