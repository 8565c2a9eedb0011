"""Typical wrong solutions of the assignment `ndarray_and_strides`: what is edited, the check that fails, the hint."""

WRONG = [
    ("for length in reversed(shape):", "for length in shape:", "compact_strides", "The stride of an axis is a product"),
    ("return tuple(reversed(strides))", "return tuple(strides)", "compact_strides", ""),
    (
        "strides.append(step)\n        step *= length",
        "step *= length\n        strides.append(step)",
        "compact_strides",
        "its own left out",
    ),
    (
        (
            "for length in reversed(shape):\n"
            "        strides.append(step)\n"
            "        step *= length\n"
            "    return tuple(reversed(strides))"
        ),
        "for length in shape:\n        strides.append(step)\n        step *= length\n    return tuple(strides)",
        "compact_strides",
        "column-major order",
    ),
    ("a.strides == compact_strides(a.shape) and ", "", "is_compact", "strides have to be"),
    (" and a._offset == 0 and a.size == a._handle.size", "", "is_compact", "size has to be that of the buffer"),
    ("places = [a._offset + sum(", "places = [sum(", "compact", "offset is not added"),
    ("flat[places]", "flat[: len(places)]", "compact", "follow the strides"),
    ("return nd.array(flat[places].reshape(a.shape), device=a.device)", "return a", "compact", ""),
    ("a if is_compact(a) else compact(a)", "a", "reshape of a permuted array", "reshape a compact copy"),
    ("a if is_compact(a) else compact(a)", "compact(a)", "reshape of a compact array", "Nothing has to be moved"),
    ("[a.strides[axis] for axis in axes]", "a.strides", "permute", "strides are permuted"),
    (
        "[a.shape[axis] for axis in axes], [a.strides[axis] for axis in axes], a._offset",
        (
            "[a.shape[axes.index(axis)] for axis in range(a.ndim)], [a.strides[axes.index(axis)] for "
            "axis in range(a.ndim)], a._offset"
        ),
        "permute",
        "inverse permutation",
    ),
    (
        "[a.strides[axis] for axis in axes], a._offset",
        "[a.strides[axis] for axis in axes], 0",
        "permute",
        "offset of a itself is lost",
    ),
    ("0 if n == 1 else s for", "s for", "broadcast_to", "axis of length 1 that is repeated"),
    ("[0] * new + strides", "[a.strides[0] * a.shape[0]] * new + strides", "broadcast_to", "stride of a new axis is 0"),
    ("[0] * new + strides", "strides + [0] * new", "broadcast_to", "aligned at the front"),
    ("strides.append(stride * step)", "strides.append(stride)", "getitem", "multiplied by the steps"),
    ("offset += start * stride", "offset += start", "getitem", "multiply each by the stride"),
    ("offset += start * stride", "offset += 0", "getitem", "offset is missing"),
    ("offset += start * stride", "offset += start * stride * step", "getitem", "without the steps"),
    (
        "shape, strides, offset = [], [], a._offset",
        "shape, strides, offset = [], [], 0",
        "getitem of a view",
        "offset of a itself is lost",
    ),
    ("len(range(start, stop, step))", "(stop - start) // step", "getitem", "rounded up"),
    ("len(range(start, stop, step))", "stop - start", "getitem", "divided by the step"),
    (
        "(size * down, size * right, down, right)",
        "compact_strides((m // size, n // size, size, size))",
        "tile",
        "mere reshape",
    ),
    ("(size * down, size * right, down, right)", "(size * down, size * right, right, down)", "tile", "Within a tile"),
    ("(size * down, size * right, down, right)", "(down, right, down, right)", "tile", "From one tile to the next"),
]
