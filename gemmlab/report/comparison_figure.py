"""Two runs under one roofline: the older one hollow and dotted, the newer one solid, an arrow where they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gemmlab.measure.comparison import Pair, compare
from gemmlab.report.drawing import INK, PLATE, QUIET, Style, canvas, label_lines, plain_log, save, styles
from gemmlab.report.folder import written_into
from gemmlab.report.groups import Group, Record, devices
from gemmlab.report.roof_lines import Point, label_slope, set_limits
from gemmlab.report.roofs import bandwidths, peak
from gemmlab.report.words import number
from gemmlab.roofline.model import intensity

KEY_INCHES = 0.5  # above the axes


def draw(old: Sequence[Record], new: Sequence[Record], names: tuple[str, str], directory: Path) -> list[Path]:
    """Draw every group that both runs have into `directory`; see `gemmlab.report.draw_comparison`."""
    pairs = {id(pair.new): pair for pair in compare(old, new).products}
    stems = []
    with written_into(directory) as drafts:
        for stem, before, after in _shared(old, new, pairs):
            if (figure := comparison(before, after, pairs, names)) is not None:
                save(figure, drafts / stem)
                stems.append(stem)
    return [directory / f"{stem}{ending}" for stem in stems for ending in (".svg", ".png")]


def comparison(before: Group, after: Group, pairs: Mapping[int, Pair], names: tuple[str, str]) -> Figure | None:
    """Speed over intensity of what both runs timed, under the roofs of both; None if there is neither.

    Parameters
    ----------
    before, after : Group
        The same group of the older and the newer run.
    pairs : mapping of int to Pair
        The older record of each of the newer ones, by its `id`.
    names : tuple of str
        What the two runs are called.
    """
    runs = {name: after.squares(name) or list(after.timed(name).values()) for name in after.backends()}
    paths = {name: [pairs[id(record)] for record in own] for name, own in runs.items() if own}
    if not paths and not (peak(after) and bandwidths(after)):
        return None
    looks = styles(list(paths))
    points = [point for own in paths.values() for pair in own for point in (_point(pair.old), _point(pair.new))]
    with canvas(5.0 + KEY_INCHES, list(paths)) as (figure, axes):
        figure.subplots_adjust(top=1 - (KEY_INCHES + 0.2) / figure.get_figheight())
        axes.set(xscale="log", yscale="log", xlabel="flop per byte of DRAM", ylabel="GFLOP/s")
        set_limits(axes, [before, after], points)
        plain_log(axes.xaxis)
        plain_log(axes.yaxis)
        _roofs(axes, before, linestyle=":", linewidth=1.3)
        _roofs(axes, after, linestyle="-", linewidth=0.9)
        _name_roofs(axes, after)
        for name, own in paths.items():
            _path(axes, own, looks[name])
        key = f"{names[0]}: hollow, dotted\n{names[1]}: solid" + "\narrow: a difference was seen" * bool(paths)
        axes.text(0, 1 + 0.1 / 5, key, fontsize=8, color=QUIET, transform=axes.transAxes)
        label_lines(axes, {name: _point(own[-1].new) for name, own in paths.items()}, looks)
    return figure


def _shared(
    old: Sequence[Record], new: Sequence[Record], pairs: Mapping[int, Pair]
) -> Iterator[tuple[str, Group, Group]]:
    """The groups that both runs have, of the products that both have: a file's name, the older and the newer one."""
    sides = [
        [pair.old for pair in pairs.values()] + [record for record in old if record["kind"] == "ceiling"],
        [pair.new for pair in pairs.values()] + [record for record in new if record["kind"] == "ceiling"],
    ]
    before, after = ({(own.name, group.slug): group for own in devices(side) for group in own.groups} for side in sides)
    places = list(dict.fromkeys(device for device, _ in after))
    for key in after:
        if key in before:
            place = places.index(key[0])
            yield f"comparison-{key[1]}{f'-device{place + 1}' * bool(place)}", before[key], after[key]


def _point(record: Record) -> Point:
    return intensity(record, "DRAM")[0], record["gflop_per_s"]


def _path(axes: Axes, pairs: Sequence[Pair], look: Style) -> None:
    """A backend's way over its sizes in both runs; whether it is a baseline does not show in this figure."""
    old, new = ([_point(pair.old) for pair in pairs], [_point(pair.new) for pair in pairs])
    own = look.point() | {"color": look.colour, "linewidth": 1.0, "markersize": 4.5}
    axes.plot(*zip(*old, strict=True), **(own | {"linestyle": ":", "markerfacecolor": "white"}))
    axes.plot(*zip(*new, strict=True), **(own | {"linestyle": "-", "markerfacecolor": look.colour}))
    for pair, start, end in zip(pairs, old, new, strict=True):
        if pair.seen:
            arrow = {"arrowstyle": "->", "color": look.colour, "linewidth": 1.0, "shrinkA": 2, "shrinkB": 2}
            axes.annotate("", end, start, arrowprops=arrow)


def _roofs(axes: Axes, group: Group, **line: Any) -> None:
    """The slope of each memory level up to the peak, and the peak."""
    (left, right), (bottom, ceiling) = axes.get_xlim(), axes.get_ylim()
    top, speeds = peak(group), bandwidths(group)
    if top is not None:
        ceiling = top.gflop_per_s
        start = max(left, ceiling / max(speeds.values(), default=ceiling / left))
        axes.plot([start, right], [ceiling, ceiling], color=INK, **line)
    for speed in speeds.values():
        ends = np.array([max(left, bottom / speed), min(right, ceiling / speed)])
        axes.plot(ends, speed * ends, color=QUIET, **line)


def _name_roofs(axes: Axes, group: Group) -> None:
    """Names along the newer run's roofs."""
    (left, right), bottom = axes.get_xlim(), axes.get_ylim()[0]
    if (top := peak(group)) is not None:
        axes.annotate(f"peak {number(top.gflop_per_s)}", (right, top.gflop_per_s), (-1, 2.5), ha="right", fontsize=8,
                      textcoords="offset points", bbox=PLATE)  # fmt: skip
    for level, speed in bandwidths(group).items():
        label_slope(axes, f"{level} {number(speed)} GB/s", max(left, bottom / speed) * 1.3, speed)
