"""Intersections of posting lists: the source's methods and grains, NumPy and pyroaring, on several collections.

Each is timed in separate processes, which map the collection into memory from a file. The labels of the records are
the methods and grains; `params["lists"]` is the kind of collection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmlab._errors import BackendUnavailable, UnsupportedProblem
from gemmlab._name import BackendName
from gemmlab.measure.records import Record
from gemmlab.measure.table import Column, text_table
from gemmlab.studies import isolated
from gemmlab.studies.summary import wrapped
from gemmlab.workloads import postings
from gemmlab.workloads.postings_index import Ids, Index, Query
from gemmlab.workloads.postings_made import LISTS, POSTINGS, generate, small, trigrams

if TYPE_CHECKING:
    from gemmlab.studies.engine import Task

MEAN = POSTINGS // LISTS
MAX_ROUNDS = 2
CAP_S, QUICK_CAP_S = 5.0, 0.5
PROBE = 3  # queries that a grain is tried on, to see how long all would take
COLLECTIONS: dict[str, Callable[[float], tuple[Index, list[list[int]]]]] = {
    "small": lambda scale: small(),
    "equal": lambda scale: generate(sigma=0.0, scale=scale),
    "lognormal": lambda scale: generate(scale=scale),
    "use": lambda scale: generate(rho=1.0, scale=scale),
    "clusters": lambda scale: generate(clustered=True, scale=scale),
    "trigrams": lambda scale: trigrams(),
}
QUICK = "small", "lognormal"
NUMPY, ROARING, THREADS = "numpy", "pyroaring", "auto, threads"
ON_CPU = (*postings.METHODS, THREADS, NUMPY, ROARING)
TO_HOST = "coarse, to host"
ON_DEVICE = (*postings.GRAINS, TO_HOST)


@dataclass(frozen=True)
class Step:
    """What is timed: a method or grain, by a backend of the contest, on a collection in a folder."""

    name: str
    label: str
    lists: str
    folder: str


def measure(task: Task) -> None:
    """Records of every method and grain on every collection, at every mean length."""
    rounds = min(MAX_ROUNDS, task.options.rounds)
    for number, square in enumerate(task.cases):
        with TemporaryDirectory() as folder:
            steps = []
            for lists in QUICK if task.options.quick else COLLECTIONS:
                try:
                    _make(lists, square.n, Path(folder, lists))
                except ModuleNotFoundError as missing:
                    case = replace(square, m=1, k=1, label="auto", dtype="uint32")
                    refusal = isolated.NoAnswer(str(missing), "skipped")
                    task.keep(isolated.untimed(next(iter(task.contest)), case, refusal, {"params": {"lists": lists}}))
                else:
                    steps += [Step(name, label, lists, str(Path(folder, lists)))
                              for name in task.contest for label in _labels(name)]  # fmt: skip

            def show(done: int, count: int, step: Step, number: int = number) -> None:
                task.progress(number * count + done, len(task.cases) * count, f"{step.lists} {step.label}")

            for step, own in isolated.in_turn(steps, rounds, show, partial(_ask, task, rounds)):
                queries = len(postings.read_queries(Path(step.folder, "queries")))
                case = replace(square, m=queries, k=1, label=step.label, dtype="uint32")
                params = {"params": {"lists": step.lists}}
                if isinstance(own, isolated.NoAnswer):
                    task.keep(isolated.untimed(step.name, case, own, params))
                else:
                    samples = [sample for answer in own for sample in answer["samples_s"]]
                    facts = {"device": own[0]["device"], "calls_per_sample": 1, "transfers_counted": False}
                    task.keep(isolated.timed(step.name, case, samples, own[0]["error_over_bound"], facts | params))


def _make(lists: str, mean: int, folder: Path) -> None:
    """A collection, its queries, and what they should find."""
    folder.mkdir()
    index, queries = COLLECTIONS[lists](mean / MEAN)
    index.write(folder / "index")
    postings.write_queries(folder / "queries", queries)
    Index.from_lists(by_numpy(index, queries)).write(folder / "expected")


def by_numpy(index: Index, queries: Iterable[Query]) -> list[Ids]:
    """What every list of a query has, by NumPy, the shortest list first."""
    ordered = (sorted(set(terms), key=index.lengths.__getitem__) for terms in queries)
    return [reduce(partial(np.intersect1d, assume_unique=True), [index[t] for t in terms]) for terms in ordered]


def _labels(name: str) -> tuple[str, ...]:
    return ON_DEVICE if BackendName.of(name).runtime else ON_CPU


def _ask(task: Task, rounds: int, step: Step, is_first: bool) -> isolated.Answer:
    return isolated.ask(__name__, {
        "label": step.label, "runtime": BackendName.of(step.name).device,
        "folder": step.folder, "threads": task.options.threads, "is_first": is_first,
        "budget_s": task.options.budget_s / rounds,
        "cap_s": task.options.cap_s or (QUICK_CAP_S if task.options.quick else CAP_S),
    })  # fmt: skip


def main() -> None:
    """In the new process."""
    isolated.reply(times)


def times(
    label: str, runtime: str, folder: str, threads: int | None, is_first: bool, budget_s: float, cap_s: float
) -> isolated.Answer:
    """The times of all queries by one method, whether they found what they should, and the device."""
    from gemmlab._cpu.machine import cpu_name

    index = Index.read(Path(folder, "index"), check=False)
    queries = postings.read_queries(Path(folder, "queries"))
    device = cpu_name()
    if label in ON_DEVICE:
        resident = postings.DeviceIndex(index, runtime)
        device = resident.device.label
        compute, found = _on_device(resident, queries, label, cap_s)
    elif label == ROARING:
        compute, found = _by_roaring(index, queries)
    elif label == NUMPY:
        compute, found = partial(by_numpy, index, queries), list
    else:
        team = threads if label == THREADS else 1
        method = label.partition(",")[0]
        compute, found = partial(postings.intersect, index, queries, method, threads=team), list
    right = not is_first or _agrees(found(compute()), Path(folder, "expected"))
    samples: list[float] = []
    while not samples or sum(samples) < budget_s:
        start = perf_counter()
        compute()
        samples.append(perf_counter() - start)
    return {"samples_s": samples, "error_over_bound": 0.0 if right else 1e9, "device": device}


Work = tuple[Callable[[], Any], Callable[[Any], list[Ids]]]  # a call to time, and its result as arrays


def _on_device(resident: postings.DeviceIndex, queries: Sequence[Query], label: str, cap_s: float) -> Work:
    """What is found stays on the device, unless the label says otherwise."""
    if label == TO_HOST:
        return lambda: resident.start(queries).to_host(), list

    def compute(some: Sequence[Query] = queries) -> postings.Found:
        found = resident.start(some, label)
        found.wait()
        return found

    compute(queries[:PROBE])  # it builds the kernels, too
    start = perf_counter()
    compute(queries[:PROBE])
    if (expected := (perf_counter() - start) / PROBE * len(queries)) > cap_s and label != "coarse":
        raise UnsupportedProblem(f"it would take about {expected:.2g} s, over the limit of {cap_s:g} s")
    return compute, postings.Found.to_host


def _by_roaring(index: Index, queries: Sequence[Query]) -> Work:
    """CRoaring's compressed bitmaps, made before; the numbers as arrays, as from the other methods."""
    try:
        from pyroaring import BitMap
    except ModuleNotFoundError:
        raise BackendUnavailable("pyroaring is not installed; fix: pip install 'gemmlab[test]'") from None
    maps = {t: BitMap(np.array(index[t])) for t in {t for terms in queries for t in terms}}

    def compute() -> list[Any]:
        return [BitMap.intersection(*[maps[t] for t in terms]).to_array() for terms in queries]

    return compute, lambda found: [np.asarray(ids, np.uint32) for ids in found]


def _agrees(found: Sequence[Ids], path: Path) -> bool:
    expected = list(Index.read(path, check=False))
    return len(found) == len(expected) and all(map(np.array_equal, found, expected))


def blocks(records: Sequence[Record]) -> Iterator[str]:
    """What the times do not show: what the methods keep besides the lists."""
    index, _ = generate(scale=0.02)
    rows = [(method, index.structure(method)["bytes"] / index.postings) for method in ("skip", "bucket", "bitmap")]
    table = text_table(rows, [Column("method", lambda row: row[0], number=False),
                              Column("bytes a number", lambda row: f"{row[1]:.2f}")])  # fmt: skip
    yield f"Memory besides the lists, which take 4 bytes a number, with lognormal lengths\n\n{table}"
    seen = {record["problem"]["m"] for record in islice(records, 1000)}
    yield wrapped(
        f"A time is that of all queries of a collection ({' or '.join(map(str, sorted(seen)))}). A device has the "
        "lists already and keeps what it finds, but for \"coarse, to host\". The source's tables have no unit; "
        "milliseconds for a thousand queries are inferred. Its kernels skip some numbers and copy no results back."
    )
