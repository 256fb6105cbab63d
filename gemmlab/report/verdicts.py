"""What the numbers say, in words: a rule over records for every sentence.

Three habits keep the sentences honest. Two times whose p20 to p80 intervals overlap are "no difference seen",
never a ratio. A share of a roof is of a roof measured on the same device, in the same number type, on as many
threads. And what was not measured is said to be unknown, not guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gemmlab.report.groups import (
    OWN_SUITE,
    Group,
    Record,
    is_baseline,
    is_good,
    is_wrong,
    overlap,
    problem_text,
    threads_of,
    threads_text,
)
from gemmlab.report.levers import NEAR, lever, waits_for_transfers
from gemmlab.report.roofs import Standing, peak, standing
from gemmlab.report.words import listed, number, percent, sentence
from gemmlab.roofline.model import TOLERANCE

REFERENCES = ("cpu-ikj", "cpu-naive")
ABOVE = 1 + TOLERANCE  # over this share of its roof, roof or model is off by more than noise


@dataclass(frozen=True)
class Verdict:
    """What is said of one backend: its speed and what bounds it, then the next lever, then the caveats.

    `state` is "ok", "wrong", "failed" or "skipped", the worst that holds; `bound` is "memory", "compute",
    "instructions", "thread" (it runs on fewer than the others), "transfers" (to and from a device), "above" (its
    roof), "unknown" (its traffic has no model) or None (no roof was measured).
    """

    backend: str
    state: str
    bound: str | None
    gflop_per_s: float | None
    share_of_peak: float | None
    noisy: bool
    said: str
    lever: str = ""
    caveats: str = ""

    @property
    def text(self) -> str:
        """All of it."""
        return " ".join(filter(None, (self.said, self.lever, self.caveats)))

    @property
    def rate(self) -> str:
        """Speed and share of peak, in short."""
        share = "" if self.share_of_peak is None else f", {percent(self.share_of_peak)} of peak"
        return f"{number(self.gflop_per_s)} GFLOP/s{share}"


def verdict(group: Group, backend: str, others: Sequence[Group] = ()) -> Verdict:
    """Judge one backend of a group by its largest square, or its largest product where none is square.

    `others` are groups of the same device: times on one thread, or without transfers, tell more of the same backend.
    """
    best = group.largest(backend)
    trouble = _trouble(group.of(backend))
    if best is None:
        state, text = trouble or ("skipped", "Not timed.")
        return Verdict(backend, state, None, None, None, False, text)
    where = standing(group, best)
    roof = peak(group)
    share = best["gflop_per_s"] / roof.gflop_per_s if roof else None
    said = [
        _speed(best, share) + _speedups(group, backend) + ".",
        _one_thread(group, best),
        _transfers(best) or _why(where),
    ]
    caveats = [_noise(best), _correctness(group, backend)]
    state = "ok"
    if trouble is not None and trouble[0] == "failed":
        state = "failed"
        caveats.append(trouble[1])
    return Verdict(
        backend, state, _bound(group, best, where), best["gflop_per_s"], share, bool(best["noisy"]),
        " ".join(filter(None, said)), lever(group, backend, others), " ".join(filter(None, caveats)),
    )  # fmt: skip


def verdicts(group: Group, others: Sequence[Group] = ()) -> list[Verdict]:
    """A verdict for every backend of a group, in the order of the ladder."""
    return [verdict(group, backend, others) for backend in group.backends()]


def answers(group: Group) -> dict[str, str]:
    """What a reader asks first, each question in a few words, with a sentence for an answer."""
    if not group.products:
        return {"Measured": "No product was measured on this device, only its ceilings."}
    race = group.race()
    if not race:
        return {"Measured": f"No backend was timed {group.phrase}; the reasons stand below."}
    judged = verdicts(group)
    winners = _winners(race)
    said = {
        "Fastest here": _fastest(group, race),
        "From the limit": _distance(group, race[0]),
        "What stops the others": _stops(judged, winners),
        "Left out": _avoid(judged),
    }
    return {question: text for question, text in said.items() if text}


def answer(group: Group) -> list[str]:
    """The answers alone: two to four sentences."""
    return list(answers(group).values())


def own_matrices(group: Group) -> str:
    """Who is fastest on the reader's own matrices; nothing if there were none."""
    race = group.race(OWN_SUITE)
    return f"On your matrices, {_fastest(group, race)}" if race else ""


def against(record: Record, other: Record) -> str:
    """One time against another: "1.3 times the speed of NAME", "40 % of it", or "no difference seen"."""
    name = other["backend"]
    if overlap(record, other):
        return f"no difference seen from {name}"
    ratio = other["median_s"] / record["median_s"]
    return f"{f'{number(ratio)} times' if ratio > 1 else f'{percent(ratio)} of'} the speed of {name}"


# The sentences of the answer.


def _winners(race: Sequence[Record]) -> list[Record]:
    """The fastest, and all whose times cannot be told from its own."""
    return [record for record in race if record is race[0] or overlap(record, race[0])]


def _fastest(group: Group, race: Sequence[Record]) -> str:
    first, winners = race[0], _winners(race)
    where = f"at {problem_text(first)} {group.phrase}"
    if len(race) == 1:
        return f"{first['backend']} is the only backend timed {where}: {number(first['gflop_per_s'])} GFLOP/s."
    if len(winners) == 1:
        text = f"{first['backend']} is the fastest {where}: {number(first['gflop_per_s'])} GFLOP/s"
    else:
        names = [record["backend"] for record in winners]
        rates = [number(record["gflop_per_s"]) for record in winners]
        text = (f"{listed(names)} are the fastest {where}, with {listed(rates)} GFLOP/s: no difference seen between "
                "the first and the rest of them, as their p20 to p80 intervals overlap")  # fmt: skip
    return f"{text}{_comparisons(race, winners)}."


def _comparisons(race: Sequence[Record], winners: Sequence[Record]) -> str:
    """The fastest against the next, against cpu-numpy, and our best rung against it if it is a baseline."""
    first = race[0]
    beaten = [record for record in race if record not in winners]
    said = [f"{against(first, beaten[0])} (the next)"] if beaten else []
    said += [against(first, record) for record in beaten[1:] if record["backend"] == "cpu-numpy"]
    lead = ", " if len(winners) == 1 else f". {first['backend']} has "
    text = f"{lead}{listed(said)}" if said else ""
    own = next((record for record in race if not is_baseline(record["backend"])), None)
    if own is not None and own not in winners:
        share = percent(first["median_s"] / own["median_s"])
        text += f"; the best of gemmlab's own rungs, {own['backend']}, reaches {share} of that"
    return text


def _distance(group: Group, first: Record) -> str:
    roof = peak(group)
    if roof is None:
        return f"No peak was measured {group.phrase}, so the distance to it is not known."
    share = first["gflop_per_s"] / roof.gflop_per_s
    of_what = f"the measured peak of {number(roof.gflop_per_s)} GFLOP/s ({roof.isa} multiply-adds)"
    if share > 1:
        return (f"{first['backend']} is {percent(share - 1)} above {of_what}: a measured ceiling is a lower bound of "
                "the hardware's.")  # fmt: skip
    return f"{first['backend']} reaches {percent(share)} of {of_what}."


_STOPPER = {
    "compute": "arithmetic bounds {}",
    "memory": "memory bandwidth bounds {}",
    "instructions": "instructions or the latency of loads, not bandwidth, hold back {}",
    "thread": "fewer threads limit {}",
    "transfers": "transfers hold back {}",
    "unknown": "nothing measured tells what holds back {}",
}


def _stops(judged: Sequence[Verdict], winners: Sequence[Record]) -> str:
    """What bounds each backend that did not win; nothing where no bound is known."""
    won = {record["backend"] for record in winners}
    clauses = []
    for bound, clause in _STOPPER.items():
        names = [v.backend for v in judged if v.bound == bound and v.state == "ok" and v.backend not in won]
        if names:
            clauses.append(clause.format(listed(names)))
    return f"Of the others, {'; '.join(clauses)}." if clauses else ""


def _avoid(judged: Sequence[Verdict]) -> str:
    names = {state: [v.backend for v in judged if v.state == state] for state in ("wrong", "failed", "skipped")}
    said = {
        "wrong": "do not use {} here: a product came out wrong",
        "failed": "{} failed",
        "skipped": "{} could not be timed",
    }
    clauses = [said[state].format(listed(own)) for state, own in names.items() if own]
    return sentence("; ".join(clauses)) if clauses else ""


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


def _speed(best: Record, share: float | None) -> str:
    text = f"{number(best['gflop_per_s'])} GFLOP/s at {problem_text(best)}"
    return text if share is None else f"{text}, {percent(share)} of the measured peak"


def _speedups(group: Group, backend: str) -> str:
    """Against the reference backends, each at the largest problem that both did."""
    said = []
    for reference in REFERENCES:
        pair = group.shared(backend, reference) if reference != backend else None
        if pair is not None:
            own = group.largest(backend)
            where = "" if own is pair[0] else f" (at {problem_text(pair[0])})"
            said.append(against(*pair) + where)
    return f"; {listed(said)}" if said else ""


def _one_thread(group: Group, best: Record) -> str:
    if threads_of(best) >= group.threads:
        return ""
    return f"It runs on {threads_text(threads_of(best))} where the others have {group.threads}."


def _bound(group: Group, best: Record, where: Standing | None) -> str | None:
    if threads_of(best) < group.threads:
        return "thread"
    if _transfers(best):
        return "transfers"
    if where is None:
        return None
    if where.share > ABOVE:
        return "above"
    if where.share < NEAR:
        return "instructions" if where.modelled else "unknown"
    return "compute" if where.level is None else "memory"


def _transfers(best: Record) -> str:
    """How much of the time is not the kernels', where that is most of it; a roof says nothing of that part."""
    if not waits_for_transfers(best):
        return ""
    share = percent(best["kernel_s"] / best["median_s"])
    return f"Bound by transfers: its kernels take {share} of the time, and moving operands and result the rest."


def _why(where: Standing | None) -> str:
    """What bounds a backend, from its point under the roofs."""
    if where is None:
        return "What bounds it is not known: the ceilings it needs were not measured."
    reaches = f"and it reaches {percent(where.share)} of that"
    allows = "bandwidth would allow the full peak"
    if where.level is not None:
        speed, intensity = number(where.attainable), number(where.intensity)
        level = "local memory's" if where.level == "local" else where.level
        allows = f"{level} bandwidth allows {speed} GFLOP/s at its {intensity} flop per byte"
    if where.share > ABOVE:
        return (f"Above its roof: {allows}, and it is {percent(where.share - 1)} over that, so the measured ceiling "
                "is too low, or the traffic counted too high.")  # fmt: skip
    if where.share >= NEAR:
        return f"Memory-bound: {allows}, {reaches}." if where.level else f"Compute-bound: {allows}."
    if where.modelled:
        tail = "its instructions or the latency of its loads hold it back."
        return f"Not bound by bandwidth: {allows}{f', {reaches}' * bool(where.level)}; {tail}"
    if where.level:
        return f"Its traffic has no model; with each operand moved once, {allows}, {reaches}."
    return "Its traffic has no model, so what keeps it from the peak is not known."


def _noise(best: Record) -> str:
    if not best["noisy"]:
        return ""
    low, high = (number(best["gflop"] / best[key]) for key in ("p80_s", "p20_s"))
    apart = percent(best["noise_percent"] / 100)
    because = f" {sentence(best['noisy_because'])}" if best.get("noisy_because") else ""
    return f"Noisy: read it as {low} to {high} GFLOP/s (p20 to p80 of the time, {apart} apart).{because}"


def _correctness(group: Group, backend: str) -> str:
    """The largest error of the backend's good products, whether timed at the judged size or at another."""
    records = [record for record in group.of(backend) if is_good(record)]
    errors = [record["error_over_bound"] for record in records if record["error_over_bound"] is not None]
    if not errors:
        return "Its results were not checked."
    return f"Correct: its error is at most {number(max(errors))} of the bound."
