"""The ceilings of this machine, kept in `config.cache_dir` and used until somebody asks for new ones.

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
from typing import Any

from gemmlab._config import config
from gemmlab._errors import CannotWrite
from gemmlab.measure.environment import environment
from gemmlab.measure.records import read, write

Record = dict[str, Any]
_SAME = ("gemmlab", "cpu", "isa", "isa_available", "cpus_usable")  # of the environment


def path() -> Path:
    """Where they are kept."""
    return config.cache_dir / "ceilings.jsonl"


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
    here = environment(pools=[])
    own = [record for record in _read() if record["device"] == device and _is_same_machine(record, here)]
    counts = {record["threads"] for record in own}
    return own if threads in counts else []


def keep(records: Sequence[Record]) -> None:
    """Keep these in place of what was kept of their devices; nothing where that cannot be written."""
    devices = {record["device"] for record in records}
    others = [old for old in _read() if old["device"] not in devices]
    with suppress(CannotWrite, OSError):
        path().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write(path(), [*others, *records])


def lift(peaks: Sequence[Record]) -> None:
    """Put these multiply-add rates in place of kept ones of the same loops that are slower.

    Nothing else changes, and nothing does where that cannot be written.
    """
    now = {_loop(record): record for record in peaks}
    old = _read()
    new = [max(record, now.get(_loop(record), record), key=lambda one: one["gflop_per_s"] or 0.0) for record in old]
    if new != old:
        with suppress(CannotWrite, OSError):
            write(path(), new)


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


def _is_same_machine(record: Record, here: Mapping[str, Any]) -> bool:
    return all(record["environment"].get(name) == here.get(name) for name in _SAME)


def _loop(record: Record) -> tuple[Any, ...]:
    """What tells a multiply-add loop, and the machine it ran on, from others."""
    loop = (record[name] for name in ("device", "threads", "ceiling", "isa", "dtype"))
    return *loop, *(str(record["environment"].get(name)) for name in _SAME)


def _read() -> list[Record]:
    with suppress(OSError, ValueError):
        return read(path())
    return []
