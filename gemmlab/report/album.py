"""Which figures a report shows, in which order, under which words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from gemmlab.report import figures, machine_figures
from gemmlab.report.drawing import Style, save, styles
from gemmlab.report.folder import written_into
from gemmlab.report.groups import OWN_SUITE, Device, Group, Record, devices, in_order
from gemmlab.report.roofs import by_level
from gemmlab.report.tables import levels_slug, results_slug, sweep_slug
from gemmlab.report.words import percent
from gemmlab.roofline.model import model_error

Looks = Mapping[str, Style]


@dataclass(frozen=True)
class Drawn:
    """A figure with its words; `table` is the slug of the table that has its numbers."""

    name: str
    figure: Figure
    title: str
    caption: str
    table: str


def looks_of(device: Device) -> dict[str, Style]:
    """A look for every backend of a device."""
    return styles(in_order(record["backend"] for group in device.groups for record in group.products))


def album(device: Device, looks: Looks) -> Iterator[Drawn]:
    """Every figure of a device for which there are records, in the order of the page.

    The first group has all the figures; another has its speeds, and a roofline if its number type is new.
    """
    main = device.groups[0]
    for place, group in enumerate(device.groups):
        pages = [_speed(group, looks)]
        if group.dtype not in {before.dtype for before in device.groups[:place]}:
            pages[:0] = [_roofline(group, looks), _cache_aware(group, looks)]
        if group is main:
            pages += [_speed_up(group, looks), _accuracy(group, looks)]
        pages += _suites(group, looks) if group is main else []
        yield from filter(None, pages)
    yield from filter(None, (_bandwidth(main), _multiply_adds(main)))


def draw_rooflines(records: Sequence[Record], directory: Path) -> list[Path]:
    """Draw the rooflines, and speed over size, of every group of some records; see `gemmlab.report.draw_rooflines`."""
    names = []
    with written_into(directory) as drafts:
        for number, device in enumerate(devices(records)):
            looks = looks_of(device)
            for group in device.groups:
                for drawn in filter(None, (_roofline(group, looks), _cache_aware(group, looks), _speed(group, looks))):
                    names.append(numbered(drawn.name, number))
                    save(drawn.figure, drafts / names[-1])
        if not names:
            raise ValueError("there is neither a timed product nor a ceiling to draw a roofline from")
    return [directory / f"{name}{ending}" for name in names for ending in (".svg", ".png")]


def numbered(name: str, number: int) -> str:
    """A name for a figure of the device with this number: that of the first has none."""
    return f"{name}-device{number + 1}" if number else name


def _drawn(name: str, figure: Figure | None, title: str, caption: str, table: str) -> Drawn | None:
    return None if figure is None else Drawn(name, figure, title, caption, table)


def _numbers(group: Group) -> str:
    """The table of the squares, or of whatever suite there is first."""
    suites = [record["problem"]["suite"] for record in group.products if record["problem"]["suite"] != OWN_SUITE]
    return results_slug(group, suites[0] if suites else OWN_SUITE) if group.products else "ceilings-bandwidth"


def _roofline(group: Group, looks: Looks) -> Drawn | None:
    return _drawn(
        f"roofline-{group.slug}", figures.roofline(group, looks), f"Roofline, {group.title}",
        "Each line follows a backend from its smallest square to its largest; dashed ones are libraries. Slopes are "
        "measured bandwidths, horizontals measured multiply-add rates, and a band runs from p20 to p80. Where it is "
        "blue, memory is the limit; where it is orange, arithmetic is; between, it depends on the level that the "
        "operands come from. Small products come from caches, so they may stand above the DRAM slope. Bytes are "
        "those of each backend's model, and where it has none, each operand once.",
        _numbers(group),
    )  # fmt: skip


def _cache_aware(group: Group, looks: Looks) -> Drawn | None:
    return _drawn(
        f"levels-{group.slug}", figures.cache_aware(group, looks), f"Roofline level by level, {group.title}",
        "A backend at its largest square has a dot for each level of memory: its flop per byte that comes from that "
        "level. Under its level's slope is where a dot can be; the large one has the lowest roof of the levels that "
        "the operands pass. Full dots count bytes by the backend's model, hollow ones each operand once."
        f"{_disagreement(group)}",
        levels_slug(group),
    )  # fmt: skip


def _disagreement(group: Group) -> str:
    """The largest difference between model and simulation, in a sentence; nothing without a simulation."""
    errors = [(error, backend, level.name) for backend, (record, found) in by_level(group).items() for level in found
              if (error := model_error(record, level.name)) is not None]  # fmt: skip
    if not errors:
        return ""
    error, backend, level = max(errors, key=lambda found: abs(found[0]))
    return (f" The model is at most {percent(abs(error))} {'above' if error > 0 else 'below'} the simulated bytes, "
            f"for {backend} from {level}.")  # fmt: skip


def _speed(group: Group, looks: Looks) -> Drawn | None:
    return _drawn(
        f"speed-{group.slug}", figures.speed(group, looks), f"Speed over size, {group.title}",
        "The top of the axis is the measured peak, unless that is far above; bars run from p20 to p80. The broad grey "
        "line is what memory and arithmetic allow if each operand moves once.", _numbers(group),
    )  # fmt: skip


def _speed_up(group: Group, looks: Looks) -> Drawn | None:
    return _drawn(
        f"speed-up-{group.slug}", figures.speed_up(group, looks), f"Speed-up over {figures.REFERENCE}, {group.title}",
        "How many times the speed of the plain i-k-j loop on the same product; below 1 is slower.", _numbers(group),
    )  # fmt: skip


def _accuracy(group: Group, looks: Looks) -> Drawn | None:
    return _drawn(
        f"accuracy-{group.slug}", figures.accuracy(group, looks), f"Accuracy beside speed, {group.title}",
        "Largest error divided by its bound, at the product each backend is judged by. Right and low is best.",
        _numbers(group),
    )  # fmt: skip


def _suites(group: Group, looks: Looks) -> list[Drawn | None]:
    suites = dict.fromkeys(record["problem"]["suite"] for record in group.products)
    return [
        _drawn(
            f"{re.sub(r'[^a-z0-9]+', '-', suite.lower())}-{group.slug}", figures.layers(group, looks, suite),
            f"Suite “{suite}”, {group.title}",
            "A bar reaches to the fastest backend, named on its right; a dark line is the measured peak.",
            results_slug(group, suite),
        )
        for suite in suites
    ]  # fmt: skip


def _bandwidth(group: Group) -> Drawn | None:
    return _drawn(
        "bandwidth", machine_figures.bandwidth(group), "Bandwidth of the memory",
        "What all threads together read and write; dotted lines mark the caches of a core.",
        sweep_slug(group.threads),
    )  # fmt: skip


def _multiply_adds(group: Group) -> Drawn | None:
    return _drawn(
        "multiply-adds", machine_figures.multiply_adds(group), "Multiply-adds by instruction set",
        "The best rate of each instruction set: the arithmetic peak that products are held against.", "ceilings-fma",
    )  # fmt: skip
