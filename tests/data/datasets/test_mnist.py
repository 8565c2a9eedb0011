"""IDX files: plain, gzipped, and everything that can be wrong with them."""

import gzip
import struct

import numpy as np
import pytest

import needle as ndl
from needle.data import MNISTDataset


def idx(array):
    return struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


IMAGES = np.random.RandomState(0).randint(0, 256, (7, 28, 28))
LABELS = np.arange(7)


@pytest.fixture
def write(tmp_path):
    def write(images, labels, suffix=""):
        paths = tmp_path / f"images{suffix}", tmp_path / f"labels{suffix}"
        for path, content in zip(paths, (images, labels), strict=True):
            path.write_bytes(content)
        return paths

    return write


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gz"])
def test_items_slices_and_index_arrays(write, compress):
    data = MNISTDataset(*write(compress(idx(IMAGES)), compress(idx(LABELS))))
    image, label = data[3]
    assert len(data) == 7 and image.shape == (28, 28, 1) and image.dtype == np.float32 and label == 3
    assert np.array_equal(image[:, :, 0], IMAGES[3].astype(np.float32) / 255)
    for index in (slice(1, 5), np.array([6, 0, 2])):
        images, labels = data[index]
        assert images.shape == (len(labels), 28, 28, 1) and labels.tolist() == LABELS[index].tolist()


def test_transforms_are_applied(write):
    data = MNISTDataset(*write(idx(IMAGES), idx(LABELS)), transforms=[lambda x: 1 - x])
    assert np.array_equal(data[0][0][:, :, 0], 1 - IMAGES[0].astype(np.float32) / 255)


GOOD, ZIPPED = idx(IMAGES), gzip.compress(idx(IMAGES))


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "begins with nothing"),
        (b"\x89PNG\r\n\x1a\n" + bytes(99), "begins with 89504e47"),
        (idx(LABELS), "begins with 00000801, not 00000803"),
        (b"\0\0\x0d\x03" + GOOD[4:], "begins with 00000d03"),
        (GOOD[:9], "truncated inside its header, after 9 of 16 bytes"),
        (GOOD[:-1], r"truncated: 5487 bytes of data for the shape \(7, 28, 28\)"),
        (GOOD + b"\0", "too long: 5489 bytes"),
        (ZIPPED[:-9], "truncated or corrupt gzip"),
        (ZIPPED[:5], "truncated or corrupt gzip"),
        (ZIPPED[:60] + bytes(20) + ZIPPED[80:], "truncated or corrupt gzip"),
        (ZIPPED[:-8] + bytes(8), "truncated or corrupt gzip"),
        (gzip.compress(GOOD[:-1]), "truncated: 5487 bytes"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "truncated: 0 bytes of data for the shape"),
    ],
)
def test_a_bad_file_gives_one_sentence(write, content, fault):
    paths = write(content, idx(LABELS))
    with pytest.raises(ndl.FileFormatError, match=fault) as caught:
        MNISTDataset(*paths)
    assert str(caught.value).startswith(f"{paths[0]}: ") and "\n" not in str(caught.value)


def test_images_and_labels_must_belong_together(write):
    with pytest.raises(ndl.FileFormatError, match="labels: 6 labels for the 7 images of"):
        MNISTDataset(*write(idx(IMAGES), idx(LABELS[:6])))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing-here"):
        MNISTDataset(tmp_path / "nothing-here", tmp_path / "labels")
