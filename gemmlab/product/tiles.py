"""Compute the tiles of a plan: read ahead, multiply, write, sync, and say so in the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from time import perf_counter
from typing import Any, TypeAlias, cast

import numpy as np

from gemmlab._api.adding import add_product, adds
from gemmlab._backend import FullBackend
from gemmlab._problem import Array, DType
from gemmlab.product.journal import Journal
from gemmlab.product.matrices import Matrix, Range
from gemmlab.product.output import full_disk_in_one_line
from gemmlab.product.plan import Tiling
from gemmlab.product.reader import Reader

Progress: TypeAlias = Callable[[int, int, str], None]  # from the work that is done, all work, and what is done now
Block: TypeAlias = tuple[Range, Range]


@dataclass
class Seconds:
    """Where the time went; reading counts only while nothing was multiplied."""

    read: float = 0.0
    multiply: float = 0.0
    write: float = 0.0


@dataclass(frozen=True)
class Step:
    """One block of k of one tile."""

    tile: int
    rows: Range
    columns: Range
    depth: Range

    @property
    def work(self) -> int:
        """Multiply-adds, at least one, so that a product without any has progress too."""
        return max(1, _length(self.rows) * _length(self.columns) * _length(self.depth))


class Multiplier:
    """Products of blocks by one backend, added up in the space of one tile."""

    def __init__(self, backend: FullBackend, threads: int | None, plan: Tiling, dtype: DType) -> None:
        self.dtype = dtype
        self._options: dict[str, Any] = {"backend": backend.name, "threads": threads}
        self._sums: Array = np.empty(plan.tm * plan.tn, dtype)
        is_added = len(plan.depths) == 1 or adds(backend.name, dtype)
        self._product: Array | None = None if is_added else np.empty_like(self._sums)

    def add(self, a: Array, b: Array, *, is_first: bool) -> Array:
        """The sums of the tile, with the product of these blocks in it."""
        shape = len(a), b.shape[1]
        sums, product = (
            None if space is None else space[: shape[0] * shape[1]].reshape(shape)
            for space in (self._sums, self._product)
        )
        add_product(a, b, sums, is_first=is_first, temporary=product, **self._options)
        return cast("Array", sums)


def compute(
    a: Matrix, b: Matrix, out: Matrix, plan: Tiling, multiplier: Multiplier, journal: Journal, progress: Progress
) -> Seconds:
    """Compute all tiles that the journal does not have; operands are converted to the dtype of the multiplier."""
    steps = [
        Step(number, *tile, depth)
        for number, tile in enumerate(plan.tiles) if number not in journal.whole
        for depth in plan.depths
    ]  # fmt: skip
    seconds, done, total = Seconds(), 0, sum(step.work for step in steps)
    with Reader() as reader:
        blocks = zip(
            steps,
            read_ahead(a, [(step.rows, step.depth) for step in steps], plan.tm * plan.tk, multiplier.dtype, reader),
            read_ahead(b, [(step.depth, step.columns) for step in steps], plan.tk * plan.tn, multiplier.dtype, reader),
            strict=True,
        )
        start = perf_counter()
        for step, of_a, of_b in blocks:
            read = perf_counter()
            sums = multiplier.add(of_a, of_b, is_first=step.depth == plan.depths[0])
            multiplied = perf_counter()
            if step.depth == plan.depths[-1]:
                _keep(step, sums, out, journal, len(plan.tiles))
            done += step.work
            progress(done, total, f"tile {len(journal.whole)} of {len(plan.tiles)}")
            seconds.read += read - start
            seconds.multiply += multiplied - read
            start = perf_counter()
            seconds.write += start - multiplied
    return seconds


def _keep(step: Step, sums: Array, out: Matrix, journal: Journal, tiles: int) -> None:
    """Write a tile. The journal's line follows only when the numbers are on disk."""
    go_on = f"{len(journal.whole)} of {tiles} tiles are kept; make room, and run the same command again"
    with full_disk_in_one_line(out.path, go_on):
        out.write(step.rows, step.columns, sums)
        out.sync(step.rows, step.columns)
        journal.add_tile(step.tile)


def read_ahead(
    matrix: Matrix, blocks: Sequence[Block], size: int, dtype: DType, reader: Reader
) -> Iterator[Array]:
    """Each block in turn. While the caller uses one, the next that differs is read into the other of two buffers."""
    order = [block for block, _ in groupby(blocks)]
    buffers = [np.empty(size, dtype) for _ in order[:2]]

    def start(number: int) -> Callable[[], Array] | None:
        if number >= len(order):
            return None
        return reader.start(partial(matrix.read, *order[number], buffers[number % 2]))

    pending = start(0)
    for number, (_, same) in enumerate(groupby(blocks)):
        assert pending is not None
        block = pending()
        pending = start(number + 1)
        for _ in same:
            yield block


def _length(part: Range) -> int:
    return part[1] - part[0]
