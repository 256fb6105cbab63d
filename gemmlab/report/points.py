"""Points of a figure that show facts on the page: what record they stand for, and what its limits are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gemmlab._words import number, percent
from gemmlab.analysis.attainable import lowest_limit
from gemmlab.analysis.formatting import problem_text, threads_text
from gemmlab.analysis.groups import Group, threads_of
from gemmlab.measure.records import Record
from gemmlab.report.drawing import ALARM, Keywords, Point, Style
from gemmlab.roofline.model import intensity

RING_POINTS = 12  # typographic points across
Facts = dict[str, str]


class Marker(Line2D):
    """The marker of one product, with its backend and the facts that a page shows."""

    def __init__(self, point: Point, backend: str, facts: Facts, look: Keywords) -> None:
        super().__init__([point[0]], [point[1]], linestyle="none", zorder=3, **look)
        self.backend = backend
        self.facts = facts


def add_marker(axes: Axes, point: Point, record: Record, facts: Facts, style: Style, **changes: Any) -> None:
    """Draw a product's marker in its backend's style, which `changes` overrides; it has an id in an SVG."""
    marker = Marker(point, record["backend"], facts, style.point(**changes))
    marker.set_gid(style.part_id(f"point{len(axes.lines)}"))
    axes.add_line(marker)


def markers_of(figure: Figure) -> dict[str, Marker]:
    """Every marker of a figure by its id, in the order in which they were drawn."""
    lines = (line for axes in figure.axes for line in axes.lines)
    return {str(line.get_gid()): line for line in lines if isinstance(line, Marker) and line.get_gid()}


def ring(axes: Axes, points: Iterable[Point]) -> None:
    """Circle points above their roofline: they are shown, and marked as doubtful."""
    if points := list(points):
        axes.plot(*zip(*points, strict=True), "o", color=ALARM, markerfacecolor="none", markersize=RING_POINTS)
        axes.figure.text(0.99, 0.995, "ringed: above its roofline", color=ALARM, fontsize=8.5, ha="right", va="top")


def facts_of(group: Group, record: Record, level: str | None = None) -> Facts:
    """Facts of a product by name; `level` is the memory level that places its point (None: that of its limit)."""
    lowest = lowest_limit(group, record)
    level = level or (lowest.level if lowest and lowest.is_memory else "DRAM")
    flop_per_byte, definition = intensity(record, level)
    threads, error = threads_of(record), record["error_over_bound"]
    low, high = (number(record["gflop"] / record[key]) for key in ("p80_s", "p20_s"))
    facts = {
        "Problem": problem_text(record),
        "Parameters": ", ".join(f"{name} {value}" for name, value in record["params"].items()),
        "Threads": threads_text(threads) if threads < group.threads else "",
        "GFLOP/s (p20 to p80)": f"{number(record['gflop_per_s'])} ({low} to {high})",
        f"Flop per byte of {level}": f"{number(flop_per_byte)} ({definition})",
        "Lowest limit": f"{lowest.name}, {number(lowest.attainable)} GFLOP/s; reaches {percent(lowest.share)}"
        if lowest else "",
        "Error / bound": number(error) if error is not None else "",
        "Noisy": (record.get("noisy_because") or "yes") if record["noisy"] else "",
    }  # fmt: skip
    return {name: text for name, text in facts.items() if text}
