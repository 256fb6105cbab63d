"""The commands of the workloads: gpp and postings."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from itertools import repeat
from time import perf_counter
from typing import TYPE_CHECKING

from gemmlab.cli.progress import progress

if TYPE_CHECKING:
    from gemmlab.workloads.gpp import Problem, SelfEnergy
    from gemmlab.workloads.gpp_check import Check
    from gemmlab.workloads.postings_index import Ids, Index

LONG_S = 60.0  # a longer call is not repeated: what is done once counts for little in it
OPERATIONS = 43  # of the original loops, for each band, row, column and frequency, as the contest counts


def run_gpp(arguments: Namespace) -> int:
    """gemmlab gpp"""
    from gemmlab.workloads import gpp, gpp_check

    problem = _problem(arguments)

    def compute(part: Problem) -> SelfEnergy:
        return gpp.self_energy(part, arguments.form, arguments.backend, arguments.threads)

    with progress() as show:
        start = perf_counter()
        found = gpp.self_energy(
            problem, arguments.form, arguments.backend, arguments.threads,
            lambda done, steps: show(done, steps, arguments.form),
        )  # fmt: skip
        cold_s = seconds = perf_counter() - start
        if cold_s <= LONG_S:
            start = perf_counter()
            found = compute(problem)
            seconds = perf_counter() - start
    checked = gpp_check.check(problem, found, compute)
    if arguments.json:
        print(json.dumps(_as_dict(problem, found, checked, seconds, cold_s), indent=1))
    else:
        print(_text(problem, found, checked, seconds, cold_s))
    return 0 if checked.ok else 1


def _problem(arguments: Namespace) -> Problem:
    """The problem of a file, or of four sizes, which become integers."""
    from gemmlab.workloads import gpp
    from gemmlab.workloads.gpp_files import read_problem

    given, nend, inputs = arguments.sizes, arguments.nend, arguments.inputs
    if len(given) == 1:
        return read_problem(given[0])
    if len(given) != 4 or not all(text.isdecimal() and len(text) < 19 for text in given):
        raise ValueError(f"give four whole numbers, such as 512 2 32768 20, or a file; not {' '.join(given)}")
    arguments.sizes = nb, nvband, ncouls, nodes = [int(text) for text in given]
    _refuse_what_does_not_fit(arguments)
    if inputs == "constant":
        return gpp.Problem.constant(nb, nvband, ncouls, nodes, nend=nend)
    return gpp.Problem.random(nb, nvband, ncouls, nodes, nend, arguments.seed, inputs)


def _refuse_what_does_not_fit(arguments: Namespace) -> None:
    from gemmlab._cpu.machine import free_memory_bytes
    from gemmlab.workloads.gpp_problem import rows_of

    nb, nvband, ncouls, nodes = arguments.sizes
    ngpown = rows_of(nb, nvband, ncouls, nodes, arguments.nend)
    arrays = 1 if arguments.inputs == "constant" else 2  # aqsm and aqsn, eps and wt are one array each
    product = 2 * ngpown if arguments.form == "factored" else 0
    planes = 2 * (nb + ngpown) if arguments.form.endswith("planes") else 0
    needed, free = 16 * ncouls * (arrays * (nb + ngpown) + product + planes), free_memory_bytes()
    if needed > free:
        raise ValueError(
            f"this problem needs {needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free: take a smaller one"
            + ", or --form fused" * (product + planes > 0)
        )


def _text(problem: Problem, found: SelfEnergy, checked: Check, seconds: float, cold_s: float) -> str:
    from gemmlab.measure.table import seconds as in_words
    from gemmlab.workloads.gpp import FORMS

    lines = [
        f"GPP self-energy: {problem.nb} bands, {problem.nvband} of them occupied; eps of {problem.ngpown} x "
        f"{problem.ncouls}",
        f"{found.form}: {FORMS[found.form].idea}",
        "",
        f"{'frequency':>9}  {'ach':^33}  {'asx':^33}",
    ]
    for wx, ach, asx in zip(problem.wx.reshape(-1, problem.nend)[0], found.ach, found.asx, strict=True):
        lines.append(f"{wx:9.4g}  {_complex(ach)}  {_complex(asx)}")
    lines += [f"{'static':>9}  {_complex(found.achs)}", ""]
    lines.append(f"error     {checked.error:.1e} against {checked.against}" + ", TOO LARGE" * (not checked.ok))
    parts = ", ".join(f"{name} {in_words(part)}" for name, part in found.parts_s.items())
    lines.append(f"time      {in_words(seconds)}: {parts}")
    if seconds != cold_s:  # not one call alone
        lines.append(f"cold      {in_words(cold_s)}: the first call, with all that is done once")
    rate = _operations(problem) / seconds / 1e9
    lines.append(f"rate      {rate:.4g} GFLOP/s, as the contest counts: {OPERATIONS} operations a term")
    return "\n".join(lines)


def _complex(value: complex) -> str:
    return f"{value.real:15.8e} {value.imag:+15.8e} i"


def _operations(problem: Problem) -> float:
    return float(OPERATIONS * problem.nb * problem.ngpown * problem.ncouls * problem.nend)


def _as_dict(
    problem: Problem, found: SelfEnergy, checked: Check, seconds: float, cold_s: float
) -> dict[str, object]:
    def pairs(values: object) -> list[list[float]]:
        import numpy as np

        return [[float(x.real), float(x.imag)] for x in np.atleast_1d(np.asarray(values))]

    return {
        "nb": problem.nb, "nvband": problem.nvband, "ncouls": problem.ncouls, "ngpown": problem.ngpown,
        "wx": problem.wx.tolist(), "ach": pairs(found.ach), "asx": pairs(found.asx), "achs": pairs(found.achs)[0],
        "form": found.form, "error": checked.error, "checked_against": checked.against, "seconds": seconds,
        "cold_seconds": cold_s, "parts_s": found.parts_s, "gflop_per_s": _operations(problem) / seconds / 1e9,
    }  # fmt: skip


def run_postings(arguments: Namespace) -> int:
    """gemmlab postings"""
    from gemmlab.workloads import postings

    start = perf_counter()
    index = postings.Index.read(arguments.index)
    queries = postings.read_queries(arguments.queries)
    read_s = perf_counter() - start
    start = perf_counter()
    found = postings.intersect(index, queries, arguments.method, arguments.backend, threads=arguments.threads)
    seconds = perf_counter() - start
    ok = all(map(_is_intersection, found, queries, repeat(index)))
    if arguments.out is not None:
        postings.Index.from_lists(found).write(arguments.out)
    counts = list(map(len, found))
    if arguments.json:
        print(json.dumps({
            "lists": len(index), "postings": index.postings, "documents": index.documents, "queries": len(queries),
            "method": arguments.method, "backend": arguments.backend, "counts": counts, "right": ok, "read_s": read_s,
            "seconds": seconds,
        }, indent=1))  # fmt: skip
    else:
        print(_of_postings(arguments, index, counts, read_s, seconds, ok))
    return 0 if ok else 1


def _is_intersection(found: Ids, terms: Sequence[int], index: Index) -> bool:
    """Whether NumPy finds the same numbers."""
    import numpy as np

    common = index[terms[0]]
    for t in terms[1:]:
        common = common[np.isin(common, index[t], assume_unique=True)]
    return np.array_equal(found, common)


def _of_postings(
    arguments: Namespace, index: Index, counts: Sequence[int], read_s: float, seconds: float, ok: bool
) -> str:
    from gemmlab.measure.table import seconds as in_words

    lines = [
        f"{len(index)} lists with {index.postings} numbers below {index.documents}, read in {in_words(read_s)}",
        f"queries   {len(counts)}; {sum(count > 0 for count in counts)} of them found something, {sum(counts)} numbers",
        f"check     {'as NumPy finds them' if ok else 'NOT what NumPy finds'}",
        f"time      {in_words(seconds)}: {arguments.method} on {arguments.backend}",
    ]
    if arguments.out is not None:
        lines.append(f"written   {arguments.out}")
    return "\n".join(lines)
