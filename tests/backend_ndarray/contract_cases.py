"""Calls of every kernel over shapes, layouts and settings, and the process that hashes their results.

    python -m tests.backend_ndarray.contract_cases all matmul conv        # cases of these kernels
    python -m tests.backend_ndarray.contract_cases train resnet9 50       # a training run

prints one JSON object: to each name, the hash of the results' bytes at each number of threads.
"""

import hashlib
import json
import sys
import zlib
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

import needle as ndl
from needle import backend_ndarray as nd

THREADS = (1, 2, 3, 7)
DTYPES = ("float32", "float64")


class Arg(NamedTuple):
    """An array that a kernel is given: drawn, laid out in memory, and perhaps written to."""

    shape: tuple[int, ...]
    layout: str = "compact"
    values: Any = "normal"  # how they are drawn; a number is how many rows indices may name
    dtype: str | None = None  # the case's, unless given
    written: bool = False


def out(shape: tuple[int, ...], layout: str = "compact", dtype: str | None = None) -> Arg:
    """A result, full of a number that no kernel leaves."""
    return Arg(shape, layout, "sevens", dtype, written=True)


class Case(NamedTuple):
    """One call of a kernel."""

    kernel: str
    dtype: str
    arguments: tuple[Any, ...]
    algorithm: str = "auto"

    @property
    def name(self) -> str:
        """What the case is, in words short enough for a list of failures."""

        def text(a: Any) -> str:
            if isinstance(a, list):
                return f"[{'; '.join(map(text, a))}]"
            if not isinstance(a, Arg):
                return str(a)
            parts = ["x".join(map(str, a.shape)) or "()", a.layout, str(a.values), a.dtype or ""]
            return " ".join(p for p in parts if p not in ("", "compact", "normal", "sevens")) + "!" * a.written

        return f"{self.kernel} {self.dtype} ({', '.join(map(text, self.arguments))}) {self.algorithm}"


def run(case: Case, device: nd.BackendDevice, layouts: bool = True) -> list[np.ndarray]:
    """Call the kernel on values that the name seeds, and give what it wrote; without layouts, all is row-major."""
    rng = generator(case)
    written = []

    def make(a: Any) -> Any:
        if isinstance(a, list):
            return [make(item) for item in a]
        if not isinstance(a, Arg):
            return a
        values = draw(rng, a.values, a.shape, a.dtype or case.dtype)
        if a.layout == "host":
            return values
        array = laid_out(values, a.layout if layouts or a.layout == "repeated" else "compact", device)
        if a.written:
            written.append(array)
        return array

    arguments = [make(a) for a in case.arguments]
    with ndl.set_conv_algorithm(case.algorithm):
        getattr(device.kernels, case.kernel)(*arguments)
    return [array.numpy() for array in written]


def generator(case: Case) -> np.random.Generator:
    """Give what draws the case's values."""
    return np.random.default_rng(zlib.crc32(case.name.encode()))


EXTREMES = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-40, -1e-310, 3e38, -1e300, 1.0, -1.0, 88.7, -104.0, 710.0]


def draw(rng: np.random.Generator, kind: Any, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Draw an array's values."""
    if isinstance(kind, int):
        return rng.integers(0, kind, shape).astype(dtype)
    if kind == "sevens":
        return np.full(shape, 7, dtype)
    values = rng.standard_normal(shape)
    if kind == "positive":
        values = np.abs(values) + 0.01
    elif kind == "rounded":
        values = np.round(values * 2)  # many ties
    elif kind == "wide":
        values *= 10.0 ** rng.integers(-4, 3, shape)
    elif kind == "extreme":
        values = np.where(rng.random(shape) < 0.2, rng.choice(EXTREMES, shape), values * 20)
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(values).astype(dtype)


def laid_out(values: np.ndarray, layout: str, device: nd.BackendDevice) -> nd.NDArray:
    """Put values into memory so that a view with the given layout shows them."""

    def array(a: np.ndarray) -> nd.NDArray:
        return nd.array(a, device=device, dtype=values.dtype)

    axes, shape = tuple(range(values.ndim)), values.shape
    if layout == "reversed":  # the order of axes in memory
        return array(values.transpose(axes[::-1])).permute(axes[::-1])
    if layout == "swapped":  # the last two axes
        return array(values.swapaxes(-1, -2)).swapaxes(-1, -2)
    if layout == "channels first":  # N,C,H,W memory, shown as N,H,W,C
        return array(np.moveaxis(values, -1, 1)).permute((0, 2, 3, 1))
    if layout == "channels last":  # N,H,W,C memory, shown as N,C,H,W
        return array(np.moveaxis(values, 1, -1)).permute((0, 3, 1, 2))
    if layout == "spread":  # every second element
        wide = np.zeros((*shape[:-1], 2 * shape[-1] + 1), values.dtype)
        wide[..., 1::2] = values
        return array(wide)[(..., slice(1, None, 2))]
    if layout == "unaligned":  # rows in one piece, off the boundaries of vectors
        wide = np.zeros((*shape[:-1], shape[-1] + 3), values.dtype)
        wide[..., 1:-2] = values
        return array(wide)[(..., slice(1, -2))]
    if layout == "flipped":  # all strides negative
        return array(np.flip(values)).flip(axes)
    if layout == "repeated":  # along the first axis
        return array(values[:1]).broadcast_to(shape)
    assert layout == "compact", layout
    return array(values)


def hashed(arrays: list[np.ndarray]) -> str:
    """Hash shapes and bytes; which NaN a NaN is, is nobody's promise."""
    digest = hashlib.sha256()
    for a in arrays:
        digest.update(f"{a.shape} {a.dtype}".encode())
        digest.update(np.where(a != a, a.dtype.type(np.nan), a).tobytes() if a.dtype.kind == "f" else a.tobytes())
    return digest.hexdigest()[:16]


# The cases. Each function yields (kernel, arguments) or (kernel, arguments, algorithm).

SHAPES: list[tuple[int, ...]] = [(), (1,), (15,), (16,), (1037,), (5, 33), (3, 4, 5), (2, 3, 4, 17), (70_001,)]
LAYOUTS = [((37, 65), layout) for layout in ("reversed", "spread", "unaligned", "flipped", "repeated")]
LAYOUTS += [((2, 16, 7, 9), "channels last"), ((300, 257), "swapped")]
UNARY = dict.fromkeys(("negate", "absolute", "sign", "exp", "log", "tanh", "sigmoid", "erf"), "extreme")
UNARY["sqrt"] = "positive"
BINARY = ("add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "relu_gradient")
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
BROADCAST: list[tuple[tuple[int, ...], ...]] = [
    ((6, 65), (65,), (6, 65)),
    ((6, 1), (1, 65), (6, 65)),
    ((2, 3, 1, 9), (3, 5, 1), (2, 3, 5, 9)),
    ((1,), (40, 41), (40, 41)),
]


def moving() -> Iterator[tuple[Any, ...]]:
    """Kernels that compute nothing, or next to nothing."""
    for shape in SHAPES:
        yield "fill", (out(shape), 1 / 3)
        yield "copy", (Arg(shape, values="extreme"), out(shape))
        yield "from_numpy", (Arg(shape, "host"), out(shape))
    for shape, layout in LAYOUTS:
        for dtype in DTYPES:
            yield "copy", (Arg(shape, layout, "wide"), out(shape, dtype=dtype))
        if layout != "repeated":
            yield "copy", (Arg(shape, values="wide"), out(shape, layout))
            yield "fill", (out(shape, layout), -2.5)
    for rows, count, row in product((1, 50), (0, 1, 200, 3000), ((), (16,), (3, 7))):
        indices = Arg((count,), values=rows, dtype="int64")
        yield "gather", (Arg((rows, *row)), indices, out((count, *row)))
        yield "scatter_add", (Arg((count, *row)), indices, Arg((rows, *row), written=True))
    indices = Arg((90,), values=20, dtype="int64")
    for layout in ("reversed", "spread", "flipped"):
        yield "gather", (Arg((20, 33), layout), indices, out((90, 33)))
        yield "scatter_add", (Arg((90, 33), layout), indices, Arg((20, 33), layout, written=True))


def elementwise() -> Iterator[tuple[Any, ...]]:
    """Elementwise kernels."""
    compact = [(shape, "compact") for shape in SHAPES]
    for (name, values), (shape, layout) in product(UNARY.items(), compact + LAYOUTS):
        yield name, (Arg(shape, layout, values), out(shape))
    for name, (shape, layout) in product(BINARY, compact + LAYOUTS):
        yield name, (Arg(shape, layout, "positive" if name == "power" else "extreme"), Arg(shape), out(shape))
        yield name, (Arg(shape, values="positive" if name == "power" else "wide"), Arg(shape, layout), out(shape))
    for name in BINARY:
        values = "positive" if name == "power" else "extreme"
        yield from ((name, (Arg(a, values=values), Arg(b), out(c))) for a, b, c in BROADCAST)
        yield name, (Arg((33, 7), "reversed", values), 0.1, out((33, 7), "reversed"))
        yield name, (2.5, Arg((1037,), values=values), out((1037,)))
    for name in COMPARISONS:
        for shape, layout in [((), "compact"), ((1037,), "compact"), *LAYOUTS]:
            yield name, (Arg(shape, layout, "rounded"), Arg(shape, values="rounded"), out(shape, dtype="bool"))
        yield name, (Arg((70_001,), values="extreme"), 0.5, out((70_001,), dtype="bool"))
    for shape, layout in [((), "compact"), ((70_001,), "compact"), *LAYOUTS]:
        condition = Arg(shape, layout, 2, "bool")
        yield "where", (condition, Arg(shape, layout), Arg(shape, values="extreme"), out(shape))
        yield "where", (condition, Arg(shape, layout), -1.5, out(shape))


REDUCED: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((1,), (0,)), ((16,), (0,)), ((1037,), (0,)), ((200_003,), (0,)), ((33, 65), (0,)), ((33, 65), (1,)),
    ((33, 65), (0, 1)), ((3, 1024), (1,)), ((4096, 5), (0,)), ((1030, 300), (0,)), ((1030, 300), (1,)),
    ((7, 5, 6, 9), (0, 2, 3)), ((7, 5, 6, 9), (1, 3)), ((7, 5, 6, 9), (2,)), ((64, 17, 8, 8), (0, 2, 3)),
]  # fmt: skip


def reductions() -> Iterator[tuple[Any, ...]]:
    """Kernels over axes."""

    def kept(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(1 if axis in axes else n for axis, n in enumerate(shape))

    for name, values in (("reduce_sum", "wide"), ("reduce_max", "extreme"), ("reduce_min", "rounded")):
        for shape, axes in REDUCED:
            yield name, (Arg(shape, values=values), axes, out(kept(shape, axes)))
        for (shape, layout), axis in product(LAYOUTS, (0, 1)):
            yield name, (Arg(shape, layout, values), (axis,), out(kept(shape, (axis,))))
        yield name, (Arg((8, 16, 7, 9), "channels last", values), (0, 2, 3), out((1, 16, 1, 1)))
        yield name, (Arg((40, 41), values=values), (0,), out((1, 41), "spread"))
    for shape, layout in [((1037,), "compact"), ((33, 65), "compact"), ((300, 40), "compact"), *LAYOUTS]:
        for axis in range(len(shape)):
            yield "argmax", (Arg(shape, layout, "rounded"), axis, out(kept(shape, (axis,)), dtype="int64"))
            yield "argsort", (Arg(shape, layout, "rounded"), axis, out(shape, dtype="int64"))
            yield "cumsum", (Arg(shape, layout, "wide"), axis, out(shape))
            yield "softmax", (Arg(shape, layout), axis, out(shape))
            yield "log_softmax", (Arg(shape, layout), axis, out(shape))
            rows = kept(shape, (axis,))
            labels, per_row = Arg(rows, values=shape[axis], dtype="int64"), [out(rows) for _ in range(3)]
            yield "cross_entropy", (Arg(shape, layout), labels, axis, *per_row)
            factors = (Arg(rows, values="positive"), Arg(rows, values="positive"))
            yield "cross_entropy_gradient", (Arg(rows), Arg(shape, layout), labels, *factors, axis, out(shape))


def products() -> Iterator[tuple[Any, ...]]:
    """Matrix products: odd sizes, sizes around 256 and around tiles, batches, transpositions."""
    sizes = [(1, 1, 1), (1, 300, 1), (1, 64, 500), (500, 64, 1), (2, 3, 4), (13, 17, 15), (14, 256, 32), (15, 257, 33)]
    sizes += [(29, 255, 31), (8, 512, 16), (6, 513, 17), (64, 64, 64), (65, 100, 129), (3, 1000, 10), (200, 9, 700)]
    sizes += [(7, 0, 5), (0, 4, 5), (128, 576, 64), (576, 130, 64), (300, 27, 32), (1024, 12, 9), (40, 2050, 40)]
    for m, n, p in sizes:
        yield "matmul", (Arg((m, n)), Arg((n, p)), out((m, p)))
    for (m, n, p), left, right in product([(33, 300, 47), (70, 40, 260)], LAYOUT_OF_OPERANDS, LAYOUT_OF_OPERANDS):
        yield "matmul", (Arg((m, n), left), Arg((n, p), right), out((m, p)))
    for layout in ("swapped", "spread", "unaligned", "flipped"):
        yield "matmul", (Arg((33, 300)), Arg((300, 47)), out((33, 47), layout))
    batches: list[tuple[tuple[int, ...], ...]] = [((5,), (5,)), ((5,), (1,)), ((1,), (5,)), ((), (4,)), ((2, 1), (3,))]
    for (a, b), (m, n, p), layout in product(batches, [(9, 20, 11), (1, 40, 30), (30, 300, 2)], ("compact", "swapped")):
        batch = np.broadcast_shapes(a, b)
        yield "matmul", (Arg((*a, m, n), layout), Arg((*b, n, p), layout), out((*batch, m, p)))


LAYOUT_OF_OPERANDS = ("compact", "swapped", "spread", "flipped", "repeated")

# (N, H, W, C, O, kernel, stride, padding, dilation, groups)
CONVOLUTIONS: list[tuple[Any, ...]] = [
    (2, 5, 5, 3, 4, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (1, 1, 1, 1, 1, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (0, 6, 6, 2, 3, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (3, 7, 4, 16, 8, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (3, 9, 8, 5, 33, (1, 1), (2, 2), (0, 0), (1, 1), 1),
    (2, 9, 8, 4, 6, (1, 1), (1, 1), (2, 2), (1, 1), 1),
    (2, 14, 14, 16, 32, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (1, 16, 16, 64, 64, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (2, 8, 8, 128, 128, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (2, 8, 9, 32, 48, (3, 3), (1, 1), (0, 0), (1, 1), 1),
    (2, 7, 7, 33, 17, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (5, 4, 4, 32, 32, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (9, 1, 1, 64, 64, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (4, 2, 2, 64, 32, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (2, 28, 28, 1, 16, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    (3, 32, 32, 3, 16, (7, 7), (4, 4), (3, 3), (1, 1), 1),
    (2, 11, 10, 4, 5, (3, 3), (2, 2), (1, 1), (1, 1), 1),
    (2, 13, 12, 20, 9, (5, 5), (3, 3), (2, 2), (1, 1), 1),
    (2, 11, 13, 3, 7, (2, 4), (2, 3), (0, 1), (1, 1), 1),
    (1, 12, 12, 30, 11, (4, 4), (2, 2), (1, 1), (1, 1), 1),
    (2, 10, 11, 6, 5, (3, 3), (1, 1), (2, 2), (2, 2), 1),
    (2, 15, 9, 3, 4, (3, 2), (2, 1), (3, 1), (2, 3), 1),
    (2, 6, 6, 4, 3, (3, 3), (1, 1), (5, 4), (1, 1), 1),
    (2, 9, 9, 3, 3, (2, 2), (4, 4), (0, 0), (1, 1), 1),
    (1, 40, 3, 2, 2, (9, 1), (1, 1), (4, 0), (1, 1), 1),
    (1, 3, 50, 7, 40, (1, 5), (1, 2), (0, 2), (1, 1), 1),
    (2, 8, 8, 4, 6, (3, 3), (1, 1), (1, 1), (1, 1), 2),
    (2, 9, 7, 32, 64, (3, 3), (2, 2), (1, 1), (1, 1), 4),
    (2, 7, 7, 6, 9, (1, 1), (1, 1), (0, 0), (1, 1), 3),
    (3, 10, 10, 16, 16, (3, 3), (1, 1), (1, 1), (1, 1), 16),
    (2, 9, 11, 35, 35, (5, 3), (2, 1), (2, 1), (1, 1), 35),
    (2, 8, 8, 5, 10, (3, 3), (1, 1), (1, 1), (2, 2), 5),
    (1, 5, 5, 300, 20, (1, 1), (1, 1), (0, 0), (1, 1), 1),
    (70, 6, 6, 8, 8, (3, 3), (1, 1), (1, 1), (1, 1), 1),
]
SOURCE_LAYOUTS = ("channels first", "spread", "unaligned", "flipped", "repeated")


def convolutions() -> Iterator[tuple[Any, ...]]:
    """Convolutions and their gradients; 3x3 ones by every algorithm; a few in every layout."""
    for index, (n, h, w, c, o, kernel, stride, padding, dilation, groups) in enumerate(CONVOLUTIONS):
        settings = (stride, padding, dilation, groups)
        ho, wo = (
            (size + 2 * p - d * (k - 1) - 1) // s + 1
            for size, k, s, p, d in zip((h, w), kernel, stride, padding, dilation)
        )
        x, weight, d = (n, h, w, c), (*kernel, c // groups, o), (n, ho, wo, o)
        bias = Arg((o,)) if index % 2 else None
        winograd = kernel == (3, 3) and c >= 16 and stride == (1, 1)
        for algorithm in ("auto", "direct", "winograd4") if winograd else ("auto",):
            yield "conv", (Arg(x), Arg(weight), bias, out(d), *settings), algorithm
            yield "conv_input_gradient", (Arg(d), Arg(weight), out(x), *settings), algorithm
            yield "conv_weight_gradient", (Arg(x), Arg(d), out(weight), *settings), algorithm
        for layout in SOURCE_LAYOUTS if index in (0, 6, 15, 20, 27, 29) else ():
            result = layout if layout != "repeated" else "compact"
            yield "conv", (Arg(x, layout), Arg(weight, "reversed"), Arg((o,), "spread"), out(d, result), *settings)
            yield "conv_input_gradient", (Arg(d, layout), Arg(weight, "swapped"), out(x, result), *settings)
            yield "conv_weight_gradient", (Arg(x, layout), Arg(d, layout), out(weight, "reversed"), *settings)


# (N, C, H, W), kernel, stride, padding
POOLINGS: list[tuple[Any, ...]] = [
    ((4, 16, 14, 14), (2, 2), (2, 2), (0, 0)),
    ((3, 5, 9, 7), (2, 2), (2, 2), (0, 0)),
    ((2, 3, 11, 10), (3, 3), (2, 2), (1, 1)),
    ((2, 33, 8, 8), (3, 2), (1, 3), (1, 0)),
    ((1, 4, 20, 20), (17, 16), (1, 2), (0, 4)),
    ((2, 20, 6, 6), (6, 6), (6, 6), (0, 0)),
]


def layers() -> Iterator[tuple[Any, ...]]:
    """Pooling and normalisation."""
    for (x, kernel, stride, padding), layout in product(POOLINGS, ("compact", "channels last", "spread", "flipped")):
        windows = ((n + 2 * p - k) // s + 1 for n, k, s, p in zip(x[2:], kernel, stride, padding))
        d, settings = (*x[:2], *windows), (kernel, stride, padding)
        taps = kernel[0] * kernel[1]
        dtype = "uint8" if taps <= 256 else "int32"
        result = layout if layout == "channels last" else "compact"
        yield "max_pool", (Arg(x, layout, "rounded"), out(d, result), out(d, result, dtype), *settings)
        if padding == (0, 0):  # else positions drawn at random may lie outside the image
            positions = Arg(d, result, taps, dtype)
            yield "max_pool_gradient", (Arg(d, layout), positions, out(x, result), *settings)
            yield "max_pool_gather", (Arg(x, layout), positions, out(d, result), *settings)
        for padded in (True, False):
            yield "avg_pool", (Arg(x, layout), out(d, result), *settings, padded)
            yield "avg_pool_gradient", (Arg(d, layout), out(x, result), *settings, padded)

    shapes: list[tuple[Any, ...]] = [
        ((64, 32, 14, 14), (0, 2, 3), "channels last"), ((8, 5, 7, 9), (0, 2, 3), "compact"),
        ((16, 19, 6, 6), (0, 2, 3), "channels last"), ((40, 33), (0,), "compact"), ((600, 7), (0,), "compact"),
        ((7, 300), (1,), "compact"), ((5, 6, 64), (2,), "compact"), ((3, 4, 5, 6), (1, 2, 3), "compact"),
        ((6, 8, 10), (0, 2), "reversed"), ((33, 18), (1,), "spread"), ((5, 2000), (1,), "flipped"),
    ]  # fmt: skip
    for (shape, axes, layout), with_weight, relu in product(shapes, (True, False), (False, True)):
        result = layout if layout in ("channels last", "reversed") else "compact"
        kept = tuple(1 if axis in axes else n for axis, n in enumerate(shape))
        own = tuple(n if (axis == 1 if axes[0] == 0 else axis in axes) else 1 for axis, n in enumerate(shape))
        weights = (Arg(own), Arg(own)) if with_weight else (None, None)
        yield "normalize", (Arg(shape, layout), *weights, axes, 1e-5, relu, out(shape, result), out(kept), out(kept))
        written = (out(own), out(own)) if with_weight else (None, None)
        statistics = (Arg(kept), Arg(kept, values="positive"))
        operands = (Arg(shape, layout), Arg(shape, result), Arg(shape, result) if relu else None, weights[0])
        yield "normalize_gradient", (*operands, *statistics, axes, out(shape, result), *written)


def updates() -> Iterator[tuple[Any, ...]]:
    """Steps of optimizers over several parameters."""
    several: list[list[tuple[int, ...]]]
    several = [[(1,)], [(16,), (33, 5)], [(3, 3, 16, 32), (32,), ()], [(100_003,)], [(7,)] * 40]
    rows = [(shapes, "compact") for shapes in several] + [([(40, 9)], layout) for layout in ("reversed", "spread")]
    for shapes, layout in rows:
        params = [Arg(shape, layout, written=True) for shape in shapes]
        grads = [Arg(shape, layout, "wide") for shape in shapes]
        state = [Arg(shape, written=True) for shape in shapes]
        squares = [Arg(shape, values="positive", written=True) for shape in shapes]
        for rule in [(0.9, 0.0, 5e-4, True), (0.9, 0.1, 0.0, False), (0.0, 0.0, 0.0, False)]:
            yield "sgd_update", (params, grads, state, 0.1, *rule)
        for decay, decoupled, step in [(0.0, False, 1), (0.01, False, 7), (0.01, True, 1000)]:
            yield "adam_update", (params, grads, state, squares, 0.003, 0.9, 0.999, 1e-8, decay, decoupled, step)


FAMILIES = {f.__name__: f for f in (moving, elementwise, reductions, products, convolutions, layers, updates)}


def all_cases() -> dict[str, list[Case]]:
    """Give each kernel's cases, in both dtypes."""
    cases: dict[str, list[Case]] = {}
    for family in FAMILIES.values():
        for (kernel, arguments, *algorithm), dtype in product(family(), DTYPES):
            cases.setdefault(kernel, []).append(Case(kernel, dtype, arguments, *algorithm))
    return cases


def sample() -> list[Case]:
    """Give at least one case of every kernel, and some more of those with many."""
    return [case for cases in all_cases().values() for case in cases[len(cases) // 3 :: 73]]


# A whole training run.


def train(model: str, steps: int) -> list[np.ndarray]:
    """Train a network of apps/models.py on the native device, and give its weights and the last loss."""
    from models import ResNet9, SmallCNN

    ndl.manual_seed(0)
    device = ndl.cpu()
    if model == "resnet9":
        network, images = ResNet9(device=device), np.random.randn(64, 3, 32, 32)
    else:
        network, images = SmallCNN(device=device), np.random.randn(64, 1, 8, 8)
    labels = np.random.randint(0, 10, len(images))
    optimizer = ndl.optim.Adam(network.parameters(), lr=0.003, weight_decay=1e-3)
    for step in range(steps):
        batch = np.arange(step * 16, step * 16 + 16) % len(images)
        loss = ndl.cross_entropy(network(ndl.Tensor(images[batch], device=device)), labels[batch])
        optimizer.reset_grad()
        loss.backward()
        optimizer.step()
    return [loss.numpy(), *(p.numpy() for p in network.parameters())]


def main(what: str, *rest: str) -> None:
    """Print the hashes."""
    work: dict[str, Any]
    if what == "train":
        work = {rest[0]: lambda: train(rest[0], int(rest[1]))}
    else:
        cases = sample() if what == "sample" else [case for kernel in rest for case in all_cases()[kernel]]
        work = {case.name: (lambda case=case: run(case, ndl.cpu())) for case in cases}
    hashes: dict[str, dict[int, str]] = {name: {} for name in work}
    for threads in THREADS:
        with ndl.set_num_threads(threads):
            for name, compute in work.items():
                hashes[name][threads] = hashed(compute())
    json.dump(hashes, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
