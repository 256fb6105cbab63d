"""The ceilings of each device as text: what was measured, by threads, in 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gemmlab._words import number
from gemmlab.measure.records import Record, grouped
from gemmlab.measure.table import NOTHING, Column, text_table, wrapped
from gemmlab.roofline.ceilings.best import best, rate


def ceilings_text(records: Iterable[Record]) -> str:
    """A table for each device: multiply-adds of each instruction set, and the bandwidth of each level of memory.

    Copies and triads, and the points of the sweep, are in the records alone.
    """
    ceilings = best(one for one in records if one["kind"] == "ceiling" and one["ceiling"] != "sweep")
    shown = [one for one in ceilings if one["ceiling"] != "bandwidth" or one["operation"] == "load"]
    tables = (_table(device, own) for device, own in grouped(shown, lambda one: str(one["device"])).items())
    return "\n\n".join(tables)


def _table(device: str, ceilings: Sequence[Record]) -> str:
    rows = list(grouped(ceilings, lambda one: (_what(one), _unit(one))).items())
    counts = sorted({one["threads"] or 0 for one in ceilings})
    columns = [Column("ceiling", lambda row: row[0][0], number=False)]
    for count in counts:
        head = f"{count} thread{'s' * (count != 1)}" if count else "rate"
        columns.append(Column(head, lambda row, count=count: _rate_on(row[1], count)))  # type: ignore[misc]
    columns.append(Column("unit", lambda row: row[0][1], number=False))
    return f"{wrapped(device)}\n\n{text_table(rows, columns)}"


def _what(ceiling: Record) -> str:
    if ceiling["ceiling"] == "fma":
        return f"multiply-adds, {ceiling['dtype']}, {ceiling['isa']}"
    if ceiling["ceiling"] == "transfer":
        return f"{ceiling['operation']}, {ceiling['memory']} memory"
    return f"loads from {'local memory' if ceiling['level'] == 'local' else ceiling['level']}"


def _unit(ceiling: Record) -> str:
    return "GFLOP/s" if ceiling["ceiling"] == "fma" else "GB/s"


def _rate_on(ceilings: Iterable[Record], threads: int) -> str:
    return next((number(rate(one)) for one in ceilings if (one["threads"] or 0) == threads), NOTHING)
