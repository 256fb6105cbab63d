"""`gemmlab tune auto`: from which size on another backend is faster than `cpu-packed` on this machine.

Squares are measured, each backend in an isolated process, in interleaved rounds. A backend is ahead at an edge if the
80th percentile of its times is below the 20th of ours. "auto" takes it from the smallest edge on from which it is ahead
at all larger edges too. Transfers to a device and back are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gemmlab import _profile, _registry
from gemmlab._cpu import isa
from gemmlab.measure import Session, Settings, sized

EDGES = (256, 512, 1024, 2048, 4096)
OURS = _registry.AUTO[0]
Records = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Taken:
    """What "auto" takes for large products of a dtype: a backend, from a smallest extent on, and its speed-up.

    `cpu-packed` if no other backend is ahead.
    """

    dtype: str
    backend: str = OURS
    least_extent: int = 1
    speedup: float = 1.0

    def __str__(self) -> str:
        if self.backend == OURS:
            return f"{self.dtype:<10}  {OURS}: no other backend is ahead"
        return f"{self.dtype:<10}  {self.backend} from {self.least_extent} on: {self.speedup:.2f} times {OURS}"

    def stored(self) -> Mapping[str, int]:
        """What the profile stores."""
        return {} if self.backend == OURS else {self.backend: self.least_extent}


def tune_auto(
    dtypes: Sequence[str], rounds: int, edges: Sequence[int], progress: Callable[[int, int, str], None] | None
) -> list[Taken]:
    """Measure every vendor's backend beside `cpu-packed`, and store where one is ahead."""
    cases = [case for dtype in dtypes for case in sized(edges, dtype, "squares")]
    with Session() as session:
        settings = Settings(transfers="with", rounds=rounds, cap_s=5.0)
        records = session.measure([OURS, *rivals()], cases, settings, progress=progress)
    found = [best_of(dtype, [one for one in records if one["problem"]["dtype"] == dtype]) for dtype in dtypes]
    _profile.store(isa.profile_name(), "auto", {one.dtype: one.stored() for one in found})
    return found


def rivals() -> list[str]:
    """Vendors' backends that can run here, without devices that are this CPU."""
    return [name for name in _registry.available_names()
            if _registry.info(name).kind == "baseline" and not _registry.on_cpu_device(name)]


def best_of(dtype: str, records: Records) -> Taken:
    """The backend that is furthest ahead at the largest edge of its records."""
    times = {(record["backend"], record["problem"]["n"]): record for record in records if record["status"] == "ok"}
    edges = sorted({edge for name, edge in times if name == OURS}, reverse=True)
    best = Taken(dtype)
    for name in dict.fromkeys(name for name, _ in times if name != OURS):
        ahead = []
        for edge in edges:
            theirs, ours = times.get((name, edge)), times[OURS, edge]
            if theirs is None or theirs["p80_s"] >= ours["p20_s"]:
                break
            ahead.append((edge, ours["median_s"] / theirs["median_s"]))
        if ahead and ahead[0][1] > best.speedup:
            best = Taken(dtype, name, ahead[-1][0], ahead[0][1])
    return best
