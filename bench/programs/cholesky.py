"""An existing program with emulated products: a blocked Cholesky factorization, its time and its residual.

    python bench/programs/cholesky.py [--backend cpu-emulated] [--plain cpu-packed] [--sizes 1024,2048] [--rounds 5]

The program knows only NumPy. Its updates, which are nearly all of its work, go through gemmlab where its matrix is
`gemmlab.asarray`; `gemmlab.use` says by which backend. Times are medians of interleaved rounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

import gemmlab

BLOCK = 512
WAYS: Mapping[str, Mapping[str, Any]] = {
    "float64, as exact as float64": {"precision": "f64"},
    "twelve moduli": {"moduli": 12},
    "as exact as float32": {"precision": "f32", "error": "norms"},
}


def cholesky(a: Any) -> Any:
    """The lower factor of a positive definite matrix."""
    factor = a.copy()
    n = len(factor)
    for j in range(0, n, BLOCK):
        e = min(j + BLOCK, n)
        factor[j:e, j:e] = np.linalg.cholesky(factor[j:e, j:e])
        factor[e:, j:e] = solve_triangular(factor[j:e, j:e], factor[e:, j:e].T, lower=True).T
        for i in range(e, n, BLOCK):
            b = min(i + BLOCK, n)
            factor[i:, i:b] -= factor[i:, j:e] @ factor[i:b, j:e].T
    return np.tril(factor)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", default="cpu-emulated")
    parser.add_argument("--plain", default="cpu-packed")
    parser.add_argument("--sizes", default="1024,2048")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    ways = {f"{options.plain}": (options.plain, {}), **{name: (options.backend, way) for name, way in WAYS.items()}}
    rng = np.random.default_rng(1)
    print(f"{'n':>6}  {'products':30} {'seconds':>8} {'over plain':>11} {'residual':>9}")
    for n in map(int, options.sizes.split(",")):
        x = rng.standard_normal((n, n))
        a = x @ x.T / n + np.eye(n)
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        residual = {}
        for _ in range(options.rounds):
            for name, (backend, params) in ways.items():
                with gemmlab.use(backend, **params):
                    begin = perf_counter()
                    factor = np.asarray(cholesky(gemmlab.asarray(a)))
                    seconds[name].append(perf_counter() - begin)
                residual[name] = np.linalg.norm(factor @ factor.T - a) / np.linalg.norm(a)
        plain = median(seconds[options.plain])
        for name, times in seconds.items():
            print(f"{n:6}  {name:30} {median(times):8.3f} {median(times) / plain:11.2f} {residual[name]:9.1e}")


if __name__ == "__main__":
    main()
