"""A study as text: what was asked and timed, the source's figures beside ours, and what stands of its findings."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence

from gemmlab.measure.records import name_of
from gemmlab.measure.table import WIDTH, Column, seconds, text_table
from gemmlab.report.findings import papers, summary
from gemmlab.report.words import DASH, listed, number, percent
from gemmlab.roofline.model import peak_of
from gemmlab.studies.curves import Part, of_study, ordered, speed_ups
from gemmlab.studies.findings import judged
from gemmlab.studies.study import Curves, Record, Study, X

# The sources in English; what else is known of them stands in papers.json.
SOURCES = {
    "R": "oneAPI matrix multiplication report, Nizhny Novgorod 2021",
    "O": "Chinese oneAPI exercise report, matrices of 512 x 512",
    "G": "Chinese GPU laboratory report",
    "X": "Xiao et al. 2020, matrix multiplication in OpenCL",
    "P": "write-up of a contest on the GPP kernel in oneAPI, 2022",
}
_ANYWHERE = "any"


def text_of(study: Study, found: Sequence[Part], records: Sequence[Record]) -> str:
    """The whole text, in 80 columns."""
    blocks = [f"{study.name}\n{'=' * len(study.name)}", wrapped(study.question), _head(study)]
    for part in found:
        title = wrapped(part.title)
        blocks.append(f"{title}\n{'-' * max(map(len, title.splitlines()))}")
        blocks += _tables(part, records)
        if study.details is not None:
            blocks.append(study.details(part.products))
        blocks.append(_findings(study, part))
    if study.words is not None:
        blocks += study.words(of_study(study, records))
    blocks.append(_not_measured(study, records))
    return "\n\n".join(filter(None, blocks))


def _head(study: Study) -> str:
    said = [("Source", _source(letter)) for letter in study.source.split(", ") if letter] + [("Timed", study.timed)]
    return "\n".join(wrapped(text, f"{name:<8}", " " * 8) for name, text in said)


def _source(letter: str) -> str:
    source = papers()["sources"][letter]
    return f"{letter}: {'; '.join(filter(None, (SOURCES[letter], source.get('hardware'), source.get('dtype'))))}"


def _tables(part: Part, records: Sequence[Record]) -> Iterator[str]:
    """The source's times and ours, the speed-ups, and what a ladder is measured by besides."""
    study = part.study
    their_times: Curves = study.theirs if study.theirs_in_seconds else {}
    timed = "Time of the kernels" if study.by_kernel else "Time of a product"
    yield from _table(timed, part, their_times, part.times, seconds)
    theirs, ours = speed_ups(study, study.theirs), speed_ups(study, part.times)
    yield from _table(f"Speed-up over {study.over}", part, theirs, ours, number)
    if study.ceilings_s:
        rates = {name: {x: record["gflop_per_s"] for x, record in own.items()} for name, own in part.curves.items()}
        yield from _table("GFLOP/s", part, {}, rates, number)
        peak = peak_of(records)
        shares = {
            name: {x: record["gflop_per_s"] / top for x, record in own.items() if (top := peak(record))}
            for name, own in part.curves.items()
        }
        yield from _table("Share of the measured peak", part, {}, shares, percent)


def _table(
    title: str, part: Part, theirs: Curves, ours: Curves, shown: Callable[[float], str]
) -> Iterator[str]:
    """Rows along what is varied, in as many tables as their width asks for.

    Where the source has a line that we have too, its rows stand above ours; else its lines are columns of their own.
    """
    if not any(ours.values()):
        return
    study = part.study
    lines = list(dict.fromkeys([*(name for name in part.curves if name in ours), *theirs]))
    leading = [Column(study.x_name, lambda row: row["x"])]
    if theirs.keys() & ours.keys():
        leading.append(Column("", lambda row: row["who"], number=False))
        rows = list(_rows({study.source: theirs, "here": ours}))
    else:
        rows = list(_rows({"": {**theirs, **ours}}))
    for number_of_table, names in enumerate(_fitting(lines, leading, rows, shown)):
        columns = [*leading, *(_column(name, shown) for name in names)]
        heading = title if not number_of_table else f"{title}, continued"
        yield f"{heading}\n\n{text_table(rows, columns)}"


def _column(name: str, shown: Callable[[float], str]) -> Column:
    return Column(name, lambda row: shown(row["values"][name]) if name in row["values"] else DASH)


def _rows(whose: Mapping[str, Curves]) -> Iterator[Mapping[str, object]]:
    for x in ordered(x for curves in whose.values() for own in curves.values() for x in own):
        label = _ANYWHERE if x is None else str(x)
        for who, curves in whose.items():
            values = {name: own[x] for name, own in curves.items() if x in own}
            if values:
                yield {"x": label, "who": who, "values": values}
                label = ""


def _fitting(
    names: Sequence[str], leading: Sequence[Column], rows: Sequence[Mapping[str, object]], shown: Callable[[float], str]
) -> Iterator[list[str]]:
    """Cut names into runs whose columns fit into a line."""

    def width(columns: Sequence[Column]) -> int:
        return max(map(len, text_table(rows, columns).splitlines()))

    run: list[str] = []
    for name in names:
        if run and width([*leading, *(_column(one, shown) for one in (*run, name))]) > WIDTH:
            yield run
            run = []
        run.append(name)
    if run:
        yield run


def _findings(study: Study, part: Part) -> str:
    found = judged(study, part)
    if not found:
        return ""
    whose = f"{study.source}: " if len(study.source) == 1 else ""  # of several, the figure says whose it is
    said = [f"{whose}{finding.claim}: {finding.theirs}. {finding.text}" for finding in found]
    counted = summary(found, "findings" if len(found) > 1 else "finding")
    return "\n".join([wrapped(counted), "", *(wrapped(text, "* ", "  ") for text in said)])


def _not_measured(study: Study, records: Sequence[Record]) -> str:
    """Everything without a time, with its reason; places of the same backend with the same reason in one line."""
    places: dict[tuple[str, str, str], list[X]] = {}
    for record in of_study(study, records):
        if record["status"] != "ok":
            key = name_of(record), record["status"], str(record["reason"] or "no reason was recorded")
            places.setdefault(key, []).append(study.x(record) if record["problem"]["label"] else None)
    names: dict[tuple[str, str, str], list[str]] = {}
    for (name, status, why), xs in places.items():
        where = listed([str(x) for x in ordered(xs) if x is not None])
        names.setdefault((f" at {study.x_name} {where}" if where else "", status, why), []).append(name)
    lines = [wrapped(f"{', '.join(own)}{where}, {status}: {why}", "  ", "      ")
             for (where, status, why), own in names.items()]  # fmt: skip
    return "\n".join(["Not measured:", *lines]) if lines else ""


def wrapped(text: str, first: str = "", later: str = "") -> str:
    """Text in 80 columns; a number stays with its sign."""
    whole = text.replace(" %", "\xa0%").replace(" = ", "\xa0=\xa0")
    filled = textwrap.fill(whole, WIDTH, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)
    return filled.replace("\xa0", " ")
