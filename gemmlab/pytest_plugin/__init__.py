"""The pytest plugin: a fixture that times a product, a table at the end of the run, and its records in a file.

pytest loads this file in every project where gemmlab is installed, so it imports the standard library alone until its
fixture is used. Without pytest-benchmark only the fixture does not work.

    products.py     records of the timed products, the ceilings of their machine, and the table

    def test_my_product(gemm_benchmark):
        gemm_benchmark(a, b)                          # or with backend="cpu-blocked", and what else matmul takes

    pytest --benchmark-only --gemmlab-out records.jsonl --gemmlab-against cpu-numpy
    gemmlab roofline --from records.jsonl
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from gemmlab._problem import Array, Problem
    from gemmlab.pytest_plugin.products import Products

PRODUCTS: pytest.StashKey[Products] = pytest.StashKey()
_SHAPING = ("dtype", "casting", "axes")  # options of matmul that say what is multiplied, not how


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our options."""
    group = parser.getgroup("gemmlab", "products timed by gemm_benchmark")
    group.addoption("--gemmlab-out", metavar="FILE", help="write a record of each, for `gemmlab roofline --from FILE`")
    group.addoption(
        "--gemmlab-against", metavar="WHAT", help="compare with a file of records, or with a backend of the same run"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Check our options before anything is timed."""
    if hasattr(config, "workerinput"):  # of pytest-xdist: its workers time nothing
        return
    if config.getoption("gemmlab_out") or config.getoption("gemmlab_against"):
        try:
            _products(config)
        except (OSError, RuntimeError, ValueError) as error:
            raise pytest.UsageError(f"gemmlab: {error}") from None


def pytest_unconfigure(config: pytest.Config) -> None:
    """Give the file of records its name, also after an interrupted run."""
    if PRODUCTS in config.stash:
        config.stash[PRODUCTS].close()


def _products(config: pytest.Config) -> Products:
    """The products of this run; made when first needed."""
    if PRODUCTS not in config.stash:
        from gemmlab.pytest_plugin.products import Products

        config.stash[PRODUCTS] = Products(config.getoption("gemmlab_out"), config.getoption("gemmlab_against"))
    return config.stash[PRODUCTS]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Make pytest-benchmark treat a test that uses our fixture as a benchmark."""
    names = getattr(item, "fixturenames", [])
    if "gemm_benchmark" in names and "benchmark" not in names and item.config.pluginmanager.hasplugin("benchmark"):
        names.append("benchmark")


@pytest.fixture
def gemm_benchmark(request: pytest.FixtureRequest) -> Callable[..., Array]:
    """Time `gemmlab.matmul(a, b, **options)` with pytest-benchmark, checked before and after.

    The problem, GFLOP/s and the share of the measured peak go to the benchmark's `extra_info`, marked as measured in a
    process that is shared with other libraries' threads; `gemmlab bench` isolates backends. On a device, the time
    includes moving the operands there and the result back. Without `backend`, `gemmlab.config.backend` multiplies.
    """
    if not request.config.pluginmanager.hasplugin("benchmark"):
        pytest.skip("gemm_benchmark needs pytest-benchmark: pip install 'gemmlab[test]'")
    benchmark = request.getfixturevalue("benchmark")

    def run(a: ArrayLike, b: ArrayLike, *, backend: str | None = None, **options: Any) -> Array:
        import numpy as np

        import gemmlab

        backend = backend or gemmlab.config.backend
        with gemmlab.trace() as calls:
            out = np.asarray(gemmlab.matmul(a, b, backend=backend, **options))
        asked = gemmlab.Problem.from_call(a, b, out, **{key: options[key] for key in _SHAPING if key in options})
        error = _check(asked, backend)
        benchmark(gemmlab.matmul, a, b, out=out, backend=backend, **options)
        error = max(error, _check(asked, backend))
        work = asked.m * asked.n * asked.k * asked.batch
        if work and benchmark.stats is not None:  # None under --benchmark-disable
            from gemmlab.pytest_plugin.products import title

            name = title(backend, [key for key in options if key in calls[0].params], calls[0])
            timed = benchmark.stats
            row = _products(request.config).add(name, asked, calls[0], timed.stats.data, timed.iterations, error)
            benchmark.extra_info.update(backend=backend, **row.extra_info())
        return out

    return run


def _check(product: Problem, backend: str) -> float:
    """Refuse to time a wrong product; return the largest error over its bound."""
    import numpy as np

    from gemmlab.measure.isolated.worker import check

    if product.dtype.kind in "fc":
        error = check(product.a, product.b, product.out)
    else:
        error = 0.0 if np.array_equal(product.out, np.matmul(product.a, product.b)) else np.inf
    assert error <= 1, f"{backend} gave a wrong product: error {error:.3g} times its bound"
    return error


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table of products."""
    text = config.stash[PRODUCTS].text() if PRODUCTS in config.stash else ""
    if text:
        terminalreporter.section("gemmlab: products (measured in one shared process)")
        terminalreporter.write_line(text)
