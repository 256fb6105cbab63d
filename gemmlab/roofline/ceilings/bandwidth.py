"""The bandwidth of each level of memory: a sweep over working sets, and the plateaus in it.

    sweep       one working set, read again and again; the sizes go from 8 KiB to far beyond the last cache
    bandwidth   one memory level: a plateau of the sweep

The system's cache sizes may be wrong on a virtual machine, and do not say how much of a shared cache other programs
use. So they only give the number of plateaus. Where the plateaus are is found in the data: the steps are where the
levels between them are flattest. Points next to a step belong partly to each side, and are left out. The median of all
other samples of a level is its bandwidth, with p20 and p80.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from time import perf_counter

import numpy as np

from gemmlab._cpu.isa import chosen
from gemmlab._cpu.machine import caches
from gemmlab.measure.noise import summarise
from gemmlab.measure.records import Record
from gemmlab.roofline._stream import BLOCK_BYTES, STREAMS, Streams
from gemmlab.roofline.ceilings.timing import Timing, time_loop

KIB, MIB = 1 << 10, 1 << 20
SMALLEST_WORKING_SET = 8 * KIB
SWEEP_POINTS = 19
LOAD_SHARE_OF_TIME = 0.5
MAX_POINTS = 3  # of a level at which copy and triad are measured too


@dataclass(frozen=True)
class Point:
    """One loop at one working set, with all its samples."""

    operation: str
    working_set_bytes: int
    threads: int
    timing: Timing

    @property
    def gb_per_s(self) -> list[float]:
        """The bandwidth of each sample, all threads together."""
        return [self.threads * self.working_set_bytes / s / 1e9 for s in self.timing.samples_s]

    def record(self, gb_per_s: Sequence[float]) -> Record:
        """A ceiling's record at this working set, with the statistics of these bandwidths."""
        moved = self.threads * self.working_set_bytes
        timed = summarise([moved / rate / 1e9 for rate in gb_per_s])
        return {
            "kind": "ceiling",
            "isa": chosen(),
            "dtype": "float64",
            "threads": self.threads,
            "operation": self.operation,
            "working_set_bytes": self.working_set_bytes,
            "gb_per_s": moved / timed["median_s"] / 1e9,
            "calls_per_sample": self.timing.calls_per_sample,
            **timed,
        }


def measure_bandwidths(threads: int, seconds: float, end_s: float = math.inf) -> list[Record]:
    """Records of the sweep with loads, of copy and triad on its plateaus, and of the memory levels.

    After `end_s` of the clock `perf_counter` a sweep has every second working set, and there is no copy or triad.
    """
    known = caches()
    largest = largest_working_set(known, threads)
    levels = [*levels_seen(known, threads, largest), "DRAM"]
    streams = Streams(largest, threads)

    def measured(operation: str, sizes: Sequence[int], seconds: float) -> list[Point]:
        return [measure_point(streams, operation, size, threads, seconds / len(sizes)) for size in sizes]

    loads = measured("load", sweep_sizes(largest)[:: 1 if perf_counter() < end_s else 2], LOAD_SHARE_OF_TIME * seconds)
    plateaus = dict(zip(levels, find_plateaus([np.median(p.gb_per_s) for p in loads], len(levels)), strict=True))
    inside = {level: _spread_out([loads[i].working_set_bytes for i in own]) for level, own in plateaus.items()}
    left_s = (1 - LOAD_SHARE_OF_TIME) * seconds / 2
    point_s = left_s / sum(map(len, inside.values()))
    others = {
        (operation, level): measured(operation, sizes, point_s * len(sizes))
        for operation in ("copy", "triad") for level, sizes in inside.items() if perf_counter() < end_s
    }  # fmt: skip
    sweep = [{**point.record(point.gb_per_s), "ceiling": "sweep"} for point in chain(loads, *others.values())]
    for level, own in plateaus.items():
        sweep.append(_level(level, [loads[i] for i in own]))
        sweep += [_level(level, points) for (_, where), points in others.items() if where == level]
    return sweep


def measure_point(streams: Streams, operation: str, size: int, threads: int, seconds: float) -> Point:
    """Time one loop over `size` bytes a thread, which `streams` has room for."""
    count = STREAMS[operation]
    stream_bytes = size // (count * BLOCK_BYTES) * BLOCK_BYTES
    timing = time_loop(partial(streams.run, operation, stream_bytes), threads, seconds)
    return Point(operation, count * stream_bytes, threads, timing)


def _level(level: str, points: Sequence[Point]) -> Record:
    """A level's record: the samples of all its points, at the working set of the middle one."""
    rates = [rate for point in points for rate in point.gb_per_s]
    middle = points[(len(points) - 1) // 2]
    return {**middle.record(rates), "ceiling": "bandwidth", "level": level}


def _spread_out(sizes: Sequence[int]) -> list[int]:
    """At most `MAX_POINTS` of these, the first and the last among them."""
    return list(dict.fromkeys(sizes[round(i * (len(sizes) - 1) / (MAX_POINTS - 1))] for i in range(MAX_POINTS)))


def largest_working_set(cache_bytes: Mapping[str, int], threads: int) -> int:
    """Bytes a thread that do not fit in the caches, and that every machine has.

    All threads together take four times the last cache, from 256 to 512 MiB. On many threads there are several last
    caches, of which one core sees only its own: hence at least 16 MiB a thread.
    """
    together = min(max(256 * MIB, 4 * max(cache_bytes.values(), default=0)), 512 * MIB)
    return max(together // threads // MIB, 16) * MIB


def levels_seen(cache_bytes: Mapping[str, int], threads: int, largest: int) -> list[str]:
    """The caches that make a plateau in a sweep: for one thread, each is at least twice as large as the one below.

    Threads share L3. Where the system does not know its caches, there is one plateau, that of DRAM.
    """
    seen, below = [], SMALLEST_WORKING_SET / 2
    for level in ("L1", "L2", "L3"):
        size = cache_bytes.get(level, 0) / (threads if level == "L3" else 1)
        if 2 * below <= size <= largest / 2:
            seen.append(level)
        below = max(below, size)
    return seen


def sweep_sizes(largest: int) -> list[int]:
    """Working sets at equal ratios up to `largest`, of whole blocks of the widest loop."""
    sizes = np.geomspace(SMALLEST_WORKING_SET, largest, SWEEP_POINTS)
    return [round(size / 512) * 512 for size in sizes]


def find_plateaus(speeds: Sequence[float], count: int) -> list[range]:
    """Divide a sweep into `count` plateaus, each as flat as possible, without the points next to a step.

    Dynamic programming finds the division with the smallest sum of squares: of the distances, on logarithms, of the
    points to the mean of their plateau. A plateau has at least two points (one where the sweep has too few). From one
    with four or more, the points next to a step are left out; from one with three, the one next to the outer level.

    Examples
    --------
    >>> find_plateaus([100, 99, 101, 80, 50, 51, 49, 50, 10, 10], 3)
    [range(0, 3), range(5, 7), range(8, 10)]
    """
    heights, n = np.log(np.asarray(speeds, float)), len(speeds)
    shortest = 2 if n >= 2 * count else 1
    squares = {
        (i, j): float(((heights[i:j] - heights[i:j].mean()) ** 2).sum()) for i in range(n) for j in range(i + 1, n + 1)
    }
    best: dict[tuple[int, int], tuple[float, tuple[int, ...]]] = {(0, 0): (0.0, ())}
    for plateau in range(1, count + 1):
        for end in range(plateau * shortest, n + 1):
            divisions = [
                (best[plateau - 1, start][0] + squares[start, end], (*best[plateau - 1, start][1], start))
                for start in range(end - shortest + 1) if (plateau - 1, start) in best
            ]  # fmt: skip
            if divisions:
                best[plateau, end] = min(divisions)
    starts = [*best[count, n][1], n]
    return [_inside(start, end, end == n) for start, end in pairwise(starts)]


def _inside(start: int, end: int, last: bool) -> range:
    """A plateau without the points next to its steps, if it has enough points."""
    first = start == 0
    if end - start >= 4:
        return range(start + (not first), end - (not last))
    return range(start, end - (end - start == 3 and not last))
