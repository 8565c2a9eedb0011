"""The checks of the assignment `ndarray_and_strides`. NumPy's views tell the right strides and offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from needle import backend_ndarray as nd
from needle.course.checks import Check, Finding, Mistake, normal
from needle.course.evidence import Array


def offset_in(base: Array, view: Array) -> int:
    """Count the elements from the start of one array's memory to the start of another's."""
    return (view.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // base.itemsize


def view_check(
    name: str,
    call: Callable[[Any, nd.NDArray], Any],
    oracle: Callable[[Array], Array],
    setting: str,
    mistakes: Sequence[Mistake] = (),
    source: Callable[[Any], Any] = lambda a: a,
    shape: tuple[int, ...] = (4, 6, 5),
    *,
    copies: bool = False,
    whole: bool = False,
    points: int = 1,
) -> Check:
    """Make the check of a function that gives a view (or a compact copy) of `source` of an array in row-major order.

    Unless it is to be the whole buffer, there is room behind it, where wrong views can go without an error. A mistake's
    namespace has the source's `strides`, and `base`, the elements.
    """
    base = normal(*shape)
    viewed = source(base)
    right = oracle(viewed)
    right = np.ascontiguousarray(right) if copies else right
    facts = {"base": base, "strides": tuple(stride // base.itemsize for stride in viewed.strides)}
    flat = base.ravel() if whole else np.resize(base, 4 * base.size)

    def run(solution: Any) -> Iterator[Any]:
        a = source(nd.NDArray.make(shape, handle=nd.array(flat, dtype="float64")._handle))
        got = call(solution, a)
        if not isinstance(got, nd.NDArray):
            raise Finding(f"the result is of type {type(got).__name__}, expected an NDArray")
        yield got.shape
        yield got.strides
        yield got._offset
        yield "shared with a" if got._handle is a._handle else "new"
        yield got

    def expected() -> dict[str, Any]:
        return {
            "shape": right.shape,
            "strides": tuple(stride // right.itemsize for stride in right.strides),
            "offset": 0 if copies else offset_in(base, right),
            "memory": "new" if copies else "shared with a",
            "value": right,
        }

    return Check(name, run, expected, [*mistakes, *([] if copies else [COPIED])], facts, setting, points)


COPIED = Mistake("memory", "new", "Nothing has to be moved here: return a view on the same buffer.")
LOST_OFFSET = Mistake("offset", 0, "The offset of a itself is lost: a may be a view that does not start at 0.")


def compact_cases(solution: Any) -> Iterator[Any]:
    """Ask whether arrays are compact."""
    a = nd.array(normal(3, 4))
    for case in (a, a.transpose((1, 0)), a.as_strided((0, 4), (4, 1)), a[1:, :], a[:2, :]):
        yield bool(solution.is_compact(case))


CHECKS = [
    Check(
        "compact_strides",
        lambda solution: iter([solution.compact_strides((4, 6, 5)), solution.compact_strides((7,))]),
        lambda: {"strides of (4, 6, 5)": (30, 5, 1), "strides of (7,)": (1,)},
        [
            Mistake(
                "strides of (4, 6, 5)",
                (1, 4, 24),
                "This is column-major order: in row-major order the last axis has stride 1.",
            ),
            Mistake(
                "strides of (4, 6, 5)",
                (120, 30, 5),
                "The stride of an axis is the product of the lengths after it, its own left out.",
            ),
            Mistake("strides of (4, 6, 5)", (24, 4, 1), "The stride of an axis is a product of the lengths after it."),
        ],
    ),
    Check(
        "is_compact",
        compact_cases,
        lambda: {
            "a whole array": True,
            "a transposed one": False,
            "one without elements": False,
            "a[1:, :]": False,
            "a[:2, :]": False,
        },
        [
            Mistake("a transposed one", True, "The strides have to be those of compact_strides(a.shape)."),
            Mistake("one without elements", True, "The size has to be that of the buffer, a._handle.size."),
            Mistake("a[1:, :]", True, "The offset has to be 0, and the size that of the buffer."),
            Mistake("a[:2, :]", True, "The size has to be that of the buffer, a._handle.size."),
        ],
        setting="a (3, 4)",
    ),
    view_check(
        "compact",
        lambda solution, a: solution.compact(a),
        lambda a: a,
        "a (6, 3, 2), the permuted view b.permute((1, 0, 2))[:, 1:, ::3] of a compact b (4, 6, 5)",
        [
            Mistake(
                "value",
                lambda case: case.base.ravel()[: case.expected.size].reshape(case.expected.shape),
                "These are the first elements of the buffer as they lie there: follow the strides and the offset.",
            ),
            Mistake(
                "value",
                lambda case: case.base.transpose((1, 0, 2))[:, :-1, ::3],
                "The offset is not added to the places.",
            ),
            Mistake("memory", "shared with a", "compact gives a copy, whose elements lie in row-major order."),
        ],
        source=lambda a: a.transpose((1, 0, 2))[:, 1:, ::3],
        copies=True,
        points=2,
    ),
    view_check(
        "reshape of a compact array",
        lambda solution, a: solution.reshape(a, (8, 15)),
        lambda a: a.reshape(8, 15),
        "a (4, 6, 5) to (8, 15)",
        whole=True,
    ),
    view_check(
        "reshape of a permuted array",
        lambda solution, a: solution.reshape(a, (10, 12)),
        lambda a: a.reshape(10, 12),
        "a (5, 6, 4), the permuted view of a compact (4, 6, 5), to (10, 12)",
        [
            Mistake(
                "memory",
                "shared with a",
                "The elements do not lie in row-major order, so no strides give this: reshape a compact copy.",
            )
        ],
        source=lambda a: a.transpose((2, 1, 0)),
        copies=True,
    ),
    view_check(
        "permute",
        lambda solution, a: solution.permute(a, (2, 0, 1)),
        lambda a: a.transpose((2, 0, 1)),
        "a (4, 6, 4), a view at offset 1, by the axes (2, 0, 1)",
        [
            Mistake(
                "shape",
                (6, 4, 4),
                "This is the inverse permutation: axis k of the result is axis axes[k] of a.",
            ),
            Mistake("strides", lambda case: case.strides, "The strides are permuted as the shape is."),
            Mistake(
                "strides", (24, 4, 1), "Compact strides would read the elements in another order: permute those of a."
            ),
            LOST_OFFSET,
        ],
        source=lambda a: a[:, :, 1:],
    ),
    view_check(
        "broadcast_to",
        lambda solution, a: solution.broadcast_to(a, (2, 4, 6, 3)),
        lambda a: np.broadcast_to(a, (2, 4, 6, 3)),
        "a (4, 1, 3), the view b[:, 2:3, 2:] of a compact b (4, 6, 5), to (2, 4, 6, 3)",
        [
            Mistake("strides", (0, 30, 5, 1), "The stride of an axis of length 1 that is repeated is 0."),
            Mistake("strides", (120, 30, 0, 1), "The stride of a new axis is 0: its entries are the same elements."),
            Mistake("strides", (72, 18, 3, 1), "These are compact strides: along a repeated axis the stride is 0."),
            Mistake("strides", (30, 0, 1, 0), "The axes are aligned at the front: broadcasting aligns the last axes."),
            LOST_OFFSET,
        ],
        source=lambda a: a[:, 2:3, 2:],
    ),
    view_check(
        "getitem",
        lambda solution, a: solution.getitem(a, (slice(1, 4, 2), 3, slice(None, None, 3))),
        lambda a: a[1:4:2, 3:4, ::3],
        "a (4, 6, 5)[1:4:2, 3, ::3]",
        [
            Mistake("shape", (1, 1, 1), "The length is rounded up: from start 0 to stop 5 by 3 there are 0 and 3."),
            Mistake("shape", (3, 1, 5), "The length is divided by the step, and rounded up."),
            Mistake("shape", (2, 2), "An int keeps its axis, with length 1."),
            Mistake("strides", (30, 5, 1), "The strides are multiplied by the steps."),
            Mistake("strides", (2, 1, 3), "The strides are those of a, multiplied by the steps."),
            Mistake("offset", 0, "The offset is missing: the view begins at the sum of start * stride."),
            Mistake("offset", 4, "The starts count along their axes: multiply each by the stride of a."),
            Mistake(
                "offset",
                75,
                "The starts are multiplied by the new strides: they count in those of a, without the steps.",
            ),
        ],
        points=2,
    ),
    view_check(
        "getitem of a view",
        lambda solution, a: solution.getitem(a, (slice(1, 3), slice(0, 2), slice(0, 1))),
        lambda a: a[1:3, 0:2, 0:1],
        "a[1:3, 0:2, 0:1], where a is the view b[1:, 2:, :] of a compact b (4, 6, 5)",
        [Mistake("offset", 30, LOST_OFFSET.hint)],
        source=lambda a: a[1:, 2:, :],
    ),
    view_check(
        "tile",
        lambda solution, a: solution.tile(a, 2),
        lambda a: a.reshape(3, 2, 4, 2).transpose(0, 2, 1, 3),
        "a (6, 8), size 2",
        [
            Mistake(
                "strides",
                (16, 4, 2, 1),
                "These are the strides of a mere reshape: a tile's next row is a row of a further.",
            ),
            Mistake("strides", (16, 2, 1, 8), "Within a tile, axis 2 goes down the rows and axis 3 along them."),
            Mistake("strides", (8, 1, 8, 1), "From one tile to the next it is size rows, or size columns."),
        ],
        shape=(6, 8),
    ),
]
