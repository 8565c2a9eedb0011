"""Batches: sizes, order, shuffling, reading ahead, errors."""

import gc
import threading
import time

import numpy as np
import pytest

import needle as ndl
from needle.data import DataLoader, Dataset, Digits, ImageDataset, NDArrayDataset, RandomCrop, RandomFlipHorizontal


class Items(Dataset):
    """Items read one by one, which remember the threads they were read in."""

    def __init__(self, size=10, transforms=None, fail_at=None):
        super().__init__(transforms)
        self.size, self.fail_at, self.reads = size, fail_at, []

    def __len__(self):
        return self.size

    def read(self, index):
        self.reads.append((index, threading.current_thread().name))
        if index == self.fail_at:
            raise OSError(f"item {index} cannot be read")
        return np.full((2, 2, 1), float(index)), index


def values(loader):
    return [batch[-1].numpy().astype(int).tolist() for batch in loader]


def loader_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("needle-loader")]


@pytest.mark.parametrize("prefetch", [0, 1, 3, 50])
@pytest.mark.parametrize("make", [Items, lambda n: NDArrayDataset(np.zeros((n, 2)), np.arange(n))])
@pytest.mark.parametrize(("size", "batch_size"), [(10, 3), (9, 3), (2, 3), (1, 1), (0, 3)])
def test_batches_come_whole_and_in_order(prefetch, make, size, batch_size):
    expected = [list(range(size))[start : start + batch_size] for start in range(0, size, batch_size)]
    loader = DataLoader(make(size), batch_size, prefetch=prefetch)
    assert len(loader) == len(expected) and values(loader) == expected
    dropping = DataLoader(make(size), batch_size, drop_last=True, prefetch=prefetch)
    whole = [batch for batch in expected if len(batch) == batch_size]
    assert len(dropping) == len(whole) and values(dropping) == whole


def test_batches_are_tensors_without_gradient_of_the_asked_kind(device, dtype):
    loader = DataLoader(Items(), 4, device=device, dtype=dtype)
    images, labels = next(iter(loader))
    assert isinstance(images, ndl.Tensor) and images.shape == (4, 2, 2, 1) and labels.shape == (4,)
    assert images.device == labels.device == device and images.dtype == labels.dtype == dtype
    assert not images.requires_grad and not labels.requires_grad


def test_images_and_labels_are_float32_by_default():
    images, labels = next(iter(DataLoader(Digits(), 4)))
    assert images.dtype == "float32" and labels.dtype == "float32"


def test_each_iterator_draws_its_own_permutation_when_made():
    loader = DataLoader(Items(20), 20, shuffle=True)
    np.random.seed(2)
    first, second = iter(loader), iter(loader)
    np.random.seed(2)
    expected = [np.random.permutation(20).tolist() for _ in range(2)]
    np.random.seed(7)  # the draws were made above
    assert [values(second)[0], values(first)[0]] == expected[::-1]


@pytest.mark.parametrize("prefetch", [0, 2])
def test_loops_over_one_loader_nest(prefetch):
    loader = DataLoader(Items(4), 2, prefetch=prefetch)
    pairs = [(a.numpy()[0], b.numpy()[0]) for _, a in loader for _, b in loader]
    assert pairs == [(0, 0), (0, 2), (2, 0), (2, 2)]


@pytest.mark.parametrize("prefetch", [0, 2])
def test_transforms_draw_in_item_order_among_other_draws(prefetch):
    """A draw between batches, as dropout makes it, stands between the draws of those batches."""
    images = np.random.rand(10, 6, 6, 1)
    transforms = [RandomFlipHorizontal(), RandomCrop(2)]
    for dataset in (ImageDataset(images, np.arange(10), transforms), Items(10, transforms)):
        np.random.seed(8)
        got, between = [], []
        for batch, _ in DataLoader(dataset, 3, prefetch=prefetch):
            got += list(batch.numpy())
            between.append(np.random.rand())
        np.random.seed(8)
        for i in range(10):
            assert np.array_equal(got[i], dataset[i][0].astype("float32"))
            if i % 3 == 2 or i == 9:
                assert between.pop(0) == np.random.rand()


def test_reading_ahead_happens_in_another_thread_and_no_further_than_asked():
    data = Items(40)
    iterator = iter(DataLoader(data, 4, prefetch=2))
    assert data.reads == []
    for position in range(3):
        next(iterator)
        limit = (position + 3) * 4
        deadline = time.monotonic() + 10
        while len(data.reads) < limit and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.01)
        assert len(data.reads) == limit
    assert [index for index, _ in data.reads] == list(range(20))
    assert all(name.startswith("needle-loader") for _, name in data.reads)


def test_a_getitem_of_the_users_stays_in_the_iterating_thread():
    class Own(Items):
        def __getitem__(self, index):
            return self.read(index)

    data = Own(6)
    assert values(DataLoader(data, 4, prefetch=2)) == [[0, 1, 2, 3], [4, 5]]
    assert {name for _, name in data.reads} == {threading.current_thread().name}


def test_an_overridden_getitem_of_an_array_dataset_is_used():
    class Shifted(NDArrayDataset):
        def __getitem__(self, index):
            (value,) = super().__getitem__(index)
            return (value + 100 * int(index),)

    assert values(DataLoader(Shifted(np.arange(3)), 2)) == [[0, 101], [202]]


@pytest.mark.parametrize("prefetch", [0, 2])
def test_what_read_raises_is_raised_where_one_iterates(prefetch):
    iterator = iter(DataLoader(Items(10, fail_at=5), 2, prefetch=prefetch))
    next(iterator), next(iterator)
    with pytest.raises(OSError, match="item 5 cannot be read"):
        next(iterator)
    with pytest.raises(StopIteration):
        next(iterator)
    assert not loader_threads()


def test_finished_abandoned_and_unused_iterators_leave_no_thread():
    loader = DataLoader(Items(100), 2, prefetch=3)
    list(loader)
    for _ in loader:
        break
    unused, begun = iter(loader), iter(loader)
    next(begun)
    assert len(loader_threads()) == 1
    del unused, begun
    gc.collect()
    assert not loader_threads()


def test_samples_may_be_lists_tensors_and_plain_sequences():
    samples = [[np.ones(2), ndl.Tensor([3.0])], [np.zeros(2), ndl.Tensor([4.0])]]
    first, second = next(iter(DataLoader(samples, 2)))
    assert first.numpy().tolist() == [[1, 1], [0, 0]] and second.numpy().tolist() == [[3], [4]]


@pytest.mark.parametrize(
    ("number", "kind", "dtype", "remedy"),
    [
        (2**24 + 1, "int64", "float32", "float64"),
        (-(2**24) - 1, "int32", "float32", "float64"),
        (2**53 + 1, "int64", "float64", "int64"),
        (2**63 - 1, "int64", "float32", "float64"),
    ],
)
@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_whole_number_that_would_be_rounded_raises(number, kind, dtype, remedy, prefetch):
    data = NDArrayDataset(np.zeros((3, 2)), np.array([0, number, 1], kind))
    assert next(iter(DataLoader(data, 1, dtype=dtype)))[1].item() == 0
    with pytest.raises(ndl.DTypeError, match=f"^DataLoader: {number} in entry 1 .*rounded: {dtype} .*dtype='{remedy}'"):
        list(DataLoader(data, 2, dtype=dtype, prefetch=prefetch))
    assert next(iter(DataLoader(data, 3, dtype="int64")))[1].numpy().tolist() == [0, number, 1]


def test_whole_numbers_that_the_dtype_holds_pass():
    ids = np.array([2**24, -(2**24), 2**40, 2**24 + 2])
    (batch,) = next(iter(DataLoader(NDArrayDataset(ids), 4)))
    assert batch.dtype == ndl.default_dtype() and batch.numpy().tolist() == ids.tolist()


def test_samples_that_do_not_fit_raise():
    with pytest.raises(ndl.DTypeError, match="a sample is an ndarray; let it be a tuple"):
        next(iter(DataLoader([np.ones(2), np.ones(2)], 2)))
    with pytest.raises(ndl.ShapeError, match=r"differ in shape.*\(2,\).*\(3,\)"):
        next(iter(DataLoader([(np.ones(2),), (np.ones(3),)], 2)))
    with pytest.raises(ndl.ShapeError, match="differ in shape"):
        next(iter(DataLoader([(np.ones(2),), (np.ones(2), 1)], 2)))
    with pytest.raises(ndl.ShapeError, match="DataLoader: "):
        next(iter(DataLoader([([[1], [1, 2]],)])))
    with pytest.raises(ndl.DTypeError, match="DataLoader: expected real numbers"):
        next(iter(DataLoader([(None,)])))
    with pytest.raises(ndl.DTypeError, match="DataLoader: a generator has no samples by index"):
        DataLoader(sample for sample in [(1,)])


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_stop_iteration_of_the_data_does_not_end_the_loop_silently(prefetch):
    class Failing(Items):
        def read(self, index):
            raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(DataLoader(Failing(), 2, prefetch=prefetch))


@pytest.mark.parametrize(("name", "value"), [("batch_size", 0), ("prefetch", -1)])
def test_sizes_below_the_least_raise(name, value):
    with pytest.raises(ndl.ShapeError, match=f"DataLoader: {name} must be at least .*, got {value}"):
        DataLoader(Items(), **{name: value})


def test_a_batch_size_must_be_an_integer():
    with pytest.raises(ndl.DTypeError, match="batch_size must be a whole number"):
        DataLoader(Items(), batch_size=2.5)
