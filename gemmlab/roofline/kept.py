"""The ceilings of this machine, kept in `config.cache_dir` and used until somebody asks for new ones.

Kept too, in a file beside them, is what the probe did in the last sessions: how fast this machine is as a rule.

A machine's ceilings do not change from day to day, and measuring them takes longer than most benchmarks. What is kept
are records, so their age stands in their `time_utc`. They count only for the same device, with the same processors to
use, in the same instruction set, measured by the same gemmlab. A ceiling is a lower bound of the hardware: one that a
later run passes gives way to what that run saw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from gemmlab._config import config
from gemmlab._errors import CannotWrite
from gemmlab.measure.environment import environment
from gemmlab.measure.records import read, write

Record = dict[str, Any]
SESSIONS = 5  # the last ones; when most of them went by at another speed, that is the usual one
_SAME = ("gemmlab", "cpu", "isa", "isa_available", "cpus_usable")  # of the environment


def path() -> Path:
    """Where ceilings are kept."""
    return config.cache_dir / "ceilings.jsonl"


def probes_path() -> Path:
    """Where the probes of the last sessions are kept."""
    return config.cache_dir / "probes.jsonl"


def kept(device: str, threads: int | None = None) -> list[Record]:
    """The ceilings of a device of this machine, for one thread and for so many; none where nothing is kept.

    Parameters
    ----------
    device : str
        Its name in records: of the processor, or of a GPU.
    threads : int, optional
        What "all threads" has to mean; None for a device, which counts no threads.

    Examples
    --------
    >>> kept("a processor that nobody has")
    []
    """
    own = _own(_read(path()), device)
    counts = {record["threads"] for record in own}
    return own if threads in counts else []


def keep(records: Sequence[Record]) -> None:
    """Keep these in place of what was kept of their devices; nothing where that cannot be written."""
    devices = {record["device"] for record in records}
    others = [old for old in _read(path()) if old["device"] not in devices]
    _write(path(), [*others, *records])


def lift(peaks: Sequence[Record]) -> None:
    """Put these multiply-add rates in place of kept ones of the same loops that are slower.

    Nothing else changes, and nothing does where that cannot be written.
    """
    now = {_loop(record): record for record in peaks}
    old = _read(path())
    new = [max(record, now.get(_loop(record), record), key=lambda one: one["gflop_per_s"] or 0.0) for record in old]
    if new != old:
        _write(path(), new)


def usual_probe(device: str, threads: int) -> float | None:
    """GFLOP/s of the probe on so many threads of this machine, the middle of its last sessions; None before the first.

    Examples
    --------
    >>> usual_probe("a processor that nobody has", 2) is None
    True
    """
    speeds = [record["gflop_per_s"] for record in _own(_read(probes_path()), device) if record["threads"] == threads]
    return median(speeds) if speeds else None


def keep_probe(record: Record) -> None:
    """Keep what the probe did in a session, in place of the oldest; nothing where that cannot be written."""
    sessions: dict[tuple[Any, ...], list[Record]] = {}
    for one in [*_read(probes_path()), record]:
        sessions.setdefault(_loop(one), []).append(one)
    _write(probes_path(), [one for same in sessions.values() for one in same[-SESSIONS:]])


def age(records: Sequence[Mapping[str, Any]], now: datetime | None = None) -> str:
    """How old the oldest of some records is, in words.

    Examples
    --------
    >>> age([{"time_utc": "2026-01-01T00:00:00+00:00"}], datetime(2026, 1, 4, tzinfo=UTC))
    '3 days old'
    """
    oldest = min(datetime.fromisoformat(record["time_utc"]) for record in records)
    days = ((now or datetime.now(UTC)) - oldest).days
    return "less than a day old" if days < 1 else f"{days} day{'s' * (days > 1)} old"


def _own(records: Sequence[Record], device: str) -> list[Record]:
    """Those of a device of this machine, as it is now."""
    here = environment(pools=[])
    return [
        record for record in records
        if record["device"] == device and all(record["environment"].get(name) == here.get(name) for name in _SAME)
    ]  # fmt: skip


def _loop(record: Record) -> tuple[Any, ...]:
    """What tells a multiply-add loop, and the machine it ran on, from others."""
    loop = (record[name] for name in ("device", "threads", "ceiling", "isa", "dtype"))
    return *loop, *(str(record["environment"].get(name)) for name in _SAME)


def _read(where: Path) -> list[Record]:
    with suppress(OSError, ValueError):
        return read(where)
    return []


def _write(where: Path, records: Sequence[Record]) -> None:
    with suppress(CannotWrite, OSError):
        where.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write(where, records)
