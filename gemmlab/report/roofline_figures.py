"""Roofline figures: each backend over its sizes, each backend level by level, and two runs compared.

Every function returns None where the records have nothing to show in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gemmlab.analysis.attainable import bandwidths, is_above_roof, limits_by_backend, peak
from gemmlab.analysis.groups import Group
from gemmlab.measure.comparison import Pair
from gemmlab.measure.records import Record
from gemmlab.report.drawing import QUIET, WIDTH_INCHES, Keywords, Point, Style, Styles, canvas, label_lines, styles
from gemmlab.report.points import add_marker, facts_of, ring
from gemmlab.report.roofline_axes import draw_roofline, named_rates, rate_styles
from gemmlab.roofline.model import intensity

LEVEL_MARKERS = {"local": "P", "L1": "o", "L2": "s", "L3": "^", "DRAM": "D"}
OTHER_MARKER = "v"
KEY_INCHES = 0.5  # above the axes of a comparison
FEW = 3  # backends whose sizes can be named in a figure


def roofline(group: Group, looks: Styles, width_inches: float = WIDTH_INCHES) -> Figure | None:
    """Speed over intensity: each backend from its smallest to its largest square, under the ceilings.

    Without products it shows the ceilings alone.
    """
    runs = _runs(group)
    if not runs and not (peak(group) and bandwidths(group)):
        return None
    points = {name: [_point(record) for record in own] for name, own in runs.items()}
    with canvas(5.0, [*runs, *named_rates(group)], width_inches) as (figure, axes):
        every_point = [point for path in points.values() for point in path]
        rates = draw_roofline(axes, group, every_point, "flop per byte of DRAM")
        for name, path in points.items():
            line = looks[name].line(linewidth=1.1, marker="")
            axes.plot(*zip(*path, strict=True), gid=looks[name].part_id("path"), **line)
            for point, record in zip(path, runs[name], strict=True):
                add_marker(axes, point, record, facts_of(group, record, "DRAM"), looks[name], markersize=4.5)
            if len(runs) <= FEW:
                _name_sizes(axes, path, runs[name])
        ring(axes, [_point(record) for own in runs.values() for record in own if is_above_roof(group, record)])
        label_lines(axes, rates | {name: path[-1] for name, path in points.items()}, {**rate_styles(group), **looks})
    return figure


def _name_sizes(axes: Axes, path: Sequence[Point], own: Sequence[Record]) -> None:
    """N beside the first and the last point, where the line does not go."""
    away = 1 if path[-1][1] >= path[0][1] else -1  # from the line, which comes from the left
    look: Keywords = {"fontsize": 7.5, "color": QUIET, "textcoords": "offset points", "va": "center"}
    axes.annotate(_size(own[-1]), path[-1], (0, 9 * away), ha="center", **look)
    if len(path) > 1:
        axes.annotate(_size(own[0]), path[0], (-6, 0), ha="right", **look)


def _size(record: Record) -> str:
    m, n, k = (record["problem"][side] for side in "mnk")
    return f"N = {n}" if m == n == k else f"{m} x {n} x {k}"


def levels(group: Group, looks: Styles) -> Figure | None:
    """A point per memory level for each backend at its largest square, joined, under the slopes of the levels."""
    judged = limits_by_backend(group)
    finite = {name: [limit for limit in found if np.isfinite(limit.intensity)] for name, (_, found) in judged.items()}
    points = {name: [(limit.intensity, limit.reached) for limit in found] for name, found in finite.items()}
    if not any(len(path) > 1 for path in points.values()):
        return None
    with canvas(5.0, [*judged, *named_rates(group)]) as (figure, axes):
        every_point = [point for path in points.values() for point in path]
        rates = draw_roofline(axes, group, every_point, "flop per byte of each level")
        for name, (record, found) in judged.items():
            look = looks[name]
            axes.plot(*zip(*points[name], strict=True), color=look.colour, linewidth=1.0, gid=look.part_id("path"))
            lowest = min(found, key=lambda limit: (not limit.holds, limit.attainable))
            for limit, point in zip(finite[name], points[name], strict=True):
                face = "white" if limit.definition == "compulsory" else look.colour
                marker, size = LEVEL_MARKERS.get(limit.level, OTHER_MARKER), 8 if limit is lowest else 5
                add_marker(axes, point, record, facts_of(group, record, limit.level), look, markerfacecolor=face,
                           marker=marker, markersize=size)  # fmt: skip
        limits = [limit for found in finite.values() for limit in found]
        ring(axes, [(limit.intensity, limit.reached) for limit in limits if limit.is_exceeded])
        _level_legend(axes, [limit.level for limit in limits])
        unmarked = {name: replace(looks[name], marker="") for name in points}  # markers stand for levels here
        label_lines(axes, rates | {name: path[-1] for name, path in points.items()}, rate_styles(group) | unmarked)
    return figure


def _level_legend(axes: Axes, names: Sequence[str]) -> None:
    """The marker of each level, in one line above the axes."""
    used = [name for name in LEVEL_MARKERS if name in names]
    markers = [Line2D([], [], linestyle="none", marker=LEVEL_MARKERS[name], color=QUIET, markersize=5) for name in used]
    axes.legend(markers, used, loc="lower left", bbox_to_anchor=(0, 0.985), ncols=len(used), fontsize=8.5,
                frameon=False, borderpad=0.1, handletextpad=0, columnspacing=0.9, handlelength=1.6)  # fmt: skip


def comparison(before: Group, after: Group, pairs: Mapping[int, Pair], names: tuple[str, str]) -> Figure | None:
    """Two runs in one roofline: the older hollow and dotted, the newer solid, an arrow where they differ.

    Parameters
    ----------
    before, after : Group
        The same group of the older and the newer run.
    pairs : mapping of int to Pair
        The pair of each record of the newer run, by the record's `id`.
    names : tuple of str
        What the two runs are called.
    """
    paths = {name: [pairs[id(record)] for record in own] for name, own in _runs(after).items()}
    if not paths and not (peak(after) and bandwidths(after)):
        return None
    looks = styles(list(paths))
    points = [_point(record) for own in paths.values() for pair in own for record in (pair.old, pair.new)]
    with canvas(5.0 + KEY_INCHES, [*paths, *named_rates(after)]) as (figure, axes):
        figure.subplots_adjust(top=1 - (KEY_INCHES + 0.2) / figure.get_figheight())
        rates = draw_roofline(axes, after, points, "flop per byte of DRAM", older=before)
        for name, own in paths.items():
            _compared_path(axes, own, looks[name])
        key = f"{names[0]}: hollow, dotted\n{names[1]}: solid" + "\narrow: a difference was seen" * bool(paths)
        axes.text(0, 1.02, key, fontsize=8, color=QUIET, transform=axes.transAxes)
        ends = rates | {name: _point(own[-1].new) for name, own in paths.items()}
        label_lines(axes, ends, rate_styles(after) | looks)
    return figure


def _compared_path(axes: Axes, pairs: Sequence[Pair], look: Style) -> None:
    """A backend over its sizes in both runs; this figure does not show whether it is a baseline."""
    old, new = [_point(pair.old) for pair in pairs], [_point(pair.new) for pair in pairs]
    for path, dashes, face in ((old, ":", "white"), (new, "-", look.colour)):
        line = look.line(linewidth=1.0, markersize=4.5, linestyle=dashes, markerfacecolor=face)
        axes.plot(*zip(*path, strict=True), **line)
    for pair, start, end in zip(pairs, old, new, strict=True):
        if pair.seen:
            arrow = {"arrowstyle": "->", "color": look.colour, "linewidth": 1.0, "shrinkA": 2, "shrinkB": 2}
            axes.annotate("", end, start, arrowprops=arrow)


def _runs(group: Group) -> dict[str, list[Record]]:
    """The squares of each timed backend, or all its products where it has none."""
    runs = {name: group.squares(name) or list(group.timed(name).values()) for name in group.backends()}
    return {name: own for name, own in runs.items() if own}


def _point(record: Record) -> Point:
    return intensity(record, "DRAM")[0], record["gflop_per_s"]
