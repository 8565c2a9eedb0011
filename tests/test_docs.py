"""README's examples run, and public names show how they are used (pytest runs those examples as doctests)."""

import contextlib
import importlib
import inspect
import io
import re
from pathlib import Path

import numpy as np
import pytest

import needle as ndl
from needle import nn

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
README_BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_readme_examples_run(tmp_path, monkeypatch):
    """Each block is a program of its own."""
    monkeypatch.chdir(tmp_path)
    assert README_BLOCKS
    with contextlib.redirect_stdout(io.StringIO()) as output:
        for block in README_BLOCKS:
            if ">>>" not in block:
                exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    *losses, accuracy, first, second, same, shapes, cubes, anomaly = output.getvalue().splitlines()
    assert len(losses) == 20 and float(losses[-1].split()[-1]) < 0.5 * float(losses[0].split()[-1])
    assert float(accuracy.split()[-1]) > 0.9
    assert [first, second, same, shapes, cubes] == ["[27.]", "[18.]", "True", "(5, 2) (10,)", "[ 3. 12.]"]
    assert "log" in anomaly.lower()


def test_the_names_for_those_who_come_from_pytorch():
    """Each cell on the right can be run, and what has our names on the left cannot."""
    names = {"np": np, "ndl": ndl, "nn": nn, "x": ndl.Tensor(np.ones((2, 3, 4))), "s": (6, 4), "n": 4, "y": [0, 1]}
    names |= {"xs": [names["x"]] * 2, "a": [1.0], "mask": names["x"] > 0}
    table = re.search(r"^Names for those.*?(?=^## )", README, re.DOTALL | re.MULTILINE).group()
    rows = [line.split("|")[1:3] for line in table.splitlines()[4:] if line]
    assert rows
    for theirs, ours in rows:
        for program in re.findall(r"`([^`.]+\.[^`]+)`", ours):
            if "..." not in program:
                eval(program, names)
        for program in re.findall(r"`((?:x|nn)\.[^`]+)`", theirs):
            with pytest.raises((AttributeError, TypeError)):
                eval(program, names)


def public(name):
    """What a part of the package, such as `ops`, exports of its own."""
    module = importlib.import_module(f"needle.{name}")
    for key, value in vars(module).items():
        own = getattr(value, "__module__", "").startswith("needle")
        if own and not key.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value)):
            yield key, value


@pytest.mark.parametrize("name", ["ops", "nn", "init", "optim", "data", "training"])
def test_public_names_are_documented(name):
    bare = [key for key, value in public(name) if not (value.__doc__ or "").strip()]
    assert not bare, f"without a docstring: {bare}"
    without = [key for key, value in public(name) if inspect.isfunction(value) and ">>>" not in value.__doc__]
    assert not without, f"functions without an example: {without}"
