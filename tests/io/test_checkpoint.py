"""Checkpoints come back as they were, or an older one stays."""

import os
import zipfile

import numpy as np
import pytest

import needle as ndl
from needle import nn
from needle.io import load, save

STATE = {
    "model": {"conv.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "steps": np.array(7), "file": np.ones(1)},
    "optimizer": {"moments": [np.arange(3.0), None, (np.zeros((0, 4)), 2)], "empty": {}},
    "settings": {"lr": 0.1 + 0.2, "name": "größe", "nesterov": False},
    "file": np.array([True, False]),
}


def same(got, expected):
    if isinstance(expected, dict):
        return list(got) == list(expected) and all(same(got[key], expected[key]) for key in expected)
    if isinstance(expected, list | tuple):
        return isinstance(got, list) and len(got) == len(expected) and all(map(same, got, expected))
    if isinstance(expected, np.ndarray):
        return got.dtype == expected.dtype and got.shape == expected.shape and got.tobytes() == expected.tobytes()
    return type(got) is type(expected) and got == expected


def test_nested_state_comes_back_bit_for_bit(tmp_path):
    save(tmp_path / "a.npz", STATE)
    assert same(load(tmp_path / "a.npz"), STATE)
    assert os.listdir(tmp_path) == ["a.npz"]


def test_numpy_reads_the_arrays_by_path(tmp_path):
    save(tmp_path / "a.npz", STATE)
    with np.load(tmp_path / "a.npz") as archive:
        assert np.array_equal(archive["model/conv.weight"], STATE["model"]["conv.weight"])


def test_an_npz_file_of_others_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.ones(2))
    with pytest.raises(ndl.FileFormatError, match=r"a\.npz: no whole npz checkpoint: it has no state\.json"):
        load(tmp_path / "a.npz")


def test_equal_states_give_equal_bytes(tmp_path):
    for name in ("a.npz", "b.npz"):
        save(tmp_path / name, STATE)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_tensors_and_models(tmp_path, device):
    model, other = (nn.Sequential(nn.Conv(2, 3, 3), nn.BatchNorm2d(3)).to(device) for _ in range(2))
    save(tmp_path / "a.npz", {"model": model.state_dict(), "tensor": ndl.Tensor([1.0, 2.0], device=device)})
    state = load(tmp_path / "a.npz")
    other.load_state_dict(state["model"])
    assert state["tensor"].tolist() == [1, 2]
    for saved, loaded in zip(model.parameters(), other.parameters(), strict=True):
        assert np.array_equal(saved.numpy(), loaded.numpy())


@pytest.mark.parametrize(
    ("state", "fault"),
    [
        ({"a": {1: 2}}, "key 1 of 'a'"),
        ({"a": {"b/c": 2}}, "key 'b/c' of 'a'"),
        ({"": 2}, "key '' of ''"),
        ({"a\0b": 2}, "key 'a.x00b' of ''"),
        ({"\ud800": 2}, "key '.ud800' of ''"),
        ([np.ones(1)], "expected a dict, got a list"),
        (np.ones(1), "expected a dict, got a ndarray"),
        ({"a": [1, {"b": print}]}, "'a/1/b' is a builtin_function_or_method"),
        ({"a": 1j}, "'a' is a complex"),
        ({"a": np.array([print])}, "'a' is an array of Python objects"),
    ],
)
def test_what_cannot_be_held_is_named_and_harms_nothing(tmp_path, state, fault):
    save(tmp_path / "a.npz", STATE)
    with pytest.raises(ndl.DTypeError, match=f"save: {fault}"):
        save(tmp_path / "a.npz", state)
    assert same(load(tmp_path / "a.npz"), STATE) and os.listdir(tmp_path) == ["a.npz"]


@pytest.mark.parametrize("where", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_older_checkpoint_and_no_trace(tmp_path, monkeypatch, where, error):
    def fail(*_):
        raise error

    save(tmp_path / "a.npz", STATE)
    monkeypatch.setattr(os, where, fail)
    with pytest.raises(type(error)):
        save(tmp_path / "a.npz", {"new": 1})
    monkeypatch.undo()
    assert same(load(tmp_path / "a.npz"), STATE) and os.listdir(tmp_path) == ["a.npz"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link.npz").symlink_to("real.npz")
    save(tmp_path / "link.npz", {"a": 1})
    assert (tmp_path / "link.npz").is_symlink() and load(tmp_path / "real.npz") == {"a": 1}


def test_every_truncation_is_refused(tmp_path):
    save(tmp_path / "a.npz", STATE)
    content = (tmp_path / "a.npz").read_bytes()
    for length in range(len(content)):
        (tmp_path / "b.npz").write_bytes(content[:length])
        with pytest.raises(ndl.FileFormatError, match=r"b\.npz: no whole npz checkpoint: ."):
            load(tmp_path / "b.npz")


def test_a_changed_byte_is_refused_or_without_effect(tmp_path):
    save(tmp_path / "a.npz", {"weights": np.arange(6.0), "epoch": 3})
    content = bytearray((tmp_path / "a.npz").read_bytes())
    for position in range(len(content)):
        damaged = content.copy()
        damaged[position] ^= 0x41
        (tmp_path / "b.npz").write_bytes(damaged)
        try:
            state = load(tmp_path / "b.npz")
        except ndl.FileFormatError:
            continue
        assert same(state, {"weights": np.arange(6.0), "epoch": 3}), position


@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n", b"PK\x03\x04", b"\x93NUMPY\x01\x00", b"\x80\x04N."])
def test_foreign_files_give_one_sentence(tmp_path, content):
    (tmp_path / "b.npz").write_bytes(content)
    with pytest.raises(ndl.FileFormatError, match=r"b\.npz: no whole npz checkpoint: .") as caught:
        load(tmp_path / "b.npz")
    assert "\n" not in str(caught.value)


def test_names_of_arrays_may_look_like_those_of_files(tmp_path):
    state = {"a": np.ones(1), "a.npy": np.zeros(2), "state.json": np.full(3, 2.0)}
    save(tmp_path / "a.npz", state)
    assert same(load(tmp_path / "a.npz"), state)


@pytest.mark.parametrize("content", [b"hello", b"", np.ones(2).tobytes()])
def test_files_that_are_no_archives(tmp_path, content):
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(ndl.FileFormatError, match=r"a\.npz: no whole npz checkpoint: File is not a zip file$"):
        load(tmp_path / "a.npz")


def test_pickled_arrays_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", evil=np.array([print]))
    evil = zipfile.ZipFile(tmp_path / "a.npz").read("evil.npy")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("state.json", '{"arrays": ["evil"], "state": {"evil": null}}')
        archive.writestr("evil.npy", evil)
    with pytest.raises(ndl.FileFormatError, match="allow_pickle"):
        load(tmp_path / "a.npz")


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing-here"):
        load(tmp_path / "nothing-here.npz")
    with pytest.raises(FileNotFoundError, match="nothing-here"):
        save(tmp_path / "nothing-here" / "a.npz", STATE)
