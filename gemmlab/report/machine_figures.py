"""The figures of the machine itself: its multiply-add rates and the bandwidth of its memory.

Every function returns None where the ceilings were not measured.
"""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from gemmlab.report.drawing import BLUE, GREEN, INK, ORANGE, Style, canvas, label_lines, plain_log
from gemmlab.report.groups import Group, on_threads, threads_of
from gemmlab.report.roofs import is_in_use, loop_name
from gemmlab.report.words import number, size

OPERATIONS = {
    "load": Style(BLUE, "o", baseline=False),
    "copy": Style(ORANGE, "s", baseline=False),
    "triad": Style(GREEN, "^", baseline=False),
}


def bandwidth(group: Group) -> Figure | None:
    """GB/s over the working set of a thread, with the sizes of the caches marked."""
    sweep = (c for c in group.ceilings if c["ceiling"] == "sweep" and c["operation"] in OPERATIONS)
    points = sorted((c for c in sweep if threads_of(c) == group.threads), key=lambda c: c["working_set_bytes"])
    if not points:
        return None
    ends = {}
    with canvas(3.8, list(OPERATIONS)) as (figure, axes):
        axes.set(xscale="log", yscale="log", xlabel="working set of a thread", ylabel="GB/s")
        for operation in dict.fromkeys(record["operation"] for record in points):
            path = [(r["working_set_bytes"], r["gb_per_s"]) for r in points if r["operation"] == operation]
            axes.plot(*zip(*path, strict=True), **(OPERATIONS[operation].line() | {"markersize": 4}))
            ends[operation] = path[-1]
        sizes = [record["working_set_bytes"] for record in points]
        axes.set_xticks([2.0**power for power in range(13, 40, 4) if sizes[0] / 2 <= 2**power <= 2 * sizes[-1]])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size(value)))
        plain_log(axes.yaxis)
        caches = points[0]["environment"].get("cache_bytes") if points[0]["threads"] else None  # a GPU's: not known
        for level, cache in (caches or {}).items():
            if cache:
                axes.axvline(cache, color=INK, linewidth=0.9, linestyle=(0, (2, 2)))
                axes.text(cache, 1.01, level, ha="center", fontsize=9, transform=axes.get_xaxis_transform())
        label_lines(axes, ends, OPERATIONS)
    return figure


def multiply_adds(group: Group) -> Figure | None:
    """The multiply-add rate of every instruction set, a bar each, on one thread and on all; a device has none."""
    measured = [ceiling for ceiling in group.ceilings if ceiling["ceiling"] == "fma" and ceiling["threads"]]
    if not measured:
        return None
    rates = {(loop_name(c), on_threads(c["dtype"], c)): c["gflop_per_s"] for c in measured}
    used = {loop_name(ceiling) for ceiling in measured if is_in_use(ceiling)}
    loops, kinds = (list(dict.fromkeys(keys)) for keys in zip(*rates, strict=True))
    with canvas(0.9 + 0.24 * len(rates) + 0.3 * len(kinds)) as (figure, axes):
        top = max(rates.values())
        height, ticks = 0.0, []
        for kind in kinds:
            axes.text(0, height, kind, fontsize=9, va="center", weight="bold")
            for loop in loops:
                if (rate := rates.get((loop, kind))) is not None:
                    height += 1
                    axes.barh(height, rate, 0.72, color=BLUE if loop in used else "#b7c4d1")
                    axes.text(rate + 0.01 * top, height, number(rate), fontsize=9, va="center")
                    ticks.append((height, loop))
            height += 1.25
        axes.set(xlabel="GFLOP/s", xlim=(0, 1.12 * top), ylim=(height - 0.5, -0.7))
        axes.set_yticks(*zip(*ticks, strict=True), fontsize=9)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        figure.subplots_adjust(left=0.2)
    return figure
