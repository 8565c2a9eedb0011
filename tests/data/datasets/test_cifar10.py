"""CIFAR-10 folders, and pickles that must not be trusted."""

import os
import pickle

import numpy as np
import pytest

import needle as ndl
from needle.data import CIFAR10Dataset
from needle.data.datasets import plain_pickle

PIXELS = np.random.RandomState(0).randint(0, 256, (5, 4, 3072)).astype(np.uint8)
LABELS = np.arange(20).reshape(5, 4) % 10


def batch(pixels, labels, protocol=2):
    entries = {b"data": pixels, b"labels": labels.tolist(), b"filenames": [b"a.png"] * 4, b"batch_label": b"batch"}
    return pickle.dumps(entries, protocol)


@pytest.fixture
def folder(tmp_path):
    for number, (pixels, labels) in enumerate(zip(PIXELS, LABELS, strict=True), 1):
        (tmp_path / f"data_batch_{number}").write_bytes(batch(pixels, labels))
    (tmp_path / "test_batch").write_bytes(batch(PIXELS[0, :2], LABELS[0, :2]))
    return tmp_path


def test_training_and_test_images(folder):
    train, test = CIFAR10Dataset(folder, train=True), CIFAR10Dataset(folder, train=False)
    assert len(train) == 20 and len(test) == 2
    assert train.X.shape == (20, 3, 32, 32) and train.X.dtype == np.float32
    assert train.y.tolist() == LABELS.ravel().tolist()
    assert np.array_equal(train.X, PIXELS.reshape(20, 3, 32, 32).astype(np.float32) / 255)
    image, label = train[13]
    assert np.array_equal(image, train.X[13]) and label == 3
    images, labels = train[[1, 5]]
    assert images.shape == (2, 3, 32, 32) and labels.tolist() == [1, 5]


def test_transforms_see_height_width_channels(folder):
    seen = []
    data = CIFAR10Dataset(folder, True, transforms=[lambda x: (seen.append(x.shape), np.flip(x, 1))[1]])
    assert np.array_equal(data[2][0], data.X[2, :, :, ::-1]) and seen == [(32, 32, 3)]


def test_binary_version(tmp_path):
    for number in range(5):
        records = np.concatenate([LABELS[number, :, None].astype(np.uint8), PIXELS[number]], axis=1)
        (tmp_path / f"data_batch_{number + 1}.bin").write_bytes(records.tobytes())
    data = CIFAR10Dataset(tmp_path, train=True)
    assert np.array_equal(data.X, PIXELS.reshape(20, 3, 32, 32).astype(np.float32) / 255)
    assert data.y.tolist() == LABELS.ravel().tolist()
    (tmp_path / "data_batch_3.bin").write_bytes(bytes(3072))
    with pytest.raises(ndl.FileFormatError, match=r"data_batch_3\.bin: 3072 bytes are no whole number of records"):
        CIFAR10Dataset(tmp_path, train=True)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["uint8", "int64", ">f4", "bool"])
def test_plain_data_of_every_protocol(protocol, order, dtype):
    array = np.arange(12).reshape(3, 4).astype(dtype, order=order)
    data = {"array": array, b"list": [1, 2.5, b"x", "y", (None, True)], "dict": {3: b"\xff\0"}}
    got = plain_pickle.loads(pickle.dumps(data, protocol))
    assert np.array_equal(got.pop("array"), array)
    del data["array"]
    assert got == data


def test_strings_of_python_2_are_bytes():
    assert plain_pickle.loads(b"(dp0\nS'data'\np1\nS'\\xff'\np2\ns.") == {b"data": b"\xff"}


class Malicious:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("function", [os.system, eval, exec, getattr, np.load, np.zeros])
def test_a_malicious_pickle_is_refused(folder, function):
    evil = Malicious(function, f"open({str(folder / 'harmed')!r}, 'w')")
    (folder / "test_batch").write_bytes(pickle.dumps({b"data": evil, b"labels": []}))
    with pytest.raises(ndl.FileFormatError, match=rf"no pickle of plain data: it names .*{function.__name__}"):
        CIFAR10Dataset(folder, train=False)
    assert not (folder / "harmed").exists()


@pytest.mark.parametrize("array", [np.array([print]), np.zeros(2, "u1,O"), np.zeros(2, "V8"), np.array(["text"])])
def test_arrays_of_other_than_numbers_are_refused(array):
    with pytest.raises(pickle.UnpicklingError, match="no plain data"):
        plain_pickle.loads(pickle.dumps(array))


NESTED = [0]  # a small file that stands for 10**12 numbers
for _ in range(12):
    NESTED = [NESTED] * 10


def entries(**changes):
    return pickle.dumps({b"data": PIXELS[0], b"labels": [0, 1, 2, 3]} | {k.encode(): v for k, v in changes.items()})


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "no pickle of plain data"),
        (b"\x1f\x8b\x08\0 no pickle at all", "no pickle of plain data"),
        (batch(PIXELS[0], LABELS[0])[:-2000], "no pickle of plain data"),
        (pickle.dumps([1, 2, 3]), "no dict with data and labels"),
        (pickle.dumps({b"data": PIXELS[0]}), "no dict with data and labels"),
        (entries(labels=[0, 1, 2, 300]), "no dict with data and labels"),
        (entries(labels=["zero"]), "no dict with data and labels"),
        (entries(labels=[0, 1, 2]), r"data is uint8 \(4, 3072\) for labels \(3,\)"),
        (entries(labels=[0, 1, 2, 10]), "label 10 is none of CIFAR-10's"),
        (entries(data=PIXELS[0, :, :9]), r"data is uint8 \(4, 9\)"),
        (entries(data=PIXELS[0] / 255), r"data is float64 \(4, 3072\)"),
        (entries(data=[[1, 2], [3]]), r"data is a list for labels \(4,\)"),
        (entries(data=NESTED), r"data is a list for labels \(4,\)"),
        (b"\x80\x02K\x00Q.", "it refers to an object outside of it"),
    ],
)
def test_a_bad_file_gives_one_sentence(folder, content, fault):
    (folder / "test_batch").write_bytes(content)
    with pytest.raises(ndl.FileFormatError, match=fault) as caught:
        CIFAR10Dataset(folder, train=False)
    assert str(caught.value).startswith(f"{folder / 'test_batch'}: ") and "\n" not in str(caught.value)


def test_corrupt_bytes_never_run_and_never_crash(folder):
    content = bytearray(batch(PIXELS[0, :, :], LABELS[0]))
    for position in [*range(200), *range(len(content) - 200, len(content))]:
        for value in (0, ord("c"), ord("R"), 255):
            damaged = content.copy()
            damaged[position] = value
            (folder / "test_batch").write_bytes(damaged)
            try:
                CIFAR10Dataset(folder, train=False)
            except ndl.FileFormatError:
                continue


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="test_batch"):
        CIFAR10Dataset(tmp_path, train=False)
