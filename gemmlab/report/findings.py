"""The sources' CPU figures beside this machine's, and whether each finding holds here.

The figures are those of source R in ``gemmlab/data/papers.json``. A finding holds where this machine's figure
lies in a band around the source's: a share of peak counts as "about 50 %" from 40 to 60 %, a ratio within 15 %
of the range that the source gives, and over 1. The band stands beside the verdict, for a reader to judge otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from gemmlab.report.groups import Group, Record, overlap, problem_text
from gemmlab.report.roofs import peak
from gemmlab.report.words import listed, number, percent

SLACK = 0.15  # of a ratio: the sources' own figures disagree by this much (1.16 and 1.3)
BLOCKED = ("cpu-blocked", "cpu-blocked-local")


@dataclass(frozen=True)
class Finding:
    """One finding of a source: its figure, ours, and whether it holds here (None: cannot be judged)."""

    claim: str
    theirs: str
    ours: str
    band: str
    holds: bool | None
    text: str


def papers() -> dict[str, Any]:
    """The source documents' tables and figures, as shipped."""
    loaded: dict[str, Any] = json.loads((files("gemmlab") / "data" / "papers.json").read_text(encoding="utf-8"))
    return loaded


def findings(group: Group, source: Mapping[str, Any] | None = None) -> list[Finding]:
    """Every CPU finding of source R, judged on one group; `source` is its "R.cpu" entry."""
    source = source or papers()["R.cpu"]
    share, ratio = source["share_of_peak"], source["speedup"]
    low, high = ratio["blocked_over_base"]
    by_text = ratio["cpu-blocked-local_over_cpu-blocked"]
    by_times = source["elapsed_s"]["cpu-blocked"] / source["elapsed_s"]["cpu-blocked-local"]
    twice = ratio["mkl_over_blocked"]
    half = share["cpu-blocked-local"]
    blocked = _fastest_of(group, BLOCKED, "cpu-mkl")
    return [
        _ratio(group, "cpu-blocked", "cpu-ikj", (low, high), f"{number(low)} to {number(high)} times"),
        _ratio(group, "cpu-blocked-local", "cpu-blocked", (by_times, by_text),
               f"{number(by_text)} times by its text, {number(by_times)} by its own times"),
        _ratio(group, "cpu-mkl", blocked, (twice, twice), f"about {number(twice)} times the blocked version"),
        _share(group, "cpu-blocked-local", half, (half - 0.1, half + 0.1)),
        _share(group, "cpu-mkl", share["mkl"], (share["mkl"] - 0.1, None)),
    ]  # fmt: skip


def concerns(group: Group) -> bool:
    """Whether the group has a rung that the source speaks of."""
    return not {"cpu-ikj", *BLOCKED}.isdisjoint(group.backends())


def summary(judged: Sequence[Finding], what: str = "findings of the source") -> str:
    """How many findings hold, in one sentence."""
    counts = {holds: sum(finding.holds is holds for finding in judged) for holds in (True, False, None)}
    said = [(counts[True], "held here"), (counts[False], "did not hold"), (counts[None], "could not be judged")]
    parts = [f"{count} {what}" for count, what in said if count]
    return f"Of {len(judged)} {what}, {listed(parts)}."


def _ratio(group: Group, faster: str, slower: str, theirs: tuple[float, float], quoted: str) -> Finding:
    claim = f"{faster} over {slower}, speed-up"
    low, high = max(1.0, theirs[0] * (1 - SLACK)), theirs[1] * (1 + SLACK)
    band = f"{number(low)} to {number(high)} times"
    pair = group.shared(faster, slower)
    if pair is None:
        return _unjudged(claim, quoted, band, _missing(group, (faster, slower)))
    ours = pair[1]["median_s"] / pair[0]["median_s"]
    where = f"at {problem_text(pair[0])}"
    if overlap(*pair):
        text = f"Does not hold here: no difference seen between {faster} and {slower} {where}."
        return Finding(claim, quoted, "no difference seen", band, False, text)
    return Finding(claim, quoted, f"{number(ours)} times", band, low <= ours <= high,
                   _judge(f"{number(ours)} times {where}", ours, low, high))  # fmt: skip


def _share(group: Group, backend: str, theirs: float, bounds: tuple[float, float | None]) -> Finding:
    claim, quoted = f"{backend}, share of peak", f"about {percent(theirs)}"
    low, high = bounds
    band = f"{percent(low)} to {percent(high)}" if high is not None else f"{percent(low)} or more"
    record, roof = group.largest(backend), peak(group)
    if record is None:
        return _unjudged(claim, quoted, band, _missing(group, (backend,)))
    if roof is None:
        return _unjudged(claim, quoted, band, f"no peak was measured {group.phrase}")
    ours = record["gflop_per_s"] / roof.gflop_per_s
    text = _judge(f"{percent(ours)} of the measured peak at {problem_text(record)}", ours, low, high)
    return Finding(claim, quoted, percent(ours), band, low <= ours and (high is None or ours <= high), text)


def _judge(ours: str, value: float, low: float, high: float | None) -> str:
    if value < low:
        return f"Does not hold here: {ours}, less than the source found."
    if high is not None and value > high:
        return f"Does not hold here: {ours}, more than the source found."
    return f"Holds here: {ours}."


def _unjudged(claim: str, quoted: str, band: str, why: str) -> Finding:
    return Finding(claim, quoted, "not measured", band, None, f"Cannot be judged: {why}.")


def _missing(group: Group, backends: Sequence[str]) -> str:
    """Why two backends have no problem in common, or one has none at all."""
    missing = [name for name in backends if not group.timed(name)]
    if not missing:
        return f"{listed(backends)} were not timed on the same problem"
    reasons = [_why_not_timed(group.of(name)) for name in missing]
    return " and ".join(f"{name} {reason}" for name, reason in zip(missing, reasons, strict=True))


def _why_not_timed(records: Sequence[Record]) -> str:
    if not records:
        return "was not measured"
    reason = records[0]["reason"]
    return f"has no time ({reason.rstrip('.')})" if reason else "has no time"


def _fastest_of(group: Group, backends: Sequence[str], rival: str) -> str:
    """The backend that was fastest on what it shares with a rival: the source's "blocked version" is its best."""
    pairs = [pair for pair in (group.shared(backend, rival) for backend in backends) if pair]
    best = min((own for own, _ in pairs), key=lambda own: own["median_s"] / own["gflop"], default=None)
    return str(best["backend"]) if best is not None else backends[-1]
