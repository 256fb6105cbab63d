"""The records of this machine's last report, in `config.cache_dir`: the course shows them without measuring again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gemmlab._config import config
from gemmlab._cpu import machine
from gemmlab._errors import CannotWrite
from gemmlab.measure.records import Record, read, write


def path() -> Path:
    """The file."""
    return config.cache_dir / "last-report.jsonl"


def keep(records: Sequence[Record]) -> None:
    """Keep these; a file that cannot be written is left alone."""
    config.cache_to_write()
    with suppress(CannotWrite, OSError):
        path().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write(path(), records)


def kept() -> list[Record]:
    """What was kept on this processor; empty where nothing was, or where it cannot be read."""
    with suppress(OSError, ValueError):
        records = read(path())
        if records and records[0]["environment"].get("cpu") == machine.cpu_name():
            return records
    return []
