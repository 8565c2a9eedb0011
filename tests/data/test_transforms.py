"""Random transforms: what they draw, in which order, and what they do to the image."""

import numpy as np
import pytest

import needle as ndl
from needle.data import Cutout, RandomCrop, RandomFlipHorizontal, Transform

IMAGE = np.arange(1.0, 5 * 4 * 2 + 1).reshape(5, 4, 2)


@pytest.mark.parametrize("p", [0, 0.5, 1])
def test_flip_mirrors_axis_1_where_rand_is_below_p(p):
    np.random.seed(5)
    flipped = [RandomFlipHorizontal(p)(IMAGE) for _ in range(20)]
    np.random.seed(5)
    for image in flipped:
        expected = IMAGE[:, ::-1] if np.random.rand() < p else IMAGE
        assert (image == expected).all()


@pytest.mark.parametrize("padding", [0, 1, 3, 7])
def test_crop_shifts_and_fills_with_zeros(padding):
    np.random.seed(6)
    cropped = [RandomCrop(padding)(IMAGE) for _ in range(30)]
    np.random.seed(6)
    for image in cropped:
        shift_x, shift_y = np.random.randint(low=-padding, high=padding + 1, size=2)
        expected = np.zeros_like(IMAGE)
        for i in range(5):
            for j in range(4):
                if 0 <= i + shift_x < 5 and 0 <= j + shift_y < 4:
                    expected[i, j] = IMAGE[i + shift_x, j + shift_y]
        assert (image == expected).all() and image.dtype == IMAGE.dtype


@pytest.mark.parametrize("size", [1, 2, 3, 20])
def test_cutout_clears_a_square_around_a_pixel(size):
    np.random.seed(7)
    cut = [Cutout(size)(IMAGE) for _ in range(30)]
    np.random.seed(7)
    for image in cut:
        top, left = np.random.randint(5) - size // 2, np.random.randint(4) - size // 2
        inside = [[top <= i < top + size and left <= j < left + size for j in range(4)] for i in range(5)]
        assert (image == np.where(np.array(inside)[:, :, None], 0, IMAGE)).all()


@pytest.mark.parametrize("transform", [RandomFlipHorizontal(0.5), RandomCrop(2), Cutout(2)])
def test_the_image_handed_in_stays_as_it_is(transform):
    image = IMAGE.copy()
    for _ in range(10):
        transform(image)
    assert (image == IMAGE).all()


def test_reprs_name_the_setting():
    assert repr(RandomCrop(2)) == "RandomCrop(padding=2)"
    assert repr(RandomFlipHorizontal()) == "RandomFlipHorizontal(p=0.5)"


def test_wrong_settings_raise():
    with pytest.raises(ndl.OptionError, match=r"RandomFlipHorizontal: p must be between 0 and 1, got 1\.5"):
        RandomFlipHorizontal(1.5)
    with pytest.raises(ndl.DTypeError, match="RandomFlipHorizontal: p must be a number, got a str"):
        RandomFlipHorizontal("half")
    with pytest.raises(ndl.ShapeError, match="padding must be at least 0, got -1"):
        RandomCrop(-1)
    with pytest.raises(ndl.DTypeError, match="padding must be a whole number"):
        RandomCrop(1.5)
    with pytest.raises(ndl.ShapeError, match="Cutout: size must be at least 1, got 0"):
        Cutout(0)
    with pytest.raises(NotImplementedError, match="Transform must define __call__"):
        Transform()(IMAGE)


@pytest.mark.parametrize("transform", [RandomFlipHorizontal(1), RandomCrop(2), Cutout(2)])
@pytest.mark.parametrize("shape", [(3,), (2, 3, 4, 1)])
def test_what_is_no_image_raises(transform, shape):
    with pytest.raises(ndl.ShapeError, match=rf"{type(transform).__name__}: an image has the axes H,W"):
        transform(np.ones(shape))
