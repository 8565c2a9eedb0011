"""The embedded digits and their split."""

import numpy as np
import pytest

from needle.data import Digits


def test_sizes_values_and_types():
    train, test = Digits(train=True), Digits(train=False)
    assert len(train) == 1442 and len(test) == 355
    image, label = train[0]
    assert image.shape == (1, 8, 8) and image.dtype == np.float32 and label == 0
    assert train.images.shape == (1442, 8, 8, 1)
    levels = np.unique(train.images * 16)
    assert levels.tolist() == list(range(17))
    assert np.bincount(test.labels).sum() == 355 and np.bincount(test.labels).min() >= 34


def test_every_fifth_example_of_a_class_is_for_testing():
    """The first ten digits of the file are 0..9 twice and a half; the split keeps the order within a class."""
    train, test = Digits(train=True), Digits(train=False)
    for digit in range(10):
        kept, held_out = np.sum(train.labels == digit), np.sum(test.labels == digit)
        assert held_out == (kept + held_out) // 5
    assert train.labels[:20].tolist() == [*range(10), *range(10)]


def test_known_pixels():
    image, label = Digits()[0]
    assert (image[0, 0] * 16).tolist() == [0, 0, 5, 13, 9, 1, 0, 0] and label == 0


def test_transforms_see_height_width_channels():
    image, _ = Digits(transforms=[lambda x: x[:4]])[0]
    assert image.shape == (1, 4, 8)


def test_the_file_needs_no_pickle(monkeypatch):
    monkeypatch.setattr("pickle.loads", pytest.fail)
    monkeypatch.setattr("pickle.load", pytest.fail)
    Digits()
