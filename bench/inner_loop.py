"""How many times as fast as `cpu-ikj` can `cpu-blocked` be? Both at some sizes, and the blocked loop on operands in L1.

    python bench/inner_loop.py [--sizes 2048,4032] [--threads 2] [--rounds 5] [--dtype float32]

The compiled rung runs on one block of B and on one row of C, which stays where it is: the distance from a row of C to
the next is 0. So its inner loop finds all operands in L1, and no block sizes can make it faster. That rate, times the
threads, over the rate of `cpu-ikj` bounds the ratio of the two rungs. All three take turns; the table has medians.
"""

from __future__ import annotations

import argparse
import ctypes
from statistics import median
from time import perf_counter

import numpy as np

import gemmlab
from gemmlab._cpu import isa

RUNGS = ("cpu-ikj", "cpu-blocked")
ROWS, ROW_BYTES, DEPTH = 20_000, 2112, 11  # of C; of a row of the block of B; rows of that
LINE = 64


class RungParams(ctypes.Structure):
    """As in `_cpu/rungs/rung.pxd`."""

    _fields_ = (
        ("threads", ctypes.c_int),
        *((name, ctypes.c_ssize_t) for name in ("bs_r", "bs_c", "bs_k")),
        ("accumulate", ctypes.c_bool),
    )


MATRIX, EXTENT = (ctypes.c_void_p, ctypes.c_ssize_t), ctypes.c_ssize_t
GEMM = ctypes.CFUNCTYPE(None, *MATRIX, *MATRIX, *MATRIX, EXTENT, EXTENT, EXTENT, ctypes.POINTER(RungParams))


def zeros(numbers: int, dtype: str) -> tuple[int, object]:
    """The address of so many zeros, at the start of a cache line, and what owns them."""
    owner = np.zeros(numbers + LINE, dtype)
    return owner.ctypes.data + -owner.ctypes.data % LINE, owner


def rate_in_l1(dtype: str) -> float:
    """Floating-point operations a second of the blocked loop, on one thread."""
    n = ROW_BYTES // np.dtype(dtype).itemsize
    (a, _a), (b, _b), (c, _c) = zeros(ROWS * DEPTH, dtype), zeros(n * DEPTH, dtype), zeros(n, dtype)
    params = RungParams(1, ROWS, n + LINE, DEPTH, True)
    gemm = GEMM(isa.load("gemmlab._cpu.rungs", "blocked").address[dtype])
    start = perf_counter()
    gemm(a, DEPTH, b, n, c, 0, ROWS, n, DEPTH, ctypes.byref(params))
    return 2 * ROWS * n * DEPTH / (perf_counter() - start)


def rate(backend: str, a: np.ndarray, b: np.ndarray, out: np.ndarray, threads: int) -> float:
    start = perf_counter()
    gemmlab.matmul(a, b, out=out, backend=backend, threads=threads)
    return 2 * len(a) * a.shape[1] * b.shape[1] / (perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", default="2048,4032")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dtype", default="float32", choices=("float32", "float64"))
    options = parser.parse_args()
    heads = ("size", *RUNGS, "ratio", "in L1", "bound")
    print(" ".join(f"{head:>11}" for head in heads), f" (GFLOP/s, {options.dtype})")
    for size in map(int, options.sizes.split(",")):
        rng = np.random.default_rng(size)
        a, b = rng.random((2, size, size), options.dtype)
        out = np.empty_like(a)
        for name in RUNGS:
            rate(name, a[:64], b, out[:64], options.threads)
        rounds = [
            (*(rate(name, a, b, out, options.threads) for name in RUNGS), options.threads * rate_in_l1(options.dtype))
            for _ in range(options.rounds)
        ]
        ikj, blocked, in_l1 = (median(rates) / 1e9 for rates in zip(*rounds, strict=True))
        columns = (ikj, blocked, blocked / ikj, in_l1, in_l1 / ikj)
        print(f"{size:>11}", " ".join(f"{column:>11.2f}" for column in columns), flush=True)


if __name__ == "__main__":
    main()
