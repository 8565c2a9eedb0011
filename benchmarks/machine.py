"""The machine's limits: peak of fused multiply-adds, bandwidth of memory, by compiled loops; and what machine it is."""

from __future__ import annotations

import ctypes
import os
import platform
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import numpy as np
from timing import block_of, measure

STEPS = 2_000_000
"""Of the loop of multiply-adds, a thread: some milliseconds, beside which calling threads takes no time."""

FLOATS = 1 << 24
"""Elements of each of the three arrays that stream: 64 MB, more than a cache."""


@lru_cache(maxsize=1)
def loops() -> ctypes.CDLL:
    """Compile and load peak.c."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "peak.so")
        source = Path(__file__).with_name("peak.c")
        options = ["-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC"]
        if platform.machine() in ("x86_64", "AMD64"):
            options.append("-mprefer-vector-width=512")
        subprocess.run([*compiler, *options, str(source), "-o", str(library)], check=True)
        loaded = ctypes.CDLL(str(library))
    loaded.fma_loop.restype = loaded.triad.restype = ctypes.c_double
    loaded.fma_loop.argtypes = [ctypes.c_long]
    loaded.triad.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_long]
    return loaded


def fma_work(threads: int) -> Callable[[], float]:
    """Make a function that does STEPS of the loop on each thread, and gives the number of operations."""
    loop, pool = loops().fma_loop, ThreadPoolExecutor(threads)
    return lambda: sum(pool.map(loop, [STEPS] * threads))


def stream_work(threads: int) -> Callable[[], float]:
    """Make a function that streams through memory on so many threads, and gives the number of bytes."""
    arrays, share = [np.ones(FLOATS, np.float32) for _ in range(3)], FLOATS // threads
    triad, pool = loops().triad, ThreadPoolExecutor(threads)

    def part(index: int) -> float:
        bytes_moved: float = triad(*(a[index * share :].ctypes.data for a in arrays), share)
        return bytes_moved

    return lambda: sum(pool.map(part, range(threads)))


def limits(threads: int, rounds: int) -> dict[str, float]:
    """Measure operations and bytes a second, on one thread and on all."""
    work = {f"fma {n}": fma_work(n) for n in (1, threads)} | {f"stream {n}": stream_work(n) for n in (1, threads)}
    found = measure({name: block_of(f) for name, f in work.items()}, rounds)
    return {name: f() / found.minimum(name) for name, f in work.items()}


def description() -> str:
    """Name the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return f"{line.partition(':')[2].strip()}, {os.cpu_count()} processors"
    except FileNotFoundError:
        pass
    return f"{platform.processor() or platform.machine()}, {os.cpu_count()} processors"
