"""The page: verdicts, figures and tables in the places that the template gives them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import jinja2
from markupsafe import Markup, escape

from gemmlab.analysis import findings, verdicts
from gemmlab.analysis.groups import Device, devices
from gemmlab.measure.records import Record
from gemmlab.measure.table import warning_of_noise
from gemmlab.report import method, tables
from gemmlab.report.directory import PAGE, written_into
from gemmlab.report.drawing import DARK, inline, save, variable
from gemmlab.report.figure_set import NamedFigure, figures_of, numbered, styles_of
from gemmlab.report.points import Facts, markers_of

TEMPLATE = "page.html"


def write(records: Sequence[Record], directory: Path) -> Path:
    """Write the page and the figures; see `gemmlab.report.render`."""
    if not records:
        raise ValueError("there are no records to report on")
    with written_into(directory) as drafts:
        points: dict[str, Facts] = {}  # what each point of a figure shows, by the point's id
        sections: list[dict[str, object]] = []
        ladders: list[dict[str, object]] = []  # GPU rungs on a CPU, beside another device
        for number, device in enumerate(devices(records)):
            looks = styles_of(device)
            section = {"styles": looks, **_section(device, _slug(number))}
            if sections and device.through and not device.ceilings:
                ladders.append(section)
                continue
            figures = [_figure(drawn, number, drafts, points) for drawn in figures_of(device, looks)]
            sections.append({"lead": _lead(figures), "figures": figures, **section})
        html = _template().render(
            sections=sections,
            ladders=ladders,
            colours={variable(light): (light, dark) for light, dark in DARK.items()},
            points=points,
            source=findings.papers()["sources"]["R"],
            measured=max(str(record["time_utc"] or "") for record in records)[:10],
            version=next((v for record in records if (v := record["environment"].get("gemmlab"))), ""),
            runs=len({record["run_id"] for record in records}),
            count=len(records),
            noise=warning_of_noise(records),
        )
        (drafts / PAGE).write_text(html, encoding="utf-8")
    return directory / PAGE


def _slug(number: int) -> str:
    return f"device{number + 1}"


def _section(device: Device, slug: str) -> dict[str, object]:
    """What the page says of one device, by the template's names."""
    main, *others = device.groups
    judged = _findings(device)
    remarks = [device.through, *(next(iter(verdicts.answers(group).values())) for group in others)]

    def anchored(made: Sequence[tables.Table]) -> list[tables.Table]:
        return [replace(table, slug=f"{slug}-{table.slug}") for table in made if table.rows]

    return {
        "slug": slug,
        "name": device.name,
        "headline": main.title,
        "answers": verdicts.answers(main),
        "remarks": list(filter(None, remarks)),
        "verdicts": verdicts.verdicts(main),
        "cases": anchored([tables.cases(device.records)]),
        "results": anchored([table for group in device.groups for table in tables.results(group)]),
        "traffic": anchored([table for group in device.groups for table in tables.levels(group)]),
        "ceilings": anchored(tables.ceilings(device.ceilings)),
        "findings": judged,
        "findings_summary": findings.summary(judged) if judged else "",
        "environment": anchored([tables.environment(device.records), tables.thread_pools(device.records)]),
        "method": list(method.how_measured(device.records)),
    }


def _findings(device: Device) -> list[findings.Finding]:
    """The source's findings, judged on its number type, float32; none without the backends that it measured."""
    group = next((group for group in device.groups if group.dtype == "float32"), device.groups[0])
    return findings.cpu_findings(group) if findings.concerns(group) else []


def _figure(drawn: NamedFigure, number: int, drafts: Path, points: dict[str, Facts]) -> dict[str, str]:
    """Save a figure, add the facts of its points to `points`, and return what the template places."""
    name = numbered(drawn.name, number)
    svg = inline(save(drawn.figure, drafts / name), name, str(escape(drawn.title)))
    for key, marker in markers_of(drawn.figure).items():
        points[f"{name}-{key}"] = {"Backend": marker.backend, **marker.facts}
    return {"kind": drawn.kind, "name": name, "title": drawn.title, "svg": Markup(svg),
            "table": f"{_slug(number)}-{drawn.table}"}  # fmt: skip


def _lead(figures: list[dict[str, str]]) -> dict[str, str] | None:
    """The first figure of a page, out of its two forms, which are removed from the others; None without a roofline."""
    if not (figures and figures[0]["kind"] == "wide-roofline"):
        return None
    wide, narrow = figures.pop(0), figures.pop(0)
    both = Markup('<div class="wide">{}</div><div class="narrow">{}</div>').format(wide["svg"], narrow["svg"])
    return {**narrow, "svg": both}


def _template() -> jinja2.Template:
    source = (files("gemmlab") / "report" / TEMPLATE).read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["prose"] = _prose
    environment.policies["json.dumps_kwargs"] = {}  # keeps the order of the facts
    return environment.from_string(source)


def _prose(text: str, names: Sequence[str]) -> Markup:
    """Text with the backends' names in code type, and with numbers kept on one line with their units."""
    text = re.sub(r"(?<=\d) (?=GFLOP/s|%|GB/s|times|threads?\b)|(?<=[A-Za-z]) (?== )|(?<==) ", "\u00a0", text)
    if not names:
        return escape(text)
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    parts = re.split(rf"(?<![\w-])({known})(?![\w-])", text)
    return Markup("").join(Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts))
