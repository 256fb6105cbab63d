"""Where the matrices of a stack lie in device memory, and how a stack is cut into launches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any


@dataclass(frozen=True)
class Operand:
    """Row-major matrices in device memory: `start`, `ld` and `step` as the kernels take them, in elements.

    What lies there `transposed` is column-major: a library may take it, a rung does not.
    """

    memory: Any
    start: int
    ld: int
    step: int = 0
    transposed: bool = False

    def moved(self, rows: int = 0, products: int = 0) -> Operand:
        """The same, from a later row and a later product on."""
        start = self.start + rows * (1 if self.transposed else self.ld) + products * self.step
        return Operand(self.memory, start, self.ld, self.step, self.transposed)  # `replace` takes its time


@dataclass(frozen=True)
class Stacked:
    """Matrices in device memory with any leading axes; strides in elements, the last one is 1."""

    memory: Any
    start: int
    lead: tuple[int, ...]
    ld: int
    transposed: bool = False

    def at(self, index: Sequence[int], step: int) -> Operand:
        """The operand at an index of the outer axes, with the innermost axis as its stack."""
        offset = sum(i * stride for i, stride in zip(index, self.lead, strict=False))
        return Operand(self.memory, self.start + offset, self.ld, step, self.transposed)


def row_major(memory: Any, shape: Sequence[int], columns: int) -> Stacked:
    """Matrices one after another; leading axes of length 1 repeat."""
    rows_columns = math.prod(shape[-2:])
    strides = []
    for count in reversed(shape[:-2]):
        strides.append(0 if count == 1 else rows_columns)
        rows_columns *= count
    return Stacked(memory, 0, tuple(reversed(strides)), columns)


def launches(
    lead: Sequence[int], operands: Sequence[Stacked], most: int
) -> Iterator[tuple[int, tuple[Operand, ...]]]:
    """Cut a stack into (products, operands) with one step each and at most so many products."""
    shape, strides = _merged(lead, [operand.lead for operand in operands])
    *outer, count = shape
    for index in product(*map(range, outer)):
        all_of_it = tuple(
            replace(operand, lead=tuple(own)).at(index, own[-1])
            for operand, own in zip(operands, strides, strict=True)
        )
        for first in range(0, count, most):
            yield min(most, count - first), tuple(operand.moved(products=first) for operand in all_of_it)


def _merged(lead: Sequence[int], strides: Sequence[tuple[int, ...]]) -> tuple[list[int], list[list[int]]]:
    """Leading axes as few as can be: an axis goes into the next where every operand's strides allow it."""
    shape: list[int] = [1]
    own: list[list[int]] = [[0] for _ in strides]
    for axis in reversed(range(len(lead))):
        if lead[axis] == 1:
            continue
        here = [stride[axis] for stride in strides]
        if shape[0] == 1:
            shape[0] = lead[axis]
            for merged, stride in zip(own, here, strict=True):
                merged[0] = stride
        elif all(stride == merged[0] * shape[0] for merged, stride in zip(own, here, strict=True)):
            shape[0] *= lead[axis]
        else:
            shape.insert(0, lead[axis])
            for merged, stride in zip(own, here, strict=True):
                merged.insert(0, stride)
    return shape, own
