"""NEEDLE_BACKEND, and the names that course code imports from needle.backend_selection."""

import os
import subprocess
import sys

import pytest

from needle import backend_ndarray as nd
from needle import backend_selection


def run(code: str, backend: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NEEDLE_BACKEND": backend}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


def test_names():
    assert backend_selection.array_api is nd
    assert backend_selection.NDArray is nd.NDArray
    assert backend_selection.Device is nd.BackendDevice
    assert backend_selection.BACKEND in ("nd", "np")
    for name in ("cpu", "cuda", "cpu_numpy", "all_devices", "default_device"):
        assert getattr(backend_selection, name) is getattr(nd, name)


@pytest.mark.slow
def test_np_keeps_what_comes_in():
    code = """
import numpy as np
from needle import backend_ndarray as nd
assert nd.default_device() == nd.cpu_numpy()
for values in (1.5, 2, [True], np.ones(1), np.ones(1, "float32"), np.ones(1, "uint8")):
    assert nd.array(values).dtype == np.asarray(values).dtype, values
assert nd.array([1.0], dtype="float32").dtype == np.float32
assert nd.default_dtype() == nd.empty((1,)).dtype == np.float64
"""
    done = run(code, "np")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_an_unknown_backend():
    assert "NEEDLE_BACKEND='tf' is unknown; set it to 'nd' or 'np'" in run("import needle.backend_ndarray", "tf").stderr
