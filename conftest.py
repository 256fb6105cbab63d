"""`pytest` runs the tests on all cores, `pytest --benchmark-only` the benchmarks in one process.

Random input comes from one seed, `--seed`.
"""

import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent
started_s = 0.0  # CPU seconds at the start of the test that runs
OF_WHAT_IS_INSTALLED = {f"tests/test_{name}.py" for name in ("api", "array", "array_kinds", "import", "registry")}
MOST_WORKERS = 8  # each loads every library, and some tests need much memory


def pytest_addoption(parser):
    parser.addoption("--seed", type=int, help="repeat a run on the random input that it had")
    parser.addoption("--after", type=Path, help="leave out what passed in this file of results, and is the same here")
    parser.addoption("--cases", type=int, default=12_000, help="calls that tests/test_fuzz.py draws, with -m ''")


def pytest_collection_modifyitems(config, items):
    """With --after: not again what passed there, but for tests of what is installed, and those marked `optimised`."""
    if config.option.after is None:
        return
    cases = ElementTree.parse(config.option.after).iter("testcase")
    passed = {(case.get("classname"), case.get("name")) for case in cases if not {x.tag for x in case} - {"properties"}}

    def is_left_out(item):
        module = item.nodeid.partition("::")[0]
        again = module in OF_WHAT_IS_INSTALLED or item.get_closest_marker("optimised")
        return not again and (module.removesuffix(".py").replace("/", "."), item.name) in passed

    config.hook.pytest_deselected(items=[item for item in items if is_left_out(item)])
    items[:] = [item for item in items if not is_left_out(item)]


def pytest_xdist_auto_num_workers(config):
    if config.getoption("benchmark_only", default=False):
        return 0
    # Workers share the cores: threads that wait actively would take them from the others.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # of NumPy's and SciPy's threads: 2**4 cycles
    os.environ.setdefault("CLBLAST_BUILD_OPTIONS", "-cl-opt-disable ")  # not ours to test; it wants the space
    return min(MOST_WORKERS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


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


def pytest_runtest_logstart(nodeid, location):
    global started_s
    started_s = sum(os.times()[:4])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item, call):
    """Note in the results what a test costs: CPU seconds of this process, and of the children that have ended."""
    if call.when == "teardown":
        item.user_properties.append(("cpu_s", f"{sum(os.times()[:4]) - started_s:.2f}"))


@pytest.fixture(autouse=True, scope="session")
def without_shipped_rows():
    """`auto` is `cpu-packed` on every processor that the tests run on; tests/_auto puts rows of its own in force."""
    from gemmlab._auto import table

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "of_this_processor", tuple)
        yield


@pytest.fixture
def quick_builds(monkeypatch):
    """For tests of what is around OpenCL programs, which take longer to compile than to run: without optimisation."""
    monkeypatch.setenv("PYOPENCL_BUILD_OPTIONS", "-cl-opt-disable")


@pytest.fixture
def quick_kernels(request):
    """The same for tests of the programs themselves. With `-m ""` those marked `optimised` are compiled in full."""
    if request.config.option.markexpr or not request.node.get_closest_marker("optimised"):
        request.getfixturevalue("quick_builds")


def pytest_ignore_collect(collection_path, config):
    benchmarking = config.getoption("benchmark_only", default=False)
    if collection_path.is_relative_to(ROOT / "bench"):
        return True if not benchmarking else None
    if collection_path.is_relative_to(ROOT / "tests"):
        return True if benchmarking else None
    return None
