"""The figure of a search by `gemmlab tune`: every configuration that was tried, over time, and the best so far.

There is one figure for each dtype and shape. A point is a configuration: filled where it passed its checks and was
timed, hollow where it was left after a slow first run. What failed or was wrong has a cross at the bottom.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from gemmlab.report.drawing import ALARM, BLUE, INK, QUIET, Keywords, canvas, save
from gemmlab.tune.search.log import Header, rankings_of, read, shape_of, values_of
from gemmlab.tune.search.ranking import TIMED, Entry, Ranking


def draw(log: Path) -> list[Path]:
    """Draw every search of a log beside it, as SVG and PNG."""
    header, entries = read(log)
    paths = []
    for dtype, shape in rankings_of(header, entries):
        own = [one for one in entries if one["dtype"] == dtype and (not one["shape"] or shape_of(one) == shape)]
        stem = log.with_name(f"{log.stem}-{dtype}-{'x'.join(map(str, shape))}")
        save(_figure(header, own, Ranking(dtype, shape)), stem)
        paths += [stem.with_name(f"{stem.name}.svg"), stem.with_name(f"{stem.name}.png")]
    return paths


def _figure(header: Header, entries: list[Entry], ranking: Ranking) -> Figure:
    points: dict[str, list[tuple[float, float]]] = {"measured": [], "slow": [], "failed": []}
    best: list[tuple[float, float]] = []
    for entry in entries:
        values, minutes = values_of(entry), entry["seconds"] / 60
        ranking.add(values, entry)
        kind = entry["outcome"] if entry["outcome"] in TIMED else "failed"
        points[kind].append((minutes, ranking.scores.get(values, 0.0)))
        if ranking.best is not None:
            best.append((minutes, ranking.scores[ranking.best]))
    with canvas(3.4) as (figure, axes):
        size = " x ".join(map(str, ranking.shape))
        axes.set(xlabel="minutes", ylabel="GFLOP/s", ylim=(0, 1.12 * max((y for _, y in best), default=1.0)))
        looks: dict[str, Keywords] = {
            "measured": {"marker": "o", "color": BLUE},
            "slow": {"marker": "o", "color": BLUE, "markerfacecolor": "white"},
            "failed": {"marker": "x", "color": ALARM, "clip_on": False},
        }
        for kind, own in points.items():
            axes.plot(*_columns(own), linestyle="none", markersize=3.5, **looks[kind])
        axes.plot(*_columns(best), color=INK, drawstyle="steps-post")
        text = f"{header['backend']} on {header['label']}, {ranking.dtype}, {size}"
        axes.text(0, 1.01, text, color=QUIET, fontsize=8, transform=axes.transAxes)
    return figure


def _columns(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]
