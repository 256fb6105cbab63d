"""Figures of speed: over size, and product by product of a suite.

Every function returns None where the records have nothing to show in it.
"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gemmlab.analysis.attainable import is_above_roof, peak
from gemmlab.analysis.formatting import number, problem_text
from gemmlab.analysis.groups import Group, in_order, is_square
from gemmlab.measure.records import Record
from gemmlab.report.drawing import INK, Styles, canvas, label_lines, size_axis
from gemmlab.report.points import add_marker, facts_of, ring

FAR = 4  # times the fastest product


def speed(group: Group, looks: Styles) -> Figure | None:
    """GFLOP/s over N with p20 to p80 bars, under the measured peak."""
    runs = {name: own for name in group.backends() if (own := group.squares(name))}
    if not runs:
        return None
    with canvas(4.4, list(runs)) as (figure, axes):
        axes.set(xlabel="N, of square products", ylabel="GFLOP/s")
        for name, own in runs.items():
            look, sizes = looks[name], list(map(_n, own))
            rates = [record["gflop_per_s"] for record in own]
            axes.plot(sizes, rates, gid=look.part_id("path"), **look.line(marker=""))
            low, high = ([record["gflop"] / record[key] for record in own] for key in ("p80_s", "p20_s"))
            axes.vlines(sizes, low, high, color=look.colour, linewidth=0.9, gid=look.part_id("bars"))
            for point, record in zip(zip(sizes, rates, strict=True), own, strict=True):
                add_marker(axes, point, record, facts_of(group, record), look)
        size_axis(axes, [_n(record) for own in runs.values() for record in own])
        _rate_axis(axes, group, max(record["gflop_per_s"] for own in runs.values() for record in own))
        above = [record for own in runs.values() for record in own if is_above_roof(group, record)]
        ring(axes, [(_n(record), record["gflop_per_s"]) for record in above])
        label_lines(axes, {name: (_n(own[-1]), own[-1]["gflop_per_s"]) for name, own in runs.items()}, looks)
    return figure


def _rate_axis(axes: Axes, group: Group, fastest: float) -> None:
    """Set the top of the axis to the measured peak, or only name the peak where it is far above."""
    height = 1.05 * fastest
    axes.set_ylim(0, height)
    if (top := peak(group)) is None:
        return
    rate = top.gflop_per_s
    is_far = rate > FAR * fastest
    if not is_far:
        axes.set_ylim(0, height if fastest > rate else rate)
        axes.axhline(rate, color=INK, linewidth=1.8, clip_on=False)
        height = rate
    axes.text(0.01, 0.99 * height, f"measured peak {number(rate)}{', far above' * is_far}", fontsize=9, va="top",
              transform=axes.get_yaxis_transform())  # fmt: skip


def products_of(group: Group, looks: Styles, suite: str) -> Figure | None:
    """GFLOP/s of every product of a suite: a bar as long as the fastest backend, and a marker for each."""
    products: dict[str, list[Record]] = {}
    for backend in group.backends():
        for record in group.timed(backend).values():
            if record["problem"]["suite"] == suite:
                products.setdefault(record["problem"]["label"] or problem_text(record), []).append(record)
    if len(products) < 2 or all(is_square(record) for runs in products.values() for record in runs):
        return None
    backends = in_order(record["backend"] for runs in products.values() for record in runs)
    top = peak(group)
    with canvas(1.5 + 0.52 * len(products) + 0.1 * len(backends)) as (figure, axes):
        for backend in backends:
            axes.plot([], [], label=backend, **looks[backend].point(linestyle="none", markersize=6.5))
        for height, (label, runs) in enumerate(products.items()):
            best = max(runs, key=lambda record: float(record["gflop_per_s"]))
            axes.barh(height, best["gflop_per_s"], 0.34, color=looks[best["backend"]].colour, alpha=0.25, zorder=1)
            fastest = f"{best['backend']} {number(best['gflop_per_s'])}"
            axes.text(0, height - 0.26, label, fontsize=9, weight="bold")
            axes.text(0.98, height - 0.26, fastest, fontsize=9, ha="right", transform=axes.get_yaxis_transform())
            for record in runs:
                point = record["gflop_per_s"], height
                add_marker(axes, point, record, facts_of(group, record), looks[record["backend"]], markersize=6.5)
        axes.set(xlabel="GFLOP/s", yticks=[], xlim=(0, None), ylim=(len(products) - 0.5, -0.7))
        if top is not None and axes.get_xlim()[1] > top.gflop_per_s / 2:  # else it would leave no room for the bars
            axes.axvline(top.gflop_per_s, color=INK, linewidth=1.8)
            axes.set_xlim(0, max(top.gflop_per_s, axes.get_xlim()[1]))
        axes.spines["left"].set_visible(False)
        figure.legend(loc="lower center", ncols=2, fontsize=9, frameon=False, columnspacing=1.2)
        figure.subplots_adjust(left=0.03, bottom=(0.75 + 0.1 * len(backends)) / figure.get_figheight())
    return figure


def _n(record: Record) -> int:
    return int(record["problem"]["n"])
