"""What must not break training: memory that runs out, a spawned process, and long runs."""

import gc
import os
import sys
import time

import numpy as np
import pytest

import needle as ndl
from needle import autograd, optim
from tests.native import run_python
from tests.test_graph_limits import steps

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and limits of address space")

TRAINING = """
import gc, hashlib, resource, sys
import numpy as np
import needle as ndl
from needle import nn, optim

def train():
    ndl.manual_seed(0)
    device = {device}
    model = nn.Sequential(
        nn.Conv(3, 32, 3, device=device), nn.BatchNorm2d(32, device=device), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv(32, 32, 3, device=device), nn.Flatten(), nn.Linear(32 * 256, 10, device=device),
    )
    optimizer = optim.Adam(model.parameters())
    x, y = ndl.rand(32, 3, 32, 32, device=device), np.arange(32) % 10
    for _ in range(2):
        optimizer.reset_grad()
        nn.SoftmaxLoss()(model(x), y).backward()
        optimizer.step()
    return hashlib.sha256(b"".join(p.numpy().tobytes() for p in model.parameters())).hexdigest()

def address_space():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
"""


@on_linux
@pytest.mark.parametrize("name", ["cpu", "cpu_numpy"])
def test_memory_runs_out_and_comes_back(name):
    """Under ever less memory a training ends in MemoryError, wherever it gives out, or with the same weights."""
    if not ndl.backend_ndarray.device(name).enabled():
        pytest.skip(f"{name} is not there")
    code = (
        TRAINING.format(device=f"ndl.{name}()")
        + """
expected, failures, successes = train(), 0, 0
for megabytes in [*range(0, 40, 2), 60, 100, 200, 400]:
    ndl.empty_cache()
    gc.collect()
    resource.setrlimit(resource.RLIMIT_AS, (address_space() + (megabytes << 20), resource.RLIM_INFINITY))
    try:
        assert train() == expected
        successes += 1
    except MemoryError:
        failures += 1
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert train() == expected
print(failures > 0, successes > 0)
"""
    )
    done = run_python(code, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr


def test_a_spawned_process_computes_the_same(tmp_path):
    """Not forked: it imports needle anew, after this one's kernels have run."""
    script = tmp_path / "spawn.py"
    script.write_text(
        "import multiprocessing\n"
        "import needle as ndl\n"
        "def work(n):\n"
        "    ndl.manual_seed(n)\n"
        "    return float((ndl.rand(300, 300) @ ndl.rand(300, 300)).exp().log().sum().item())\n"
        "if __name__ == '__main__':\n"
        "    expected = [work(n) for n in range(3)]\n"
        "    with multiprocessing.get_context('spawn').Pool(2) as pool:\n"
        "        assert pool.map(work, range(3)) == expected\n"
    )
    done = run_python(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')")
    assert done.returncode == 0, done.stderr


@on_linux
@pytest.mark.slow
@pytest.mark.timeout(0)
def test_a_long_training_holds_what_a_short_one_holds(device):
    """Half a minute here; NEEDLE_SOAK_MINUTES=10 makes it ten."""
    end = time.monotonic() + 60 * float(os.environ.get("NEEDLE_SOAK_MINUTES", "0.5")) / 2  # two devices

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    trainings = [steps(device, lambda ps, lr: optim.SGD(ps, lr, momentum=0.9), False), steps(device, optim.Adam, True)]
    for _ in range(20):
        for training in trainings:
            next(training)
    gc.collect()
    live, memory = autograd.TENSOR_COUNTER, resident()
    count = 0
    while time.monotonic() < end:
        losses = [next(training) for training in trainings]
        count += 1
        assert autograd.TENSOR_COUNTER == live
    assert count > 20
    assert all(np.isfinite(loss.item()) for loss in losses)
    assert resident() - memory < 4 * 2**20
