"""What needle takes beside time: memory in training, seconds to import, bytes installed. Each in a process of its own.

`python footprint.py LIBRARY NETWORK free|keep` is such a process: it trains, and prints a line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

STEPS = 30


def resident(field: str) -> int:
    """Give this process's resident memory in bytes: "VmRSS" now, "VmHWM" at its highest."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def train(library: str, name: str, free_graph: bool, steps: int) -> dict[str, int]:
    """Train a network; give the memory before it, the peak above that, and what the steps after the fifth added."""
    steps_of, networks = import_module("steps"), import_module("networks")
    network = networks.NETWORKS[name]
    x, y = steps_of.batch_of(network)
    base = resident("VmRSS")
    if library == "needle":
        work = steps_of.needle_step(networks.needle_module(network.layers), x, y, "SGD", free_graph)
    else:
        memory = import_module("torch").contiguous_format
        work = steps_of.torch_step(network, x, y, "SGD", memory, fused=True)
    for _ in range(5):
        work()
    after_five = resident("VmRSS")
    for _ in range(steps - 5):
        work()
    return {"base": base, "growth": resident("VmHWM") - base, "later": resident("VmRSS") - after_five}


def memory(library: str, name: str, free_graph: bool = False, steps: int = STEPS) -> dict[str, int]:
    """Train in a process of its own, see `train`."""
    command = [sys.executable, __file__, library, name, "free" if free_graph else "keep", str(steps)]
    found: dict[str, int] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def import_seconds(rounds: int = 9) -> float:
    """Give the seconds that `import needle` takes beyond NumPy's own, the median of some processes."""
    code = "import numpy, time; start = time.perf_counter(); import needle; print(time.perf_counter() - start)"
    command, times = [sys.executable, "-c", code], []
    for _ in range(rounds + 1):  # the first one may have to compile to bytecode
        times.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    return median(times[1:])


def installed_bytes(package: Any) -> int:
    """Give the size of a package's files, without bytecode and what a build left beside them."""
    files = [path for path in Path(package.__file__).parent.rglob("*") if path.is_file()]
    return sum(os.path.getsize(path) for path in files if path.suffix not in (".pyc", ".log"))


if __name__ == "__main__":
    library, name, graph, steps = sys.argv[1:]
    print(json.dumps(train(library, name, graph == "free", int(steps))))
