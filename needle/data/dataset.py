"""What a loader reads from: samples by index, and the arrays in memory that most data sets are."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from needle.backend_ndarray.dtypes import as_ndarray
from needle.errors import DTypeError, ShapeError, kind_of

Image: TypeAlias = npt.NDArray[Any]
Sample: TypeAlias = tuple[Any, ...]
Transforms: TypeAlias = Sequence[Callable[[Image], Image]]
D = TypeVar("D", bound="NDArrayDataset")


class Dataset:
    """Samples by index, each a tuple whose first entry the transforms are applied to.

    A subclass defines `__len__` and either `__getitem__`, or `read`: then a loader can read ahead. `read(index)` gives
    the sample as it is stored. It may run in another thread, so it draws no random numbers: those are for transforms.

    >>> class Squares(Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def read(self, index):
    ...         return index, index**2
    >>> Squares(transforms=[lambda x: -x])[3]
    (-3, 9)
    """

    _transforms: Transforms | None = None  # of the class: a subclass may leave out super().__init__()

    def __init__(self, transforms: Transforms | None = None) -> None:
        self.transforms = transforms

    @property
    def transforms(self) -> Transforms | None:
        """The functions that the first entry of a sample goes through; DTypeError where they are set to no list."""
        return self._transforms

    @transforms.setter
    def transforms(self, transforms: Transforms | None) -> None:
        if transforms is not None and not isinstance(transforms, list | tuple):
            kind = kind_of(transforms)
            raise DTypeError(f"{type(self).__name__}: transforms must be a list of functions, got {kind}")
        for index, transform in enumerate(transforms or ()):
            if not callable(transform):
                kind = kind_of(transform)
                raise DTypeError(f"{type(self).__name__}: transform {index} must be a function, got {kind}")
        self._transforms = transforms

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define __len__")

    def __getitem__(self, index: Any) -> Sample:
        return self.finish(self.read(index))

    def read(self, index: Any) -> Sample:
        """Return the sample as it is stored."""
        raise NotImplementedError(f"{type(self).__name__} must define read or __getitem__")

    def finish(self, sample: Sample) -> Sample:
        """Apply the transforms to a sample that was read."""
        first, *rest = sample
        return self.apply_transforms(first), *rest

    def apply_transforms(self, x: Image) -> Image:
        """Apply the transforms one after another."""
        for transform in self.transforms or ():
            result: Any = transform(x)
            if result is None:
                name = getattr(transform, "__name__", repr(transform))
                raise DTypeError(f"{type(self).__name__}: the transform {name} gave None; let it return the image")
            x = result
        return x


class NDArrayDataset(Dataset):
    """Arrays of equal length: item i is a tuple of the i-th entries; slices and index arrays give batches.

    Takes NumPy arrays, NDArrays and Tensors. Transforms, where a subclass sets them, see the entries of the first array
    one by one, in order, also for a batch. Raises ShapeError where the lengths differ.

    >>> [entry.tolist() for entry in NDArrayDataset(np.arange(6).reshape(3, 2), np.array([7, 8, 9]))[1]]
    [[2, 3], 8]
    """

    def __init__(self, *arrays: npt.ArrayLike) -> None:
        super().__init__()
        self.arrays = tuple(as_ndarray("NDArrayDataset", array) for array in arrays)
        shapes = [array.shape for array in self.arrays]
        if len({shape[:1] for shape in shapes}) != 1 or shapes[0] == ():
            raise ShapeError(f"NDArrayDataset: arrays of shapes {shapes} must share the length of their first axis")

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{array.dtype} {array.shape}' for array in self.arrays)})"

    def select(self: D, index: Any) -> D:
        """Give the data set of the entries at a slice, an index array or a mask; with the same transforms.

        >>> len(NDArrayDataset(np.arange(4)).select([0, 2]))
        2
        """
        part = copy.copy(self)
        part.arrays = tuple(array[index] for array in self.arrays)
        return part

    def read(self, index: Any) -> Sample:
        """Return the entries at an integer, a slice or an index array."""
        return tuple(array[index] for array in self.arrays)

    def finish(self, sample: Sample) -> Sample:
        """Apply the transforms to one sample, or to each of a batch."""
        first, *rest = sample
        if not self.transforms or first.ndim < self.arrays[0].ndim:
            return super().finish(sample)
        transformed = [self.apply_transforms(entry) for entry in first]
        return np.stack(transformed) if transformed else first, *rest


class ImageDataset(NDArrayDataset):
    """Labelled images in memory: `images` (n,H,W,C), which is what transforms see, and `labels` (n,).

    Items are (H,W,C), or (C,H,W) with `channels_first`, as convolutions take them. Slices and index arrays give
    batches; their images are transformed one by one, in order.

    >>> data = ImageDataset(np.zeros((5, 8, 6, 3)), np.arange(5), channels_first=True)
    >>> data[0][0].shape, data[1:4][0].shape
    ((3, 8, 6), (3, 3, 8, 6))
    """

    def __init__(
        self,
        images: npt.NDArray[Any],
        labels: npt.NDArray[Any],
        transforms: Transforms | None = None,
        channels_first: bool = False,
    ) -> None:
        super().__init__(images, labels)
        self.transforms = transforms
        self.channels_first = channels_first

    @property
    def images(self) -> npt.NDArray[Any]:
        """The images, (n,H,W,C)."""
        return self.arrays[0]

    @property
    def labels(self) -> npt.NDArray[Any]:
        """The labels, (n,)."""
        return self.arrays[1]

    def finish(self, sample: Sample) -> Sample:
        """Transform one image, or each image of a batch, and bring it into the layout of the items."""
        images, labels = super().finish(sample)
        return np.moveaxis(images, -1, -3) if self.channels_first else images, labels


def flag(op: str, name: str, value: Any) -> bool:
    """Give a truth value back, or raise DTypeError: a name of the part that is wanted would count as True."""
    if not isinstance(value, bool | np.bool_):
        raise DTypeError(f"{op}: {name} must be True or False, got {kind_of(value)}")
    return bool(value)
