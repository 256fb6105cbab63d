"""A study as text: the question, the source's figures beside ours, and whether its findings hold."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from gemmlab._words import DASH, listed, number, percent
from gemmlab.analysis.findings import papers, summary
from gemmlab.measure.records import Record, name_of
from gemmlab.measure.table import WIDTH, Column, seconds, text_table
from gemmlab.roofline.model import peak_of
from gemmlab.studies.curves import Scenario, of_study, ordered, speed_ups
from gemmlab.studies.judges import judged
from gemmlab.studies.study import Curves, Study, X

# The sources in English; papers.json has all that is known of them.
SOURCES = {
    "R": "oneAPI matrix multiplication report, Nizhny Novgorod 2021",
    "O": "Chinese oneAPI exercise report, matrices of 512 x 512",
    "G": "Chinese GPU laboratory report",
    "X": "Xiao et al. 2020, matrix multiplication in OpenCL",
    "P": "write-up of a contest on the GPP kernel in oneAPI, 2022",
}


class Line(NamedTuple):
    """A line of a table: its x, whose figures they are, and the figures by series."""

    x: str
    whose: str
    values: Mapping[str, float]


def text_of(study: Study, found: Sequence[Scenario], records: Sequence[Record]) -> str:
    """The whole text, in 80 columns."""
    blocks = [f"{study.name}\n{'=' * len(study.name)}", wrapped(study.question), _head(study)]
    for scenario in found:
        title = wrapped(scenario.title)
        blocks.append(f"{title}\n{'-' * max(map(len, title.splitlines()))}")
        blocks += [*_tables(scenario, records), _findings(study, scenario)]
    blocks += [*study.blocks(of_study(study, records)), _not_measured(study, records)]
    return "\n\n".join(filter(None, blocks))


def _head(study: Study) -> str:
    said = [("Source", _source(letter)) for letter in study.source.split(", ") if letter] + [("Timed", study.timed)]
    return "\n".join(wrapped(text, f"{name:<8}", " " * 8) for name, text in said)


def _source(letter: str) -> str:
    source = papers()["sources"][letter]
    return f"{letter}: {'; '.join(filter(None, (SOURCES[letter], source.get('hardware'), source.get('dtype'))))}"


def _tables(scenario: Scenario, records: Sequence[Record]) -> Iterator[str]:
    """The source's times and ours, and the speed-ups; with ceilings, also speeds and shares of the peak."""
    study = scenario.study
    timed = "Time of the kernels" if study.by_kernel else "Time of a product"
    yield from _table(timed, scenario, study.theirs if study.theirs_in_seconds else {}, scenario.times, seconds)
    theirs, ours = speed_ups(study, study.theirs), speed_ups(study, scenario.times)
    yield from _table(f"Speed-up over {study.over}", scenario, theirs, ours, number)
    if study.ceilings_s:
        peak, curves = peak_of(records), scenario.curves.items()
        rates = {name: {x: record["gflop_per_s"] for x, record in own.items()} for name, own in curves}
        shares = {name: {x: record["gflop_per_s"] / top for x, record in own.items() if (top := peak(record))}
                  for name, own in curves}  # fmt: skip
        yield from _table("GFLOP/s", scenario, {}, rates, number)
        yield from _table("Share of the measured peak", scenario, {}, shares, percent)


def _table(
    title: str, scenario: Scenario, theirs: Curves, ours: Curves, shown: Callable[[float], str]
) -> Iterator[str]:
    """Lines along what is varied, in as many tables as their width needs.

    Where the source has a series that we have too, its lines are above ours; else its series have separate columns.
    """
    if not any(ours.values()):
        return
    study = scenario.study
    leading = [Column(study.x_name, lambda line: line.x)]
    if theirs.keys() & ours.keys():
        leading.append(Column("", lambda line: line.whose, number=False))
        lines = list(_lines({study.source: theirs, "here": ours}))
    else:
        lines = list(_lines({"": {**theirs, **ours}}))

    def text_with(series: Sequence[str]) -> str:
        return text_table(lines, [*leading, *(Column(name, partial(_cell, name, shown)) for name in series)])

    tables: list[list[str]] = [[]]
    for name in dict.fromkeys([*(name for name in scenario.curves if name in ours), *theirs]):
        is_full = tables[-1] and max(map(len, text_with([*tables[-1], name]).splitlines())) > WIDTH
        tables += [[]] if is_full else []
        tables[-1].append(name)
    for i, series in enumerate(tables):
        yield f"{title}{', continued' * bool(i)}\n\n{text_with(series)}"


def _cell(series: str, shown: Callable[[float], str], line: Line) -> str:
    return shown(line.values[series]) if series in line.values else DASH


def _lines(curves_by_whose: Mapping[str, Curves]) -> Iterator[Line]:
    for x in ordered(x for curves in curves_by_whose.values() for own in curves.values() for x in own):
        label = "any" if x is None else str(x)
        for whose, curves in curves_by_whose.items():
            if values := {name: own[x] for name, own in curves.items() if x in own}:
                yield Line(label, whose, values)
                label = ""


def _findings(study: Study, scenario: Scenario) -> str:
    found = judged(study, scenario)
    if not found:
        return ""
    source = f"{study.source}: " if len(study.source) == 1 else ""  # of several, the figure names its source
    said = [f"{source}{finding.claim}: {finding.theirs}. {finding.text}" for finding in found]
    counted = summary(found, "findings" if len(found) > 1 else "finding")
    return "\n".join([wrapped(counted), "", *(wrapped(text, "* ", "  ") for text in said)])


def _not_measured(study: Study, records: Sequence[Record]) -> str:
    """Everything without a time and its reason, in one line where backends have the same positions and reason."""
    positions: dict[tuple[str, str, str], list[X]] = {}
    for record in of_study(study, records):
        if record["status"] != "ok":
            key = name_of(record), record["status"], str(record["reason"] or "no reason was recorded")
            positions.setdefault(key, []).append(study.x(record) if record["problem"]["label"] else None)
    names: dict[tuple[str, str, str], list[str]] = {}
    for (name, status, why), xs in positions.items():
        where = listed([str(x) for x in ordered(xs) if x is not None])
        names.setdefault((f" at {study.x_name} {where}" if where else "", status, why), []).append(name)
    lines = [wrapped(f"{', '.join(own)}{where}, {status}: {why}", "  ", "      ")
             for (where, status, why), own in names.items()]  # fmt: skip
    return "\n".join(["Not measured:", *lines]) if lines else ""


def wrapped(text: str, first: str = "", later: str = "") -> str:
    """Text in 80 columns; a number stays on the line of its sign."""
    whole = text.replace(" %", "\xa0%").replace(" = ", "\xa0=\xa0")
    filled = textwrap.fill(whole, WIDTH, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)
    return filled.replace("\xa0", " ")


def listing_text(listed_studies: Sequence[Mapping[str, str]]) -> str:
    """What `listing` of the catalogue says, in 80 columns, with the names of the sources below."""
    rows = [(f"{row['name']:<17}{row['source']:<6}", row["question"]) for row in listed_studies]
    rows += [("", "")] + [(f"{letter}  ", title) for letter, title in SOURCES.items()]
    return "\n".join(wrapped(text, head, " " * len(head)) for head, text in rows)
