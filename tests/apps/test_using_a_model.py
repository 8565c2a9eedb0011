"""predict.py and evaluate.py on what train_cnn.py left."""

import re

import evaluate
import numpy as np
import predict
import pytest

import needle as ndl
from tests.apps.data import idx_folder, picture_folder, write_picture


@pytest.fixture
def colors(run, tmp_path):
    """A checkpoint that tells colours."""
    run(
        "--data-dir",
        picture_folder(tmp_path / "data"),
        "--epochs",
        5,
        "--widths",
        8,
        8,
        "--lr",
        0.01,
        "--batch-size",
        8,
    )
    return tmp_path / "checkpoints" / "best.safetensors"


@pytest.mark.parametrize("device", [d.name for d in ndl.all_devices() if d.enabled()])
def test_pictures_of_any_size_and_format(colors, tmp_path, capsys, device):
    paths = [
        write_picture(tmp_path / "a.png", "red", (3, 5)),
        write_picture(tmp_path / "b.jpg", (0, 250, 0), (640, 40)),
        write_picture(tmp_path / "c.png", (0, 0, 255, 255), (33, 33), "RGBA"),
    ]
    assert predict.main([str(colors), *map(str, paths), "--device", device]) == ["red", "lime", "blue"]
    lines = capsys.readouterr().out.splitlines()
    for path, line, color in zip(paths, lines, ("red", "lime", "blue")):
        assert re.fullmatch(rf"{re.escape(str(path))}: {color} \d+\.\d%(, \w+ \d+\.\d%){{2}}", line)
        assert sum(map(float, re.findall(r"([\d.]+)%", line))) == pytest.approx(100, abs=0.2)


def test_negatives_and_fewer_classes(colors, tmp_path, capsys):
    path = write_picture(tmp_path / "cyan.png", "cyan")
    assert predict.main([str(colors), str(path), "--invert", "--top", "1"]) == ["red"]
    assert capsys.readouterr().out.count("%") == 1


def test_grey_pictures_and_models(run, tmp_path):
    digits = ndl.data.Digits(train=False)
    run("--epochs", 4)
    from PIL import Image

    paths = []
    for index in range(0, 60, 6):
        pixels = np.uint8(255 * digits.images[index, :, :, 0])
        paths.append(tmp_path / f"{index}.png")
        Image.fromarray(pixels).resize((40, 40), Image.Resampling.NEAREST).convert("RGB").save(paths[-1])
    found = predict.main(["checkpoints/best.safetensors", *map(str, paths)])
    assert np.mean([int(name) == digits.labels[index] for name, index in zip(found, range(0, 60, 6))]) >= 0.9


@pytest.mark.parametrize("content", [b"", b"no picture", b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_picture(colors, tmp_path, content):
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(SystemExit, match=r"^predict: .*a\.png: no whole picture that Pillow can read$"):
        predict.main([str(colors), str(tmp_path / "a.png")])
    with pytest.raises(SystemExit, match=r"^predict: nothing\.png: no such file or directory$"):
        predict.main([str(colors), "nothing.png"])


def test_the_accuracy_is_that_of_the_training(run, colors, tmp_path, capsys):
    result, _ = run("--resume")
    capsys.readouterr()
    assert evaluate.main([str(colors)]) == result.accuracy
    assert evaluate.main([str(colors), "--data-dir", str(tmp_path / "data"), "--batch-size", "2"]) == result.accuracy
    assert re.search(r"^lime +100\.00%  3 of 3$", capsys.readouterr().out, re.MULTILINE)


def test_other_images_than_the_models(colors, tmp_path):
    (tmp_path / "idx").mkdir()
    with pytest.raises(SystemExit, match=r"^evaluate: the model takes images \(3, 32, 32\) of 3 classes, the data has"):
        evaluate.main([str(colors), "--data-dir", str(idx_folder(tmp_path / "idx", ".gz"))])
