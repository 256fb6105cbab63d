"""Finds rows of a table that contradict what the page says of the rung, and says why.

Each rule looks only at the records of the row: cache sizes, modelled bytes, measured ceilings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TypeAlias

from gemmlab._words import listed, number, size
from gemmlab.course.gains import Run, Step
from gemmlab.measure.records import Record
from gemmlab.roofline.model import Roof

Rule: TypeAlias = Callable[[Run, Step], str]  # the reason without the sizes; "" where the rule does not apply
SAVES = 2.0  # a step that saves this factor of the bytes is one that the text speaks of
ALIKE = 1.1


def contradictions(run: Run) -> list[str]:
    """One sentence for each reason, with the sizes to which it applies."""
    found: dict[str, list[int]] = {}
    for step in run.steps:
        for rule in RULES:
            if reason := rule(run, step):
                found.setdefault(reason, []).append(step.n)
    return [f"{_rows(sizes, run)}: {reason}" for reason, sizes in found.items()]


def above_the_peak(run: Run, step: Step) -> str:
    """The rung is faster than the measured peak of as many threads."""
    if step.share_of_peak is None or step.share_of_peak <= 1:
        return ""
    return (
        f"above the measured peak ({number(step.peak)} GFLOP/s). The processor sets its clock by load and temperature, "
        "so it ran faster during the product than during the multiply-add loop. A measured peak is a lower bound."
    )


def last_cache_holds_b(run: Run, step: Step) -> str:
    """The step saves reads of B that would come from memory, but B outgrows L2 and fits the last cache."""
    if step.before is None or not (_cache(step, "L2") < _bytes_of_b(step) <= _cache(step, "L3")):
        return ""
    saved = _moved(step.before, "l3") / max(_moved(step.after, "l3"), 1.0)
    gain = step.after["gflop_per_s"] / step.before["gflop_per_s"]
    if saved < SAVES or gain > saved or _gb_per_s_read(step.before, "l3") <= _memory_gb_per_s(run, step):
        return ""
    return (
        f"the gain is far below the saving of traffic. L3 ({size(_cache(step, 'L3'))}) holds all of B, so "
        f"{step.before['backend']} reads it faster than memory could deliver it. The gain that the text predicts "
        "appears where B outgrows L3."
    )


def slower_because_a_cache_holds_b(run: Run, step: Step) -> str:
    """The step is slower than the one before it, and B fits the L2 cache."""
    if step.before is None or not 0 < _bytes_of_b(step) <= _cache(step, "L2"):
        return ""
    if step.after["p20_s"] <= step.before["p80_s"]:
        return ""
    return (
        f"slower than {step.before['backend']}. L2 ({size(_cache(step, 'L2'))}) holds all of B, so blocks save little "
        "there, and each block costs loop overhead and shorter inner loops."
    )


def local_memory_is_no_faster(run: Run, step: Step) -> str:
    """The step moves reads from L1 to local memory, which has the same bandwidth on this device."""
    if step.before is None or step.threads is not None or not run.ceilings or _moved(step.before, "local"):
        return ""
    if not ALIKE * _moved(step.after, "local") > _moved(step.before, "l1") > 0:
        return ""
    roof = Roof(run.ceilings)
    local, l1 = roof.bandwidth("local", None), roof.bandwidth("L1", None)
    gain = step.after["gflop_per_s"] / step.before["gflop_per_s"]
    if local > ALIKE * l1 or gain > SAVES:
        return ""
    return (
        f"little or no gain, although the tiles are in local memory. On this device L1 is as fast as local memory "
        f"({number(l1 / 1000)} and {number(local / 1000)} TB/s), and the caches had already saved the reads of memory."
    )


RULES: Sequence[Rule] = (above_the_peak, last_cache_holds_b, slower_because_a_cache_holds_b, local_memory_is_no_faster)


def _bytes_of_b(step: Step) -> int:
    return step.n**2 * (8 if step.after["problem"]["dtype"] == "float64" else 4)


def _cache(step: Step, level: str) -> int:
    """The bytes of a cache of the CPU; 0 on a device, whose caches are not known."""
    if step.threads is None:
        return 0
    return int((step.after["environment"].get("cache_bytes") or {}).get(level) or 0)


def _moved(record: Record, level: str) -> float:
    return float(record.get(f"bytes_model_{level}") or 0.0)


def _gb_per_s_read(record: Record, level: str) -> float:
    """The rate at which a product read from a level, if its traffic model is right."""
    return _moved(record, level) / record["median_s"] / 1e9  # type: ignore[no-any-return]


def _memory_gb_per_s(run: Run, step: Step) -> float:
    """The measured bandwidth of memory on as many threads; infinite if it was not measured."""
    loads = {"ceiling": "bandwidth", "level": "DRAM", "operation": "load", "threads": step.threads}
    found = [one["gb_per_s"] for one in run.ceilings if all(one.get(key) == loads[key] for key in loads)]
    return max(found, default=inf)


def _rows(sizes: Sequence[int], run: Run) -> str:
    if len(sizes) == len(run.steps) > 1:
        return "All rows"
    return f"N = {listed([str(n) for n in sizes])}"
