"""The sums of a tile that is not finished, in a file beside the output, so that a killed process loses little.

The file holds two copies: while one is overwritten, the journal names the other. A file that is missing or too short
costs the work on one tile, and one that cannot be written is done without.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from types import TracebackType

from gemmlab._files import read_at, sync, write_at
from gemmlab._problem import Array

COPIES = 2
LOST_S, LOST_SHARE = 7.0, 0.035  # of all work: a kill in the next write loses less than the larger of 10 s and 5 %
KEPT_SHARE = 0.2  # of the time since the last write, at most, is spent on writing


class PartialSums:
    """The file, which is made by the first `keep`; a context manager."""

    def __init__(self, path: Path, copy_bytes: int) -> None:
        self._path, self._copy_bytes = path, copy_bytes
        self._descriptor: int | None = None
        self._took_s = 0.0
        self._is_left = False

    def __enter__(self) -> PartialSums:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def is_due(self, since_s: float, step_s: float, all_s: float) -> bool:
        """Whether sums should be kept before the next step.

        `since_s`: seconds since anything was kept; `step_s`: what a step takes; `all_s`: what all work takes.
        """
        may_lose_s = max(LOST_S, LOST_SHARE * all_s)
        is_much = since_s + step_s + self._took_s > may_lose_s
        return is_much and self._took_s <= KEPT_SHARE * since_s and not self._is_left

    def keep(self, copy: int, sums: Array) -> bool:
        """Write the sums, adjacent in memory, over a copy; False if that cannot be. They are on disk then."""
        start = perf_counter()
        try:
            write_at(self._opened(), _bytes_of(sums), copy * self._copy_bytes)
            sync(self._opened())
        except OSError:  # a full disk, which the output may need
            self._is_left = True
            self._path.unlink(missing_ok=True)
            return False
        self._took_s = perf_counter() - start
        return True

    def read(self, copy: int, into: Array) -> bool:
        """Read a copy; False if it is not there."""
        return self._path.is_file() and read_at(self._opened(), _bytes_of(into), copy * self._copy_bytes)

    def _opened(self) -> int:
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        return self._descriptor


def _bytes_of(sums: Array) -> memoryview:
    return sums.reshape(-1).view("u1").data
