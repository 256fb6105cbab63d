"""Batches of matrices in device memory, and how a batch is split into launches.

A launch multiplies matrices with one constant stride from each to the next. A batch with several leading axes, such as
one that NumPy has broadcast, may need more than one launch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from gemmlab._gpu.runtime import Memory


@dataclass(frozen=True)
class GemmSize:
    """The size of one launch: a batch of m x n x k products."""

    m: int
    n: int
    k: int
    batch: int


@dataclass(frozen=True)
class Layout:
    """Row-major matrices in device memory, without the memory: all in elements, as the kernels take it.

    Device memory begins at a multiple of 128 bytes, so `start` tells how the operand is aligned. A `transposed` operand
    is column-major: a library may accept it, most rungs do not. The rows of a `padded` one may be read up to `ld`. A
    tile is a part of a streamed operand: its memory is counted, and none is left for copies.
    """

    start: int
    ld: int
    batch_stride: int = 0
    transposed: bool = False
    padded: bool = False
    is_tile: bool = False

    def skip(self, rows: int = 0, batch: int = 0) -> Layout:
        """Without the first rows and the first matrices."""
        if not rows and not batch:
            return self
        start = self.start + rows * (1 if self.transposed else self.ld) + batch * self.batch_stride
        return replace(self, start=start)


@dataclass(frozen=True)
class Operand:
    """Matrices in device memory: a `Layout` and its memory."""

    memory: Memory
    start: int
    ld: int
    batch_stride: int = 0
    transposed: bool = False
    padded: bool = False
    is_tile: bool = False

    @property
    def layout(self) -> Layout:
        """All but the memory."""
        return Layout(self.start, self.ld, self.batch_stride, self.transposed, self.padded, self.is_tile)


@dataclass(frozen=True)
class BatchedLayout:
    """Matrices with any number of leading axes, in elements. `column` is the step from a column to the next."""

    start: int
    batch_strides: tuple[int, ...]
    ld: int
    column: int = 1
    transposed: bool = False

    def at(self, index: Sequence[int], batch_stride: int) -> Layout:
        """The layout at an index of the outer axes; the innermost leading axis becomes its batch."""
        offset = sum(i * stride for i, stride in zip(index, self.batch_strides, strict=False))
        return Layout(self.start + offset, self.ld, batch_stride, self.transposed)


def row_major(shape: Sequence[int], columns: int) -> BatchedLayout:
    """Matrices stored one after another; leading axes of length 1 repeat (stride 0)."""
    elements = math.prod(shape[-2:])
    strides = []
    for count in reversed(shape[:-2]):
        strides.append(0 if count == 1 else elements)
        elements *= count
    return BatchedLayout(0, tuple(reversed(strides)), columns)


def launches(
    batch_shape: Sequence[int], operands: Sequence[BatchedLayout], max_batch: int
) -> Iterator[tuple[int, tuple[Layout, ...]]]:
    """Split a batch into (batch size, operands), with one batch stride each and at most `max_batch` products."""
    shape, strides = _merged_axes(batch_shape, [operand.batch_strides for operand in operands])
    *outer, count = shape
    for index in product(*map(range, outer)):
        whole = tuple(
            replace(operand, batch_strides=tuple(merged)).at(index, merged[-1])
            for operand, merged in zip(operands, strides, strict=True)
        )
        for first in range(0, count, max_batch):
            yield min(max_batch, count - first), tuple(operand.skip(batch=first) for operand in whole)


def _merged_axes(shape: Sequence[int], strides: Sequence[tuple[int, ...]]) -> tuple[list[int], list[list[int]]]:
    """As few leading axes as possible: an axis is merged into the next one if the strides of every operand allow it."""
    merged_shape: list[int] = [1]
    merged_strides: list[list[int]] = [[0] for _ in strides]
    for axis in reversed(range(len(shape))):
        if shape[axis] == 1:
            continue
        here = [of_operand[axis] for of_operand in strides]
        if merged_shape[0] == 1:
            merged_shape[0] = shape[axis]
            for merged, stride in zip(merged_strides, here, strict=True):
                merged[0] = stride
        elif all(stride == merged[0] * merged_shape[0] for merged, stride in zip(merged_strides, here, strict=True)):
            merged_shape[0] *= shape[axis]
        else:
            merged_shape.insert(0, shape[axis])
            for merged, stride in zip(merged_strides, here, strict=True):
                merged.insert(0, stride)
    return merged_shape, merged_strides
