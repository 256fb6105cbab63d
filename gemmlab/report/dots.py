"""Dots that can tell what they are: the marks of a figure that a page answers for when they are pointed at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gemmlab.report.details import Facts
from gemmlab.report.drawing import ALARM, Style

RING = 12  # points across


class Dot(Line2D):
    """A mark of one product of a backend, with the facts that a page shows of it."""

    def __init__(self, point: tuple[float, float], backend: str, facts: Facts, look: dict[str, Any]) -> None:
        super().__init__([point[0]], [point[1]], linestyle="none", zorder=3, **look)
        self.backend = backend
        self.facts = facts


def add_dot(axes: Axes, point: tuple[float, float], backend: str, facts: Facts, style: Style, **look: Any) -> None:
    """Draw a dot in its backend's look, which `look` may change; its id in an SVG is its own in the figure."""
    dot = Dot(point, backend, facts, style.point() | look)
    dot.set_gid(style.part(f"dot{len(axes.lines)}"))
    axes.add_line(dot)


def dots_of(figure: Figure) -> dict[str, Dot]:
    """Every dot of a figure by its id, in the order in which they were drawn."""
    lines = (line for axes in figure.axes for line in axes.lines)
    return {str(line.get_gid()): line for line in lines if isinstance(line, Dot) and line.get_gid()}


def ring(axes: Axes, points: Iterable[tuple[float, float]]) -> None:
    """Mark points above their roofs: something is off with them, so they are shown and not hidden."""
    if points := list(points):
        axes.plot(*zip(*points, strict=True), "o", color=ALARM, markerfacecolor="none", markersize=RING)
        axes.figure.text(0.99, 0.995, "ringed: above its roof", color=ALARM, fontsize=8.5, ha="right", va="top")
