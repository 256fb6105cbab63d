"""The next lever: what would make a backend faster here, in a sentence or two, by rules over the records.

The rules stand in the order of their weight, and the first two that have something to say are heard. A speed that
stands in a sentence was measured in this group, and where p20 to p80 intervals overlap there is no ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gemmlab.report.groups import Group, Record, is_baseline, overlap, problem_text, threads_of, threads_text
from gemmlab.report.roofs import Standing, fma_ceilings, peak, standing
from gemmlab.report.words import listed, number, percent
from gemmlab.roofline.model import LEVELS, moved_bytes

NEAR = 0.6  # at this share of its roof a backend counts as bound by it
HALF = 0.5  # of the peak, or of a time
HEARD = 2  # rules
WORTH_PACKING = 10.0  # per cent of the time
ISA_WORDS = {"v2": "SSE", "v3": "AVX2", "v4": "AVX-512"}

# name -> the next rung of its ladder, and what that one does
NEXT = {
    "cpu-naive": ("cpu-ikj", "walks along rows of B and C"),
    "cpu-ikj": ("cpu-blocked", "keeps a block of B in L1"),
    "cpu-blocked": ("cpu-blocked-local", "sums a piece of a row of C in a buffer of its own"),
    "cpu-blocked-local": ("cpu-packed", "packs its operands and keeps a tile of C in registers"),
}
# the same of every runtime
NEXT_ON_DEVICE = {
    "naive": ("private", "sums in a register"),
    "private": ("local", "shares tiles of A and B in local memory"),
    "local": ("local4", "makes several numbers of C a work-item"),
    "local4": ("register", "keeps a tile of C a work-item in registers"),
    "register-global": ("register", "sums its tile in registers"),
}


@dataclass(frozen=True)
class Case:
    """A backend at the product it is judged by, in its group; `others` are the device's other groups."""

    group: Group
    others: Sequence[Group]
    best: Record
    where: Standing | None

    @property
    def backend(self) -> str:
        return str(self.best["backend"])


def lever(group: Group, backend: str, others: Sequence[Group] = ()) -> str:
    """What would make a backend faster, in at most two statements; nothing where no rule knows."""
    best = group.largest(backend)
    if best is None:
        return ""
    case = Case(group, others, best, standing(group, best))
    heard = [text for rule in RULES if (text := rule(case))]
    return " ".join(heard[:HEARD])


def waits_for_transfers(record: Record) -> bool:
    """Whether moving operands to a device and the result back is most of the time."""
    counted = record["transfers_counted"] and record["kernel_s"] is not None
    return bool(counted and record["kernel_s"] <= HALF * record["median_s"])


def _transfers(case: Case) -> str:
    """Operands that stay on the device, or come from pinned memory."""
    best = case.best
    if not waits_for_transfers(best):
        return ""
    kernels = number(best["gflop"] / best["kernel_s"]) if best["kernel_s"] else ""
    text = f"Keep operands on the device: its kernels alone do {kernels} GFLOP/s." if kernels else ""
    seen = best["bytes_compulsory"] / (best["median_s"] - best["kernel_s"]) / 1e9
    pinned = [c["gb_per_s"] for c in case.group.ceilings if c["ceiling"] == "transfer" and c["memory"] == "pinned"]
    if pinned and min(pinned) > seen:
        text += f" Operands move at {number(seen)} GB/s; from pinned memory it could be {number(min(pinned))}."
    return text.strip()


def _instruction_set(case: Case) -> str:
    """A wider instruction set than the one in use, for a rung that is near the roof of the latter."""
    facts = case.best["environment"]
    used, available = facts.get("isa"), facts.get("isa_available") or []
    if is_baseline(case.backend) or not case.best["threads"] or used not in available or used == available[-1]:
        return ""
    better = f"{available[-1]} ({ISA_WORDS[available[-1]]})" if available[-1] in ISA_WORDS else available[-1]
    roofs = {c["isa"]: c["gflop_per_s"] for c in fma_ceilings(case.group)}
    if used not in roofs:
        return f"It runs in {used}; this CPU has {better}: leave GEMMLAB_ISA unset."
    share = case.best["gflop_per_s"] / roofs[used]
    if share < HALF:
        return ""
    return f"The {used} roof is reached at {percent(share)}; this CPU has {better}: leave GEMMLAB_ISA unset."


def _next_rung(case: Case) -> str:
    """The next rung's idea, by how much its bytes fall by the models, and what that gave here."""
    name, idea = _next(case.backend)
    pair = case.group.shared(case.backend, name) if name in case.group.backends() else None
    if pair is None:
        return ""
    own, theirs = pair
    text = f"The next rung, {name}, {idea}"
    if fall := _largest_fall(own, theirs):
        text += f": by the models its bytes from {fall[0]} fall {number(fall[1])} times"
    if overlap(own, theirs):
        return f"{text}; no difference in speed was seen."
    ratio = own["median_s"] / theirs["median_s"]
    speed = f"it has {number(ratio)} times" if ratio > 1 else f"but it has {percent(ratio)} of"
    return f"{text}; {speed} the speed{_elsewhere(case, own)}."


def _next(backend: str) -> tuple[str, str]:
    runtime, _, rung = backend.partition("-")
    if rung in NEXT_ON_DEVICE and runtime != "cpu":
        name, idea = NEXT_ON_DEVICE[rung]
        return f"{runtime}-{name}", idea
    return NEXT.get(backend, ("", ""))


def _largest_fall(own: Record, theirs: Record) -> tuple[str, float] | None:
    """The level whose modelled bytes fall most from one product to the other, and how many times."""
    falls = [
        (level, before / after) for level in LEVELS
        if (before := moved_bytes(own, level, "modelled")) and (after := moved_bytes(theirs, level, "modelled"))
    ]  # fmt: skip
    level, times = max(falls, key=lambda fall: fall[1], default=("", 0.0))
    return (level, times) if times > 1.05 else None


def _faster(case: Case) -> str:
    """The fastest backend of the group, for those that it beats; the next rung has been named already."""
    pair = _beaten(case)
    if pair is None or pair[1]["backend"] == _next(case.backend)[0]:
        return ""
    ratio = pair[0]["median_s"] / pair[1]["median_s"]
    return f"Use {pair[1]['backend']}: {number(ratio)} times the speed{_elsewhere(case, pair[0])}."


def _elsewhere(case: Case, record: Record) -> str:
    """The problem that a ratio is of, where it is not the one that the backend is judged by."""
    return f" at {problem_text(record)}" if record is not case.best else ""


def _beaten(case: Case) -> tuple[Record, Record] | None:
    """The backend's product and that of the group's fastest one, if the latter is faster without a doubt."""
    race = case.group.race()
    pair = case.group.shared(case.backend, race[0]["backend"]) if race else None
    return pair if pair and not overlap(*pair) and pair[0]["median_s"] > pair[1]["median_s"] else None


def _memory_range(case: Case) -> str:
    """The sizes at which memory is its limit, where they are some and not all."""
    places = {r["problem"]["n"]: standing(case.group, r) for r in case.group.squares(case.backend)}
    bound = {n: where is not None and where.level is not None and where.share >= NEAR for n, where in places.items()}
    sizes = _sizes(bound)
    return f"Memory-bound {sizes}." if sizes else ""


def _small(case: Case) -> str:
    """The sizes from the smallest on at which it is under half of the peak."""
    top = peak(case.group)
    squares = case.group.squares(case.backend)
    if top is None:
        return ""
    under = {r["problem"]["n"]: r["gflop_per_s"] < HALF * top.gflop_per_s for r in squares}
    sizes = _sizes(under)
    return f"Under half of the peak {sizes}." if sizes.startswith("up to") else ""


def _packing(case: Case) -> str:
    """The square at which packing its operands takes the largest share of the time, where that is worth a word."""
    most = max(case.group.squares(case.backend), key=lambda record: record["packing_percent"] or 0, default=None)
    if most is None or (most["packing_percent"] or 0) < WORTH_PACKING:
        return ""
    return (f"Packing is {most['packing_percent']:.0f} % of its time at {problem_text(most)}: gemmlab.pack packs a B "
            "once for many products.")  # fmt: skip


def _threads(case: Case) -> str:
    """The sizes at which all threads are no faster than one, where both were timed."""
    alone = next((own for own in case.others if own.threads == 1 and _differ_in_threads(own, case.group)), None)
    if alone is None:
        return ""
    single = {r["problem"]["n"]: r for r in alone.squares(case.backend)}
    pairs = {r["problem"]["n"]: (r, single[r["problem"]["n"]]) for r in case.group.squares(case.backend)
             if r["problem"]["n"] in single and threads_of(r) == case.group.threads}  # fmt: skip
    vain = {n: overlap(*pair) or pair[0]["median_s"] > pair[1]["median_s"] for n, pair in pairs.items()}
    sizes = "at any N" if vain and all(vain.values()) else _sizes(vain)
    return f"{threads_text(case.group.threads).capitalize()} do not pay {sizes}." if sizes else ""


def _differ_in_threads(one: Group, other: Group) -> bool:
    return one.threads != other.threads and (one.dtype, one.transfers) == (other.dtype, other.transfers)


def _left(case: Case) -> str:
    """What is left under the peak, for a backend that nothing here beats."""
    top = peak(case.group)
    if top is None or threads_of(case.best) < case.group.threads or _beaten(case):
        return ""
    left = top.gflop_per_s / case.best["gflop_per_s"]
    return f"At most {number(left)} times is left under the peak." if left > 1.01 else "Nothing is left under the peak."


def _sizes(holds: dict[int, bool]) -> str:
    """The sizes at which something holds, as a range; nothing where it holds at none or at all."""
    sizes = sorted(holds)
    true = [n for n in sizes if holds[n]]
    if not true or len(true) == len(sizes):
        return ""
    if true == sizes[: len(true)]:
        return f"up to N = {true[-1]}"
    if true == sizes[-len(true) :]:
        return f"from N = {true[0]}"
    return f"at N = {listed([str(n) for n in true])}"


RULES: tuple[Callable[[Case], str], ...] = (
    _transfers, _instruction_set, _next_rung, _faster, _packing, _memory_range, _small, _threads, _left,
)  # fmt: skip
