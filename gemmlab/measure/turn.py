"""One turn of a product: a while in which it was timed, between two probes of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from gemmlab.measure import noise


@dataclass(frozen=True)
class Turn:
    """What was timed, and what was seen of the machine meanwhile.

    `probes` are the speeds of the session's probe before and after, in GFLOP/s; `ticks` the system's clock ticks then;
    `kernel_s` a device's own time of the kernels alone; `dram_bytes` what hardware counters saw move in a call.
    """

    samples_s: Sequence[float]
    probes: Sequence[float] = ()
    ticks: tuple[Any, Any] = (None, None)
    kernel_s: float | None = None
    dram_bytes: float | None = None

    @property
    def median_s(self) -> float:
        """The turn's own middle."""
        return median(self.samples_s)

    def is_calm(self, usual_probe: float | None) -> bool:
        """Whether the machine was as fast as usual before and after it."""
        return noise.is_calm(self.probes, usual_probe)


def that_count(turns: Sequence[Turn], usual_probe: float | None) -> Sequence[Turn]:
    """The calm turns; all of them, if too few are calm to tell how far they agree."""
    calm = [turn for turn in turns if turn.is_calm(usual_probe)]
    return calm if len(calm) >= noise.LEAST_TURNS else turns
