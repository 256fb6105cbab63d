"""The tile and the number of blocks of k of a task, by a model of memory and of bytes moved. Plain numbers, no Dask.

A task makes a tile of C: it multiplies `rows` blocks of A by `columns` blocks of B, and adds up `ks` blocks of k. The
larger the tile, the fewer bytes enter tasks: A enters once for each column of tiles, B once for each row of them. What
a worker can hold is the limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from gemmlab._tiles import chosen, entering, extents
from gemmlab._words import size as size_in_words
from gemmlab.dask.workers import Workers

PROCESS = 256 << 20  # bytes of a worker before its first task: Python, Dask, our libraries
SHARE = 0.75  # of a worker's memory is used: Dask pauses a worker at 0.8
LEAST_SHARE = 0.3  # of that is for tasks, however much the operands take: Dask writes chunks to disk instead
LAZY_TILE = 256 << 20  # bytes of a chunk of a lazy C at most, unless one block of A and B makes a larger one
TASKS = 4  # for each thread, so that all threads end at about the same time
FLOP = 1e9  # of a task at least, if there are so many: less is done sooner than Dask has started it
STEP = 512  # values of k that one product sums at least, if blocks of k are that small
FINENESS = 1.5  # of the numbers of groups that are tried for each side


@dataclass(frozen=True)
class Side:
    """An operand as the model sees it: chunks along m or n (`outer`) and along k (`inner`).

    `matrices` of them enter all the tasks of one tile of a batch, `block` is the most in one task. What is `stored` is
    read inside the task that needs it, in pieces of `piece` bytes.
    """

    name: str
    outer: tuple[int, ...]
    inner: tuple[int, ...]
    itemsize: int
    matrices: int = 1
    block: int = 1
    stored: bool = False
    piece: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes that enter tasks if each element enters once."""
        return self.matrices * sum(self.outer) * sum(self.inner) * self.itemsize

    def chunk(self, side: int | None = None) -> tuple[int, int]:
        """Rows and columns of the largest chunk, or of one that is cut to `side` each way."""
        outer, inner = (min(max(chunks), side or max(chunks)) for chunks in (self.outer, self.inner))
        return (outer, inner) if self.name == "A" else (inner, outer)


@dataclass(frozen=True)
class Result:
    """C as the model sees it: bytes of an element, and of a sum of products.

    Its `matrices` are in `blocks` of the batch, the largest of which has `block` matrices. `in_place`: products are
    added to the tile without a temporary. `limit`: bytes of a tile at most; None: as many as fit. `piece`: bytes of a
    chunk that a task writes to Zarr.
    """

    itemsize: int
    sums: int
    matrices: int = 1
    blocks: int = 1
    block: int = 1
    in_place: bool = True
    limit: int | None = LAZY_TILE
    piece: int = 0


@dataclass(frozen=True)
class TaskTiling:
    """Blocks of a task along m, n and k, and what the model says of them; sizes in bytes."""

    rows: int
    columns: int
    ks: int
    task: int
    peak: int
    moved: int
    tasks: int


def steps(inner: Sequence[int]) -> list[tuple[int, int]]:
    """Blocks of k (from, to) that a task multiplies at once: one, or as many small ones as give STEP values of k."""
    found, first, extent = [], 0, 0
    for i, chunk in enumerate(inner):
        extent += chunk
        if extent >= STEP or i == len(inner) - 1:
            found.append((first, i + 1))
            first, extent = i + 1, 0
    return found


def best(a: Side, b: Side, c: Result, workers: Workers, k_group: int | None = None) -> TaskTiling:
    """The plan that moves the fewest bytes of those that fit and give every thread some tasks.

    ValueError, with a better chunking, if no task fits into a worker.
    """
    plans = list(_plans(a, b, c, workers, k_group))
    room = usable(workers) // workers.threads
    if min(plan.task for plan in plans) > room:
        raise ValueError(_refusal(a, b, c, workers, min(plans, key=lambda plan: plan.task), k_group))
    held = _held(a, b, workers)
    left = max(usable(workers) - held, int(LEAST_SHARE * usable(workers))) // workers.threads
    smallest = min(plans, key=lambda plan: plan.task)
    worth = 1 + int(2 * c.matrices * sum(a.outer) * sum(b.outer) * sum(a.inner) / FLOP)
    enough = min(TASKS * workers.count * workers.threads, worth)
    found = chosen(
        (plan for plan in plans if plan.task <= left),
        cost=lambda plan: -plan.tasks,
        is_alike=lambda plan, most: plan.tasks >= min(enough, most.tasks),
        key=lambda plan: (plan.moved, plan.task),
    )
    return found or smallest


def usable(workers: Workers) -> int:
    """Bytes of a worker for operands and tasks."""
    return max(int(SHARE * workers.memory) - PROCESS * workers.is_cluster, workers.memory // 4)


def _held(a: Side, b: Side, workers: Workers) -> int:
    """Bytes of operands that each worker holds, on average, if they are chunks that other tasks make."""
    return sum(side.nbytes for side in (a, b) if not side.stored) // workers.count


def _plans(a: Side, b: Side, c: Result, workers: Workers, k_group: int | None) -> Iterator[TaskTiling]:
    by_k = _choices(len(a.inner)) if k_group is None else [min(k_group, len(a.inner))]
    for rows, columns, ks in product(_choices(len(a.outer)), _choices(len(b.outer)), by_k):
        plan = _plan(a, b, c, workers, rows, columns, ks)
        if plan is not None:
            yield plan


def _plan(a: Side, b: Side, c: Result, workers: Workers, rows: int, columns: int, ks: int) -> TaskTiling | None:
    m, n, k = (max(grouped(chunks, per)) for chunks, per in ((a.outer, rows), (b.outer, columns), (a.inner, ks)))
    tile = c.block * m * n * c.sums
    if c.limit is not None and tile > c.limit and rows * columns > 1:
        return None
    tiles_m, tiles_n, parts = (
        -(-len(chunks) // per) for chunks, per in ((a.outer, rows), (b.outer, columns), (a.inner, ks))
    )
    depth = max(sum(a.inner[first:last]) for first, last in steps(a.inner[:ks]))
    task = tile * (1 + (not c.in_place)) + (c.block * m * n * c.itemsize if c.sums != c.itemsize else 0)
    for side, extent, blocks in ((a, m, rows), (b, n, columns)):
        if not side.stored:  # those of other workers are copied here
            task += side.block * extent * k * side.itemsize * (workers.count - 1) // workers.count
        if side.stored or blocks > 1 or depth > max(side.inner):
            task += side.block * extent * depth * side.itemsize
    task += 2 * max(a.piece, b.piece, c.piece)  # a chunk as it is stored, and as it is decoded
    if parts > 1:
        task = max(task, (parts + 1) * tile)
    moved = entering(tiles_m, tiles_n, a.nbytes, b.nbytes)
    if parts > 1:
        moved += parts * c.matrices * sum(a.outer) * sum(b.outer) * c.sums
    tasks = tiles_m * tiles_n * parts * c.blocks
    return TaskTiling(rows, columns, ks, task, PROCESS + _held(a, b, workers) + workers.threads * task, moved, tasks)


def grouped(chunks: Sequence[int], per: int) -> tuple[int, ...]:
    """The extents of groups of `per` chunks; the last may have fewer."""
    return tuple(sum(chunks[first : first + per]) for first in range(0, len(chunks), per))


def _choices(count: int) -> list[int]:
    """Numbers of blocks in a group, of `count` blocks: those that make groups of nearly equal size."""
    return extents(count, 1, count, FINENESS)


def _refusal(a: Side, b: Side, c: Result, workers: Workers, least: TaskTiling, k_group: int | None) -> str:
    room = usable(workers) // workers.threads
    what = f"the smallest task needs {size_in_words(least.task)}, and a thread of a worker has {size_in_words(room)}"
    if k_group is not None and best_k_group(a, b, c, workers, room):
        return f"{what}: leave k_group=None, or pass at most k_group={best_k_group(a, b, c, workers, room)}"
    side = _side_that_fits(a, b, c, room)
    of_batch = " of one matrix" if c.block > 1 else ""
    changes = [
        f"{f'store {x.name} in chunks of' if x.stored else f'rechunk {x.name} to'} {x.chunk(side)}{of_batch}"
        for x in (a, b)
        if x.chunk(side) != x.chunk() or x.block > 1
    ]
    return f"{what}: {' and '.join(changes) or 'give the workers more memory, or fewer threads'}"


def best_k_group(a: Side, b: Side, c: Result, workers: Workers, room: int) -> int:
    """The most blocks of k of one block of A and B that fit into `room` bytes; 0 if not even one does."""
    found = [plan.ks for plan in _plans(a, b, c, workers, None) if plan.task <= room]
    return max(found, default=0)


def _side_that_fits(a: Side, b: Side, c: Result, room: int) -> int:
    """A round number: chunks of so many rows and columns make a task that takes at most half the room."""
    each = 4 * max(a.itemsize, b.itemsize) + 3 * max(c.sums, c.itemsize)
    side = max(1, math.isqrt(room // (2 * each)))
    unit = int(10 ** (len(str(side)) - 1))
    return side // unit * unit
