"""Everyday calls of NumPy's, by `auto` and by NumPy: small, odd, mixed, and called from code that knows only NumPy.

    python bench/everyday.py [--seed 1] [--threads N] [--rounds 15] [--only ROWS] [--way WAYS] [--out FILE]

Six calls of each row, in float32 and float64, with shapes drawn by the seed. ROWS are some of those that the table
shows. WAYS are "mixed" (calls of ours and of NumPy's in turn in one process, as programs mix them) and "apart" (each in
a process of its own, the processes in turn). N limits our threads and NumPy's. The ratio is NumPy's median time over
ours: over 1, ours is faster. For another instruction set, set GEMMLAB_ISA and, for NumPy's library, OPENBLAS_CORETYPE
and NPY_DISABLE_CPU_FEATURES.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

Call = Callable[[], Any]
OF_EACH, SAMPLE_S, WARMING = 6, 3e-4, 3
QUIET_S = 0.05  # until the threads of the process before have gone to sleep: NumPy's wait actively for some 25 ms


def drawn(seed: int, library: Any) -> Iterator[tuple[str, str, Call]]:
    """Row, name and call, by NumPy or by gemmlab; the same operands for both."""
    for dtype in ("float32", "float64"):
        for row, make in ROWS.items():
            rng = np.random.default_rng([seed, *map(ord, row + dtype)])
            for i in range(OF_EACH):
                operands = Operands(rng, dtype, library)
                name, call = make(operands, i)
                yield row, f"{name} {dtype}", call


class Operands:
    """Random arrays of drawn extents, and the library that multiplies them."""

    def __init__(self, rng: np.random.Generator, dtype: str, library: Any) -> None:
        self.rng, self.dtype, self.library = rng, dtype, library

    def extent(self, least: int, most: int) -> int:
        return round(math.exp(self.rng.uniform(math.log(least), math.log(most))))

    def array(self, *shape: int, dtype: str | None = None) -> Any:
        return (self.rng.random(shape) * 4 - 2).astype(dtype or self.dtype)

    def wrapped(self, *shape: int) -> Any:
        return self.library.asarray(self.array(*shape))


def named(a: Any, b: Any, what: str = "") -> str:
    return f"{np.shape(a)} @ {np.shape(b)}{what}".replace(" ", "").replace("@", " @ ")


def plain(x: Operands, _: int) -> tuple[str, Call]:
    a, b = x.array(x.extent(4, 64), k := x.extent(4, 64)), x.array(k, x.extent(4, 64))
    return named(a, b), lambda: x.library.matmul(a, b)


def with_out(x: Operands, _: int) -> tuple[str, Call]:
    a, b = x.array(x.extent(4, 64), k := x.extent(4, 64)), x.array(k, x.extent(4, 64))
    out = a @ b
    return named(a, b, ", out="), lambda: x.library.matmul(a, b, out=out)


def vectors(x: Operands, i: int) -> tuple[str, Call]:
    m, k = x.extent(4, 200), x.extent(4, 200)
    a, b = ((m, k), (k,)) if i % 3 == 0 else ((k,), (k, m)) if i % 3 == 1 else ((k,), (k,))
    a, b = x.array(*a), x.array(*b)
    return named(a, b), lambda: x.library.matmul(a, b)


def stacks(x: Operands, i: int) -> tuple[str, Call]:
    batch, m, n = x.extent(50, 3000), x.extent(2, 8), x.extent(2, 8)
    left, right = [((batch, m, n), (batch, n, m)), ((batch, m, n), (batch, n, 1)), ((batch, 1, n), (batch, n, 1)),
                   ((batch, m, n), (n,)), ((batch, m, n), (n, m)), ((m, n), (batch, n, m))][i]  # fmt: skip
    a, b = x.array(*left), x.array(*right)
    return named(a, b), lambda: x.library.matmul(a, b)


def mixed(x: Operands, i: int) -> tuple[str, Call]:
    m, n, k = (x.extent(4, 64) for _ in range(3))
    other = ("float64" if x.dtype == "float32" else "float32", "int8", "int32")[i % 3]
    a, b = x.array(m, k, dtype=other), x.array(k, n)
    if i % 2:
        given = a.tolist()
        return named(a, b, ", a list"), lambda: x.library.matmul(given, b)
    return named(a, b, f", {other}"), lambda: x.library.matmul(a, b)


def wider(x: Operands, i: int) -> tuple[str, Call]:
    m, n, k = (x.extent(4, 64) for _ in range(3))
    narrow = ("int8", "float16", "int16", "uint8", "float16", "bool")[i]
    a, b = x.array(m, k, dtype=narrow), x.array(k, n, dtype=narrow)
    return named(a, b, f", dtype={x.dtype}"), lambda: x.library.matmul(a, b, dtype=x.dtype)


def sums(x: Operands, i: int) -> tuple[str, Call]:
    m, n, k = (x.extent(4, 64) for _ in range(3))
    if i == 5:
        a, b = x.array(m, k), x.array(k, n)
        return named(a, b, ", tensordot"), lambda: x.library.tensordot(a, b, 1)
    subscripts, left, right = [("ij,jk->ik", (m, k), (k, n)), ("ij,kj->ik", (m, k), (n, k)), ("ij,j->i", (m, k), (k,)),
                               ("bij,bjk->bik", (9, m, k), (9, k, n)), ("ij,jk->ki", (m, k), (k, n))][i]  # fmt: skip
    a, b = x.array(*left), x.array(*right)
    return subscripts + " " + named(a, b), lambda: x.library.einsum(subscripts, a, b)


def wrapped(x: Operands, i: int) -> tuple[str, Call]:
    m, n, k = (x.extent(4, 64) for _ in range(3))
    if i == 4:  # a step of a Kalman filter
        f, h, q, p, z = x.wrapped(k, k), x.wrapped(2, k), x.array(k, k), x.wrapped(k, k), x.wrapped(k)
        return f"a filter's step, {k} states", lambda: (f @ z, f @ p @ f.T + q, h @ p @ h.T, h @ z)
    if i == 5:
        one, other, start = x.wrapped(k, n), x.wrapped(n, m), x.array(16, k)
        return f"a network of {k}, {n}, {m}", lambda: np.tanh(np.tanh(start @ one) @ other)
    a, b = x.wrapped(m, k), x.array(k, n) if i % 2 else x.array(k)
    return named(a, b, ", asarray"), lambda: a @ b


def symmetric(x: Operands, i: int) -> tuple[str, Call]:
    a = x.array(x.extent(8, 500), x.extent(8, 500))
    return (named(a.T, a, ", A'A"), lambda: x.library.matmul(a.T, a)) if i % 2 else (
        named(a, a.T, ", AA'"), lambda: x.library.matmul(a, a.T))  # fmt: skip


def thin_complex(x: Operands, i: int) -> tuple[str, Call]:
    m, k, few = x.extent(20, 500), x.extent(20, 500), (1, 1, 2, 4, 9, 16)[i]
    dtype = {"float32": "complex64", "float64": "complex128"}[x.dtype]
    a, b = x.array(m, k, dtype=dtype), x.array(k, few, dtype=dtype)
    a, b = (b.T.copy(), a.T.copy()) if i == 1 else (a, b)
    return named(a, b, ", complex"), lambda: x.library.matmul(a, b)


ROWS: dict[str, Callable[[Operands, int], tuple[str, Call]]] = {
    "plain": plain, "out": with_out, "vectors": vectors, "stacks": stacks, "mixed dtypes": mixed, "dtype=": wider,
    "einsum": sums, "asarray": wrapped, "symmetric": symmetric, "complex": thin_complex,
}  # fmt: skip


def sample(call: Call) -> float:
    """Seconds of a call, of as many as take SAMPLE_S, after a few that wake threads and touch memory again."""
    count = WARMING
    for _ in range(count):
        call()
    while True:
        start = time.perf_counter()
        for _ in range(count):
            call()
        spent = time.perf_counter() - start
        if spent > SAMPLE_S:
            return spent / count
        count *= 2


def in_turn(one: Call, other: Call) -> tuple[float, float]:
    """Seconds of a call of each, which follow one another."""
    spent, calls = [0.0, 0.0], 0
    while sum(spent) < 2 * SAMPLE_S or calls < 5:
        for i, call in enumerate((one, other)):
            start = time.perf_counter()
            call()
            spent[i] += time.perf_counter() - start
        calls += 1
    return spent[0] / calls, spent[1] / calls


def library_named(name: str) -> Any:
    import gemmlab

    return gemmlab if name == "gemmlab" else np


def serve(library: str, seed: int, only: set[str]) -> None:
    """Time all calls of one library, whenever a line comes."""
    calls = [call for row, _, call in drawn(seed, library_named(library)) if row in only]
    for _ in sys.stdin:
        print(json.dumps([sample(call) for call in calls]), flush=True)


def times(way: str, options: argparse.Namespace, only: set[str]) -> Iterator[list[tuple[float, float]]]:
    """NumPy's and our seconds of each call, round by round."""
    if way == "mixed":
        both = (drawn(options.seed, library_named(name)) for name in ("numpy", "gemmlab"))
        pairs = [(one[2], other[2]) for one, other in zip(*both, strict=True) if one[0] in only]
        for _ in range(options.rounds):
            yield [in_turn(*pair) for pair in pairs]
        return
    command = [sys.executable, __file__, "--seed", str(options.seed), "--only", ",".join(only), "--serve"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen([*command, name], **pipes) for name in ("numpy", "gemmlab")]
    for _ in range(options.rounds):
        found = []
        for each in both:
            time.sleep(QUIET_S)
            each.stdin.write("\n")
            each.stdin.flush()
            found.append(json.loads(each.stdout.readline()))
        yield list(zip(*found, strict=True))
    for each in both:
        each.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default=",".join(ROWS))
    parser.add_argument("--way", default="mixed,apart")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--serve", choices=("numpy", "gemmlab"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    only = set(options.only.split(","))
    if options.threads and "OPENBLAS_NUM_THREADS" not in os.environ:  # read when the libraries are loaded
        number = str(options.threads)
        limits = {"OPENBLAS_NUM_THREADS": number, "MKL_NUM_THREADS": number, "GEMMLAB_THREADS": number}
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | limits)
    if options.serve:
        serve(options.serve, options.seed, only)
        return
    names = [(row, name) for row, name, _ in drawn(options.seed, np) if row in only]
    table: dict[str, list[float]] = {}
    for way in options.way.split(","):
        rounds = list(times(way, options, only))
        table[way] = [median(x[i][0] for x in rounds) / median(x[i][1] for x in rounds) for i in range(len(names))]
    threads = options.threads or "default"
    print(f"NumPy's time over ours, {threads} threads, seed {options.seed}, {options.rounds} rounds")
    for i, (row, name) in enumerate(names):
        print(f"{row:<13} {name:<48}", *(f"{ratios[i]:7.2f}" for ratios in table.values()))
    for way, ratios in table.items():
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{way}: geometric mean {mean:.2f}, lowest {min(ratios):.2f}, {sum(x < 0.8 for x in ratios)} under 0.8")
    if options.out:
        options.out.write_text(json.dumps({"names": names, **table}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
