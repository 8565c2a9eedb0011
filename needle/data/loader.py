"""Batches of a data set as Tensors, shuffled and read ahead where asked."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from needle.autograd import Tensor
from needle.backend_ndarray.dtypes import as_dtype, as_ndarray, incoming_dtype
from needle.data.dataset import Dataset, NDArrayDataset, Sample
from needle.errors import DTypeError, ShapeError, kind_of
from needle.ops.arguments import integer

T = TypeVar("T")
R = TypeVar("R")


class DataLoader:
    """Iterate over a data set in batches: tuples of Tensors that need no gradient.

    Each `iter()` is independent, and draws its permutation then, from NumPy's global generator. The last batch may be
    short; `drop_last` leaves it out. `device` and `dtype` are those of the Tensors: labels and ids too are float32 by
    default, as the course has it, which holds whole numbers up to 2**24. One that would be changed raises DTypeError.

    `prefetch=n` reads up to n batches ahead in a background thread. Only `Dataset.read` runs there; transforms, and all
    their random draws, stay in the thread that iterates, in item order and at the moment the batch is asked for, so
    every batch and every dropout mask is the same with and without it. What `read` raises is raised where one iterates.

    >>> from needle.data import NDArrayDataset
    >>> loader = DataLoader(NDArrayDataset(np.arange(5.0), np.arange(5)), batch_size=2)
    >>> len(loader), [x.numpy().tolist() for x, y in loader]
    (3, [[0.0, 1.0], [2.0, 3.0], [4.0]])
    """

    def __init__(
        self,
        dataset: Dataset | Sequence[Sample],
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        drop_last: bool = False,
        prefetch: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise DTypeError(f"DataLoader: {kind_of(dataset)} has no samples by index; give a Dataset or a list")
        self.dataset = dataset
        self.batch_size = integer("DataLoader", "batch_size", batch_size, 1)
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.prefetch = integer("DataLoader", "prefetch", prefetch, 0)
        self.device = device
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"DataLoader({type(self.dataset).__name__}, {len(self)} batches of {self.batch_size})"

    def __len__(self) -> int:
        whole, rest = divmod(len(self.dataset), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        # Not a generator: the permutation is drawn here, not at the first batch.
        size = len(self.dataset)
        order = np.random.permutation(size) if self.shuffle else np.arange(size)
        starts = range(0, len(self) * self.batch_size, self.batch_size)
        return self._batches([order[start : start + self.batch_size] for start in starts])

    def _batches(self, orders: list[npt.NDArray[np.intp]]) -> Iterator[tuple[Tensor, ...]]:
        read, finish = _read_and_finish(self.dataset)
        # Not map: it would take a StopIteration that `read` raises for the end of the data.
        one_by_one = (read(order) for order in orders)
        for stored in _read_ahead(read, orders, self.prefetch) if self.prefetch else one_by_one:
            batch = finish(stored)
            for index, array in enumerate(batch):
                if isinstance(array, np.ndarray) and array.dtype.kind in "iu":
                    _check_kept(array, self.dtype, index)
            yield tuple([Tensor(array, device=self.device, dtype=self.dtype, requires_grad=False) for array in batch])


def _check_kept(array: npt.NDArray[Any], dtype: Any, index: int) -> None:
    """Raise DTypeError where a floating `dtype` would round a whole number of `array`, entry `index` of the samples."""
    wanted = incoming_dtype(array, "DataLoader") if dtype is None else as_dtype(dtype, "DataLoader")
    if wanted.kind != "f" or array.dtype.itemsize < wanted.itemsize:
        return
    with np.errstate(invalid="ignore"):
        changed = array.astype(wanted).astype(array.dtype) != array
    if changed.any():
        digits = np.finfo(wanted).nmant + 1
        raise DTypeError(
            f"DataLoader: {array[changed][0]} in entry {index} of the samples would be rounded: {wanted} holds whole "
            f"numbers up to 2**{digits}; give dtype='{'float64' if digits < 53 else 'int64'}', or smaller numbers"
        )


def _read_and_finish(dataset: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Sequence[Any]]]:
    """Return the part of fetching a batch that may run in another thread, and the rest of it."""
    if not isinstance(dataset, Dataset) or type(dataset).__getitem__ is not Dataset.__getitem__:
        # A __getitem__ of the user's may draw random numbers: all of it belongs to the iterating thread.
        return _identity, lambda indices: _stack([dataset[int(i)] for i in indices])
    if isinstance(dataset, NDArrayDataset):
        return dataset.read, dataset.finish
    return (
        lambda indices: [dataset.read(int(i)) for i in indices],
        lambda samples: _stack([dataset.finish(sample) for sample in samples]),
    )


def _identity(x: T) -> T:
    return x


def _stack(samples: list[Any]) -> list[npt.NDArray[Any]]:
    """Stack samples, tuples of equally shaped arrays, along a new first axis."""
    for sample in samples:
        if not isinstance(sample, tuple | list):
            raise DTypeError(f"DataLoader: a sample is {kind_of(sample)}; let it be a tuple of arrays")
    rows = [[as_ndarray("DataLoader", entry) for entry in sample] for sample in samples]
    shapes = sorted({tuple(entry.shape for entry in row) for row in rows})
    if len(shapes) > 1:
        raise ShapeError(f"DataLoader: samples of one batch differ in shape, {shapes}; make them of one size")
    return [np.stack(entries) for entries in zip(*rows, strict=True)]


def _read_ahead(read: Callable[[T], R], keys: Iterable[T], depth: int) -> Iterator[R]:
    """Yield read(key) for every key in order, up to `depth` of them read beforehand by one background thread."""
    remaining = iter(keys)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="needle-loader") as reader:
        pending = deque(reader.submit(read, key) for key in islice(remaining, depth))
        try:
            while pending:
                batch = pending.popleft().result()
                pending.extend(reader.submit(read, key) for key in islice(remaining, 1))
                yield batch
        finally:  # the loop was left early: what has not begun is not begun, and `with` joins the thread
            for future in pending:
                future.cancel()
