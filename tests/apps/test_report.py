"""The pictures and the page of a run are there, hold what they should, and are not blank."""

import base64
import re

import numpy as np
import pictures
import pytest
from training import Epoch

PICTURES = [
    "learning_curves.png", "confusion_matrix.png", "filters_of_the_first_layer.png",
    "most_confidently_wrong_test_images.png",
]  # fmt: skip


@pytest.fixture
def report(run, tmp_path):
    """A report of a run that makes mistakes."""
    pytest.importorskip("matplotlib")
    run("--epochs", 2, "--widths", 4, 4, "--report", "--seed", 2)
    return tmp_path / "report"


def is_blank(path):
    from PIL import Image

    pixels = np.asarray(Image.open(path).convert("RGB")).reshape(-1, 3)
    return len(np.unique(pixels, axis=0)) < 10 or (pixels != pixels[0]).any(axis=1).mean() < 0.02


def test_pictures_are_written_and_not_blank(report):
    assert sorted(path.name for path in report.iterdir()) == sorted([*PICTURES, "report.html"])
    assert not [name for name in PICTURES if is_blank(report / name)]


def test_the_page_holds_everything(report):
    page = (report / "report.html").read_text(encoding="utf-8")
    assert not re.search(r'(src|href)="(?!data:)', page), "it needs no other file"
    embedded = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert [base64.b64decode(data) for data in embedded] == [(report / name).read_bytes() for name in PICTURES]
    assert re.search(r"<h1>small_cnn on digits: \d+\.\d\d% of the test images</h1>", page)
    for part in ("<td>widths</td><td>[4, 4]</td>", "net.0.0", "<td>threads</td>", "<h2>Epochs</h2>"):
        assert part in page, part
    assert page.count("<tr>") > 25 and page.rstrip().endswith("</html>")


def test_text_of_the_data_is_escaped(run, tmp_path):
    from tests.apps.data import write_picture

    for index in range(10):
        write_picture(tmp_path / "data" / str(index % 2) / f"{index}.png", "red")
    run("--data-dir", "data", "--epochs", 1, "--widths", 2, 2, "--report", "--report-dir", "a <folder>")
    assert "&lt;folder&gt;" in (tmp_path / "a <folder>" / "report.html").read_text()


def test_what_is_not_there_is_left_out(run, tmp_path):
    run("--epochs", 1, "--model", "mlp_resnet", "--report")
    assert not (tmp_path / "report" / "filters_of_the_first_layer.png").exists()
    right = np.eye(3)[[0, 1, 2]]
    assert pictures.mistakes(np.zeros((3, 4, 4, 1)), np.arange(3), right, list("abc")) is None


def test_the_most_confident_mistake_comes_first():
    probabilities = np.array([[0.6, 0.4], [0.9, 0.1], [0.2, 0.8], [0.3, 0.7]])
    figure = pictures.mistakes(np.random.rand(4, 5, 5, 3), np.array([1, 1, 1, 0]), probabilities, ["a", "b"])
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles == ["b, not\na (90%)", "a, not\nb (70%)", "b, not\na (60%)"]


def test_curves_show_the_history():
    history = [Epoch(2.0, 0.5, 0.4, 0.1), Epoch(1.0, 0.75, 0.6, 0.0)]
    loss, accuracy = pictures.curves(history, "validation").axes
    assert [list(line.get_ydata()) for line in loss.lines] == [[2.0, 1.0]]
    assert [list(line.get_ydata()) for line in accuracy.lines] == [[0.5, 0.75], [0.4, 0.6]]
    assert [text.get_text() for text in accuracy.get_legend().get_texts()] == ["training", "validation"]
