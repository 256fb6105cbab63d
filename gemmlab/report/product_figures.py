"""The backends beside each other: accuracy beside speed, and the products of a suite.

Every function returns None where the records have nothing to show in it.
"""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from gemmlab.report.details import details
from gemmlab.report.dots import add_dot
from gemmlab.report.drawing import ALARM, INK, Style, canvas, label_lines, plain_log
from gemmlab.report.groups import Group, Record, in_order, is_square, problem_text
from gemmlab.report.roofs import peak
from gemmlab.report.words import number

Looks = Mapping[str, Style]


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
            add_dot(axes, point, name, details(group, runs[name]), looks[name], markersize=8)
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
            axes.plot([], [], linestyle="none", label=name, markersize=6.5, **looks[name].point())
            for y, record in ((y, r) for y, runs in enumerate(rows.values()) for r in runs if r["backend"] == name):
                add_dot(axes, (record["gflop_per_s"], y), name, details(group, record), looks[name], markersize=6.5)
        axes.set(xlabel="GFLOP/s", yticks=[], xlim=(0, None), ylim=(len(rows) - 0.5, -0.7))
        if top is not None and axes.get_xlim()[1] > top.gflop_per_s / 2:  # else the peak would crowd the rest
            axes.axvline(top.gflop_per_s, color=INK, linewidth=1.8)
            axes.set_xlim(0, max(top.gflop_per_s, axes.get_xlim()[1]))
        axes.spines["left"].set_visible(False)
        figure.legend(loc="lower center", ncols=2, fontsize=9, frameon=False, columnspacing=1.2)
        figure.subplots_adjust(left=0.03, bottom=(0.75 + 0.1 * len(names)) / figure.get_figheight())
    return figure
