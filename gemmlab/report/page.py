"""The page: verdicts, figures and tables put in order, and written so that nothing is left half-written."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import jinja2
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from gemmlab._errors import CannotWrite
from gemmlab.report import figures, findings, machine_figures, method, tables, verdicts
from gemmlab.report.drawing import Style, inline, save, styles
from gemmlab.report.groups import Device, Group, Record, devices, in_order, name_of

PAGE, TEMPLATE = "index.html", "page.html"


@dataclass(frozen=True)
class Shown:
    """A figure on the page: the drawing as SVG, its files' name, and the table with its numbers."""

    name: str
    title: str
    caption: str
    svg: Markup
    table: str


@dataclass(frozen=True)
class Section:
    """Everything that the page says of one device."""

    slug: str
    name: str
    headline: str
    answer: list[str]
    asides: list[str]
    verdicts: list[verdicts.Verdict]
    styles: Mapping[str, Style]
    figures: list[Shown]
    results: list[tables.Table]
    ceilings: list[tables.Table]
    findings: list[findings.Finding]
    findings_summary: str
    environment: list[tables.Table]
    method: list[str]


def write(records: Sequence[Record], directory: Path) -> Path:
    """Write the page and the figures; see `gemmlab.report.render`."""
    if not records:
        raise ValueError("there is no record to report on")
    directory = Path(directory)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        # Beside the directory, so that moving into place stays within one file system.
        drafts = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
        try:
            _draft(records, drafts)
            _move(drafts, directory)
        finally:
            shutil.rmtree(drafts, ignore_errors=True)
    except OSError as error:
        raise CannotWrite(f"cannot write {directory}: {error.strerror or error}") from None
    return directory / PAGE


def write_rooflines(records: Sequence[Record], directory: Path) -> list[Path]:
    """Write the roofline figures alone; see `gemmlab.report.draw_rooflines`."""
    drawn = []
    for index, device in enumerate(devices(records)):
        looks = styles(in_order(name_of(record) for group in device.groups for record in group.products))
        for group in {group.dtype: group for group in reversed(device.groups)}.values():
            if (figure := figures.roofline(group, looks)) is not None:
                stem = directory / f"roofline-{group.slug}{f'-device{index + 1}' if index else ''}"
                try:
                    save(figure, stem)
                except OSError as error:
                    raise CannotWrite(f"cannot write into {directory}: {error.strerror or error}") from None
                drawn += [Path(f"{stem}.svg"), Path(f"{stem}.png")]
    if not drawn:
        raise ValueError("no product in these records to draw: measure some with gemmlab roofline or gemmlab bench")
    return drawn


def _draft(records: Sequence[Record], drafts: Path) -> None:
    sections = [_section(device, i, drafts) for i, device in enumerate(devices(records))]
    html = _template().render(
        sections=sections,
        caveats=[method.CEILING_CAVEAT, method.MODEL_CAVEAT],
        measured=max(str(record["time_utc"] or "") for record in records)[:10],
        version=next((v for record in records if (v := record["environment"].get("gemmlab"))), ""),
        source=findings.papers()["sources"]["R"],
        runs=len({record["run_id"] for record in records}),
        count=len(records),
        pieces=[PAGE, *sorted(path.name for path in drafts.iterdir())],
    )
    (drafts / PAGE).write_text(html, encoding="utf-8")


def _move(drafts: Path, directory: Path) -> None:
    """Put every file in its place; the page comes last, so that it never shows before its figures."""
    directory.mkdir(exist_ok=True)
    for path in sorted(drafts.iterdir(), key=lambda path: path.name == PAGE):
        os.replace(path, directory / path.name)


def _section(device: Device, index: int, drafts: Path) -> Section:
    slug = f"device{index + 1}"
    looks = styles(in_order(name_of(record) for group in device.groups for record in group.products))
    main = device.groups[0] if device.groups else None
    judged = _judged(device)
    suffix = f"-{slug}" if index else ""
    results = [_under(slug, table) for group in device.groups for table in tables.results(group)]
    environment = [tables.environment(device.records), tables.thread_pools(device.records)]
    return Section(
        slug=slug,
        name=device.name,
        headline=main.title if main else "",
        answer=verdicts.answer(main) if main else ["No product was measured on this device, only its ceilings."],
        asides=[verdicts.answer(group)[0] for group in device.groups[1:]],
        verdicts=verdicts.verdicts(main) if main else [],
        styles=looks,
        figures=[
            _show(figure, drafts, name + suffix, *words)
            for name, figure, *words in _figures(device, looks, slug)
            if figure is not None
        ],
        results=results,
        ceilings=[_under(slug, table) for table in tables.ceilings(device.ceilings)],
        findings=judged,
        findings_summary=findings.summary(judged) if judged else "",
        environment=[_under(slug, table) for table in environment if table.rows],
        method=method.how_measured(device.records),
    )


def _judged(device: Device) -> list[findings.Finding]:
    """The source's findings on the group most like its own (float32); none without its backends."""
    group = next((group for group in device.groups if group.dtype == "float32"), next(iter(device.groups), None))
    return findings.findings(group) if group and findings.concerns(group) else []


def _under(slug: str, table: tables.Table) -> tables.Table:
    return tables.Table(f"{slug}-{table.slug}", table.caption, table.columns, table.rows, table.words, table.note)


Drawn = tuple[str, Figure | None, str, str, str]


def _figures(device: Device, looks: Mapping[str, Style], slug: str) -> Iterator[Drawn]:
    """Name, drawing, title, caption and table of every figure of a device, in the order of the page."""
    for place, group in enumerate(device.groups):
        main, new_dtype = place == 0, group.dtype not in {before.dtype for before in device.groups[:place]}
        yield from _group_figures(group, looks, f"{slug}-results-{group.slug}", main, new_dtype)
    if device.groups:
        yield (
            "bandwidth", machine_figures.bandwidth(device.groups[0]), "Bandwidth of the memory",
            "Working sets that fit a cache are fast; dotted lines mark the caches of a core.",
            f"{slug}-ceilings-sweep",
        )  # fmt: skip
        yield (
            "multiply-adds", machine_figures.multiply_adds(device.groups[0]), "Multiply-adds by instruction set",
            "The best rate of each instruction set: the arithmetic peak that products are held against.",
            f"{slug}-ceilings-fma",
        )  # fmt: skip


def _group_figures(
    group: Group, looks: Mapping[str, Style], results: str, main: bool, new_dtype: bool
) -> Iterator[Drawn]:
    suites = list(dict.fromkeys(record["problem"]["suite"] for record in group.products))
    table = f"{results}-{suites[0]}".replace(" ", "-")
    if new_dtype:
        yield (
            f"roofline-{group.slug}", figures.roofline(group, looks), f"Roofline, {group.title}",
            "Each line follows a backend from its smallest square to its largest. Slopes are measured bandwidths, "
            "horizontals measured multiply-add rates: a backend below its slope is short of memory, below the top "
            "line short of arithmetic. Small products come from caches, so they may stand above the DRAM slope.",
            table,
        )  # fmt: skip
    yield (
        f"speed-{group.slug}", figures.speed(group, looks), f"Speed over size, {group.title}",
        "The top of the axis is the measured peak; bars run from p20 to p80.", table,
    )  # fmt: skip
    if not main:
        return
    yield (
        f"speed-up-{group.slug}", figures.speed_up(group, looks), f"Speed-up over {figures.REFERENCE}, {group.title}",
        "How many times faster than the plain i-k-j loop on the same product; below 1 is slower.", table,
    )  # fmt: skip
    yield (
        f"accuracy-{group.slug}", figures.accuracy(group, looks), f"Accuracy beside speed, {group.title}",
        "Largest error divided by its bound, at the product each backend is judged by. Right and low is best.", table,
    )  # fmt: skip
    for suite in suites:
        name = re.sub(r"\W+", "-", suite)
        yield (
            f"{name}-{group.slug}", figures.layers(group, looks, suite), f"Suite “{suite}”, {group.title}",
            "A bar reaches to the fastest backend, named on its right; the dark line is the measured peak.",
            f"{results}-{suite}".replace(" ", "-"),
        )  # fmt: skip


def _show(figure: Figure, drafts: Path, name: str, title: str, caption: str, table: str) -> Shown:
    svg = inline(save(figure, drafts / name), name, escape(f"{title}. {caption}"))
    return Shown(name, title, caption, Markup(svg), table)


def _template() -> jinja2.Template:
    source = (files("gemmlab") / "report" / TEMPLATE).read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["prose"] = _prose
    return environment.from_string(source)


def _prose(text: str, names: Sequence[str]) -> Markup:
    """Text for reading: backends' names set apart, and a number kept on one line with its unit."""
    text = re.sub(r"(?<=\d) (?=GFLOP/s|%|GB/s|times|threads?\b)|(?<=[A-Za-z]) (?== )|(?<==) ", "\u00a0", text)
    if not names:
        return escape(text)
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    parts = re.split(rf"(?<![\w-])({known})(?![\w-])", text)
    return Markup("").join(Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts))
