"""INTERFACE.md, "data"."""

import gzip
import pickle
import struct

import numpy as np
import pytest

import needle as ndl
from needle import backend_ndarray as nd
from needle.data import (
    CIFAR10Dataset,
    Corpus,
    DataLoader,
    Dataset,
    Dictionary,
    MNISTDataset,
    NDArrayDataset,
    RandomCrop,
    RandomFlipHorizontal,
    batchify,
    get_batch,
)  # fmt: skip


class Squares(Dataset):
    def __init__(self, n, transforms=None):
        super().__init__(transforms)
        self.n = n

    def __getitem__(self, index):
        return self.apply_transforms(np.array([index])), np.array([index**2])

    def __len__(self):
        return self.n


def test_transforms_in_order():
    data = Squares(3, [lambda x: x + 1, lambda x: x * 10])
    assert data[2][0].tolist() == [30]
    assert Squares(3)[2][0].tolist() == [2]


def test_loader_gives_tuples_of_constant_tensors():
    loader = DataLoader(Squares(5), batch_size=2)
    batches = list(loader)
    assert len(loader) == len(batches) == 3
    for batch in batches:
        assert isinstance(batch, tuple)
        for part in batch:
            assert isinstance(part, ndl.Tensor)
            assert part.requires_grad is False
    assert [x.numpy().ravel().tolist() for x, _ in batches] == [[0, 1], [2, 3], [4]]
    assert batches[1][1].numpy().ravel().tolist() == [4, 9]
    assert batches[0][0].dtype == "float32"
    assert len(list(DataLoader(Squares(3)))) == 3
    assert [len(x) for x, _ in DataLoader(Squares(5), batch_size=2, drop_last=True)] == [2, 2]


def test_iterators_are_independent():
    loader = DataLoader(Squares(3), batch_size=1)
    pairs = [(int(a.item()), int(b.item())) for a, _ in loader for b, _ in loader]
    assert pairs == [(i, j) for i in range(3) for j in range(3)]


def test_permutation_is_drawn_by_iter():
    loader = DataLoader(NDArrayDataset(np.arange(50)), batch_size=50, shuffle=True)
    np.random.seed(3)
    orders = [next(iter(loader))[0].numpy().astype(int).tolist() for _ in range(2)]
    assert orders[0] != orders[1]
    np.random.seed(3)
    first, second = iter(loader), iter(loader)
    drawn = np.random.rand()
    assert [next(first)[0].numpy().astype(int).tolist(), next(second)[0].numpy().astype(int).tolist()] == orders
    np.random.seed(3)
    np.random.permutation(50), np.random.permutation(50)
    assert drawn == np.random.rand(), "two permutations and nothing else"


def test_ndarray_dataset():
    data = NDArrayDataset(np.arange(6).reshape(3, 2), np.arange(3))
    assert len(data) == 3
    image, label = data[1]
    assert np.asarray(image).tolist() == [2, 3]
    assert int(label) == 1


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0])
def test_random_flip(p):
    image = np.random.rand(5, 4, 3)
    for seed in range(6):
        np.random.seed(seed)
        flipped = np.random.rand() < p
        np.random.seed(seed)
        result = RandomFlipHorizontal(p)(image)
        assert (result == (image[:, ::-1] if flipped else image)).all()


@pytest.mark.parametrize("padding", [0, 1, 3, 9])
def test_random_crop(padding):
    image = np.random.rand(5, 6, 3)
    for seed in range(6):
        np.random.seed(seed)
        shift_x, shift_y = np.random.randint(-padding, padding + 1, size=2)
        expected = np.zeros_like(image)
        for i in range(5):
            for j in range(6):
                if 0 <= i + shift_x < 5 and 0 <= j + shift_y < 6:
                    expected[i, j] = image[i + shift_x, j + shift_y]
        np.random.seed(seed)
        assert (RandomCrop(padding)(image) == expected).all()


@pytest.fixture
def mnist_files(tmp_path):
    pixels, labels = np.random.randint(0, 256, (7, 28, 28), "uint8"), np.arange(7, dtype="uint8")
    names = str(tmp_path / "images.gz"), str(tmp_path / "labels.gz")
    with gzip.open(names[0], "wb") as file:
        file.write(struct.pack(">4i", 2051, 7, 28, 28) + pixels.tobytes())
    with gzip.open(names[1], "wb") as file:
        file.write(struct.pack(">2i", 2049, 7) + labels.tobytes())
    return *names, pixels


def test_mnist(mnist_files):
    images, labels, pixels = mnist_files
    data = MNISTDataset(images, labels)
    expected = (pixels / 255).astype("float32")[..., None]
    assert len(data) == 7
    image, label = data[3]
    assert (image.shape, image.dtype, int(label)) == ((28, 28, 1), np.float32, 3)
    np.testing.assert_allclose(image, expected[3], rtol=1e-6)
    for index in (slice(1, 4), np.array([6, 0])):
        many, some = data[index]
        assert many.shape == (len(some), 28, 28, 1)
        np.testing.assert_allclose(many, expected[index], rtol=1e-6)
        assert np.asarray(some).tolist() == np.arange(7)[index].tolist()
    np.random.seed(0)
    shifted = MNISTDataset(images, labels, transforms=[RandomCrop(9)])[3][0]
    np.random.seed(0)
    assert (shifted == RandomCrop(9)(data[3][0])).all()


def test_mnist_in_a_loader(mnist_files):
    (x, y), *_ = DataLoader(MNISTDataset(*mnist_files[:2]), batch_size=4)
    assert (x.shape, y.shape, x.dtype, y.dtype) == ((4, 28, 28, 1), (4,), "float32", "float32")


@pytest.fixture
def cifar_folder(tmp_path):
    batches = {f"data_batch_{i}": 10 for i in range(1, 6)} | {"test_batch": 6}
    for name, count in batches.items():
        content = {
            b"data": np.random.randint(0, 256, (count, 3072), "uint8"),
            b"labels": [i % 10 for i in range(count)],
        }
        (tmp_path / name).write_bytes(pickle.dumps(content, protocol=2))
    return tmp_path


def test_cifar10(cifar_folder):
    train, test = (CIFAR10Dataset(str(cifar_folder), train=flag) for flag in (True, False))
    assert (train.X.shape, len(train), len(test)) == ((50, 3, 32, 32), 50, 6)
    assert train.X.min() >= 0
    assert 0.9 < train.X.max() <= 1
    assert len(train.y) == 50
    stored = pickle.loads((cifar_folder / "data_batch_2").read_bytes())[b"data"]
    np.testing.assert_allclose(train.X[13], stored[3].reshape(3, 32, 32) / 255, rtol=1e-6)
    image, label = train[13]
    assert image.shape == (3, 32, 32)
    assert int(label) == 3
    np.testing.assert_allclose(image, train.X[13])


def test_cifar10_transforms_see_height_width_channels(cifar_folder):
    seen = []
    data = CIFAR10Dataset(str(cifar_folder), train=False, transforms=[lambda image: seen.append(image.shape) or image])
    assert data[2][0].shape == (3, 32, 32)
    assert seen == [(32, 32, 3)]
    x, _ = next(iter(DataLoader(data, batch_size=3)))
    assert x.shape == (3, 3, 32, 32)


def test_a_sample_of_cifar10_as_the_course_checks_it(cifar_folder, device):
    data = CIFAR10Dataset(str(cifar_folder), train=True)
    sample = data[np.random.randint(len(data))]
    assert isinstance(sample, tuple)
    assert isinstance(sample[0], np.ndarray)
    x, y = next(iter(DataLoader(data, 15, device=device)))
    assert isinstance(x, ndl.Tensor)
    assert isinstance(y, ndl.Tensor)
    assert isinstance(x.cached_data, nd.NDArray)
    assert (x.shape, x.dtype, x.device) == ((15, 3, 32, 32), "float32", device)


def test_draws_of_transforms_are_in_item_order_also_when_reading_ahead():
    images = NDArrayDataset(np.random.rand(9, 4, 4, 1), np.arange(9))
    images.transforms = [RandomCrop(2), RandomFlipHorizontal()]

    def epoch(prefetch):
        np.random.seed(1)
        return [x.numpy().tobytes() for x, _ in DataLoader(images, 2, shuffle=True, prefetch=prefetch)]

    np.random.seed(1)
    order = np.random.permutation(9)
    crop, flip = RandomCrop(2), RandomFlipHorizontal()
    expected = [np.stack([flip(crop(images.arrays[0][i])) for i in order[k : k + 2]]) for k in range(0, 9, 2)]
    assert epoch(0) == epoch(3) == [batch.astype("float32").tobytes() for batch in expected]


def test_names():
    for name in (
        "Dataset", "DataLoader", "RandomFlipHorizontal", "RandomCrop", "MNISTDataset", "CIFAR10Dataset",
        "NDArrayDataset", "Dictionary", "Corpus", "batchify", "get_batch",
    ):  # fmt: skip
        assert getattr(ndl.data, name).__name__ == name
    for name in ("MNISTDataset", "CIFAR10Dataset", "Dictionary", "Corpus", "batchify", "get_batch"):
        assert getattr(ndl.data.datasets, name) is getattr(ndl.data, name)


def test_dictionary():
    dictionary = Dictionary()
    assert [dictionary.add_word(word) for word in ("to", "be", "to")] == [0, 1, 0]
    assert (dictionary.word2idx, dictionary.idx2word, len(dictionary)) == ({"to": 0, "be": 1}, ["to", "be"], 2)


@pytest.fixture
def text_folder(tmp_path):
    words = [f"w{i}" for i in range(40)]
    for name, count in (("train.txt", 60), ("test.txt", 30)):
        lines = [" ".join(np.random.choice(words, 9)) for _ in range(count)]
        (tmp_path / name).write_text("".join(f" {line} \n" for line in lines))
    return tmp_path


def test_corpus(text_folder):
    corpus = Corpus(str(text_folder))
    for name in ("train", "test"):
        ids, lines = getattr(corpus, name), (text_folder / f"{name}.txt").read_text().splitlines()
        assert type(ids) is list
        assert type(ids[0]) is int
        assert [corpus.dictionary.idx2word[i] for i in ids] == " ".join(f"{line} <eos>" for line in lines).split()
    assert len(corpus.dictionary) == 41
    few = Corpus(str(text_folder), max_lines=20)
    assert (len(few.train), len(few.test)) == (200, 200)
    assert few.train == corpus.train[:200]


def test_batchify():
    data = list(np.random.randint(0, 9, 103))
    batches = batchify(data, 10, device=ndl.default_device(), dtype="float32")
    assert type(batches) is np.ndarray
    assert batches.dtype == "float32"
    assert (batches == np.array(data[:100]).reshape(10, 10).T).all()


@pytest.mark.parametrize("batch_size", [1, 15])
@pytest.mark.parametrize("bptt", [3, 32])
@pytest.mark.parametrize("part", ["train", "test"])
def test_get_batch_as_the_course_checks_it(text_folder, batch_size, bptt, part, device):
    corpus = Corpus(str(text_folder))
    data = batchify(getattr(corpus, part), batch_size, device=device, dtype="float32")
    for i in (0, len(data) // 2, len(data) - 2):
        x, y = get_batch(data, i, bptt, device=device)
        n = min(bptt, len(data) - 1 - i)
        assert (x.shape, y.shape) == ((n, batch_size), (n * batch_size,))
        assert (x.numpy() == data[i : i + n]).all()
        assert (y.numpy() == data[i + 1 : i + 1 + n].flatten()).all()
        for tensor in (x, y):
            assert isinstance(tensor, ndl.Tensor)
            assert isinstance(tensor.cached_data, nd.NDArray)
            assert (tensor.dtype, tensor.device) == ("float32", device)
    assert get_batch(data, 0, 2, device, "float64")[0].dtype == "float64"
