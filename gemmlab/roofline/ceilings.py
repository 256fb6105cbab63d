"""How fast this machine can be: its multiply-add rate, and the bandwidth of each level of its memory.

    fma         chains of multiply-adds in registers, for each instruction set, dtype and thread count
    sweep, bandwidth      see `bandwidth.py`

A ceiling is the best that our own loop reached: a lower bound of what the hardware can do. So the
multiply-add rate is taken from the fastest sample, which nothing disturbed; its p20 and p80 stand beside it. A
bandwidth is taken from the median, because a product streams through memory for long enough to meet the usual
disturbance.

One call, in the sense of a record's `median_s`, is one turn of the multiply-add loop, or one pass through
the working set; all threads do it at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from gemmlab._config import check_threads
from gemmlab._cpu import build_info
from gemmlab._cpu.isa import available, chosen
from gemmlab._cpu.machine import usable_cpus
from gemmlab.measure.statistics import summarise
from gemmlab.roofline.bandwidth import measure_bandwidths
from gemmlab.roofline.timing import time_loop

FMA_SHARE_OF_TIME = 0.25
SCALAR = "scalar"  # multiply-adds of single numbers, by the instruction set in force
CLOCK_TURNS = 50_000  # of sixteen additions: a quarter of a millisecond

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
    The multiply-add loop runs in every instruction set that this CPU has, and with single numbers; the bandwidth
    loops in the one in force. Working sets are those of one thread. Bytes are the ones that the program reads and
    writes. The clock is read from a chain of dependent additions right after each multiply-add loop.
    """
    tell = progress or (lambda text: None)
    counts = _thread_counts(threads)
    records = []
    for count in counts:
        records += _multiply_add_rates(count, seconds * (FMA_SHARE_OF_TIME if bandwidth else 1) / len(counts), tell)
    for count in counts if bandwidth else ():
        records += measure_bandwidths(count, seconds * (1 - FMA_SHARE_OF_TIME) / len(counts), tell)
    return records


def multiply_add_rate(dtype: str, threads: int, seconds: float = 0.2) -> float:
    """GFLOP/s of multiply-adds on so many threads, in the instruction set in force: a quick look at one ceiling."""
    return float(_multiply_adds(chosen(), dtype, threads, seconds)["gflop_per_s"])


def _thread_counts(threads: int | None) -> list[int]:
    everyone = check_threads(threads) or usable_cpus()
    return [1, everyone] if everyone > 1 and build_info()["openmp"] else [1]


def _multiply_add_rates(threads: int, seconds: float, tell: Progress) -> list[Record]:
    loops = [(isa, dtype) for isa in (SCALAR, *available()) for dtype in ("float32", "float64")]
    records = []
    for isa, dtype in loops:
        tell(f"multiply-adds: {dtype}, {isa}, threads: {threads}")
        records.append(_multiply_adds(isa, dtype, threads, seconds / len(loops)))
    return records


def _multiply_adds(isa: str, dtype: str, threads: int, seconds: float) -> Record:
    scalar = isa == SCALAR
    fma = import_module(f"gemmlab.roofline.{chosen() if scalar else isa}._fma")
    timing = time_loop(lambda count, turns: fma.run(dtype, count, turns, scalar), threads, seconds)
    flop = threads * fma.flops_per_iteration(dtype, scalar)
    timed = summarise(timing.samples_s)
    return {
        "kind": "ceiling",
        "ceiling": "fma",
        "isa": isa,
        "dtype": dtype,
        "threads": threads,
        "gflop_per_s": flop / timed["min_s"] / 1e9,
        "clock_ghz": max(fma.clock_ghz(threads, CLOCK_TURNS) for _ in range(8)),
        "calls_per_sample": timing.calls_per_sample,
        **timed,
    }
