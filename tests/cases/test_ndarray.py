"""CASES.md, section NA: NDArray."""

import numpy as np
import pytest

import needle as ndl
from needle import backend_ndarray as nd
from needle import nn, ops
from tests.tolerances import assert_close


def test_na01_reshape_after_permute(array):
    assert array([[0.0, 1], [2, 3]]).permute((1, 0)).reshape((2, 2)).numpy().tolist() == [[0, 2], [1, 3]]


def test_na03_flipped_numpy_input(tensor):
    image = np.arange(24.0).reshape(2, 3, 4)
    flipped = image[:, :, ::-1]
    copy = tensor(flipped)
    assert tensor(np.flip([1, 34])).numpy().tolist() == [34, 1]
    assert_close(copy, flipped)
    image[...] = 0
    assert copy.numpy().any()


@pytest.mark.parametrize("item", [slice(2, 100), slice(-100, 2), slice(5, 2), slice(100, 200), slice(None, -100)])
def test_na05_slice_bounds_are_clamped(array, item):
    assert array(np.arange(10.0))[item].numpy().tolist() == list(range(10))[item]


def test_na08_window_view_aliases_as_documented(array):
    base = array(np.arange(5.0))
    windows = base.as_strided((3, 3), (1, 1))
    windows[1, :] = 9.0
    assert base.numpy().tolist() == [0, 9, 9, 9, 4]
    assert windows.numpy().tolist() == [[0, 9, 9], [9, 9, 9], [9, 9, 4]]
    assert "Writing through it changes each place" in nd.NDArray.as_strided.__doc__


def test_na08_conv_leaves_its_inputs_alone(tensor):
    x, w = tensor(np.random.randn(1, 5, 5, 2)), tensor(np.random.randn(3, 3, 2, 2))
    before = x.numpy(), w.numpy()
    ops.conv(x, w, stride=2, padding=1).backward()
    assert (x.numpy() == before[0]).all() and (w.numpy() == before[1]).all()


def test_na10_reductions_of_empty_arrays(array):
    assert array(np.zeros((0, 3))).sum(axis=0).numpy().tolist() == [0, 0, 0]
    assert array(np.zeros((0, 4))).max(axis=1).shape == (0,)
    with pytest.raises(ValueError, match=r"max: .*\(0, 4\)"):
        array(np.zeros((0, 4))).max(axis=0)


def test_na12_axes(array):
    a = array(np.arange(24.0).reshape(2, 3, 4))
    assert a.sum(axis=(-1, 0)).numpy().tolist() == [60, 92, 124]
    assert a.max(axis=(0, 2), keepdims=True).shape == (1, 3, 1)


@pytest.mark.parametrize("axes", [(1, -1), (3,), (0, -3)])
@pytest.mark.parametrize(
    "name, function",
    [
        ("sum", lambda t, axes: t.cached_data.sum(axis=axes)),
        ("max", lambda t, axes: t.cached_data.max(axis=axes)),
        ("sum", ops.summation),
        ("max", ops.max),
        ("mean", ops.mean),
        ("logsumexp", ops.logsumexp),
        ("flip", ops.flip),
        ("flip", lambda t, axes: t.cached_data.flip(axes)),
        ("transpose", lambda t, axes: ops.transpose(t, axes if len(axes) == 2 else (0, 3))),
        ("permute", lambda t, axes: t.cached_data.permute(axes if len(axes) == 2 else (0, 3))),
    ],
)
def test_na12_wrong_axes(tensor, name, function, axes):
    with pytest.raises(ValueError, match=rf"(?i){name}.*: "):
        function(tensor(np.ones((2, 3))), axes)


def test_na13_long_float32_sum(array):
    total = array(np.full(1_000_000, np.float32(1 / 255)), dtype="float32").sum()
    assert_close(float(total.numpy().item()), 3921.5689, rtol=0, atol=0.01)


def test_na15_sizes_are_64_bit(array):
    assert array([[[1.0]]]).broadcast_to((1, 46342, 46341)).size == 2147534622


@pytest.mark.parametrize("shape", [(1 << 25, 1 << 25), (1 << 40, 1 << 40)])
def test_na15_too_large_an_allocation(device, array, shape):
    image = array([[[[1.0]]]]).broadcast_to((1, *shape, 1))
    for allocate in (
        lambda: nd.empty(shape, device=device),
        lambda: device.full(shape, 1.0),
        lambda: image.compact(),
        lambda: ops.conv(ndl.Tensor.make_const(image), ndl.Tensor(np.ones((3, 3, 1, 1)), device=device)),
    ):
        with pytest.raises(MemoryError):
            allocate()


@pytest.mark.parametrize("optimizer", [ndl.optim.SGD, ndl.optim.Adam, ndl.optim.AdamW])
def test_na17_float32_stays(device, optimizer):
    model = nn.Sequential(
        nn.Linear(3, 4, device=device), nn.BatchNorm1d(4, device=device), nn.Linear(4, 2, device=device)
    )
    opt = optimizer(model.parameters(), lr=0.1, weight_decay=0.01)
    loss = nn.SoftmaxLoss()(model(ndl.Tensor(np.ones((2, 3)), device=device)), ndl.Tensor([0, 1], device=device))
    loss.backward()
    opt.step()
    state = [value for value in vars(opt).values() if isinstance(value, dict)]
    kept = [entry for entries in state for entry in entries.values() if isinstance(entry, ndl.Tensor | nd.NDArray)]
    for value in [*model.parameters(), *(p.grad for p in model.parameters()), *kept, loss]:
        assert value.dtype == "float32"


@pytest.mark.parametrize(
    "op, function, shapes",
    [
        ("add", lambda x: x((2, 3)) + x((4, 5)), ["(2, 3)", "(4, 5)"]),
        ("matmul", lambda x: x((2, 3)) @ x((4, 5)), ["(2, 3)", "(4, 5)"]),
        ("reshape", lambda x: x((6,)).reshape((4, 2)), ["(6,)", "(4, 2)"]),
        ("broadcast_to", lambda x: x((3,)).broadcast_to((4,)), ["(3,)", "(4,)"]),
    ],
)
@pytest.mark.parametrize("kind", ["tensor", "array"])
def test_na20_errors_show_op_and_shapes(tensor, array, kind, op, function, shapes):
    make = tensor if kind == "tensor" else array
    with pytest.raises(ValueError) as caught:
        function(lambda shape: make(np.ones(shape)))
    assert op in str(caught.value)
    for shape in shapes:
        assert shape in str(caught.value)
