"""The records of the machines that the course shows, which ship with gemmlab in one file.

They are those that `course.toml` names in docs/measured/. After one has changed:
`python -m gemmlab.course.shipped docs`.
"""

from __future__ import annotations

import gzip
import json
import sys
from functools import cache
from pathlib import Path

from gemmlab.course.rungs import settings
from gemmlab.measure import read
from gemmlab.measure.records import Record

FILE = Path(__file__).with_name("shipped.jsonl.gz")


def shipped_records(file: str) -> tuple[Record, ...]:
    """The records of a file that `course.toml` names."""
    return _all()[file]


@cache
def _all() -> dict[str, tuple[Record, ...]]:
    with gzip.open(FILE, "rt", encoding="utf-8") as lines:
        return {(entry := json.loads(line))["file"]: tuple(entry["records"]) for line in lines}


def packed(docs: Path) -> bytes:
    """What the file holds: a line for each file of records below `docs`."""
    names = dict.fromkeys(entry["file"] for entry in settings()["records"])
    lines = [json.dumps({"file": name, "records": read(docs / name)}) + "\n" for name in names]
    return gzip.compress("".join(lines).encode(), mtime=0)


if __name__ == "__main__":
    FILE.write_bytes(packed(Path(sys.argv[1])))
