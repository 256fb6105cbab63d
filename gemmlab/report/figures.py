"""The figures of the backends: one function each, from a group of records to a drawing.

Every function returns None where the records have nothing to show in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from gemmlab.report.drawing import ALARM, INK, PLATE, QUIET, Style, canvas, label_lines, plain_log
from gemmlab.report.groups import Group, Record, in_order, is_square, problem_text
from gemmlab.report.roofs import bandwidths, fma_ceilings, is_above, is_in_use, loop_name, peak
from gemmlab.report.words import number
from gemmlab.roofline.model import intensity

Looks = Mapping[str, Style]
REFERENCE = "cpu-ikj"
APART_RATES = 1.1  # multiply-add rates likewise
APART = 1.4  # bandwidths whose labels have room beside each other


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
        axes.set(xscale="log", yscale="log", xlabel="flop per byte of DRAM", ylabel="GFLOP/s")
        _roofline_limits(axes, group, [point for path in points.values() for point in path])
        plain_log(axes.xaxis)
        plain_log(axes.yaxis)
        _roofs(axes, group)
        for name, path in points.items():
            axes.plot(*zip(*path, strict=True), **(looks[name].line() | {"linewidth": 1.1, "markersize": 4.5}))
        _ring(axes, [points[name][i] for name, runs in paths.items() for i, r in enumerate(runs) if is_above(group, r)])
        label_lines(axes, {name: path[-1] for name, path in points.items()}, looks)
    return figure


def _ring(axes: Axes, points: Sequence[tuple[float, float]]) -> None:
    """Mark points above their roofs: something is off with them."""
    if points:
        axes.plot(*zip(*points, strict=True), "o", color=ALARM, markerfacecolor="none", markersize=12)
        axes.text(0.98, 0.02, "ringed: above its roof", color=ALARM, fontsize=9, ha="right", transform=axes.transAxes)


def _roofline_limits(axes: Axes, group: Group, points: Sequence[tuple[float, float]]) -> None:
    """Room for every point, every peak, and the ridge of the slowest memory."""
    top, speeds = peak(group), bandwidths(group)
    xs, ys = [x for x, _ in points if np.isfinite(x)], [y for _, y in points]
    if top is not None:
        ys += [top.gflop_per_s] if points else [top.gflop_per_s, top.gflop_per_s / 100]
        xs += [top.gflop_per_s / speed for speed in speeds.values()]
    axes.set_xlim(min(xs) / 6, max(xs) * 2)
    axes.set_ylim(min(ys) / 2, max(ys) * 2)


def _roofs(axes: Axes, group: Group) -> None:
    """Bandwidth slopes up to the peak, and a horizontal for each instruction set; the one in use is bold."""
    left, right = axes.get_xlim()
    bottom = axes.get_ylim()[0]
    top = peak(group)
    ceiling = top.gflop_per_s if top else axes.get_ylim()[1]
    speeds = bandwidths(group)
    for speed in speeds.values():
        ends = np.array([max(left, bottom / speed), min(right, ceiling / speed)])
        axes.plot(ends, speed * ends, color=QUIET, linewidth=1.0)
    for names, speed in _slope_labels(speeds).items():
        _label_slope(axes, f"{names} {number(speed)} GB/s", max(left, bottom / speed) * 1.2, speed)
    fastest = max(speeds.values(), default=ceiling / left)
    ceilings = fma_ceilings(group)
    for record in ceilings:
        rate = record["gflop_per_s"]
        used = is_in_use(record)
        colour, width = (INK, 1.8) if used else (QUIET, 0.8)
        axes.plot([max(left, rate / fastest), right], [rate, rate], color=colour, linewidth=width)
        near = [other for other in ceilings if rate <= other["gflop_per_s"] < APART_RATES * rate]
        if near[-1] is not record:  # the one above it carries both names
            continue
        beside = [other for other in ceilings if other["gflop_per_s"] <= rate < APART_RATES * other["gflop_per_s"]]
        text = f"{', '.join(map(loop_name, beside))}{',' * used} {number(rate)}"
        axes.annotate(text, (right, rate), (-1, 2.5), textcoords="offset points", fontsize=8,
                      color=colour, ha="right", bbox=PLATE)  # fmt: skip


def _slope_labels(speeds: Mapping[str, float]) -> dict[str, float]:
    """Whose names to write over which bandwidth: lines too near to each other for two labels share the upper one's."""
    labels: dict[str, float] = {}
    for level, speed in sorted(speeds.items(), key=lambda item: item[1]):
        shared = bool(labels) and speed < APART * max(labels.values())
        labels[f"{labels.popitem()[0]}, {level}" if shared else level] = speed
    return labels


def _label_slope(axes: Axes, text: str, x: float, speed: float) -> None:
    """Write along a bandwidth line, just above it."""
    (x0, y0), (x1, y1) = axes.transData.transform([(x, speed * x), (2 * x, 2 * speed * x)])
    angle = float(np.degrees(np.arctan2(y1 - y0, x1 - x0)))
    axes.annotate(text, (x, speed * x), (-2, 2), textcoords="offset points", fontsize=8, color=QUIET,
                  rotation=angle, rotation_mode="anchor", bbox=PLATE | {"pad": 0})  # fmt: skip


def speed(group: Group, looks: Looks) -> Figure | None:
    """GFLOP/s over N with p20 to p80 bars; the top of the axis is the measured peak."""
    paths = {name: runs for name in group.backends() if (runs := group.squares(name))}
    if not paths:
        return None
    top = peak(group)
    with canvas(4.4, list(paths)) as (figure, axes):
        axes.set(xscale="log", xlabel="N, of square products", ylabel="GFLOP/s")
        for name, runs in paths.items():
            rates = np.array([record["gflop_per_s"] for record in runs])
            bars = [rates - [r["gflop"] / r["p80_s"] for r in runs], [r["gflop"] / r["p20_s"] for r in runs] - rates]
            axes.errorbar([r["problem"]["n"] for r in runs], rates, np.clip(bars, 0, None), ecolor=looks[name].colour,
                          elinewidth=0.9, capsize=2, **looks[name].line())  # fmt: skip
        fastest = max(record["gflop_per_s"] for runs in paths.values() for record in runs)
        axes.set_ylim(0, top.gflop_per_s if top and fastest <= top.gflop_per_s else 1.05 * fastest)
        _size_axis(axes, paths)
        if top is not None:
            axes.axhline(top.gflop_per_s, color=INK, linewidth=1.8, clip_on=False)
            axes.text(0.01, top.gflop_per_s * 0.99, f"measured peak {number(top.gflop_per_s)}", fontsize=9, va="top",
                      transform=axes.get_yaxis_transform())  # fmt: skip
        label_lines(axes, {n: (r[-1]["problem"]["n"], r[-1]["gflop_per_s"]) for n, r in paths.items()}, looks)
    return figure


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
            axes.plot(*zip(*path, strict=True), **looks[name].line())
        _size_axis(axes, paths)
        values = [1.0, *(value for path in points.values() for _, value in path)]
        axes.set_ylim(min(values) / 1.4, max(values) * 1.4)
        plain_log(axes.yaxis)
        label_lines(axes, {name: path[-1] for name, path in points.items()}, looks)
    return figure


def accuracy(group: Group, looks: Looks) -> Figure | None:
    """Error over its bound beside speed, one dot a backend, at the product that it is judged by."""
    runs = {name: record for name in group.backends() if (record := group.largest(name)) is not None}
    points = {name: (r["gflop_per_s"], max(r["error_over_bound"], 1e-6)) for name, r in runs.items()
              if r["error_over_bound"] is not None}  # fmt: skip
    if not points:
        return None
    with canvas(3.8, list(points)) as (figure, axes):
        axes.set(xscale="log", yscale="log", xlabel="GFLOP/s", ylabel="error / bound")
        for name, point in points.items():
            axes.plot(*point, linestyle="none", markersize=8, **looks[name].point())
        rates, errors = zip(*points.values(), strict=True)
        axes.set_xlim(min(rates) / 1.6, max(rates) * 1.6)
        axes.set_ylim(min(errors) / 3, 2)
        axes.axhline(1, color=ALARM, linewidth=1.2)
        axes.annotate("over 1 is wrong", (0, 1), (3, -3), ("axes fraction", "data"), textcoords="offset points",
                      color=ALARM, fontsize=9, va="top")  # fmt: skip
        plain_log(axes.xaxis)
        plain_log(axes.yaxis)
        label_lines(axes, points, looks)
    return figure


def layers(group: Group, looks: Looks, suite: str) -> Figure | None:
    """GFLOP/s of every product of a suite: a bar as long as the fastest backend, a marker for each."""
    rows: dict[str, list[Record]] = {}
    for name in group.backends():
        for record in group.timed(name).values():
            if record["problem"]["suite"] == suite:
                rows.setdefault(record["problem"]["label"] or problem_text(record), []).append(record)
    if len(rows) < 2 or all(is_square(record) for runs in rows.values() for record in runs):
        return None
    names = in_order(record["backend"] for runs in rows.values() for record in runs)
    top = peak(group)
    with canvas(1.5 + 0.52 * len(rows) + 0.1 * len(names)) as (figure, axes):
        for height, (label, runs) in enumerate(rows.items()):
            best = max(runs, key=lambda record: record["gflop_per_s"])
            axes.barh(height, best["gflop_per_s"], 0.34, color=looks[best["backend"]].colour, alpha=0.25, zorder=1)
            fastest = f"{best['backend']} {number(best['gflop_per_s'])}"
            axes.text(0, height - 0.26, label, fontsize=9, weight="bold")
            axes.text(0.98, height - 0.26, fastest, fontsize=9, ha="right", transform=axes.get_yaxis_transform())
        for name in names:
            own = [(r["gflop_per_s"], y) for y, runs in enumerate(rows.values()) for r in runs if r["backend"] == name]
            axes.plot(*zip(*own, strict=True), linestyle="none", label=name, markersize=6.5, **looks[name].point())
        axes.set(xlabel="GFLOP/s", yticks=[], xlim=(0, None), ylim=(len(rows) - 0.5, -0.7))
        if top is not None and axes.get_xlim()[1] > top.gflop_per_s / 2:  # else the peak would crowd the rest
            axes.axvline(top.gflop_per_s, color=INK, linewidth=1.8)
            axes.set_xlim(0, max(top.gflop_per_s, axes.get_xlim()[1]))
        axes.spines["left"].set_visible(False)
        figure.legend(loc="lower center", ncols=2, fontsize=9, frameon=False, columnspacing=1.2)
        figure.subplots_adjust(left=0.03, bottom=(0.75 + 0.1 * len(names)) / figure.get_figheight())
    return figure


def _size_axis(axes: Axes, paths: Mapping[str, Sequence[Record]]) -> None:
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
