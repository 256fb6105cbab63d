"""The bandwidth of each level of memory: a sweep over working sets, and the plateaus in it.

    sweep       one working set gone through again and again, from 8 KiB to far beyond the last cache
    bandwidth   one memory level: a plateau of the sweep

How large the caches are is asked of the system, which on a virtual machine need not know it, and says nothing of what
other programs leave of a shared one. So it only says how many plateaus there are; where they lie, the data say: the
steps are put where the levels between them are flattest. The points next to a step belong half to each side, and are
left out. With all other samples of a level, its median is the bandwidth, and its band runs from p20 to p80.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmlab._cpu.isa import chosen
from gemmlab._cpu.machine import caches
from gemmlab.measure.statistics import summarise
from gemmlab.roofline.timing import Timing, time_loop

KIB, MIB = 1 << 10, 1 << 20
SMALLEST_WORKING_SET = 8 * KIB
SWEEP_POINTS = 19
LOAD_SHARE_OF_TIME = 0.5
MOST_SHOWN = 3  # points of a level at which copy and triad are measured too

Progress = Callable[[str], None]
Record = dict[str, Any]


@dataclass(frozen=True)
class Point:
    """One working set of one loop, with all its samples."""

    operation: str
    working_set_bytes: int
    threads: int
    timing: Timing

    @property
    def gb_per_s(self) -> list[float]:
        """The speed of each sample, of all threads together."""
        return [self.threads * self.working_set_bytes / s / 1e9 for s in self.timing.samples_s]

    def record(self, gb_per_s: Sequence[float]) -> Record:
        """A ceiling's record at this working set, with the statistics of these speeds."""
        passed = self.threads * self.working_set_bytes
        timed = summarise([passed / speed / 1e9 for speed in gb_per_s])
        return {
            "kind": "ceiling",
            "isa": chosen(),
            "dtype": "float64",
            "threads": self.threads,
            "operation": self.operation,
            "working_set_bytes": self.working_set_bytes,
            "gb_per_s": passed / timed["median_s"] / 1e9,
            "calls_per_sample": self.timing.calls_per_sample,
            **timed,
        }


def measure_bandwidths(threads: int, seconds: float, tell: Progress) -> list[Record]:
    """The sweep with loads, copy and triad on the plateaus, and the levels' own records."""
    known = caches()
    largest = largest_working_set(known, threads)
    levels = [*levels_seen(known, threads, largest), "DRAM"]
    stream = import_module(f"gemmlab.roofline.{chosen()}._stream")
    # A page more for each of the up to three streams, which begin on pages.
    buffer = page_aligned(threads * (largest + 3 * stream.PAGE_BYTES), stream.PAGE_BYTES)
    stream.touch(buffer, threads)

    def measured(operation: str, sizes: Sequence[int], seconds: float) -> list[Point]:
        points = []
        for size in sizes:
            tell(f"{operation}: {size / KIB:.0f} KiB a thread, threads: {threads}")
            points.append(_point(stream, buffer, operation, size, threads, seconds / len(sizes)))
        return points

    loads = measured("load", sweep_sizes(largest), LOAD_SHARE_OF_TIME * seconds)
    plateaus = dict(zip(levels, find_plateaus([np.median(p.gb_per_s) for p in loads], len(levels)), strict=True))
    inside = {level: _some([loads[i].working_set_bytes for i in own]) for level, own in plateaus.items()}
    left_s = (1 - LOAD_SHARE_OF_TIME) * seconds / 2
    shown = [size for sizes in inside.values() for size in sizes]
    others = [point for operation in ("copy", "triad") for point in measured(operation, shown, left_s)]
    sweep = [{**point.record(point.gb_per_s), "ceiling": "sweep"} for point in loads + others]
    for level, own in plateaus.items():
        sweep.append(_level(level, [loads[i] for i in own]))
        for operation in ("copy", "triad"):
            where = [p for p in others if p.operation == operation and _is_near(p.working_set_bytes, inside[level])]
            sweep.append(_level(level, where))
    return sweep


def _point(
    stream: Any, buffer: npt.NDArray[np.int8], operation: str, size: int, threads: int, seconds: float
) -> Point:
    streams = stream.STREAMS[operation]
    stream_bytes = size // (streams * stream.BLOCK_BYTES) * stream.BLOCK_BYTES
    timing = time_loop(partial(stream.run, operation, buffer, stream_bytes), threads, seconds)
    return Point(operation, streams * stream_bytes, threads, timing)


def _level(level: str, points: Sequence[Point]) -> Record:
    """A level's record: the samples of all its points, told at the middle one."""
    speeds = [speed for point in points for speed in point.gb_per_s]
    middle = points[(len(points) - 1) // 2]
    return {**middle.record(speeds), "ceiling": "bandwidth", "level": level}


def _some(sizes: Sequence[int]) -> list[int]:
    """At most `MOST_SHOWN` of these, the first and the last among them."""
    if len(sizes) <= MOST_SHOWN:
        return list(sizes)
    return [sizes[round(i * (len(sizes) - 1) / (MOST_SHOWN - 1))] for i in range(MOST_SHOWN)]


def _is_near(size: int, sizes: Sequence[int]) -> bool:
    """Whether a working set is one of these, as each loop rounds it to its own multiples."""
    return any(0.9 * other < size <= other for other in sizes)


def largest_working_set(cache_bytes: Mapping[str, int], threads: int) -> int:
    """Bytes a thread that surely do not fit in the caches, and that every machine can spare.

    All threads together take four times the last cache, from 256 to 512 MiB. Many threads have several
    last caches, of which one core sees only its own: hence at least 16 MiB a thread.
    """
    together = min(max(256 * MIB, 4 * max(cache_bytes.values(), default=0)), 512 * MIB)
    return max(together // threads // MIB, 16) * MIB


def levels_seen(cache_bytes: Mapping[str, int], threads: int, largest: int) -> list[str]:
    """The caches that make a plateau of their own in a sweep: each is twice the one below, for the share of a thread.

    Threads share L3. Where the system tells no caches, there is one plateau, of the largest sets.
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
    """Part a sweep into `count` plateaus, each as flat as can be, and leave out what is next to a step.

    Flat is measured on logarithms, as the distances of the points to the mean of their plateau, squared and summed
    up; of all ways to part the points the least sum is found by dynamic programming. A plateau has at least two points
    (fewer only where the sweep has not enough). Of one with four or more, the ones next to a step are left out; of
    one with three, the one next to the further level.

    Examples
    --------
    >>> find_plateaus([100, 99, 101, 80, 50, 51, 49, 50, 10, 10], 3)
    [range(0, 3), range(5, 7), range(8, 10)]
    """
    heights, n = np.log(np.asarray(speeds, float)), len(speeds)
    least = 2 if n >= 2 * count else 1
    roughness = {
        (i, j): float(((heights[i:j] - heights[i:j].mean()) ** 2).sum()) for i in range(n) for j in range(i + 1, n + 1)
    }
    best: dict[tuple[int, int], tuple[float, tuple[int, ...]]] = {(0, 0): (0.0, ())}
    for plateau in range(1, count + 1):
        for end in range(plateau * least, n + 1):
            ways = [
                (best[plateau - 1, start][0] + roughness[start, end], (*best[plateau - 1, start][1], start))
                for start in range(end - least + 1) if (plateau - 1, start) in best
            ]  # fmt: skip
            if ways:
                best[plateau, end] = min(ways)
    starts = [*best[count, n][1], n]
    return [_inside(start, end, end == n) for start, end in pairwise(starts)]


def _inside(start: int, end: int, last: bool) -> range:
    """A plateau without the points next to its steps, as far as it has points to spare."""
    first = start == 0
    if end - start >= 4:
        return range(start + (not first), end - (not last))
    return range(start, end - (end - start == 3 and not last))


def page_aligned(count: int, page_bytes: int) -> npt.NDArray[np.int8]:
    """A buffer of so many bytes that begins on a page."""
    raw = np.empty(count + page_bytes, np.int8)
    start = -raw.ctypes.data % page_bytes
    return raw[start : start + count]
