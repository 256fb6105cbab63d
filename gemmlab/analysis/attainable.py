"""What the measured ceilings allow a product to reach, by the roofline model of `gemmlab.roofline.model`.

A ceiling counts only if it was measured on as many threads as the product ran on. Otherwise the answer is None or
empty, and the report says that it is not known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gemmlab.analysis.groups import Group, threads_of
from gemmlab.measure.records import Record
from gemmlab.roofline.model import LEVELS, TOLERANCE, Definition, in_dtype, intensity


@dataclass(frozen=True)
class Peak:
    """The fastest measured multiply-add rate and the instruction set that reached it; on a device, its runtime."""

    gflop_per_s: float
    isa: str


@dataclass(frozen=True)
class Limit:
    """What one memory level and the arithmetic peak allow a product; rates are in GFLOP/s.

    `intensity` is in flop per byte of that level, and `definition` says how its bytes were counted. `by_memory` is
    intensity times bandwidth, `by_peak` the measured peak, and `reached` the product's speed. A limit `holds` for
    the level that the operands come from and for those nearer to the core.
    """

    level: str
    intensity: float
    definition: Definition
    by_memory: float
    by_peak: float
    reached: float
    holds: bool

    @property
    def attainable(self) -> float:
        """The lower of the two rates."""
        return min(self.by_memory, self.by_peak)

    @property
    def is_memory(self) -> bool:
        """Whether bandwidth is the lower of the two."""
        return self.by_memory < self.by_peak

    @property
    def share(self) -> float:
        """The product's speed over the attainable one."""
        return self.reached / self.attainable

    @property
    def is_exceeded(self) -> bool:
        """Whether the product is faster than this: then the bytes are counted too high, or the ceiling is too low."""
        return self.holds and self.share > 1 + TOLERANCE

    @property
    def name(self) -> str:
        """What limits: "arithmetic", or the bandwidth of a level."""
        return f"{self.level} bandwidth" if self.is_memory else "arithmetic"


def peak(group: Group) -> Peak | None:
    """The measured peak for the number type and threads of a group, or None."""
    found = [record for record in fma_ceilings(group) if record["gflop_per_s"]]
    return Peak(found[-1]["gflop_per_s"], found[-1]["isa"]) if found else None


def peak_for(group: Group, record: Record) -> Peak | None:
    """The measured peak of as many threads as a product ran on, or None: what its share is a share of."""
    return peak(replace(group, threads=threads_of(record)))


def share_of_peak(group: Group, record: Record) -> float | None:
    """A product's speed over the measured peak of as many threads as it ran on; None without one."""
    top = peak_for(group, record)
    return None if top is None else float(record["gflop_per_s"] / top.gflop_per_s)


def above_the_peak(group: Group, threads: int) -> list[str]:
    """The backends that were faster on so many threads than the peak measured there: it was measured too low."""
    top = peak(replace(group, threads=threads))
    fastest = (1 + TOLERANCE) * top.gflop_per_s if top else 0.0
    return [
        name for name in group.backends() if top is not None and any(
            record["gflop_per_s"] > fastest for record in group.timed(name).values() if threads_of(record) == threads
        )
    ]  # fmt: skip


def fma_ceilings(group: Group) -> list[Record]:
    """The group's multiply-add rates, the best of each instruction set, slowest first."""
    fitting = [c for c in group.ceilings if c["ceiling"] == "fma" and _fits(c, group)]
    found = [one for one in (in_dtype(c, group.dtype) for c in fitting) if one is not None]
    by_speed = sorted(found, key=lambda record: float(record["gflop_per_s"] or 0))
    return sorted({ceiling["isa"]: ceiling for ceiling in by_speed}.values(), key=by_speed.index)


def in_use(ceiling: Record) -> bool:
    """Whether products run in the instruction set of this ceiling; a device has only one."""
    return ceiling["threads"] is None or ceiling["isa"] == ceiling["environment"].get("isa")


def isa_label(ceiling: Record) -> str:
    """The instruction set of a ceiling, marked if it is the one in use; on a device, the runtime."""
    return f"{ceiling['isa']}{' in use' * (ceiling['threads'] is not None and in_use(ceiling))}"


def bandwidth_ceilings(group: Group) -> dict[str, Record]:
    """The fastest loads from each memory level on the group's number of threads, innermost level first."""
    loads = [c for c in group.ceilings if c["ceiling"] == "bandwidth" and c["operation"] == "load" and _fits(c, group)]
    best = {record["level"]: record for record in sorted(loads, key=lambda record: float(record["gb_per_s"]))}
    return {level: best[level] for level in LEVELS if level in best}


def bandwidths(group: Group) -> dict[str, float]:
    """GB/s of each memory level on the group's number of threads, innermost level first."""
    return {level: ceiling["gb_per_s"] for level, ceiling in bandwidth_ceilings(group).items()}


def rate_band(ceiling: Record) -> tuple[float, float] | None:
    """A ceiling's rate at p80 and at p20 of its times; None where they are not recorded.

    A peak is the rate of the shortest time, so no end of its band is above it.
    """
    rate, time = ("gflop_per_s", "min_s") if ceiling["ceiling"] == "fma" else ("gb_per_s", "median_s")
    if not (ceiling[time] and ceiling["p20_s"] and ceiling["p80_s"]):
        return None
    amount = ceiling[rate] * ceiling[time]
    return amount / ceiling["p80_s"], amount / ceiling["p20_s"]


def limits(group: Group, record: Record) -> list[Limit]:
    """The limits of a timed product, the innermost level first; empty where the ceilings were not measured.

    There is one for each level that the backend's traffic model counts bytes of, and one for the level that the
    operands come from; without a model that one counts the compulsory bytes.
    """
    top, speeds = peak_for(group, record), bandwidths(replace(group, threads=threads_of(record)))
    if group.roof is None or top is None:
        return []
    feeding = group.roof.feeding_level(record)
    if feeding not in speeds:
        return []
    found = []
    for level, speed in speeds.items():
        flop_per_byte, definition = intensity(record, level)
        if definition == "modelled" or level == feeding:
            holds = LEVELS.index(level) <= LEVELS.index(feeding)
            rates = speed * flop_per_byte, top.gflop_per_s, record["gflop_per_s"]
            found.append(Limit(level, flop_per_byte, definition, *rates, holds))
    return found


def lowest_limit(group: Group, record: Record) -> Limit | None:
    """The lowest limit that holds for a timed product, or None where the ceilings were not measured."""
    holding = [limit for limit in reversed(limits(group, record)) if limit.holds]
    return min(holding, key=lambda limit: limit.by_memory, default=None)


def limits_by_backend(group: Group) -> dict[str, tuple[Record, list[Limit]]]:
    """The product that each backend is judged by and its limits, where these are known."""
    judged = {name: group.largest(name) for name in group.backends()}
    found = {name: (record, limits(group, record)) for name, record in judged.items() if record is not None}
    return {name: (record, own) for name, (record, own) in found.items() if own}


def is_above_roof(group: Group, record: Record) -> bool:
    """Whether a product is faster than the ceilings allow: then the measurement, or a ceiling, is off."""
    return group.roof is not None and lowest_limit(group, record) is not None and group.roof.above_roof(record)


def _fits(ceiling: Record, group: Group) -> bool:
    return threads_of(ceiling) == group.threads
