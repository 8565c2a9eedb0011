"""Timing beside one another: contenders take turns, and what else the machine did meanwhile is watched.

Absolute times mean nothing on a shared machine, and two runs one after the other little more. So in every round each
contender runs once; medians and minima are over rounds. Before its turn everybody pauses until the threads that the
last contender left spinning sleep, and then works untimed until its own threads and caches are warm. CPU time of other
processes (and what a host took away) is read from /proc/stat; a measurement that had more than `GATE` of it is
repeated, and the quietest one is kept.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

GATE = 0.05
"""Share of the machine's CPU time that others may take."""

PAUSE = 0.02
"""Seconds before a turn. The threads of OpenMP spin for some 10 ms after their work, on processors that others need."""

WARM_UP = 0.003
"""Seconds of untimed work before a turn, at least one run of it."""

Block = Callable[[int], float]
"""Runs its work so many times, once it is warm, and gives the seconds that took."""


@dataclass
class Measurement:
    """Seconds of each contender, a number per round, and the share of CPU time that others took meanwhile."""

    seconds: dict[str, list[float]]
    foreign: float | None

    def median(self, name: str) -> float:
        """Give a contender's median."""
        return median(self.seconds[name])

    def minimum(self, name: str) -> float:
        """Give a contender's minimum."""
        return min(self.seconds[name])

    def ratio(self, slow: str, fast: str) -> float:
        """Give the median, over rounds, of how many times as long `slow` takes as `fast`."""
        return median(a / b for a, b in zip(self.seconds[slow], self.seconds[fast]))

    @property
    def quiet(self) -> bool:
        """Whether the others kept below the gate."""
        return self.foreign is not None and self.foreign <= GATE


def block_of(work: Callable[[], object]) -> Block:
    """Make a block of a function."""

    def block(count: int) -> float:
        time.sleep(PAUSE)
        warm = time.perf_counter() + WARM_UP
        work()
        while time.perf_counter() < warm:
            work()
        start = time.perf_counter()
        for _ in range(count):
            work()
        return time.perf_counter() - start

    return block


def measure(
    contenders: dict[str, Block],
    rounds: int = 15,
    seconds: float = 0.02,
    patience: float = 20,
    processes: Iterable[int] = (),
) -> Measurement:
    """Let contenders take turns of about `seconds`; again while others disturb, unless `patience` seconds are over.

    `processes` are those, beside this one, that work for the contenders.
    """
    deadline = time.perf_counter() + patience
    counts = {name: max(1, round(seconds / max(block(1), 1e-7))) for name, block in contenders.items()}
    best: Measurement | None = None
    while best is None or (best.foreign is not None and not best.quiet and time.perf_counter() < deadline):
        watch = ForeignTime([os.getpid(), *processes])
        times: dict[str, list[float]] = {name: [] for name in contenders}
        for turn in range(rounds):
            order = list(contenders) if turn % 2 else list(reversed(contenders))
            for name in order:
                times[name].append(contenders[name](counts[name]) / counts[name])
        found = Measurement(times, watch.share())
        if best is None or (found.foreign or 0) < (best.foreign or 0):
            best = found
    return best


class ForeignTime:
    """CPU time that other processes take, from now on; nothing is known where there is no /proc."""

    def __init__(self, processes: list[int]) -> None:
        self._processes = processes
        self._start = self._now()

    def _now(self) -> tuple[float, float] | None:
        try:
            user, nice, system, _, _, irq, softirq, steal = _numbers("/proc/stat", 1, 9)
            own = sum(sum(_numbers(f"/proc/{process}/stat", 13, 15)) for process in self._processes)
        except FileNotFoundError:
            return None
        return time.perf_counter(), (user + nice + system + irq + softirq + steal - own) / os.sysconf("SC_CLK_TCK")

    def share(self) -> float | None:
        """Give the share of all processors' time since the start."""
        now = self._now()
        if now is None or self._start is None:
            return None
        elapsed, foreign = now[0] - self._start[0], now[1] - self._start[1]
        return max(0.0, foreign) / (elapsed * (os.cpu_count() or 1))


def _numbers(path: str, begin: int, end: int) -> list[int]:
    """Give some fields of the first line; the name of a program, in parentheses, may hold blanks."""
    line = Path(path).read_text(encoding="utf-8").splitlines()[0]
    head, _, tail = line.rpartition(")")
    fields = [*head.split(maxsplit=1), *tail.split()] if head else line.split()
    return [int(field) for field in fields[begin:end]]
