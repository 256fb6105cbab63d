"""`pytest` runs the tests, `pytest --benchmark-only` the benchmarks. Random input comes from one seed, `--seed`."""

from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent


def pytest_addoption(parser):
    parser.addoption("--seed", type=int, help="repeat a run on the random input that it had")
    parser.addoption("--cases", type=int, default=20_000, help="calls that tests/test_fuzz.py draws, with -m ''")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    if config.option.seed is None:
        config.option.seed = int(np.random.SeedSequence().generate_state(1)[0])
    if getattr(config.option, "hypothesis_seed", 0) is None:
        config.option.hypothesis_seed = str(config.option.seed)


def pytest_report_header(config):
    return f"random input: --seed {config.option.seed}"


def pytest_terminal_summary(terminalreporter, config):
    if terminalreporter.stats.keys() & {"failed", "error"}:
        terminalreporter.write_line(f"random input: repeat with --seed {config.option.seed}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if item.path.is_relative_to(ROOT / "tests"):
        import randomness

        randomness.start(item.config.option.seed, item.nodeid)


@pytest.fixture(autouse=True, scope="session")
def without_shipped_rows():
    """`auto` is `cpu-packed` on every processor that the tests run on; tests/_auto puts rows of its own in force."""
    from gemmlab._auto import table

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "of_this_processor", tuple)
        yield


def pytest_ignore_collect(collection_path, config):
    benchmarking = config.getoption("benchmark_only", default=False)
    if collection_path.is_relative_to(ROOT / "bench"):
        return True if not benchmarking else None
    if collection_path.is_relative_to(ROOT / "tests"):
        return True if benchmarking else None
    return None
