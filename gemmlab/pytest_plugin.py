"""The pytest plugin: a fixture that times a product, and a table of GFLOP/s at the end of the run.

pytest loads this file in every project where gemmlab is installed, so it imports the standard library alone
until its fixture is used, and it works without pytest-benchmark (then only the fixture is missing its clock).

    def test_my_product(gemm_benchmark):
        gemm_benchmark(a, b, backend="cpu-blocked")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from gemmlab._api import Call
    from gemmlab._problem import Problem

ROWS = pytest.StashKey[list[dict[str, Any]]]()
_SHAPING = ("dtype", "casting", "axes")  # options of matmul that say what is multiplied, not how
PEAKS = pytest.StashKey[dict[tuple[str, int], float]]()


def pytest_configure(config: pytest.Config) -> None:
    """Make room for the rows of the table."""
    config.stash[ROWS] = []
    config.stash[PEAKS] = {}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Have pytest-benchmark take a test that uses our fixture for a benchmark."""
    names = getattr(item, "fixturenames", [])
    if "gemm_benchmark" in names and "benchmark" not in names and item.config.pluginmanager.hasplugin("benchmark"):
        names.append("benchmark")


@pytest.fixture
def gemm_benchmark(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Time `gemmlab.matmul(a, b, **options)` with pytest-benchmark, checked first.

    The problem, GFLOP/s and the share of the measured peak go to the benchmark's `extra_info`, marked as
    measured in a shared process: other libraries' threads live beside it. `gemmlab bench` keeps them apart. On a
    device, moving the operands there and the result back is in the time.
    """
    if not request.config.pluginmanager.hasplugin("benchmark"):
        pytest.skip("gemm_benchmark needs pytest-benchmark: pip install 'gemmlab[test]'")
    benchmark = request.getfixturevalue("benchmark")

    def run(a: Any, b: Any, *, backend: str, **options: Any) -> Any:
        import numpy as np

        import gemmlab

        with gemmlab.trace() as calls:
            out = np.asarray(gemmlab.matmul(a, b, backend=backend, **options))
        asked = gemmlab.Problem.from_call(a, b, out, **{key: options[key] for key in _SHAPING if key in options})
        _check(asked, backend)
        benchmark(gemmlab.matmul, a, b, out=out, backend=backend, **options)
        if benchmark.stats is not None:  # None under --benchmark-disable
            row = {"backend": backend, **_row(request.config, benchmark.stats.stats.median, asked, calls[0])}
            benchmark.extra_info.update(row)
            request.config.stash[ROWS].append(row)
        return out

    return run


def _check(product: Problem, backend: str) -> None:
    """Refuse to time a wrong product."""
    import numpy as np

    from gemmlab.measure.worker import check

    if product.dtype.kind in "fc":
        error = check(product.a, product.b, product.out)
    else:
        error = 0.0 if np.array_equal(product.out, np.matmul(product.a, product.b)) else np.inf
    assert error <= 1, f"{backend} gave a wrong product: error {error:.3g} times its bound"


def _row(config: pytest.Config, median_s: float, asked: Problem, call: Call) -> dict[str, Any]:
    import gemmlab

    gflop_per_s = 2e-9 * asked.m * asked.n * asked.k * asked.batch / median_s
    on_device = hasattr(gemmlab.get_backend(call.backend), "runtime")
    threads = None if on_device else call.threads
    peak = _peak(config, asked.dtype.name, threads)
    sizes = {"m": asked.m, "n": asked.n, "k": asked.k, "batch": asked.batch}
    return {
        "params": dict(call.params),
        "device": call.device,
        "threads": threads,
        "transfers_counted": True if on_device else None,
        "problem": {**sizes, "dtype": asked.dtype.name},
        "gflop_per_s": gflop_per_s,
        "share_of_peak": gflop_per_s / peak if peak else None,
        "process": "shared",
    }


def _peak(config: pytest.Config, dtype: str, threads: int | None) -> float | None:
    """The multiply-add rate of so many threads, measured once a session; None on a device, or for other dtypes."""
    if threads is None or dtype not in ("float32", "float64"):
        return None
    peaks = config.stash[PEAKS]
    if (dtype, threads) not in peaks:
        from gemmlab.roofline.ceilings import multiply_add_rate

        peaks[dtype, threads] = multiply_add_rate(dtype, threads)
    return peaks[dtype, threads]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the table: what pytest-benchmark's own columns cannot show."""
    rows = config.stash.get(ROWS, [])
    if not rows:
        return
    terminalreporter.section("gemmlab: products (measured in one shared process)")
    width = max(20, *(len(row["backend"]) for row in rows))
    terminalreporter.write_line(
        f"{'backend':<{width}}{'m x n x k':>15}{'dtype':>11}{'threads':>8}{'GFLOP/s':>10}"
        f"{'peak':>8}"
    )
    for row in sorted(rows, key=lambda row: (row["problem"]["dtype"], row["problem"]["m"], -row["gflop_per_s"])):
        problem = row["problem"]
        size = f"{problem['m']}x{problem['n']}x{problem['k']}"
        if problem["batch"] != 1:
            size = f"{problem['batch']}*{size}"
        share = "" if row["share_of_peak"] is None else f"{row['share_of_peak']:.1%}"
        threads = row["threads"] or "-"
        terminalreporter.write_line(
            f"{row['backend']:<{width}}{size:>15}{problem['dtype']:>11}{threads:>8}{row['gflop_per_s']:>10.3g}"
            f"{share:>8}"
        )
