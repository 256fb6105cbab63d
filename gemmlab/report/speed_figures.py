"""Speed over size: in GFLOP/s, and over the plain loop's.

Every function returns None where the records have nothing to show in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from gemmlab.report.details import details
from gemmlab.report.dots import add_dot, ring
from gemmlab.report.drawing import INK, QUIET, Style, canvas, label_lines, plain_log
from gemmlab.report.groups import Group, Record
from gemmlab.report.roofs import attainable_once, is_above, peak
from gemmlab.report.words import number

Looks = Mapping[str, Style]
Paths = Mapping[str, Sequence[Record]]
REFERENCE = "cpu-ikj"
FAR = 4  # times the fastest product


def speed(group: Group, looks: Looks) -> Figure | None:
    """GFLOP/s over N with p20 to p80 bars, under the measured peak and what memory allows."""
    paths = {name: runs for name in group.backends() if (runs := group.squares(name))}
    if not paths:
        return None
    top = peak(group)
    with canvas(4.4, list(paths)) as (figure, axes):
        axes.set(xscale="log", xlabel="N, of square products", ylabel="GFLOP/s")
        for name, runs in paths.items():
            _with_bars(axes, group, name, runs, looks[name])
        fastest = max(record["gflop_per_s"] for runs in paths.values() for record in runs)
        axes.set_ylim(0, 1.05 * fastest)
        _size_axis(axes, paths)
        if top is not None:
            _peak_on_top(axes, top.gflop_per_s, fastest)
        _attainable(axes, group, paths)
        runs = [record for own in paths.values() for record in own if is_above(group, record)]
        ring(axes, [(record["problem"]["n"], record["gflop_per_s"]) for record in runs])
        label_lines(axes, {n: (r[-1]["problem"]["n"], r[-1]["gflop_per_s"]) for n, r in paths.items()}, looks)
    return figure


def _peak_on_top(axes: Axes, rate: float, fastest: float) -> None:
    """The measured peak as the top of the axis; one that is far above is only named, or all else would lie flat."""
    is_far = rate > FAR * fastest
    if not is_far:
        axes.set_ylim(0, rate if fastest <= rate else 1.05 * fastest)
        axes.axhline(rate, color=INK, linewidth=1.8, clip_on=False)
    height = axes.get_ylim()[1] if is_far else rate
    axes.text(0.01, 0.99 * height, f"measured peak {number(rate)}{', far above' * is_far}", fontsize=9, va="top",
              transform=axes.get_yaxis_transform())  # fmt: skip


def _with_bars(axes: Axes, group: Group, name: str, runs: Sequence[Record], look: Style) -> None:
    sizes = [record["problem"]["n"] for record in runs]
    rates = [record["gflop_per_s"] for record in runs]
    low, high = ([record["gflop"] / record[key] for record in runs] for key in ("p80_s", "p20_s"))
    axes.plot(sizes, rates, gid=look.part("path"), **(look.line() | {"marker": ""}))
    axes.vlines(sizes, low, high, color=look.colour, linewidth=0.9, gid=look.part("bars"))
    for point, record in zip(zip(sizes, rates, strict=True), runs, strict=True):
        add_dot(axes, point, name, details(group, record), look)


def _attainable(axes: Axes, group: Group, paths: Paths) -> None:
    """What memory allows at each N if every operand moves once: a grey curve, where it is known."""
    runs = {record["problem"]["n"]: record for own in paths.values() for record in own}
    curve = [(n, rate) for n in sorted(runs) if (rate := attainable_once(group, runs[n])) is not None]
    if curve:
        axes.plot(*zip(*curve, strict=True), color=QUIET, linewidth=4, alpha=0.35, solid_capstyle="round", zorder=1.5,
                  scaley=False)  # fmt: skip


def speed_up(group: Group, looks: Looks) -> Figure | None:
    """Each backend's speed over that of cpu-ikj on the same product, over N."""
    reference = {record["problem"]["n"]: record["median_s"] for record in group.squares(REFERENCE)}
    paths = {name: own for name in group.backends() if name != REFERENCE
             and (own := [r for r in group.squares(name) if r["problem"]["n"] in reference])}  # fmt: skip
    if not paths:
        return None
    points = {name: [(r["problem"]["n"], reference[r["problem"]["n"]] / r["median_s"]) for r in runs]
              for name, runs in paths.items()}  # fmt: skip
    with canvas(4.4, list(paths)) as (figure, axes):
        axes.set(xscale="log", yscale="log", xlabel="N, of square products", ylabel=f"speed-up over {REFERENCE}")
        axes.axhline(1, color=INK, linewidth=1.2)
        for name, path in points.items():
            axes.plot(*zip(*path, strict=True), gid=looks[name].part("path"), **(looks[name].line() | {"marker": ""}))
            for point, record in zip(path, paths[name], strict=True):
                add_dot(axes, point, name, details(group, record), looks[name])
        _size_axis(axes, paths)
        values = [1.0, *(value for path in points.values() for _, value in path)]
        axes.set_ylim(min(values) / 1.4, max(values) * 1.4)
        plain_log(axes.yaxis)
        label_lines(axes, {name: path[-1] for name, path in points.items()}, looks)
    return figure


def _size_axis(axes: Axes, paths: Paths) -> None:
    """Ticks at the sizes measured, as many as fit."""
    sizes = sorted({record["problem"]["n"] for runs in paths.values() for record in runs})
    axes.set_xlim(sizes[0] / 1.25, sizes[-1] * 1.25)
    room = np.log(sizes[-1] / sizes[0]) / 6.5
    ticks = [sizes[-1]]
    for n in reversed(sizes):
        if np.log(ticks[0] / n) > room:
            ticks.insert(0, n)
    axes.set_xticks(ticks, [str(n) for n in ticks], rotation=0, fontsize=9)
    axes.xaxis.set_minor_locator(NullLocator())
