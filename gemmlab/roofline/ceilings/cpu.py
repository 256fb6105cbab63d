"""How fast this machine's CPU can be: its multiply-add rate, and the bandwidth of each level of its memory.

    fma                   for each instruction set, with the extras, dtype and thread count: chains of multiply-adds
    sweep, bandwidth      see `bandwidth.py`

A ceiling is the best that our loop reached: a lower bound of what the hardware can do. So the multiply-add rate is
that of the fastest sample, which was disturbed least; the record has its p20 and p80 too. Where there is time, it is
timed in parts, with other loops between them, so that a disturbance is over before the last part. A bandwidth is that
of the median, because a product streams through memory for long enough to meet the usual disturbance.

One call, in the sense of a record's `median_s`, is one iteration of the multiply-add loop, or one pass through the
working set; all threads do it at the same time.
"""

from __future__ import annotations

from collections import defaultdict
from time import perf_counter

from gemmlab._config import check_threads
from gemmlab._cpu.isa import available_with_extras
from gemmlab._cpu.machine import usable_cpus
from gemmlab._cpu.threads._threads import usable_threads
from gemmlab.measure.noise import summarise
from gemmlab.measure.records import Record
from gemmlab.roofline._fma import Loops
from gemmlab.roofline.ceilings.bandwidth import measure_bandwidths
from gemmlab.roofline.ceilings.timing import time_loop

SCALAR = "scalar"  # multiply-adds of single numbers, by the instruction set in force
CLOCK_ITERATIONS = 50_000  # of sixteen additions: a quarter of a millisecond
CLOCK_READINGS = 8
FMA_SHARE_OF_TIME = 0.25
LATE, MIN_LATE_S = 2.0, 15.0  # times the seconds asked for, and seconds: the machine is busy
FMA_PARTS = 3  # before, between and after the bandwidths of one thread and of all
PART_S = 0.01  # of a loop, at least: its length is found again in each part


def measure_ceilings(*, seconds: float = 12.0, threads: int | None = None, bandwidth: bool = True) -> list[Record]:
    """Measure the ceilings of this machine's CPU, on one thread and on all.

    Parameters
    ----------
    seconds : float
        About how long it may take. Each ceiling has at least 5 samples of a millisecond, so it takes longer than a
        small value: by a few seconds at most, where a pass through memory is slow.
        On a busy machine, where samples take far longer than they should, there are fewer, and from twice this time
        on only what a roofline needs is measured: loads, not copies and triads, and at fewer working sets.
    threads : int, optional
        What "all" means; as many as this process may use if None. A build without OpenMP measures one, and so does a
        child whose parent had started OpenMP threads before the fork.
    bandwidth : bool, optional
        Whether to measure the memory too, or multiply-adds alone.

    Returns
    -------
    list of dict
        Records of kind ``"ceiling"`` (`docs/records.md`), to be completed by `gemmlab.measure.records.complete`. The
        multiply-add loop runs in every instruction set of this CPU, by its instructions for bfloat16 and int8, and with
        single numbers; the bandwidth loops in the one that is used. Working sets are those of one thread.

    Raises
    ------
    ValueError
        For a thread count out of range.
    """
    counts = _thread_counts(threads)
    loops = [MultiplyAdds(isa, dtype) for isa in (SCALAR, *available_with_extras()) for dtype in _dtypes(isa)]
    loop_s = seconds * (FMA_SHARE_OF_TIME if bandwidth else 1) / len(counts) / len(loops)
    parts = max(1, min(FMA_PARTS, int(loop_s / PART_S)))
    end_s = perf_counter() + max(LATE * seconds, MIN_LATE_S)
    memory = []
    for part in range(FMA_PARTS):
        if part == 0 or (part < parts and perf_counter() < end_s):
            for count in counts:
                for loop in loops:
                    loop.time(count, loop_s / parts)
        for count in counts[part : part + 1] if bandwidth else ():
            memory += measure_bandwidths(count, seconds * (1 - FMA_SHARE_OF_TIME) / len(counts), end_s)
    return [loop.record(count) for count in counts for loop in loops] + memory


def _dtypes(isa: str) -> tuple[str, ...]:
    if isa == SCALAR:
        return Loops(None).dtypes(scalar=True)
    try:
        return Loops(isa).dtypes()
    except ImportError:
        if "+" not in isa:
            raise
        return ()  # not every compiler knows the instructions of the extras


def _thread_counts(threads: int | None) -> list[int]:
    maximum = usable_threads(check_threads(threads) or usable_cpus())
    return [1, maximum] if maximum > 1 else [1]


class MultiplyAdds:
    """The loop in one instruction set and dtype, and its samples so far, by the number of threads."""

    def __init__(self, isa: str, dtype: str) -> None:
        self.isa, self.dtype = isa, dtype
        self._scalar = isa == SCALAR
        self._fma = Loops(None if self._scalar else isa)
        self._calls = 1
        self._samples_s: defaultdict[int, list[float]] = defaultdict(list)
        self._clock_ghz: defaultdict[int, float] = defaultdict(float)

    def time(self, threads: int, seconds: float) -> None:
        """Time one more part on so many threads, and the clock right after it."""
        timing = time_loop(self._run, threads, seconds, self._calls)
        self._samples_s[threads] += timing.samples_s
        self._calls = timing.calls_per_sample
        clocks = [self._fma.clock_ghz(threads, CLOCK_ITERATIONS) for _ in range(CLOCK_READINGS)]
        self._clock_ghz[threads] = max(self._clock_ghz[threads], *clocks)

    def record(self, threads: int) -> Record:
        """The record of all parts on so many threads."""
        timed = summarise(self._samples_s[threads])
        flop = threads * self._fma.flops_per_iteration(self.dtype, self._scalar)
        return {
            "kind": "ceiling",
            "ceiling": "fma",
            "isa": self.isa,
            "dtype": self.dtype,
            "threads": threads,
            "gflop_per_s": flop / timed["min_s"] / 1e9,
            "clock_ghz": self._clock_ghz[threads],
            "calls_per_sample": self._calls,
            **timed,
        }

    def _run(self, threads: int, iterations: int) -> float:
        return float(self._fma.run(self.dtype, threads, iterations, self._scalar))
