"""train_cnn.py from end to end, on the embedded digits and on folders of other formats."""

import io
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import train_cnn
from classifiers import NETWORKS
from settings import OPTIMIZERS, SCHEDULES
from testing import confusion_table

import needle as ndl
from tests.apps.conftest import APP
from tests.apps.data import cifar_folder, idx_folder, picture_folder, write_idx, write_picture
from tests.optional import hide


def test_digits_are_learned_in_a_few_epochs(run, capsys):
    result, saved = run("--epochs", 5, "--seed", 1)
    assert result.accuracy >= 0.97
    assert result.confusion.sum() == 355 and result.confusion.sum(axis=1).min() >= 34
    assert result.accuracy == np.trace(result.confusion) / 355
    printed, errors = capsys.readouterr()
    assert "adam, lr 0.003 one-cycle, batches of 64, weight decay 0, label smoothing 0.1, augmentation none" in printed
    row = r"^ +\d  \d\.\d{4}  +\d+\.\d\d%  +\d+\.\d\d%  +[\d,]+  +\d+\.\d  +\d+:\d\d$"
    assert len(re.findall(row, printed, re.MULTILINE)) == 5
    assert f"test accuracy {result.accuracy:.2%}: {np.trace(result.confusion)} of 355 images" in printed
    assert errors == "", "no bar where the output is no terminal"
    assert saved["settings"]["seed"] == 1 and saved["settings"]["model"] == "small_cnn"


def test_the_result_is_that_of_the_best_checkpoint(run, tmp_path):
    result, saved = run("--epochs", 3, "--schedule", "constant", "--lr", 0.05, "--validation", 0.2)
    best = ndl.load(tmp_path / "checkpoints" / "best.safetensors")
    accuracies = [row[2] for row in saved["progress"]["history"]]
    assert best["progress"]["history"] == saved["progress"]["history"][: accuracies.index(max(accuracies)) + 1]
    for name, array in result.model.state_dict().items():
        assert best["model"][name].tobytes() == array.tobytes()


def test_equal_seeds_give_equal_weights_bit_for_bit(run):
    options = "--epochs", 1, "--batch-size", 128
    runs = [(3, 1), (3, 2), (4, 2)]
    first, second, other = (
        run(*options, "--seed", seed, "--threads", threads)[0].model.state_dict() for seed, threads in runs
    )
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)
    assert any(first[name].tobytes() != other[name].tobytes() for name in first)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_folder_of_idx_files(run, tmp_path, suffix):
    result, saved = run("--data-dir", idx_folder(tmp_path, suffix), "--epochs", 8, "--batch-size", 10, "--lr", 0.01)
    assert result.confusion.shape == (3, 3) and result.accuracy == 1
    assert saved["settings"]["data"] == "mnist"


def test_a_folder_of_pictures_with_every_augmentation(run, tmp_path):
    options = "--epochs", 6, "--batch-size", 8, "--augment", "crop", "flip", "cutout", "--widths", 8, 8, "--lr", 0.01
    result, saved = run("--data-dir", picture_folder(tmp_path / "data"), *options)
    assert saved["classes"] == ["blue", "lime", "red"] and result.confusion.sum() == 9
    assert result.accuracy == 1


def test_folders_of_pictures_for_training_and_testing(run, tmp_path):
    for part, count in (("train", 4), ("test", 2)):
        picture_folder(tmp_path / "data" / part, count)
    result, _ = run("--data-dir", tmp_path / "data", "--epochs", 1, "--widths", 4, 4, "--image-size", 8)
    assert result.confusion.sum() == 6


@pytest.mark.parametrize("model", NETWORKS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_cifar_10_folder_with_every_model_and_optimizer(run, tmp_path, model, optimizer):
    folder = cifar_folder(tmp_path)
    options = "--model", model, "--optimizer", optimizer, "--epochs", 1, "--lr", 0.01, "--widths", 8, 16
    result, saved = run("--data-dir", folder, *options)
    assert result.confusion.shape == (10, 10) and result.confusion.sum() == 20
    assert saved["classes"][:2] == ["airplane", "automobile"]


def test_a_model_of_ones_own(run, tmp_path, monkeypatch):
    (tmp_path / "my_models.py").write_text(
        "from needle import nn\n"
        "def tiny(height, width, num_classes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(height * width, num_classes))\n"
        "def no_model():\n"
        "    return 1\n"
    )
    assert run("--model", "my_models:tiny", "--epochs", 2, "--lr", 0.03)[0].accuracy > 0.5
    with pytest.raises(SystemExit, match=r"^train_cnn: my_models:no_model gave a int; let it return"):
        run("--model", "my_models:no_model")
    monkeypatch.delitem(sys.modules, "my_models")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules(run, schedule):
    _, saved = run("--schedule", schedule, "--epochs", 4, "--model", "mlp_resnet", "--lr", 0.01)
    rates = [row[3] for row in saved["progress"]["history"]]
    expected = {
        "constant": [0.01] * 4,
        "step": [0.01, 0.001, 0.0001, 0.0001],
        "cosine": [0.005 * (1 + np.cos(np.pi * done / 4)) for done in range(1, 5)],
    }
    if schedule in expected:
        assert np.allclose(rates, expected[schedule], atol=1e-9)
    else:
        assert rates[0] > rates[1] > rates[2] > rates[3] and rates[0] > 0.009 and rates[3] < 1e-4


def test_levers_reach_the_training(run):
    plain, *others = (
        run("--epochs", 1, "--model", "mlp_resnet", *options)[0].model.state_dict()
        for options in ([], ["--label-smoothing", 0], ["--weight-decay", 0.1], ["--clip-norm", 0.01],
                        ["--augment", "flip"], ["--augment", "cutout", "--cutout-size", 3])
    )  # fmt: skip
    for other in others:
        assert any(plain[name].tobytes() != other[name].tobytes() for name in plain)


def test_early_stopping_waits_for_a_better_validation(run):
    _, saved = run("--epochs", 30, "--validation", 0.2, "--patience", 2, "--model", "mlp_resnet", "--lr", 0.01)
    accuracies = [row[2] for row in saved["progress"]["history"]]
    assert len(accuracies) < 30 and accuracies.index(max(accuracies)) == len(accuracies) - 3


def test_a_terminal_sees_a_bar_with_loss_and_accuracy(run, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    run("--epochs", 1, "--device", "cpu_numpy")  # slow enough for a bar that is drawn ten times a second
    bar = r"epoch 1/1: .*\|.*\d+/1442 \[\d\d:\d\d<\d\d:\d\d, +[\d.]+ images/s, accuracy=\d+\.\d\d%, loss=\d\.\d+"
    assert re.search(bar, terminal.getvalue())


@pytest.mark.parametrize("missing", ["tqdm", "matplotlib"])
def test_without_the_bar_and_the_pictures_it_goes_on(run, monkeypatch, capsys, missing):
    hide(monkeypatch, missing)
    run("--epochs", 1, "--model", "mlp_resnet", "--report")
    assert ('pip install "needle[apps]" brings it' in capsys.readouterr().out) == (missing == "matplotlib")


def test_without_safetensors_or_a_writer_of_events_it_says_what_to_install(run, monkeypatch):
    hide(monkeypatch, "tensorboardX")
    with pytest.raises(SystemExit, match=r'^train_cnn: tensorboardX is not installed; pip install "needle\[apps\]"'):
        run("--log-dir", "logs")
    hide(monkeypatch, "safetensors")
    with pytest.raises(
        SystemExit, match=r'^train_cnn: safetensors.numpy is not installed; pip install "needle\[apps\]"'
    ):
        run("--epochs", 1)


def spoiled_labels(folder):
    idx_folder(folder, ".gz")
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(b"no labels")
    return folder


def without_test_images(folder):
    idx_folder(folder, "")
    write_idx(folder / "t10k-labels-idx1-ubyte", np.zeros(0))
    write_idx(folder / "t10k-images-idx3-ubyte", np.zeros((0, 12, 12)))
    return folder


def without_test_labels(folder):
    idx_folder(folder, ".gz")
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    return folder


def other_classes(folder):
    write_picture(folder / "train" / "red" / "a.png", "red")
    write_picture(folder / "test" / "blue" / "a.png", "blue")
    return folder


def no_picture(folder):
    write_picture(folder / "red" / "a.png", "red")
    (folder / "red" / "b.png").write_bytes((folder / "red" / "a.png").read_bytes()[:40])
    return folder


@pytest.mark.parametrize(
    ("prepare", "sentence"),
    [
        (lambda folder: folder, "it holds no folders, one per class"),
        (lambda folder: folder / "nothing", "nothing is no folder; see --help"),
        (without_test_images, "holds 60 training and 0 test images"),
        (without_test_labels, r"holds no t10k-labels-idx1-ubyte\.gz: download train-images"),
        (lambda folder: idx_folder(folder, "", size=1), "max_pool2d"),
        (spoiled_labels, r"train-labels-idx1-ubyte\.gz: no IDX file"),
        (other_classes, r"train has the classes \['red'\], but test \['blue'\]"),
        (no_picture, r"red/b\.png: no whole picture"),
    ],
)
def test_bad_data_ends_with_one_sentence(run, tmp_path, prepare, sentence):
    (tmp_path / "data").mkdir()
    with pytest.raises(SystemExit, match=f"^train_cnn: .*{sentence}") as caught:
        run("--data-dir", prepare(tmp_path / "data"))
    assert "\n" not in caught.value.code


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [("mnist", "--data-dir"), ("fashion-mnist", "apt install dataset-fashion-mnist"), ("cifar10", "download"),
     ("folder", "a folder of pictures for each class")],
)  # fmt: skip
def test_a_missing_set_says_how_to_get_it(run, tmp_path, monkeypatch, kind, remedy):
    monkeypatch.setattr("image_data.PACKAGED", tmp_path)
    with pytest.raises(SystemExit, match=rf"^train_cnn: {kind} is not there: .*{remedy}"):
        run("--data", kind)


def test_packaged_data_is_found(run, tmp_path, monkeypatch):
    monkeypatch.setattr("image_data.PACKAGED", tmp_path)
    (tmp_path / "fashion-mnist").mkdir()
    idx_folder(tmp_path / "fashion-mnist", ".gz", classes=10)
    _, saved = run("--data", "fashion-mnist", "--epochs", 1)
    assert saved["classes"][0] == "T-shirt" and saved["settings"]["augment"] == ["flip"]


def test_a_last_batch_of_one_image_is_left_out(run):
    assert len(ndl.data.Digits()) % 131 == 1
    run("--model", "resnet9", "--epochs", 1, "--batch-size", 131)


def test_devices_that_are_not_enabled_are_no_choice(run, capsys):
    with pytest.raises(SystemExit, match="2"):
        run("--device", "cuda")
    assert "invalid choice: 'cuda' (choose from" in capsys.readouterr().err


def test_the_header_says_why_the_native_device_is_missing(run, monkeypatch, capsys):
    run("--epochs", 1, "--device", "cpu_numpy")
    assert "slower than need be" not in capsys.readouterr().out
    monkeypatch.setattr(ndl, "backend_info", lambda: {"devices": {"cpu": "no C++ compiler was found"}})
    run("--epochs", 1, "--device", "cpu_numpy")
    assert "on cpu_numpy()\nslower than need be: no C++ compiler was found\n" in capsys.readouterr().out


def test_a_loss_that_is_not_finite_ends_the_run(run):
    with pytest.raises(SystemExit, match=r"^train_cnn: the loss of epoch \d is (nan|inf); try a smaller --lr"):
        run("--optimizer", "sgd", "--lr", "1e30", "--model", "mlp_resnet", "--schedule", "constant")


def test_help_runs_as_a_script_from_anywhere(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(APP.parents[1])}
    command = [sys.executable, str(APP), "--help"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "--data-dir" in done.stdout and "Fashion-MNIST" in done.stdout and not done.stderr


def test_confusion_table():
    table = confusion_table(np.array([[10, 0], [3, 7]]))
    assert table.splitlines() == ["true class by predicted class", "         0   1", "     0  10   .", "     1   3   7"]


def test_wrong_models_are_explained(run):
    for name, sentence in (
        ("resnet", r"there is no model resnet \(did you mean resnet9\?\); take one of small_cnn"),
        ("no_such:f", "cannot be imported"),
    ):
        with pytest.raises(SystemExit, match=f"^train_cnn: .*{sentence}"):
            train_cnn.main(["--model", name])
