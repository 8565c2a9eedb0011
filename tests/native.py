"""What the tests of the native backend share."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import needle as ndl

ROOT = Path(__file__).parents[1]

needs_native = pytest.mark.skipif(not ndl.cpu().enabled(), reason="the native backend is not compiled here")


def run_python(code, *options, timeout=300, **environment):
    """Run code in a Python of its own, a crash of which is a return code."""
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
    )


def view(array, **facts):
    """What a kernel sees of an array, some of it changed: handle, shape, strides, offset."""
    names = ("_handle", "_shape", "_strides", "_offset", "_dtype", "_device")
    return SimpleNamespace(**{name: facts.get(name[1:], getattr(array, name)) for name in names})
