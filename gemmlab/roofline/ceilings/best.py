"""Which of several measurements of the same ceiling counts: the best.

A ceiling is a lower bound of what the hardware can do. Whatever disturbs a loop makes it slower and never faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gemmlab.measure.records import Record

Key = tuple[object, ...]
_SAME = ("device", "threads", "ceiling", "isa", "dtype", "operation", "level", "memory")


def key(record: Record) -> Key:
    """What makes two ceilings of one machine the same one; the points of a sweep differ in their working sets too."""
    points = (record["working_set_bytes"],) if record["ceiling"] == "sweep" else ()
    return *map(record.get, _SAME), *points


def rate(record: Record) -> float:
    """Its GFLOP/s or GB/s; 0 where it was not measured."""
    return float(record.get("gflop_per_s" if record["ceiling"] == "fma" else "gb_per_s") or 0.0)


def improved(found: dict[Key, Record], ceilings: Iterable[Record]) -> Iterator[Record]:
    """Each of some ceilings that is better than the one in `found`, where it then takes its place."""
    for record in ceilings:
        known = found.get(key(record))
        if known is None or rate(record) > rate(known):
            found[key(record)] = record
            yield record


def best(ceilings: Iterable[Record]) -> list[Record]:
    """Of each ceiling the best of its measurements, in the order of the first ones.

    Examples
    --------
    >>> slow = {"ceiling": "fma", "isa": "v3", "dtype": "float32", "threads": 1, "gflop_per_s": 60.0}
    >>> best([slow, {**slow, "gflop_per_s": 100.0}, {**slow, "threads": 2, "gflop_per_s": 110.0}])[0]["gflop_per_s"]
    100.0
    """
    found: dict[Key, Record] = {}
    for _ in improved(found, ceilings):
        pass
    return list(found.values())
