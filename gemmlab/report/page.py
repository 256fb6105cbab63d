"""The page: verdicts, figures and tables put in their places by the template."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from gemmlab.report import findings, method, tables, verdicts
from gemmlab.report.album import Drawn, album, looks_of, numbered
from gemmlab.report.dots import dots_of
from gemmlab.report.drawing import DARK, Style, inline, save, variable
from gemmlab.report.folder import PAGE, written_into
from gemmlab.report.groups import Device, Record, devices

TEMPLATE = "page.html"


@dataclass(frozen=True)
class Shown:
    """A figure on the page: its drawing as an element, its words, and the anchor of the table with its numbers.

    `dots` has what each of its dots says when it is pointed at, by the dot's id: facts by their names.
    """

    name: str
    title: str
    caption: str
    svg: Markup
    table: str
    dots: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Section:
    """Everything that the page says of one device."""

    slug: str
    name: str
    headline: str
    answers: Mapping[str, str]
    asides: list[str]
    verdicts: list[verdicts.Verdict]
    styles: Mapping[str, Style]
    figures: list[Shown]
    results: list[tables.Table]
    traffic: list[tables.Table]
    ceilings: list[tables.Table]
    findings: list[findings.Finding]
    findings_summary: str
    environment: list[tables.Table]
    method: list[str]


def write(records: Sequence[Record], directory: Path) -> Path:
    """Write the page and the figures; see `gemmlab.report.render`."""
    if not records:
        raise ValueError("there are no records to report on")
    with written_into(directory) as drafts:
        sections = [_section(device, number, drafts) for number, device in enumerate(devices(records))]
        html = _template().render(
            sections=sections,
            colours={variable(light): (light, dark) for light, dark in DARK.items()},
            dots={dot: facts for section in sections for shown in section.figures for dot, facts in shown.dots.items()},
            ceiling_caveat=method.CEILING_CAVEAT,
            traffic_caveat=method.TRAFFIC_CAVEAT,
            source=findings.papers()["sources"]["R"],
            measured=max(str(record["time_utc"] or "") for record in records)[:10],
            version=next((v for record in records if (v := record["environment"].get("gemmlab"))), ""),
            runs=len({record["run_id"] for record in records}),
            count=len(records),
        )
        (drafts / PAGE).write_text(html, encoding="utf-8")
    return directory / PAGE


def _section(device: Device, number: int, drafts: Path) -> Section:
    slug = f"device{number + 1}"
    main, *others = device.groups
    looks = looks_of(device)
    judged = _judged(device)
    environment = [tables.environment(device.records), tables.thread_pools(device.records)]
    asides = [verdicts.own_matrices(main), *(verdicts.answer(group)[0] for group in others)]
    return Section(
        slug=slug,
        name=device.name,
        headline=main.title,
        answers=verdicts.answers(main),
        asides=[text for text in asides if text],
        verdicts=verdicts.verdicts(main, others),
        styles=looks,
        figures=[_show(drawn, slug, number, drafts) for drawn in album(device, looks)],
        results=[_under(slug, table) for group in device.groups for table in tables.results(group)],
        traffic=[_under(slug, table) for group in device.groups for table in tables.levels(group)],
        ceilings=[_under(slug, table) for table in tables.ceilings(device.ceilings)],
        findings=judged,
        findings_summary=findings.summary(judged) if judged else "",
        environment=[_under(slug, table) for table in environment if table.rows],
        method=method.how_measured(device.records),
    )


def _judged(device: Device) -> list[findings.Finding]:
    """The source's findings on the group most like its own (float32); none without its backends."""
    group = next((group for group in device.groups if group.dtype == "float32"), device.groups[0])
    return findings.findings(group) if findings.concerns(group) else []


def _show(drawn: Drawn, slug: str, number: int, drafts: Path) -> Shown:
    name = numbered(drawn.name, number)
    svg = inline(save(drawn.figure, drafts / name), name, str(escape(f"{drawn.title}. {drawn.caption}")))
    dots = {f"{name}-{dot}": {"Backend": found.backend, **found.facts} for dot, found in dots_of(drawn.figure).items()}
    return Shown(name, drawn.title, drawn.caption, Markup(svg), f"{slug}-{drawn.table}", dots)


def _under(slug: str, table: tables.Table) -> tables.Table:
    """The table with an anchor of its own device."""
    return replace(table, slug=f"{slug}-{table.slug}")


def _template() -> jinja2.Template:
    source = (files("gemmlab") / "report" / TEMPLATE).read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["prose"] = _prose
    environment.policies["json.dumps_kwargs"] = {}  # facts stay in their order
    return environment.from_string(source)


def _prose(text: str, names: Sequence[str]) -> Markup:
    """Text for reading: backends' names set apart, and a number kept on one line with its unit."""
    text = re.sub(r"(?<=\d) (?=GFLOP/s|%|GB/s|times|threads?\b)|(?<=[A-Za-z]) (?== )|(?<==) ", "\u00a0", text)
    if not names:
        return escape(text)
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    parts = re.split(rf"(?<![\w-])({known})(?![\w-])", text)
    return Markup("").join(Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts))
