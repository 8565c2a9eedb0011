"""Text by word ids: reading, cutting into columns, batches, and everything that can be wrong with them."""

import numpy as np
import pytest

import needle as ndl
from needle.data import Corpus, Dictionary, batchify, get_batch

TRAIN = "no it was n't black monday\n\n but while   the exchange\n"
TEST = "it was black\nbut why\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.txt").write_text(TRAIN)
    (tmp_path / "test.txt").write_text(TEST)
    return tmp_path


def test_dictionary_numbers_words_as_they_come():
    dictionary = Dictionary()
    assert [dictionary.add_word(word) for word in ("b", "a", "b")] == [0, 1, 0]
    assert dictionary.word2idx == {"b": 0, "a": 1} and dictionary.idx2word == ["b", "a"] and len(dictionary) == 2
    assert dictionary.ids(["a", "b", "a"]) == [1, 0, 1] and dictionary.ids([]) == []
    assert repr(dictionary) == "Dictionary(2 words)"


def test_unknown_words_are_named():
    dictionary = Dictionary()
    dictionary.add_word("a")
    with pytest.raises(ndl.OptionError, match=r"^Dictionary: 'b', 'c' not among its 1 words"):
        dictionary.ids(["c", "a", "b", "c"])
    assert len(dictionary) == 1


def text(corpus, ids):
    return " ".join(corpus.dictionary.idx2word[i] for i in ids)


def test_corpus_reads_both_files_and_ends_each_line(folder):
    for given in (folder, str(folder)):
        corpus = Corpus(given)
        assert text(corpus, corpus.train) == "no it was n't black monday <eos> <eos> but while the exchange <eos>"
        assert text(corpus, corpus.test) == "it was black <eos> but why <eos>"
    assert corpus.train[:9] == [0, 1, 2, 3, 4, 5, 6, 6, 7]
    assert corpus.dictionary.word2idx["why"] == len(corpus.dictionary) - 1 == 11, "a word of test.txt alone"
    assert repr(corpus) == "Corpus(13 words for training, 7 for testing, Dictionary(12 words))"


def test_a_byte_order_mark_is_no_part_of_a_word(folder):
    (folder / "train.txt").write_text("a b a\n", encoding="utf-8-sig")
    assert Corpus(folder).dictionary.idx2word[:3] == ["a", "b", "<eos>"]


@pytest.mark.parametrize(("max_lines", "sizes"), [(1, (7, 4)), (2, (8, 7)), (3, (13, 7)), (99, (13, 7))])
def test_max_lines_holds_for_each_file(folder, max_lines, sizes):
    corpus = Corpus(folder, max_lines=max_lines)
    assert (len(corpus.train), len(corpus.test)) == sizes


@pytest.mark.parametrize("name", ["train.txt", "test.txt"])
def test_files_that_are_missing_empty_or_no_text_are_named(folder, name):
    (folder / name).write_bytes(b"caf\xe9 noir")
    with pytest.raises(ndl.FileFormatError, match=f"{name}: no UTF-8 text: .* at byte 3"):
        Corpus(folder)
    (folder / name).write_bytes(b"")
    with pytest.raises(ndl.FileFormatError, match=f"{name}: the file is empty"):
        Corpus(folder)
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        Corpus(folder)


@pytest.mark.parametrize(("max_lines", "error"), [(0, ndl.ShapeError), (1.5, ndl.DTypeError)])
def test_max_lines_is_a_positive_number(folder, max_lines, error):
    with pytest.raises(error, match=r"^Corpus: max_lines must be"):
        Corpus(folder, max_lines)


@pytest.mark.parametrize("size", [1, 3, 4, 26])
@pytest.mark.parametrize("dtype", ["float32", np.float64, np.dtype("int64")])
def test_batchify_lays_consecutive_text_into_columns(size, dtype, device):
    batches = batchify(list(range(26)), size, device, dtype)
    assert type(batches) is np.ndarray and batches.dtype == dtype and batches.shape == (26 // size, size)
    assert batches.T.ravel().tolist() == list(range(26 // size * size))
    assert batchify(list(range(26)), batch_size=size).dtype == "float32"


@pytest.mark.parametrize(
    ("data", "size", "error", "message"),
    [
        ([1, 2], 3, ndl.ShapeError, "2 ids do not fill a row of 3; take a smaller batch_size"),
        ([], 1, ndl.ShapeError, "0 ids do not fill a row of 1"),
        ([1, 2], 0, ndl.ShapeError, "batch_size must be at least 1, got 0"),
        ([1, 2], "2", ndl.DTypeError, "batch_size must be a whole number"),
        (["a", "b"], 1, ndl.DTypeError, "expected real numbers"),
    ],
)
def test_batchify_says_what_is_wrong(data, size, error, message):
    with pytest.raises(error, match=f"^batchify: {message}"):
        batchify(data, size)


@pytest.mark.parametrize("bptt", [1, 3, 6, 40])
@pytest.mark.parametrize("i", [0, 2, 4, 6])
def test_get_batch_gives_rows_and_those_one_later(device, i, bptt):
    batches = batchify(list(range(21)), 3)
    x, y = get_batch(batches, i, bptt, device=device)
    n = min(bptt, 6 - i)
    assert x.shape == (n, 3) and y.shape == (n * 3,)
    assert x.numpy().tolist() == batches[i : i + n].tolist()
    assert y.numpy().tolist() == batches[i + 1 : i + 1 + n].ravel().tolist() == (x.numpy() + 1).ravel().tolist()
    for part in (x, y):
        assert part.device == device and part.dtype == "float32" and not part.requires_grad


def test_get_batch_takes_a_dtype(device, dtype):
    for part in get_batch(batchify(range(6), 2, dtype="int32"), 0, 2, device=device, dtype=dtype):
        assert part.dtype == dtype


@pytest.mark.parametrize(
    ("batches", "i", "bptt", "error", "message"),
    [
        (np.ones((4, 2)), 4, 1, ndl.BoundsError, "there is no row 4 in 4 rows"),
        (np.ones((4, 2)), -1, 1, ndl.BoundsError, "there is no row -1 in 4 rows"),
        (np.ones((4, 2)), 0, 0, ndl.ShapeError, "bptt must be at least 1, got 0"),
        (np.ones(4), 0, 1, ndl.ShapeError, r"expected \(nbatch, batch_size\), got shape \(4,\); use batchify"),
    ],
)
def test_get_batch_says_what_is_wrong(batches, i, bptt, error, message):
    with pytest.raises(error, match=f"^get_batch: {message}"):
        get_batch(batches, i, bptt)
