"""Figures of speed: of products over their size and of those of a suite, and of the memory over the working set.

Every function returns None where the records have nothing to show in it.
"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from gemmlab._words import number, size
from gemmlab.analysis.attainable import is_above_roof, peak
from gemmlab.analysis.formatting import problem_text
from gemmlab.analysis.groups import Group, in_order, is_square, threads_of
from gemmlab.measure.records import Record, grouped
from gemmlab.report import drawing
from gemmlab.report.drawing import INK, Style, Styles, canvas, label_lines
from gemmlab.report.points import add_marker, facts_of, ring

FAR = 4  # times the fastest product
OPERATIONS = {
    "load": Style(drawing.BLUE, "o", baseline=False),
    "copy": Style(drawing.ORANGE, "s", baseline=False),
    "triad": Style(drawing.GREEN, "^", baseline=False),
}


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
        drawing.size_axis(axes, [_n(record) for own in runs.values() for record in own])
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
    timed = [record for backend in group.backends() for record in group.timed(backend).values()]
    shown = [record for record in timed if record["problem"]["suite"] == suite]
    products = grouped(shown, lambda record: str(record["problem"]["label"] or problem_text(record)))
    if len(products) < 2 or all(map(is_square, shown)):
        return None
    backends = in_order(record["backend"] for record in shown)
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


def bandwidth(group: Group) -> Figure | None:
    """GB/s over the working set of a thread, with the sizes of the caches marked; None without a sweep."""
    sweep = [c for c in group.ceilings if c["ceiling"] == "sweep" and threads_of(c) == group.threads]
    shown = [record for record in sorted(sweep, key=_working_set) if record["operation"] in OPERATIONS]
    if not shown:
        return None
    points = {operation: [(_working_set(record), record["gb_per_s"]) for record in own]
              for operation, own in grouped(shown, lambda record: str(record["operation"])).items()}  # fmt: skip
    with canvas(3.8, list(OPERATIONS)) as (figure, axes):
        axes.set(xscale="log", yscale="log", xlabel="working set of a thread", ylabel="GB/s")
        for operation, path in points.items():
            axes.plot(*zip(*path, strict=True), **OPERATIONS[operation].line(markersize=4))
        sizes = list(map(_working_set, shown))
        axes.set_xticks([2.0**power for power in range(13, 40, 4) if min(sizes) / 2 <= 2**power <= 2 * max(sizes)])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size(value)))
        drawing.plain_log(axes.yaxis)
        _mark_caches(axes, sweep[0])
        label_lines(axes, {operation: path[-1] for operation, path in points.items()}, OPERATIONS)
    return figure


def _mark_caches(axes: Axes, ceiling: Record) -> None:
    """A dotted line at the size of each cache; those of a GPU are not known."""
    caches = ceiling["environment"].get("cache_bytes") if ceiling["threads"] else None
    for level, nbytes in (caches or {}).items():
        if nbytes:
            axes.axvline(nbytes, color=INK, linewidth=0.9, linestyle=(0, (2, 2)))
            axes.text(nbytes, 1.01, level, ha="center", fontsize=9, transform=axes.get_xaxis_transform())


def _n(record: Record) -> int:
    return int(record["problem"]["n"])


def _working_set(record: Record) -> float:
    return float(record["working_set_bytes"])
