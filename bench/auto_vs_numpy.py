"""`gemmlab.matmul`, as `auto` chooses, beside `np.matmul`: random problems of all number types, layouts and classes.

    python bench/auto_vs_numpy.py [--seed S] [--count 200] [--dtypes NAMES] [--threads 1] [--out FILE]
    python bench/auto_vs_numpy.py --from FIRST.jsonl [SECOND.jsonl]

Each of the two has a process of its own, and both are timed in interleaved rounds, as by `gemmlab bench`. A problem is
below where `auto` has less than LIMIT of NumPy's speed beyond noise; of two runs with one seed, in both. The last lines
have how many are, the share that `auto` gave to NumPy, and the seed. The exit status is 1 if a problem is below.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from random import Random
from statistics import geometric_mean, median
from typing import Any, TypeAlias

from gemmlab._auto import shape_class
from gemmlab._auto.table import DTYPES
from gemmlab.cli.progress import progress
from gemmlab.measure import Case, RecordFile, Session, Settings, read
from gemmlab.measure.comparison import Pair, is_good, problem_key, ratio
from gemmlab.measure.problems import CLASS_ENDS, evenly
from gemmlab.roofline.ceilings.probe_loop import COMMAND

LIMIT = 0.95
ENDS = CLASS_ENDS | {"large": ((1, 1), *3 * ((701, 2000),))}
BLAS_DTYPES = ("float32", "float64", "complex64", "complex128")
MOST_GFLOP = {True: 4.0, False: 0.2}  # by whether NumPy may call its library, which it has for these dtypes alone
Record: TypeAlias = Mapping[str, Any]
Runs: TypeAlias = tuple[Pair, ...]  # of one problem


def problems(seed: int, count: int, dtypes: Sequence[str] = DTYPES) -> list[Case]:
    """Random problems of these dtypes, the same for a seed."""
    draw = Random(seed)
    cases: list[Case] = []
    while len(cases) < count:
        kind, dtype = draw.choice(list(ENDS)), draw.choice(dtypes)
        layout = draw.choice("CFS") + draw.choice("CFS") + "C"
        batch, m, n, k = evenly(draw, ENDS[kind])
        case = Case("random", kind, m, n, k, dtype, layout=layout, batch=batch)
        if case.gflop <= MOST_GFLOP[dtype in BLAS_DTYPES and "S" not in layout]:
            cases.append(case)
    return cases


def measured(cases: list[Case], settings: Settings, out: str) -> list[Record]:
    """The records of both, at each problem."""
    with RecordFile(out) as file, Session(probe_command=COMMAND) as session, progress() as show:
        return session.measure(
            ["auto", "cpu-numpy"], cases, settings, progress=show, on_record=file.write
        )


def pairs_of(records: Sequence[Record]) -> dict[tuple[Any, ...], Pair]:
    """NumPy's time and that of auto, by problem."""
    times = {(record["backend"], record["problem"]["dtype"], *problem_key(record)): record
             for record in records if record["kind"] == "gemm" and is_good(record)}  # fmt: skip
    return {key: ratio(times["cpu-numpy", *key], record)
            for (backend, *key_of), record in times.items()
            if backend == "auto" and ("cpu-numpy", *(key := tuple(key_of))) in times}  # fmt: skip


def goes_to_numpy(record: Record) -> bool:
    """Whether auto took NumPy, which has no parameters; `cpu-packed` records its block sizes."""
    return not record["params"]


def text_of(runs: Runs) -> str:
    """A line: the problem, and the ratio in each run with what noise leaves of it."""
    problem = runs[0].new["problem"]
    size = f"{problem['batch']}*" * (problem["batch"] > 1) + "x".join(str(problem[name]) for name in "mnk")
    kind = shape_class(problem["m"], problem["n"], problem["k"], problem["batch"])
    by = "NumPy" if goes_to_numpy(runs[0].new) else "cpu-packed"
    speeds = "; ".join(f"{pair.ratio:5.2f} ({pair.least:.2f} to {pair.most:.2f}){'!' * pair.noisy}" for pair in runs)
    return f"{problem['dtype']:<10}  {problem['layout']}  {size:<20}  {kind:<15}  {by:<10}  {speeds}"


def is_below(runs: Runs) -> bool:
    """Whether auto is slower than LIMIT times NumPy's speed, beyond noise, in each run."""
    return all(pair.most < LIMIT for pair in runs)


def report(found: Sequence[Runs], drawn: int) -> None:
    """Print the problems whose ratio is below LIMIT, slowest first, and what holds for all."""
    ratios = [geometric_mean(pair.ratio for pair in runs) for runs in found]
    print(f"speed of auto over that of np.matmul at {len(found)} problems, {drawn - len(found)} not measured; !: noisy")
    low = sorted((runs for runs in found if min(pair.ratio for pair in runs) < LIMIT), key=lambda runs: runs[0].ratio)
    for title, below in ((f"below {LIMIT} beyond noise", True), (f"below {LIMIT}, within noise", False)):
        lines = [text_of(runs) for runs in low if is_below(runs) is below]
        print("\n".join([f"\n{title}: {len(lines)}", *lines]))
    share = sum(goes_to_numpy(runs[0].new) for runs in found) / len(found)
    print(f"\nby way of NumPy: {share:.0%}; geometric mean {geometric_mean(ratios):.2f}, median {median(ratios):.2f}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, or read what was measured, and print what is below."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=Random().randrange(10**6), help="of the problems (a new one)")
    parser.add_argument("--count", type=int, default=200, help="how many problems (200)")
    parser.add_argument("--dtypes", default=",".join(DTYPES), metavar="NAMES", help="of the problems (all of NumPy's)")
    parser.add_argument("--threads", type=int, help="threads of each product (all)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each (7)")
    parser.add_argument("--budget", type=float, default=0.3, help="seconds of timing of each at a problem (0.3)")
    parser.add_argument("--out", default=os.devnull, help="a file for the records")
    parser.add_argument("--from", dest="source", nargs="+", help="records of one run, or of two with one seed")
    given = parser.parse_args(arguments)
    if given.source:
        records = [read(path) for path in given.source]
    else:
        print(f"--seed {given.seed}", flush=True)
        settings = Settings(threads=given.threads, rounds=given.rounds, budget_s=given.budget, cap_s=10.0)
        cases = problems(given.seed, given.count, given.dtypes.split(","))
        records = [measured(cases, settings, given.out)]
    first, *others = [pairs_of(run) for run in records]
    found = [tuple(run[key] for run in (first, *others)) for key in first if all(key in run for run in others)]
    if not found:
        parser.error("no problem has a time of auto and of cpu-numpy")
    report(found, len({(record["problem"]["dtype"], problem_key(record)) for record in records[0]}))
    return 1 if any(map(is_below, found)) else 0


if __name__ == "__main__":
    raise SystemExit(main())
