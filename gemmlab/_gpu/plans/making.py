"""A product on a device as work that is ready but for memory: copies of operands, launches, and a copy of C back.

A matrix whose layout the backend does not take is copied first, and a C that shares memory with an operand is computed
elsewhere. A batch that has no constant stride becomes several launches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmlab._backend import Params
from gemmlab._gpu.batches import BatchedLayout, GemmSize, launches, row_major
from gemmlab._gpu.ladder.numbers import into
from gemmlab._gpu.plans.launches import MAX_GROUPS, Launches, Place, copies
from gemmlab._gpu.plans.table import Prepared
from gemmlab._gpu.runtime import Event, Memory, Native, Queue

if TYPE_CHECKING:
    from gemmlab._gpu.backend import DeviceBackend

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Request:
    """A product on a device: the shape of C as (..., m, n), k, and how the operands lie in memory.

    `dtype` is that of A and B, `result` that of C.
    """

    dtype: np.dtype[Any]
    result: np.dtype[Any]
    shape: Shape
    k: int
    layouts: tuple[BatchedLayout, BatchedLayout, BatchedLayout]
    out_overlaps: bool = False

    @property
    def shapes(self) -> tuple[Shape, Shape, Shape]:
        """The shapes of A, B and C."""
        *lead, m, n = self.shape
        return (*lead, m, self.k), (*lead, self.k, n), self.shape


class Steps:
    """What is prepared, one step after another, each with three of: A, B, C, and the memory for their copies."""

    doing = "multiplying"

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.steps: list[tuple[Prepared, tuple[int, ...]]] = []
        self.temporaries: list[int] = []  # their bytes

    def temporary(self, nbytes: int) -> int:
        """The number of memory that is allocated for each product."""
        self.temporaries.append(nbytes)
        return 2 + len(self.temporaries)

    def start(self, a: Memory, b: Memory, c: Memory, events: list[Event] | None = None) -> Native:
        """Start all; the runtime's event of the last."""
        memories = [a, b, c, *map(self.queue.allocate, self.temporaries)]
        last = None
        for prepared, places in self.steps:
            x, y, z = (memories[i] for i in places)
            last = prepared.start(x, y, z, events)
        return last


def planned(backend: DeviceBackend, queue: Queue, params: Params, request: Request) -> tuple[Prepared, int]:
    """The work, and how many operands it copies."""
    steps = Steps(queue)
    found: list[tuple[int, BatchedLayout]] = []
    back = None
    for i, (x, shape) in enumerate(zip(request.layouts, request.shapes, strict=True)):
        itemsize = (request.dtype if i < 2 else request.result).itemsize
        fits = None if i == 2 and request.out_overlaps else _fitting(backend, queue, x, shape, i < 2)
        if fits is None:
            lead = shape[:-2] if i == 2 else tuple(
                1 if step == 0 else extent for extent, step in zip(shape[:-2], x.batch_strides, strict=True)
            )  # fmt: skip
            distinct = (*lead, *shape[-2:])
            place = steps.temporary(int(np.prod(distinct, dtype=np.int64)) * itemsize)
            fits = row_major(distinct, shape[-1])
            if i < 2:
                _copy(steps, itemsize, distinct, (i, x), (place, fits))
            else:
                back = (place, fits), (2, x)
            found.append((place, fits))
        else:
            found.append((i, fits))
    (m, n), numbers = request.shape[-2:], into(request.dtype.name, request.result.name)
    places = tuple(place for place, _ in found)
    if 0 not in request.shape:
        for batch, layouts in launches(request.shape[:-2], [x for _, x in found], MAX_GROUPS):
            size = GemmSize(m, n, request.k, batch)
            steps.steps.append((backend.prepared(queue, params, numbers, size, layouts), places))
        if back is not None:
            _copy(steps, request.result.itemsize, request.shape, *back)
    if len(steps.steps) == 1 and not steps.temporaries:
        return steps.steps[0][0], 0
    return steps, len(steps.temporaries)


def _fitting(
    backend: DeviceBackend, queue: Queue, x: BatchedLayout, shape: Shape, may_be_transposed: bool
) -> BatchedLayout | None:
    """The matrices as the backend takes them where they are; None if it does not."""
    (rows, columns), row, column = shape[-2:], x.ld, x.column
    for transposed in (False, True) if may_be_transposed and backend.accepts_transposed(queue.device) else (False,):
        if transposed:
            rows, columns, row, column = columns, rows, column, row
        ld = row if rows > 1 else columns
        if (columns <= 1 or column == 1) and backend.accepts_layout(columns, ld):
            return replace(x, ld=ld, column=1, transposed=transposed)
    return None


def _copy(
    steps: Steps, itemsize: int, shape: Shape, source: tuple[int, BatchedLayout], target: tuple[int, BatchedLayout]
) -> None:
    """A step that copies matrices of any strides."""
    if 0 in shape:
        return
    (from_place, outside), (to_place, inside) = source, target
    for batch, (x, y) in launches(shape[:-2], (outside, inside), MAX_GROUPS):
        sides = (Place.A, x, outside.column), (Place.B, y, inside.column)
        copied = Launches(tuple(copies(itemsize, (batch, shape[-2], shape[-1]), *sides)))
        steps.steps.append((steps.queue.prepared(copied), (from_place, to_place, to_place)))
