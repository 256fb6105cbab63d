"""How fast this machine can be: its multiply-add rate, and the bandwidth of each level of its memory.

    fma                   for each instruction set, dtype and thread count: see `multiply_adds.py`
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
from typing import Any

from gemmlab._config import check_threads
from gemmlab._cpu import build_info
from gemmlab._cpu.isa import available
from gemmlab._cpu.machine import usable_cpus
from gemmlab.roofline.bandwidth import measure_bandwidths
from gemmlab.roofline.multiply_adds import SCALAR, MultiplyAdds

FMA_SHARE_OF_TIME = 0.25
PARTS = 3  # of the multiply-adds' time: before, between and after the bandwidths of one thread and of all

Progress = Callable[[str], None]
Record = dict[str, Any]


def measure_ceilings(
    *, seconds: float = 12.0, threads: int | None = None, bandwidth: bool = True, progress: Progress | None = None
) -> list[Record]:
    """Measure the ceilings of this machine's CPU, on one thread and on all.

    Parameters
    ----------
    seconds : float
        About how long it may take. Each ceiling has at least 5 samples of a millisecond, and multiply-adds
        three times as many, so a small value is exceeded: by a few seconds at most, where a pass through memory
        is slow.
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
    loops = [
        MultiplyAdds(isa, dtype, count)
        for count in counts for isa in (SCALAR, *available()) for dtype in ("float32", "float64")
    ]  # fmt: skip
    part_s = seconds * (FMA_SHARE_OF_TIME if bandwidth else 1) / PARTS / len(loops)
    memory = []
    for part in range(PARTS):
        for loop in loops:
            tell(f"multiply-adds: {loop.dtype}, {loop.isa}, threads: {loop.threads}")
            loop.time(part_s)
        for count in counts[part : part + 1] if bandwidth else ():
            memory += measure_bandwidths(count, seconds * (1 - FMA_SHARE_OF_TIME) / len(counts), tell)
    return [loop.record() for loop in loops] + memory


def _thread_counts(threads: int | None) -> list[int]:
    everyone = check_threads(threads) or usable_cpus()
    return [1, everyone] if everyone > 1 and build_info()["openmp"] else [1]
