"""The judges: from records to what stands of a source's finding, with the numbers and, where it fails, the reason.

A judge is asked with a study and a part of its records. Two times whose p20 to p80 intervals overlap are "no
difference seen"; a ratio's range is that of the two intervals. A ratio holds where its range meets a band: `near` the
source's figure where programs are compared on one machine, MORE than one where the figure is as much the machines'.
Reasons are taken from the records alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import NamedTuple

from gemmlab.report.findings import SLACK, Finding
from gemmlab.report.findings import findings as cpu_findings
from gemmlab.report.groups import overlap
from gemmlab.report.roofs import bandwidths, peak, standing
from gemmlab.report.verdicts import ABOVE
from gemmlab.report.words import listed, number, percent
from gemmlab.studies.curves import Part, on_cpu, ordered
from gemmlab.studies.study import Record, Study, X

Band = tuple[float, float | None]
MORE: Band = (1.0, None)
MOSTLY = 0.6  # of a roof, or of a time
ALL = "every line"
UNTOLD = "The records do not tell why."
STILL_COMPILED = "What a driver gives as a binary may have to be compiled further, as PTX has."


def near(figure: float) -> Band:
    """The band around a ratio that a source gives; the sources' own figures disagree by as much."""
    return max(1.0, figure * (1 - SLACK)), figure * (1 + SLACK)


class At(NamedTuple):
    """A point: a line, or ALL for each of them, and where on it; left out, the last that both points of a pair have."""

    series: str
    x: X | EllipsisType = ...


@dataclass(frozen=True)
class Faster:
    """How many times as fast one point is as another.

    `theirs` is the source's figure, where the study's curves have none for the very point, or its words. Without a
    band it is `near` that. `because` is said, besides what the records tell, where it fails.
    """

    fast: At
    slow: At
    theirs: float | str
    band: Band | None = None
    because: str = ""
    runtimes: tuple[str, ...] = ()  # where the points can exist at all; none named: anywhere

    def __call__(self, study: Study, part: Part) -> list[Finding]:
        """Judge it for each line it speaks of."""
        if self.runtimes and part.runtime not in self.runtimes:
            return []
        named = self.fast.series, self.slow.series
        lines = [name for name, own in part.curves.items() if None not in own and name not in named]
        pairs = [tuple(point if point.series != ALL else At(name, point.x) for point in (self.fast, self.slow))
                 for name in (lines if ALL in named else [""])]  # fmt: skip
        return [self._judge(study, part, fast, slow) for fast, slow in pairs]

    def _judge(self, study: Study, part: Part, fast: At, slow: At) -> Finding:
        pair = _pair(part, fast, slow)
        one, two = (point if pair is None or point.x is not ... else At(point.series, study.x(pair[0]))
                    for point in (fast, slow))  # fmt: skip
        figure = _their_figure(study, one, two) or self.theirs
        theirs = figure if isinstance(figure, str) else f"{number(figure)} times"
        band = self.band or near(float(figure))
        claim = f"{_named(study, one, two)}, speed-up"
        if pair is None:
            why = _missing(study, part, fast, slow)
            return Finding(claim, theirs, "not measured", _text(band), None, f"Cannot be judged: {why}.")
        ours, side = _ratio(*pair, band)
        if side is None:
            return Finding(claim, theirs, ours, _text(band), True, f"Holds here: {ours}.")
        why = " ".join(filter(None, (reason(part, *pair, side=side), self.because))) or UNTOLD
        than = f", {side} than the source found" if side else ""
        return Finding(claim, theirs, ours, _text(band), False, f"Does not hold here: {ours}{than}. {why}")


@dataclass(frozen=True)
class BestAt:
    """Whether the fastest point of every line is where the source found it, or cannot be told from that.

    Where none can be told from the fastest, nothing is gained there, and the finding does not hold.
    """

    x: X

    def __call__(self, study: Study, part: Part) -> list[Finding]:
        """Judge it for each line that varies with x."""
        lines = {name: own for name, own in part.curves.items() if None not in own}
        return [self._judge(study, part, name, own) for name, own in lines.items()]

    def _judge(self, study: Study, part: Part, name: str, own: dict[X, Record]) -> Finding:
        claim, theirs = f"{name}, fastest by {study.x_name}", f"{self.x}"
        best = min(own.values(), key=lambda record: record["median_s"])
        tied = ordered(x for x, record in own.items() if record is best or overlap(record, best))
        ours = listed([str(x) for x in tied])
        if self.x not in own:
            return Finding(claim, theirs, ours, theirs, None, f"Cannot be judged: {self.x} was not measured.")
        among = f"{ours} (no difference seen between them)" if len(tied) > 1 else ours
        if self.x in tied and len(tied) < max(2, len(own)):
            return Finding(claim, theirs, ours, theirs, True, f"Holds here: {among}.")
        lag = f"; {self.x} takes {number(own[self.x]['median_s'] / best['median_s'])} times as long"
        text = f"Does not hold here: {among}{lag * (self.x not in tied)}."
        why = reason(part, best, own[self.x]) or UNTOLD
        return Finding(claim, theirs, ours, theirs, False, f"{text} {why}")


@dataclass(frozen=True)
class Passes:
    """From which x on one line is the faster of two: below it slower, from it on faster."""

    later: str
    sooner: str
    x: int

    def __call__(self, study: Study, part: Part) -> list[Finding]:
        """Judge it by every x that both lines have."""
        claim, theirs = f"{self.later} passes {self.sooner}", f"at {study.x_name} = {self.x}"
        later, sooner = (part.curves.get(name, {}) for name in (self.later, self.sooner))
        both = ordered(x for x in later if x in sooner)
        if not both:
            why = _missing(study, part, At(self.later), At(self.sooner))
            return [Finding(claim, theirs, "not measured", theirs, None, f"Cannot be judged: {why}.")]
        ahead = [x for x in both if later[x]["median_s"] < sooner[x]["median_s"] and not overlap(later[x], sooner[x])]
        due = [x for x in both if ordered([x, self.x])[0] == self.x]  # from there on, the source says
        names = listed([str(x) for x in ahead])
        ours = f"ahead at {names}, of {listed([str(x) for x in both])}" if ahead else f"not ahead up to {both[-1]}"
        if ahead == due and 0 < len(ahead) < len(both):
            return [Finding(claim, theirs, ours, theirs, True, f"Holds here: {ours}.")]
        if not ahead and not due:
            return [Finding(claim, theirs, ours, theirs, None, f"Cannot be judged: {ours}, and no larger was timed.")]
        why = reason(part, later[both[-1]], sooner[both[-1]]) or UNTOLD
        return [Finding(claim, theirs, ours, theirs, False, f"Does not hold here: {ours}. {why}")]


@dataclass(frozen=True)
class BuildsWithin:
    """Whether loading a kernel from the disk takes less than a share of building it: a bar of our own."""

    share: float

    def __call__(self, study: Study, part: Part) -> list[Finding]:
        """Judge it for each backend."""
        found = []
        for name, own in part.curves.items():
            claim, bar = f"{name}, building from disk against from source", f"under {percent(self.share)}"
            if not {"source", "disk"} <= own.keys():
                text = "Cannot be judged: nothing was kept on disk, as stands under what was not measured."
                found.append(Finding(claim, f"{bar} (our own bar)", "not measured", bar, None, text))
                continue
            disk_s, source_s = own["disk"]["build_s"], own["source"]["build_s"]
            holds = disk_s < self.share * source_s
            ours = percent(disk_s / source_s)
            text = f"Holds here: {ours}." if holds else f"Does not hold here: {ours}. {STILL_COMPILED}"
            found.append(Finding(claim, f"{bar} (our own bar)", ours, bar, holds, text))
        return found


def cpu_ladder(study: Study, part: Part) -> list[Finding]:
    """The report's own judgement of the CPU ladder, with the reason where a finding fails."""
    group = part.group_of(part.products[0])
    found = []
    for finding in cpu_findings(group) if group is not None else []:
        if group is not None and finding.holds is False:
            named = {record["backend"]: record for name in group.backends() if (record := group.largest(name))}
            fast, *others = (named[word] for word in re.findall(r"[\w-]+", finding.claim) if word in named)
            side = "more" if "more than" in finding.text else "less"
            why = reason(part, fast, others[0] if others else fast, side)
            finding = replace(finding, text=f"{finding.text} {why or UNTOLD}")
        found.append(finding)
    return found


def judged(study: Study, part: Part) -> list[Finding]:
    """What every judge of the study says of a part."""
    return [finding for judge in study.judges for finding in judge(study, part)]


def reason(part: Part, fast: Record, slow: Record, side: str = "") -> str:
    """Why a finding may fail here, as far as the records of its points tell; nothing where they do not.

    `side` says whether the first was "less" or "more" ahead than it should be: then only that counts which holds back
    the first, or the second.
    """
    held_back = {"less": [fast], "more": [slow]}.get(side, [fast, slow])
    return " ".join(dict.fromkeys(_reasons(part, fast, slow, held_back)))


def _reasons(part: Part, fast: Record, slow: Record, held_back: Sequence[Record]) -> Iterator[str]:
    study, sizes = part.study, {record["problem"]["n"] for record in (fast, slow)}
    told = {x for own in study.theirs.values() for x in own}
    if study.measure is None and min(sizes - told, default=max(study.sizes)) < max(study.sizes):
        yield f"The source measured at N = {max(study.sizes)}."
    if on_cpu(fast) or on_cpu(slow):
        moved = fast["transfers_counted"] or slow["transfers_counted"]
        own = "the host's" if moved else "ordinary memory, and its caches do what registers are for"
        yield f"The device is the CPU itself: its {'' if moved else 'local '}memory is {own}."
    names = [study.series(record) for record in (fast, slow)]
    if names[0] == names[1]:
        names = [str(study.x(record)) for record in (fast, slow)]
    for record, name in zip((fast, slow), names, strict=True):
        if record["noisy"]:
            yield f"{name} is noisy: its p20 and p80 are {percent(record['noise_percent'] / 100)} apart."
        if record in held_back:
            yield from _own_reasons(part, record, name)
    if study.tells is not None:
        yield study.tells(fast, slow)
    if fast in held_back:
        yield from _served(part, slow, names[1])
    groups = [part.group_of(record) for record in (fast, slow)]
    peaks = [top.gflop_per_s for group in groups if group and (top := peak(group))]
    if fast["device"] != slow["device"] and len(peaks) == 2:
        said = [f"{number(top)} GFLOP/s where {name} ran" for top, name in zip(peaks, names, strict=True)]
        yield f"The measured peaks are {listed(said)}."


def _own_reasons(part: Part, record: Record, name: str) -> Iterator[str]:
    """What holds one record back."""
    if record["kernel_s"] is not None and record["kernel_s"] < (1 - MOSTLY) * record["median_s"]:
        share = percent(record["kernel_s"] / record["median_s"])
        rest = "moving data" if record["transfers_counted"] else "starting them"
        yield f"The kernels of {name} take {share} of its time, {rest} the rest."
        return
    group = part.group_of(record)
    where = standing(group, record) if group is not None else None
    if where is not None and where.share > MOSTLY:
        roof = f"{where.level} bandwidth" if where.level else "arithmetic"
        above = ", more than was measured of that" * (where.share > ABOVE)
        yield f"{name} is bound by {roof}, of which it has {percent(where.share)}{above}."


def _served(part: Part, record: Record, name: str) -> Iterator[str]:
    """Whether caches do for a record what the other does for itself: it reads faster than memory could."""
    group, read = part.group_of(record), record["bytes_model_l1"]
    memory = bandwidths(group).get("DRAM") if group is not None else None
    if memory and read and (rate := read / record["median_s"] / 1e9) > memory:
        yield f"Caches serve {name}: it reads {number(rate)} GB/s, and memory gives {number(memory)}."


def _pair(part: Part, fast: At, slow: At) -> tuple[Record, Record] | None:
    """The records of two points; where one leaves its x open, the last x that both lines have."""
    one, two = part.curves.get(fast.series, {}), part.curves.get(slow.series, {})
    if fast.x is ... or slow.x is ...:
        both = ordered(x for x in one if x in two)
        return (one[both[-1]], two[both[-1]]) if both else None
    return (one[fast.x], two[slow.x]) if fast.x in one and slow.x in two else None


def _ratio(fast: Record, slow: Record, band: Band) -> tuple[str, str | None]:
    """The speed-up in words, and on which side of the band: "less", "more", "" for no difference, None within."""
    low, high = slow["p20_s"] / fast["p80_s"], slow["p80_s"] / fast["p20_s"]
    ratio = slow["median_s"] / fast["median_s"]
    least, most = band
    if overlap(fast, slow):
        return "no difference seen", None if least < 1 else ""
    text = f"{number(ratio)} times" + (f" ({number(low)} to {number(high)})" if number(low) != number(high) else "")
    if high < least or ratio <= 1 <= least:
        return text, "less"
    return text, "more" if most is not None and low > most else None


def _text(band: Band) -> str:
    least, most = band
    return f"over {number(least)} times" if most is None else f"{number(least)} to {number(most)} times"


def _their_figure(study: Study, fast: At, slow: At) -> float | None:
    """The source's own ratio of two points, if its curves have both."""
    one, two = (study.theirs.get(point.series, {}) for point in (fast, slow))
    if fast.x is ... or slow.x is ... or fast.x not in one or slow.x not in two:
        return None
    return two[slow.x] / one[fast.x]


def _named(study: Study, one: At, two: At) -> str:
    """Two points, said as shortly as they differ."""
    if one.series == two.series:
        return f"{one.series}, {one.x} over {two.x}"
    if one.x == two.x:
        return f"{one.series} over {two.series}" + (f" at {study.x_name} = {one.x}" if one.x is not ... else "")
    return " over ".join(" ".join(str(part) for part in point if part is not None) for point in (one, two))


def _missing(study: Study, part: Part, *points: At) -> str:
    """Which of some points no good record stands for."""
    measured = {x for own in part.curves.values() for x in own}
    if nowhere := {point.x for point in points} - measured - {...}:
        return f"{study.x_name} = {listed([str(x) for x in nowhere])} was not measured"
    lacking = [
        point.series if point.x in (..., None) else f"{point.series} at {study.x_name} {point.x}"
        for point in points
        if point.series not in part.curves or (point.x is not ... and point.x not in part.curves[point.series])
    ]
    return f"{listed(lacking)} has no time here" if lacking else "the two were not timed at the same place"

