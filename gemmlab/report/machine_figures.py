"""The figures of the machine itself: its multiply-add rates and the bandwidth of its memory.

Every function returns None where the ceilings were not measured.
"""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from gemmlab.report.drawing import BLUE, GREEN, INK, ORANGE, Style, canvas, label_lines, plain_log
from gemmlab.report.groups import Group, threads_of, threads_text
from gemmlab.report.words import number, size

OPERATIONS = {
    "load": Style(BLUE, "o", baseline=False),
    "copy": Style(ORANGE, "s", baseline=False),
    "triad": Style(GREEN, "^", baseline=False),
}


def bandwidth(group: Group) -> Figure | None:
    """GB/s over the working set of a thread, with the sizes of the caches marked."""
    points = sorted((c for c in group.ceilings if c["ceiling"] == "sweep" and threads_of(c) == group.threads),
                    key=lambda record: record["working_set_bytes"])  # fmt: skip
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
        for level, cache in (points[0]["environment"].get("cache_bytes") or {}).items():
            if cache:
                axes.axvline(cache, color=INK, linewidth=0.9, linestyle=(0, (2, 2)))
                axes.text(cache, 1.01, level, ha="center", fontsize=9, transform=axes.get_xaxis_transform())
        label_lines(axes, ends, OPERATIONS)
    return figure


def multiply_adds(group: Group) -> Figure | None:
    """The multiply-add rate of every instruction set, a bar each, on one thread and on all."""
    rates = {(c["isa"], c["dtype"], threads_of(c)): c["gflop_per_s"] for c in group.ceilings if c["ceiling"] == "fma"}
    if not rates:
        return None
    used = next(c["environment"].get("isa") for c in group.ceilings if c["ceiling"] == "fma")
    kinds = list(dict.fromkeys((dtype, threads) for _, dtype, threads in rates))
    isas = list(dict.fromkeys(isa for isa, _, _ in rates))
    rows = [(kind, isa) for kind in kinds for isa in isas if (isa, *kind) in rates]
    with canvas(0.9 + 0.24 * len(rows) + 0.3 * len(kinds)) as (figure, axes):
        top = max(rates.values())
        height, ticks = 0.0, []
        for kind in kinds:
            axes.text(0, height, f"{kind[0]}, {threads_text(kind[1])}", fontsize=9, va="center", weight="bold")
            for isa in isas:
                if (rate := rates.get((isa, *kind))) is not None:
                    height += 1
                    axes.barh(height, rate, 0.72, color=BLUE if isa == used else "#b7c4d1")
                    axes.text(rate + 0.01 * top, height, number(rate), fontsize=9, va="center")
                    ticks.append((height, f"{isa}, in use" if isa == used else isa))
            height += 1.25
        axes.set(xlabel="GFLOP/s", xlim=(0, 1.12 * top), ylim=(height - 0.5, -0.7))
        axes.set_yticks(*zip(*ticks, strict=True), fontsize=9)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        figure.subplots_adjust(left=0.2)
    return figure
