"""Which of several measurements of the same ceiling counts: the best.

A ceiling is a lower bound of what the hardware can do. Whatever disturbs a loop makes it slower and never faster.
"""

from __future__ import annotations

from collections.abc import Iterable

from gemmlab.measure.records import Record

_SAME = ("device", "threads", "ceiling", "isa", "dtype", "operation", "level", "memory")


def key(record: Record) -> tuple[object, ...]:
    """What makes two ceilings of one machine the same one; the points of a sweep differ in their working sets too."""
    points = (record["working_set_bytes"],) if record["ceiling"] == "sweep" else ()
    return *map(record.get, _SAME), *points


def rate(record: Record) -> float:
    """Its GFLOP/s or GB/s; 0 where it was not measured."""
    return float(record.get("gflop_per_s" if record["ceiling"] == "fma" else "gb_per_s") or 0.0)


def best(ceilings: Iterable[Record]) -> list[Record]:
    """Of each ceiling the best of its measurements, in the order of the first ones.

    Examples
    --------
    >>> slow = {"ceiling": "fma", "isa": "v3", "dtype": "float32", "threads": 1, "gflop_per_s": 60.0}
    >>> best([slow, {**slow, "gflop_per_s": 100.0}, {**slow, "threads": 2, "gflop_per_s": 110.0}])[0]["gflop_per_s"]
    100.0
    """
    found: dict[tuple[object, ...], Record] = {}
    for record in ceilings:
        known = found.setdefault(key(record), record)
        if rate(record) > rate(known):
            found[key(record)] = record
    return list(found.values())
