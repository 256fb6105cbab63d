"""What emulated products cost and how large their errors are: each scheme beside plain products, for kinds of input.

C has `EDGE` rows and columns, and k varies. Errors are those of all its elements, by |A||B| and by the norms of row and
column. The inputs come from a seed that never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gemmlab._api import matmul
from gemmlab._cpu.machine import cpu_name
from gemmlab._problem import Problem
from gemmlab._registry import get
from gemmlab.measure.problems import Case
from gemmlab.measure.records import Record
from gemmlab.measure.table import Column, text_table
from gemmlab.studies import isolated
from gemmlab.studies.summary import wrapped
from gemmlab.verify.bounds import exact_errors, gamma, row_norms

if TYPE_CHECKING:
    from gemmlab.studies.engine import Task

EDGE = 64
SEED = 20261128
EMULATED, PLAIN = "cpu-emulated", "cpu-packed"
SCHEMES: dict[str, tuple[dict[str, str | int], ...]] = {
    "float32": ({"scheme": "bf16x6"}, {"scheme": "bf16x9"}, {"scheme": "f16-pairs"}, {"moduli": 7}, {"moduli": 8}),
    "float64": ({"moduli": 13}, {"moduli": 14}, {"moduli": 15}, {"moduli": 16}),
}
Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]


def _nearly_one(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return np.asarray(1 + 1e-3 * rng.standard_normal(shape))


def _alternating(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Neighbours in a row are nearly opposite: with a B of nearly equal numbers, sums are smaller than products."""
    return np.asarray(_nearly_one(rng, shape) * (-1.0) ** np.arange(shape[1]))


def _graded(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Rows and columns shrink from 1 to 2^-40, as in graded matrices (Demmel)."""
    rows, columns = (np.exp2(-40 * np.arange(extent) / extent) for extent in shape)
    return np.asarray(rng.standard_normal(shape) * rows[:, None] * columns)


def _wide(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return np.asarray(rng.standard_normal(shape) * np.exp(4 * rng.standard_normal(shape)))


INPUTS: dict[str, tuple[Draw, Draw]] = {  # of A and of B
    "uniform": (np.random.Generator.random, np.random.Generator.random),
    "normal": (np.random.Generator.standard_normal, np.random.Generator.standard_normal),
    "wide": (_wide, _wide),
    "cancelling": (_alternating, _nearly_one),
    "graded": (_graded, _graded),
}


def operands(inputs: str, k: int, dtype: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """A and B of a kind, the same every time."""
    rng = np.random.default_rng([SEED, list(INPUTS).index(inputs), k])
    of_a, of_b = INPUTS[inputs]
    return of_a(rng, (EDGE, k)).astype(dtype), of_b(rng, (k, EDGE)).astype(dtype)


def title(record: Record) -> str:
    """The line of a record: its dtype, and its backend or scheme."""
    params = record["params"]
    name = record["backend"] if not params else params.get("scheme", f"{params.get('moduli')} moduli")
    return f"{record['problem']['dtype']} {name}"


def measure(task: Task) -> None:
    """A record of each contender, for each kind of input and each k."""
    steps = [
        (case, inputs, dtype, name, params)
        for case in task.cases for inputs in INPUTS for dtype in SCHEMES for name in task.contest
        for params in (SCHEMES[dtype] if name == EMULATED else ({},))
    ]  # fmt: skip
    for done, (square, inputs, dtype, name, params) in enumerate(steps):
        case = replace(square, m=EDGE, n=EDGE, k=square.n, dtype=dtype, label=inputs)
        task.progress(done, len(steps), f"{name} {inputs}, k = {case.k}")
        task.keep(_record(task, case, name, params))


def _record(task: Task, case: Case, name: str, params: dict[str, str | int]) -> Record:
    a, b = operands(case.label, case.k, case.dtype)
    call = partial(matmul, a, b, backend=name, threads=task.options.threads, **params)
    off, magnitude = exact_errors(a, b, call())
    by_norms = float((off / np.outer(row_norms(a), row_norms(b.T))).max())
    by_magnitude = float((off / magnitude).max())
    samples: list[float] = []
    while len(samples) < task.options.rounds or sum(samples) < task.options.budget_s / 10:
        start = perf_counter()
        call()
        samples.append(perf_counter() - start)
    facts: Record = {
        "device": cpu_name(), "calls_per_sample": 1, "transfers_counted": False, "threads": task.options.threads,
        "params": params, "error_norms": by_norms, "error_componentwise": by_magnitude,
    }  # fmt: skip
    error = get(name).error(Problem.from_call(a, b), **params)
    bound = gamma(case.k, case.dtype) if error.bound is None else error.bound
    over_bound = (by_norms if error.kind == "norms" else by_magnitude) / bound
    return isolated.timed(name, case, samples, over_bound, facts)


def blocks(records: Sequence[Record]) -> Iterator[str]:
    """For each dtype and k a table of errors: a row for each contender, a column for each kind of input."""
    timed = [record for record in records if record.get("error_norms") is not None]
    for dtype in SCHEMES:
        for k in sorted({record["problem"]["k"] for record in timed}):
            own = [one for one in timed if (one["problem"]["dtype"], one["problem"]["k"]) == (dtype, k)]
            for key, by in (("error_norms", "the norms of row and column"), ("error_componentwise", "|A||B|")):
                yield f"Largest error by {by}, {dtype}, k = {k}\n\n{_table(own, key)}"
    if timed:
        yield wrapped(
            "Schemes: bf16x6 and bf16x9 take float32 apart into three bfloat16 numbers; f16-pairs into two float16 "
            "numbers of a scaled row; moduli count the int8 products of integers that each row is scaled to. Of the "
            "last two the bound is by norms: they may lose what is small in a row of large numbers. "
            "docs/precision/emulated.md derives their bounds."
        )


def _table(own: Sequence[Record], key: str) -> str:
    rows = []
    for name in dict.fromkeys(map(title, own)):
        found = {one["problem"]["label"]: one[key] for one in own if title(one) == name}
        rows.append({"product": name, **{inputs: f"{found[inputs]:.1e}" for inputs in INPUTS if inputs in found}})
    heads = ["product", *(inputs for inputs in INPUTS if all(inputs in row for row in rows))]
    return text_table(rows, [Column(head, itemgetter(head), head != "product") for head in heads])
