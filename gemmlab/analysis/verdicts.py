"""How fast each backend is, what limits it, and the answer at the top of the report, in sentences.

Two times whose p20 to p80 intervals overlap are "no difference seen", never a ratio. A limit is one measured on the
same device, in the same number type, on as many threads. What was not measured is said to be unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gemmlab._words import listed, number, percent
from gemmlab.analysis.advice import advice, waits_for_transfers
from gemmlab.analysis.attainable import Limit, above_the_peak, lowest_limit, peak_for, share_of_peak
from gemmlab.analysis.formatting import problem_text, sentence, threads_text
from gemmlab.analysis.groups import USER_SUITE, Group, is_baseline, threads_of
from gemmlab.measure.comparison import is_good, is_wrong, overlap
from gemmlab.measure.measurement import NO_TIME
from gemmlab.measure.records import Record

REFERENCES = ("cpu-ikj", "cpu-naive")
NEAR = 0.6  # from this share of its limit a backend counts as limited by it


@dataclass(frozen=True)
class Verdict:
    """What is said of one backend: its speed and what limits it, advice, and caveats.

    `state` is "ok", "wrong", "failed" or "skipped", the worst that applies. `bound` is "memory", "compute",
    "instructions", "thread" (it runs on fewer threads than the others), "transfers" (to and from a device), "above"
    (faster than its limit), "unknown" (its traffic has no model, and it is far from the roof of the compulsory bytes),
    or None (the ceilings were not measured, or too low).
    """

    backend: str
    state: str
    bound: str | None
    gflop_per_s: float | None
    share_of_peak: float | None
    noisy: bool
    summary: str
    advice: str = ""
    caveats: str = ""

    @property
    def text(self) -> str:
        """The three texts in a row."""
        return " ".join(filter(None, (self.summary, self.advice, self.caveats)))

    @property
    def rate(self) -> str:
        """Speed and share of the peak: "140 GFLOP/s, 50 % of peak"."""
        share = "" if self.share_of_peak is None else f", {percent(self.share_of_peak)} of peak"
        return f"{number(self.gflop_per_s)} GFLOP/s{share}"


def verdict(group: Group, backend: str) -> Verdict:
    """Judge one backend of a group by its largest square, or its largest product where none is square."""
    best = group.largest(backend)
    trouble = _trouble(group.of(backend))
    if best is None:
        state, text = trouble or ("skipped", "Not timed.")
        return Verdict(backend, state, None, None, None, False, text)
    limit, share, threads = lowest_limit(group, best), share_of_peak(group, best), threads_of(best)
    fewer = ""
    if threads < group.threads:
        of_these = "" if share is None else "; its share is of the peak of as many"
        fewer = f"It runs on {threads_text(threads)} where the others have {group.threads}{of_these}."
    bound, reason = _bound(limit)
    if limit is not None and not (limit.is_memory or limit.is_exceeded) and (faster := above_the_peak(group, threads)):
        bound, reason = None, (f"What limits it is not known: {listed(faster)} ran faster than the measured peak, so "
                               "the peak is too low. `--fresh` measures it again.")  # fmt: skip
    if waits_for_transfers(best):
        kernels = percent(best["kernel_s"] / best["median_s"])
        bound, reason = "transfers", f"Limited by transfers: its kernels take {kernels} of the time."
    failed = trouble[1] if trouble is not None and trouble[0] == "failed" else ""
    summary = [_speed(group, best, share), fewer, reason]
    caveats = [_noise(best), _correctness(group, backend), failed]
    return Verdict(
        backend, "failed" if failed else "ok", "thread" if fewer else bound, best["gflop_per_s"], share,
        bool(best["noisy"]), " ".join(filter(None, summary)), advice(group, backend), " ".join(filter(None, caveats)),
    )  # fmt: skip


def verdicts(group: Group) -> list[Verdict]:
    """A verdict for every backend of a group, in ladder order."""
    return [verdict(group, backend) for backend in group.backends()]


def answers(group: Group) -> dict[str, str]:
    """What a reader asks first: the questions in a few words, each with its answer; of their own matrices first."""
    if not group.products:
        return {"Measured": "No product was measured on this device, only its ceilings."}
    own, ranking = group.ranking(USER_SUITE), group.ranking()
    if not ranking:
        return {"Measured": f"No backend was timed {group.phrase}; the reasons are listed below."}
    judged = verdicts(group)
    said = {
        "On your matrices": _fastest(group, own) if own else "",
        **(_incomplete(group) or {
            "Fastest here": _fastest(group, ranking) if ranking != own else "",
            "Distance to the limit": _distance_to_peak(group, (own or ranking)[0]),
        }),
        "What limits the others": _others(judged, _winners(ranking)),
        "Left out": _left_out(judged),
    }
    return {question: text for question, text in said.items() if text}


# The sentences of the answer.


def _incomplete(group: Group) -> dict[str, str]:
    """What is said instead of a fastest backend where the time was over before some had a single product."""
    missing = [
        name for name in group.backends()
        if not group.timed(name) and any(str(one["reason"]).startswith(NO_TIME) for one in group.of(name))
    ]  # fmt: skip
    if not missing:
        return {}
    text = f"The time was over before {listed(missing)}, so nothing is said of the fastest."
    return {"Incomplete": f"{text} Compiled programs are kept: run it again, or name fewer --backends."}


def _winners(ranking: Sequence[Record]) -> list[Record]:
    """The fastest, and all whose times overlap with its own."""
    return [record for record in ranking if record is ranking[0] or overlap(record, ranking[0])]


def _fastest(group: Group, ranking: Sequence[Record]) -> str:
    first, winners = ranking[0], _winners(ranking)
    where = f"at {problem_text(first)} {group.phrase}"
    if len(ranking) == 1:
        return f"{first['backend']} is the only backend timed {where}: {number(first['gflop_per_s'])} GFLOP/s."
    if len(winners) == 1:
        text = f"{first['backend']} is the fastest {where}: {number(first['gflop_per_s'])} GFLOP/s"
    else:
        names = listed([record["backend"] for record in winners])
        rates = listed([number(record["gflop_per_s"]) for record in winners])
        text = f"{names} are the fastest {where}, with {rates} GFLOP/s: no difference seen, as their times overlap"
    return f"{text}{_lead(ranking, winners)}."


def _lead(ranking: Sequence[Record], winners: Sequence[Record]) -> str:
    """The fastest over the next and over cpu-numpy, and gemmlab's best rung beside it if it is a baseline."""
    first = ranking[0]
    beaten = [record for record in ranking if record not in winners]
    said = [f"{_ratio_text(first, beaten[0])} (the next)"] if beaten else []
    said += [_ratio_text(first, record) for record in beaten[1:] if record["backend"] == "cpu-numpy"]
    start = ", " if len(winners) == 1 else f". {first['backend']} has "
    text = f"{start}{listed(said)}" if said else ""
    own = next((record for record in ranking if not is_baseline(record["backend"])), None)
    if own is not None and own not in winners:
        share = percent(first["median_s"] / own["median_s"])
        text += f"; {own['backend']}, the best of gemmlab's rungs, reaches {share} of that"
    return text


def _distance_to_peak(group: Group, first: Record) -> str:
    top = peak_for(group, first)
    if top is None:
        return f"No peak was measured {group.phrase}, so the distance to it is not known."
    share = first["gflop_per_s"] / top.gflop_per_s
    what = f"the measured peak of {number(top.gflop_per_s)} GFLOP/s ({top.isa} multiply-adds)"
    if share > 1:
        return f"{first['backend']} is {percent(share - 1)} above {what}, which is a lower bound of the hardware's."
    return f"{first['backend']} reaches {percent(share)} of {what}."


_LIMITED_BY = {
    "compute": "arithmetic limits {}",
    "memory": "memory bandwidth limits {}",
    "instructions": "other instructions or the latency of loads, not bandwidth, limit {}",
    "thread": "fewer threads limit {}",
    "transfers": "transfers limit {}",
    "unknown": "it is not known what limits {}",
}


def _others(judged: Sequence[Verdict], winners: Sequence[Record]) -> str:
    """What limits each backend that did not win; empty where that is known of none."""
    won = {record["backend"] for record in winners}
    clauses = []
    for bound, clause in _LIMITED_BY.items():
        names = [v.backend for v in judged if v.bound == bound and v.state == "ok" and v.backend not in won]
        clauses += [clause.format(listed(names))] if names else []
    return sentence("; ".join(clauses))


def _left_out(judged: Sequence[Verdict]) -> str:
    said = {
        "wrong": "do not use {} here: a product came out wrong",
        "failed": "{} failed",
        "skipped": "{} could not be timed",
    }
    names = {state: [v.backend for v in judged if v.state == state] for state in said}
    return sentence("; ".join(said[state].format(listed(own)) for state, own in names.items() if own))


# The sentences of a verdict.


def _trouble(records: Sequence[Record]) -> tuple[str, str] | None:
    """The worst that happened to a backend, and a sentence on it."""
    if wrong := next(filter(is_wrong, records), None):
        return "wrong", f"Wrong product at {problem_text(wrong)}: {_reason(wrong)} Its times do not count."
    for state in ("failed", "skipped"):
        if own := next((record for record in records if record["status"] == state), None):
            return state, f"{state.capitalize()} at {problem_text(own)}: {_reason(own)}"
    return None


def _reason(record: Record) -> str:
    if record["reason"]:
        return str(record["reason"]).strip().rstrip(".") + "."
    if record["error_over_bound"] is not None:
        return f"its error is {number(record['error_over_bound'])} times the bound."
    return "no reason was recorded."


def _speed(group: Group, best: Record, share: float | None) -> str:
    """Speed, share of the peak, and speed-up over each reference at the largest problem that both did."""
    text = f"{number(best['gflop_per_s'])} GFLOP/s at {problem_text(best)}"
    text += "" if share is None else f", {percent(share)} of the measured peak"
    ratios = []
    for reference in REFERENCES:
        pair = group.shared(best["backend"], reference) if reference != best["backend"] else None
        if pair is not None:
            where = "" if pair[0] is best else f" (at {problem_text(pair[0])})"
            ratios.append(_ratio_text(*pair) + where)
    return f"{text}{'; ' * bool(ratios)}{listed(ratios)}."


def _ratio_text(record: Record, other: Record) -> str:
    """One time against another: "1.3 times the speed of NAME", "40 % of" it, or "no difference seen"."""
    if overlap(record, other):
        return f"no difference seen from {other['backend']}"
    ratio = other["median_s"] / record["median_s"]
    return f"{f'{number(ratio)} times' if ratio > 1 else f'{percent(ratio)} of'} the speed of {other['backend']}"


def _bound(limit: Limit | None) -> tuple[str | None, str]:
    """What limits a backend, as one word and as a sentence, from its lowest limit."""
    if limit is None:
        return None, "What limits it is not known: the ceilings it needs were not measured."
    reaches = f"and it reaches {percent(limit.share)} of that"
    allows = "bandwidth would allow the full peak"
    if limit.is_memory:
        level = "local memory" if limit.level == "local" else limit.level
        attainable, intensity = number(limit.attainable), number(limit.intensity)
        allows = f"{level} bandwidth allows {attainable} GFLOP/s at its {intensity} flop per byte"
    if limit.is_exceeded:
        return "above", (f"Above its limit: {allows}, and it is {percent(limit.share - 1)} over that, so the measured "
                         "ceiling is too low, or the bytes are counted too high.")  # fmt: skip
    if limit.share >= NEAR and limit.is_memory:
        return "memory", f"Memory-bound: {allows}, {reaches}."
    if limit.share >= NEAR:
        return "compute", f"Compute-bound: {allows}."
    if limit.definition == "modelled":
        text = f"{allows}, {reaches}" if limit.is_memory else allows
        return "instructions", (f"Not bound by bandwidth: {text}. Other instructions or the latency of its loads "
                                "limit it.")  # fmt: skip
    return "unknown", (f"With each operand moved once, {allows}, {reaches}. It moves more than that, or waits for "
                       "something else: the bytes of its loops are not known.")  # fmt: skip


def _noise(best: Record) -> str:
    if not best["noisy"]:
        return ""
    low, high = (number(best["gflop"] / best[key]) for key in ("p80_s", "p20_s"))
    because = f": {best['noisy_because'].rstrip('.')}" if best.get("noisy_because") else ""
    return f"Noisy{because}. Its speed is {low} to {high} GFLOP/s from p80 to p20 of its times."


def _correctness(group: Group, backend: str) -> str:
    """The largest error of the backend's good products at any size."""
    errors = [r["error_over_bound"] for r in group.of(backend) if is_good(r) and r["error_over_bound"] is not None]
    if not errors:
        return "Its results were not checked."
    return f"Correct: its error is at most {number(max(errors))} of the bound."
