"""A user's array on a device, as a product needs it: where its memory is, and how it lies there. No copy is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gemmlab._gpu.batches import BatchedLayout
from gemmlab._gpu.runtime import DeviceArray, Memory, Queue


@dataclass(frozen=True)
class DeviceOperand:
    """An array on a device, or a view of it with its axes in another order.

    Attributes
    ----------
    array : array or None
        The user's array; None for a result that is not allocated yet.
    memory, start_bytes
        The memory that a kernel is given, and where in it the array begins.
    region : (int, int) or None
        What tells whether two arrays share memory: a number for the allocation, and where in it the array begins.
    shape, strides, dtype
        As of NumPy's arrays; `strides` are in bytes.
    """

    array: DeviceArray
    queue: Queue
    memory: Memory
    start_bytes: int
    region: tuple[int, int] | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def bounds(self) -> tuple[int, int]:
        """The lowest byte and the byte after the highest one, from the first element on."""
        if 0 in self.shape:
            return 0, 0
        reach = [(extent - 1) * step for extent, step in zip(self.shape, self.strides, strict=True)]
        return sum(min(0, x) for x in reach), sum(max(0, x) for x in reach) + self.dtype.itemsize

    def can_be_written(self, *operands: DeviceOperand) -> bool:
        """Whether a kernel may write into it: its elements share no memory with each other, nor with the operands."""
        low, high = self.bounds()
        size = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        return high - low >= size and not any(self.overlaps(x) for x in operands)

    def overlaps(self, other: DeviceOperand) -> bool:
        """Whether the two may share bytes."""
        if self.region is None or other.region is None or self.region[0] != other.region[0]:
            return False
        return share_bytes(self.region[1], self.bounds(), other.region[1], other.bounds())

    def transpose(self, order: Sequence[int]) -> DeviceOperand:
        """Its axes in another order."""
        return replace(
            self, shape=tuple(self.shape[i] for i in order), strides=tuple(self.strides[i] for i in order)
        )  # fmt: skip

    def __getitem__(self, index: tuple[Any, ...]) -> DeviceOperand:
        """With new axes: an index of NumPy with None, full slices and an ellipsis alone."""
        missing = self.ndim - sum(isinstance(entry, slice) for entry in index)
        axes = iter(zip(self.shape, self.strides, strict=True))
        found: list[tuple[int, int]] = []
        for entry in index if Ellipsis in index else (*index, Ellipsis):
            if entry is None:
                found.append((1, 0))
            else:
                found += [next(axes) for _ in range(missing if entry is Ellipsis else 1)]
        return replace(self, shape=tuple(x for x, _ in found), strides=tuple(step for _, step in found))

    def broadcast_to(self, shape: tuple[int, ...]) -> DeviceOperand:
        """Repeated along axes that it lacks or that have length 1."""
        new = len(shape) - self.ndim
        steps = (
            step if extent == wanted else 0
            for extent, step, wanted in zip(self.shape, self.strides, shape[new:], strict=True)
        )
        return replace(self, shape=tuple(shape), strides=(*(0,) * new, *steps))

    @property
    def layout(self) -> BatchedLayout:
        """Its matrices as the kernels take them, in elements."""
        *lead, row, column = (step // self.dtype.itemsize for step in self.strides)
        repeated = (0 if extent == 1 else step for extent, step in zip(self.shape, lead, strict=False))
        return BatchedLayout(self.start_bytes // self.dtype.itemsize, tuple(repeated), row, column)


def share_bytes(begin: int, bounds: tuple[int, int], other_begin: int, other_bounds: tuple[int, int]) -> bool:
    """Whether two arrays that begin at these bytes of one memory may share bytes; each has its `bounds()`."""
    return begin + bounds[0] < other_begin + other_bounds[1] and other_begin + other_bounds[0] < begin + bounds[1]


def new_operand(like: DeviceOperand, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DeviceOperand:
    """A row-major array of this shape on the device of another, before it is allocated."""
    steps, step = [], dtype.itemsize
    for extent in reversed(shape):
        steps.append(step)
        step *= extent
    return DeviceOperand(None, like.queue, None, 0, None, tuple(shape), tuple(reversed(steps)), dtype)
