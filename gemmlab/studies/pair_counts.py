"""The sizes of all pairs of lists' intersections, by bits and by a sparse product: from which density on do bits win?

The labels of the records are the densities of the lists; N is the number of lists. All run on one thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from gemmlab.measure.records import Record
from gemmlab.measure.table import Column, text_table
from gemmlab.studies import isolated
from gemmlab.studies.summary import wrapped
from gemmlab.workloads import postings_pairs
from gemmlab.workloads.postings_index import Index, kernels
from gemmlab.workloads.postings_made import even

if TYPE_CHECKING:
    from gemmlab.studies.engine import Task

DOCUMENTS = 1 << 18
BAR_LISTS, BAR_DENSITY = 2000, 20
DENSITIES = (2000, 1000, 500, 200, 100, 50, 20)  # a document in so many is in a list
CAP_S = 20.0
Step = tuple[str, int]  # bits or sparse, and a density


def measure(task: Task) -> None:
    """Records of both ways at every density."""
    name = next(iter(task.contest))
    for number, square in enumerate(task.cases):
        case = replace(square, k=DOCUMENTS, dtype="int64")
        steps = [(way, density) for way in ("bits", "sparse") for density in DENSITIES]

        def show(done: int, count: int, step: Step, number: int = number) -> None:
            task.progress(number * count + done, len(task.cases) * count, f"{step[0]} at 1/{step[1]}")

        for (way, density), own in isolated.in_turn(steps, task.options.rounds, show, partial(_ask, task, case.n)):
            labelled, params = replace(case, label=f"1/{density}"), {"params": {"way": way}}
            if isinstance(own, isolated.NoAnswer):
                task.keep(isolated.untimed(name, labelled, own, params))
            else:
                samples = [sample for answer in own for sample in answer["samples_s"]]
                facts = {"device": own[0]["device"], "calls_per_sample": 1, "transfers_counted": False, "threads": 1}
                task.keep(isolated.timed(name, labelled, samples, own[0]["error_over_bound"], facts | params))


def _ask(task: Task, lists: int, step: Step, is_first: bool) -> isolated.Answer:
    return isolated.ask(__name__, {
        "way": step[0], "density": step[1], "lists": lists, "is_first": is_first,
        "budget_s": task.options.budget_s / task.options.rounds, "cap_s": task.options.cap_s or CAP_S,
    })  # fmt: skip


def main() -> None:
    """In the new process."""
    isolated.reply(times)


def times(way: str, density: int, lists: int, is_first: bool, budget_s: float, cap_s: float) -> isolated.Answer:
    """The times of one way at one density, and whether it agrees with the other."""
    from gemmlab._cpu.machine import cpu_name
    from gemmlab._errors import UnsupportedProblem

    index = drawn(lists, density)
    ways = {"bits": partial(postings_pairs.by_bits, index, 1), "sparse": partial(postings_pairs.by_sparse, index)}
    if way == "sparse" and (expected := postings_pairs.sparse_s(index)) > cap_s:
        raise UnsupportedProblem(f"it would take about {expected:.2g} s, over the limit of {cap_s:g} s")
    counts = ways[way]()
    wrong = is_first and way == "sparse" and not np.array_equal(counts, ways["bits"]())
    samples: list[float] = []
    while not samples or sum(samples) < budget_s:
        start = perf_counter()
        ways[way]()
        samples.append(perf_counter() - start)
    return {"samples_s": samples, "error_over_bound": 1e9 if wrong else 0.0, "device": cpu_name()}


def drawn(lists: int, density: int) -> Index:
    """Lists with one document in `density`, evenly spread."""
    rng = np.random.default_rng(1)
    return Index.from_lists(even(DOCUMENTS // density, 0, DOCUMENTS, rng) for _ in range(lists))


def blocks(records: Sequence[Record]) -> Iterator[str]:
    """How near bits come to the ceiling of their instructions."""
    index = drawn(BAR_LISTS, BAR_DENSITY)
    rows = []
    for counting in kernels().countings():
        ceiling = postings_pairs.ceiling_words_per_s(counting)
        taken = []
        for _ in range(3):
            start = perf_counter()
            postings_pairs.by_bits(index, 1, counting)
            taken.append(perf_counter() - start)
        reached = postings_pairs.word_pairs(index) / float(np.median(taken))
        rows.append((counting, f"{ceiling / 1e9:.1f}", f"{reached / 1e9:.1f}", f"{reached / ceiling:.0%}"))
    names = "instructions", "ceiling, 10^9 words/s", "reached", "share"
    table = text_table(rows, [Column(name, itemgetter(i), number=i > 0) for i, name in enumerate(names)])
    yield f"AND and population count on one thread, {BAR_LISTS} lists of density 1/{BAR_DENSITY}\n\n{table}"
    yield wrapped(
        "The ceiling: the same instructions on rows that stay in L1, without making the bits. \"vpopcnt\" is AVX-512's "
        "population count, \"adders\" are carry-save adders on vectors, \"words\" one instruction for each word."
    )
