"""The CPU ladder and its baselines on squares: pytest --benchmark-only."""

import numpy as np
import pytest

import gemmlab

# The slowest rungs stop where a product takes a second.
LARGEST = {"cpu-naive": 512, "cpu-ikj": 1024}
SIZES = (128, 512, 1024, 2048)


CASES = [
    pytest.param(name, n, id=f"{name}-{n}")
    for name, info in gemmlab.backends().items()
    if info.kind in ("rung", "baseline") and info.available
    for n in SIZES
    if n <= LARGEST.get(name, SIZES[-1])
]


@pytest.mark.parametrize(("backend", "n"), CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_square(gemm_benchmark, benchmark, backend, n, dtype):
    benchmark.group = f"{dtype}, n = {n}"
    rng = np.random.default_rng(n)
    a, b = rng.random((2, n, n), dtype=dtype)
    gemm_benchmark(a, b, backend=backend)
