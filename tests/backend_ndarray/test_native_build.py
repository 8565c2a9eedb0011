"""What is compiled, which of it is chosen, and what is said where nothing is."""

import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import needle as ndl
from needle import backend_ndarray as nd
from needle.__main__ import main
from needle.backend_ndarray import native
from needle.errors import DeviceError, OptionError
from tests.backend_ndarray.test_kernels import KERNELS
from tests.native import ROOT, needs_native, run_python

ISA = "import needle; needle.Tensor([1.0]); print(needle.backend_info()['isa'])"


@needs_native
def test_the_best_instruction_set_is_chosen():
    info = ndl.backend_info()
    supported = ndl.cpu().kernels.extension.supported_isas()
    assert info["isas"] == native.built_isas()
    if "NEEDLE_ISA" not in os.environ:
        assert info["isa"] == next(isa for isa in info["isas"] if isa in supported)


@needs_native
def test_an_instruction_set_can_be_forced():
    supported = ndl.cpu().kernels.extension.supported_isas()
    for isa in native.built_isas():
        done = run_python(ISA, NEEDLE_ISA=isa)
        if isa in supported:
            assert done.stdout.split() == [isa], done.stderr
        else:
            assert re.search(rf"OptionError: NEEDLE_ISA='{isa}' needs instructions .*; set it to", done.stderr)


def test_a_wrong_instruction_set_is_an_error(monkeypatch):
    monkeypatch.setenv("NEEDLE_ISA", "sse9")
    with pytest.raises(OptionError, match=r"NEEDLE_ISA='sse9' is unknown; set it to one of avx512, avx2, baseline"):
        native.load()
    done = run_python(ISA, NEEDLE_ISA="sse9")
    assert done.returncode and "OptionError: NEEDLE_ISA='sse9'" in done.stderr


@needs_native
@pytest.mark.parametrize("threads", ["0", "-1", "many", "1.5", ""])
def test_a_wrong_number_of_threads_is_an_error(monkeypatch, threads):
    monkeypatch.setenv("NEEDLE_NUM_THREADS", threads)
    with pytest.raises(OptionError, match=r"NEEDLE_NUM_THREADS='.*' must be a number of threads, 1 or more"):
        native.load()


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("linux-x86_64\nFAILED: no C++ compiler was found (c++)\n", r"no C\+\+ compiler was found \(c\+\+\), see"),
        ("linux-x86_64, Python 3.10.1\n", "none for this version of Python, see"),
        (None, "needle is used from a folder in which it was not installed"),
    ],
)
def test_a_build_that_failed_says_why(monkeypatch, tmp_path, log, reason):
    monkeypatch.setattr(native, "built_isas", list)
    monkeypatch.setattr(native, "BUILD_LOG", tmp_path / "cpu_build.log")
    monkeypatch.delenv("NEEDLE_ISA", raising=False)
    if log:
        native.BUILD_LOG.write_text(log)
    with pytest.raises(DeviceError, match=rf"its kernels were not compiled \({reason}"):
        native.load()


@pytest.mark.slow
def test_without_a_compiler_needle_installs_and_the_device_says_why(tmp_path):
    source, installed = tmp_path / "source", tmp_path / "installed"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "*.so", "*.log"))
    environment = {name: value for name, value in os.environ.items() if name not in ("CXX", "NEEDLE_ISA")}
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", installed, source]
    done = subprocess.run(
        command, env=environment | {"CC": "/nonexistent"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    code = "import needle as ndl; print(ndl.default_device(), ndl.Tensor([1.0]) + 1); ndl.cpu().zeros(2)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | {"PYTHONPATH": str(installed)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("cpu_numpy()"), done.stderr
    log = installed / "needle" / "backend_ndarray" / "cpu_build.log"
    assert "no C++ compiler was found (/nonexistent)" in log.read_text()
    assert re.search(
        r"DeviceError: cpu\(\) is not enabled: its kernels were not compiled \(no C\+\+ compiler was found "
        rf"\(/nonexistent\), see {re.escape(str(log))}\); install g\+\+ or clang\+\+ and then needle again, or use",
        done.stderr,
    )


def test_info_is_printed():
    done = run_python("import runpy; runpy.run_module('needle', run_name='__main__')")
    assert f"version: {ndl.__version__}" in done.stdout, done.stderr
    lines = done.stdout.splitlines()
    assert "device cpu_numpy: enabled" in lines
    assert "device cuda: not there (needle has no CUDA backend; use default_device())" in lines
    assert re.search(r"^threads: \d+$", done.stdout, re.MULTILINE)


def test_info_of_a_machine_without_a_compiler_is_in_words(monkeypatch, capsys):
    monkeypatch.setitem(ndl.cpu().__dict__, "_loaded", ImportError("its kernels were not compiled"))
    main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("device cpu: not there (its kernels were not compiled; install g++")
    assert {"instruction set: none, without the device cpu", "kernels in C++: none"} <= set(lines)
    assert not [line for line in lines if "None" in line or line.rstrip().endswith(":")]


# Which kernels are native: each is called on floating-point numbers while the reference kernels are watched.


def arguments(name, dtype):
    """Arguments for a kernel, small and fitting."""

    def array(*shape):
        return nd.full(shape, 0.5, dtype=dtype, device=ndl.cpu())

    def whole(dtype, *shape):
        return nd.full(shape, 0, dtype=dtype, device=ndl.cpu())

    images, windows, positions = array(1, 2, 4, 4), array(1, 2, 2, 2), whole("uint8", 1, 2, 2, 2)
    pool = ((2, 2), (2, 2), (0, 0))
    conv = ((1, 1), (1, 1), (1, 1), 1)
    x, kernel, y = array(1, 4, 4, 2), array(3, 3, 2, 5), array(1, 4, 4, 5)
    statistic, weight = array(1, 3), array(1, 3)
    parameters = [[array(3), array(2, 2)] for _ in range(4)]
    if name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        return array(2, 3), array(3), whole("bool", 2, 3)
    if name in ("add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "relu_gradient"):
        return array(2, 3), array(3), array(2, 3)
    special = {
        "from_numpy": (np.zeros((2, 3)), array(2, 3)),
        "to_numpy": (array(2, 3),),
        "fill": (array(2, 3), 1.0),
        "gather": (array(3, 2), whole("int64", 4), array(4, 2)),
        "scatter_add": (array(4, 2), whole("int64", 4), array(3, 2)),
        "where": (whole("bool", 2, 3), array(3), 1.0, array(2, 3)),
        "argmax": (array(2, 3), 1, whole("int64", 2, 1)),
        "argsort": (array(2, 3), 1, whole("int64", 2, 3)),
        "cumsum": (array(2, 3), 1, array(2, 3)),
        "softmax": (array(2, 3), 1, array(2, 3)),
        "log_softmax": (array(2, 3), 1, array(2, 3)),
        "cross_entropy": (array(2, 3), whole("int64", 2, 1), 1, *(array(2, 1) for _ in range(3))),
        "cross_entropy_gradient": (
            array(2, 1), array(2, 3), whole("int64", 2, 1), array(2, 1), array(2, 1), 1, array(2, 3)
        ),
        "matmul": (array(2, 3), array(3, 4), array(2, 4)),
        "conv": (x, kernel, array(5), y, *conv),
        "conv_input_gradient": (y, kernel, x, *conv),
        "conv_weight_gradient": (x, y, kernel, *conv),
        "max_pool": (images, windows, positions, *pool),
        "max_pool_gradient": (windows, positions, images, *pool),
        "max_pool_gather": (images, positions, windows, *pool),
        "avg_pool": (images, windows, *pool, True),
        "avg_pool_gradient": (windows, images, *pool, True),
        "normalize": (array(4, 3), weight, weight, (0,), 1e-5, True, array(4, 3), statistic, array(1, 3)),
        "normalize_gradient": (
            array(4, 3), array(4, 3), array(4, 3), weight, statistic, statistic, (0,),
            array(4, 3), array(1, 3), array(1, 3),
        ),
        "sgd_update": (*parameters[:3], 0.1, 0.9, 0.0, 0.01, True),
        "adam_update": (*parameters, 0.1, 0.9, 0.99, 1e-8, 0.01, False, 1),
    }  # fmt: skip
    if name.startswith("reduce_"):
        return array(2, 3), (1,), array(2, 1)
    return special.get(name, (array(2, 3), array(2, 3)))


@needs_native
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", KERNELS)
def test_the_list_of_native_kernels_is_true(monkeypatch, name, dtype):
    given = arguments(name, dtype)
    called = []
    for kernel in KERNELS:
        monkeypatch.setattr(nd.cpu_numpy().kernels, kernel, lambda *args, kernel=kernel: called.append(kernel))
    getattr(ndl.cpu().kernels, name)(*given)
    info = ndl.backend_info()
    assert called == ([] if name in info["native_kernels"] else [name])
    assert (name in info["native_kernels"]) != (name in info["reference_kernels"])
