"""How long backends take, as lines over the rows of C, measured on slices of the product at hand.

Two slices of different height give a line. It is kept for all products of the same dtype and about the same shape, as
long as the process lives; both its parts are taken to be proportional to the work of a row.

A slice of a product that a device streams says little: its transfers take longer than its work, and hide it. The model
of streaming knows both, so its predictions for half and for all rows give the line.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from gemmlab._backend import FullBackend
from gemmlab._problem import Problem
from gemmlab.scale.blocks import along, axis_to_cut
from gemmlab.scale.lines import Line, through
from gemmlab.scale.parts import part_of

if TYPE_CHECKING:
    from gemmlab._gpu.runtime import Device

FEW, MANY = 32, 8  # slices are these parts of a product
MAX_ROWS = 2048  # of the larger slice: enough to keep a device busy
REPEATS = 2  # of each slice, the faster counts
SMALL_FLOP = 2 * 512**3  # takes milliseconds: slices of it show noise, and what a split costs is more than it gains

Key = tuple[object, ...]


def axis_of(problem: Problem, workers: int) -> int:
    """The axis of C to share: a batch that gives every worker several matrices, else the rows."""
    return axis_to_cut(problem.out.shape, FEW * workers)


def is_small(problem: Problem) -> bool:
    """Whether a product is too small to be split."""
    flop: int = 2 * problem.batch * problem.m * problem.n * problem.k
    return flop < SMALL_FLOP


def key_of(problem: Problem, workers: int) -> Key:
    """What products have in common that share their lines: dtype, and about the same shape."""
    axis = axis_of(problem, workers)
    sizes = problem.out.shape[axis], problem.m, problem.n, problem.k
    rows = axis == problem.out.ndim - 2
    return (problem.dtype.name, is_small(problem), rows, *(round(log2(max(1, x))) for x in sizes))


def work_of_row(problem: Problem, workers: int) -> float:
    """Multiply-adds of one row, or of whatever else is shared."""
    work: int = problem.batch * problem.m * problem.n * problem.k
    return work / int(problem.out.shape[axis_of(problem, workers)])


def seconds_of(worker: FullBackend, problem: Problem) -> float:
    """Run a product, and return its seconds."""
    start = perf_counter()
    handle = worker.gemm(problem)
    if handle is not None:
        handle.wait()
    return perf_counter() - start


def measured_line(worker: FullBackend, problem: Problem, axis: int) -> Line:
    """The line of a backend; the first call, which may build kernels, does not count. A small product is one point."""
    extent = problem.out.shape[axis]
    if (line := _line_of_streaming(worker, problem, axis, extent)) is not None:
        return line
    many = extent if is_small(problem) else max(1, min(MAX_ROWS, extent // MANY))
    few = extent if is_small(problem) else max(1, many * MANY // FEW)
    parts = [_slice(problem, axis, rows) for rows in (few, many)]
    seconds_of(worker, parts[0])
    times = [min(seconds_of(worker, part) for _ in range(REPEATS)) for part in parts]
    return through((few, times[0]), (many, times[1]))


def _line_of_streaming(worker: FullBackend, problem: Problem, axis: int, extent: int) -> Line | None:
    """The line that the model of streaming gives; None if the product, or half of it, is not streamed."""
    if is_small(problem) or extent < 2:
        return None
    half, whole = (worker.predicted_s(_slice(problem, axis, rows)) for rows in (extent // 2, extent))
    return None if half is None or whole is None else through((extent // 2, half), (extent, whole))


def _slice(problem: Problem, axis: int, rows: int) -> Problem:
    """The first rows of a product, with a separate result."""
    (block,) = along(axis, problem.out.ndim, [rows])
    part = part_of(problem, block)
    return Problem(part.a, part.b, np.empty(part.out.shape, part.dtype), threads=part.threads)


def device_of(worker: FullBackend) -> Device | None:
    """The device of a backend, the first of several; None for a backend of the host."""
    device: Device | None = worker.device
    return device


class Rates:
    """The lines of some backends, measured when they are first asked for.

    Lines of the host's backends belong to a number of threads; devices do not heed it.
    """

    def __init__(self, workers: Sequence[FullBackend]) -> None:
        self.workers = workers
        self._known: dict[Key, tuple[float, tuple[Line, ...]]] = {}  # with the work of a row that they are for

    def lines(self, problem: Problem) -> tuple[Line, ...]:
        """A line for each backend."""
        count = len(self.workers)
        on_host = any(device_of(worker) is None for worker in self.workers)
        key, work = (*key_of(problem, count), problem.threads if on_host else None), work_of_row(problem, count)
        if key not in self._known:
            axis = axis_of(problem, count)
            self._known[key] = work, tuple(measured_line(worker, problem, axis) for worker in self.workers)
        known_work, lines = self._known[key]
        return tuple(line.times(work / known_work) for line in lines)
