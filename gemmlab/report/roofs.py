"""Where a product stands under the roofs of its machine: `gemmlab.roofline.model`, asked for what a report needs.

A roof counts only if it was measured on as many threads as the product ran on. Otherwise the answer is None,
and the report says that it does not know.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gemmlab.report.groups import Group, Record, threads_of
from gemmlab.roofline.model import LEVELS, TOLERANCE, intensity


@dataclass(frozen=True)
class Peak:
    """The fastest multiply-add rate measured, and the instruction set that reached it; on a device, its runtime."""

    gflop_per_s: float
    isa: str


@dataclass(frozen=True)
class Standing:
    """A product under its lowest roof.

    `level` is the memory level whose bandwidth is that roof, or None if the arithmetic peak is; `intensity` is
    in flop per byte of that level (of the level that feeds the product, under the peak); `modelled` says
    whether its bytes are those of the backend's own model, or the least possible.
    """

    level: str | None
    intensity: float
    attainable: float
    share: float
    modelled: bool


def peak(group: Group) -> Peak | None:
    """The measured peak of a group, or None if there is none for its number type and threads."""
    own = [record for record in fma_ceilings(group) if record["gflop_per_s"]]
    best = max(own, key=lambda record: record["gflop_per_s"], default=None)
    return None if best is None else Peak(best["gflop_per_s"], best["isa"])


def fma_ceilings(group: Group) -> list[Record]:
    """The group's multiply-add rates, the best of each instruction set, slowest first."""
    measured = (ceiling for ceiling in group.ceilings if ceiling["ceiling"] == "fma" and _fits(ceiling, group.threads))
    found = [ceiling for ceiling in measured if ceiling["dtype"] == group.dtype]
    by_speed = sorted(found, key=lambda record: record["gflop_per_s"])
    return sorted({ceiling["isa"]: ceiling for ceiling in by_speed}.values(), key=by_speed.index)


def is_in_use(ceiling: Record) -> bool:
    """Whether products run in the instruction set of a ceiling's loop; a device has no choice of them."""
    return ceiling["threads"] is None or ceiling["isa"] == ceiling["environment"].get("isa")


def loop_name(ceiling: Record) -> str:
    """The instruction set of a ceiling's loop, marked if it is the one in use of several; on a device, the runtime."""
    of_several = ceiling["threads"] is not None and is_in_use(ceiling)
    return f"{ceiling['isa']}{' in use' * of_several}"


def bandwidth_ceilings(group: Group) -> dict[str, Record]:
    """The fastest loads of each memory level on the group's number of threads, from the innermost level outwards."""
    found: dict[str, Record] = {}
    for ceiling in group.ceilings:
        if ceiling["ceiling"] == "bandwidth" and ceiling["operation"] == "load" and _fits(ceiling, group.threads):
            best = found.setdefault(ceiling["level"], ceiling)
            found[ceiling["level"]] = max(best, ceiling, key=lambda record: record["gb_per_s"])
    return {level: found[level] for level in LEVELS if level in found}


def bandwidths(group: Group) -> dict[str, float]:
    """GB/s of each memory level that was measured on the group's number of threads, from the innermost outwards."""
    return {level: ceiling["gb_per_s"] for level, ceiling in bandwidth_ceilings(group).items()}


def band(ceiling: Record) -> tuple[float, float] | None:
    """A ceiling's rate at p80 and at p20 of its time; a peak is the rate at the shortest time, so none is above it."""
    of_peak = ceiling["ceiling"] == "fma"
    rate, time = ("gflop_per_s", "min_s") if of_peak else ("gb_per_s", "median_s")
    if not (ceiling[time] and ceiling["p20_s"] and ceiling["p80_s"]):
        return None
    amount = ceiling[rate] * ceiling[time]
    return amount / ceiling["p80_s"], amount / ceiling["p20_s"]


def standing(group: Group, record: Record) -> Standing | None:
    """Place a timed product under the lowest of its roofs, or return None if they were not measured.

    The roofs are the peak, the bandwidth of the level that its operands come from, and that of every level
    nearer to the core for which the backend has a model of its traffic.
    """
    own = replace(group, threads=threads_of(record))
    top, speeds = peak(own), bandwidths(own)
    if group.roof is None or top is None:
        return None
    feeding = group.roof.feeding_level(record)
    inner = [level for level in LEVELS[: LEVELS.index(feeding)] if intensity(record, level)[1] == "modelled"]
    levels = [level for level in (feeding, *inner) if level in speeds]
    if feeding not in levels:
        return None
    lowest = min(levels, key=lambda level: speeds[level] * intensity(record, level)[0])
    flop_per_byte, which = intensity(record, lowest)
    attainable = min(top.gflop_per_s, speeds[lowest] * flop_per_byte)
    level = lowest if attainable < top.gflop_per_s else None
    return Standing(level, flop_per_byte, attainable, record["gflop_per_s"] / attainable, which == "modelled")


@dataclass(frozen=True)
class Level:
    """A product under the roof of one memory level; `definition` names the bytes that `intensity` counts.

    The roof holds (`holds`) for the level that feeds the product and those nearer to the core: a product whose operands
    stay in a cache does not wait for what is behind it.
    """

    name: str
    intensity: float
    definition: str
    attainable: float
    share: float
    holds: bool

    @property
    def above(self) -> bool:
        """Whether the product is faster than its bytes allow: then they are too many, or the ceiling too low."""
        return self.holds and self.share > 1 + TOLERANCE


def levels(group: Group, record: Record) -> list[Level]:
    """A timed product under the roof of every level that its backend's model counts bytes of, the innermost first.

    Without a model it is one level, that which feeds the product, over the least bytes possible. No peak or no
    bandwidth measured on the product's threads: no level.
    """
    own = replace(group, threads=threads_of(record))
    top, speeds = peak(own), bandwidths(own)
    if group.roof is None or top is None:
        return []
    feeding = group.roof.feeding_level(record)
    modelled = [level for level in speeds if intensity(record, level)[1] == "modelled"]
    found = []
    for level in modelled or [level for level in speeds if level == feeding]:
        flop_per_byte, definition = intensity(record, level)
        roof = min(top.gflop_per_s, speeds[level] * flop_per_byte)
        holds = LEVELS.index(level) <= LEVELS.index(feeding)
        found.append(Level(level, flop_per_byte, definition, roof, record["gflop_per_s"] / roof, holds))
    return found


def by_level(group: Group) -> dict[str, tuple[Record, list[Level]]]:
    """Each backend's judged product with its place under every level, where roofs and bytes are known."""
    judged = {name: group.largest(name) for name in group.backends()}
    placed = {name: (record, levels(group, record)) for name, record in judged.items() if record is not None}
    return {name: (record, found) for name, (record, found) in placed.items() if found}


def attainable_once(group: Group, record: Record) -> float | None:
    """GFLOP/s of the problem if each operand moved once, from the level that feeds it, to all threads of the group."""
    top, speeds = peak(group), bandwidths(group)
    if group.roof is None or top is None:
        return None
    feeding = group.roof.feeding_level({**record, "threads": group.threads if record["threads"] else None})
    if feeding not in speeds:
        return None
    return min(top.gflop_per_s, speeds[feeding] * intensity(record, feeding, "compulsory")[0])


def is_above(group: Group, record: Record) -> bool:
    """Whether a product is faster than its roofs allow: then the measurement, or a ceiling, is off."""
    if group.roof is None or standing(group, record) is None:
        return False
    return group.roof.above_roof(record)


def _fits(ceiling: Record, threads: int) -> bool:
    return threads_of(ceiling) == threads
