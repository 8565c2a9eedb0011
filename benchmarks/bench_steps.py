"""Time whole training steps beside PyTorch and JAX, and measure what else a step takes; see README.md."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import date
from pathlib import Path
from typing import Any

import footprint
import machine
import numpy as np
import torch
from bench_kernels import foreign_share
from cases import Case
from networks import NETWORKS, needle_module
from options import choose, positive
from steps import batch_of, cases, needle_step
from timing import GATE, Block, block_of, measure

import needle as ndl

BATCHES = (16, 64, 256, 1024)
MEGABYTE = 1e6


def main() -> None:
    """Measure, print a report, and write it."""
    args = parse_arguments()
    if not ndl.cpu().enabled():
        sys.exit(f"bench_steps: {ndl.backend_info()['devices']['cpu']}")
    ndl.set_num_threads(args.threads)
    torch.set_num_threads(args.threads)
    chosen = choose(cases(args.compile), args.only)
    args.output.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {
        "date": date.today().isoformat(),
        "machine": machine.description(),
        "threads": args.threads,
        "isa": ndl.backend_info()["isa"],
        "versions": versions(),
        "steps": measure_all(chosen, args.rounds),
    }
    if not args.only:
        result["batches"] = batches(args.rounds)
        result["scaling"] = scaling(args.threads, args.rounds) if args.threads > 1 else []
        result["memory"] = memory()
        result["import"] = footprint.import_seconds()
        result["installed"] = footprint.installed_bytes(ndl)
    report = as_markdown(result)
    print(report)
    (args.output / "steps.md").write_text(report + "\n", encoding="utf-8")
    (args.output / "steps.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--only", default="", metavar="WORD", help="measure the steps with this in their names")
    add("--threads", type=positive, default=ndl.num_threads(), help="of all libraries (default: %(default)s)")
    add("--rounds", type=positive, default=9, help="turns of each contender (default: %(default)s)")
    add("--compile", action=argparse.BooleanOptionalAction, default=True, help="torch.compile as a contender")
    add("--output", type=Path, default=Path(__file__).parent / "results", help="folder (default: benchmarks/results)")
    return parser.parse_args()


def versions() -> dict[str, str]:
    """Give the libraries' versions."""
    found = {"needle": ndl.__version__, "PyTorch": torch.__version__, "NumPy": np.__version__}
    try:
        import jax  # optional
    except ImportError:
        return found
    return found | {"JAX": jax.__version__}


def measure_all(chosen: list[Case], rounds: int) -> list[dict[str, Any]]:
    """Measure the steps."""
    rows: list[dict[str, Any]] = []
    for case in chosen:
        print(f"\r{len(rows) + 1}/{len(chosen)}  {case.name:60}", end="", file=sys.stderr, flush=True)
        found = measure({name: block_of(work) for name, work in case.make().items()}, rounds, seconds=0.05)
        best = min((name for name in found.seconds if name.startswith("PyTorch")), key=found.median)
        ratios = {name: found.ratio(best, name) for name in found.seconds if name.startswith("needle")}
        rows.append({
            "name": case.name, "goal": case.goal, "best": best, "ratio": ratios["needle"],
            "ratio of minima": found.minimum(best) / found.minimum("needle"),
            "one by one": ratios.get("needle one by one"),
            "JAX": found.ratio("JAX", "needle") if "JAX" in found.seconds else None,
            "foreign": found.foreign, "quiet": found.quiet,
            "medians": {name: found.median(name) for name in found.seconds},
            "minima": {name: found.minimum(name) for name in found.seconds},
        })  # fmt: skip
    print(file=sys.stderr)
    return rows


def mnist_step(size: int) -> Block:
    """Make the step of the mnist network with a batch of `size`."""
    network = NETWORKS["mnist"]
    return block_of(needle_step(needle_module(network.layers), *batch_of(network, size), "SGD"))


def batches(rounds: int) -> dict[str, float]:
    """Give the time of the mnist step by batch, as a share of the line through the largest."""
    found = measure({str(size): mnist_step(size) for size in BATCHES}, rounds, seconds=0.05)
    largest = str(BATCHES[-1])
    return {name: found.median(name) / found.median(largest) * int(largest) / int(name) for name in found.seconds}


def scaling(threads: int, rounds: int) -> list[dict[str, Any]]:
    """Measure what more threads give a step, beside what they give the machine's own multiply-adds."""

    def with_threads(count: int, inner: Block) -> Block:
        def block(times: int) -> float:
            with ndl.set_num_threads(count):
                return inner(times)

        return block

    rows = []
    for name in ("mnist", "resnet9"):
        network = NETWORKS[name]
        step = block_of(needle_step(needle_module(network.layers), *batch_of(network), "SGD"))
        steps = {f"step {n}": with_threads(n, step) for n in (1, threads)}
        found = measure(steps | {f"fma {n}": block_of(machine.fma_work(n)) for n in (1, threads)}, rounds, 0.05)
        gain, limit = found.ratio("step 1", f"step {threads}"), threads * found.ratio("fma 1", f"fma {threads}")
        rows.append({"name": name, "gain": gain, "machine": limit, "share": gain / limit, "foreign": found.foreign})
    return rows


def memory() -> dict[str, dict[str, dict[str, int]]]:
    """Measure the memory of training, a process for each way, and whether 500 steps take more than 5."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for name in ("resnet9", "wide resnet9"):
        found[name] = {
            "needle": footprint.memory("needle", name),
            "needle, free_graph": footprint.memory("needle", name, free_graph=True),
            "PyTorch": footprint.memory("torch", name),
        }
    found["resnet9, 500 steps"] = {"needle": footprint.memory("needle", "resnet9", steps=500)}
    return found


def as_markdown(result: dict[str, Any]) -> str:
    """Write the report."""
    libraries = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    lines = [
        "# Training steps beside PyTorch and JAX",
        "",
        f"{result['date']}; {result['machine']}; {result['threads']} threads; {libraries}; needle's instruction set: "
        f"{result['isa']}.",
        "",
        "Forward, backward and update, called from Python. Ratio: how many times as fast as the fastest of PyTorch's "
        "ways (eager or compiled, both layouts, foreach or fused optimizer), the median over rounds, in parentheses of "
        "the minima. One by one: the same for the network as a class whose forward calls layer after layer. Goal: at "
        f"least / hoped for. Foreign: CPU time of other processes; a row with more than {GATE:.0%} proves nothing.",
        "",
        "| step | needle, ms | PyTorch's best, ms | ratio | one by one | goal | times JAX | foreign |",
        "|---|---|---|---|---|---|---|---|",
        *map(_step, result["steps"]),
    ]
    if "batches" in result:
        lines += _batches(result["batches"]) + _scaling(result["scaling"], result["threads"])
        lines += _memory(result["memory"])
        lines += ["", f"`import needle` takes {result['import']:.3f} s beyond NumPy's own; installed it is "
                  f"{result['installed'] / MEGABYTE:.1f} MB."]  # fmt: skip
    return "\n".join(lines)


def _step(row: dict[str, Any]) -> str:
    def text(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    best = row["best"].removeprefix("PyTorch").strip()
    cells = [
        row["name"],
        f"{row['medians']['needle'] * 1e3:.3g}",
        f"{row['medians'][row['best']] * 1e3:.3g}" + f" ({best})" * bool(best),
        f"**{row['ratio']:.2f}** ({row['ratio of minima']:.2f})",
        text(row["one by one"]),
        row["goal"],
        text(row["JAX"]),
        foreign_share(row),
    ]
    return f"| {' | '.join(cells)} |"


def _batches(shares: dict[str, float]) -> list[str]:
    lines = ["", "## Batches", "", "Time of the mnist step, as a share of the line through the largest batch.", ""]
    lines += [f"| batch | {' | '.join(shares)} |", "|---" * (len(shares) + 1) + "|"]
    return [*lines, f"| share | {' | '.join(f'{share:.2f}' for share in shares.values())} |"]


def _scaling(rows: list[dict[str, Any]], threads: int) -> list[str]:
    lines = ["", f"## 1 to {threads} threads", ""]
    lines += ["| step | gain | of the machine's multiply-adds | share | foreign |", "|---|---|---|---|---|"]
    for row in rows:
        numbers = " | ".join(f"{row[name]:.2f}" for name in ("gain", "machine", "share"))
        lines.append(f"| {row['name']} | {numbers} | {foreign_share(row)} |")
    return lines if rows else []


def _memory(networks: dict[str, dict[str, dict[str, int]]]) -> list[str]:
    lines = ["", "## Memory", "", f"Resident memory of training {footprint.STEPS} steps, in MB."]
    lines += ["", "| network | library | peak above the start | of PyTorch's | added after step 5 |", "|---" * 5 + "|"]
    for network, ways in networks.items():
        for way, found in ways.items():
            share = f"{found['growth'] / ways['PyTorch']['growth']:.2f}" if "PyTorch" in ways else ""
            numbers = f"{found['growth'] / MEGABYTE:.1f} | {share} | {found['later'] / MEGABYTE:.1f}"
            lines.append(f"| {network} | {way} | {numbers} |")
    return lines


if __name__ == "__main__":
    main()
