"""What would make a backend faster: one or two sentences, each from figures in the records.

There are four rules, and the first two that apply are reported. A speed-up is always a measured one, and there is none
where the p20 to p80 intervals of two times overlap.

    transfers   the kernels take less than half of the time, so operands should stay on the device
    next rung   what the next rung of the ladder does, its modelled bytes, and its measured speed-up
    fastest     the fastest backend of the group, and how many times as fast it is
    packing     packing takes 10 % of the time or more, which packing B once avoids
"""

from __future__ import annotations

from gemmlab._cpu.packed_backend.backend import Packed
from gemmlab._cpu.rungs.ladder import RUNGS as CPU_RUNGS
from gemmlab._gpu.ladder.rungs import RUNGS as GPU_RUNGS
from gemmlab._name import BackendName
from gemmlab._words import number, percent
from gemmlab.analysis.formatting import problem_text
from gemmlab.analysis.groups import Group
from gemmlab.measure.comparison import overlap
from gemmlab.measure.records import Record
from gemmlab.roofline.model import LEVELS, moved_bytes

MAX_RULES = 2
MIN_PACKING_PERCENT = 10.0
MIN_FALL = 1.05  # times fewer bytes

# rung -> the next rung of its ladder, and what that one does; a GPU rung has no runtime in its name here
NEXT_RUNG = {
    before: (rung.name, better) for rung in (*CPU_RUNGS, Packed, *GPU_RUNGS) for before, better in rung.over.items()
}


def advice(group: Group, backend: str) -> str:
    """What would make a backend faster, at the product that it is judged by; empty where no rule applies."""
    best = group.largest(backend)
    if best is None:
        return ""
    next_rung = _next_rung_of(backend)
    said = [_transfers(best), _next_rung(group, best, *next_rung), _fastest(group, best, next_rung[0])]
    said.append(_packing(group, backend))
    return " ".join(list(filter(None, said))[:MAX_RULES])


def waits_for_transfers(record: Record) -> bool:
    """Whether moving operands to a device and the result back takes at least half of the time."""
    counted = record["transfers_counted"] and record["kernel_s"] is not None
    return bool(counted and record["kernel_s"] <= 0.5 * record["median_s"])


def _transfers(best: Record) -> str:
    if not (waits_for_transfers(best) and best["kernel_s"]):
        return ""
    return f"Keep operands on the device: the kernels alone reach {number(best['gflop'] / best['kernel_s'])} GFLOP/s."


def _next_rung_of(backend: str) -> tuple[str, str]:
    parsed = BackendName.of(backend)
    if parsed.runtime and parsed.rung in NEXT_RUNG:
        name, idea = NEXT_RUNG[parsed.rung]
        return f"{parsed.runtime}-{name}", idea
    return NEXT_RUNG.get(backend, ("", ""))


def _next_rung(group: Group, best: Record, name: str, idea: str) -> str:
    """What the next rung does, how much its modelled bytes fall, and how fast it is."""
    pair = group.shared(best["backend"], name) if name in group.backends() else None
    if pair is None:
        return ""
    own, other = pair
    text = f"The next rung, {name}, {idea}"
    if fall := _largest_fall(own, other):
        text += f". By the traffic models it moves {number(fall[1])} times fewer bytes from {fall[0]}"
    if overlap(own, other):
        return f"{text}; no difference in speed was seen."
    ratio = own["median_s"] / other["median_s"]
    speed = f"{number(ratio)} times" if ratio > 1 else f"only {percent(ratio)} of"
    return f"{text}; it has {speed} the speed{_at(own, best)}."


def _largest_fall(own: Record, other: Record) -> tuple[str, float] | None:
    """The memory level whose modelled bytes fall most from one product to the other, and how many times."""
    falls = [
        (level, before / after) for level in LEVELS
        if (before := moved_bytes(own, level, "modelled")) and (after := moved_bytes(other, level, "modelled"))
    ]  # fmt: skip
    level, times = max(falls, key=lambda fall: fall[1], default=("", 0.0))
    return (level, times) if times > MIN_FALL else None


def _fastest(group: Group, best: Record, next_rung: str) -> str:
    """The fastest backend of the group, unless it is this, as fast as this, or named as the next rung."""
    ranking = group.ranking()
    pair = group.shared(best["backend"], ranking[0]["backend"]) if ranking else None
    if pair is None or pair[1]["backend"] == next_rung or overlap(*pair) or pair[0]["median_s"] < pair[1]["median_s"]:
        return ""
    ratio = pair[0]["median_s"] / pair[1]["median_s"]
    return f"Use {pair[1]['backend']}: {number(ratio)} times the speed{_at(pair[0], best)}."


def _packing(group: Group, backend: str) -> str:
    """The square at which packing takes the largest share of the time."""
    most = max(group.squares(backend), key=lambda record: record.get("packing_percent") or 0, default=None)
    if most is None or (most.get("packing_percent") or 0) < MIN_PACKING_PERCENT:
        return ""
    return (f"Packing takes {most['packing_percent']:.0f} % of its time at {problem_text(most)}: gemmlab.pack packs a "
            "B once for many products.")  # fmt: skip


def _at(record: Record, best: Record) -> str:
    """The problem that a ratio is of, where it is not the one that the backend is judged by."""
    return f" at {problem_text(record)}" if record is not best else ""
