"""Whether the rungs' traffic models are right: compared with the same loops on simulated caches.

Nothing is timed. The caches are small, so that small products outgrow them. Each product is simulated twice: with
usual associativities, and fully associative, which has no conflict misses; the label of the second record says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmlab import _registry
from gemmlab._cpu.rungs.traffic import LINE
from gemmlab._errors import UnsupportedProblem
from gemmlab._problem import Problem
from gemmlab._words import listed, number, size
from gemmlab.measure.problems import Case
from gemmlab.measure.records import Record
from gemmlab.measure.table import Column, text_table
from gemmlab.roofline.simulation import SIMULATED, simulate
from gemmlab.studies import isolated
from gemmlab.studies.summary import wrapped

if TYPE_CHECKING:
    from gemmlab.studies.engine import Task


CACHES = {"L1": (32 << 10, 8), "L2": (256 << 10, 8), "L3": (1 << 20, 16)}  # bytes and ways
BYTES = {name: nbytes for name, (nbytes, _) in CACHES.items()}
FULLY_ASSOCIATIVE = {name: (nbytes, nbytes // LINE) for name, nbytes in BYTES.items()}
LABEL_END = ", fully associative"
BLOCKS = {"cpu-blocked": {"bs_c": 48, "bs_k": 48}, "cpu-blocked-local": {"bs_c": 64, "bs_k": 48}}  # for such an L1
DEVICE = f"simulated caches of {listed([size(nbytes) for nbytes in BYTES.values()])}"
RUNGS = SIMULATED
TOLERANCE = 0.15
LEVELS = {"dram": "memory", "l3": "L3", "l2": "L2"}


def measure(task: Task) -> None:
    """Two records of every rung at every size, or the reason why there is none."""
    steps = [(replace(case, dtype="float64"), name) for case in task.cases for name in task.contest]
    for done, (case, name) in enumerate(steps):
        task.progress(done, len(steps), f"{name} {case.label}")
        backend: Any = _registry.get(name)
        problem = _problem(case)
        params = backend.resolve(problem, BLOCKS.get(name, {}))
        modelled = backend.traffic(problem, BYTES, **params)
        facts: Record = {"device": DEVICE, "threads": 1, "params": params}
        facts |= {f"bytes_model_{level}": moved for level, moved in modelled.items()}
        for end, caches in (("", CACHES), (LABEL_END, FULLY_ASSOCIATIVE)):
            labelled = replace(case, label=f"{case.label}{end}")
            try:
                moved = simulate(name, case.m, case.n, case.k, case.dtype, params, caches)
            except UnsupportedProblem as why:
                task.keep(isolated.untimed(name, labelled, isolated.NoAnswer(str(why), "skipped"), facts))
                break
            simulated = {f"bytes_simulated_{level}": nbytes for level, nbytes in moved.items()}
            task.keep(isolated.base(name, labelled) | facts | simulated | {"status": "ok"})


def _problem(case: Case) -> Problem:
    """The shape of a product, with operands that take no memory."""
    zero = np.dtype(case.dtype).type(0)
    a, b, out = (np.broadcast_to(zero, shape) for shape in ((case.m, case.k), (case.k, case.n), (case.m, case.n)))
    return Problem(a, b, out, threads=1)


@dataclass(frozen=True)
class Simulated:
    """A rung at a size, at one memory level: bytes by the model, by simulation, and on fully associative caches."""

    rung: str
    n: int
    modelled: float
    simulated: float
    fully_associative: float

    @property
    def error(self) -> float:
        """How far the model is above the simulation, as a share of that."""
        return self.modelled / self.simulated - 1

    @property
    def error_without_conflicts(self) -> float:
        """The same against fully associative caches."""
        return self.modelled / self.fully_associative - 1


def simulated(records: Sequence[Record], level: str) -> list[Simulated]:
    """Each pair of records at one level: "l2", "l3" or "dram"."""
    pairs: dict[tuple[str, int], dict[bool, Record]] = {}
    for record in records:
        if record["status"] == "ok" and record["bytes_simulated_dram"]:
            key = str(record["backend"]), int(record["problem"]["n"])
            pairs.setdefault(key, {})[record["problem"]["label"].endswith(LABEL_END)] = record
    return [
        Simulated(*key, pair[False][f"bytes_model_{level}"],
                  *(pair[full][f"bytes_simulated_{level}"] for full in (False, True)))
        for key, pair in pairs.items() if len(pair) == 2
    ]  # fmt: skip


def blocks(records: Sequence[Record]) -> Iterator[str]:
    """A table for each level, memory first, and which differences are conflict misses."""
    for level, name in LEVELS.items():
        if found := simulated(records, level):
            far = [one for one in found if abs(one.error) > TOLERANCE]
            yield f"Megabytes from {name} and back to it; last, on fully associative caches\n\n{_table(found)}"
            yield wrapped(f"{len(found) - len(far)} of {len(found)} are within {100 * TOLERANCE:.0f} % of the "
                          "simulation.")  # fmt: skip
            conflicts = [one for one in far if abs(one.error_without_conflicts) <= TOLERANCE]
            yield from _reason(conflicts, "conflict misses. On fully associative caches the model is right")
            others = [one for one in far if one not in conflicts]
            yield from _reason(others, "not conflict misses. A block may be about as large as a cache; a model takes "
                                       "it to stay there or not, and a cache keeps a part")  # fmt: skip


def _table(found: Sequence[Simulated]) -> str:
    rows = [
        {
            "N": str(one.n),
            "rung": one.rung,
            "model": number(one.modelled / 1e6),
            "simulated": number(one.simulated / 1e6),
            "error": f"{100 * one.error:+.1f} %",
            "fully assoc.": number(one.fully_associative / 1e6),
            "error then": f"{100 * one.error_without_conflicts:+.1f} %",
        }
        for one in found
    ]
    return text_table(rows, [Column(head, itemgetter(head), head != "rung") for head in rows[0]])


def _reason(found: Sequence[Simulated], reason: str) -> Iterator[str]:
    if found:
        yield wrapped(f"{listed([f'{one.rung} at N = {one.n}' for one in found])}: {reason}.", "* ", "  ")
