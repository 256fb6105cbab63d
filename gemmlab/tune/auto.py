"""`gemmlab tune auto`: from which size on another backend is faster than `cpu-packed` on this machine.

Squares are measured, each backend in an isolated process, in interleaved rounds. A backend is ahead at an edge if the
80th percentile of its times is below the 20th of ours, and further below where one of the two is marked as noisy.
"auto" takes it from the smallest edge on from which it is ahead at all larger edges too. Where none is ahead, but noise
may hide that one is, nothing is kept. Transfers to a device and back are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gemmlab import _profile, _registry
from gemmlab._cpu import isa
from gemmlab.measure import Session, Settings, sized
from gemmlab.measure.comparison import is_good, ratio
from gemmlab.measure.records import Record
from gemmlab.roofline.ceilings.probe_loop import COMMAND
from gemmlab.tune.evidence import Disturbed, mark_of

EDGES = (256, 512, 1024, 2048, 4096)
OURS = _registry.AUTO[0]


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
) -> list[Taken | Disturbed]:
    """Measure every vendor's backend beside `cpu-packed`, and store where one is ahead."""
    cases = [case for dtype in dtypes for case in sized(edges, dtype, "squares")]
    with Session(probe_command=COMMAND) as session:
        settings = Settings(transfers="with", rounds=rounds, cap_s=5.0)
        records = session.measure([OURS, *rivals()], cases, settings, progress=progress)
    found = [best_of(dtype, [one for one in records if one["problem"]["dtype"] == dtype]) for dtype in dtypes]
    kept = {one.dtype: one.stored() for one in found if isinstance(one, Taken)}
    if kept:
        _profile.store(isa.profile_name(), "auto", kept)
    return found


def rivals() -> list[str]:
    """Vendors' backends that can run here, without devices that are this CPU."""
    return [name for name in _registry.available_names()
            if _registry.info(name).kind == "baseline" and not _registry.on_cpu_device(name)]


def best_of(dtype: str, records: Sequence[Record]) -> Taken | Disturbed:
    """The backend that is furthest ahead at the largest edge of its records."""
    times = {(record["backend"], record["problem"]["n"]): record for record in records if is_good(record)}
    edges = sorted({edge for name, edge in times if name == OURS}, reverse=True)
    best, hidden = Taken(dtype), ""
    for name in dict.fromkeys(name for name, _ in times if name != OURS):
        ahead: list[tuple[int, float]] = []
        for edge in edges:
            if (theirs := times.get((name, edge))) is None:
                break
            pair = ratio(times[OURS, edge], theirs)
            if pair.least <= 1:
                if not ahead and pair.noisy and pair.most > 1:
                    hidden = f"{name} beside {OURS} at {edge}: {mark_of(pair)}"
                break
            ahead.append((edge, pair.ratio))
        if ahead and ahead[0][1] > best.speedup:
            best = Taken(dtype, name, ahead[-1][0], ahead[0][1])
    return Disturbed(dtype, hidden) if hidden and best.backend == OURS else best
