"""train_lm.py from end to end, on small texts and on the gospels."""

import io
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import train_lm

import needle as ndl
from needle.data import Corpus
from needle.io import load

APP = Path(train_lm.__file__)
SMALL = "--embedding-size", 8, "--hidden-size", 12, "--bptt", 5, "--batch-size", 4, "--words", 20
LINES = ["one two three four ,", "five six seven ( eight ) .", "nine ten !"]


def write_text(folder, repeats=20):
    folder.mkdir(exist_ok=True)
    for name, count in (("train.txt", repeats), ("test.txt", 3)):
        (folder / name).write_text("\n".join(LINES * count) + "\n")
    return folder


@pytest.fixture
def folder(tmp_path):
    return write_text(tmp_path / "text")


@pytest.fixture
def run(tmp_path, folder):
    """Run on the small text with a checkpoint in a folder of the test's."""

    def run(*options, checkpoint="made/state.npz"):
        data = () if "--data-dir" in options or "--resume" in options else ("--data-dir", folder)
        everything = (*SMALL, *data, "--checkpoint", tmp_path / checkpoint, *options)
        return train_lm.main([str(option) for option in everything])

    return run


@pytest.mark.parametrize("model", train_lm.SEQUENCE_MODELS)
def test_every_model_learns_and_writes(run, tmp_path, device, model, capsys):
    options = "--model", model, "--epochs", 15, "--lr", 0.03, "--device", device.name, "--layers", 2
    result = run(*options, "--prompt", "one two", "--words", 12, "--temperature", 0.1)
    assert result.perplexity < 3 < result.unigram
    assert result.text.startswith("one two three four,\nfive six seven (eight).\n")
    printed, errors = capsys.readouterr()
    assert f"test perplexity of a unigram model: {result.unigram:.1f}" in printed and result.text in printed
    assert len(re.findall(r"^ +\d+ +\d+\.\d +\d+\.\d +\d+\.\d$", printed, re.MULTILINE)) == 15
    assert errors == "", "no bar where the output is no terminal"
    assert {p.device for p in result.model.parameters()} == {device}
    saved = load(tmp_path / "made" / "state.npz")
    assert saved["settings"]["model"] == model and saved["history"][-1][1] == result.perplexity
    for name, array in result.model.state_dict().items():
        assert saved["model"][name].tobytes() == array.tobytes()


def test_the_perplexity_of_a_unigram_model():
    # counts 3, 1, 0 and one each: 4/7, 2/7, 1/7
    perplexity = train_lm.unigram_perplexity([0, 0, 1, 0], np.array([0.0, 1.0, 2.0]), 3)
    assert math.isclose(perplexity, (4 / 7 * 2 / 7 * 1 / 7) ** (-1 / 3))


def test_perplexity_of_any_loss():
    assert math.isclose(train_lm.perplexity(math.log(5)), 5) and train_lm.perplexity(1e4) == math.inf


def state(result):
    return {name: array.tobytes() for name, array in result.model.state_dict().items()}


def test_equal_seeds_give_equal_weights_and_text(run):
    first, second, other = (run("--epochs", 1, "--seed", seed) for seed in (3, 3, 4))
    assert state(first) == state(second) and first.text == second.text
    assert state(first) != state(other) and first.text != other.text


@pytest.mark.parametrize("model", train_lm.SEQUENCE_MODELS)
def test_a_run_that_was_interrupted_is_resumed_to_the_same_bits(run, monkeypatch, model, capsys):
    options = "--model", model, "--epochs", 3, "--seed", 5
    whole = run(*options)
    epoch = train_lm.Run.epoch

    def fail_in_the_second(self, title):
        if self.history:
            raise KeyboardInterrupt
        return epoch(self, title)

    with monkeypatch.context() as patched:
        patched.setattr(train_lm.Run, "epoch", fail_in_the_second)
        with pytest.raises(SystemExit, match="130"):
            run(*options, checkpoint="interrupted.npz")
    assert capsys.readouterr().err.strip() == "train_lm: interrupted; --resume goes on after epoch 1"
    np.random.seed(99)
    resumed = run("--resume", checkpoint="interrupted.npz")
    assert state(resumed) == state(whole)
    assert resumed.text == whole.text and resumed.perplexity == whole.perplexity


def test_a_finished_run_that_is_resumed_writes_again(run, capsys):
    finished = run("--epochs", 2)
    table = re.findall(r"^ +\d .*$", capsys.readouterr().out, re.MULTILINE)
    again = run("--resume", "--epochs", 2, "--prompt", "nine ten", "--words", 3)
    assert state(again) == state(finished) and again.text.startswith("nine ten")
    assert re.findall(r"^ +\d .*$", capsys.readouterr().out, re.MULTILINE) == table and len(table) == 2


def test_resuming_refuses_other_settings_and_other_texts(run, tmp_path, folder):
    run("--epochs", 1)
    with pytest.raises(SystemExit, match=r"^train_lm: --lr was None and cannot be 0.5 with --resume"):
        run("--resume", "--lr", 0.5)
    with pytest.raises(SystemExit, match=r"^train_lm: --bptt was 5 and cannot be 6 with --resume"):
        run("--resume", "--bptt", 6)
    schedule = "the schedule is laid out over all epochs; leave it out, or begin anew with --epochs 3"
    with pytest.raises(SystemExit, match=f"^train_lm: --epochs was 1 and cannot be 3 with --resume: {schedule}$"):
        run("--resume", "--epochs", 3)
    other = write_text(tmp_path / "other")
    (other / "train.txt").write_text("another text\n" * 20)
    with pytest.raises(SystemExit, match=r"other: this is not the text of .*state\.npz; name that one by --data-dir"):
        run("--resume", "--data-dir", other)
    moved = folder.rename(tmp_path / "moved")
    with pytest.raises(SystemExit, match=r"^train_lm: there is no .*text/train\.txt; --data-dir takes a folder"):
        run("--resume")
    run("--resume", "--data-dir", moved)


def test_what_is_no_checkpoint_is_named(run, tmp_path):
    path = tmp_path / "state.npz"
    with pytest.raises(SystemExit, match=r"^train_lm: there is no checkpoint .*state\.npz to resume; leave"):
        run("--resume", checkpoint="state.npz")
    path.write_bytes(b"nothing")
    with pytest.raises(SystemExit, match=r"^train_lm: .*state\.npz: no whole npz checkpoint"):
        run("--resume", checkpoint="state.npz")
    ndl.io.save(path, {"model": {}, "settings": {}})
    with pytest.raises(SystemExit, match=r"^train_lm: .*state\.npz: this is no checkpoint of train_lm"):
        run("--resume", checkpoint="state.npz")


@pytest.mark.parametrize(
    ("part", "value", "sentence"),
    [
        ("settings", None, "this is no checkpoint of train_lm"),
        ("settings", [1], "this is no checkpoint of train_lm"),
        ("model", None, "this is no checkpoint of train_lm"),
        ("model", {}, "the state does not fit: .*missing embedding.weight"),
        ("random", [1], "the state does not fit"),
        ("history", [[1.0]], "the state does not fit"),
    ],
)
def test_a_checkpoint_that_lacks_something_is_named(run, tmp_path, part, value, sentence):
    run("--epochs", 1, checkpoint="state.npz")
    saved = load(tmp_path / "state.npz") | {part: value}
    ndl.io.save(tmp_path / "state.npz", {name: value for name, value in saved.items() if value is not None})
    with pytest.raises(SystemExit, match=rf"^train_lm: .*state\.npz: {sentence}"):
        run("--resume", checkpoint="state.npz")


@pytest.mark.parametrize(("temperature", "expected"), [(5e-324, [0, 1, 0]), (1e308, [1 / 3] * 3), (1.0, None)])
def test_any_temperature_gives_probabilities(temperature, expected):
    logits = np.array([1.0, 3.0, -400.0], dtype="float32")
    if expected is None:
        expected = np.exp(logits.astype(float)) / np.exp(logits.astype(float)).sum()
    np.testing.assert_allclose(train_lm.tempered(logits, temperature), expected, rtol=1e-12)


def test_too_little_memory_ends_with_one_sentence(run):
    with pytest.raises(SystemExit, match=r"^train_lm: Unable to allocate"):
        run("--hidden-size", 10**12)


def without(name):
    def prepare(folder):
        (folder / name).unlink()

    return prepare


def holding(name, content):
    return lambda folder: (folder / name).write_bytes(content)


@pytest.mark.parametrize(
    ("prepare", "options", "sentence"),
    [
        (without("test.txt"), (), r"there is no .*test\.txt; --data-dir takes"),
        (without("train.txt"), (), r"there is no .*train\.txt; --data-dir takes"),
        (holding("test.txt", b""), (), r"test\.txt: the file is empty"),
        (holding("train.txt", b"\xff\xfe"), (), r"train\.txt: no UTF-8 text"),
        (holding("test.txt", b"one two three\n"), (), r"test\.txt: 4 words are too few for a --batch-size of 4"),
        (lambda folder: None, ("--prompt", "one zebra a zebra"), "--prompt: the model does not know 'zebra', 'a'"),
        (lambda folder: None, ("--lr", 1e38), r"epoch 1/1: the loss is (nan|inf); try a smaller --lr"),
        (lambda folder: None, ("--checkpoint", "/proc/a.npz"), r"/proc/a\.npz"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_bad_data_and_options_end_with_one_sentence(run, folder, prepare, options, sentence):
    prepare(folder)
    with pytest.raises(SystemExit, match=f"^train_lm: .*{sentence}") as caught:
        run("--epochs", 1, *options)
    assert "\n" not in caught.value.code


def test_a_step_longer_than_the_text_takes_all_of_it(run):
    assert math.isfinite(run("--epochs", 1, "--bptt", 10_000).perplexity)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--epochs", "0"], "0 is not above 0"),
        (["--temperature", "-1"], "-1 is not above 0"),
        (["--clip", "nan"], "nan is not above 0"),
        (["--seed", "-1"], "-1 is not in 0..4294967295"),
        (["--device", "cuda"], "invalid choice: 'cuda' (choose from"),
        (["--model", "ngram"], "invalid choice: 'ngram'"),
    ],
)
def test_wrong_options_are_explained(options, fault, capsys):
    with pytest.raises(SystemExit, match="2"):
        train_lm.main(options)
    assert fault in capsys.readouterr().err


def test_a_terminal_sees_a_bar_with_the_perplexity(run, monkeypatch, tmp_path):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    run("--epochs", 1, "--data-dir", write_text(tmp_path / "longer", repeats=400))
    assert re.search(r"epoch 1/1: .*\|.*\d+/\d+ .*perplexity=\d+\.\d", terminal.getvalue())


def script(*options, cwd):
    environment = os.environ | {"PYTHONPATH": str(APP.parents[1])}
    return subprocess.Popen(
        [sys.executable, str(APP), *map(str, options)],
        cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_control_c_ends_with_one_sentence(tmp_path):
    done = script(cwd=tmp_path)
    assert "unigram" in "".join(done.stdout.readline() for _ in range(3))
    time.sleep(1)  # until it is in the midst of an epoch
    done.send_signal(signal.SIGINT)
    _, errors = done.communicate(timeout=30)
    assert done.returncode == 130
    assert errors.strip() == "train_lm: interrupted in the first epoch; nothing is saved before its end"


def test_help_runs_as_a_script_from_anywhere(tmp_path):
    printed, errors = script("--help", cwd=tmp_path).communicate(timeout=60)
    assert "--temperature" in printed and "train.txt and test.txt" in printed and not errors


def test_the_gospels():
    corpus = Corpus(train_lm.GOSPELS)
    assert (len(corpus.train), len(corpus.test), len(corpus.dictionary)) == (94_284, 7_843, 3_521)
    size = sum((train_lm.GOSPELS / name).stat().st_size for name in ("train.txt", "test.txt"))
    assert 200_000 < size < 500_000


@pytest.mark.slow
def test_the_defaults_beat_a_unigram_model_in_one_epoch(tmp_path):
    result = train_lm.main(["--epochs", "1", "--checkpoint", str(tmp_path / "state.npz")])
    assert result.perplexity < 80 < 240 < result.unigram
    assert len(result.text.split()) > 50


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("and he said , go ; ( they went ) . <eos> why ?", "and he said, go; (they went).\nwhy?"),
        ("<eos> a <eos> <eos> b", "\na\n\nb"),
        ("the disciples' house : father's !", "the disciples' house: father's!"),
    ],
)
def test_readable(words, text):
    assert train_lm.readable(words.split()) == text
