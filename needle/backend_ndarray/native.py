"""Which of the compiled modules, one per instruction set, serves `cpu()`; and why none does, where that is so."""

from __future__ import annotations

import importlib
import os
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from needle.errors import DeviceError, OptionError

ISAS = ("avx512", "avx2", "baseline", "neon")
"""Instruction sets with builds, the best one first. `baseline` and `neon` are what every machine of its kind has."""

BUILD_LOG = Path(__file__).with_name("cpu_build.log")


def load() -> ModuleType:
    """Import the module of the best instruction set that this processor has, or of that which NEEDLE_ISA names.

    Raises:
        OptionError: NEEDLE_ISA or NEEDLE_NUM_THREADS is set to what cannot be.
        DeviceError: nothing was compiled; the message says why, and where the log of the build is.
    """
    wanted = os.environ.get("NEEDLE_ISA")
    if wanted is not None and wanted not in ISAS:
        raise OptionError(f"NEEDLE_ISA={wanted!r} is unknown; set it to one of {', '.join(ISAS)}, or leave it out")
    built = built_isas()
    if not built:
        raise DeviceError(f"its kernels were not compiled ({_reason()})")
    supported = _module(built[-1]).supported_isas()
    usable = [isa for isa in built if isa in supported]
    if wanted is not None and wanted not in usable:
        why = "is not built" if wanted in supported else "needs instructions that this processor lacks"
        raise OptionError(f"NEEDLE_ISA={wanted!r} {why}; set it to one of {', '.join(usable)}, or leave it out")
    module = _module(wanted or usable[0])
    threads = os.environ.get("NEEDLE_NUM_THREADS")
    if threads is not None:
        if not threads.isdecimal() or int(threads) < 1:
            raise OptionError(f"NEEDLE_NUM_THREADS={threads!r} must be a number of threads, 1 or more")
        module.set_num_threads(int(threads))
    return module


def built_isas() -> list[str]:
    """Give the instruction sets whose modules are installed, the best one first."""
    return [isa for isa in ISAS if find_spec(f"{__package__}._cpu_{isa}") is not None]


def _module(isa: str) -> ModuleType:
    return importlib.import_module(f"{__package__}._cpu_{isa}")


def _reason() -> str:
    """Give the first failure in the log of the build, and the log's place."""
    if not BUILD_LOG.exists():
        return "needle is used from a folder in which it was not installed"
    lines = BUILD_LOG.read_text(encoding="utf-8").splitlines()
    failures = [line.removeprefix("FAILED: ") for line in lines if line.startswith("FAILED: ")]
    return f"{failures[0] if failures else 'none for this version of Python'}, see {BUILD_LOG}"
