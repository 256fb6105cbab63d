"""The multiply-add rate of one instruction set, from chains of them in registers.

It is timed in parts, with other loops between them, so that a disturbance is over before the last part. The fastest
sample of any part gives the rate.
"""

from __future__ import annotations

from importlib import import_module

from gemmlab._cpu.isa import chosen
from gemmlab.measure.noise import summarise
from gemmlab.measure.records import Record
from gemmlab.roofline.ceilings.timing import time_loop

SCALAR = "scalar"  # multiply-adds of single numbers, by the instruction set in force
CLOCK_ITERATIONS = 50_000  # of sixteen additions: a quarter of a millisecond
CLOCK_READINGS = 8


class MultiplyAdds:
    """The loop in one instruction set and dtype, on a number of threads, and its samples so far."""

    def __init__(self, isa: str, dtype: str, threads: int) -> None:
        self.isa, self.dtype, self.threads = isa, dtype, threads
        self._scalar = isa == SCALAR
        self._fma = import_module(f"gemmlab.roofline.{chosen() if self._scalar else isa}._fma")
        self._samples_s: list[float] = []
        self._calls = 1
        self._clock_ghz = 0.0

    def time(self, seconds: float) -> None:
        """Time one more part, and the clock right after it."""
        timing = time_loop(self._run, self.threads, seconds, self._calls)
        self._samples_s += timing.samples_s
        self._calls = timing.calls_per_sample
        clocks = [self._fma.clock_ghz(self.threads, CLOCK_ITERATIONS) for _ in range(CLOCK_READINGS)]
        self._clock_ghz = max(self._clock_ghz, *clocks)

    def record(self) -> Record:
        """The record of all parts so far."""
        timed = summarise(self._samples_s)
        flop = self.threads * self._fma.flops_per_iteration(self.dtype, self._scalar)
        return {
            "kind": "ceiling",
            "ceiling": "fma",
            "isa": self.isa,
            "dtype": self.dtype,
            "threads": self.threads,
            "gflop_per_s": flop / timed["min_s"] / 1e9,
            "clock_ghz": self._clock_ghz,
            "calls_per_sample": self._calls,
            **timed,
        }

    def _run(self, threads: int, iterations: int) -> float:
        return float(self._fma.run(self.dtype, threads, iterations, self._scalar))
