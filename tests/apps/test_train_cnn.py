"""train_cnn.py from end to end, on the embedded digits and on folders of other formats."""

import gzip
import io
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import train_cnn

import needle as ndl
from needle.io import load

APP = Path(train_cnn.__file__)


@pytest.fixture
def run(tmp_path):
    """Run with a checkpoint in a folder of the test's, and give the result and the checkpoint."""

    def run(*options):
        checkpoint = tmp_path / "made" / "weights.npz"
        result = train_cnn.main([*map(str, options), "--checkpoint", str(checkpoint)])
        return result, load(checkpoint)

    return run


def write_idx(path, array):
    header = struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    content = header + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def idx_folder(folder, suffix, size=12, classes=3):
    """Images that are brighter the higher their class."""
    for part, count in (("train", 60), ("t10k", 30)):
        labels = np.arange(count) % classes
        write_idx(folder / f"{part}-labels-idx1-ubyte{suffix}", labels)
        images = np.full((count, size, size), 80) * labels[:, None, None]
        write_idx(folder / f"{part}-images-idx3-ubyte{suffix}", images)
    return folder


def cifar_folder(folder):
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        records = np.zeros((20, 3073), np.uint8)
        records[:, 0] = np.arange(20) % 10
        records[:, 1:] = 25 * records[:, :1]
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    return folder


def test_digits_are_learned_in_a_few_epochs(run, capsys):
    result, saved = run("--epochs", 5, "--seed", 1)
    assert result.accuracy >= 0.97
    assert result.confusion.sum() == 355 and result.confusion.sum(axis=1).min() >= 34
    assert result.accuracy == np.trace(result.confusion) / 355
    printed, errors = capsys.readouterr()
    assert len(re.findall(r"^ +\d  \d\.\d{4}  +\d+\.\d\d%  +\d+\.\d\d%  +\d+\.\d$", printed, re.MULTILINE)) == 5
    assert f"test accuracy {result.accuracy:.2%}: {np.trace(result.confusion)} of 355 images" in printed
    assert errors == "", "no bar where the output is no terminal"
    assert saved["settings"]["seed"] == 1 and saved["settings"]["model"] == "small_cnn"
    for name, array in result.model.state_dict().items():
        assert saved["model"][name].tobytes() == array.tobytes()


def test_equal_seeds_give_equal_weights_bit_for_bit(run):
    options = "--epochs", 1, "--batch-size", 128
    first, second, other = (run(*options, "--seed", seed)[0].model.state_dict() for seed in (3, 3, 4))
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)
    assert any(first[name].tobytes() != other[name].tobytes() for name in first)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_folder_of_idx_files(run, tmp_path, suffix):
    result, _ = run("--data-dir", idx_folder(tmp_path, suffix), "--epochs", 4, "--batch-size", 10)
    assert result.confusion.shape == (3, 3) and result.accuracy == 1


@pytest.mark.parametrize("model", train_cnn.MODELS)
@pytest.mark.parametrize("optimizer", train_cnn.OPTIMIZERS)
def test_a_cifar_10_folder_with_every_model_and_optimizer(run, tmp_path, model, optimizer):
    folder = cifar_folder(tmp_path)
    result, _ = run("--data-dir", folder, "--model", model, "--optimizer", optimizer, "--epochs", 1, "--lr", 0.01)
    assert result.confusion.shape == (10, 10) and result.confusion.sum() == 20


def test_resnet9_takes_the_digits(run):
    assert run("--model", "resnet9", "--epochs", 1)[0].accuracy > 0.3


def test_a_terminal_sees_a_bar_with_loss_and_accuracy(run, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    run("--epochs", 1, "--device", "cpu_numpy")  # slow enough for a bar that is drawn ten times a second
    assert re.search(r"epoch 1/1: .*\|.*\d+/23 .*accuracy=\d+\.\d\d%, loss=\d\.\d+", terminal.getvalue())


def spoiled_labels(folder):
    idx_folder(folder, ".gz")
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(b"no labels")
    return folder


def without_test_images(folder):
    idx_folder(folder, "")
    write_idx(folder / "t10k-labels-idx1-ubyte", np.zeros(0))
    write_idx(folder / "t10k-images-idx3-ubyte", np.zeros((0, 12, 12)))
    return folder


@pytest.mark.parametrize(
    ("prepare", "sentence"),
    [
        (lambda folder: folder, r"holds neither train-images-idx3-ubyte\.gz nor the files of CIFAR-10; see --help"),
        (lambda folder: folder / "nothing", "nothing is no folder; see --help"),
        (without_test_images, "holds 60 training and 0 test images"),
        (lambda folder: idx_folder(folder, "", size=1), "max_pool2d"),
        (spoiled_labels, r"train-labels-idx1-ubyte\.gz: no IDX file"),
    ],
)
def test_bad_data_ends_with_one_sentence(run, tmp_path, prepare, sentence):
    with pytest.raises(SystemExit, match=f"^train_cnn: .*{sentence}") as caught:
        run("--data-dir", prepare(tmp_path))
    assert "\n" not in caught.value.code


def test_a_checkpoint_that_cannot_be_written_is_told_before_the_work(tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    for path, named in ((tmp_path / "file" / "weights.npz", "file"), (tmp_path, tmp_path), ("/proc/a.npz",) * 2):
        with pytest.raises(SystemExit, match=rf"^train_cnn: .*{named}'$"):
            train_cnn.main(["--checkpoint", str(path)])
    assert "epoch" not in capsys.readouterr().out


def test_a_last_batch_of_one_image_is_left_out(run):
    assert len(ndl.data.Digits()) % 131 == 1
    run("--model", "resnet9", "--epochs", 1, "--batch-size", 131)


def test_a_device_that_is_not_there_ends_with_its_reason(run):
    with pytest.raises(SystemExit, match=r"^train_cnn: .*cuda\(\)"):
        run("--device", "cuda")


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--epochs", "0"], "0 is not above 0"),
        (["--lr", "nan"], "nan is not above 0"),
        (["--lr", "inf"], "inf is not finite"),
        (["--seed", "-1"], "-1 is not in 0..4294967295"),
        (["--batch-size", "many"], "invalid positive int value: 'many'"),
        (["--model", "vgg"], "invalid choice: 'vgg'"),
    ],
)
def test_wrong_options_are_explained(options, fault, capsys):
    with pytest.raises(SystemExit, match="2"):
        train_cnn.main(options)
    assert fault in capsys.readouterr().err


def test_help_runs_as_a_script_from_anywhere(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(APP.parents[1])}
    command = [sys.executable, str(APP), "--help"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "--data-dir" in done.stdout and "Fashion-MNIST" in done.stdout and not done.stderr


def test_confusion_table():
    table = train_cnn.confusion_table(np.array([[10, 0], [3, 7]]))
    assert table.splitlines() == ["true class by predicted class", "         0   1", "     0  10   .", "     1   3   7"]
