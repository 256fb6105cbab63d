"""The figures of a scenario: speed-ups along what the study varies, ours solid, the source's dotted; a roofline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from gemmlab.analysis.attainable import bandwidths, peak
from gemmlab.analysis.groups import is_baseline
from gemmlab.report import drawing
from gemmlab.report.drawing import INK, KNOWN, QUIET, Keywords, Style, canvas, label_lines, styles
from gemmlab.report.roofline_figures import roofline
from gemmlab.studies.curves import Scenario, ordered, speed_ups
from gemmlab.studies.study import Curves, X


def figures_of(scenario: Scenario) -> Iterator[tuple[str, Figure]]:
    """Every figure of a scenario with the end of its file name."""
    if (figure := speed_up(scenario)) is not None:
        yield "", figure
    groups = map(scenario.group_of, scenario.products if scenario.study.ceilings_s else ())
    group = next((group for group in groups if group is not None and peak(group) and bandwidths(group)), None)
    if group is not None and (figure := roofline(group, styles(group.backends()))) is not None:
        yield "-roofline", figure


def speed_up(scenario: Scenario) -> Figure | None:
    """Speed-ups along x; None where there are none of ours."""
    study = scenario.study
    ours, theirs = (speed_ups(study, times) for times in (scenario.times, study.theirs))
    constants = {name: own[None] for name, own in theirs.items() if None in own and name in ours}
    ours, theirs = (_drawable(curves, study.over_series) for curves in (ours, theirs))
    if not ours:
        return None
    xs = ordered(x for own in (*ours.values(), *theirs.values()) for x in own)
    position = {x: float(x) if isinstance(x, int) else float(i) for i, x in enumerate(xs)}
    looks = _styles(scenario, ours, theirs)
    with canvas(4.4, list(looks)) as (figure, axes):
        axes.set(xlabel=study.x_name, ylabel=f"speed-up over {study.over}", yscale="log")
        axes.axhline(1, color=INK, linewidth=1.2)
        for name, own in theirs.items():
            axes.plot(*_line(own, position), **_dotted(looks[name]))
        for name in constants.keys() & looks.keys():
            axes.axhline(constants[name], **_dotted(looks[name]) | {"marker": ""})
        values = [1.0, *constants.values(), *(y for own in theirs.values() for y in own.values())]
        for name, own in ours.items():
            axes.plot(*_line(own, position), **looks[name].line(**{} if _is_scale(xs) else {"linestyle": "none"}))
            for x, y in own.items():
                record = scenario.curves[name][x]
                ends = [y * record["median_s"] / record[key] for key in ("p80_s", "p20_s")]
                axes.vlines(position[x], *ends, color=looks[name].colour, linewidth=1.2)
                values += ends
        axes.set_ylim(min(values) / 1.3, max(values) * 1.4)
        drawing.plain_log(axes.yaxis)
        _x_axis(axes, xs)
        lines = {name: _line(ours.get(name) or theirs[name], position) for name in looks}
        label_lines(axes, {name: (line[0][-1], line[1][-1]) for name, line in lines.items()}, looks)
        if theirs or constants:
            axes.text(0, 1.005, f"dotted: source {study.source.partition(',')[0]}", color=QUIET, fontsize=9,
                      transform=axes.transAxes)  # fmt: skip
    return figure


def _drawable(curves: Curves, reference: str | None) -> dict[str, dict[X, float]]:
    """Curves without points that have no x, and without the reference, which would be a line of ones."""
    kept: dict[str, dict[X, float]]
    kept = {name: {x: y for x, y in own.items() if x is not None} for name, own in curves.items() if name != reference}
    return {name: own for name, own in kept.items() if own}


def _styles(scenario: Scenario, ours: Curves, theirs: Curves) -> dict[str, Style]:
    """A style for each line, of its backend if all have their own; hollow for baselines and what is not ours."""
    names = list(dict.fromkeys([*ours, *theirs]))
    backends = {name: str(next(iter(scenario.curves[name].values()))["backend"]) for name in ours}
    all_known = all(backends.get(name) in KNOWN for name in names) and len(set(backends.values())) == len(names)
    looks = styles([backends[name] if all_known else name for name in names]).values()
    return {name: replace(look, baseline=name not in ours or is_baseline(backends[name]))
            for name, look in zip(names, looks, strict=True)}  # fmt: skip


def _dotted(look: Style) -> Keywords:
    return {"color": look.colour, "linestyle": ":", "linewidth": 1.4, "alpha": 0.75, "marker": look.marker,
            "markersize": 4, "markerfacecolor": "white"}  # fmt: skip


def _line(own: Mapping[X, float], position: Mapping[X, float]) -> tuple[list[float], list[float]]:
    xs = ordered(own)
    return [position[x] for x in xs], [own[x] for x in xs]


def _is_scale(xs: Sequence[X]) -> bool:
    """Whether what is varied is a number, or a name with numbers in it: then points are joined."""
    return all(isinstance(x, int) or any(map(str.isdigit, str(x))) for x in xs)


def _x_axis(axes: Axes, xs: Sequence[X]) -> None:
    """Sizes on a logarithmic axis, or rotated names side by side."""
    if all(isinstance(x, int) for x in xs):
        drawing.size_axis(axes, [x for x in xs if isinstance(x, int)])
        return
    labels = [str(x) for x in xs]
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(-0.5, len(xs) - 0.5)
    axes.set_xticks(range(len(xs)), labels, fontsize=9, rotation=35, ha="right", rotation_mode="anchor")
    height = float(axes.figure.get_figheight())  # type: ignore[union-attr]
    axes.figure.subplots_adjust(bottom=(0.6 + 0.6 * drawing.LETTER_INCHES * max(map(len, labels))) / height)
