"""A fixed piece of work beside every measurement: a short multiply-add loop, on all threads, in a process of its own.

What it does never changes, so when it takes longer the machine has changed: another program is at work, the host has
given the time to another guest, or the clock is lower. A session (`gemmlab.measure.Session`) asks for it before and
after each turn, and records say how fast it was.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gemmlab._cpu.isa import chosen
from gemmlab.measure.process import child_command
from gemmlab.measure.serving import serve

DTYPE = "float32"
PROBE_S = 10e-3
WARM_UP_SHARE = 0.05  # the threads wake up, and the clock rises
COMMAND = child_command("gemmlab.roofline.probe")


class Probe:
    """The loop, and how many turns of it make a probe on this machine."""

    def hello(self, threads: int) -> dict[str, Any]:
        """Find the number of turns, once for the life of this process."""
        self._fma: Any = import_module(f"gemmlab.roofline.{chosen()}._fma")
        self._threads, self._turns = threads, 1000
        while (took_s := self._fma.run(DTYPE, 1, self._turns)) < PROBE_S / 2:
            self._turns *= 2
        self._turns = max(1, round(self._turns * PROBE_S / took_s))
        return {}

    def probe(self) -> dict[str, Any]:
        """GFLOP/s of all threads together."""
        self._fma.run(DTYPE, self._threads, max(1, round(WARM_UP_SHARE * self._turns)))
        seconds = self._fma.run(DTYPE, self._threads, self._turns)
        flop = self._threads * self._turns * self._fma.flops_per_iteration(DTYPE)
        return {"gflop_per_s": flop / seconds / 1e9}


def as_ceiling(gflop_per_s: float, threads: int) -> dict[str, Any]:
    """What to keep of a session in which the probe was as fast as that: a record, still to be completed."""
    loop = {"kind": "ceiling", "ceiling": "probe", "isa": chosen(), "dtype": DTYPE}
    return {**loop, "threads": threads, "gflop_per_s": gflop_per_s}


def main() -> None:
    """Answer commands from standard input."""
    probe = Probe()
    serve({"hello": probe.hello, "probe": probe.probe})
