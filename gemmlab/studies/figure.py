"""The figure of a part: speed-ups along what the study varies, ours solid, the source's dotted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import log
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from gemmlab.report import figures
from gemmlab.report.drawing import (
    INK,
    KNOWN,
    LETTER_INCHES,
    OTHERS,
    QUIET,
    WIDTH_INCHES,
    Style,
    canvas,
    label_lines,
    plain_log,
    styles,
)
from gemmlab.report.groups import is_baseline
from gemmlab.report.roofs import bandwidths, peak
from gemmlab.studies.curves import Part, ordered, speed_ups
from gemmlab.studies.study import Record, X

Curves = Mapping[str, Mapping[X, float]]
SHORT = 8  # from the lower end of an axis to the upper


def drawings(part: Part) -> Iterator[tuple[str, Figure]]:
    """Every figure of a part with the end of its file name."""
    if (figure := speed_up(part)) is not None:
        yield "", figure
    if part.study.ceilings_s and (figure := _roofline(part)) is not None:
        yield "-roofline", figure


def speed_up(part: Part) -> Figure | None:
    """The figure; None where there is nothing of ours to show in it."""
    study = part.study
    ours, theirs = speed_ups(study, part.times), speed_ups(study, study.theirs)
    anywhere = {name: own[None] for name, own in theirs.items() if None in own and name in ours}
    ours, theirs = _drawable(ours, study.over_series), _drawable(theirs, study.over_series)
    if not ours:
        return None
    xs = ordered(x for own in (*ours.values(), *theirs.values()) for x in own)
    place = {x: float(x) if isinstance(x, int) else float(number) for number, x in enumerate(xs)}
    looks = _looks(part, ours, theirs)
    with canvas(4.4, list(looks)) as (figure, axes):
        axes.set(xlabel=study.x_name, ylabel=f"speed-up over {study.over}", yscale="log")
        axes.axhline(1, color=INK, linewidth=1.2)
        for name, own in theirs.items():
            axes.plot(*_line(own, place), **_dotted(looks[name]))
        for name in anywhere.keys() & looks.keys():
            axes.axhline(anywhere[name], **(_dotted(looks[name]) | {"marker": ""}))
        values = [1.0, *anywhere.values(), *(y for own in theirs.values() for y in own.values())]
        for name, own in ours.items():
            axes.plot(*_line(own, place), **(looks[name].line() | ({} if _is_scale(xs) else {"linestyle": "none"})))
            for x, y in own.items():
                ends = _spread(part.curves[name][x], y)
                axes.vlines(place[x], *ends, color=looks[name].colour, linewidth=1.2)
                values += ends
        axes.set_ylim(min(values) / 1.3, max(values) * 1.4)
        _y_axis(axes)
        _x_axis(axes, xs, place)
        label_lines(axes, {name: _end(ours.get(name) or theirs[name], place) for name in looks}, looks)
        if theirs or anywhere:
            axes.text(0, 1.005, f"dotted: source {study.source.partition(',')[0]}", color=QUIET, fontsize=9,
                      transform=axes.transAxes)  # fmt: skip
    return figure


def _drawable(curves: Curves, reference: str | None) -> dict[str, dict[X, float]]:
    """Lines with the points that have a place on the axis; the reference itself would be a line of ones."""
    kept: dict[str, dict[X, float]]
    kept = {name: {x: y for x, y in own.items() if x is not None} for name, own in curves.items() if name != reference}
    return {name: own for name, own in kept.items() if own}


def _looks(part: Part, ours: Curves, theirs: Curves) -> dict[str, Style]:
    """A look for each line: that of its backend in every report, or the next of a set that is easy to tell apart.

    Baselines are hollow, and so is what only the source has.
    """
    names = list(dict.fromkeys([*ours, *theirs]))
    backends = {name: str(next(iter(part.curves[name].values()))["backend"]) for name in ours}
    if all(backends.get(name) in KNOWN for name in names):
        known = styles([backends[name] for name in names])
        return {name: known[backends[name]] for name in names}
    hollow = {name: name not in ours or is_baseline(backends[name]) for name in names}
    return {name: Style(*OTHERS[i % len(OTHERS)], hollow[name]) for i, name in enumerate(names)}


def _dotted(look: Style) -> dict[str, Any]:
    return {"color": look.colour, "linestyle": ":", "linewidth": 1.4, "alpha": 0.75, "marker": look.marker,
            "markersize": 4, "markerfacecolor": "white"}  # fmt: skip


def _line(own: Mapping[X, float], place: Mapping[X, float]) -> tuple[list[float], list[float]]:
    xs = ordered(own)
    return [place[x] for x in xs], [own[x] for x in xs]


def _end(own: Mapping[X, float], place: Mapping[X, float]) -> tuple[float, float]:
    xs, ys = _line(own, place)
    return xs[-1], ys[-1]


def _spread(record: Record, speed_up: float) -> tuple[float, float]:
    """The speed-ups of a record's p80 and p20."""
    return speed_up * record["median_s"] / record["p80_s"], speed_up * record["median_s"] / record["p20_s"]


def _is_scale(xs: Sequence[X]) -> bool:
    """Whether what is varied is a number, or a name with numbers in it: then points are joined."""
    return all(isinstance(x, int) or any(map(str.isdigit, str(x))) for x in xs)


def _y_axis(axes: Axes) -> None:
    """Plain numbers, and enough of them on a short axis."""
    plain_log(axes.yaxis)
    low, high = axes.get_ylim()
    if high / low < SHORT:
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))


def _x_axis(axes: Axes, xs: Sequence[X], place: Mapping[X, float]) -> None:
    """Sizes on a logarithmic axis with as many ticks as fit; names side by side, aslant where they are long."""
    labels = [str(x) for x in xs]
    inches = axes.get_position().width * WIDTH_INCHES
    axes.xaxis.set_minor_locator(NullLocator())
    if all(isinstance(x, int) for x in xs):
        axes.set(xscale="log", xlim=(place[xs[0]] / 1.25, place[xs[-1]] * 1.25))
        decades = log(1.25**2 * place[xs[-1]] / place[xs[0]])
        shown = [xs[-1]]
        for x in reversed(xs):
            if log(place[shown[0]] / place[x]) / decades * inches > LETTER_INCHES * (len(str(x)) + 1):
                shown.insert(0, x)
        axes.set_xticks([place[x] for x in shown], [str(x) for x in shown], fontsize=9)
        axes.xaxis.set_minor_locator(NullLocator())
        return
    axes.set_xlim(-0.5, len(xs) - 0.5)
    longest = max((len(one) + len(other) for one, other in pairwise(labels)), default=0)
    if LETTER_INCHES * longest / 2 < inches / len(xs):
        axes.set_xticks(range(len(xs)), labels, fontsize=9)
    else:
        axes.set_xticks(range(len(xs)), labels, fontsize=9, rotation=35, ha="right", rotation_mode="anchor")
        height = float(axes.figure.get_figheight())  # type: ignore[union-attr]
        axes.figure.subplots_adjust(bottom=(0.6 + 0.6 * LETTER_INCHES * max(map(len, labels))) / height)


def _roofline(part: Part) -> Figure | None:
    """The report's roofline of the part's first group that has roofs."""
    for record in part.products:
        group = part.group_of(record)
        if group is not None and peak(group) and bandwidths(group):
            return figures.roofline(group, styles(group.backends()))
    return None
