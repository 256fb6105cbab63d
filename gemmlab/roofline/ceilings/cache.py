"""The ceilings of this machine, stored in `config.cache_dir` and used until new ones are asked for.

A machine's ceilings do not change from day to day, and measuring them takes longer than most benchmarks. The file holds
records, whose `time_utc` gives their age. They are used only for the same device, with the same processors to use, in
the same instruction set, measured by the same version of gemmlab. A ceiling is a lower bound of the hardware: a peak
that a later run exceeds is replaced.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from gemmlab._config import config
from gemmlab._errors import CannotWrite
from gemmlab.measure.environment import environment
from gemmlab.measure.records import Record, read, write
from gemmlab.roofline.ceilings import best

_SAME_MACHINE = ("gemmlab", "cpu", "isa", "isa_available", "cpus_usable")  # in the environment


def path() -> Path:
    """The file."""
    return config.cache_dir / "ceilings.jsonl"


def cached(device: str, threads: int | None = None) -> list[Record]:
    """The stored ceilings of a device of this machine, for one thread and for `threads`; empty where there are none.

    `device` is its name in records. A device of a runtime counts no threads: None.

    Examples
    --------
    >>> cached("a processor that nobody has")
    []
    """
    here = environment(pools=[])
    own = [one for one in _read() if one["device"] == device and _machine(one["environment"]) == _machine(here)]
    return own if threads in {record["threads"] for record in own} else []


def store(records: Sequence[Record]) -> None:
    """Store these in place of all ceilings of their devices; a file that cannot be written is left alone."""
    devices = {record["device"] for record in records}
    _write([*(old for old in _read() if old["device"] not in devices), *records])


def raise_peaks(peaks: Sequence[Record]) -> None:
    """Replace stored multiply-add rates that are lower than these of the same loops."""
    now = {_loop(record): record for record in peaks}
    old = _read()
    new = [max(record, now.get(_loop(record), record), key=best.rate) for record in old]
    if new != old:
        _write(new)


def age(records: Sequence[Record], now: datetime | None = None) -> str:
    """How old the oldest of some records is, in words.

    Examples
    --------
    >>> age([{"time_utc": "2026-01-01T00:00:00+00:00"}], datetime(2026, 1, 4, tzinfo=UTC))
    '3 days old'
    """
    oldest = min(datetime.fromisoformat(record["time_utc"]) for record in records)
    days = ((now or datetime.now(UTC)) - oldest).days
    return "less than a day old" if days < 1 else f"{days} day{'s' * (days > 1)} old"


def _machine(facts: Record) -> str:
    return str([facts.get(name) for name in _SAME_MACHINE])


def _loop(record: Record) -> tuple[object, ...]:
    """What makes two ceilings comparable: the same loop on the same machine."""
    return best.key(record), _machine(record["environment"])


def _read() -> list[Record]:
    """All that is stored; without what cannot be read, which one warning names."""
    try:
        return read(path())
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        warnings.warn(f"the stored ceilings are not used: {error}", RuntimeWarning, stacklevel=3)
    return []


def _write(records: Sequence[Record]) -> None:
    config.cache_to_write()
    with suppress(CannotWrite, OSError):
        path().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write(path(), records)
