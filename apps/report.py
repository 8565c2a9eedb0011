"""The report of a training run: pictures in PNG files, and one page of HTML that holds everything."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pictures
from training import Run

import needle as ndl
from needle.io import replacing

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
h1 { font-size: 1.6rem } h2 { font-size: 1.15rem; margin-top: 2rem } img { max-width: 100% }
table { border-collapse: collapse } th, td { padding: .15rem .9rem .15rem 0; text-align: left }
th { border-bottom: 1px solid #bbb } pre { background: #f5f5f5; padding: .8rem; overflow-x: auto; font-size: 12px }
"""


def write_report(folder: Path, run: Run, probabilities: npt.NDArray[Any], confusion: npt.NDArray[np.int64]) -> Path:
    """Write the pictures and the page; give the page's path.

    `probabilities` (n, classes) and `confusion` are those of the test images.
    """
    classes, test = run.data.classes, run.data.test
    held_out = "validation" if run.data.validation else "test"
    figures = {
        "Learning curves": pictures.curves(run.history, held_out),
        "Confusion matrix": pictures.confusion_matrix(confusion, classes),
        "Filters of the first layer": pictures.filters(run.model),
        "Most confidently wrong test images": pictures.mistakes(test.images, test.labels, probabilities, classes),
    }
    folder.mkdir(parents=True, exist_ok=True)
    shown = []
    for title, figure in figures.items():
        if figure is not None:
            name = title.lower().replace(" ", "_")
            shown.append(f'<h2>{title}</h2>\n<img alt="{title}" src="{_embedded(folder / f"{name}.png", figure)}">')
    page = folder / "report.html"
    with replacing(page) as file:
        file.write(_page(run, confusion, held_out, shown).encode())
    return page


def _embedded(path: Path, figure: pictures.Figure) -> str:
    """Write a figure into a PNG file; give it as an address that holds its bytes."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=110)
    with replacing(path) as file:
        file.write(content.getvalue())
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"


def _page(run: Run, confusion: npt.NDArray[np.int64], held_out: str, shown: Sequence[str]) -> str:
    """Make the page."""
    correct, total = np.trace(confusion), confusion.sum()
    title = f"{run.args.model} on {run.args.data}: {correct / total:.2%} of the test images"
    info = ndl.backend_info()
    settings = {name: value for name, value in vars(run.args).items() if value is not None}
    machine = {"needle": info["version"], "instruction set": info["isa"], "threads": ndl.num_threads()}
    epochs = [
        (number, f"{row.loss:.4f}", f"{row.train_accuracy:.2%}", f"{row.accuracy:.2%}", f"{row.lr:.2e}",
         f"{run.seconds[number]:.1f}" if number in run.seconds else "-")
        for number, row in enumerate(run.history, 1)
    ]  # fmt: skip
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{correct:,} of {total:,} images; the weights are those of epoch {run.best() + 1}.</p>",
        *shown,
        "<h2>Epochs</h2>",
        _table(["epoch", "loss", "training", held_out, "learning rate", "seconds"], epochs),
        "<h2>Model</h2>",
        f"<pre>{escape(run.model.summary((1, *run.shape)))}</pre>",
        "<h2>Settings</h2>",
        _table(["option", "value"], (settings | machine).items()),
    ]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(parts) + "\n</body></html>\n"


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Make a table."""
    lines = ["".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows]
    heads = "".join(f"<th>{name}</th>" for name in header)
    return "<table>" + "\n".join(f"<tr>{line}</tr>" for line in [heads, *lines]) + "</table>"
