"""Buffers of the native device: alignment, the cache, and views that outlive their arrays."""

import gc
import mmap
import os

import numpy as np
import pytest

import needle as ndl
from needle import backend_ndarray as nd
from needle.errors import DTypeError, ShapeError
from tests.native import needs_native

pytestmark = needs_native

FLOAT32 = np.dtype("float32")


@pytest.fixture
def extension():
    """The compiled module, its cache empty, and its bound restored at the end."""
    module = ndl.cpu().kernels.extension
    limit = module.cache_limit()
    gc.collect()
    module.empty_cache()
    yield module
    module.set_cache_limit(limit)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1000, 12345, 10**6, 3 * 10**6])
def test_buffers_are_aligned(extension, size):
    handles = [extension.Array(size, FLOAT32) for _ in range(3)]
    assert all(handle.ptr() % 64 == 0 and handle.size == size for handle in handles)
    assert len({handle.ptr() for handle in handles}) == 3


def test_freed_memory_is_taken_again(extension):
    handle = extension.Array(10**6, FLOAT32)
    address = handle.ptr()
    del handle
    assert extension.cached_bytes() >= 4 * 10**6
    assert extension.Array(10**6 - 1000, FLOAT32).ptr() == address  # of the same class of sizes
    ndl.empty_cache()
    assert extension.cached_bytes() == 0


def test_the_cache_has_a_bound(extension):
    assert 0 < extension.cache_limit() <= 2**30
    extension.set_cache_limit(10**6)
    handles = [extension.Array(size, FLOAT32) for size in range(1, 300_000, 4999)]
    while handles:
        handles.pop()
        assert extension.cached_bytes() <= 10**6
    extension.set_cache_limit(0)
    assert extension.cached_bytes() == 0
    del handles
    extension.Array(100, FLOAT32)
    assert extension.cached_bytes() == 0


def test_blocks_do_not_overlap(extension):
    """Arrays of many sizes are written, freed and made in a random order; each keeps what was written."""
    rng = np.random.default_rng(0)
    alive = {}
    for step in range(2000):
        if len(alive) < 40 or rng.random() < 0.5:
            array = nd.empty((int(rng.integers(0, 3000)),), device=ndl.cpu())
            array.fill(step)
            alive[step] = array
        else:
            key = list(alive)[int(rng.integers(len(alive)))]
            assert (np.asarray(alive.pop(key)) == key).all()
    assert all((np.asarray(array) == key).all() for key, array in alive.items())


@pytest.mark.parametrize("size", [2**40, 2**61, 2**62, 2**63 - 1, 2**63, 2**80])
def test_too_large(extension, size):
    with pytest.raises(MemoryError):
        extension.Array(size, np.dtype("float64"))
    with pytest.raises(MemoryError):
        nd.empty((size,), "float64", ndl.cpu())


def test_what_is_no_size_or_dtype(extension):
    with pytest.raises(ShapeError, match="negative"):
        extension.Array(-1, FLOAT32)
    with pytest.raises(TypeError):
        extension.Array("3", FLOAT32)
    with pytest.raises(DTypeError):
        extension.Array(3, np.dtype("complex64"))
    assert extension.Array(size=3, dtype="float64").dtype is np.dtype("float64")


def test_only_the_version_of_a_handle_changes(extension):
    handle = extension.Array(3, FLOAT32)
    handle.version = 7
    assert handle.version == 7
    for name in ("size", "dtype", "data"):
        with pytest.raises(AttributeError):
            setattr(handle, name, 1)
    with pytest.raises(TypeError):
        extension.Array.size = 1
    with pytest.raises(TypeError):
        type("Sub", (extension.Array,), {})


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "uint8", "bool"])
def test_buffer_protocol(extension, dtype):
    handle = extension.Array(5, np.dtype(dtype))
    for values in (np.frombuffer(handle, dtype), np.asarray(memoryview(handle)), np.asarray(handle.data)):
        assert (values.dtype, values.shape, values.ctypes.data) == (np.dtype(dtype), (5,), handle.ptr())
        assert values.flags.writeable


def test_asarray_copies_nothing_and_keeps_the_memory():
    a = nd.array(np.arange(6.0).reshape(2, 3), device=ndl.cpu())
    view = np.asarray(a.T)
    assert view.ctypes.data == a._handle.ptr()
    del a
    gc.collect()
    others = [nd.full((6,), 9.0, device=ndl.cpu()) for _ in range(20)]
    assert view.tolist() == [[0, 3], [1, 4], [2, 5]], others


def test_a_handle_on_foreign_memory_keeps_its_owner(extension):
    owner = mmap.mmap(-1, 4096)
    handle = extension.Array.wrap(np.frombuffer(owner, "float32"))
    with pytest.raises(BufferError):
        owner.close()
    del handle
    gc.collect()
    owner.close()
    for line in (np.zeros(4, "complex64"), np.zeros((4, 2))[:, 0], np.frombuffer(b"12345678", "float32")):
        with pytest.raises((TypeError, ValueError)):
            extension.Array.wrap(line)
    with pytest.raises((ValueError, AttributeError)):
        extension.Array.wrap(np.frombuffer(bytearray(9), "uint8")[1:].view("float64"))
    with pytest.raises(AttributeError):
        extension.Array.wrap(3)


def test_memory_does_not_grow(extension):
    """A loop that makes and drops arrays needs no more memory the longer it runs."""

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    if not os.path.exists("/proc/self/statm"):
        pytest.skip("needs /proc")
    a = nd.full((1000, 1000), 1.0, device=ndl.cpu())
    for _ in range(5):
        a = a + 1
    before = resident()
    for _ in range(200):
        a = a + 1
    assert resident() - before < 20 * 2**20
