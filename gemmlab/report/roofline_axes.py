"""Axes of a roofline figure: regions, bandwidth slopes, and a horizontal line for each instruction set.

    GFLOP/s
      ^  memory-bound |by level| compute-bound
      |               .        ._______________  v4 in use
      |           /  /  /______________________  v3
      |         /  /  /        .
      |     L1 / L2 / DRAM     .
      +----------------------------------------> flop per byte
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes

from gemmlab._words import number
from gemmlab.analysis.attainable import bandwidth_ceilings, bandwidths, fma_ceilings, in_use, isa_label, peak, rate_band
from gemmlab.analysis.groups import Group
from gemmlab.measure.records import Record
from gemmlab.report.drawing import BLUE, INK, ORANGE, PLATE, QUIET, WIDTH_INCHES, Keywords, Point, Style, plain_log

SAME_BANDWIDTH = 1.4  # bandwidths closer than this share a label
MIN_BETWEEN = 3.0  # from the first ridge point to the last, for a name between them
TINT = 0.09  # of the region that is memory-bound at every level; regions further right have less
LABEL: Keywords = {"textcoords": "offset points", "fontsize": 8, "zorder": 1.9}


def draw_roofline(
    axes: Axes, group: Group, points: Sequence[Point], intensity: str, older: Group | None = None
) -> dict[str, Point]:
    """Set the axes up for points and draw the ceilings; `intensity` names the horizontal axis.

    The ceilings of an `older` run are drawn dotted. It returns the right ends of the multiply-add rates by their names,
    for the column of labels; `rate_styles` are their looks.
    """
    axes.set(xscale="log", yscale="log", xlabel=intensity, ylabel="GFLOP/s")
    _set_limits(axes, [group, older] if older else [group], points)
    plain_log(axes.xaxis)
    plain_log(axes.yaxis)
    _regions(axes, group)
    if older is not None:
        _dotted_roofline(axes, older)
    _slopes(axes, group)
    _label_slopes(axes, group)
    _horizontals(axes, group)
    return {name: (axes.get_xlim()[1], record["gflop_per_s"]) for name, record in named_rates(group).items()}


def named_rates(group: Group) -> dict[str, Record]:
    """The multiply-add rates by their labels, slowest first."""
    return {f"{isa_label(record)}{',' * in_use(record)} {number(record['gflop_per_s'])}": record
            for record in fma_ceilings(group)}  # fmt: skip


def rate_styles(group: Group) -> dict[str, Style]:
    """How the labels of the multiply-add rates look."""
    return {name: Style(INK if in_use(record) else QUIET, "", False) for name, record in named_rates(group).items()}


def _set_limits(axes: Axes, groups: Sequence[Group], points: Sequence[Point]) -> None:
    """Make room for every point, every peak, and the ridge point of the slowest memory."""
    xs, ys = [x for x, _ in points if np.isfinite(x)], [y for _, y in points]
    for group in groups:
        if (top := peak(group)) is not None:
            ys += [top.gflop_per_s] if points else [top.gflop_per_s, top.gflop_per_s / 100]
            xs += [top.gflop_per_s / speed for speed in bandwidths(group).values()]
    xs = xs or [1.0]
    axes.set_xlim(min(xs) / 6, max(xs) * 2)
    axes.set_ylim(min(ys) / 2.5, max(ys) * 2)


def _regions(axes: Axes, group: Group) -> None:
    """Tint the region left of every ridge point, where memory limits, and right of all, where arithmetic does."""
    top, speeds = peak(group), bandwidths(group)
    if top is None or not speeds:
        return
    left, right = axes.get_xlim()
    ridges = sorted(top.gflop_per_s / speed for speed in speeds.values())
    for i, (start, end) in enumerate(pairwise([left, *ridges, right])):
        colour, tint = (BLUE, TINT * (1 - i / len(ridges))) if end != right else (ORANGE, 0.7 * TINT)
        axes.axvspan(start, end, facecolor=colour, alpha=tint, linewidth=0, zorder=0)
    names = [("memory-bound", ridges[0] / 1.15, "right"), ("compute-bound", ridges[-1] * 1.15, "left")]
    if ridges[-1] > MIN_BETWEEN * ridges[0]:
        names.append(("by level", np.sqrt(ridges[0] * ridges[-1]), "center"))
    wide = axes.bbox.width > WIDTH_INCHES * axes.figure.dpi
    where: Keywords = {"va": "top"} if wide else {"va": "bottom", "rotation": 90}
    for name, x, side in names:
        axes.text(x, 0.985 if wide else 0.015, name, fontsize=9 if wide else 7.5, color=QUIET, ha=side, zorder=1,
                  transform=axes.get_xaxis_transform(), **where)  # fmt: skip


def _slopes(axes: Axes, group: Group, dashes: str = "-") -> None:
    """Bandwidth lines up to the peak; solid ones have a band from p20 to p80."""
    (left, right), (bottom, highest) = axes.get_xlim(), axes.get_ylim()
    top = peak(group)
    ceiling = top.gflop_per_s if top else highest
    for record in bandwidth_ceilings(group).values():
        speed, rates = record["gb_per_s"], rate_band(record)
        ends = np.array([max(left, bottom / speed), min(right, ceiling / speed)])
        axes.plot(ends, speed * ends, color=QUIET, linewidth=1.0, linestyle=dashes)
        if rates is not None and dashes == "-":
            low, high = (np.minimum(rate * ends, ceiling) for rate in rates)
            axes.fill_between(ends, low, high, color=QUIET, alpha=0.25, linewidth=0)


def _horizontals(axes: Axes, group: Group) -> None:
    """A line for each instruction set, with its band; the one in use is bold."""
    left, right = axes.get_xlim()
    fastest = max(bandwidths(group).values(), default=np.inf)
    for record in fma_ceilings(group):
        rate = record["gflop_per_s"]
        used = in_use(record)
        colour, width = (INK, 1.8) if used else (QUIET, 0.8)
        start = max(left, rate / fastest)
        axes.plot([start, right], [rate, rate], color=colour, linewidth=width)
        if (rates := rate_band(record)) is not None:
            axes.fill_between([start, right], *rates, color=colour, alpha=0.2, linewidth=0)


def _dotted_roofline(axes: Axes, group: Group) -> None:
    """The slopes and the peak of an older run, without names."""
    _slopes(axes, group, ":")
    if (top := peak(group)) is not None:
        left, right = axes.get_xlim()
        start = max(left, top.gflop_per_s / max(bandwidths(group).values(), default=np.inf))
        axes.plot([start, right], [top.gflop_per_s] * 2, color=INK, linestyle=":", linewidth=1.3)


def slope_labels(speeds: Mapping[str, float]) -> dict[str, float]:
    """Labels of bandwidth lines: lines too close for two labels share one, at the upper line.

    Examples
    --------
    >>> slope_labels({"L1": 28.0, "L2": 30.0, "DRAM": 4.0})
    {'DRAM': 4.0, 'L1, L2': 30.0}
    """
    labels: dict[str, float] = {}
    for level, speed in sorted(speeds.items(), key=lambda item: item[1]):
        shared = bool(labels) and speed < SAME_BANDWIDTH * max(labels.values())
        labels[f"{labels.popitem()[0]}, {level}" if shared else level] = speed
    return labels


def _label_slopes(axes: Axes, group: Group) -> None:
    """Write along the bandwidth lines, just above them."""
    left, bottom = axes.get_xlim()[0], axes.get_ylim()[0]
    for names, speed in slope_labels(bandwidths(group)).items():
        x = max(left, 1.6 * bottom / speed) * 1.2
        (x0, y0), (x1, y1) = axes.transData.transform([(x, speed * x), (2 * x, 2 * speed * x)])
        angle = float(np.degrees(np.arctan2(y1 - y0, x1 - x0)))
        axes.annotate(f"{names} {number(speed)} GB/s", (x, speed * x), (-2, 2), color=QUIET, rotation=angle,
                      rotation_mode="anchor", bbox=PLATE | {"pad": 0}, **LABEL)  # fmt: skip
