"""What a product of a rung launches: copies of operands where they pay, the rung's kernel, and the sum of parts of k.

The copies and the parts lie in one workspace, one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gemmlab._backend import Params
from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.ladder.numbers import NUMBERS
from gemmlab._gpu.ladder.rungs import MAX_GROUPS, Defines, Rung, kernel_text
from gemmlab._gpu.plans.launches import Argument, Launch, Launches, Place, arguments_of
from gemmlab._gpu.runtime import Queue

COPY_GROUP = (32, 8, 1)
ADD_GROUP = 256
ALIGNMENT = 256  # bytes
COPY_PART = 32  # of the device's memory, for a copy


@dataclass
class Workspace:
    """The memory for one product."""

    nbytes: int = 0

    def take(self, count: int, itemsize: int) -> int:
        """The first of so many more elements."""
        start = self.nbytes // itemsize
        self.nbytes += -(-count * itemsize // ALIGNMENT) * ALIGNMENT
        return start


def launches_of(
    rung: Rung, queue: Queue, params: Params, dtype: str, size: GemmSize, layouts: Sequence[Layout]
) -> Launches:
    """The launches of one product whose operands lie in memory like this."""
    workspace, kernels = Workspace(), []
    sides = list(zip((Place.A, Place.B, Place.C), layouts, strict=True))
    shapes = (size.m, size.k), (size.k, size.n)
    for i, ld in enumerate(rung.to_pack(params, dtype, size, *layouts[:2])):
        (place, x), shape = sides[i], shapes[i]
        rows, columns = shape[::-1] if x.transposed else shape
        count, step = (size.batch, rows * ld) if x.batch_stride else (1, 0)
        if ld and count * rows * ld * NUMBERS[dtype].itemsize <= queue.device.memory_bytes // COPY_PART:
            start = workspace.take(count * rows * ld, NUMBERS[dtype].itemsize)
            sides[i] = Place.WORKSPACE, Layout(start, ld, step, x.transposed, padded=True)
            kernels += copies(queue, dtype, (count, rows, columns), (place, x, 1), (*sides[i], 1))
    parts, elements = rung.parts(params), size.m * size.n
    if parts > 1:
        start = workspace.take(size.batch * parts * elements, NUMBERS[dtype].sum_size)
        sides[2] = Place.WORKSPACE, Layout(start, size.n, elements)
    kernels.append(_gemm(rung, queue, params, dtype, size, sides))
    if parts > 1:
        kernels.append(_sum_of_parts(queue, dtype, size, parts, sides[2][1], layouts[2]))
    return Launches(tuple(kernels), workspace.nbytes)


def _gemm(
    rung: Rung, queue: Queue, params: Params, dtype: str, size: GemmSize, sides: Sequence[tuple[Place, Layout]]
) -> Launch:
    parts = rung.parts(params)
    macros = rung.defines(params, dtype) | rung.layout(params, dtype, size, *(x for _, x in sides))
    columns, rows = rung.block(params)
    groups = -(-size.n // columns), -(-size.m // rows), size.batch * parts
    arguments: list[Argument] = [*map(np.int32, (size.m, size.n, size.k))]
    for place, x in sides:
        arguments += arguments_of(place, x)
    if rung.shares_k:
        arguments.append(np.int32(parts))
    return Launch(queue.kernel(rung.text, "gemm", macros), groups, (*rung.group(params), 1), tuple(arguments))


def _sum_of_parts(queue: Queue, dtype: str, size: GemmSize, parts: int, found: Layout, c: Layout) -> Launch:
    """Add the sums of the parts of k. They lie one matrix after another, those of one product together."""
    numbers = NUMBERS[dtype]
    macros: Defines = {"REAL": numbers.sum_type, "STORED": numbers.c_type, "HALF_C": int(dtype == "float16")}
    kernel = queue.kernel(kernel_text("stored.h") + kernel_text("add_parts.cl"), "add_parts", macros)
    groups = -(-size.m * size.n // ADD_GROUP), 1, size.batch
    extents = map(np.int32, (size.m, size.n, parts))
    arguments = *extents, Place.WORKSPACE, np.int64(found.start), *arguments_of(Place.C, c)
    return Launch(kernel, groups, (ADD_GROUP, 1, 1), arguments)


Side = tuple[Place, Layout, int]  # a matrix, and the elements from column to column


def copies(queue: Queue, dtype: str, shape: tuple[int, int, int], source: Side, target: Side) -> list[Launch]:
    """Copy a batch of matrices on the device."""
    batch, rows, columns = shape
    kernel = queue.kernel(kernel_text("copy.cl"), "copy", {"REAL": NUMBERS[dtype].copied_as})
    found = []
    for i in range(0, rows, MAX_GROUPS * COPY_GROUP[1]):
        count = min(MAX_GROUPS * COPY_GROUP[1], rows - i)
        arguments: list[Argument] = [np.int32(count), np.int32(columns)]
        for place, x, stride in (source, target):
            arguments += [place, *map(np.int64, (x.start + i * x.ld, x.ld, stride, x.batch_stride))]
        groups = -(-columns // COPY_GROUP[0]), -(-count // COPY_GROUP[1]), batch
        found.append(Launch(kernel, groups, COPY_GROUP, tuple(arguments)))
    return found
