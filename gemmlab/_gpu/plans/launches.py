"""What one product launches, without the memory of its operands.

A rung says this by `Rung.launches`. A queue compiles the kernels and sets all arguments but the memory
(`Queue.prepared`), and what it hands back is started as often as there are such products.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import numpy as np

from gemmlab._gpu.batches import Layout
from gemmlab._gpu.kernels import kernel_text

MAX_GROUPS = 65535  # CUDA's limit on the y and z dimensions of a grid
ALIGNMENT = 256  # bytes
COPY_GROUP = (32, 8, 1)
CLEAR_GROUP = 256
# What a number is copied as, by its bytes: no kernel may assign a half without cl_khr_fp16.
COPIED_AS = {1: "char", 2: "short", 4: "int", 8: "long", 16: "uint4"}

Groups: TypeAlias = tuple[int, int, int]  # work-groups or work-items, for each dimension


class Place(Enum):
    """An argument of a kernel that is memory: an operand's, or the workspace."""

    A, B, C, WORKSPACE = range(4)


Argument: TypeAlias = Any  # a NumPy scalar of the type that the kernel declares, a `Place`, or memory of a runtime
Side: TypeAlias = tuple[Place, Layout]  # an operand: where its memory comes from, and how it lies there


@dataclass(frozen=True)
class Launch:
    """One kernel: its text and macros, `groups` work-groups of `group` work-items, and its arguments in order.

    `local_bytes` are those of its `LOCAL_ARRAY`, whose size CUDA learns with the launch.
    """

    text: str
    name: str
    macros: Mapping[str, int | str]
    groups: Groups
    group: Groups
    arguments: tuple[Argument, ...]
    local_bytes: int = 0


@dataclass(frozen=True)
class Launches:
    """The kernels of one product, in their order.

    They share a workspace of so many bytes, of which the first `clear_bytes` are zeros before the first kernel.
    """

    kernels: tuple[Launch, ...]
    workspace_bytes: int = 0
    clear_bytes: int = 0

    def __iter__(self) -> Iterator[Launch]:
        """All kernels, with the one that clears the workspace."""
        if self.clear_bytes:
            count = -(-self.clear_bytes // 4)
            groups = -(-count // CLEAR_GROUP), 1, 1
            arguments = np.int64(count), Place.WORKSPACE
            yield Launch(kernel_text("common/clear.cl"), "clear", {}, groups, (CLEAR_GROUP, 1, 1), arguments)
        yield from self.kernels


@dataclass
class Workspace:
    """The memory of one product besides its operands: what it needs lies there one after another."""

    nbytes: int = 0

    def take(self, count: int, itemsize: int) -> int:
        """The first of so many more elements."""
        start = self.nbytes // itemsize
        self.nbytes += -(-count * itemsize // ALIGNMENT) * ALIGNMENT
        return start


def arguments_of(place: Place, x: Layout) -> tuple[Argument, ...]:
    """The arguments of a kernel for an operand: memory, start, ld, batch stride."""
    return place, *map(np.int64, (x.start, x.ld, x.batch_stride))


Strided: TypeAlias = tuple[Place, Layout, int]  # a matrix, and the elements from column to column


def copies(itemsize: int, shape: tuple[int, int, int], source: Strided, target: Strided) -> Iterator[Launch]:
    """Copy a batch of matrices of (batch, rows, columns) on the device."""
    batch, rows, columns = shape
    for i in range(0, rows, MAX_GROUPS * COPY_GROUP[1]):
        count = min(MAX_GROUPS * COPY_GROUP[1], rows - i)
        arguments: list[Argument] = [np.int32(count), np.int32(columns)]
        for place, x, stride in (source, target):
            arguments += [place, *map(np.int64, (x.start + i * x.ld, x.ld, stride, x.batch_stride))]
        groups = -(-columns // COPY_GROUP[0]), -(-count // COPY_GROUP[1]), batch
        yield Launch(
            kernel_text("common/copy.cl"), "copy", {"REAL": COPIED_AS[itemsize]}, groups, COPY_GROUP, tuple(arguments)
        )
