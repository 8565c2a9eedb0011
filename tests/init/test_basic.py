"""needle.init.basic beyond INTERFACE: kinds of arguments, errors."""

import numpy as np
import pytest

import needle as ndl
from needle import init
from needle.errors import BoundsError, DeviceError, DTypeError, ShapeError


def test_one_row_per_id_whatever_the_shape(device):
    rows = init.one_hot(3, ndl.Tensor([[0, 2], [1, 1]], device=device))
    assert rows.shape == (2, 2, 3)
    assert rows.device == device
    assert rows.numpy().argmax(-1).tolist() == [[0, 2], [1, 1]]
    assert not rows.requires_grad


@pytest.mark.parametrize("ids, error, said", [([0, 3], BoundsError, r"3.*\(1,\)"), ([0.5], DTypeError, "whole")])
def test_one_hot_names_the_wrong_id(ids, error, said):
    with pytest.raises(error, match=f"one_hot: .*{said}"):
        init.one_hot(3, ndl.Tensor(ids))


@pytest.mark.parametrize("p, mean", [(0.0, 0.0), (1.0, 1.0), (0.3, 0.3)])
def test_randb_is_true_with_probability_p(device, p, mean):
    drawn = init.randb(10_000, p=p, device=device)
    assert drawn.dtype == "bool"
    assert abs(drawn.numpy().mean() - mean) < 0.02


def test_seed_fixes_every_draw(device):
    draws = [init.rand, init.randn, init.randb]
    ndl.manual_seed(3)
    first = [draw(4, device=device).numpy() for draw in draws]
    ndl.manual_seed(3)
    assert all((draw(4, device=device).numpy() == a).all() for draw, a in zip(draws, first, strict=True))


def test_no_shape_is_a_number(device):
    assert init.zeros(device=device).shape == init.rand(device=device).shape == ()
    assert init.ones(0, 3, device=device).shape == (0, 3)


def test_negative_length():
    with pytest.raises(ShapeError, match="negative"):
        init.zeros(-1)
    with pytest.raises(ValueError, match="negative"):
        init.rand(-1)


def test_like_follows_the_array(device):
    array = init.rand(2, 3, device=device, dtype="float64").cached_data
    made = init.ones_like(array, requires_grad=True)
    assert (made.shape, made.dtype, made.device, made.requires_grad) == ((2, 3), np.float64, device, True)


def test_one_hot_of_what_numpy_takes(device):
    for ids in (np.array([2, 0]), np.array([2.0, 0.0]), [2, 0], np.array([2, 0], dtype=np.uint8)):
        assert init.one_hot(3, ids, device=device).numpy().tolist() == [[0, 0, 1], [1, 0, 0]]
        assert init.one_hot(3, ids).device == ndl.default_device()  # not that of the ndarray, which NumPy 2 calls "cpu"
    assert init.one_hot(3, np.zeros((2, 0)), device=device).shape == (2, 0, 3)
    assert init.one_hot(0, [], device=device).shape == (0, 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ndl.Tensor([1.0], device="cpu"),
        lambda: ndl.Tensor(ndl.Tensor([1.0]), device="cpu"),
        lambda: ndl.backend_ndarray.array([1.0], device="cpu"),
        lambda: ndl.backend_ndarray.empty((1,), device="cpu"),
        lambda: ndl.backend_ndarray.full((1,), 0, device="cpu"),
        lambda: ndl.backend_ndarray.array([1.0]).to("cpu"),
        lambda: init.ones(1, device="cpu"),
        lambda: init.rand(1, device="cpu"),
        lambda: init.randb(1, device="cpu"),
        lambda: init.one_hot(1, [0], device="cpu"),
    ],
)
def test_a_name_is_no_device(make):
    with pytest.raises(DeviceError, match="'cpu' is no device"):
        make()
