"""The two rooflines: each backend's way over the sizes, and each backend's bytes level by level.

Every function returns None where the records have nothing to show in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gemmlab.report.details import details
from gemmlab.report.dots import add_dot, ring
from gemmlab.report.drawing import QUIET, Style, canvas, label_lines
from gemmlab.report.groups import Group
from gemmlab.report.roof_lines import draw_roofs
from gemmlab.report.roofs import bandwidths, by_level, is_above, peak
from gemmlab.roofline.model import intensity

Looks = Mapping[str, Style]
SIGNS = {"local": "P", "L1": "o", "L2": "s", "L3": "^", "DRAM": "D"}  # the marker of each memory level
OTHER_SIGN = "v"


def roofline(group: Group, looks: Looks) -> Figure | None:
    """Speed over intensity: each backend's way from its smallest to its largest square, under the roofs.

    Without products it shows the roofs alone.
    """
    runs_of = {name: group.squares(name) or list(group.timed(name).values()) for name in group.backends()}
    paths = {name: runs for name, runs in runs_of.items() if runs}
    if not paths and not (peak(group) and bandwidths(group)):
        return None
    points = {name: [(intensity(r, "DRAM")[0], r["gflop_per_s"]) for r in runs] for name, runs in paths.items()}
    with canvas(5.0, list(paths)) as (figure, axes):
        draw_roofs(axes, group, [point for path in points.values() for point in path], "flop per byte of DRAM")
        for name, path in points.items():
            look = looks[name].line() | {"linewidth": 1.1, "marker": ""}
            axes.plot(*zip(*path, strict=True), gid=looks[name].part("path"), **look)
            for point, record in zip(path, paths[name], strict=True):
                add_dot(axes, point, name, details(group, record, "DRAM"), looks[name], markersize=4.5)
        ring(axes, [points[name][i] for name, runs in paths.items() for i, r in enumerate(runs) if is_above(group, r)])
        label_lines(axes, {name: path[-1] for name, path in points.items()}, looks)
    return figure


def cache_aware(group: Group, looks: Looks) -> Figure | None:
    """One dot a memory level for each backend at its largest square, joined, under the slopes of the levels."""
    placed = by_level(group)
    points = {
        name: [(level.intensity, record["gflop_per_s"]) for level in found if np.isfinite(level.intensity)]
        for name, (record, found) in placed.items()
    }
    if not any(len(path) > 1 for path in points.values()):
        return None
    above = []
    with canvas(5.0, list(placed)) as (figure, axes):
        draw_roofs(axes, group, [point for path in points.values() for point in path], "flop per byte of each level")
        for name, (record, found) in placed.items():
            axes.plot(*zip(*points[name], strict=True), color=looks[name].colour, linewidth=1.0,
                      gid=looks[name].part("path"))  # fmt: skip
            lowest = min(found, key=lambda level: (not level.holds, level.attainable))
            for level in found:
                if not np.isfinite(level.intensity):
                    continue
                point = level.intensity, record["gflop_per_s"]
                face = "white" if level.definition == "compulsory" else looks[name].colour
                add_dot(axes, point, name, details(group, record, level.name), looks[name], markerfacecolor=face,
                        marker=SIGNS.get(level.name, OTHER_SIGN), markersize=8 if level is lowest else 5)  # fmt: skip
                above += [point] if level.above else []
        ring(axes, above)
        _explain_signs(figure, [level.name for _, found in placed.values() for level in found])
        unsigned = {name: replace(looks[name], marker="") for name in points}  # markers tell levels here
        label_lines(axes, {name: path[-1] for name, path in points.items()}, unsigned)
    return figure


def _explain_signs(figure: Figure, names: list[str]) -> None:
    """The marker of each level, in a row over the axes."""
    used = [name for name in SIGNS if name in names]
    signs = [Line2D([], [], linestyle="none", marker=SIGNS[name], color=QUIET, markersize=5) for name in used]
    axes = figure.axes[0]
    axes.legend(signs, used, loc="lower left", bbox_to_anchor=(0, 0.985), ncols=len(used), fontsize=8.5, frameon=False,
                borderpad=0.1, handletextpad=0, columnspacing=0.9, handlelength=1.6)  # fmt: skip
