"""The multiply-add rate of one instruction set, from chains of them in registers.

It is timed in parts, with others between them: a machine that is disturbed for a while is not disturbed in all of them,
and the fastest sample of any part is the rate.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gemmlab._cpu.isa import chosen
from gemmlab.measure.statistics import summarise
from gemmlab.roofline.timing import time_loop

SCALAR = "scalar"  # multiply-adds of single numbers, by the instruction set in force
CLOCK_TURNS = 50_000  # of sixteen additions: a quarter of a millisecond
CLOCK_READINGS = 8


class MultiplyAdds:
    """The loop in one instruction set and dtype, on so many threads, and the samples that it has had."""

    def __init__(self, isa: str, dtype: str, threads: int) -> None:
        self.isa, self.dtype, self.threads = isa, dtype, threads
        self._scalar = isa == SCALAR
        self._fma: Any = import_module(f"gemmlab.roofline.{chosen() if self._scalar else isa}._fma")
        self._samples_s: list[float] = []
        self._calls = 1
        self._clock_ghz = 0.0

    def time(self, seconds: float) -> None:
        """One more part, and the clock right after it."""
        timing = time_loop(self._run, self.threads, seconds, self._calls)
        self._samples_s += timing.samples_s
        self._calls = timing.calls_per_sample
        clocks = [self._fma.clock_ghz(self.threads, CLOCK_TURNS) for _ in range(CLOCK_READINGS)]
        self._clock_ghz = max(self._clock_ghz, *clocks)

    def record(self) -> dict[str, Any]:
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

    def _run(self, threads: int, turns: int) -> float:
        return float(self._fma.run(self.dtype, threads, turns, self._scalar))
