"""Where a product stands under the roofs of its machine: `gemmlab.roofline.model`, asked for what a report needs.

A roof counts only if it was measured on as many threads as the product ran on. Otherwise the answer is None,
and the report says that it does not know.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gemmlab.report.groups import Group, Record, threads_of
from gemmlab.roofline.model import LEVELS, intensity


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


def bandwidths(group: Group) -> dict[str, float]:
    """GB/s of each memory level that was measured on the group's number of threads, from the innermost outwards."""
    if group.roof is None:
        return {}
    measured = {c["level"] for c in group.ceilings if c["ceiling"] == "bandwidth" and c["operation"] == "load"
                and _fits(c, group.threads)}  # fmt: skip
    return {level: group.roof.bandwidth(level, group.threads) for level in LEVELS if level in measured}


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


def is_above(group: Group, record: Record) -> bool:
    """Whether a product is faster than its roofs allow: then the measurement, or a ceiling, is off."""
    if group.roof is None or standing(group, record) is None:
        return False
    return group.roof.above_roof(record)


def _fits(ceiling: Record, threads: int) -> bool:
    return threads_of(ceiling) == threads
