"""The roofs of a figure: regions, slopes, horizontals and their bands.

    GFLOP/s
      ^  memory-bound |by level| compute-bound
      |               .        ._______________  v4, in use
      |           /  /  /______________________  v3
      |         /  /  /        .
      |     L1 / L2 / DRAM     .
      +----------------------------------------> flop a byte

What stands under them is drawn elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes

from gemmlab.report.drawing import BLUE, INK, ORANGE, PLATE, QUIET, plain_log
from gemmlab.report.groups import Group
from gemmlab.report.roofs import band, bandwidth_ceilings, bandwidths, fma_ceilings, is_in_use, loop_name, peak
from gemmlab.report.words import number

APART_RATES = 1.1  # multiply-add rates whose labels have room beside each other
APART = 1.4  # bandwidths likewise
TINT = 0.09  # of the region that is memory-bound at every level; those further right have less
Point = tuple[float, float]


def draw_roofs(axes: Axes, group: Group, points: Sequence[Point], intensity: str) -> None:
    """Set the axes up for points under the group's roofs, and draw the roofs; `intensity` names the horizontal axis."""
    axes.set(xscale="log", yscale="log", xlabel=intensity, ylabel="GFLOP/s")
    set_limits(axes, [group], points)
    plain_log(axes.xaxis)
    plain_log(axes.yaxis)
    _regions(axes, group)
    _slopes(axes, group)
    _horizontals(axes, group)


def set_limits(axes: Axes, groups: Sequence[Group], points: Sequence[Point]) -> None:
    """Room for every point, every peak, and the ridge of the slowest memory."""
    xs, ys = [x for x, _ in points if np.isfinite(x)], [y for _, y in points]
    for group in groups:
        if (top := peak(group)) is not None:
            ys += [top.gflop_per_s] if points else [top.gflop_per_s, top.gflop_per_s / 100]
            xs += [top.gflop_per_s / speed for speed in bandwidths(group).values()]
    xs = xs or [1.0]
    axes.set_xlim(min(xs) / 6, max(xs) * 2)
    axes.set_ylim(min(ys) / 2.5, max(ys) * 2)


def _regions(axes: Axes, group: Group) -> None:
    """Tints: left of every ridge memory is the limit, right of all arithmetic is; between, the level decides."""
    top, speeds = peak(group), bandwidths(group)
    if top is None or not speeds:
        return
    left, right = axes.get_xlim()
    ridges = sorted(top.gflop_per_s / speed for speed in speeds.values())
    edges = [left, *ridges, right]
    for place, (start, end) in enumerate(pairwise(edges)):
        colour, tint = (BLUE, TINT * (1 - place / len(ridges))) if end != right else (ORANGE, 0.7 * TINT)
        axes.axvspan(start, end, facecolor=colour, alpha=tint, linewidth=0, zorder=0)
    names = {"memory-bound": ridges[0] / 1.15, "compute-bound": ridges[-1] * 1.15}
    if len(ridges) > 1:
        names["by level"] = np.sqrt(ridges[0] * ridges[-1])
    for name, x in names.items():
        side = {"memory-bound": "right", "compute-bound": "left"}.get(name, "center")
        axes.text(x, 0.015, name, fontsize=7.5, color=QUIET, rotation=90, ha=side, va="bottom", zorder=1,
                  transform=axes.get_xaxis_transform())  # fmt: skip


def _slopes(axes: Axes, group: Group) -> None:
    """Bandwidth slopes up to the peak, each with its band."""
    left, right = axes.get_xlim()
    bottom, highest = axes.get_ylim()
    top = peak(group)
    ceiling = top.gflop_per_s if top else highest
    for record in bandwidth_ceilings(group).values():
        speed = record["gb_per_s"]
        ends = np.array([max(left, bottom / speed), min(right, ceiling / speed)])
        axes.plot(ends, speed * ends, color=QUIET, linewidth=1.0)
        if (rates := band(record)) is not None:
            low, high = (np.minimum(rate * ends, ceiling) for rate in rates)
            axes.fill_between(ends, low, high, color=QUIET, alpha=0.25, linewidth=0)
    for names, speed in slope_labels(bandwidths(group)).items():
        label_slope(axes, f"{names} {number(speed)} GB/s", max(left, 1.6 * bottom / speed) * 1.2, speed)


def _horizontals(axes: Axes, group: Group) -> None:
    """A horizontal for each instruction set, with its band; the one in use is bold."""
    left, right = axes.get_xlim()
    ceilings = fma_ceilings(group)
    fastest = max(bandwidths(group).values(), default=np.inf)
    for record in ceilings:
        rate = record["gflop_per_s"]
        used = is_in_use(record)
        colour, width = (INK, 1.8) if used else (QUIET, 0.8)
        start = max(left, rate / fastest)
        axes.plot([start, right], [rate, rate], color=colour, linewidth=width)
        if (rates := band(record)) is not None:
            axes.fill_between([start, right], *rates, color=colour, alpha=0.2, linewidth=0)
        near = [other for other in ceilings if rate <= other["gflop_per_s"] < APART_RATES * rate]
        if near[-1] is not record:  # the one above it carries both names
            continue
        beside = [other for other in ceilings if other["gflop_per_s"] <= rate < APART_RATES * other["gflop_per_s"]]
        text = f"{', '.join(map(loop_name, beside))}{',' * used} {number(rate)}"
        axes.annotate(text, (right, rate), (-1, 2.5), textcoords="offset points", fontsize=8,
                      color=colour, ha="right", bbox=PLATE, zorder=1.9)  # fmt: skip


def slope_labels(speeds: Mapping[str, float]) -> dict[str, float]:
    """Whose names to write over which bandwidth: lines too near to each other for two labels share the upper one's.

    Examples
    --------
    >>> slope_labels({"L1": 28.0, "L2": 30.0, "DRAM": 4.0})
    {'DRAM': 4.0, 'L1, L2': 30.0}
    """
    labels: dict[str, float] = {}
    for level, speed in sorted(speeds.items(), key=lambda item: item[1]):
        shared = bool(labels) and speed < APART * max(labels.values())
        labels[f"{labels.popitem()[0]}, {level}" if shared else level] = speed
    return labels


def label_slope(axes: Axes, text: str, x: float, speed: float) -> None:
    """Write along a bandwidth line, just above it."""
    (x0, y0), (x1, y1) = axes.transData.transform([(x, speed * x), (2 * x, 2 * speed * x)])
    angle = float(np.degrees(np.arctan2(y1 - y0, x1 - x0)))
    axes.annotate(text, (x, speed * x), (-2, 2), textcoords="offset points", fontsize=8, color=QUIET,
                  rotation=angle, rotation_mode="anchor", bbox=PLATE | {"pad": 0}, zorder=1.9)  # fmt: skip
