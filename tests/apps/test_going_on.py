"""Runs of train_cnn.py that are interrupted, killed, out of space, or handed damaged checkpoints."""

import errno
import os
import random
import signal
import subprocess
import time
from itertools import count

import evaluate
import predict
import pytest
import train_cnn
from checkpoints import BEST, LAST, read_checkpoint
from interrupts import NOTICE, Interrupted, Interrupts

import needle as ndl

# A run of seconds that draws random numbers for its order, its dropout and its augmentation.
OPTIONS = "--model", "mlp_resnet", "--epochs", 4, "--augment", "crop", "flip", "--clip-norm", 1, "--seed", 3
SMALL = "--widths", 2, 2, "--epochs", 1, "--batch-size", 256


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted((folder / "checkpoints").iterdir())}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The checkpoints of a run without a break."""
    pytest.importorskip("safetensors")
    folder = tmp_path_factory.mktemp("whole")
    train_cnn.main([*map(str, OPTIONS), "--no-report", "--checkpoints", str(folder / "checkpoints")])
    files = contents(folder)
    assert list(files) == [BEST, LAST]
    return files


def test_stopping_and_going_on_gives_the_very_bytes(run, whole, tmp_path, capsys):
    run(*OPTIONS, "--stop-after", 2, "--threads", 1)
    assert contents(tmp_path) != whole
    assert "--resume, without --stop-after, goes on" in capsys.readouterr().out
    run("--resume", "--threads", 2)
    assert contents(tmp_path) == whole
    run("--resume")  # there is nothing left to do but to report
    assert contents(tmp_path) == whole


def test_more_epochs_of_a_schedule_that_does_not_know_their_number(run, tmp_path):
    options = *OPTIONS, "--schedule", "constant", "--optimizer", "sgd", "--lr", 0.01
    result, _ = run(*options)
    for name in contents(tmp_path):
        (tmp_path / "checkpoints" / name).unlink()
    run(*options, "--stop-after", 1)
    run("--resume", "--stop-after", 3)
    again, _ = run("--resume")
    assert all((a == b).all() for a, b in zip(result.model.state_dict().values(), again.model.state_dict().values()))


@pytest.mark.parametrize("steps", [1, 10, 23, 25, 29, 30])  # an epoch has 23 steps of training and 6 of testing
def test_an_interrupt_after_any_step_loses_nothing(run, whole, tmp_path, monkeypatch, capsys, steps):
    calls = count(1)

    def check(self):
        if next(calls) == steps:
            raise Interrupted(signal.SIGINT)

    monkeypatch.setattr(Interrupts, "check", check)
    with pytest.raises(SystemExit, match="130"):
        run(*OPTIONS)
    assert "SIGINT; the same command with --resume goes on from here" in capsys.readouterr().err
    assert (BEST in contents(tmp_path)) == (steps > 29)
    run("--resume")
    assert contents(tmp_path) == whole


def until_the_table(process):
    for line in process.stdout:
        if line.startswith("epoch"):
            return
    raise AssertionError(process.communicate()[1])


@pytest.mark.parametrize(("number", "name"), [(signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM")])
def test_a_signal_ends_the_run_after_the_step(start, tmp_path, number, name):
    process = start("--epochs", 200, "--model", "mlp_resnet")
    until_the_table(process)
    process.stdout.readline()
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert errors == NOTICE.decode() + f"\ntrain_cnn: {name}; the same command with --resume goes on from here\n"
    assert read_checkpoint(tmp_path / "checkpoints" / LAST)["progress"]["history"]


def test_a_second_ctrl_c_ends_it_at_once(start, tmp_path):
    process = start("--batch-size", 1442, "--device", "cpu_numpy", "--model", "small_cnn", "--widths", 64, 128)
    until_the_table(process)
    process.send_signal(signal.SIGINT)  # within the first step, which takes seconds
    assert process.stderr.read(len(NOTICE)) == NOTICE.decode()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == "\ntrain_cnn: ended at once; --resume goes on from the last checkpoint\n"
    assert not list((tmp_path / "checkpoints").iterdir())


def test_kills_at_any_moment_leave_checkpoints_to_go_on_from(run, start, whole, tmp_path):
    moments = random.Random(5)
    for _ in range(4):
        process = start(*(["--resume"] if (tmp_path / "checkpoints" / LAST).exists() else OPTIONS))
        until_the_table(process)
        time.sleep(moments.uniform(0, 0.3))
        process.kill()
        process.communicate()
        for path in (tmp_path / "checkpoints").glob("*.safetensors"):
            read_checkpoint(path)
    run(*(["--resume"] if (tmp_path / "checkpoints" / LAST).exists() else OPTIONS))
    kept = contents(tmp_path)
    assert {name: kept[name] for name in whole} == whole


def fail_at(monkeypatch, name, call):
    """Let the call of that number to a function of `os` fail as on a full disk."""
    calls, function = count(1), getattr(os, name)

    def wrapped(*args):
        if next(calls) >= call:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return function(*args)

    monkeypatch.setattr(os, name, wrapped)


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_full_disk_ends_the_run_and_harms_no_older_checkpoint(run, tmp_path, monkeypatch, name):
    run(*OPTIONS, "--stop-after", 1)
    before = contents(tmp_path)
    fail_at(monkeypatch, name, call=1)
    with pytest.raises(SystemExit, match=r"^train_cnn: checkpoints/best.*: no space left on device"):
        run("--resume")
    assert contents(tmp_path) == before, "no temporary file is left either"
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    run("--resume")


def test_a_disk_that_is_really_full(run, tmp_path):
    (tmp_path / "checkpoints").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path / "checkpoints")]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system takes more rights than these")
    try:
        run(*SMALL)
        before = contents(tmp_path)
        (tmp_path / "checkpoints" / "filler").write_bytes(bytes(64 * 1024 - 2 * 16 * 1024 - 8 * 1024))
        with pytest.raises(SystemExit, match=r"^train_cnn: checkpoints/.*: no space left on device"):
            run(*SMALL, "--seed", 1)
        assert {name: contents(tmp_path)[name] for name in before} == before
    finally:
        subprocess.run(["umount", str(tmp_path / "checkpoints")], check=True)


def test_a_folder_that_cannot_be_written_is_told_before_the_work(run, tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "taken" / LAST).mkdir(parents=True)
    for folder, named in (("file", "file"), ("taken", f"taken/{LAST}"), ("/proc/checkpoints", "/proc/checkpoints")):
        with pytest.raises(SystemExit, match=rf"^train_cnn: .*{named}: [a-z ]+$"):
            run("--checkpoints", folder)
    assert "epoch" not in capsys.readouterr().out


def test_only_what_leaves_the_result_alone_may_change(run, tmp_path):
    run(*SMALL, "--epochs", 2, "--stop-after", 1)
    before = contents(tmp_path)
    for option, value, was, why in (
        ("--epochs", 3, 2, ": the schedule is laid out over all epochs; leave it out, or begin anew"),
        ("--lr", 0.5, 0.003, "; leave it out"),
        ("--seed", 9, 0, "; leave it out"),
    ):
        sentence = rf"^train_cnn: {option} was {was} and cannot be {value} with --resume{why}"
        with pytest.raises(SystemExit, match=sentence):
            run("--resume", option, value)
    run("--resume", "--seed", 0, "--threads", 1, "--device", "cpu_numpy", "--stop-after", 1)
    assert contents(tmp_path) == before | {LAST: before[LAST], BEST: before[BEST]}


def test_a_constant_learning_rate_allows_more_epochs(run):
    whole, _ = run(*SMALL, "--schedule", "constant", "--epochs", 2)
    run(*SMALL, "--schedule", "constant", "--epochs", 1)
    longer, saved = run("--resume", "--epochs", 2)
    assert len(saved["progress"]["history"]) == 2
    for name, array in whole.model.state_dict().items():
        assert longer.model.state_dict()[name].tobytes() == array.tobytes()


def test_resuming_without_a_checkpoint_says_so(run):
    with pytest.raises(SystemExit, match=r"^train_cnn: there is no checkpoint checkpoints/last\.safetensors to resume"):
        run("--resume")


@pytest.fixture
def checkpoint(run, tmp_path):
    run(*SMALL)
    return tmp_path / "checkpoints" / LAST


def programs(path, picture):
    """Each program that reads a checkpoint, with its name."""
    yield "evaluate", lambda: evaluate.main([str(path)])
    yield "predict", lambda: predict.main([str(path), str(picture)])


def test_truncated_and_foreign_checkpoints_give_one_sentence(run, checkpoint, tmp_path):
    content = checkpoint.read_bytes()
    foreign = tmp_path / "foreign.safetensors"
    ndl.save(foreign, {"model": {}, "settings": {}})
    for damaged, sentence in [
        *((content[: len(content) * part // 7], "no whole safetensors checkpoint") for part in range(7)),
        (b"\x89PNG\r\n", "no whole safetensors checkpoint"),
        (foreign.read_bytes(), "this is no checkpoint of train_cnn"),
    ]:
        checkpoint.write_bytes(damaged)
        for name, program in [*programs(checkpoint, "none.png"), ("train_cnn", lambda: run("--resume"))]:
            with pytest.raises(SystemExit, match=rf"^{name}: .*{LAST}: {sentence}") as caught:
                program()
            assert "\n" not in caught.value.code
        assert checkpoint.read_bytes() == damaged, "nothing is written over it"


def test_a_changed_byte_is_refused_or_without_effect(checkpoint, capsys):
    accuracy, content = evaluate.main([str(checkpoint)]), checkpoint.read_bytes()
    positions, refused = random.Random(1).sample(range(len(content)), 60), 0
    for position in positions:
        checkpoint.write_bytes(content[:position] + bytes([content[position] ^ 0x55]) + content[position + 1 :])
        try:
            assert evaluate.main([str(checkpoint)]) == accuracy, position
        except SystemExit as error:
            assert str(error).startswith(f"evaluate: {checkpoint}: no whole safetensors checkpoint: "), position
            refused += 1
    assert refused > 50


def test_nothing_to_resume(run, tmp_path):
    with pytest.raises(SystemExit, match=rf"^train_cnn: there is no checkpoint checkpoints/{LAST} to resume"):
        run("--resume")


def test_other_data_than_the_checkpoints(run, tmp_path):
    from tests.apps.data import idx_folder

    (tmp_path / "data").mkdir()
    idx_folder(tmp_path / "data", ".gz")
    run("--data-dir", "data", *SMALL)
    idx_folder(tmp_path / "data", ".gz", size=14)
    with pytest.raises(SystemExit, match=r"^train_cnn: the checkpoint is of 3 classes of images \(1, 12, 12\)"):
        run("--resume")
