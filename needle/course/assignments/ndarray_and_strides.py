"""NDArray and strides: views on a flat buffer, and when a copy is needed.

An NDArray is a flat buffer (`a._handle`) and how it is read: the element with the index (i, j, ...) lies at
`a._offset + i * a.strides[0] + j * a.strides[1] + ...`; offset and strides count elements. Permuting, broadcasting and
slicing change how the buffer is read, and move nothing: each function here returns a view, made by `view`, and copies
only where it says so. Do not use NDArray's own methods of these names.

Check your work with `python -m needle.course check ndarray_and_strides.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from needle import backend_ndarray as nd
from needle.backend_ndarray import NDArray


def view(a: NDArray, shape: Sequence[int], strides: Sequence[int], offset: int) -> NDArray:
    """Make an array on the buffer of a."""
    return NDArray.make(tuple(shape), tuple(strides), a.device, a._handle, offset)


def buffer(a: NDArray) -> np.ndarray:
    """Copy the whole flat buffer of a into a NumPy array."""
    return view(a, (a._handle.size,), (1,), 0).numpy()


def compact_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Give the strides of an array in row-major order without gaps: the last axis is the one with stride 1."""
    ### BEGIN SOLUTION
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))
    ### END SOLUTION


def is_compact(a: NDArray) -> bool:
    """Tell whether a is its whole buffer, in row-major order: strides, offset, and size (that of a._handle) agree."""
    ### BEGIN SOLUTION
    return a.strides == compact_strides(a.shape) and a._offset == 0 and a.size == a._handle.size
    ### END SOLUTION


def compact(a: NDArray) -> NDArray:
    """Copy a into a new compact array: `nd.array(values)` makes one of a NumPy array of the right shape.

    This is what a kernel does: go through the indices in row-major order (`np.ndindex(a.shape)`), and find where each
    lies in `buffer(a)`.
    """
    ### BEGIN SOLUTION
    flat = buffer(a)
    places = [a._offset + sum(i * s for i, s in zip(index, a.strides)) for index in np.ndindex(a.shape)]
    return nd.array(flat[places].reshape(a.shape), device=a.device)
    ### END SOLUTION


def reshape(a: NDArray, shape: Sequence[int]) -> NDArray:
    """Give the elements, in row-major order, another shape: a view of a where it is compact, else of a compact copy."""
    ### BEGIN SOLUTION
    whole = a if is_compact(a) else compact(a)
    return view(whole, shape, compact_strides(shape), 0)
    ### END SOLUTION


def permute(a: NDArray, axes: Sequence[int]) -> NDArray:
    """Reorder the axes: axis k of the result is axis axes[k] of a."""
    ### BEGIN SOLUTION
    return view(a, [a.shape[axis] for axis in axes], [a.strides[axis] for axis in axes], a._offset)
    ### END SOLUTION


def broadcast_to(a: NDArray, shape: Sequence[int]) -> NDArray:
    """Repeat a along new axes in front, and along axes of length 1, to the given shape; without copying an element."""
    ### BEGIN SOLUTION
    new = len(shape) - a.ndim
    strides = [0 if n == 1 else s for n, s in zip(a.shape, a.strides)]
    return view(a, shape, [0] * new + strides, a._offset)
    ### END SOLUTION


def getitem(a: NDArray, index: Sequence[slice | int]) -> NDArray:
    """Give a[index], with an int or a slice for each axis; an int keeps its axis, with length 1.

    `index[k].indices(a.shape[k])` gives a slice's start, stop and step, in range and without None; steps are positive.
    """
    ### BEGIN SOLUTION
    shape, strides, offset = [], [], a._offset
    for part, length, stride in zip(index, a.shape, a.strides):
        start, stop, step = part.indices(length) if isinstance(part, slice) else (part, part + 1, 1)
        shape.append(len(range(start, stop, step)))
        strides.append(stride * step)
        offset += start * stride
    return view(a, shape, strides, offset)
    ### END SOLUTION


def tile(a: NDArray, size: int) -> NDArray:
    """View a matrix (m, n) as tiles (m / size, n / size, size, size): tile (i, j) is the block in row i, column j.

    A matrix product reads its operands tile by tile, so that they stay in the cache.
    """
    ### BEGIN SOLUTION
    (m, n), (down, right) = a.shape, a.strides
    return view(a, (m // size, n // size, size, size), (size * down, size * right, down, right), a._offset)
    ### END SOLUTION
