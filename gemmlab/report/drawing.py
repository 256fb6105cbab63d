"""What all figures share: styles of backends, axes, labels that do not overlap, and SVG for a page.

Figures are drawn for a narrow column, at about the size that a phone shows them, or as wide as the page, with labels
beside the lines instead of a legend. The colours are distinct for the colour-blind and never carry meaning alone: each
backend has a separate marker, and baselines have dashed lines and hollow markers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from gemmlab._words import number
from gemmlab.analysis.groups import is_baseline

Keywords = dict[str, Any]  # for matplotlib's functions
Point = tuple[float, float]

INK, QUIET, GRID, ALARM = "#1f2328", "#5c6570", "#e4e7eb", "#c1121f"
BLUE, ORANGE, GREEN = "#0062a8", "#c44f00", "#00805c"
WIDTH_INCHES, WIDE_INCHES = 4.9, 11.2
LEFT_INCHES = 0.86  # of the axes, for ticks and their name
LETTER_INCHES = 0.08  # width of a letter of a label
TICK_INCHES = 0.3  # of a tick's label, on either axis
PLATE = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.8}  # behind text over lines

RC: Any = {
    "font.family": ["DejaVu Sans", "sans-serif"], "font.size": 10, "svg.fonttype": "none",
    "text.color": INK, "axes.labelcolor": INK, "xtick.color": QUIET, "ytick.color": QUIET,
    "axes.edgecolor": "#9aa3ad", "axes.linewidth": 0.8, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "axes.axisbelow": True, "grid.color": GRID, "grid.linewidth": 0.7,
    "lines.linewidth": 1.7, "lines.markersize": 5.5, "figure.facecolor": "white", "axes.unicode_minus": True,
    "text.parse_math": False,  # a name from a record may have dollar signs
}  # fmt: skip


@dataclass(frozen=True)
class Style:
    """How one backend looks in every figure; `key` is short and unique in a report, and begins its ids in an SVG."""

    colour: str
    marker: str
    baseline: bool
    key: str = ""

    def part_id(self, name: str) -> str | None:
        """The id of a part of a figure in an SVG; None without a key."""
        return f"{self.key}-{name}" if self.key else None

    def line(self, **changes: Any) -> Keywords:
        """Keywords for `Axes.plot`: baselines are dashed and hollow."""
        dashes = (0, (4, 2)) if self.baseline else "-"
        return {"color": self.colour, "linestyle": dashes, **self.point(), **changes}

    def point(self, **changes: Any) -> Keywords:
        """Keywords for a marker without a line."""
        return {"marker": self.marker, "markeredgecolor": self.colour, "markeredgewidth": 1.3,
                "markerfacecolor": "white" if self.baseline else self.colour, **changes}  # fmt: skip


Styles = Mapping[str, Style]

KNOWN = {
    "cpu-naive": ("#6e6e6e", "X"), "cpu-ikj": ("#b5588f", "v"), "cpu-blocked": ("#d98a00", "s"),
    "cpu-blocked-local": ("#c44f00", "D"), "cpu-packed": ("#0062a8", "o"), "cpu-numpy": ("#222222", "^"),
    "cpu-blas": ("#00805c", "P"), "cpu-mkl": ("#3a9bd9", "h"), "cpu-blis": ("#8a6d1d", "<"),
}  # fmt: skip
OTHERS = (
    ("#6e6e6e", "X"), ("#b5588f", "v"), ("#d98a00", "s"), ("#c44f00", "D"), ("#00805c", "P"),
    ("#0062a8", "o"), ("#7a52a8", "p"), ("#3a9bd9", "h"), ("#8a6d1d", "<"), ("#222222", "^"),
)  # fmt: skip


# Each colour above, and white, on a dark page: the same hue with the same contrast.
DARK = {
    INK: "#e6e9ec", QUIET: "#a3adb7", GRID: "#2b3138", ALARM: "#ff6b6f", "#ffffff": "#1b1f24", "#9aa3ad": "#5c6570",
    "#6e6e6e": "#a0a0a0", "#b5588f": "#e08abb", "#d98a00": "#f0a828", "#c44f00": "#f4803c", "#0062a8": "#58a9ec",
    "#222222": "#d9d9d9", "#00805c": "#2fbf93", "#3a9bd9": "#7cc4f2", "#8a6d1d": "#c9a64a", "#7a52a8": "#b592e0",
}  # fmt: skip


def styles(names: Sequence[str]) -> dict[str, Style]:
    """A style for every backend; a known name has the same in every report."""
    unknown = [name for name in names if name not in KNOWN]
    looks = KNOWN | {name: OTHERS[i % len(OTHERS)] for i, name in enumerate(unknown)}
    return {name: Style(*looks[name], is_baseline(name), f"b{i}") for i, name in enumerate(names)}


@contextmanager
def canvas(
    height_inches: float, labels: Sequence[str] = (), width_inches: float = WIDTH_INCHES
) -> Iterator[tuple[Figure, Axes]]:
    """A figure with one pair of axes, and room for a column of labels beside them."""
    with matplotlib.rc_context(RC):
        figure = Figure(figsize=(width_inches, height_inches))
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        column = 0.42 + LETTER_INCHES * max(map(len, labels)) if labels else 0.15
        below, above = 0.52 / height_inches, 0.2 / height_inches
        right = max(0.45, 1 - column / width_inches)
        figure.subplots_adjust(left=LEFT_INCHES / width_inches, right=right, bottom=below, top=1 - above)
        yield figure, axes


def label_lines(axes: Axes, ends: Mapping[str, Point], looks: Styles) -> None:
    """Name each line in a column beside the axes, at the height of its end where there is room.

    `ends` maps a name to the last point of its line, in data coordinates. Call this after the limits are set.
    """
    inch, gap = axes.figure.dpi / axes.bbox.width, 0.175 * axes.figure.dpi / axes.bbox.height
    to_axes = axes.transData + axes.transAxes.inverted()
    points = {name: to_axes.transform(end) for name, end in ends.items()}
    names = sorted(points, key=lambda name: float(points[name][1]))
    for name, y in zip(names, spread([float(points[name][1]) for name in names], gap), strict=True):
        look = looks[name]
        leader = [points[name][0], 1.0, 1 + 0.1 * inch], [points[name][1], y, y]
        beside: Keywords = {"transform": axes.transAxes, "clip_on": False}
        axes.plot(*leader, color=look.colour, linewidth=0.7, linestyle=":", gid=look.part_id("leader"), **beside)
        sign = look.point(linestyle="none", markersize=5, gid=look.part_id("sign"))
        axes.plot(1 + 0.18 * inch, y, **sign, **beside)
        axes.text(1 + 0.28 * inch, y, name, va="center", fontsize=9, color=look.colour, gid=look.part_id("name"),
                  **beside)  # fmt: skip


def size_axis(axes: Axes, sizes: Sequence[int]) -> None:
    """Make the horizontal axis logarithmic, with ticks at as many of the sizes as fit."""
    low, high = min(sizes) / 1.25, max(sizes) * 1.25
    axes.set(xscale="log", xlim=(low, high))
    inches = axes.bbox.width / axes.figure.dpi / math.log(high / low)
    ticks = [max(sizes)]
    for n in sorted(set(sizes), reverse=True):
        if math.log(ticks[0] / n) * inches > LETTER_INCHES * (len(str(n)) + 1):
            ticks.insert(0, n)
    axes.set_xticks(ticks, [str(n) for n in ticks], fontsize=9)
    axes.xaxis.set_minor_locator(NullLocator())


def plain_log(axis: Axis) -> None:
    """Label a logarithmic axis with plain numbers: at 1, 2, 5, 10, ..., or only at powers of ten without room.

    Call this after the limits are set.
    """
    low, high = axis.get_view_interval()
    box = axis.axes.get_window_extent()
    length_inches = (box.width if axis is axis.axes.xaxis else box.height) / axis.axes.figure.dpi
    all_fit = 3 * math.log10(high / low) * TICK_INCHES < length_inches
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if all_fit else (1.0,), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axis.set_minor_locator(NullLocator())


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Move sorted heights from 0 to 1 apart until neighbours have at least `gap` between them, as far as there is room.

    Examples
    --------
    >>> [round(height, 2) for height in spread([0.5, 0.5], 0.25)]
    [0.38, 0.62]
    """
    moved = list(heights)
    for _ in range(50 * len(moved)):
        for i in range(1, len(moved)):
            push = max(0.0, gap - (moved[i] - moved[i - 1])) / 2
            moved[i - 1], moved[i] = max(0.0, moved[i - 1] - push), min(1.0, moved[i] + push)
    return moved


def save(figure: Figure, stem: Path) -> str:
    """Write the figure as ``stem.png`` and ``stem.svg``, and return the text of the SVG."""
    text = StringIO()
    with matplotlib.rc_context(RC | {"svg.hashsalt": stem.name}):
        figure.savefig(stem.with_name(stem.name + ".png"), dpi=160)
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": "gemmlab"})
    stem.with_name(stem.name + ".svg").write_text(text.getvalue(), encoding="utf-8")
    return text.getvalue()


def inline(svg: str, prefix: str, title: str) -> str:
    """The text of an SVG file as an element of a page, with a title for screen readers.

    Ids get a prefix, so that they are unique in the page. Colours become variables of the page, whose values depend on
    whether it is light or dark.
    """
    svg = svg[svg.index("<svg ") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r'(xlink:href="|url\()#', rf"\g<1>#{prefix}-", svg)
    opening = f'<svg role="img" aria-labelledby="{prefix}-title" '
    box = re.search(r'viewBox="[^"]+"', svg)
    assert box is not None
    inside = re.sub("|".join(DARK), lambda found: f"var({variable(found[0])})", svg[svg.index(">") + 1 :])
    namespaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return f'{opening}{box[0]} {namespaces}>\n<title id="{prefix}-title">{title}</title>{inside}'


def variable(colour: str) -> str:
    """The name of a figure's colour in the styles of a page."""
    return f"--c{colour.removeprefix('#')}"
