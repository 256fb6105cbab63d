"""Records as rows of a CSV file: one row a record, the same columns for every record.

A column has the name of its key, with its unit; the keys of `problem` stand alone, those of `environment` begin with
`environment_`. `params` is text such as "bs_c=64 bs_r=4". A cell is empty where its key is null or not of the record's
kind. Thread pools are left out.
"""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

from gemmlab.measure.records import Record, RecordFile
from gemmlab.measure.schema import ENVIRONMENT, KEYS, PROBLEM

_LEVELS = ("L1", "L2", "L3")
_OF_ENVIRONMENT = [key for key in ENVIRONMENT if key not in ("cache_bytes", "thread_pools")]
COLUMNS = tuple(
    dict.fromkeys([
        *(key for kind in KEYS for key in KEYS[kind] if key not in ("problem", "environment")),
        *PROBLEM,
        *(f"environment_{key}" for key in _OF_ENVIRONMENT),
        *(f"environment_cache_{level.lower()}_bytes" for level in _LEVELS),
    ])
)  # fmt: skip


class CsvFile(RecordFile):
    """A CSV file of records, with a line of column names; otherwise as `RecordFile`.

    Examples
    --------
    >>> with CsvFile("/dev/null") as file:
    ...     file.write({"kind": "gemm"})
    """

    def _text(self, record: Record) -> str:
        row = StringIO()
        writer = csv.DictWriter(row, COLUMNS, lineterminator="\n")
        if not self.kept:
            writer.writeheader()
        writer.writerow({column: _cell(value) for column, value in flat(record).items()})
        return row.getvalue()


def flat(record: Record) -> dict[str, Any]:
    """A record without anything inside: its values by the names of `COLUMNS`."""
    found = dict(record)
    environment = found.pop("environment", None) or {}
    caches = environment.get("cache_bytes") or {}
    found |= found.pop("problem", None) or {}
    found["params"] = " ".join(f"{name}={value}" for name, value in sorted((record.get("params") or {}).items()))
    found |= {f"environment_{key}": environment.get(key) for key in _OF_ENVIRONMENT}
    found |= {f"environment_cache_{level.lower()}_bytes": caches.get(level) for level in _LEVELS}
    return {column: found.get(column) for column in COLUMNS}


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(map(str, value)) if isinstance(value, list) else value
