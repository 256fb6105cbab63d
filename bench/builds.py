"""Two builds of gemmlab beside each other: is `cpu-packed` as fast in the new one?

    python bench/builds.py OLD_PYTHON NEW_PYTHON [--threads 1] [--rounds 7] [--dtypes float32,float64] [--out FILE]

OLD_PYTHON and NEW_PYTHON are the interpreters of two environments, each with its own gemmlab. Each runs in its own
process, for the whole run. In every round both time the same product, one directly after the other; the build that goes
first alternates. Products are squares from 64 to 2048 and the suite `shapes`, in five dtypes. GEMMLAB_ISA applies to
both.

The table lists each product's median time in both builds, the ratio old/new of these medians (over 1: the new build is
faster), and "slower" where the new build is slower and the p20 to p80 intervals of the two do not overlap.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DTYPES = ("float32", "float64", "complex64", "int8", "float16")
SQUARES = (64, 128, 256, 512, 1024, 2048)
BUDGET_S = 0.02  # of timing for each product in each round

WORKER = """
import json, os, sys
from functools import cache
from time import perf_counter
import numpy as np, gemmlab
answers = os.fdopen(os.dup(1), "w"); os.dup2(2, 1)
@cache
def pattern(dtype):
    rng, count = np.random.default_rng(1), 1_000_003  # numbers, repeated in larger operands
    if dtype == "int8":
        return rng.integers(-100, 100, count).astype(dtype)
    x = rng.random(count)
    return (x + 1j * rng.random(count) if dtype.startswith("complex") else x).astype(dtype)
for line in sys.stdin:
    case = json.loads(line)
    stack = (case["batch"],) * (case["batch"] > 1)
    a = np.resize(pattern(case["dtype"]), (*stack, case["m"], case["k"]))
    b = np.resize(pattern(case["dtype"])[7:], (*stack, case["k"], case["n"]))
    out = np.empty((*stack, case["m"], case["n"]), case["dtype"])
    def seconds(calls):
        start = perf_counter()
        for _ in range(calls):
            gemmlab.matmul(a, b, out=out, backend="cpu-packed", threads=case["threads"])
        return (perf_counter() - start) / calls
    seconds(1)
    call_s = seconds(1)
    calls = max(1, round(2e-4 / call_s))  # that make a sample
    samples = [call_s] if calls == 1 else [seconds(calls)]
    while sum(samples) * calls < case["budget_s"]:
        samples.append(seconds(calls))
    print(json.dumps(sorted(samples)[len(samples) // 2]), file=answers, flush=True)
"""


class Build:
    """One environment's gemmlab, in its own process."""

    def __init__(self, python: str) -> None:
        command = [python, "-P", "-c", WORKER]
        environ = os.environ | {"OMP_WAIT_POLICY": "passive"}  # no idle threads beside the other build
        self._process = subprocess.Popen(
            command, cwd="/", env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def seconds(self, case: dict[str, Any]) -> float:
        """The median time of one product."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(case), file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())


def cases(dtypes: list[str], threads: int) -> Iterator[dict[str, Any]]:
    from gemmlab.measure.problems import shapes

    extents = [(str(n), n, n, n, 1) for n in SQUARES]
    extents += [(case.label, case.m, case.n, case.k, case.batch) for case in shapes(quick=False)]
    for dtype in dtypes:
        for label, m, n, k, batch in extents:
            yield {"label": label, "m": m, "n": n, "k": k, "batch": batch, "dtype": dtype, "threads": threads,
                   "budget_s": BUDGET_S}  # fmt: skip


def quantile(samples: list[float], share: float) -> float:
    return sorted(samples)[round(share * (len(samples) - 1))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="interpreter of the environment with the old build")
    parser.add_argument("new", help="interpreter of the environment with the new build")
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument("--rounds", type=int, default=7, metavar="N")
    parser.add_argument("--dtypes", default=",".join(DTYPES), metavar="LIST")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write all times as JSON")
    asked = parser.parse_args()
    builds = {"old": Build(asked.old), "new": Build(asked.new)}
    todo = list(cases(asked.dtypes.split(","), asked.threads))
    times: list[dict[str, list[float]]] = [{"old": [], "new": []} for _ in todo]
    for number in range(asked.rounds):
        order = ["old", "new"] if number % 2 == 0 else ["new", "old"]
        for case, taken in zip(todo, times, strict=True):
            for name in order:
                taken[name].append(builds[name].seconds(case))
        print(f"round {number + 1} of {asked.rounds}", file=sys.stderr, flush=True)
    ratios, slower = [], 0
    for case, taken in zip(todo, times, strict=True):
        old_s, new_s = quantile(taken["old"], 0.5), quantile(taken["new"], 0.5)
        apart = quantile(taken["new"], 0.2) > quantile(taken["old"], 0.8)
        ratios.append(old_s / new_s)
        slower += apart
        name = f"{case['dtype']} {case['label']} {case['m']}x{case['n']}x{case['k']}"
        print(f"{name:50} {1e6 * old_s:10.1f} {1e6 * new_s:10.1f} us {old_s / new_s:6.3f}{'  slower' if apart else ''}")
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"{len(ratios)} products, geometric mean old/new {mean:.4f}, slower beyond the intervals: {slower}")
    if asked.out:
        asked.out.write_text(json.dumps([{**case, **taken} for case, taken in zip(todo, times, strict=True)]))


if __name__ == "__main__":
    main()
