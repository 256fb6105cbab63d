"""The pytest plugin, in runs of pytest of its own: the table, what is recorded, and life without pytest-benchmark."""

from __future__ import annotations

import json
import re
from importlib.metadata import entry_points
from importlib.util import find_spec

import made_up_records as made
import pytest
from devices import FIRST_PLACES, backend_at
from helpers import SUPPORT, run_python

from gemmlab.measure import read, summarise

pytest_plugins = ["pytester"]

INSTALLED = any(point.value == "gemmlab.pytest_plugin" for point in entry_points(group="pytest11"))
PLUGIN = [] if INSTALLED else ["-p", "gemmlab.pytest_plugin"]
needs_benchmark = pytest.mark.skipif(not find_spec("pytest_benchmark"), reason="no pytest-benchmark")

PRODUCT = """
import numpy as np
import pytest

@pytest.mark.parametrize("backend", ["cpu-ikj", "cpu-blocked"])
def test_product(gemm_benchmark, backend):
    a, b = np.ones((40, 50), np.float32), np.ones((50, 60), np.float32)
    out = gemm_benchmark(a, b, backend=backend, threads=1)
    assert out.shape == (40, 60)
"""
PLAIN = "def test_nothing(): pass"
BRIEF = ["--benchmark-min-rounds=1", "--benchmark-max-time=0.01"]
BRIEF_PEAKS = """
def pytest_runtest_setup():
    from gemmlab.pytest_plugin import products
    products.PEAK_S = 0.05
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Runs pytest on one test file."""
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GEMMLAB_CACHE_DIR", str(pytester.path / "cache"))  # without ceilings of an earlier report

    def run(test, *arguments, conftest=BRIEF_PEAKS):
        pytester.makepyfile(test)
        if "gemm_benchmark" in test:
            pytester.makeconftest(conftest)
        others = "cacheprovider", "hypothesispytest", "zarr"  # the last two take half a second each to load
        without = [option for name in others for option in ("-p", f"no:{name}")]
        return pytester.runpytest_subprocess(*PLUGIN, *without, "-rs", *arguments, timeout=120)

    return run


@needs_benchmark
def test_the_table_stands_at_the_end(run):
    done = run(PRODUCT, "--benchmark-only", *BRIEF)
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(
        [
            "*gemmlab: products*shared process*",
            "backend*thr*GFLOP/s*peak*noise*err/bd",
            "40x60x50 float32",
            "cpu-* 1 *%*%*",
            "cpu-* 1 *%*%*",
            "*2 passed*",
        ]
    )


@pytest.mark.exhaustive
@needs_benchmark
def test_what_was_measured_is_in_extra_info(run, pytester):
    of_complex = """
def test_complex(gemm_benchmark):
    gemm_benchmark(np.ones((9, 9), "complex64"), np.ones((9, 9), "complex64"), backend="cpu-packed", threads=1)
"""
    run(PRODUCT + of_complex, "--benchmark-json=records.json", *BRIEF).assert_outcomes(passed=3)
    benchmarks = json.loads((pytester.path / "records.json").read_text())["benchmarks"]
    rows = {benchmark["extra_info"]["backend"]: benchmark["extra_info"] for benchmark in benchmarks}
    assert list(rows) == ["cpu-ikj", "cpu-blocked", "cpu-packed"]
    row = rows["cpu-blocked"]
    assert row["problem"] == {"m": 40, "n": 60, "k": 50, "batch": 1, "dtype": "float32"}
    assert (row["threads"], row["process"], row["transfers_counted"]) == (1, "shared", None)
    assert set(row["params"]) == {"bs_r", "bs_c", "bs_k", "schedule"}
    median = {benchmark["extra_info"]["backend"]: benchmark["stats"]["median"] for benchmark in benchmarks}
    assert row["gflop_per_s"] == pytest.approx(2e-9 * 40 * 60 * 50 / median["cpu-blocked"])
    assert 0 < row["share_of_peak"] < 2
    assert 0 < rows["cpu-packed"]["share_of_peak"] < 2  # of the peak of float32


@pytest.mark.exhaustive
@needs_benchmark
def test_stacks_vectors_and_other_dtypes_are_measured_too(run):
    test = """
    import numpy as np
    def test_stack(gemm_benchmark):
        gemm_benchmark(np.ones((3, 8, 8)), np.ones((8, 8)), backend="cpu")
    def test_vector(gemm_benchmark):
        gemm_benchmark(np.ones(9), np.ones((9, 7)), backend="cpu")
    def test_complex(gemm_benchmark):
        gemm_benchmark(np.ones((6, 6), complex), np.ones((6, 6), complex), backend="auto")
    """
    done = run(test, *BRIEF)
    done.assert_outcomes(passed=3)
    done.stdout.fnmatch_lines_random(["3[*]8 float64", "1x7x9 float64", "6 complex128", "cpu (cpu-packed) *%*"])


@pytest.mark.exhaustive
@needs_benchmark
def test_a_device_has_no_threads_and_no_peak_of_a_cpu(run, pytester):
    test = f"""
    import sys
    sys.path.append({str(SUPPORT)!r})
    import fake_device
    import numpy as np

    def test_device(gemm_benchmark):
        with fake_device.installed():
            out = gemm_benchmark(np.ones((8, 9)), np.ones((9, 7)), backend="opencl-fake:1")
        assert out.tolist() == [[9.0] * 7] * 8
    """
    done = run(test, "--benchmark-json=records.json", *BRIEF)
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["8x7x9 float64 + transfers", "opencl-fake:1 *"])
    (benchmark,) = json.loads((pytester.path / "records.json").read_text())["benchmarks"]
    row = benchmark["extra_info"]
    assert (row["device"], row["threads"], row["share_of_peak"]) == ("Fake GPU", None, None)
    assert row["transfers_counted"] is True


@pytest.mark.exhaustive
@needs_benchmark
@pytest.mark.skipif(not FIRST_PLACES, reason="no runtime has a device here")
def test_a_device_that_is_here(run):
    test = f"""
    import numpy as np
    def test_device(gemm_benchmark):
        gemm_benchmark(np.ones((8, 8)), np.ones((8, 8)), backend={backend_at(FIRST_PLACES[0], "private")!r})
    """
    run(test, *BRIEF).assert_outcomes(passed=1)


@needs_benchmark
def test_the_records_are_as_docs_records_says_and_agree_with_pytest_benchmark(run, pytester):
    files = ["--gemmlab-out=records.jsonl", "--benchmark-json=theirs.json", "--benchmark-save-data"]
    done = run(PRODUCT, "--benchmark-only", *files, *BRIEF)
    done.stdout.fnmatch_lines(["records: records.jsonl; gemmlab roofline --from records.jsonl draws them"])
    records = read(pytester.path / "records.jsonl")
    products = {record["backend"]: record for record in records if record["kind"] == "gemm"}
    assert list(products) == ["cpu-ikj", "cpu-blocked"]
    for benchmark in json.loads((pytester.path / "theirs.json").read_text())["benchmarks"]:
        record = products[benchmark["extra_info"]["backend"]]
        stats = benchmark["stats"]
        said = {key: record[key] for key in summarise(stats["data"])}
        assert said == pytest.approx(summarise(stats["data"]))
        assert (record["samples"], record["calls_per_sample"]) == (stats["rounds"], stats["iterations"])
        assert record["error_over_bound"] <= 1
        assert record["problem"]["layout"] == "CCC"
        assert record["bytes_compulsory"] == 4 * (40 * 50 + 50 * 60 + 40 * 60)
        assert record["environment"]["thread_pools"]
    assert products["cpu-blocked"]["bytes_model_dram"] > 0
    peaks = [record for record in records if record["kind"] == "ceiling"]
    assert {(peak["ceiling"], peak["threads"], peak["device"]) for peak in peaks} == {
        ("fma", 1, products["cpu-ikj"]["device"])
    }


@pytest.mark.exhaustive
@needs_benchmark
@pytest.mark.skipif(not (find_spec("matplotlib") and find_spec("jinja2")), reason="no matplotlib or jinja2")
def test_the_records_are_drawn_by_roofline_and_report(run, pytester):
    test = """
    import numpy as np
    import pytest
    @pytest.mark.parametrize("dtype", ["float32", "complex128", "int8"])
    @pytest.mark.parametrize("backend", ["auto", "cpu-numpy"])
    def test_product(gemm_benchmark, backend, dtype):
        a = np.ones((40, 50), dtype)
        gemm_benchmark(a[::2], a.T, backend=backend)
    """
    run(test, "--gemmlab-out=records.jsonl", *BRIEF).assert_outcomes(passed=6)
    for command in ("roofline", "report"):
        arguments = [command, "--from", pytester.path / "records.jsonl", "--out", pytester.path / command]
        done = run_python("-m", "gemmlab", *arguments)
        assert (done.returncode, done.stderr) == (0, "")


KEPT = """
import made_up_records as made
from gemmlab._cpu.machine import cpu_name
from gemmlab.roofline.ceilings import cache

cache.cached = lambda device, threads: [record | {"device": cpu_name()} for record in made.ceilings(threads=1)]
"""


@pytest.mark.exhaustive
@needs_benchmark
def test_ceilings_that_are_stored_give_the_share_of_the_roof_and_go_to_the_file(run, pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT), prepend=":")
    done = run(PRODUCT, "--gemmlab-out=records.jsonl", *BRIEF, conftest=KEPT)
    done.stdout.fnmatch_lines(["backend*thr*GFLOP/s*peak*roof*noise*err/bd", "cpu-* 1 *%*%*%*", "roof: share*"])
    found = read(pytester.path / "records.jsonl")
    assert len([record for record in found if record["kind"] == "ceiling"]) == len(made.ceilings(threads=1))


@pytest.mark.exhaustive
@needs_benchmark
def test_products_are_held_against_a_backend_of_the_same_run(run):
    done = run(PRODUCT, "--gemmlab-against=cpu-ikj", *BRIEF)
    done.stdout.fnmatch_lines(["backend*err/bd*against", "against: *of cpu-ikj on the same product*"])
    rows = {line.split()[0]: line for line in done.outlines if line.startswith("cpu-")}
    assert rows["cpu-ikj"].endswith("-")
    assert re.search(r"\d \([\d.]+-[\d.]+\)$|no difference seen$", rows["cpu-blocked"])
    assert max(map(len, rows.values())) <= 80
    run(PRODUCT, "--gemmlab-against=cpu-numpy", *BRIEF).stdout.fnmatch_lines(["against: no other backend was timed*"])


@pytest.mark.exhaustive
@needs_benchmark
def test_products_are_held_against_an_earlier_run(run):
    run(PRODUCT, "--gemmlab-out=old.jsonl", *BRIEF).assert_outcomes(passed=2)
    done = run(PRODUCT, "--gemmlab-against=old.jsonl", "--gemmlab-out=new.jsonl", *BRIEF)
    done.stdout.fnmatch_lines(["backend*against", "against: how many times the speed in old.jsonl*"])
    other = run(PRODUCT.replace("40", "41"), "--gemmlab-against=old.jsonl", *BRIEF)
    other.stdout.fnmatch_lines(["this run and old.jsonl have nothing in common*"])


@needs_benchmark
@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--gemmlab-out=folder/below.jsonl", "cannot write folder/below.jsonl: No such file or directory"),
        ("--gemmlab-against=cpu-nonesuch", "cpu-nonesuch is neither a file of records nor the name of a backend"),
        ("--gemmlab-against=bad.jsonl", "bad.jsonl:1: not JSON*"),
    ],
    ids=["out", "name", "file"],
)
def test_an_option_that_is_wrong_is_one_line_before_anything_is_timed(run, pytester, option, said):
    (pytester.path / "bad.jsonl").write_text("not JSON\n")
    done = run(PRODUCT, option)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"ERROR: gemmlab: {said}"])
    assert not done.stdout.lines or "GFLOP/s" not in str(done.stdout)


@needs_benchmark
def test_without_a_product_an_earlier_file_stays(run, pytester):
    (pytester.path / "records.jsonl").write_text("earlier\n")
    done = run(PRODUCT, "--benchmark-disable", "--gemmlab-out=records.jsonl")
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(["records.jsonl was not written: no product was timed"])
    assert (pytester.path / "records.jsonl").read_text() == "earlier\n"
    assert not list(pytester.path.glob("*.partial"))


def test_a_worker_of_xdist_opens_no_file(run, pytester):
    pytester.makeconftest("""
        import pytest
        @pytest.hookimpl(tryfirst=True)
        def pytest_configure(config):
            config.workerinput = {}
    """)
    run(PLAIN, "--gemmlab-out=folder/below.jsonl").assert_outcomes(passed=1)


@pytest.mark.exhaustive
@needs_benchmark
def test_an_empty_product_has_no_speed(run):
    test = """
    import numpy as np
    def test_empty(gemm_benchmark):
        gemm_benchmark(np.ones((0, 8)), np.ones((8, 8)), backend="cpu-numpy")
    """
    done = run(test, *BRIEF)
    done.assert_outcomes(passed=1)
    done.stdout.no_fnmatch_line("*GFLOP/s*")


@pytest.mark.exhaustive
@needs_benchmark
def test_parameters_that_were_given_are_named(run):
    test = """
    import numpy as np
    def test_parameter(gemm_benchmark):
        gemm_benchmark(np.ones((8, 8)), np.ones((8, 8)).T[:, ::2], backend="cpu-blocked", bs_r=4, threads=1)
    """
    run(test, *BRIEF).stdout.fnmatch_lines(["8x4x8 float64 CSC", "cpu-blocked bs_r=4 * 1 *"])


@pytest.mark.exhaustive
@needs_benchmark
def test_disabled_benchmarks_still_check(run):
    done = run(PRODUCT, "--benchmark-disable")
    done.assert_outcomes(passed=2)
    done.stdout.no_fnmatch_line("*GFLOP/s*")


@pytest.mark.exhaustive
@needs_benchmark
def test_a_wrong_product_is_not_timed(run):
    test = """
    import numpy as np
    from gemmlab import Availability
    from gemmlab._registry import registered

    class Wrong:
        name, kind, summary, source, params = "wrong", "plugin", "", "", {}
        def probe(self): return Availability(True)
        def supports(self, problem): return True
        def gemm(self, problem): problem.out[...] = 1

    def test_wrong(gemm_benchmark):
        with registered(Wrong()):
            gemm_benchmark(np.ones((8, 8)), np.ones((8, 8)), backend="wrong")
    """
    done = run(test, *BRIEF)
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*wrong gave a wrong product: error * times its bound*"])
    done.stdout.no_fnmatch_line("*GFLOP/s*")


@needs_benchmark
@pytest.mark.parametrize("options", ["backend='cpu-bloked'", "backend='cpu-ikj', bs_q=1", "bs_q=1"])
def test_a_call_that_is_wrong_fails_its_test(run, options):
    test = f"""
    import numpy as np
    def test_wrong(gemm_benchmark):
        gemm_benchmark(np.ones((8, 8)), np.ones((8, 8)), {options})
    """
    run(test, *BRIEF).assert_outcomes(failed=1)


@needs_benchmark
def test_without_a_backend_that_of_the_settings_multiplies(run):
    test = """
    import numpy as np
    def test_any(gemm_benchmark):
        gemm_benchmark(np.ones((8, 8)), np.ones((8, 8)))
    """
    done = run(test, *BRIEF)
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["*auto (cpu-packed)*"])


@pytest.mark.exhaustive
def test_a_run_without_products_says_nothing(run):
    done = run(PLAIN)
    done.assert_outcomes(passed=1)
    done.stdout.no_fnmatch_line("*gemmlab: products*")


def test_a_run_without_products_loads_no_numpy(run):
    test = """
    import sys
    def test_nothing():
        assert not {"numpy", "gemmlab._api", "gemmlab._cpu"} & set(sys.modules)
    """
    run(test, "-p", "no:zarr").assert_outcomes(passed=1)  # Zarr has a plugin, too, which loads NumPy


@pytest.fixture
def without_benchmark(pytester):
    """Has pytest-benchmark be absent in the runs of a test: their folder comes first on the path."""
    pytester.makepyfile(pytest_benchmark="raise ImportError('not installed')")
    return ["-p", "no:benchmark"]


@pytest.mark.exhaustive
def test_without_pytest_benchmark_other_tests_run(run, without_benchmark):
    test = """
    import pytest
    def test_nothing():
        with pytest.raises(ImportError):
            import pytest_benchmark
    """
    run(test, *without_benchmark).assert_outcomes(passed=1)


def test_without_pytest_benchmark_the_fixture_says_what_it_needs(run, without_benchmark):
    done = run(PRODUCT, *without_benchmark)
    done.assert_outcomes(skipped=2)
    done.stdout.fnmatch_lines(["SKIPPED*needs pytest-benchmark: pip install 'gemmlab[[]test]'"])


def test_the_fixture_is_listed_with_its_meaning(run):
    done = run(PLAIN, "--fixtures")
    done.stdout.fnmatch_lines(["gemm_benchmark*", "*Time `gemmlab.matmul(a, b, [*][*]options)` with pytest-benchmark*"])
