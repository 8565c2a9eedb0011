"""The graph below a tensor as a picture, by Graphviz."""

from __future__ import annotations

import html
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from needle.autograd import Tensor, Value, find_topo_sort
from needle.errors import MissingExtraError, OptionError
from needle.nn import Module, Parameter
from needle.ops.arguments import tensor

PROGRAM = "dot"
STYLES = {  # of nodes, by what they are
    "parameter": 'shape=box, style="rounded,filled", fillcolor="#fde9c9"',
    "leaf": 'shape=box, style="rounded,filled", fillcolor="#e3e8ee"',
    "op": 'shape=ellipse, style=filled, fillcolor="#d5e8d4"',
}


@dataclass(frozen=True)
class Drawing:
    """A graph in Graphviz's language, `source`; Jupyter shows its picture where the program dot is there."""

    source: str

    def svg(self) -> str:
        """Give the picture as SVG; raises MissingExtraError where dot is not there."""
        program = shutil.which(PROGRAM)
        if program is None:
            raise MissingExtraError("draw: there is no program dot; install Graphviz (apt install graphviz)")
        command = [program, "-Tsvg"]
        return subprocess.run(command, input=self.source, capture_output=True, text=True, check=True).stdout

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a `.svg` file, or the source to a `.dot` file."""
        path = Path(path)
        if path.suffix not in (".svg", ".dot"):
            raise OptionError(f"draw: {path} must end in .svg or .dot, which says the format")
        path.write_text(self.svg() if path.suffix == ".svg" else self.source, encoding="utf-8")

    def _repr_svg_(self) -> str | None:
        return self.svg() if shutil.which(PROGRAM) else None

    def _repr_html_(self) -> str | None:
        return None if shutil.which(PROGRAM) else f"<pre>{html.escape(self.source)}</pre>"


def draw(output: Tensor, model: Module | None = None) -> Drawing:
    r"""Draw the graph below a tensor: ops, shapes, and leaves, of which `model` names the parameters.

    Draw before a backward(free_graph=True), which drops the graph.

    >>> import needle as ndl
    >>> x = ndl.Tensor([1.0, 2.0])
    >>> print(draw((x * x).sum()).source)
    digraph {
      node [fontname="Helvetica", fontsize=11];
      n0 [label="Tensor\n(2,)", shape=box, style="rounded,filled", fillcolor="#e3e8ee"];
      n1 [label="EWiseMul\n(2,)", shape=ellipse, style=filled, fillcolor="#d5e8d4"];
      n0 -> n1;
      n0 -> n1;
      n2 [label="Summation\n()", shape=ellipse, style=filled, fillcolor="#d5e8d4"];
      n1 -> n2;
    }
    """
    names: dict[Value, str] = {} if model is None else {p: path for path, p in model.named_parameters()}
    number: dict[Value, int] = {}
    lines = ['node [fontname="Helvetica", fontsize=11];']
    for node in find_topo_sort([tensor("draw", output, "the output")]):
        number[node] = len(number)
        kind = "op" if node.op is not None else "parameter" if isinstance(node, Parameter) else "leaf"
        label = type(node if node.op is None else node.op).__name__
        label = json.dumps(f"{names.get(node, label)}\n{node.shape}", ensure_ascii=False)
        lines.append(f"n{number[node]} [label={label}, {STYLES[kind]}];")
        lines += [f"n{number[value]} -> n{number[node]};" for value in node.inputs]
    return Drawing("\n".join(["digraph {", *(f"  {line}" for line in lines), "}"]))
