"""How fast this machine can be: its multiply-add rate, and the bandwidth of each level of its memory.

    fma         chains of multiply-adds in registers, for each instruction set, dtype and thread count
    sweep       one working set gone through again and again, from 8 KiB to far beyond the last cache
    bandwidth   one memory level: the middle one of the sweep's points that lie well inside it

A ceiling is the best that our own loop reached: a lower bound of what the hardware can do. So the
multiply-add rate is taken from the fastest sample, which nothing disturbed. A bandwidth is taken from the
median, because a product streams through memory for long enough to meet the usual disturbance.

One call, in the sense of a record's `median_s`, is one turn of the multiply-add loop, or one pass through
the working set; all threads do it at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from gemmlab._config import check_threads
from gemmlab._cpu import build_info
from gemmlab._cpu.isa import available, chosen
from gemmlab._cpu.machine import caches, usable_cpus
from gemmlab.measure.statistics import summarise

KIB, MIB = 1 << 10, 1 << 20
SMALLEST_WORKING_SET = 8 * KIB
SWEEP_POINTS = 19
MIN_SAMPLES, USUAL_SAMPLES = 5, 20
MIN_SAMPLE_S = 1e-3
FMA_SHARE_OF_TIME = 0.25

Progress = Callable[[str], None]
Record = dict[str, Any]


def measure_ceilings(
    *, seconds: float = 12.0, threads: int | None = None, bandwidth: bool = True, progress: Progress | None = None
) -> list[Record]:
    """Measure the ceilings of this machine's CPU, on one thread and on all.

    Parameters
    ----------
    seconds : float
        About how long it may take. Each ceiling has at least 5 samples of a millisecond, so a small value
        is exceeded: by a few seconds at most, where a pass through memory is slow.
    threads : int, optional
        What "all" means; as many as this process may use if None. A build without OpenMP measures one.
    bandwidth : bool, optional
        Whether to measure the memory too, or multiply-adds alone.
    progress : callable, optional
        Called with a line of text before each loop.

    Returns
    -------
    list of dict
        Records of kind ``"ceiling"`` (`docs/records.md`), still to be completed with what a run adds:
        `gemmlab.measure.records.complete`.

    Raises
    ------
    ValueError
        For a thread count out of range.

    Notes
    -----
    The multiply-add loop runs in every instruction set that this CPU has, the bandwidth loops in the one in
    force. Working sets are those of one thread. Bytes are the ones that the program reads and writes.
    """
    tell = progress or (lambda text: None)
    counts = _thread_counts(threads)
    records = []
    for count in counts:
        records += _multiply_add_rates(count, seconds * (FMA_SHARE_OF_TIME if bandwidth else 1) / len(counts), tell)
    for count in counts if bandwidth else ():
        records += _bandwidths(count, seconds * (1 - FMA_SHARE_OF_TIME) / len(counts), tell)
    return records


def multiply_add_rate(dtype: str, threads: int, seconds: float = 0.2) -> float:
    """GFLOP/s of multiply-adds on so many threads, in the instruction set in force: a quick look at one ceiling."""
    return float(_multiply_adds(chosen(), dtype, threads, seconds)["gflop_per_s"])


def _thread_counts(threads: int | None) -> list[int]:
    everyone = check_threads(threads) or usable_cpus()
    return [1, everyone] if everyone > 1 and build_info()["openmp"] else [1]


def _multiply_add_rates(threads: int, seconds: float, tell: Progress) -> list[Record]:
    loops = [(isa, dtype) for isa in available() for dtype in ("float32", "float64")]
    records = []
    for isa, dtype in loops:
        tell(f"multiply-adds: {dtype}, {isa}, threads: {threads}")
        records.append(_multiply_adds(isa, dtype, threads, seconds / len(loops)))
    return records


def _multiply_adds(isa: str, dtype: str, threads: int, seconds: float) -> Record:
    fma = import_module(f"gemmlab.roofline.{isa}._fma")
    timing = _time(partial(fma.run, dtype), threads, seconds)
    flop = threads * fma.flops_per_iteration(dtype)
    return {
        "kind": "ceiling",
        "ceiling": "fma",
        "isa": isa,
        "dtype": dtype,
        "threads": threads,
        "gflop_per_s": flop / timing["min_s"] / 1e9,
        **timing,
    }


def _bandwidths(threads: int, seconds: float, tell: Progress) -> list[Record]:
    """The sweep with loads, copy and triad inside the levels, and the levels' own records."""
    largest = largest_working_set(caches(), threads)
    windows = level_windows(caches(), threads, largest)
    sizes = sweep_sizes(windows, largest)
    inside = [size for size in sizes if any(low <= size <= high for low, high in windows.values())]
    plan = [("load", size) for size in sizes]
    plan += [(operation, size) for operation in ("copy", "triad") for size in inside]

    stream = import_module(f"gemmlab.roofline.{chosen()}._stream")
    # A page more for each of the up to three streams, which begin on pages.
    buffer = _page_aligned(threads * (largest + 3 * stream.PAGE_BYTES), stream.PAGE_BYTES)
    stream.touch(buffer, threads)

    points = []
    for operation, size in plan:
        tell(f"{operation}: {size / KIB:.0f} KiB a thread, threads: {threads}")
        points.append((size, _bandwidth(stream, buffer, operation, size, threads, seconds / len(plan))))
    sweep = [record for _, record in points]
    levels = [
        {**_middle(found), "ceiling": "bandwidth", "level": level}
        for level, (low, high) in windows.items()
        for operation in stream.STREAMS
        if (found := [r for size, r in points if r["operation"] == operation and low <= size <= high])
    ]
    return sweep + levels


def _bandwidth(
    stream: Any, buffer: npt.NDArray[np.int8], operation: str, size: int, threads: int, seconds: float
) -> Record:
    streams = stream.STREAMS[operation]
    stream_bytes = size // (streams * stream.BLOCK_BYTES) * stream.BLOCK_BYTES
    timing = _time(partial(stream.run, operation, buffer, stream_bytes), threads, seconds)
    return {
        "kind": "ceiling",
        "ceiling": "sweep",
        "isa": chosen(),
        "dtype": "float64",
        "threads": threads,
        "operation": operation,
        "working_set_bytes": streams * stream_bytes,
        "gb_per_s": threads * streams * stream_bytes / timing["median_s"] / 1e9,
        **timing,
    }


def largest_working_set(cache_bytes: Mapping[str, int], threads: int) -> int:
    """Bytes a thread that surely do not fit in the caches, and that every machine can spare.

    All threads together take four times the last cache, from 256 to 512 MiB. Many threads have several
    last caches, of which one core sees only its own: hence at least 16 MiB a thread.
    """
    together = min(max(256 * MIB, 4 * max(cache_bytes.values(), default=0)), 512 * MIB)
    return max(together // threads // MIB, 16) * MIB


def level_windows(
    cache_bytes: Mapping[str, int], threads: int, largest: int
) -> dict[str, tuple[float, float]]:
    """Smallest and largest working set, in bytes a thread, that speak for each memory level.

    A cache speaks between a quarter and three quarters of its size, and from 1.5 times the level below:
    near a border the two levels mix. Threads share L3. DRAM speaks from twice the last cache, and from
    half the largest working set, which is the safer one where a system reports too small a cache.
    """
    windows = {}
    below = 0.0
    for level in ("L1", "L2", "L3"):
        size = cache_bytes.get(level, 0) / (threads if level == "L3" else 1)
        low, high = max(0.25 * size, 1.5 * below), min(0.75 * size, largest)
        if low < high:
            windows[level] = (low, high)
        below = max(below, size)
    windows["DRAM"] = (max(0.5 * largest, min(2 * below, largest)), float(largest))
    return windows


def sweep_sizes(windows: Mapping[str, tuple[float, float]], largest: int) -> list[int]:
    """Working sets at equal ratios up to `largest`, and one in each window that these would miss."""
    sizes = [round(size) for size in np.geomspace(SMALLEST_WORKING_SET, largest, SWEEP_POINTS)]
    for low, high in windows.values():
        if not any(low <= size <= high for size in sizes):
            sizes.append(round(math.sqrt(low * high)))
    return sorted(sizes)


def _middle(records: list[Record]) -> Record:
    """The record with the median bandwidth, the lower one of two: a point that was really measured."""
    return sorted(records, key=lambda record: record["gb_per_s"])[(len(records) - 1) // 2]


def _page_aligned(count: int, page_bytes: int) -> npt.NDArray[np.int8]:
    raw = np.empty(count + page_bytes, np.int8)
    start = -raw.ctypes.data % page_bytes
    return raw[start : start + count]


def _time(run: Callable[[int, int], float], threads: int, seconds: float) -> Record:
    """Time `run(threads, calls)` for about `seconds`, as many calls a sample as the clock needs.

    How many is found on one thread: where the machine has other work to do, waking the others can take
    longer than the loop itself, and would pass for it.
    """
    start = perf_counter()
    sample_s = max(MIN_SAMPLE_S, seconds / USUAL_SAMPLES)
    calls = 1
    while (elapsed := min(run(1, calls) for _ in range(3))) < sample_s:
        calls = math.ceil(calls * min(10.0, max(1.2, sample_s / max(elapsed, 1e-9))))
    warm_up_s = run(threads, calls)
    left_s = seconds - (perf_counter() - start)
    samples = max(MIN_SAMPLES, int(left_s / warm_up_s))
    return {"calls_per_sample": calls, **summarise([run(threads, calls) / calls for _ in range(samples)])}
