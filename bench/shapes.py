"""cpu-packed beside NumPy's OpenBLAS and MKL at many shapes, class by class.

    python bench/shapes.py [--suites classes,shapes] [--dtype float32] [--threads 1] [--rounds 7] [--out FILE]

Suites are those of `gemmlab bench --suite`, operands in rows. Each library runs in a separate process for the whole
run, OpenMP's threads bound to cores, and stands still while another is timed; in each round all of them multiply the
same shape, one directly after the other, and the order turns round. The ratio of a shape is the median time of the
faster library over that of cpu-packed.
Where GEMMLAB_ISA=v3 is set, the libraries take AVX2 too. MKL is left out where it is not installed.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from statistics import geometric_mean, median
from time import perf_counter
from typing import Any

import numpy as np

import gemmlab
from gemmlab._cpu.baselines import mkl_library
from gemmlab._process.children import WorkerProcess
from gemmlab.measure.problems import SUITES, Case

SAMPLE_S, CASE_S = 2e-4, 0.01
LOW = 0.85
AVX2 = {"OPENBLAS_CORETYPE": "Haswell", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
ANSWER_S = 600.0  # at most


def operands(case: Case) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(1)
    lead = (case.batch,) * (case.batch > 1)
    a, b = (
        rng.random((*lead, *shape), dtype=case.dtype)  # type: ignore[call-overload]
        for shape in ((case.m, case.k), (case.k, case.n))
    )
    return a, b, np.empty((*lead, case.m, case.n), case.dtype)


def mkls_product(a: Any, b: Any, c: Any) -> Callable[[], object]:
    """MKL's gemm, gemv where one operand is a vector, or gemm_batch_strided. The caller keeps the arrays alive."""
    mkl, letter = ctypes.CDLL(str(mkl_library())), "s" if a.dtype == np.float32 else "d"
    number = ctypes.c_float if letter == "s" else ctypes.c_double
    one, zero, rows, plain, turned = number(1), number(0), 101, 111, 112
    (m, k), n = a.shape[-2:], b.shape[-1]
    pa, pb, pc = (ctypes.c_void_p(x.ctypes.data) for x in (a, b, c))
    if a.ndim == 3:
        strided = one, pa, k, m * k, pb, n, k * n, zero, pc, n, m * n, len(a)
        return partial(getattr(mkl, f"cblas_{letter}gemm_batch_strided"), rows, plain, plain, m, n, k, *strided)
    if n == 1:
        return partial(getattr(mkl, f"cblas_{letter}gemv"), rows, plain, m, k, one, pa, k, pb, 1, zero, pc, 1)
    if m == 1:
        return partial(getattr(mkl, f"cblas_{letter}gemv"), rows, turned, k, n, one, pb, n, pa, 1, zero, pc, 1)
    return partial(getattr(mkl, f"cblas_{letter}gemm"), rows, plain, plain, m, n, k, one, pa, k, pb, n, zero, pc, n)


def seconds(library: str, case: Case) -> float:
    """A product's, the median of samples of at least SAMPLE_S."""
    a, b, c = operands(case)
    multiply: Callable[[], object] = partial(gemmlab.matmul, a, b, out=c, backend="cpu-packed")
    if library == "numpy":
        multiply = partial(np.matmul, a, b, out=c)
    elif library == "mkl":
        multiply = mkls_product(a, b, c)

    def sample(calls: int) -> float:
        start = perf_counter()
        for _ in range(calls):
            multiply()
        return (perf_counter() - start) / calls

    sample(1)
    once = sample(1)
    calls = max(1, round(SAMPLE_S / once))
    samples = [once] if calls == 1 else []
    while sum(samples) * calls < CASE_S:
        samples.append(sample(calls))
    return median(samples)


def work(library: str, cases: list[Case]) -> None:
    """Answer each request, a case's number, by its seconds."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin:
        number = json.loads(line).get("number")
        answer = {} if number is None else {"s": seconds(library, cases[number])}
        print(json.dumps(answer), file=answers, flush=True)


def measured(options: argparse.Namespace, cases: list[Case], libraries: list[str]) -> Iterator[dict[str, Any]]:
    os.environ.update(AVX2 if os.environ.get("GEMMLAB_ISA") == "v3" else {})
    workers = {
        library: WorkerProcess(options.threads, [sys.executable, *sys.argv, "--worker", library])
        for library in libraries
    }
    try:
        for worker in workers.values():
            worker.ask("start", ANSWER_S)  # and stand still
        low, middle, high = (options.rounds * fifths // 5 for fifths in (1, 2.5, 4))
        for number, case in enumerate(cases):
            times: dict[str, list[float]] = {library: [] for library in libraries}
            for turn in range(options.rounds):
                for library in libraries[:: 1 if turn % 2 else -1]:
                    times[library].append(workers[library].ask("seconds", ANSWER_S, number=number)["s"])
            us = {
                library: [round(1e6 * sorted(own)[int(i)], 2) for i in (low, middle, high)]
                for library, own in times.items()
            }
            ours, *others = (own[1] for own in us.values())
            shape = [case.batch, case.m, case.k, case.n]
            yield {
                "suite": case.suite,
                "label": case.label,
                "shape": shape,
                "ratio": round(min(others) / ours, 3),
                "us": us,
            }
    finally:
        for worker in workers.values():
            worker.close()


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    classes: dict[str, list[float]] = {}
    for row in rows:
        name, _, number = row["label"].rpartition(" ")
        classes.setdefault(name if name and number.isdigit() else row["suite"], []).append(row["ratio"])
    classes["all"] = [row["ratio"] for row in rows]
    yield f"| shapes | number | geometric mean | lowest | below {LOW} |"
    yield "| --- | --- | --- | --- | --- |"
    for name, ratios in classes.items():
        low = sum(ratio < LOW for ratio in ratios)
        yield f"| {name} | {len(ratios)} | {geometric_mean(ratios):.2f} | {min(ratios):.2f} | {low} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--suites", default="classes,shapes")
    parser.add_argument("--dtype", default="float32", choices=("float32", "float64"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", help="write the rows here, a JSON list")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    cases = [case for name in options.suites.split(",") for case in SUITES[name](False, options.dtype)]
    if options.worker:
        work(options.worker, cases)
        return
    libraries = ["cpu-packed", "numpy", *["mkl"] * gemmlab.backends()["cpu-mkl"].available]
    rows = list(measured(options, cases, libraries))
    print("\n".join(table(rows)))
    for row in rows:
        if row["ratio"] < LOW:
            print(f"{row['label']:<20} {'x'.join(map(str, row['shape'])):<24} {row['ratio']:.2f} {row['us']}")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n")


if __name__ == "__main__":
    main()
