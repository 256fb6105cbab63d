"""cpu-packed's threads beside others: of NumPy in the same process, of other callers, of other processes.

    python bench/team.py [--before PYTHON] [--threads N] [--only ROWS] [--rounds 3] [--out FILE]

PYTHON is the interpreter of an environment with an older gemmlab, for the rows "alone, over before". N is the number of
our threads: by default as many as a product takes by itself; NumPy has all CPUs. ROWS are some of: mix, numpy, alone,
sleep, callers, processes, spinner. Each row has fresh processes in each round; the table has the median over the rounds
of each ratio, and the best and worst. "heads" is (12, 128, 64) @ (12, 64, 128) in float32, squares are float64.
Times over something are better the smaller they are, rates the larger. Medians of 60 calls, 90th percentiles of 600.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

ROWS = ("mix", "numpy", "alone", "sleep", "callers", "processes", "spinner")
CALLS, MANY_CALLS, SECONDS = 60, 600, 0.5
HEADS, STACK = ("heads", (12, 128, 64), (12, 64, 128), "float32"), ("(1000,4,4)", (1000, 4, 4), (1000, 4, 4), "float64")


def square(n: int) -> tuple[str, tuple[int, ...], tuple[int, ...], str]:
    return str(n), (n, n), (n, n), "float64"


ALONE = [square(n) for n in (64, 128, 200, 1000)] + [("3001x401x65", (3001, 65), (65, 401), "float32")]


class Product:
    """Calls of one product, into an `out` of its own."""

    def __init__(self, case: tuple[str, tuple[int, ...], tuple[int, ...], str], threads: int | None) -> None:
        import numpy as np

        import gemmlab

        rng = np.random.default_rng()
        self.name, left, right, dtype = case
        self.a, self.b = (rng.random(shape).astype(dtype) for shape in (left, right))
        self.out = np.matmul(self.a, self.b)
        self.flop = 2.0 * self.out.size * left[-1]
        self.given = {} if threads is None else {"threads": threads}
        self._gemmlab, self._numpy = gemmlab.matmul, np.matmul

    def ours(self) -> None:
        self._gemmlab(self.a, self.b, out=self.out, **self.given)

    def one_thread(self) -> None:
        self._gemmlab(self.a, self.b, out=self.out, threads=1)

    def numpy(self) -> None:
        self._numpy(self.a, self.b, out=self.out)


def seconds(call: Callable[[], None], before: Callable[[], Any] = lambda: None, calls: int = CALLS) -> list[float]:
    """Sorted times of a call, each after another one; the first ones are not counted."""
    found = []
    for _ in range(calls + 5):
        before()
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return sorted(found[5:])


def p90(times: list[float]) -> float:
    return times[len(times) * 9 // 10]


def rate(callers: int, make: Callable[[], Callable[[], None]]) -> float:
    """Calls a second of so many threads together."""
    done, stop, start = [0] * callers, threading.Event(), threading.Barrier(callers + 1)

    def loop(i: int) -> None:
        call = make()
        call()
        start.wait()
        while not stop.is_set():
            call()
            done[i] += 1

    threads = [threading.Thread(target=loop, args=(i,)) for i in range(callers)]
    for each in threads:
        each.start()
    start.wait()
    began = time.perf_counter()
    time.sleep(SECONDS)
    stop.set()
    total, passed = sum(done), time.perf_counter() - began
    for each in threads:
        each.join()
    return total / passed


# In a process of its own, each yields names and ratios.


def in_mix(threads: int | None) -> Iterator[tuple[str, float]]:
    before = Product(square(300), None).numpy
    for case in (HEADS, square(200)):
        x = Product(case, threads)
        yield (
            f"after NumPy's: {x.name}, over one thread there",
            (median(seconds(x.ours, before)) / median(seconds(x.one_thread, before))),
        )
    for n in (500, 1000):
        x = Product(square(n), threads)
        alone = median(seconds(x.ours))
        yield f"after NumPy's: {n}, over alone", median(seconds(x.ours, before)) / alone


def numpy_after(threads: int | None) -> Iterator[tuple[str, float]]:
    x, other = Product(square(200), threads), Product(square(300), None)
    alone = p90(seconds(x.numpy, other.numpy, MANY_CALLS))
    yield "NumPy's 200 after ours, p90 over after its own", p90(seconds(x.numpy, x.ours, MANY_CALLS)) / alone


def times_alone(threads: int | None) -> Iterator[tuple[str, float]]:
    yield "8 x 8 with threads=", median(seconds(Product(square(8), threads or 2).ours, calls=MANY_CALLS))
    for case in ALONE:
        yield case[0], median(seconds(Product(case, threads).ours, calls=CALLS if case[0] == "1000" else MANY_CALLS))


def after_sleep(threads: int | None) -> Iterator[tuple[str, float]]:
    for ms in (0.1, 1, 10):
        for case in (square(128), square(200), HEADS):
            x = Product(case, threads)
            times: dict[bool, list[float]] = {True: [], False: []}
            for i in range(4 * CALLS):
                time.sleep(ms / 1e3)
                start = time.perf_counter()
                (x.one_thread if i % 2 else x.ours)()
                times[i % 2 == 0].append(time.perf_counter() - start)
            yield f"after {ms} ms of sleep: {x.name}, over one thread", median(times[True]) / median(times[False])


def callers(threads: int | None) -> Iterator[tuple[str, float]]:
    for n in (64, 200, 500):
        alone = rate(1, lambda n=n: Product(square(n), threads).ours)
        for count in (2, 4, 16):
            theirs = rate(count, lambda n=n: Product(square(n), None).numpy)
            together = rate(count, lambda n=n: Product(square(n), threads).ours)
            yield f"{count} callers of {n}, rate over the better", together / max(alone, theirs)


def beside_spinner(threads: int | None) -> Iterator[tuple[str, float]]:
    spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        x = Product(STACK, threads)
        yield (
            f"beside a spinning process: {x.name}, over one thread",
            (median(seconds(x.ours, calls=MANY_CALLS)) / median(seconds(x.one_thread, calls=MANY_CALLS))),
        )
    finally:
        spinner.kill()


def rate_of_one(n: int, one_thread: bool) -> None:
    """One of four processes: its rate, once all are ready."""
    x = Product(square(n), None)
    call = x.one_thread if one_thread else x.ours
    call()
    print("ready", flush=True)
    sys.stdin.readline()
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < 2 * SECONDS:
        call()
        count += 1
    print(count / (time.perf_counter() - began))


def processes(_threads: int | None) -> Iterator[tuple[str, float]]:
    for n in (64, 200, 1000):
        rates = {}
        for one_thread in (False, True):
            command = [sys.executable, __file__, "--process", str(n), str(int(one_thread))]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            four = [subprocess.Popen(command, **pipes) for _ in range(4)]
            for each in four:
                each.stdout.readline()
            for each in four:
                each.stdin.write("go\n")
                each.stdin.flush()
            rates[one_thread] = sum(float(each.stdout.readline()) for each in four)
            for each in four:
                each.wait()
        yield f"four processes of {n}, rate over threads=1", rates[False] / rates[True]


CASES: dict[str, Callable[[int | None], Iterator[tuple[str, float]]]] = {
    "mix": in_mix, "numpy": numpy_after, "alone": times_alone, "sleep": after_sleep, "callers": callers,
    "processes": processes, "spinner": beside_spinner,
}  # fmt: skip


def measured(python: str, row: str, threads: int | None) -> dict[str, float]:
    """What a fresh process of an interpreter finds."""
    command = [python, __file__, "--row", row, *(["--threads", str(threads)] if threads else [])]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="PYTHON")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--only", default=",".join(ROWS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--row", choices=ROWS, help=argparse.SUPPRESS)
    parser.add_argument("--process", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process:
        rate_of_one(options.process[0], bool(options.process[1]))
    elif options.row:
        print(json.dumps(list(CASES[options.row](options.threads))))
    else:
        compare(options)


def compare(options: argparse.Namespace) -> None:
    """All rows, in turn, and their table."""
    ratios: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for row in options.only.split(","):
            found = measured(sys.executable, row, options.threads)
            if row == "alone":
                if not options.before:
                    continue
                before = measured(options.before, row, options.threads)
                found = {f"alone: {name}, over before": found[name] / before[name] for name in found}
            for name, ratio in found.items():
                ratios.setdefault(name, []).append(ratio)
    print(f"{os.cpu_count()} CPUs, {options.threads or 'default'} threads, {options.rounds} rounds")
    for name, of_rounds in ratios.items():
        print(f"{name:<52} {median(of_rounds):7.2f}   {min(of_rounds):7.2f} to {max(of_rounds):.2f}")
    if options.out:
        options.out.write_text(json.dumps(ratios, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
