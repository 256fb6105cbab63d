"""Axes with labels: what the subscripts of `einsum` and the axes of `tensordot` say, before anything is multiplied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from string import ascii_lowercase, ascii_uppercase
from typing import Any, TypeAlias

import numpy as np

from gemmlab._problem import AnyArray, Array

Labels: TypeAlias = tuple[str, ...]  # one for each axis; equal labels are one axis of the sum
SYMBOLS: dict[object, str] = {...: "..."} | dict(enumerate(ascii_uppercase + ascii_lowercase))


class NotAProduct(Exception):
    """This call is no product of two operands, or NumPy reports an error of it; the message says why."""


class OnlyInNumPy(Exception):
    """This call is a product, with an option or a dtype that only NumPy has; the message names it."""


@dataclass(frozen=True)
class Labelled:
    """An array whose axes have labels."""

    array: Array
    labels: Labels

    def sizes(self) -> dict[str, int]:
        return dict(zip(self.labels, self.array.shape, strict=True))

    def ordered(self, labels: Sequence[str]) -> Array:
        """A view with the axes in this order."""
        order = [self.labels.index(label) for label in labels]
        return self.array if order == list(range(len(order))) else self.array.transpose(order)

    def merges(self, labels: Sequence[str]) -> bool:
        """Whether these axes, in this order, become one without a copy."""
        if len(labels) < 2:
            return True
        axes = [self.labels.index(label) for label in labels]
        steps = [(self.array.shape[axis], self.array.strides[axis]) for axis in axes if self.array.shape[axis] != 1]
        fits = all(outer == size * inner for (_, outer), (size, inner) in pairwise(steps))
        return fits or self.array.size == 0


def parse(subscripts: str, operands: Sequence[AnyArray]) -> tuple[list[Labelled], Labels]:
    """The operands with a label for each axis, and the labels of the result; NotAProduct if einsum must judge."""
    arrays = [np.asarray(x) for x in operands]
    terms, result = _parsed(subscripts, tuple(x.ndim for x in arrays))
    return [_with_diagonals(Labelled(x, labels)) for x, labels in zip(arrays, terms, strict=True)], result


@lru_cache(maxsize=256)
def _parsed(subscripts: str, ndims: tuple[int, ...]) -> tuple[list[Labels], Labels]:
    """The labels of the operands and of the result. The axes of an ellipsis are counted from the last: ".1", ".2"."""
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ndims):
        raise NotAProduct("the subscripts do not name each operand")
    labelled = [_labels(term, ndim) for term, ndim in zip(terms, ndims, strict=True)]
    widest = max((_dots(labels) for labels in labelled), key=len)
    every = [label for labels in labelled for label in labels]
    if arrow:
        result = _letters(output, len(widest))
    else:
        result = (*widest, *sorted(x for x in set(every) if every.count(x) == 1 and x[0] != "."))
    if len({*result}) < len(result) or not {*result} <= {*every} or not {*widest} <= {*result}:
        raise NotAProduct("the result's subscripts do not follow from the operands'")
    return labelled, result


@lru_cache(maxsize=256)
def as_matmul(subscripts: str, ndims: tuple[int, int]) -> tuple[bool, bool, bool] | None:
    """Whether `matmul` of two matrices, vectors or stacks has A, B and the result with their last axes swapped.

    None: it is not such a product, or axes have to be brought together first.
    """
    try:
        (a, b), result = _parsed(subscripts, ndims)
    except NotAProduct:
        return None
    batch_a, batch_b = a[:-2], b[:-2]
    batch = batch_a or batch_b
    own_a, own_b, own_c = a[-2:], b[-2:], result[len(batch) :]
    shared = [x for x in own_a if x in own_b]
    left = (*(x for x in own_a if x not in own_b), *(x for x in own_b if x not in own_a))
    stacked = result[: len(batch)] == batch and batch_a in ((), batch) and batch_b in ((), batch)
    if not (stacked and sorted(left) == sorted(own_c) and len(shared) == 1 and shared[0] not in result):
        return None
    if len({*a}) < len(a) or len({*b}) < len(b) or {*batch} & {*own_a, *own_b}:
        return None
    return own_a[-1] != shared[0], own_b[0] != shared[0], own_c != left


def from_sublists(operands: Sequence[AnyArray]) -> tuple[str, list[AnyArray]]:
    """The subscripts and the operands of `einsum(a, [0, 1], b, [1, 2], [0, 2])`."""
    pairs, output = (operands[:-1], operands[-1:]) if len(operands) % 2 else (operands, ())
    terms = ",".join(map(_term, pairs[1::2]))
    return terms + "".join(f"->{_term(labels)}" for labels in output), list(pairs[::2])


def _term(sublist: Iterable[Any]) -> str:
    """Subscripts for a list of numbers; their alphabetical order is that of the numbers."""
    try:
        return "".join(SYMBOLS[x] for x in sublist)
    except (TypeError, KeyError):
        raise NotAProduct("a list of subscripts holds something else than 0 to 51") from None


def _labels(term: str, ndim: int) -> Labels:
    before, dots, after = term.partition("...")
    missing = ndim - len(before) - len(after)
    if missing < 0 or (missing and not dots):
        raise NotAProduct("the subscripts do not name each axis")
    return _letters(term, missing)


def _letters(term: str, dots: int) -> Labels:
    before, ellipsis, after = term.partition("...")
    if not all(letter.isascii() and letter.isalpha() for letter in before + after):
        raise NotAProduct("the subscripts are not letters")
    return (*before, *(f".{i}" for i in range(dots, 0, -1) if ellipsis), *after)


def _dots(labels: Labels) -> Labels:
    return tuple(label for label in labels if label[0] == ".")


def _with_diagonals(x: Labelled) -> Labelled:
    """A view in which each label occurs once: where one labels several axes, their diagonal."""
    array, labels = x.array, x.labels
    while (twice := next((label for label in labels if labels.count(label) > 1), None)) is not None:
        first = labels.index(twice)
        second = labels.index(twice, first + 1)
        if array.shape[first] != array.shape[second]:
            raise NotAProduct(f"the axes of {twice!r} in one operand have different sizes")
        array = np.diagonal(array, axis1=first, axis2=second)
        labels = (*labels[:first], *labels[first + 1 : second], *labels[second + 1 :], twice)
    return Labelled(array, labels)
