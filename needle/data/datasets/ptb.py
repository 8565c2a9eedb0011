"""Text for language models, laid out as the Penn Treebank is: a folder with train.txt and test.txt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy.typing as npt

from needle.autograd import Tensor
from needle.backend_ndarray import BackendDevice
from needle.backend_ndarray.dtypes import as_dtype, as_ndarray
from needle.errors import BoundsError, FileFormatError, OptionError, ShapeError
from needle.ops.arguments import integer

END_OF_LINE = "<eos>"


class Dictionary:
    """Words and their ids, which count up from 0 in the order in which words are added.

    `word2idx` maps a word to its id, the list `idx2word` an id to its word.

    >>> dictionary = Dictionary()
    >>> [dictionary.add_word(word) for word in ("to", "be", "or", "not", "to", "be")], len(dictionary)
    ([0, 1, 2, 3, 0, 1], 4)
    """

    def __init__(self) -> None:
        self.word2idx: dict[str, int] = {}
        self.idx2word: list[str] = []

    def __len__(self) -> int:
        return len(self.idx2word)

    def __repr__(self) -> str:
        return f"Dictionary({len(self)} words)"

    def add_word(self, word: str) -> int:
        """Add a word unless it is there; give its id."""
        if word not in self.word2idx:
            self.word2idx[word] = len(self.idx2word)
            self.idx2word.append(word)
        return self.word2idx[word]

    def ids(self, words: Iterable[str]) -> list[int]:
        """Give the ids of words; OptionError where one is not there.

        >>> dictionary = Dictionary()
        >>> dictionary.add_word("be")
        0
        >>> dictionary.ids(["be", "be"])
        [0, 0]
        """
        words = list(words)
        unknown = sorted({word for word in words if word not in self.word2idx})
        if unknown:
            raise OptionError(f"Dictionary: {', '.join(map(repr, unknown))} not among its {len(self)} words; add_word")
        return [self.word2idx[word] for word in words]


class Corpus:
    """The text of a folder as ids: `train` and `test` are lists, of the words of train.txt and test.txt.

    Words are what stands between blanks; `<eos>` ends each line. `dictionary` has the words of both files, those of
    train.txt first. `max_lines` reads no more lines of each file.

    Raises:
        FileNotFoundError: a file is missing.
        FileFormatError: a file is empty or no UTF-8 text; the message names it.
    """

    def __init__(self, base_dir: str | Path, max_lines: int | None = None) -> None:
        if max_lines is not None:
            integer("Corpus", "max_lines", max_lines, 1)
        self.dictionary = Dictionary()
        self.train, self.test = (self.tokenize(Path(base_dir, name), max_lines) for name in ("train.txt", "test.txt"))

    def __repr__(self) -> str:
        return f"Corpus({len(self.train)} words for training, {len(self.test)} for testing, {self.dictionary})"

    def tokenize(self, path: str | Path, max_lines: int | None = None) -> list[int]:
        """Give the ids of a file's words, or of its first lines', and add them to the dictionary."""
        ids: list[int] = []
        try:
            with open(path, encoding="utf-8-sig") as file:  # a byte order mark is no part of a word
                for line in islice(file, max_lines):
                    ids += [self.dictionary.add_word(word) for word in (*line.split(), END_OF_LINE)]
        except UnicodeDecodeError as error:
            raise FileFormatError(f"{path}: no UTF-8 text: {error.reason} at byte {error.start}") from error
        if not ids:
            raise FileFormatError(f"{path}: the file is empty; put text into it, a sentence a line")
        return ids


def batchify(
    data: Sequence[int], batch_size: int, device: BackendDevice | None = None, dtype: Any = "float32"
) -> npt.NDArray[Any]:
    """Cut ids into `batch_size` pieces of equal length, and lay them side by side: (nbatch, batch_size).

    Each column is consecutive text; what does not fill a row is left out. The result is a NumPy array of the dtype,
    from which `get_batch` takes batches; `device` is the course's and has no effect.

    Raises:
        ShapeError: there are fewer ids than columns.

    >>> batchify(range(8), batch_size=2).tolist()
    [[0.0, 4.0], [1.0, 5.0], [2.0, 6.0], [3.0, 7.0]]
    """
    columns = integer("batchify", "batch_size", batch_size, 1)
    rows = len(data) // columns
    if not rows:
        raise ShapeError(f"batchify: {len(data)} ids do not fill a row of {columns}; take a smaller batch_size")
    return as_ndarray("batchify", data[: rows * columns]).astype(as_dtype(dtype, "batchify")).reshape(columns, rows).T


def get_batch(
    batches: npt.ArrayLike, i: int, bptt: int, device: BackendDevice | None = None, dtype: Any = None
) -> tuple[Tensor, Tensor]:
    """Take rows i to i + n - 1 of what `batchify` gave, and as targets the words that follow: one row later.

    n is `bptt`, or as many rows as have a next one, down to none where i is the last row. Gives Tensors that need no
    gradient, (n, batch_size) and (n * batch_size,), the latter in row-major order.

    Raises:
        BoundsError: there is no row i.

    >>> x, y = get_batch(batchify(range(8), batch_size=2), i=0, bptt=2)
    >>> x.numpy().tolist(), y.numpy().tolist()
    ([[0.0, 4.0], [1.0, 5.0]], [1.0, 5.0, 2.0, 6.0])
    """
    batches = as_ndarray("get_batch", batches)
    if batches.ndim != 2:
        raise ShapeError(f"get_batch: expected (nbatch, batch_size), got shape {batches.shape}; use batchify")
    if not 0 <= i < len(batches):
        raise BoundsError(f"get_batch: there is no row {i} in {len(batches)} rows")
    n = min(integer("get_batch", "bptt", bptt, 1), len(batches) - 1 - i)
    parts = batches[i : i + n], batches[i + 1 : i + 1 + n].reshape(-1)
    x, y = (Tensor(part, device=device, dtype=dtype, requires_grad=False) for part in parts)
    return x, y
