"""Judges: whether a finding of a source holds in one scenario of a study, with figures and the reason if not.

Ratios are judged by `gemmlab.analysis.findings`: within 15 % of the source's figure where programs are compared on one
machine, and over 1 (MORE) where the figure depends as much on the machines. Reasons are taken from the records alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import EllipsisType
from typing import NamedTuple

from gemmlab._words import listed, number, percent
from gemmlab.analysis.attainable import bandwidths, limits, lowest_limit, peak
from gemmlab.analysis.findings import Band, Claim, Finding, cpu_findings, judge_ratio, near, ratio_band_text
from gemmlab.measure.comparison import overlap
from gemmlab.measure.records import Record
from gemmlab.studies.curves import Scenario, on_cpu, ordered
from gemmlab.studies.study import Study, X

MORE: Band = (1.0, None)
MOSTLY = 0.6  # from this share of its limit, or of its time, something limits a product
EACH = "each line"
NO_REASON = "The records do not show why."


class At(NamedTuple):
    """A point: a line, or EACH for each of them, and its x; without x, the last that both points of a pair have."""

    series: str
    x: X | EllipsisType = ...


@dataclass(frozen=True)
class Faster:
    """How many times as fast one point is as another.

    `theirs` is the source's figure or its text; where the study's curves have both points, their ratio is used.
    Without a band it is `near` that. `because` is added to the reasons where the finding fails. Where `runtimes` are
    named, the points exist on these only.
    """

    fast: At
    slow: At
    theirs: float | str
    band: Band | None = None
    because: str = ""
    runtimes: tuple[str, ...] = ()

    def __call__(self, study: Study, scenario: Scenario) -> list[Finding]:
        """Judge it for each line that it is about."""
        if self.runtimes and scenario.runtime not in self.runtimes:
            return []
        named = self.fast.series, self.slow.series
        lines = [name for name, own in scenario.curves.items() if None not in own and name not in named]

        def at(point: At, line: str) -> At:
            return At(line, point.x) if point.series == EACH else point

        return [self._judge(study, scenario, at(self.fast, line), at(self.slow, line))
                for line in (lines if EACH in named else [""])]  # fmt: skip

    def _judge(self, study: Study, scenario: Scenario, fast: At, slow: At) -> Finding:
        pair = _pair(scenario, fast, slow)
        if pair is not None:
            fast, slow = (At(at.series, study.x(pair[0])) if at.x is ... else at for at in (fast, slow))
        figure = _their_figure(study, fast, slow) or self.theirs
        band = self.band or near(float(figure))
        theirs = figure if isinstance(figure, str) else f"{number(figure)} times"
        claim = Claim(f"{_compared(study, fast, slow)}, speed-up", theirs, ratio_band_text(band))
        if pair is None:
            return claim.unjudged(_missing(study, scenario, fast, slow))
        return judge_ratio(claim, band, *pair, partial(_explained, scenario, self.because))


def best_at(x: X, study: Study, scenario: Scenario) -> list[Finding]:
    """Whether the fastest point of every line is at x, or not different from it.

    Where no point differs from the fastest, nothing is gained, and the finding does not hold.
    """
    found = []
    for name, own in scenario.curves.items():
        if None in own:  # the line does not vary with x
            continue
        claim = Claim(f"{name}, fastest by {study.x_name}", f"{x}", f"{x}")
        best = min(own.values(), key=lambda record: float(record["median_s"]))
        tied = ordered(other for other, record in own.items() if record is best or overlap(record, best))
        ours, detail = listed(list(map(str, tied))), " (no difference seen between them)" * (len(tied) > 1)
        if x not in own:
            found.append(claim.unjudged(f"{x} was not measured", ours))
        elif x in tied and len(tied) < max(2, len(own)):
            found.append(claim.judged(ours, True, detail))
        else:
            times = number(own[x]["median_s"] / best["median_s"])
            detail += f"; {x} takes {times} times as long" * (x not in tied)
            found.append(claim.judged(ours, False, detail, _explained(scenario, "", best, own[x])))
    return found


def passes(later: str, sooner: str, at: int, study: Study, scenario: Scenario) -> list[Finding]:
    """Whether one line is slower than another below x = `at` and faster from there on."""
    theirs = f"at {study.x_name} = {at}"
    claim = Claim(f"{later} passes {sooner}", theirs, theirs)
    one, other = scenario.curves.get(later, {}), scenario.curves.get(sooner, {})
    both = ordered(x for x in one if x in other)
    if not both:
        return [claim.unjudged(_missing(study, scenario, At(later), At(sooner)))]
    ahead = [x for x in both if one[x]["median_s"] < other[x]["median_s"] and not overlap(one[x], other[x])]
    expected = [x for x in both if isinstance(x, int) and x >= at]
    shown, measured = (listed(list(map(str, xs))) for xs in (ahead, both))
    ours = f"ahead at {shown}, of {measured}" if ahead else f"not ahead up to {both[-1]}"
    if ahead == expected and 0 < len(ahead) < len(both):
        return [claim.judged(ours, True)]
    if not ahead and not expected:
        return [claim.unjudged(f"{ours}, and no larger was timed", ours)]
    return [claim.judged(ours, False, why=_explained(scenario, "", one[both[-1]], other[both[-1]]))]


def builds_within(share: float, study: Study, scenario: Scenario) -> list[Finding]:
    """Whether loading a kernel from disk takes less than a share of building it: a limit of ours."""
    found = []
    bound = f"under {percent(share)}"
    for name, own in scenario.curves.items():
        claim = Claim(f"{name}, building from disk against from source", f"{bound} (our own limit)", bound)
        if not {"source", "disk"} <= own.keys():
            found.append(claim.unjudged("nothing was cached on disk; see what was not measured"))
            continue
        ours = own["disk"]["build_s"] / own["source"]["build_s"]
        why = "A driver may have to compile what it saved as a binary once more, as with PTX." * (ours >= share)
        found.append(claim.judged(percent(ours), ours < share, why=why))
    return found


def cpu_ladder(study: Study, scenario: Scenario) -> list[Finding]:
    """The findings on CPUs, as in the report, with the reason where one fails."""
    group = scenario.group_of(scenario.products[0])
    return cpu_findings(group, partial(_explained, scenario, "")) if group is not None else []


def judged(study: Study, scenario: Scenario) -> list[Finding]:
    """What every judge of the study says of a scenario."""
    return [finding for judge in study.judges for finding in judge(study, scenario)]


# Reasons


def _explained(scenario: Scenario, because: str, fast: Record, slow: Record, side: str = "") -> str:
    """Why a finding may fail, as far as the records show.

    `side` says whether the first was "less" or "more" ahead than it should be; then only the limits of the first, or
    of the second, count.
    """
    limited = {"less": [fast], "more": [slow]}.get(side, [fast, slow])
    reasons = [*_reasons(scenario, fast, slow, limited), because]
    return " ".join(filter(None, dict.fromkeys(reasons))) or NO_REASON


def _reasons(scenario: Scenario, fast: Record, slow: Record, limited: Sequence[Record]) -> Iterator[str]:
    if on_cpu(fast) or on_cpu(slow):
        moved = fast["transfers_counted"] or slow["transfers_counted"]
        what = "memory is the host's" if moved else "local memory is ordinary memory"
        yield f"The device is the CPU itself: its {what}."
    names = [scenario.study.series(record) for record in (fast, slow)]
    if names[0] == names[1]:
        names = [str(scenario.study.x(record)) for record in (fast, slow)]
    for record, name in zip((fast, slow), names, strict=True):
        if record["noisy"]:
            spread = f"its p20 and p80 are {percent(record['noise_percent'] / 100)} apart"
            yield f"{name} is noisy: {record.get('noisy_because') or spread}."
        if record in limited:
            yield _limit(scenario, record, name)
    if fast in limited:
        yield _served_by_caches(scenario, slow, names[1])
    if fast["device"] != slow["device"]:
        groups = [scenario.group_of(record) for record in (fast, slow)]
        peaks = [top.gflop_per_s for group in groups if group and (top := peak(group))]
        said = [f"{number(top)} GFLOP/s where {name} ran" for top, name in zip(peaks, names, strict=False)]
        yield f"The measured peaks are {listed(said)}." * (len(said) == 2)


def _limit(scenario: Scenario, record: Record, name: str) -> str:
    """What limits one record, if something measured does."""
    if record["kernel_s"] is not None and record["kernel_s"] < (1 - MOSTLY) * record["median_s"]:
        share = percent(record["kernel_s"] / record["median_s"])
        rest = "moving data" if record["transfers_counted"] else "starting them"
        return f"The kernels of {name} take {share} of its time, {rest} the rest."
    group = scenario.group_of(record)
    limit = lowest_limit(group, record) if group is not None else None
    if limit is None or limit.share <= MOSTLY:
        return ""
    return f"{name} is bound by {limit.name}, of which it reaches {percent(limit.share)}."


def _served_by_caches(scenario: Scenario, record: Record, name: str) -> str:
    """Whether caches do for a product what the faster rung does by itself.

    The cache that its operands come from and the rate at which they do; or, if that is not known, whether its
    instructions read more than memory gives.
    """
    group, read = scenario.group_of(record), record["bytes_model_l1"]
    memory = bandwidths(group).get("DRAM") if group is not None else None
    if group is None or not memory:
        return ""
    feeding = next((limit for limit in reversed(limits(group, record)) if limit.holds), None)
    if feeding is not None and feeding.level in ("L2", "L3"):
        gb_per_s = feeding.reached / feeding.intensity, feeding.by_memory / feeding.intensity
        rates = f"{number(gb_per_s[0])} GB/s of the measured {number(gb_per_s[1])}; memory gives {number(memory)}"
        return f"{feeding.level} feeds {name} with {number(1 / feeding.intensity)} bytes per flop: {rates}."
    rate = read / record["median_s"] / 1e9 if read else 0.0
    return f"Caches serve {name}: it reads {number(rate)} GB/s, and memory gives {number(memory)}." * (rate > memory)


# Points


def _pair(scenario: Scenario, fast: At, slow: At) -> tuple[Record, Record] | None:
    """The records of two points; where one has no x, at the last x that both lines have."""
    one, two = scenario.curves.get(fast.series, {}), scenario.curves.get(slow.series, {})
    if fast.x is ... or slow.x is ...:
        both = ordered(x for x in one if x in two)
        return (one[both[-1]], two[both[-1]]) if both else None
    return (one[fast.x], two[slow.x]) if fast.x in one and slow.x in two else None


def _their_figure(study: Study, fast: At, slow: At) -> float | None:
    """The source's ratio of two points, if its curves have both."""
    one, two = (study.theirs.get(at.series, {}) for at in (fast, slow))
    if fast.x is ... or slow.x is ... or fast.x not in one or slow.x not in two:
        return None
    return two[slow.x] / one[fast.x]


def _compared(study: Study, one: At, two: At) -> str:
    """Two points as text, as short as they differ."""
    if one.series == two.series:
        return f"{one.series}, {one.x} over {two.x}"
    if one.x == two.x:
        return f"{one.series} over {two.series}" + (f" at {study.x_name} = {one.x}" if one.x is not ... else "")
    return " over ".join(" ".join(str(part) for part in at if part is not None) for at in (one, two))


def _missing(study: Study, scenario: Scenario, *points: At) -> str:
    """Which of some points has no good record."""
    measured = {x for own in scenario.curves.values() for x in own}
    if nowhere := {at.x for at in points} - measured - {...}:
        return f"{study.x_name} = {listed([str(x) for x in nowhere])} was not measured"
    missing = [
        at.series if at.x in (..., None) else f"{at.series} at {study.x_name} {at.x}"
        for at in points
        if at.series not in scenario.curves or (at.x is not ... and at.x not in scenario.curves[at.series])
    ]
    return f"{listed(missing)} has no time here" if missing else "the two have no size in common"
