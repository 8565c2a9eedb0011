"""Pictures of graphs."""

import re
import shutil

import pytest

import needle as ndl
from needle import nn

WITH_DOT = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")


@pytest.fixture
def model():
    return nn.Sequential(nn.Conv(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3))


@pytest.fixture
def drawing(model):
    return ndl.draw(model(ndl.Tensor([[[[0.5] * 4] * 4]])), model)


def test_ops_shapes_and_parameters_are_in_the_source(drawing):
    labels = re.findall(r'label="(.*?)"', drawing.source)
    assert {r"0.weight\n(3, 3, 1, 2)", r"3.bias\n(1, 3)", r"Affine\n(1, 3)", r"Tensor\n(1, 1, 4, 4)"} <= set(labels)
    assert len(re.findall("fde9c9", drawing.source)) == 4, "the parameters have their colour"


def test_a_value_used_twice_is_one_node_with_two_edges():
    x = ndl.Tensor([1.0])
    source = ndl.draw(x * x).source
    assert source.count("label=") == 2 and source.count("n0 -> n1;") == 2


def test_long_chains_and_tuples():
    x = ndl.Tensor([1.0, 2.0])
    for _ in range(3000):
        x = x + 1
    assert ndl.draw(x).source.count("->") == 3000
    assert r"Split\n((), ())" in ndl.draw(ndl.split(ndl.Tensor([1.0, 2.0]), 0)[0]).source


def test_quotes_in_names_are_escaped():
    model = nn.Module()
    model.parts = {'a "b"': nn.Parameter([1.0])}
    assert r'"parts.a \"b\"\n(1,)"' in ndl.draw(model.parts['a "b"'], model).source


def test_only_tensors_are_drawn():
    with pytest.raises(ndl.DTypeError, match="draw: the output"):
        ndl.draw([1.0])


@WITH_DOT
def test_an_svg_shows_every_label(drawing, tmp_path):
    drawing.save(tmp_path / "graph.svg")
    svg = (tmp_path / "graph.svg").read_text()
    assert svg == drawing._repr_svg_() and drawing._repr_html_() is None
    assert "0.weight" in svg and "Affine" in svg and svg.count('class="node"') == drawing.source.count("label=")


def test_without_dot_the_source_is_shown(drawing, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert drawing._repr_svg_() is None and "-&gt;" in drawing._repr_html_()
    with pytest.raises(ndl.MissingExtraError, match="install Graphviz"):
        drawing.svg()
    drawing.save(tmp_path / "graph.dot")
    assert (tmp_path / "graph.dot").read_text() == drawing.source
    with pytest.raises(ndl.OptionError, match=r"graph\.png must end in \.svg or \.dot"):
        drawing.save(tmp_path / "graph.png")
