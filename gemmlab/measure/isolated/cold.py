"""Empties the caches of a CPU between two timed calls, by reading more than they hold on every CPU."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np

from gemmlab._cpu import machine

TIMES = 2  # the largest cache: one pass is then enough for any usual replacement
_LEAST_BYTES = 16 << 20  # where the system does not say how large its caches are


class CacheFlush:
    """Calling it replaces what is in the caches of `cpus`, the private ones and the shared one."""

    def __init__(self, cpus: Sequence[int]) -> None:
        largest = max(filter(None, machine.caches().values()), default=0)
        self._numbers = np.ones(max(TIMES * largest, _LEAST_BYTES) // 8)
        self._cpus: list[int | None] = [*cpus] or [None]
        self._threads = ThreadPoolExecutor(len(self._cpus))

    def __call__(self) -> None:
        """Read the whole buffer on each CPU, on all of them at once."""
        list(self._threads.map(self._read, self._cpus))

    def _read(self, cpu: int | None) -> None:
        if cpu is not None and hasattr(os, "sched_setaffinity"):
            with suppress(OSError):
                os.sched_setaffinity(0, {cpu})  # of this thread
        self._numbers.max()
