"""Whether the findings of a source hold on this machine, and those of source R on CPUs.

The sources' figures are in ``gemmlab/data/papers.json``. A ratio of two times holds where its interval, from the p20 to
p80 of both, meets a band: from 15 % below the source's figures to 15 % above them, and over 1. A share of the peak
holds within 10 percentage points. The band is always shown beside the finding, so that a reader can judge otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from gemmlab._words import listed, number, percent
from gemmlab.analysis.attainable import share_of_peak
from gemmlab.analysis.formatting import problem_text
from gemmlab.analysis.groups import Group
from gemmlab.measure.comparison import overlap
from gemmlab.measure.records import Record

SLACK = 0.15  # of a ratio: the sources' figures disagree by this much (1.16 and 1.3)
SHARE_SLACK = 0.1
BLOCKED = ("cpu-blocked", "cpu-blocked-local")
NOT_MEASURED = "not measured"

# Why a finding fails, from the records of its two points and the side on which it fails ("less", "more" or "").
Explain = Callable[[Record, Record, str], str]
Band = tuple[float, float | None]  # without an upper end: anything above the lower one


@dataclass(frozen=True)
class Finding:
    """One finding of a source: its figure, ours, the band, and whether it holds here (None: cannot be judged)."""

    claim: str
    theirs: str
    ours: str
    band: str
    holds: bool | None
    text: str


@dataclass(frozen=True)
class Claim:
    """What a source says: the claim, its figure as text, and the band of our figure in which it holds."""

    text: str
    theirs: str
    band: str

    def judged(self, ours: str, holds: bool, detail: str = "", why: str = "") -> Finding:
        """The finding with our figure; `detail` goes on the same sentence, and `why` after it."""
        text = f"{'Holds' if holds else 'Does not hold'} here: {ours}{detail}.{' ' * bool(why)}{why}"
        return Finding(self.text, self.theirs, ours, self.band, holds, text)

    def unjudged(self, why: str, ours: str = NOT_MEASURED) -> Finding:
        """The finding without a verdict."""
        return Finding(self.text, self.theirs, ours, self.band, None, f"Cannot be judged: {why}.")


def papers() -> dict[str, Any]:
    """The tables and figures of the source documents."""
    loaded: dict[str, Any] = json.loads((files("gemmlab") / "data" / "papers.json").read_text(encoding="utf-8"))
    return loaded


def near(low: float, high: float | None = None) -> Band:
    """The band around a ratio that a source gives, or around two."""
    return max(1.0, low * (1 - SLACK)), (high or low) * (1 + SLACK)


def ratio_band_text(band: Band) -> str:
    """A band of ratios: "3 to 11.5 times", "over 1 times"."""
    low, high = band
    return f"over {number(low)} times" if high is None else f"{number(low)} to {number(high)} times"


def judge_ratio(
    claim: Claim, band: Band, fast: Record, slow: Record, explain: Explain | None = None, where: str = ""
) -> Finding:
    """Judge how many times as fast the first of two products is as the second; `where` names the problem."""
    low, high = slow["p20_s"] / fast["p80_s"], slow["p80_s"] / fast["p20_s"]
    ratio = slow["median_s"] / fast["median_s"]
    min_ratio, max_ratio = band
    ours = f"{number(ratio)} times" + (f" ({number(low)} to {number(high)})" if number(low) != number(high) else "")
    side, holds = "", False
    if overlap(fast, slow):
        ours, holds = "no difference seen", min_ratio < 1
    elif high < min_ratio or ratio <= 1 <= min_ratio:
        side = "less"
    elif max_ratio is not None and low > max_ratio:
        side = "more"
    else:
        holds = True
    return claim.judged(ours, holds, where + _than(side), explain(fast, slow, side) if explain and not holds else "")


def cpu_findings(group: Group, explain: Explain | None = None) -> list[Finding]:
    """The CPU findings of source R, judged on one group."""
    source = papers()["R.cpu"]
    share, ratio, elapsed = source["share_of_peak"], source["speedup"], source["elapsed_s"]
    low, high = ratio["blocked_over_base"]
    by_text = ratio["cpu-blocked-local_over_cpu-blocked"]
    by_times = elapsed["cpu-blocked"] / elapsed["cpu-blocked-local"]
    mkl = ratio["mkl_over_blocked"]
    half = share["cpu-blocked-local"]

    def faster(fast: str, slow: str, band: Band, theirs: str) -> Finding:
        claim = Claim(f"{fast} over {slow}, speed-up", theirs, ratio_band_text(band))
        pair = group.shared(fast, slow)
        if pair is None:
            return claim.unjudged(_why_not_timed(group, (fast, slow)))
        return judge_ratio(claim, band, *pair, explain, f" at {problem_text(pair[0])}")

    return [
        faster("cpu-blocked", "cpu-ikj", near(low, high), f"{number(low)} to {number(high)} times"),
        faster("cpu-blocked-local", "cpu-blocked", near(by_times, by_text),
               f"{number(by_text)} times by its text, {number(by_times)} by its own times"),
        faster("cpu-mkl", _best_blocked(group), near(mkl), f"about {number(mkl)} times the blocked version"),
        _share_of_peak(group, "cpu-blocked-local", half, half + SHARE_SLACK, explain),
        _share_of_peak(group, "cpu-mkl", share["mkl"], None, explain),
    ]  # fmt: skip


def concerns(group: Group) -> bool:
    """Whether the group has a rung that source R measured."""
    return not {"cpu-ikj", *BLOCKED}.isdisjoint(group.backends())


def summary(judged: Sequence[Finding], what: str = "findings of the source") -> str:
    """How many findings hold, in one sentence."""
    counts = {holds: sum(finding.holds is holds for finding in judged) for holds in (True, False, None)}
    said = [(counts[True], "held here"), (counts[False], "did not hold"), (counts[None], "could not be judged")]
    return f"Of {len(judged)} {what}, {listed([f'{count} {outcome}' for count, outcome in said if count])}."


def _share_of_peak(group: Group, backend: str, theirs: float, high: float | None, explain: Explain | None) -> Finding:
    low = theirs - SHARE_SLACK
    band = f"{percent(low)} to {percent(high)}" if high is not None else f"{percent(low)} or more"
    claim = Claim(f"{backend}, share of peak", f"about {percent(theirs)}", band)
    record = group.largest(backend)
    if record is None:
        return claim.unjudged(_why_not_timed(group, (backend,)))
    ours = share_of_peak(group, record)
    if ours is None:
        return claim.unjudged(f"no peak was measured {group.phrase}")
    side = "less" if ours < low else "more" if high is not None and ours > high else ""
    detail = f" of the measured peak at {problem_text(record)}{_than(side)}"
    return claim.judged(percent(ours), not side, detail, explain(record, record, side) if explain and side else "")


def _than(side: str) -> str:
    return f", {side} than the source found" if side else ""


def _why_not_timed(group: Group, backends: Sequence[str]) -> str:
    """Why backends have no problem in common, or one has none at all."""
    reasons = []
    for name in backends:
        if not group.timed(name):
            own = group.of(name)
            because = f" ({str(own[0]['reason']).rstrip('.')})" if own and own[0]["reason"] else ""
            reasons.append(f"{name} has no time{because}" if own else f"{name} was not measured")
    return " and ".join(reasons) or f"{listed(backends)} were not timed on the same problem"


def _best_blocked(group: Group) -> str:
    """The blocked rung that was faster on what it shares with cpu-mkl: the source means its best."""
    pairs = [pair for pair in (group.shared(backend, "cpu-mkl") for backend in BLOCKED) if pair]
    best = min((own for own, _ in pairs), key=lambda own: float(own["median_s"] / own["gflop"]), default=None)
    return str(best["backend"]) if best is not None else BLOCKED[-1]
