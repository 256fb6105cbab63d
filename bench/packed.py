"""cpu-packed beside others where squares in rows do not show it.

    python bench/packed.py [small | complex | server] [--threads 2] [--rounds 5] [--out packed-cases.json]

`small`, beside np.matmul: small, stacked, strided, transposed, every dtype. `complex`, beside np.matmul and MKL:
squares. `server`, beside np.matmul and PyTorch's product on the CPU: large squares, also of bfloat16 and of int8 into
int32.

Each library runs in an isolated process. The processes take turns, and each reports one median per case; the table has
the median of the turns, their spread, and the ratio to the fastest of the others.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import gemmlab
from gemmlab._cpu.baselines import mkl_library

SAMPLE_S, CASE_S = 2e-4, 0.15
Operands = Callable[[], tuple[Any, Any]]
Multiply = Callable[[Any, Any], Any]


def numbers(shape: tuple[int, ...], dtype: str) -> Any:
    rng = np.random.default_rng(1)
    if dtype == "bfloat16":
        import ml_dtypes

        return rng.random(shape, "float32").astype(ml_dtypes.bfloat16)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    x = rng.random(shape)
    return (x + 1j * rng.random(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def rows(m: int, n: int, k: int, dtype: str) -> Operands:
    return lambda: (numbers((m, k), dtype), numbers((k, n), dtype))


def cases() -> Iterator[tuple[str, Operands]]:
    for dtype in ("float32", "float64"):
        for n in (16, 24, 32, 48):
            yield f"small {n}, {dtype}", rows(n, n, n, dtype)
        for m, n, k in ((32, 32, 100_000), (16, 32, 200_000), (8, 8, 100_000), (4, 4, 1_000_000)):
            yield f"deep {m}x{n}x{k}, {dtype}", rows(m, n, k, dtype)
        for n in (64, 100, 128, 256):
            yield f"x[::2, ::3] {n}, {dtype}", lambda n=n, d=dtype: (numbers((2 * n, 3 * n), d)[::2, ::3],) * 2
            yield f"reversed {n}, {dtype}", lambda n=n, d=dtype: (numbers((n, n), d)[::-1, ::-1],) * 2
        for n in (36, 50, 64, 80, 100):
            yield f"a @ b.T {n}, {dtype}", lambda n=n, d=dtype: (numbers((n, n), d), numbers((n, n), d).T)
            yield f"a.T @ b.T {n}, {dtype}", lambda n=n, d=dtype: (numbers((n, n), d).T, numbers((n, n), d).T)
        for n in (36, 64, 100, 256, 512, 1024, 2048):
            for name in ("CC", "CF", "FC", "FF"):
                yield f"{name} {n}, {dtype}", lambda n=n, d=dtype, name=name: tuple(
                    np.asarray(numbers((n, n), d), order=letter) for letter in name)  # fmt: skip
    for n in (4, 8, 16):
        yield f"10000 of {n}x{n}, float32", lambda n=n: (numbers((10_000, n, n), "float32"),) * 2
    for dtype in ("int8", "int16", "int32", "int64", "float16", "bfloat16"):
        yield f"512, {dtype}", rows(512, 512, 512, dtype)


def complex_cases() -> Iterator[tuple[str, Operands]]:
    for dtype in ("complex64", "complex128"):
        for n in (256, 512, 1024, 2048):
            yield f"{n}, {dtype}", rows(n, n, n, dtype)


def server_cases() -> Iterator[tuple[str, Operands]]:
    for dtype in ("float32", "float64", "bfloat16", "float16", "int8"):
        for n in (256, 512, 1024, 2048, 4096):
            yield f"{n}, {dtype}", rows(n, n, n, dtype)


SUITES = {
    "small": (cases, ("cpu-packed", "numpy")),
    "complex": (complex_cases, ("cpu-packed", "numpy", "mkl")),
    "server": (server_cases, ("cpu-packed", "numpy", "torch")),
}
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def mkls_product() -> Multiply:
    """MKL's cgemm and zgemm, on squares in rows."""
    mkl = ctypes.CDLL(str(mkl_library()))
    rows, plain = 101, 111

    def multiply(a: Any, b: Any) -> Any:
        n, c = len(a), np.empty_like(a)
        one, nothing = np.ones(1, a.dtype), np.zeros(1, a.dtype)
        gemm = mkl.cblas_cgemm if a.dtype == np.complex64 else mkl.cblas_zgemm
        alpha, a_, b_, beta, c_ = (ctypes.c_void_p(x.ctypes.data) for x in (one, a, b, nothing, c))
        gemm(rows, plain, plain, n, n, n, alpha, a_, n, b_, n, beta, c_, n)
        return c

    return multiply


def product_of(suite: str, library: str, a: Any, b: Any) -> tuple[Multiply, Any, Any] | None:
    """How a library multiplies these, with the operands as it takes them; None where that would take minutes."""
    narrow = a.dtype in (np.int8, np.float16) or a.dtype.name == "bfloat16"
    if library == "torch":
        import torch

        to = torch.bfloat16 if a.dtype.name == "bfloat16" else None
        ta, tb = (torch.from_numpy(x.astype(np.float32)).to(to) if to else torch.from_numpy(x) for x in (a, b))
        return (torch._int_mm if a.dtype == np.int8 else torch.mm), ta, tb
    if library == "mkl":
        return mkls_product(), a, b
    if library == "numpy":
        return None if narrow and suite == "server" else (np.matmul, a, b)
    dtype = np.int32 if a.dtype == np.int8 and suite == "server" else None
    return partial(gemmlab.matmul, backend=library, dtype=dtype), a, b


def timed(multiply: Multiply, a: Any, b: Any, calls: int) -> float:
    start = perf_counter()
    for _ in range(calls):
        multiply(a, b)
    return perf_counter() - start


def measure(suite: str, library: str) -> dict[str, float]:
    """Seconds of each case, the median of samples of at least SAMPLE_S."""
    found = {}
    for name, operands in SUITES[suite][0]():
        product = product_of(suite, library, *operands())
        if product is None:
            continue
        multiply, a, b = product
        timed(multiply, a, b, 2)
        if suite == "complex":
            assert np.allclose(multiply(a, b)[:3], a[:3] @ b, rtol=1e-3)
        calls = 1
        while (took := timed(multiply, a, b, calls)) < SAMPLE_S:
            calls = max(2 * calls, round(1.1 * calls * SAMPLE_S / took) if calls > 1 else 2)
        samples: list[float] = []
        begun = perf_counter()
        while perf_counter() - begun < CASE_S or len(samples) < 3:
            samples.append(timed(multiply, a, b, calls) / calls)
        found[name] = median(samples)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suite", nargs="?", default="small", choices=SUITES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, help="of each library; by default all")
    parser.add_argument("--out")
    parser.add_argument("--worker")
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measure(options.suite, options.worker)))
        return
    libraries = SUITES[options.suite][1]
    turns: dict[str, list[dict[str, float]]] = {library: [] for library in libraries}
    environ = {**os.environ, **(dict.fromkeys(THREADS, str(options.threads)) if options.threads else {})}
    for _ in range(options.rounds):
        for library, own in turns.items():
            worker = [sys.executable, __file__, options.suite, "--worker", library]
            own.append(json.loads(subprocess.check_output(worker, text=True, env=environ)))
    print(f"{'case':<32} {'us':>10} {'spread':>7} {'best other':>11} {'ratio':>7}")
    for name in turns[libraries[0]][0]:
        ours, *others = ([turn[name] for turn in turns[library] if name in turn] for library in libraries)
        spread = 100 * (max(ours) - min(ours)) / median(ours)
        medians = [(median(theirs), library) for theirs, library in zip(others, libraries[1:], strict=True) if theirs]
        best, library = min(medians)
        ratio = best / median(ours)
        print(f"{name:<32} {median(ours) * 1e6:>10.2f} {spread:>5.0f} % {best * 1e6:>11.2f} {ratio:>7.2f} {library}")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(turns, file, indent=1)


if __name__ == "__main__":
    main()
