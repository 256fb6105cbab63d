"""Figures of the machine itself: its multiply-add rates and the bandwidth of its memory.

Every function returns None where the ceilings were not measured.
"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from gemmlab.analysis.attainable import is_in_use, isa_label
from gemmlab.analysis.formatting import number, size
from gemmlab.analysis.groups import Group, threads_of
from gemmlab.measure.records import Record
from gemmlab.report.drawing import BLUE, GREEN, INK, ORANGE, Style, canvas, label_lines, plain_log
from gemmlab.report.tables import with_threads

OPERATIONS = {
    "load": Style(BLUE, "o", baseline=False),
    "copy": Style(ORANGE, "s", baseline=False),
    "triad": Style(GREEN, "^", baseline=False),
}


def bandwidth(group: Group) -> Figure | None:
    """GB/s over the working set of a thread, with the sizes of the caches marked."""
    sweep = [c for c in group.ceilings if c["ceiling"] == "sweep" and threads_of(c) == group.threads]
    points: dict[str, list[tuple[float, float]]] = {}
    for record in sorted(sweep, key=lambda record: float(record["working_set_bytes"])):
        if record["operation"] in OPERATIONS:
            points.setdefault(record["operation"], []).append((record["working_set_bytes"], record["gb_per_s"]))
    if not points:
        return None
    with canvas(3.8, list(OPERATIONS)) as (figure, axes):
        axes.set(xscale="log", yscale="log", xlabel="working set of a thread", ylabel="GB/s")
        for operation, path in points.items():
            axes.plot(*zip(*path, strict=True), **OPERATIONS[operation].line(markersize=4))
        sizes = [nbytes for path in points.values() for nbytes, _ in path]
        axes.set_xticks([2.0**power for power in range(13, 40, 4) if min(sizes) / 2 <= 2**power <= 2 * max(sizes)])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size(value)))
        plain_log(axes.yaxis)
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


def multiply_adds(group: Group) -> Figure | None:
    """A bar for the multiply-add rate of every instruction set, on one thread and on all; a device has only one."""
    measured = [ceiling for ceiling in group.ceilings if ceiling["ceiling"] == "fma" and ceiling["threads"]]
    if not measured:
        return None
    rates = {(with_threads(c["dtype"], c), isa_label(c)): c["gflop_per_s"] for c in measured}
    in_use = {isa_label(ceiling) for ceiling in measured if is_in_use(ceiling)}
    headings, isas = (list(dict.fromkeys(keys)) for keys in zip(*rates, strict=True))
    top = max(rates.values())
    with canvas(0.9 + 0.24 * len(rates) + 0.3 * len(headings)) as (figure, axes):
        height, ticks = 0.0, []
        for heading in headings:
            axes.text(0, height, heading, fontsize=9, va="center", weight="bold")
            for isa in isas:
                if (rate := rates.get((heading, isa))) is not None:
                    height += 1
                    axes.barh(height, rate, 0.72, color=BLUE if isa in in_use else "#b7c4d1")
                    axes.text(rate + 0.01 * top, height, number(rate), fontsize=9, va="center")
                    ticks.append((height, isa))
            height += 1.25
        axes.set(xlabel="GFLOP/s", xlim=(0, 1.12 * top), ylim=(height - 0.5, -0.7))
        axes.set_yticks(*zip(*ticks, strict=True), fontsize=9)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        figure.subplots_adjust(left=0.2)
    return figure
