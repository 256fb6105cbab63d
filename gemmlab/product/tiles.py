"""Compute the tiles of a plan, step by step: read ahead, multiply, write, sync, and say so in the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, product
from operator import itemgetter
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from gemmlab._api.adding import add_product, adds
from gemmlab._backend import FullBackend
from gemmlab._problem import Array, DType
from gemmlab.product.journal import Journal, Part
from gemmlab.product.matrices import Matrix, Range
from gemmlab.product.output import full_disk_in_one_line
from gemmlab.product.plan import Tiling
from gemmlab.product.reader import Reader
from gemmlab.product.sums import COPIES, PartialSums

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
    """A band of a tile, for one block of k: the `number`th step of the tile, of so many."""

    tile: int
    rows: Range  # of the tile
    columns: Range
    depth: Range
    band: Block  # of its rows and columns, those of this step
    number: int
    of: int

    @property
    def work(self) -> int:
        """Multiply-adds."""
        rows, columns = self.band
        return _length(rows) * _length(columns) * _length(self.depth)

    @property
    def is_last(self) -> bool:
        """Whether the tile is whole after it."""
        return self.number + 1 == self.of


def all_steps(plan: Tiling) -> Iterator[Step]:
    """The steps of all tiles."""
    for tile, (rows, columns) in enumerate(plan.tiles):
        parts = list(product(plan.depths, plan.bands(_length(rows), _length(columns))))
        for number, (depth, (band_rows, band_columns)) in enumerate(parts):
            band = _moved(band_rows, rows[0]), _moved(band_columns, columns[0])
            yield Step(tile, rows, columns, depth, band, number, len(parts))


class Multiplier:
    """Products of blocks by one backend, added up in the space of one tile.

    `whole_k`: k of the whole product, for a backend whose sums depend on where k is cut; else 0.
    """

    def __init__(
        self, backend: FullBackend, threads: int | None, plan: Tiling, dtypes: tuple[DType, DType], whole_k: int
    ) -> None:
        self.dtype, sums = dtypes
        self._options: dict[str, Any] = {"backend": backend.name, "threads": threads, "whole_k": whole_k}
        self._first = plan.depths[0]
        self._space: Array = np.empty(plan.tm * plan.tn, sums)
        is_added = len(plan.depths) == 1 or whole_k or adds(backend.name, sums)
        self._product: Array | None = None if is_added else np.empty_like(self._space)

    def sums(self, step: Step) -> Array:
        """The sums of the tile."""
        return _in_shape(self._space, _length(step.rows), _length(step.columns))

    def add(self, step: Step, a: Array, b: Array) -> None:
        """Add the product of panels of A and of B to the sums of the tile."""
        rows, columns = _moved(step.band[0], -step.rows[0]), _moved(step.band[1], -step.columns[0])
        sums, is_first = self.sums(step)[slice(*rows), slice(*columns)], step.depth == self._first
        temporary = None if self._product is None else _in_shape(self._product, *sums.shape)
        add_product(a, b, sums, is_first=is_first, temporary=temporary, **self._options)


def left(plan: Tiling, journal: Journal, kept: PartialSums, multiplier: Multiplier) -> list[Step]:
    """The steps that are left. What an earlier run had kept of a tile is read into the multiplier's sums."""
    steps = [step for step in all_steps(plan) if step.tile not in journal.whole]
    if (part := journal.part) is None:
        return steps
    of_tile = [step for step in steps if step.tile == part.tile]
    if not (of_tile and 0 < part.steps < len(of_tile) and 0 <= part.copy < COPIES):
        raise journal.cannot_resume("its journal has a part of a tile that its plan has not")
    if steps[0].tile != part.tile or not kept.read(part.copy, multiplier.sums(of_tile[0])):
        return steps
    return steps[part.steps :]


def compute(
    a: Matrix, b: Matrix, out: Matrix, plan: Tiling, multiplier: Multiplier, journal: Journal, kept: PartialSums,
    steps: Sequence[Step], progress: Progress,
) -> Seconds:  # fmt: skip
    """Do the steps that are left; operands are converted to the dtype of the multiplier."""
    seconds, done, total = Seconds(), 0, sum(step.work for step in steps)
    all_work = plan.m * plan.n * plan.k
    with Reader() as reader:
        of_a = [((step.rows, step.depth), (step.band[0], step.depth)) for step in steps]
        of_b = [((step.depth, step.columns), (step.depth, step.band[1])) for step in steps]
        panels = zip(
            steps,
            read_ahead(a, of_a, plan.tm * plan.tk, multiplier.dtype, reader),
            read_ahead(b, of_b, plan.tk * plan.tn, multiplier.dtype, reader),
            strict=True,
        )
        begun = last_kept = start = perf_counter()
        for step, panel_of_a, panel_of_b in panels:
            read = perf_counter()
            multiplier.add(step, panel_of_a, panel_of_b)
            multiplied = perf_counter()
            done += step.work
            all_s = (multiplied - begun) * all_work / max(1, done)
            if step.is_last:
                _keep(step, multiplier.sums(step), out, journal, len(plan.tiles))
                last_kept = perf_counter()
            elif kept.is_due(multiplied - last_kept, multiplied - start, all_s):
                _keep_part(step, multiplier.sums(step), kept, out.path, journal, len(plan.tiles))
                last_kept = perf_counter()
            progress(done if total else 1, total or 1, f"tile {len(journal.whole)} of {len(plan.tiles)}")
            seconds.read += read - start
            seconds.multiply += multiplied - read
            start = perf_counter()
            seconds.write += start - multiplied
    return seconds


def _keep(step: Step, sums: Array, out: Matrix, journal: Journal, tiles: int) -> None:
    """Write a tile. The journal's line follows only when the numbers are on disk."""
    with full_disk_in_one_line(out.path, _go_on(journal, tiles)):
        out.write(step.rows, step.columns, sums)
        out.sync(step.rows, step.columns)
        journal.add_tile(step.tile)


def _keep_part(step: Step, sums: Array, kept: PartialSums, path: Path, journal: Journal, tiles: int) -> None:
    """The same for a tile that is not whole, in the file of partial sums."""
    with full_disk_in_one_line(path, _go_on(journal, tiles)):
        copy = (journal.part.copy + 1) % COPIES if journal.part else 0
        if kept.keep(copy, sums):
            journal.add_part(Part(step.tile, step.number + 1, copy))


def _go_on(journal: Journal, tiles: int) -> str:
    return f"{len(journal.whole)} of {tiles} tiles are kept; make room, and run the same command again"


def read_ahead(
    matrix: Matrix, panels: Sequence[tuple[Block, Block]], size: int, dtype: DType, reader: Reader
) -> Iterator[Array]:
    """The panel of each step in turn, each a part of a block of `size` numbers.

    The panels of a block are read in the order of their first use. Once the first is there, those of the next block
    that differs follow, into the other of two buffers.
    """
    blocks = [[panel for _, panel in same] for _, same in groupby(panels, key=itemgetter(0))]
    buffers = [np.empty(size, dtype) for _ in blocks[:2]]

    def start(number: int) -> dict[Block, Callable[[], Array]]:
        begun: dict[Block, Callable[[], Array]] = {}
        if number == len(blocks):
            return begun
        free = buffers[number % 2]
        for rows, columns in dict.fromkeys(blocks[number]):
            begun[rows, columns] = reader.start(partial(matrix.read, rows, columns, free))
            free = free[_length(rows) * _length(columns) :]
        return begun

    def in_turn(begun: dict[Block, Callable[[], Array]]) -> Iterator[Array]:
        for number, steps in enumerate(blocks):
            there: dict[Block, Array] = {}
            following = None
            for panel in steps:
                if panel not in there:
                    there[panel] = begun[panel]()
                following = following or start(number + 1)
                yield there[panel]
            begun = following or {}

    return in_turn(start(0))  # before the other operand's second block


def _length(part: Range) -> int:
    return part[1] - part[0]


def _moved(part: Range, by: int) -> Range:
    return part[0] + by, part[1] + by


def _in_shape(space: Array, rows: int, columns: int) -> Array:
    """So many numbers of it, from its beginning."""
    return space[: rows * columns].reshape(rows, columns)
