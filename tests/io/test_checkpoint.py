"""Checkpoints come back as they were, or an older one stays, in both formats."""

import os
import zipfile

import numpy as np
import pytest

import needle as ndl
from needle import nn
from needle.io import check_writable, load, save
from tests.optional import hide

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


@pytest.fixture(params=["npz", "safetensors"])
def path(tmp_path, request):
    if request.param == "safetensors":
        pytest.importorskip("safetensors")
    return tmp_path / f"a.{request.param}"


@pytest.fixture
def other(path):
    """Another file of the same format."""
    return path.with_stem("b")


def test_nested_state_comes_back_bit_for_bit(path, tmp_path):
    save(path, STATE)
    assert same(load(path), STATE)
    assert os.listdir(tmp_path) == [path.name]


def test_numpy_reads_the_arrays_by_path(tmp_path):
    save(tmp_path / "a.npz", STATE)
    with np.load(tmp_path / "a.npz") as archive:
        assert np.array_equal(archive["model/conv.weight"], STATE["model"]["conv.weight"])


def test_an_npz_file_of_others_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.ones(2))
    with pytest.raises(ndl.FileFormatError, match=r"a\.npz: no whole npz checkpoint: it has no state\.json"):
        load(tmp_path / "a.npz")


def test_equal_states_give_equal_bytes(path, other):
    for file in (path, other):
        save(file, STATE)
    assert path.read_bytes() == other.read_bytes()


def test_tensors_and_models(path, device):
    model, other = (nn.Sequential(nn.Conv(2, 3, 3), nn.BatchNorm2d(3)).to(device) for _ in range(2))
    save(path, {"model": model.state_dict(), "tensor": ndl.Tensor([1.0, 2.0], device=device)})
    state = load(path)
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
        (np.ones(1), "expected a dict, got an ndarray"),
        (ndl.nn.Linear(2, 3), r"expected a dict, got a Linear; give its state_dict\(\)"),
        ({"model": ndl.nn.Linear(2, 3)}, r"'model' is a Linear; give its state_dict\(\)"),
        ({"a": [1, {"b": print}]}, "'a/1/b' is a builtin_function_or_method"),
        ({"a": 1j}, "'a' is a complex"),
        ({"a": np.array([print])}, "'a' is an array of Python objects"),
    ],
)
def test_what_cannot_be_held_is_named_and_harms_nothing(path, tmp_path, state, fault):
    save(path, STATE)
    with pytest.raises(ndl.DTypeError, match=f"save: {fault}"):
        save(path, state)
    assert same(load(path), STATE) and os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("where", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_older_checkpoint_and_no_trace(path, tmp_path, monkeypatch, where, error):
    def fail(*_):
        raise error

    save(path, STATE)
    monkeypatch.setattr(os, where, fail)
    with pytest.raises(type(error)):
        save(path, {"new": 1})
    monkeypatch.undo()
    assert same(load(path), STATE) and os.listdir(tmp_path) == [path.name]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link.npz").symlink_to("real.npz")
    save(tmp_path / "link.npz", {"a": 1})
    assert (tmp_path / "link.npz").is_symlink() and load(tmp_path / "real.npz") == {"a": 1}


def test_every_truncation_is_refused(path, other):
    save(path, STATE)
    content = path.read_bytes()
    for length in range(len(content)):
        other.write_bytes(content[:length])
        with pytest.raises(ndl.FileFormatError, match=r"b\.(npz|safetensors): no whole \1 checkpoint: ."):
            load(other)


def test_a_changed_byte_is_refused_or_without_effect(path, other):
    save(path, {"weights": np.arange(6.0), "epoch": 3})
    content = bytearray(path.read_bytes())
    for position in range(len(content)):
        damaged = content.copy()
        damaged[position] ^= 0x41
        other.write_bytes(damaged)
        try:
            state = load(other)
        except ndl.FileFormatError:
            continue
        assert same(state, {"weights": np.arange(6.0), "epoch": 3}), position


@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n", b"PK\x03\x04", b"\x93NUMPY\x01\x00", b"\x80\x04N."])
def test_foreign_files_give_one_sentence(other, content):
    other.write_bytes(content)
    with pytest.raises(ndl.FileFormatError, match=r"b\.(npz|safetensors): no whole \1 checkpoint: .") as caught:
        load(other)
    assert "\n" not in str(caught.value)


def test_names_of_arrays_may_look_like_those_of_files(path):
    state = {"a": np.ones(1), "a.npy": np.zeros(2), "state.json": np.full(3, 2.0)}
    save(path, state)
    assert same(load(path), state)


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


def test_what_cannot_be_written_is_told_of_beforehand_by_its_own_name(path, tmp_path):
    folder = tmp_path / "folder.npz"
    folder.mkdir()
    for wrong in (folder, tmp_path / "nothing-here" / "a.npz", "/proc/a.npz"):
        for write in (check_writable, lambda wrong: save(wrong, STATE)):
            with pytest.raises(OSError, match=f"{wrong}'$"):
                write(wrong)
    folder.rmdir()
    save(path, STATE)
    check_writable(path)
    assert same(load(path), STATE) and os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("name", ["weights", "weights.pkl", "weights.pt"])
def test_the_suffix_says_the_format(tmp_path, name):
    for act in (lambda file: save(file, STATE), load):
        with pytest.raises(ndl.OptionError, match=rf"{name} must end in \.npz or \.safetensors"):
            act(tmp_path / name)


def test_safetensors_of_other_libraries_give_their_arrays(tmp_path):
    library = pytest.importorskip("safetensors.numpy")
    arrays = {"layer.weight": np.ones((2, 3), np.float32), "a/b": np.arange(3)}
    for metadata in (None, {"format": "pt"}):
        library.save_file(arrays, tmp_path / "a.safetensors", metadata)
        assert same(dict(sorted(load(tmp_path / "a.safetensors").items())), dict(sorted(arrays.items())))


def test_other_libraries_read_our_safetensors(tmp_path):
    library = pytest.importorskip("safetensors.numpy")
    save(tmp_path / "a.safetensors", STATE)
    loaded = library.load_file(tmp_path / "a.safetensors")
    assert np.array_equal(loaded["model/conv.weight"], STATE["model"]["conv.weight"])


@pytest.mark.parametrize("array", [np.array(["text"]), np.ones(1, np.longdouble), np.ones(1, complex)])
def test_dtypes_that_safetensors_lacks(tmp_path, array):
    with pytest.raises(ndl.DTypeError, match=r"save: 'x' is of dtype .*, which safetensors does not hold; use npz"):
        save(tmp_path / "a.safetensors", {"x": array})
    assert not list(tmp_path.iterdir())


def test_without_the_library_safetensors_names_the_extra(tmp_path, monkeypatch):
    hide(monkeypatch, "safetensors")
    (tmp_path / "a.safetensors").write_bytes(b"anything")
    for act in (lambda file: save(file, STATE), load):
        with pytest.raises(ndl.MissingExtraError, match=r'pip install "needle\[apps\]"'):
            act(tmp_path / "a.safetensors")
