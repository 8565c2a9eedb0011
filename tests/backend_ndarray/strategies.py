"""Arrays of all layouts for property tests, each beside the ndarray that shows what must come out."""

from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from needle import backend_ndarray as nd

DTYPES = ("float32", "float64", "int64", "int32", "uint8", "bool")
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


class Pair(NamedTuple):
    array: nd.NDArray
    values: np.ndarray[Any, Any]


def slices(length: int) -> st.SearchStrategy[slice]:
    bound = st.none() | st.integers(-length - 2, length + 2)
    return st.builds(slice, bound, bound, st.sampled_from([None, 1, 2, 3, -1, -2]))


@st.composite
def pairs(
    draw: st.DrawFn,
    device: nd.BackendDevice,
    shapes: st.SearchStrategy[tuple[int, ...]] = SHAPES,
    dtypes: tuple[str, ...] = ("float64",),
    broadcast: bool = True,
) -> Pair:
    """Draw an array that is compact, or a view of one: permuted, sliced, reversed, reshaped, broadcast."""
    shape = draw(shapes)
    values = np.asarray(np.random.RandomState(draw(st.integers(0, 999))).randint(-9, 10, shape))
    dtype = draw(st.sampled_from(dtypes))
    expected = np.asarray(np.abs(values) if dtype == "uint8" else values).astype(dtype)
    array = nd.array(expected, dtype=dtype, device=device)
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["permute", "slice", "flip", "broadcast" if broadcast else "permute"]))
        if kind == "permute":
            axes = draw(st.permutations(range(expected.ndim)))
            array, expected = array.permute(axes), expected.transpose(axes)
        elif kind == "slice":
            index = tuple(draw(slices(length)) for length in expected.shape)
            array, expected = array[index], expected[index]
        elif kind == "flip":
            array, expected = array.flip(), np.flip(expected)
        elif expected.ndim < 4:
            target = (draw(st.integers(1, 3)), *expected.shape)
            array, expected = array.broadcast_to(target), np.broadcast_to(expected, target)
    return Pair(array, np.asarray(expected))


@st.composite
def laid_out(draw: st.DrawFn, values: np.ndarray[Any, Any], device: nd.BackendDevice, broadcast: bool = True) -> Pair:
    """Draw a view of that shape: its axes in any order in memory, stepped, reversed, some repeated by broadcasting.

    Dense row-major and channels-last memory, which kernels have ways of their own for, come more often than others.
    """
    repeated = [broadcast and n > 1 and draw(st.integers(0, 4)) == 0 for n in values.shape]
    dense = draw(st.booleans())
    steps = [1 if dense else draw(st.sampled_from([1, 1, 1, -1, 2, -3])) for _ in values.shape]
    in_order = range(values.ndim)
    channels_last = [0, *in_order[2:], 1][: values.ndim]
    axes = draw(st.sampled_from([in_order, channels_last]) | st.permutations(in_order))
    kept = values[tuple([slice(1 if once else None) for once in repeated])]
    inside = tuple([slice(None, None, step) for step in steps])
    memory = np.full([n * abs(step) for n, step in zip(kept.shape, steps)], 99, values.dtype)
    memory[inside] = kept
    stored = nd.array(memory.transpose(axes), dtype=values.dtype, device=device)
    view = stored.permute(np.argsort(axes).tolist())[inside].broadcast_to(values.shape)
    return Pair(view, np.broadcast_to(kept, values.shape))


@st.composite
def indices(draw: st.DrawFn, shape: tuple[int, ...], arrays: bool = True) -> tuple[Any, ...]:
    """Draw a NumPy index for an array of that shape: ints, slices, None, `...`, integer and boolean arrays."""
    index: list[Any] = []
    common = draw(st.sampled_from([(2,), (3, 1), (1,), (0,)]))  # index arrays broadcast together
    for length in shape[: draw(st.integers(0, len(shape)))]:
        kinds = ["slice", "slice"] + (["int"] if length else []) + (["array"] if arrays and length else [])
        kind = draw(st.sampled_from(kinds))
        if kind == "slice":
            index.append(draw(slices(length)))
        elif kind == "int":
            index.append(draw(st.integers(-length, length - 1)))
        else:
            entry = st.integers(-length, length - 1)
            size = int(np.prod(common))
            index.append(np.array(draw(st.lists(entry, min_size=size, max_size=size)), dtype=int).reshape(common))
        if draw(st.integers(0, 5)) == 0:
            index.append(None)
    if draw(st.booleans()):
        index[draw(st.integers(0, len(index))) :] = [Ellipsis]
    return tuple(index)


@st.composite
def masks(draw: st.DrawFn, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return (
        np.array(draw(st.lists(st.booleans(), min_size=int(np.prod(shape)), max_size=int(np.prod(shape)))))
        .reshape(shape)
        .astype(bool)
    )
