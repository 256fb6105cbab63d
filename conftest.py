"""`pytest` runs the tests, `pytest --benchmark-only` the benchmarks, each without the other."""

from pathlib import Path

ROOT = Path(__file__).parent


def pytest_ignore_collect(collection_path, config):
    benchmarking = config.getoption("benchmark_only", default=False)
    if collection_path.is_relative_to(ROOT / "bench"):
        return True if not benchmarking else None
    if collection_path.is_relative_to(ROOT / "tests"):
        return True if benchmarking else None
    return None
