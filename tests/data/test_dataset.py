"""Data sets by index, and their transforms."""

import numpy as np
import pytest

import needle as ndl
from needle.data import CIFAR10Dataset, Dataset, Digits, ImageDataset, NDArrayDataset


def double(image):
    return image * 2


class Stored(Dataset):
    def __len__(self):
        return 3

    def read(self, index):
        return np.full(2, float(index)), index


def test_read_is_followed_by_the_transforms_in_order():
    image, label = Stored([double, lambda x: x + 1])[2]
    assert image.tolist() == [5, 5] and label == 2


def test_without_transforms_the_sample_is_as_read():
    assert Stored()[1][0].tolist() == [1, 1] == Stored([])[1][0].tolist()


@pytest.mark.parametrize("use", [len, lambda dataset: dataset[0]])
def test_a_dataset_says_what_it_lacks(use):
    with pytest.raises(NotImplementedError, match="Dataset must define"):
        use(Dataset())


def test_nd_array_dataset_takes_arrays_of_every_kind():
    data = NDArrayDataset(np.arange(6).reshape(3, 2), ndl.Tensor([4, 5, 6]), [7, 8, 9])
    assert len(data) == 3
    assert [np.asarray(entry).tolist() for entry in data[1]] == [[2, 3], 5, 8]
    assert [entry.tolist() for entry in data[1:]] == [[[2, 3], [4, 5]], [5, 6], [8, 9]]
    assert [entry.tolist() for entry in data[np.array([2, 0])]] == [[[4, 5], [0, 1]], [6, 4], [9, 7]]
    with pytest.raises(IndexError):
        data[3]


@pytest.mark.parametrize("arrays", [(), (np.ones(3), np.ones(4)), (np.float64(1),)])
def test_nd_array_dataset_needs_one_length(arrays):
    with pytest.raises(ndl.ShapeError, match="NDArrayDataset: arrays of shapes"):
        NDArrayDataset(*arrays)


@pytest.mark.parametrize("channels_first", [False, True])
def test_images_are_transformed_one_by_one_as_hwc(channels_first):
    images, seen = np.arange(5 * 4 * 3 * 2.0).reshape(5, 4, 3, 2), []

    def transform(image):
        seen.append(image.shape)
        return image * 2

    data = ImageDataset(images, np.arange(5), [transform], channels_first)
    expected = np.moveaxis(images, -1, 1) * 2 if channels_first else images * 2
    image, label = data[1]
    assert (image == expected[1]).all() and label == 1
    batch, labels = data[1:4]
    assert (batch == expected[1:4]).all() and labels.tolist() == [1, 2, 3]
    assert (data[[4, 0]][0] == expected[[4, 0]]).all()
    assert set(seen) == {(4, 3, 2)} and len(seen) == 1 + 3 + 2


def test_an_empty_slice_of_images_stays_empty():
    data = ImageDataset(np.zeros((5, 4, 3, 2)), np.arange(5), [double])
    assert data[5:][0].shape == (0, 4, 3, 2)


def test_transforms_of_a_subclass_see_samples_one_by_one():
    data = NDArrayDataset(np.arange(24.0).reshape(2, 3, 4, 1), np.arange(2))
    data.transforms = [lambda image: np.flip(image, axis=1)]
    assert (data[0:2][0] == data.arrays[0][:, :, ::-1]).all()
    (images, _) = next(iter(ndl.data.DataLoader(data, 2)))
    assert (images.numpy()[1] == data[1][0]).all()


def test_arrays_of_uneven_lists():
    with pytest.raises(ndl.ShapeError, match="NDArrayDataset: "):
        NDArrayDataset([[1], [1, 2]])


@pytest.mark.parametrize("train", ["test", "False", 1, None, [double]])
def test_train_is_a_truth_value(train, tmp_path):
    for make in (Digits, lambda train: CIFAR10Dataset(tmp_path, train)):
        with pytest.raises(ndl.DTypeError, match=r"train must be True or False, got (a |an |None)"):
            make(train)


@pytest.mark.parametrize(
    ("transforms", "fault"),
    [
        (double, "transforms must be a list of functions, got a function"),
        ("double", "transforms must be a list of functions, got a str"),
        (iter([double]), "transforms must be a list of functions, got a list_iterator"),
        ([double, 2], "transform 1 must be a function, got an int"),
    ],
)
def test_transforms_are_a_list_of_functions(transforms, fault):
    with pytest.raises(ndl.DTypeError, match=f"Stored: {fault}"):
        Stored(transforms)
    data = Digits(train=False)
    with pytest.raises(ndl.DTypeError, match=f"Digits: {fault}"):
        data.transforms = transforms


def test_a_subclass_may_leave_out_the_base_init():
    class Bare(Stored):
        def __init__(self):
            pass

    assert Bare().transforms is None and Bare()[2][1] == 2


def test_a_transform_that_gives_none_is_named():
    def forgetful(image):
        image *= 2

    with pytest.raises(ndl.DTypeError, match="Stored: the transform forgetful gave None; let it return the image"):
        Stored([forgetful])[0]


def test_what_is_printed():
    assert repr(NDArrayDataset(np.zeros((3, 2)), np.arange(3))) == "NDArrayDataset(float64 (3, 2), int64 (3,))"
    assert repr(ndl.data.DataLoader(Digits(train=False), 100)) == "DataLoader(Digits, 4 batches of 100)"


def test_a_part_is_a_data_set_like_the_whole():
    whole = ImageDataset(np.arange(8.0).reshape(4, 1, 2, 1), np.arange(4), [lambda x: -x], channels_first=True)
    for chosen in ([3, 1], np.array([False, True, False, True]), slice(1, None, 2)):
        part = whole.select(chosen)
        assert sorted(part.labels.tolist()) == [1, 3] and len(whole) == 4
        image, label = part[0]
        assert image.shape == (1, 1, 2) and image.ravel().tolist() == [-2.0 * label, -2.0 * label - 1]
