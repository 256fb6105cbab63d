"""A fixed piece of work between measurements: a short multiply-add loop, on all threads, in an isolated process.

The work never changes, so where it takes longer the machine was slower: its clock was lower, or another program ran. A
session (`gemmlab.measure.Session`) asks for it before and after each round, and records say how fast it was.
"""

from __future__ import annotations

from gemmlab._process.child_server import serve_timed
from gemmlab._process.children import Answer, child_command
from gemmlab.roofline._fma import Loops

DTYPE = "float32"
PROBE_S = 10e-3
WARM_UP_SHARE = 0.05  # the threads wake up, and the clock rises
COMMAND = child_command("gemmlab.roofline.ceilings.probe_loop")


class Probe:
    """The loop, and how many iterations of it make a probe on this machine."""

    def hello(self, threads: int) -> Answer:
        """Find the number of iterations, once for the life of this process."""
        self._fma = Loops()
        self._threads, self._iterations = threads, 1000
        while (took_s := self._fma.run(DTYPE, 1, self._iterations)) < PROBE_S / 2:
            self._iterations *= 2
        self._iterations = max(1, round(self._iterations * PROBE_S / took_s))
        return {}

    def probe(self) -> Answer:
        """GFLOP/s of all threads together."""
        self._fma.run(DTYPE, self._threads, max(1, round(WARM_UP_SHARE * self._iterations)))
        seconds = self._fma.run(DTYPE, self._threads, self._iterations)
        flop = self._threads * self._iterations * self._fma.flops_per_iteration(DTYPE)
        return {"gflop_per_s": flop / seconds / 1e9}


def main() -> None:
    """Answer commands from standard input."""
    probe = Probe()
    serve_timed({"hello": probe.hello, "probe": probe.probe})
