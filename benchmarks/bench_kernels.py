"""Time kernels and layers beside PyTorch and NumPy in one process, or two revisions of needle; see README.md."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import compare
import machine
import numpy as np
import torch
from bits import THREADS, changing_bits
from cases import CASES, Case, Work, directly, normal
from options import choose, positive
from timing import GATE, Block, Measurement, block_of, measure

import needle as ndl


def main() -> None:
    """Measure, print a report, and write it."""
    args = parse_arguments()
    if not ndl.cpu().enabled():
        sys.exit(f"bench_kernels: {ndl.backend_info()['devices']['cpu']}")
    chosen = choose(CASES, args.only)
    args.output.mkdir(parents=True, exist_ok=True)
    ndl.set_num_threads(args.threads)
    torch.set_num_threads(args.threads)
    if args.base:
        result = compare.measure_revisions(args.base, chosen, args.threads, args.rounds)
        report = compare.as_markdown(result)
    else:
        result = measure_all(chosen, args.threads, args.rounds)
        if not args.only:
            result["scaling"] = scaling(args.threads, args.rounds) if args.threads > 1 else []
            result["float64"] = float64(args.rounds)
            result["bits"] = changing_bits()
        report = as_markdown(result)
    print(report)
    name = "revisions" if args.base else "kernels"
    (args.output / f"{name}.md").write_text(report + "\n", encoding="utf-8")
    (args.output / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--only", default="", metavar="WORD", help="measure the cases with this in their names")
    add("--threads", type=positive, default=ndl.num_threads(), help="of both libraries (default: %(default)s)")
    add("--rounds", type=positive, default=15, help="turns of each contender (default: %(default)s)")
    add("--base", default="", metavar="REVISION", help="compare with this revision of needle")
    add("--output", type=Path, default=Path(__file__).parent / "results", help="folder (default: benchmarks/results)")
    return parser.parse_args()


def measure_all(cases: list[Case], threads: int, rounds: int) -> dict[str, Any]:
    """Measure the machine and the cases."""
    limits = machine.limits(threads, rounds)
    rows: list[dict[str, Any]] = []
    for case in cases:
        print(f"\r{len(rows) + 1}/{len(cases)}  {case.name:60}", end="", file=sys.stderr, flush=True)
        found = measure({name: block_of(work) for name, work in case.make().items()}, rounds)
        rows.append(row_of(case, found, limits, threads))
    print(file=sys.stderr)
    return {
        "machine": machine.description(),
        "threads": threads,
        "isa": ndl.backend_info()["isa"],
        "versions": {"needle": ndl.__version__, "PyTorch": torch.__version__, "NumPy": np.__version__},
        "limits": limits,
        "cases": rows,
        "scaling": [],
        "float64": [],
        "bits": {},
    }


def row_of(case: Case, found: Measurement, limits: dict[str, float], threads: int) -> dict[str, Any]:
    """Give a case's numbers."""
    peers = [name for name in found.seconds if name.startswith("PyTorch")]
    best = min(peers, key=found.median)
    bound = max(case.operations / limits[f"fma {threads}"], case.bytes / limits[f"stream {threads}"])
    return {
        "name": case.name,
        "goal": case.goal,
        "direct goal": case.direct_goal,
        "best": best,
        "ratio": found.ratio(best, "needle"),
        "ratio of minima": found.minimum(best) / found.minimum("needle"),
        "direct ratio": found.ratio(best, "needle direct") if "needle direct" in found.seconds else None,
        "NumPy ratio": found.ratio("NumPy", "needle") if "NumPy" in found.seconds else None,
        "share of limit": bound / found.median("needle"),
        "foreign": found.foreign,
        "quiet": found.quiet,
        "medians": {name: found.median(name) for name in found.seconds},
        "minima": {name: found.minimum(name) for name in found.seconds},
    }


def scaling(threads: int, rounds: int) -> list[dict[str, Any]]:
    """Measure what more threads give large work, beside what they give the machine's own multiply-adds."""

    def with_threads(count: int, work: Work) -> Block:
        inner = block_of(work)

        def block(times: int) -> float:
            with ndl.set_num_threads(count):
                return inner(times)

        return block

    rows = []
    for case in CASES[:3] + [case for case in CASES if case.name.startswith("matmul 2048")]:
        work = case.make()["needle"]
        kinds = {"auto": work} | ({"direct": directly(work)} if case.direct_goal else {})
        blocks = {f"{kind} {n}": with_threads(n, f) for kind, f in kinds.items() for n in (1, threads)}
        found = measure(blocks | {f"fma {n}": block_of(machine.fma_work(n)) for n in (1, threads)}, rounds)
        machine_gain = threads * found.ratio("fma 1", f"fma {threads}")  # each thread had as much to do
        for kind in kinds:
            gain = found.ratio(f"{kind} 1", f"{kind} {threads}")
            facts = {"gain": gain, "machine": machine_gain, "share": gain / machine_gain}
            rows.append({"name": f"{case.name}, {kind}", **facts, "foreign": found.foreign, "quiet": found.quiet})
    return rows


def float64(rounds: int) -> list[dict[str, Any]]:
    """Measure float64's speed beside float32's."""

    def product(dtype: str) -> Work:
        a, b = (ndl.Tensor(normal(768, 768, dtype=dtype), device=ndl.cpu(), requires_grad=False) for _ in range(2))
        return lambda: a @ b

    def conv(dtype: str) -> Work:
        layer = ndl.nn.Conv(64, 64, 3, device=ndl.cpu(), dtype=dtype)
        x = ndl.Tensor(normal(16, 64, 32, 32, dtype=dtype), device=ndl.cpu(), dtype=dtype)
        d = ndl.Tensor(normal(*layer(x).shape, dtype=dtype), device=ndl.cpu(), dtype=dtype)
        return lambda: ndl.grad(layer(x), [x, *layer.parameters()], d)

    rows = []
    for name, make in {"matmul 768x768x768": product, "conv 64->64, 32x32, batch 16": conv}.items():
        found = measure({dtype: block_of(make(dtype)) for dtype in ("float32", "float64")}, rounds)
        rows.append({"name": name, "ratio": found.ratio("float32", "float64"), "foreign": found.foreign})
    return rows


def as_markdown(result: dict[str, Any]) -> str:
    """Write the report."""
    threads, limits = result["threads"], result["limits"]
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    lines = [
        "# Kernels and layers beside PyTorch and NumPy",
        "",
        f"{result['machine']}; {threads} threads; {versions}; needle's instruction set: {result['isa']}.",
        f"Measured beside them: multiply-adds {limits['fma 1'] / 1e9:.0f} GF/s on one thread, "
        f"{limits[f'fma {threads}'] / 1e9:.0f} on {threads}; memory {limits['stream 1'] / 1e9:.1f} GB/s on one, "
        f"{limits[f'stream {threads}'] / 1e9:.1f} on {threads}.",
        "",
        "Forward and backward pass unless said. Ratio: how many times as fast needle is (median over rounds; in "
        "parentheses of the minima). Goal: at least / hoped for. Limit: share of what the measured peak or bandwidth "
        "allows (Winograd and caches may pass it). "
        f"Foreign: CPU time that other processes took; a row with more than {GATE:.0%} proves nothing, and is marked.",
        "",
        "| work | needle, ms | PyTorch's best, ms | ratio | direct | goal | NumPy | limit | foreign |",
        "|---|---|---|---|---|---|---|---|---|",
        *map(_row, result["cases"]),
        "",
        f"{sum(row['quiet'] for row in result['cases'])} of {len(result['cases'])} rows passed the gate.",
        "",
    ]
    lines += _scaling(result["scaling"], threads) + _float64(result["float64"]) + _bits(result["bits"])
    return "\n".join(lines)


def _row(row: dict[str, Any]) -> str:
    def text(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    best = row["best"].removeprefix("PyTorch").strip()
    cells = [
        row["name"],
        f"{row['medians']['needle'] * 1e3:.3g}",
        f"{row['medians'][row['best']] * 1e3:.3g}" + f" ({best})" * bool(best),
        f"**{row['ratio']:.2f}** ({row['ratio of minima']:.2f})",
        text(row["direct ratio"]),
        row["goal"] + f"; direct {row['direct goal']}" * bool(row["direct goal"]),
        text(row["NumPy ratio"]),
        f"{row['share of limit']:.0%}",
        foreign_share(row),
    ]
    return f"| {' | '.join(cells)} |"


def _scaling(rows: list[dict[str, Any]], threads: int) -> list[str]:
    lines = ["", f"## 1 to {threads} threads", ""]
    lines += ["| work | gain | of the machine's multiply-adds | share | foreign |", "|---|---|---|---|---|"]
    for row in rows:
        numbers = " | ".join(f"{row[name]:.2f}" for name in ("gain", "machine", "share"))
        lines.append(f"| {row['name']} | {numbers} | {foreign_share(row)} |")
    return lines if rows else []


def _float64(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["", "## float64", "", "| work | of float32's speed | foreign |", "|---|---|---|"]
    lines += [f"| {row['name']} | {row['ratio']:.2f} | {foreign_share(row)} |" for row in rows]
    return lines if rows else []


def _bits(works: dict[str, dict[str, list[str]]]) -> list[str]:
    threads = " | ".join(map(str, THREADS))
    lines = ["", "## Bits", "", "Hashes of one result by the number of threads, PyTorch in its deterministic mode.", ""]
    lines += [f"| work | library | {threads} | different |", "|---" * (len(THREADS) + 3) + "|"]
    for name, libraries in works.items():
        for library, hashes in libraries.items():
            lines.append(f"| {name} | {library} | {' | '.join(hashes)} | {len(set(hashes))} |")
    return lines if works else []


def foreign_share(row: dict[str, Any]) -> str:
    """Write the share of CPU time that others took, marked where it is too large."""
    if row["foreign"] is None:
        return "unknown"
    return f"{row['foreign']:.0%}" + " (!)" * (row["foreign"] > GATE)


if __name__ == "__main__":
    main()
