"""The figure of the machine itself: the bandwidth of its memory."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from gemmlab.analysis.formatting import size
from gemmlab.analysis.groups import Group, threads_of
from gemmlab.measure.records import Record
from gemmlab.report.drawing import BLUE, GREEN, INK, ORANGE, Style, canvas, label_lines, plain_log

OPERATIONS = {
    "load": Style(BLUE, "o", baseline=False),
    "copy": Style(ORANGE, "s", baseline=False),
    "triad": Style(GREEN, "^", baseline=False),
}


def bandwidth(group: Group) -> Figure | None:
    """GB/s over the working set of a thread, with the sizes of the caches marked; None without a sweep."""
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
