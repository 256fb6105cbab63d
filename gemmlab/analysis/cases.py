"""Products that somebody listed, each with a verdict: what is fastest there, and how far from the machine's limits.

`gemmlab bench --cases FILE`, `records --cases` and `report --cases` show them, in the order and with the names of the
file (`gemmlab.measure.case_file`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from gemmlab._words import listed, number, percent
from gemmlab.analysis.attainable import Limit, lowest_limit, share_of_peak
from gemmlab.analysis.formatting import problem_text
from gemmlab.analysis.groups import Group, devices
from gemmlab.measure.case_file import SUITE
from gemmlab.measure.comparison import is_good, overlap, problem_key
from gemmlab.measure.problems import Case
from gemmlab.measure.records import Record, grouped, name_of
from gemmlab.measure.table import (
    ERROR,
    LEGEND,
    NOISE,
    SPEED,
    THREADS,
    Column,
    filled,
    seconds,
    shown,
    text_table,
    warning_of_noise,
    wrapped,
)  # fmt: skip

_LEGEND = """best: the shortest sample; the speed is that of the median.
peak: share of the measured peak. roof: share of what the lowest of its measured
limits allows."""


@dataclass(frozen=True)
class Row:
    """One backend at a listed product: its record, and the shares that it reaches; None where nothing was measured."""

    record: Record
    share_of_peak: float | None
    limit: Limit | None

    @property
    def share_of_roof(self) -> float | None:
        """The share of what the lowest limit allows."""
        return None if self.limit is None else self.limit.share


@dataclass(frozen=True)
class CaseVerdict:
    """A listed product on a device: its rows, the fastest first, and those that nothing came out faster than."""

    name: str
    device: str
    rows: tuple[Row, ...]
    others: tuple[Record, ...]  # that were not timed

    @property
    def winners(self) -> list[str]:
        """The fastest backend, and all whose times overlap with its own."""
        first = self.rows[0].record
        return [name_of(row.record) for row in self.rows if row.record is first or overlap(row.record, first)]

    @property
    def problem(self) -> str:
        """Extents, layout and dtype."""
        record = (*(row.record for row in self.rows), *self.others)[0]
        return f"{problem_text(record)}, {record['problem']['dtype']}"

    @property
    def text(self) -> str:
        """The verdict in a sentence."""
        if not self.rows:
            return "No backend was timed."
        best, winners = self.rows[0], self.winners
        text = f"{listed(winners)}{', no difference seen' * (len(winners) > 1)}: "
        text += f"{number(best.record['gflop_per_s'])} GFLOP/s"
        if best.share_of_peak is not None:
            text += f", {percent(best.share_of_peak)} of peak"
        if best.limit is not None:
            text += f", {percent(best.limit.share)} of what {best.limit.name} allows"
        return f"{text}{', noisy' * bool(best.record['noisy'])}."


def of_cases(records: Sequence[Record], cases: Sequence[Case]) -> list[Record]:
    """The records of listed products, in the order of the list and with its names, and all ceilings after them.

    A product is found by its sizes, batch, layout and dtype, whatever name or suite it was measured under.
    """
    products = grouped((one for one in records if one["kind"] == "gemm"), _sort_of)
    found: list[Record] = []
    for case in cases:
        key = (case.m, case.n, case.k, case.batch, case.layout, case.dtype)
        named = {"suite": SUITE, "label": case.label}
        found += [{**one, "problem": {**one["problem"], **named}} for one in products.get(key, ())]
    return found + [one for one in records if one["kind"] != "gemm"]


def verdicts_of_cases(records: Sequence[Record]) -> list[CaseVerdict]:
    """A verdict for each listed product, in the order of the records, a device after the other."""
    found = []
    for device in devices(records):
        group_of = {id(record): group for group in device.groups for record in group.products}
        listed_here = [one for one in device.records if one["kind"] == "gemm" and one["problem"]["suite"] == SUITE]
        for own in grouped(listed_here, lambda one: (one["problem"]["label"], *_sort_of(one))).values():
            timed = sorted(filter(is_good, own), key=itemgetter("median_s"))
            rows = tuple(_row(group_of.get(id(record)), record) for record in timed)
            others = tuple(record for record in own if not is_good(record))
            found.append(CaseVerdict(str(own[0]["problem"]["label"]), device.name, rows, others))
    return found


def cases_text(records: Sequence[Record]) -> str:
    """The verdict on each listed product, and its backends below it, in 80 columns."""
    judged = verdicts_of_cases(records)
    title = {id(row): f"{case.name}: {case.problem}. {case.text}" for case in judged for row in case.rows}
    rows = [row for case in judged for row in case.rows]
    table = text_table(rows, filled(_COLUMNS, rows), lambda row: title[id(row)])
    noise = warning_of_noise(row.record for row in rows)
    parts = [*filter(None, [wrapped(noise)]), table, f"{_LEGEND}\n{LEGEND}"] if rows else []
    for case in judged:
        parts += [wrapped(f"{case.name}: {case.problem}. {case.text}")] * (not case.rows)
        parts += [wrapped(f"{case.name}: {name_of(one)} {one['status']}: {one['reason']}") for one in case.others]
    return "\n\n".join(parts)


_COLUMNS = [
    Column("backend", lambda row: name_of(row.record), number=False),
    Column("thr", lambda row: THREADS.cell(row.record)),
    Column("best", lambda row: seconds(row.record["min_s"])),
    Column("median", lambda row: seconds(row.record["median_s"])),
    Column("GFLOP/s", lambda row: SPEED.cell(row.record)),
    Column("peak", lambda row: shown(percent, row.share_of_peak)),
    Column("roof", lambda row: shown(percent, row.share_of_roof)),
    Column("noise", lambda row: NOISE.cell(row.record)),
    Column("err/bd", lambda row: ERROR.cell(row.record)),
]  # fmt: skip


def _sort_of(record: Record) -> tuple[object, ...]:
    *sizes, _ = problem_key(record)
    return (*sizes, record["problem"]["dtype"])


def _row(group: Group | None, record: Record) -> Row:
    if group is None:  # the same backend did it on more threads
        return Row(record, None, None)
    return Row(record, share_of_peak(group, record), lowest_limit(group, record))
