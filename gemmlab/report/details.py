"""What the page says of one product that a reader points at: a few facts, worked out from its record."""

from __future__ import annotations

from gemmlab.report.groups import Group, Record, problem_text, threads_of, threads_text
from gemmlab.report.roofs import levels, standing
from gemmlab.report.words import number, percent
from gemmlab.roofline.model import DEFINITIONS, Definition, intensity, moved_bytes

Facts = dict[str, str]


def details(group: Group, record: Record, level: str | None = None) -> Facts:
    """Facts by their names; `level` is the memory level that places the dot (None: its roof's)."""
    where = standing(group, record)
    level = level or (where.level if where else None) or "DRAM"
    facts = {
        "Problem": problem_text(record),
        "Parameters": ", ".join(f"{name} {value}" for name, value in record["params"].items()),
        "Threads": threads_text(threads_of(record)) if threads_of(record) < group.threads else "",
        "GFLOP/s (p20 to p80)": _speed(record),
        f"Flop per byte of {level}": _intensities(record, level),
        f"Roof of {level}": _roof(group, record, level),
        "Its roof": "",
        "Error / bound": number(record["error_over_bound"]) if record["error_over_bound"] is not None else "",
        "Noisy": (record.get("noisy_because") or "p20 and p80 are over 10 % apart") if record["noisy"] else "",
    }
    if where is not None:
        name = f"{where.level} bandwidth" if where.level else "arithmetic"
        facts["Its roof"] = f"{name}, {number(where.attainable)} GFLOP/s; reaches {percent(where.share)}"
    return {name: text for name, text in facts.items() if text}


def _speed(record: Record) -> str:
    """GFLOP/s with what p80 and p20 of the time make of it: "236 (230 to 240)"."""
    low, high = (number(record["gflop"] / record[key]) for key in ("p80_s", "p20_s"))
    return f"{number(record['gflop_per_s'])} ({low} to {high})"


def _roof(group: Group, record: Record, level: str) -> str:
    own = next((own for own in levels(group, record) if own.name == level), None)
    if own is None:
        return ""
    if not own.holds:
        return "does not hold: the operands come from a cache"
    return f"{number(own.attainable)} GFLOP/s; reaches {percent(own.share)}"


def _intensities(record: Record, level: str) -> str:
    """The count that places the dot, then whatever other counts there are."""
    flop_per_byte, placed = intensity(record, level)
    text = f"{number(flop_per_byte)} ({placed})"
    others: list[Definition] = [
        which for which in DEFINITIONS if which != placed and moved_bytes(record, level, which) is not None
    ]
    return "; ".join([text, *(f"{number(intensity(record, level, which)[0])} {which}" for which in others)])
