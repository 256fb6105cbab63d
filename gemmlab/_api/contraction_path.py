"""An einsum of three and more operands, as one contraction after the other: the path is NumPy's.

path        which operands each step contracts; what it gives comes last in the list, as in `numpy.einsum_path`
a product   two operands that share a label which nothing needs after them: `Contraction`
the rest    NumPy's einsum: a named backend refuses them, before anything is computed
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np

from gemmlab._api.labels import Labelled, Labels
from gemmlab._api.sum_of_products import Contraction, quick_einsum
from gemmlab._problem import AnyArray, Array

Shapes: TypeAlias = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Step:
    """One contraction: labels of its operands, and of what it gives."""

    places: tuple[int, ...]
    operands: tuple[Labels, ...]
    labels: Labels

    @cached_property
    def is_product(self) -> bool:
        first, *others = self.operands
        return len(others) == 1 and any(label in others[0] and label not in self.labels for label in first)

    @cached_property
    def subscripts(self) -> str:
        """As einsum has them; an axis of an ellipsis is a dot and its number from the last."""
        return ",".join(map("".join, self.operands)) + "->" + "".join(self.labels)


def steps_of(
    subscripts: str, shapes: Shapes, optimize: AnyArray, operands: tuple[Labels, ...], labels: Labels
) -> tuple[Step, ...]:
    """The steps of the path that NumPy takes for operands of these shapes and labels; raises NumPy's errors."""
    if isinstance(optimize, list):  # a path is given
        return _steps(subscripts, shapes, optimize, operands, labels)
    return _kept_steps(subscripts, shapes, optimize, operands, labels)


def _steps(
    subscripts: str, shapes: Shapes, optimize: AnyArray, operands: tuple[Labels, ...], labels: Labels
) -> tuple[Step, ...]:
    path, _ = np.einsum_path(subscripts, *(np.broadcast_to(0.0, shape) for shape in shapes), optimize=optimize)
    return tuple(_along(path[1:], operands, labels))


_kept_steps = lru_cache(maxsize=256)(_steps)


def _along(path: Sequence[tuple[int, ...]], operands: Sequence[Labels], labels: Labels) -> Iterator[Step]:
    """What a step gives has the labels of the batch first, then the first operand's, so that a product is stored as it
    is computed; the last has those of the result."""
    left = list(operands)
    for number, places in enumerate(path):
        taken = [left.pop(place) for place in sorted(places, reverse=True)][::-1]
        every = [label for each in taken for label in each]
        needed = {*labels}.union(*left)
        unique = dict.fromkeys(sorted(every, key=lambda label: -every.count(label)))
        kept = labels if number == len(path) - 1 else tuple(label for label in unique if label in needed)
        left.append(kept)
        yield Step(tuple(sorted(places)), tuple(taken), kept)


def contract(operands: Sequence[Labelled], steps: Sequence[Step], out: Array | None, **request: Any) -> Array:
    """The result of the last step, in `out` if given; `matmul` takes the products, with these options."""
    left, last = list(operands), steps[-1]
    for step in steps:
        taken = [left.pop(place) for place in reversed(step.places)][::-1]
        into = out if step is last else None
        if step.is_product:
            a, b = taken
            array = None if into is not None else quick_einsum(step.subscripts, a.array, b.array, **request)
            if array is None:
                product = Contraction.of(a, b, step.labels)
                array = product.multiply(into, product.dtype_into(into), **request)
        else:
            array = _by_numpy(taken, step.labels, into)
        left.append(Labelled(array, step.labels))
    return left[-1].array


def _by_numpy(operands: Sequence[Labelled], labels: Labels, out: Array | None) -> Array:
    """By NumPy's einsum, whose subscripts are numbers here."""
    numbers = {label: i for i, label in enumerate(dict.fromkeys(label for x in operands for label in x.labels))}
    terms = [part for x in operands for part in (x.array, [numbers[label] for label in x.labels])]
    return np.asarray(np.einsum(*terms, [numbers[label] for label in labels], out=out))
