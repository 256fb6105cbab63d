"""Which figures a report has, in which order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from gemmlab.analysis.groups import USER_SUITE, Device, Group, devices, in_order
from gemmlab.measure.comparison import Pair, compare
from gemmlab.measure.records import Record
from gemmlab.report.directory import written_into
from gemmlab.report.drawing import WIDE_INCHES, Styles, save, styles
from gemmlab.report.roofline_figures import comparison, levels, roofline
from gemmlab.report.speed_figures import bandwidth, products_of, speed
from gemmlab.report.tables import levels_slug, results_slug, sweep_slug

ENDINGS = (".svg", ".png")


@dataclass(frozen=True)
class NamedFigure:
    """A figure with its file name, title, and the anchor of the table with its numbers.

    The template has a caption for each `kind`.
    """

    kind: str
    name: str
    figure: Figure
    title: str
    table: str


# The figures of a group: the function that draws each, and its title.
GROUP_FIGURES: dict[str, tuple[Callable[[Group, Styles], Figure | None], str]] = {
    "wide-roofline": (partial(roofline, width_inches=WIDE_INCHES), "Roofline"),
    "roofline": (roofline, "Roofline"),
    "levels": (levels, "Roofline level by level"),
    "speed": (speed, "Speed over size"),
}


def styles_of(device: Device) -> Styles:
    """A style for every backend of a device."""
    return styles(in_order(record["backend"] for group in device.groups for record in group.products))


def figures_of(device: Device, looks: Styles) -> Iterator[NamedFigure]:
    """Every figure of a device for which there are records, in the order of the page.

    Every group has its speeds, and rooflines if its number type is new; suites and bandwidth are of the first group.
    The first group's roofline comes twice, as wide as the page and for a phone.
    """
    main = device.groups[0]
    for i, group in enumerate(device.groups):
        is_new = group.dtype not in {before.dtype for before in device.groups[:i]}
        kinds = ["wide-roofline"] * (i == 0) + ["roofline", "levels"] * is_new + ["speed"]
        yield from _of_group(group, looks, kinds)
    for suite in dict.fromkeys(record["problem"]["suite"] for record in main.products):
        if (figure := products_of(main, looks, suite)) is not None:
            name = f"{re.sub(r'[^a-z0-9]+', '-', suite.lower())}-{main.slug}"
            yield NamedFigure("suite", name, figure, f"Suite “{suite}”, {main.title}", results_slug(main, suite))
    if (figure := bandwidth(main)) is not None:
        yield NamedFigure("bandwidth", "bandwidth", figure, "Bandwidth of the memory", sweep_slug(main.threads))


def _of_group(group: Group, looks: Styles, kinds: Sequence[str]) -> Iterator[NamedFigure]:
    for kind in kinds:
        draw, title = GROUP_FIGURES[kind]
        if (figure := draw(group, looks)) is not None:
            table = levels_slug(group) if kind == "levels" else _numbers_of(group)
            yield NamedFigure(kind, f"{kind}-{group.slug}", figure, f"{title}, {group.title}", table)


def _numbers_of(group: Group) -> str:
    """The anchor of the table with a group's squares, or of the first suite there is."""
    suites = [record["problem"]["suite"] for record in group.products if record["problem"]["suite"] != USER_SUITE]
    return results_slug(group, suites[0] if suites else USER_SUITE) if group.products else "ceilings-bandwidth"


def numbered(name: str, number: int) -> str:
    """A figure's name for the device with this number; the first has none in its names."""
    return f"{name}-device{number + 1}" if number else name


def draw_rooflines(records: Sequence[Record], directory: Path) -> list[Path]:
    """Draw the rooflines, and speed over size, of every group of some records; see `gemmlab.report.draw_rooflines`."""
    found = {}
    for i, device in enumerate(devices(records)):
        looks = styles_of(device)
        for group in device.groups:
            for drawn in _of_group(group, looks, ("roofline", "levels", "speed")):
                found[numbered(drawn.name, i)] = drawn.figure
    if not found:
        raise ValueError("there is neither a timed product nor a ceiling to draw a roofline from")
    return _save_all(found, directory)


def draw_comparison(
    old: Sequence[Record], new: Sequence[Record], names: tuple[str, str], directory: Path
) -> list[Path]:
    """Draw the groups that two runs have in common; see `gemmlab.report.draw_comparison`."""
    pairs = {id(pair.new): pair for pair in compare(old, new).products}
    shared = _shared_groups(old, new, pairs)
    drawn = {name: comparison(before, after, pairs, names) for name, before, after in shared}
    return _save_all({name: figure for name, figure in drawn.items() if figure is not None}, directory)


def _shared_groups(
    old: Sequence[Record], new: Sequence[Record], pairs: dict[int, Pair]
) -> Iterator[tuple[str, Group, Group]]:
    """The groups of the products that both runs have: the figure's name, the older group and the newer one."""
    sides = [
        [pair.old for pair in pairs.values()] + [record for record in old if record["kind"] == "ceiling"],
        [pair.new for pair in pairs.values()] + [record for record in new if record["kind"] == "ceiling"],
    ]
    before, after = ({(own.name, group.slug): group for own in devices(side) for group in own.groups} for side in sides)
    names = list(dict.fromkeys(device for device, _ in after))
    for device, slug in after:
        if (device, slug) in before:
            name = numbered(f"comparison-{slug}", names.index(device))
            yield name, before[device, slug], after[device, slug]


def _save_all(figures: dict[str, Figure], directory: Path) -> list[Path]:
    with written_into(directory) as drafts:
        for name, figure in figures.items():
            save(figure, drafts / name)
    return [directory / f"{name}{ending}" for name in figures for ending in ENDINGS]
