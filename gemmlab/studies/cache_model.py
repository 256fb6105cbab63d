"""Whether the rungs' traffic models are right: held against the same loops on simulated caches.

Nothing is timed. The caches are those of no machine in particular, and small, so that small products outgrow them. Each
product is simulated twice, with the ways that such caches have, and fully associative, where no two lines ever contend
for a place while another is free: the label of the second says so. What differs between the two is conflicts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import gcd
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmlab import _registry
from gemmlab._cpu.rungs.traffic import ABOVE, LINE
from gemmlab._errors import UnsupportedProblem
from gemmlab._problem import Problem
from gemmlab.measure.problems import Case
from gemmlab.measure.table import Column, text_table
from gemmlab.report.words import listed, number, size
from gemmlab.roofline.simulation import ACCESSES, simulate
from gemmlab.studies import children
from gemmlab.studies.text import wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gemmlab.studies.engine import Task

Record = Mapping[str, Any]

CACHES = {"L1": (32 << 10, 8), "L2": (256 << 10, 8), "L3": (1 << 20, 16)}  # bytes and ways
BYTES = {name: nbytes for name, (nbytes, _) in CACHES.items()}
ONE_SET = {name: (nbytes, nbytes // LINE) for name, nbytes in BYTES.items()}
WAYS = {"": CACHES, ", fully associative": ONE_SET}  # by the end of the label
BLOCKS = {"cpu-blocked": {"bs_c": 48, "bs_k": 48}, "cpu-blocked-local": {"bs_c": 64, "bs_k": 48}}  # for such an L1
NUMBER = 8  # bytes of a float64
DEVICE = f"simulated caches of {listed([size(nbytes) for nbytes in BYTES.values()])}"
RUNGS = tuple(ACCESSES)
WITHIN = 0.15
NEAR = (0.8, 1.25)  # sizes of the caches, relative, between which an edge is near
NAMES = {"dram": "memory", "l3": "L3", "l2": "L2"}


def measure(task: Task) -> None:
    """Records of every rung at every size: two each, or the reason why there is none."""
    cases = [replace(case, dtype="float64") for case in task.cases]
    steps = [(case, name) for case in cases for name in task.contest]
    for done, (case, name) in enumerate(steps):
        task.progress(done, len(steps), f"{name} {case.label}")
        backend: Any = _registry.get(name)
        problem = _problem(case)
        plan = backend.resolve(problem, BLOCKS.get(name, {}))
        modelled = backend.traffic(problem, BYTES, **plan)
        facts: dict[str, Any] = {"device": DEVICE, "threads": 1, "params": plan}
        facts |= {f"bytes_model_{level}": moved for level, moved in modelled.items()}
        for ending, caches in WAYS.items():
            labelled = replace(case, label=f"{case.label}{ending}")
            try:
                moved = simulate(name, case.m, case.n, case.k, case.dtype, plan, caches)
            except UnsupportedProblem as why:
                task.keep(children.untimed(name, labelled, children.NoAnswer(str(why), "skipped"), **facts))
                break
            simulated = {f"bytes_simulated_{level}": nbytes for level, nbytes in moved.items()}
            task.keep(children.base(name, labelled) | facts | simulated | {"status": "ok"})


def _problem(case: Case) -> Problem:
    """The product's shape; it has no numbers."""
    zero = np.dtype(case.dtype).type(0)
    a, b, out = (np.broadcast_to(zero, shape) for shape in ((case.m, case.k), (case.k, case.n), (case.m, case.n)))
    return Problem(a, b, out, threads=1)


class Row:
    """A rung at a size: its record, and that of the same caches fully associative."""

    def __init__(self, record: Record, one_set: Record) -> None:
        self.record, self.one_set = record, one_set
        self.name, self.n = str(record["backend"]), int(record["problem"]["n"])

    def modelled(self, level: str) -> float:
        """Bytes by the model."""
        return float(self.record[f"bytes_model_{level}"])

    def simulated(self, level: str, one_set: bool = False) -> float:
        """Bytes by simulation."""
        return float((self.one_set if one_set else self.record)[f"bytes_simulated_{level}"])

    def off(self, level: str, one_set: bool = False) -> float:
        """How far the model is above the simulation, as a share of that."""
        return self.modelled(level) / self.simulated(level, one_set) - 1

    def is_conflict(self, level: str) -> bool:
        """Whether the model is right of caches that are fully associative."""
        return abs(self.off(level, one_set=True)) <= WITHIN

    def is_near_edge(self, level: str) -> bool:
        """Whether the simulation lies between what the model says of somewhat smaller and somewhat larger caches."""
        params, problem = self.record["params"], self.record["problem"]
        case = Case("", "", problem["m"], problem["n"], problem["k"], problem["dtype"])
        backend: Any = _registry.get(self.name)
        caches = [{name: int(part * nbytes) for name, nbytes in BYTES.items()} for part in NEAR]
        around: list[float] = [backend.traffic(_problem(case), sizes, **params)[level] for sizes in caches]
        return min(around) * (1 - WITHIN) <= self.simulated(level) <= max(around) * (1 + WITHIN)


def rows_of(records: Sequence[Record]) -> list[Row]:
    """Each pair of records, as they come."""
    found: dict[tuple[Any, ...], dict[str, Record]] = {}
    for record in records:
        if record["status"] == "ok" and record["bytes_simulated_dram"]:
            label, _, ending = str(record["problem"]["label"]).partition(",")
            key = record["backend"], label, record["problem"]["n"]
            found.setdefault(key, {})[ending] = record
    return [Row(pair[""], pair[" fully associative"]) for pair in found.values() if len(pair) == len(WAYS)]


def words(records: Sequence[Record]) -> Iterator[str]:
    """A table for each level, memory first, and what is to be said of the rows that are far off."""
    rows = rows_of(records)
    for level, name in NAMES.items() if rows else ():
        far = [row for row in rows if abs(row.off(level)) > WITHIN]
        yield f"Megabytes from {name} and back to it; in the end with all caches of one set\n\n{_table(rows, level)}"
        yield wrapped(f"{len(rows) - len(far)} of {len(rows)} are within {100 * WITHIN:.0f} % of the simulation.")
        for reasons in (_conflicts, _edges, _unexplained):
            yield from (wrapped(reason, "* ", "  ") for reason in reasons(level, far))


def _table(rows: Sequence[Row], level: str) -> str:
    cells = [
        {
            "N": str(row.n),
            "rung": row.name,
            "model": number(row.modelled(level) / 1e6),
            "simulated": number(row.simulated(level) / 1e6),
            "off by": f"{100 * row.off(level):+.1f} %",
            "one set": number(row.simulated(level, one_set=True) / 1e6),
            "then off": f"{100 * row.off(level, one_set=True):+.1f} %",
        }
        for row in rows
    ]
    return text_table(cells, [Column(head, itemgetter(head), head != "rung") for head in cells[0]])


def _conflicts(level: str, far: Sequence[Row]) -> Iterator[str]:
    """Where the model is right of caches that are fully associative."""
    for n in dict.fromkeys(row.n for row in far):
        own = [row for row in far if row.n == n and row.is_conflict(level)]
        if own:
            most = max(abs(row.off(level, one_set=True)) for row in own)
            yield (
                f"N = {n}, {listed([row.name for row in own])}: which lines share a set decides. {_column_of(n, level)}"
                f"With one set, where a line may take any place, the model is off by {100 * most:.1f} % at most."
            )


def _column_of(n: int, level: str) -> str:
    """Where in a cache the lines of a column of n numbers fall, if there is no room for them."""
    nbytes, ways = CACHES[ABOVE[level]]
    sets, pitch = nbytes // LINE // ways, n * NUMBER
    met = sets // gcd(sets, pitch // LINE)
    if pitch % LINE or met * ways >= n:
        return ""
    return (
        f"Rows are {pitch} bytes apart, so a column falls on {met} of the {sets} sets of {ABOVE[level]}, with room for "
        f"{met * ways} lines. "
    )


def _edges(level: str, far: Sequence[Row]) -> Iterator[str]:
    """Where a cache of somewhat another size makes the model another."""
    own = [row for row in far if not row.is_conflict(level) and row.is_near_edge(level)]
    if own:
        yield (
            f"{_named(own)}: near an edge. What is used again is about as large as a cache. A model says that it stays "
            "or that it does not; the simulation lies between what it says of caches a fifth smaller and a quarter "
            "larger."
        )


def _unexplained(level: str, far: Sequence[Row]) -> Iterator[str]:
    """What is left."""
    own = [row for row in far if not row.is_conflict(level) and not row.is_near_edge(level)]
    if own:
        yield f"{_named(own)}: neither conflicts nor an edge explain it."


def _named(rows: Sequence[Row]) -> str:
    return listed([f"{row.name} at N = {row.n}" for row in rows])


def drawings(records: Sequence[Record]) -> Iterator[tuple[str, Figure]]:
    """For each level, a figure of the models against the simulation, and the end of its name."""
    rows = rows_of(records)
    for level, name in NAMES.items() if rows else ():
        yield f"-{level}", _figure(rows, level, name)


def _figure(rows: Sequence[Row], level: str, name: str) -> Figure:
    from gemmlab.report.drawing import QUIET, canvas, label_lines, plain_log, styles

    looks = styles(list(dict.fromkeys(row.name for row in rows)))
    places = [(row, row.simulated(level) / 1e6, row.modelled(level) / 1e6) for row in rows]
    ends = min(min(x, y) for _, x, y in places) / 1.5, max(max(x, y) for _, x, y in places) * 1.5
    with canvas(4.0, list(looks)) as (figure, axes):
        axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
        axes.set(xlabel=f"MB from {name}, simulated", ylabel="by the model")
        axes.plot(ends, ends, color=QUIET, linewidth=1)
        low, high = ([(1 + side) * end for end in ends] for side in (-WITHIN, WITHIN))
        axes.fill_between(ends, low, high, color=QUIET, alpha=0.15, linewidth=0)
        for row, x, y in places:
            axes.plot(x, y, linestyle="none", **looks[row.name].point())
            if abs(row.off(level)) > WITHIN:
                aside = 5, 4 if list(looks).index(row.name) % 2 else -10  # of neighbours, one above and one below
                axes.annotate(str(row.n), (x, y), aside, textcoords="offset points", fontsize=8, color=QUIET)
        plain_log(axes.xaxis)
        plain_log(axes.yaxis)
        label_lines(axes, {row.name: (x, y) for row, x, y in places}, looks)
    return figure
