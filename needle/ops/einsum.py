"""Einstein summation, made of permute, reshape, multiply, matmul and sum, so that it differentiates to any order."""

from __future__ import annotations

import math
import re

import numpy as np

from needle.autograd import Tensor
from needle.errors import ShapeError
from needle.ops.arguments import promote, tensor
from needle.ops.indexing import getitem
from needle.ops.linalg import matmul
from needle.ops.reduce import summation
from needle.ops.shape import permute, reshape

_SUBSCRIPTS = re.compile(r"TERM(,TERM)*(->TERM)?".replace("TERM", r"[A-Za-z]*(\.\.\.)?[A-Za-z]*"))
_ELLIPSIS_LETTERS = "0123456789"  # what "..." stands for, aligned at its end


def einsum(subscripts: str, *operands: Tensor) -> Tensor:
    """Sum products of elements over the letters that the result does not have, as `numpy.einsum`.

    Letters may be repeated in an operand (a diagonal) and "..." stands for axes that broadcast. Without "->" the
    result has the letters that occur once, in alphabetical order. Operands are combined from left to right.

    >>> import needle as ndl
    >>> a = ndl.Tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> einsum("ij,jk->ik", a, a).numpy().tolist(), einsum("ii", a).numpy().tolist()
    ([[7.0, 10.0], [15.0, 22.0]], 5.0)
    """
    tensors = [tensor("einsum", operand, f"operand {i}") for i, operand in enumerate(operands)]
    terms, output = _parse(subscripts, [t.ndim for t in tensors])
    sizes = _sizes(subscripts, terms, [t.shape for t in tensors])
    parts = [_Labelled(t, letters).prepared(sizes) for t, letters in zip(promote(*tensors), terms, strict=True)]
    result = parts[0]
    for index, part in enumerate(parts[1:], start=2):
        later = "".join(part.letters for part in parts[index:])
        result = result.times(part, keep=output + later)
    return result.summed_to(output).ordered(output).data


def _parse(subscripts: str, ndims: list[int]) -> tuple[list[str], str]:
    """Give the letters of each operand and of the result, with "..." written out."""
    text = subscripts.replace(" ", "") if isinstance(subscripts, str) else ""
    if not text or not _SUBSCRIPTS.fullmatch(text):
        raise ShapeError(f'einsum: "{subscripts}" must have a form like "ij,...jk->...ik"')
    left, arrow, output = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        raise ShapeError(f'einsum: "{subscripts}" is for {len(terms)} operands, got {len(ndims)}')
    spare = [ndim - len(term.replace("...", "")) for term, ndim in zip(terms, ndims, strict=True)]
    for i, (term, ndim, extra) in enumerate(zip(terms, ndims, spare, strict=True)):
        if extra < 0 or (extra and "..." not in term) or extra > len(_ELLIPSIS_LETTERS):
            raise ShapeError(f'einsum: "{term}" in "{subscripts}" does not fit operand {i} with {ndim} axes')
    terms = [_spelled_out(term, extra) for term, extra in zip(terms, spare, strict=True)]
    every = "".join(terms)
    if not arrow:
        output = "..." + "".join([letter for letter in sorted(set(every)) if left.count(letter) == 1])
    output = _spelled_out(output, max(spare))
    if len(set(output)) != len(output) or not set(output) <= set(every):
        raise ShapeError(f'einsum: in "{subscripts}" the result must have letters of the operands, each once')
    return terms, output


def _spelled_out(term: str, extra: int) -> str:
    return term.replace("...", _ELLIPSIS_LETTERS[len(_ELLIPSIS_LETTERS) - extra :])


def _sizes(subscripts: str, terms: list[str], shapes: list[tuple[int, ...]]) -> dict[str, int]:
    """Give the length that each letter stands for; lengths of 1 broadcast."""
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        own: dict[str, int] = {}
        for letter, n in zip(term, shape, strict=True):
            known = sizes.get(letter, 1)
            if own.setdefault(letter, n) != n or (n != known and 1 not in (n, known)):
                raise ShapeError(f'einsum: letter "{letter}" of "{subscripts}" has different lengths in {shapes}')
            sizes[letter] = n if known == 1 else known
    return sizes


class _Labelled:
    """A tensor and the letter of each of its axes."""

    def __init__(self, data: Tensor, letters: str) -> None:
        self.data, self.letters = data, letters

    def prepared(self, sizes: dict[str, int]) -> _Labelled:
        """Take diagonals, and drop axes of length 1 that broadcast."""
        data, letters = self.data, "".join(dict.fromkeys(self.letters))
        if letters != self.letters:
            mesh = np.ogrid[tuple([slice(data.shape[self.letters.index(letter)]) for letter in letters])]
            data = getitem(data, tuple([mesh[letters.index(letter)] for letter in self.letters]))
        whole = [letter for letter, n in zip(letters, data.shape, strict=True) if n == sizes[letter]]
        return _Labelled(data, letters).summed_to("".join(whole))

    def summed_to(self, keep: str) -> _Labelled:
        axes = tuple([axis for axis, letter in enumerate(self.letters) if letter not in keep])
        if not axes:
            return self
        return _Labelled(summation(self.data, axes), "".join([c for c in self.letters if c in keep]))

    def ordered(self, letters: str) -> _Labelled:
        if letters == self.letters:
            return self
        return _Labelled(permute(self.data, [self.letters.index(letter) for letter in letters]), letters)

    def times(self, other: _Labelled, keep: str) -> _Labelled:
        """Multiply, and sum over the letters that are not in `keep`."""
        a, b = self.summed_to(keep + other.letters), other.summed_to(keep + self.letters)
        shared = [letter for letter in a.letters if letter in b.letters]
        batch = "".join([letter for letter in shared if letter in keep])
        summed = "".join([letter for letter in shared if letter not in keep])
        left = "".join([letter for letter in a.letters if letter not in shared])
        right = "".join([letter for letter in b.letters if letter not in shared])
        x, y = a.ordered(batch + left + summed).data, b.ordered(batch + summed + right).data
        lead, rows = x.shape[: len(batch)], x.shape[len(batch) : len(batch + left)]
        middle, columns = math.prod(x.shape[len(batch + left) :]), y.shape[len(batch + summed) :]
        x = reshape(x, (*lead, math.prod(rows), middle))
        y = reshape(y, (*lead, middle, math.prod(columns)))
        product = matmul(x, y) if summed else x * y  # (..., rows, 1) * (..., 1, columns) where there is nothing to sum
        return _Labelled(reshape(product, (*lead, *rows, *columns)), batch + left + right)
