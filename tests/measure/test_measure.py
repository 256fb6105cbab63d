"""Measuring: cases, statistics, workers, sessions and tables. Nothing here asserts a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from helpers import DOCS, SUPPORT
from randomness import RNG

import gemmlab
from gemmlab._cpu import machine
from gemmlab._process.children import CAN_SUSPEND, WorkerDied, WorkerProcess
from gemmlab.measure import (
    Case,
    Column,
    Session,
    Settings,
    from_files,
    gemm_table,
    layers,
    operands,
    read,
    sized,
    squares,
    summarise,
    text_table,
)
from gemmlab.measure.environment import environment
from gemmlab.measure.isolated import backend as isolated_backend
from gemmlab.measure.isolated.backend import WORKER_COMMAND, IsolatedBackend
from gemmlab.measure.isolated.worker import CHECK_ALL, MIN_SAMPLE_S, calls_per_sample, check, seconds_a_call
from gemmlab.measure.measurement import wait_policy
from gemmlab.measure.session import _that_fit
from gemmlab.measure.table import seconds, size

HOMES = [str(Path(gemmlab.__file__).parents[1]), str(SUPPORT)]
FAKE = (sys.executable, "-c", f"import sys; sys.path[:0] = {HOMES}; import fake_worker; fake_worker.main()")
DOCUMENT = DOCS / "records.md"
BRIEF = Settings(threads=1, rounds=1, budget_s=0)
needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")


# statistics


def test_summary_of_known_samples():
    found = summarise([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert found == {
        "samples": 6, "median_s": 3.5, "p20_s": 2.0, "p80_s": 5.0, "min_s": 1.0,
        "noise_percent": pytest.approx(100 * 3 / 3.5), "noisy": True,
    }  # fmt: skip


@pytest.mark.parametrize("samples", [[2.0], [0.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0, 9.0]])
def test_a_summary_of_equal_samples_is_not_noisy_also_with_one_disturbed(samples):
    found = summarise(samples)
    assert (found["median_s"], found["noise_percent"], found["noisy"]) == (np.median(samples), 0, False)


def test_a_summary_is_noisy_where_a_fourth_of_the_samples_is_disturbed():
    found = summarise([1.0, 1.0, 1.0, 9.0])
    assert (found["median_s"], found["noisy"]) == (1.0, True)


def test_summary_needs_a_sample():
    with pytest.raises(ValueError, match="no samples"):
        summarise([])


# problems


def test_a_case_travels_as_json():
    case = Case("s", "l", 2, 3, 4, "float64", batch=5, layout="CFC")
    assert Case(**json.loads(json.dumps(asdict(case)))) == case
    assert set(case.problem()) == {"suite", "label", "m", "n", "k", "dtype", "layout", "batch"}
    assert case.gflop == pytest.approx(2 * 2 * 3 * 4 * 5 / 1e9)
    assert case.bytes_compulsory == (2 * 4 + 4 * 3 + 2 * 3) * 5 * 8


@pytest.mark.parametrize("wrong", [{"dtype": "float8"}, {"m": 0}, {"batch": 0}, {"layout": "CC"}, {"layout": "CXC"}])
def test_a_case_that_cannot_be(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Case(**{"suite": "s", "label": "l", "m": 1, "n": 1, "k": 1, **wrong})


def test_suites():
    assert [case.n for case in squares()] == [64, 128, 256, 512, 600, 1000, 1400, 2048]
    assert {600, 4032, 16} < {case.n for case in squares(quick=False, dtype="float64")}
    assert len(layers()) == 4
    assert set(layers()) < set(layers(quick=False))
    assert {case.dtype for case in layers(dtype="float64")} == {"float64"}
    assert all(case.m == case.n == case.k == 7 for case in sized([7]))


@pytest.mark.parametrize("layout", ["CCC", "FCC", "CFC", "FFC"])
@pytest.mark.parametrize("batch", [1, 3])
def test_operands_have_the_layout_and_stay_the_same(layout, batch):
    case = Case("s", "l", 5, 6, 7, layout=layout, batch=batch)
    a, b = operands(case)
    lead = (batch,) if batch > 1 else ()
    assert (a.shape, b.shape, a.dtype) == ((*lead, 5, 7), (*lead, 7, 6), np.float32)
    for x, letter in zip((a, b), layout, strict=False):
        assert (x if letter == "C" else x.swapaxes(-1, -2)).flags.c_contiguous
        assert x.min() >= 0
        assert x.max() < 1
    assert all(np.array_equal(x, y) for x, y in zip((a, b), operands(case), strict=True))


def test_operands_are_the_same_in_another_process():
    code = f"import sys; sys.path[:0] = {HOMES}\n"
    code += "from gemmlab.measure import Case, operands; print(operands(Case('s', 'l', 5, 6, 7))[1].sum())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(operands(Case("s", "l", 5, 6, 7))[1].sum())


def test_a_users_files(tmp_path):
    np.save(tmp_path / "a.npy", np.full((3, 4), 0.5))
    np.save(tmp_path / "b.npy", np.asfortranarray(np.ones((4, 5))))
    case = from_files(tmp_path / "a.npy", tmp_path / "b.npy")
    assert (case.m, case.n, case.k, case.dtype, case.layout) == (3, 5, 4, "float64", "CFC")
    a, b = operands(case)
    np.testing.assert_array_equal(a @ b, np.full((3, 5), 2.0))


@pytest.mark.parametrize(("first", "second", "dtype"), [
    ("float32", "float64", "float64"), ("int8", "float32", "float32"), (">f4", "<f8", "float64"), ("?", "int8", "int8"),
    ("int64", "int64", "int64"), ("complex64", "float64", "complex128"), ("bfloat16", "bfloat16", "bfloat16"),
    ("bfloat16", "float32", "float32"), ("float16", "float16", "float16"),
])  # fmt: skip
@pytest.mark.parametrize("stack", [(), (2,)], ids=["matrices", "stacks"])
def test_files_of_any_dtype_are_one_product(tmp_path, first, second, dtype, stack):
    pytest.importorskip("ml_dtypes")
    a, b = (RNG.integers(0, 2, (*stack, *shape)).astype(kind) for shape, kind in (((3, 4), first), ((4, 5), second)))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    case = from_files(tmp_path / "a.npy", tmp_path / "b.npy")
    assert (case.m, case.n, case.k, case.batch, case.dtype) == (3, 5, 4, *(stack or (1,)), dtype)
    for given, read_ in zip((a, b), operands(case), strict=True):
        assert read_.dtype.name == dtype
        assert read_.dtype.isnative
        np.testing.assert_array_equal(read_.astype(complex), given.astype(complex))


BAD_FILES = {
    "missing": (None, "No such file"),
    "vector": (np.ones(4), "1-D"),
    "stack": (np.ones((2, 4, 4)), "a stack of 2, but"),
    "times": (np.ones((4, 4), "m8[s]"), "complex numbers are needed"),
    "misfit": (np.ones((5, 4)), "has 5 rows"),
    "empty": (np.ones((4, 0)), "empty"),
    "nan": (np.full((4, 4), np.nan), "NaN"),
    "text": (b"not an array at all", "not a readable"),
    "nothing": (b"", "not a readable"),
    "header": (b"\x93NUMPY\x01\x00\x10\x00((((((((((((((((", "not a readable"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_cannot_be_measured_is_named(tmp_path, name):
    content, says = BAD_FILES[name]
    good, bad = tmp_path / "a.npy", tmp_path / "b.npy"
    np.save(good, np.ones((3, 4)))
    if isinstance(content, bytes):
        bad.write_bytes(content)
    elif content is not None:
        np.save(bad, content)
    with pytest.raises(ValueError, match=says) as caught:
        from_files(good, bad)
    assert str(caught.value).startswith(str(bad))
    assert "\n" not in str(caught.value)


def test_pickles_are_not_opened(tmp_path):
    np.save(tmp_path / "o.npy", np.array([[{}]], object), allow_pickle=True)
    with pytest.raises(ValueError, match="not a readable"):
        from_files(tmp_path / "o.npy", tmp_path / "o.npy")


# environment


def test_environment_has_the_keys_of_the_document():
    section = DOCUMENT.read_text(encoding="utf-8").split("## `environment`")[1]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    documented = {key.strip(" `") for row in rows for key in row.split(",")}
    found = environment()
    assert set(found) == documented
    assert json.loads(json.dumps(found)) == found
    assert set(found["cache_bytes"]) == {"L1", "L2", "L3"}


def test_environment_holds_no_path():
    text = json.dumps(environment())
    assert str(Path(np.__file__).parent) not in text
    assert "filepath" not in text


def test_show_versions(capsys):
    gemmlab.show_versions()
    assert "numpy" in capsys.readouterr().out


# the worker's parts


@pytest.mark.parametrize("call_s", [1.0, 0.5e-3, 0.2e-3, 1e-5, 1e-6, 3e-7])
def test_a_sample_is_long_enough_and_no_longer(call_s):
    calls = calls_per_sample(call_s)
    assert calls * call_s >= MIN_SAMPLE_S
    assert calls == 1 or (calls - 1) * call_s <= MIN_SAMPLE_S * (1 + 1e-9)


def test_a_clock_that_saw_nothing_does_not_make_endless_samples():
    assert 1 <= calls_per_sample(0.0) < 10**6


def test_a_sample_makes_the_calls_it_says():
    calls = []
    seconds_a_call(lambda: calls.append(1), 7)
    assert len(calls) == 7


@pytest.mark.parametrize("shape", [(5, 6, 7), (300, 200, 250), (3, 90, 100, 110)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_check_passes_what_is_right_and_finds_one_wrong_element(shape, dtype):
    *lead, m, n, k = shape
    rng = np.random.default_rng(3)
    a, b = rng.random((*lead, m, k)).astype(dtype), rng.random((*lead, k, n)).astype(dtype)
    c = a @ b
    assert check(a, b, c) <= 1
    for value in (0.0, np.nan, np.inf, c[..., m // 3, n // 3].flat[-1] + 1):
        broken = c.copy()
        broken[..., m // 3, n // 3] = value
        assert check(a, b, broken) > 1


def test_check_accepts_regular_data_whose_errors_add_up():
    edge = 400
    assert edge**3 > CHECK_ALL
    a = np.full((edge, edge), 0.1, np.float32)
    c = np.zeros((edge, edge), np.float32)
    for p in range(edge):  # one term after another: rounding goes the same way everywhere
        c += a[:, p, None] * a[None, p]
    assert check(a, a, c) <= 1


# worker processes


@pytest.fixture
def start():
    started = []

    def starter(threads, command=WORKER_COMMAND):
        started.append(WorkerProcess(threads, command))
        return started[-1]

    yield starter
    for process in started:
        process.close()


def state(process):
    return Path(f"/proc/{process._process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def eventually(is_so):
    for _ in range(500):
        if is_so():
            return True
        time.sleep(0.01)
    return False


def test_a_worker_from_hello_to_quit(start):
    worker = start(1)
    hello = worker.ask("hello", 60, backend="cpu-ikj", threads=1)
    assert hello["on_cpu"]
    assert "threadpoolctl" in hello["thread_scope"]
    assert all("filepath" not in pool for pool in hello["thread_pools"])
    case = Case("s", "l", 20, 30, 40)
    prepared = worker.ask("prepare", 60, case=asdict(case), params={"schedule": "dynamic"})
    assert 0 < prepared["error_over_bound"] <= 1
    assert (prepared["threads"], prepared["copies"], prepared["params"]["schedule"]) == (1, 0, "dynamic")
    assert prepared["traffic"]["dram"] >= case.bytes_compulsory
    timed = worker.ask("time", 60, budget_s=0.01, min_samples=2, max_samples=5)
    assert 2 <= len(timed["samples_s"]) <= 5
    assert worker.ask("time", 60, budget_s=0.0, min_samples=1, max_samples=1)["calls_per_sample"] >= 1
    assert worker.ask("release", 60)["error_over_bound"] <= 1


def test_a_worker_answers_errors_and_goes_on(start):
    worker = start(1)
    for command in ("release", "time"):
        arguments = {"budget_s": 0.0, "min_samples": 1, "max_samples": 1} if command == "time" else {}
        assert "`prepare` comes first" in worker.ask(command, 60, **arguments)["error"]
    assert "no command 'fly'" in worker.ask("fly", 60)["error"]
    assert "UnknownBackend" in worker.ask("hello", 60, backend="cpu-nave", threads=1)["error"]
    worker.ask("hello", 60, backend="cpu-naive", threads=1)
    case = asdict(Case("s", "l", 8, 8, 8))
    assert "TypeError" in worker.ask("prepare", 60, case=case, params={"tile": 3})["error"]
    assert worker.ask("prepare", 60, case=case, params={})["error_over_bound"] <= 1


def test_a_worker_runs_the_gemmlab_of_its_parent(start, tmp_path, monkeypatch):
    (tmp_path / "gemmlab").mkdir()
    (tmp_path / "gemmlab" / "__init__.py").write_text("raise ImportError('the wrong gemmlab')")
    monkeypatch.chdir(tmp_path)
    assert start(1).ask("hello", 60, backend="cpu-naive", threads=1)["on_cpu"]


def test_threads_reach_the_libraries(start):
    pools = start(1).ask("hello", 60, backend="cpu-numpy", threads=1)["thread_pools"]
    assert {pool["num_threads"] for pool in pools} <= {1}


def test_gemmlab_threads_does_not_override(start, monkeypatch):
    monkeypatch.setenv("GEMMLAB_THREADS", "7")
    worker = start(1)
    worker.ask("hello", 60, backend="cpu-ikj", threads=1)
    case = asdict(Case("s", "l", 300, 300, 300))
    assert worker.ask("prepare", 60, case=case, params={})["threads"] == 1


@pytest.mark.skipif(machine.usable_cpus() < 2, reason="needs two CPUs")
@pytest.mark.parametrize("backend", ["cpu-blocked-local", "cpu-five-loops", "cpu-packed"])
def test_pinning_the_threads_of_a_product_leaves_the_next_as_many(backend):
    cases = [Case("s", str(size), size, size, size) for size in (500, 600, 700)]
    with Session() as session:
        records = session.measure([backend], cases, Settings(threads=2, rounds=2, budget_s=0.01))
    assert [record["threads"] for record in records] == [2, 2, 2]


@needs_proc
@pytest.mark.skipif(not CAN_SUSPEND, reason="needs SIGSTOP")
def test_a_worker_that_is_not_asked_stands_still(start):
    worker = start(1)
    worker.ask("hello", 60, backend="cpu-naive", threads=1)
    assert eventually(lambda: state(worker) == "T")


def test_a_silent_worker_is_ended(start):
    with pytest.raises(WorkerDied, match=r"^no answer within 0.2 s$"):
        start(1, [sys.executable, "-c", "import time; time.sleep(600)"]).ask("hello", 0.2)


def test_a_dead_worker_says_why(start):
    command = [sys.executable, "-c", "import sys; print('first\\n\\nlast words\\n', file=sys.stderr); sys.exit(5)"]
    with pytest.raises(WorkerDied, match=r"^its process ended \(exit status 5\): last words$"):
        start(1, command).ask("hello", 60)
    with pytest.raises(WorkerDied, match="cannot be started"):
        start(1, [os.devnull + "/none"])


@needs_proc
@pytest.mark.skipif(sys.platform != "linux", reason="Linux ends children with their parent")
def test_a_suspended_worker_ends_with_its_parent():
    code = f"""
import sys; sys.path[:0] = {HOMES}
from gemmlab._process.children import WorkerProcess
from gemmlab.measure.isolated.backend import WORKER_COMMAND
worker = WorkerProcess(1, WORKER_COMMAND)
worker.ask("hello", 60, backend="cpu-naive", threads=1)
print(worker._process.pid, flush=True)
import os; os._exit(0)
"""
    parent = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert eventually(lambda: not is_alive(int(parent.stdout)))


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


# sessions


def measured(backends, sizes, *, on_record=None, progress=None, **options):
    settings = Settings(threads=1, rounds=2, budget_s=0.01, **options)
    with Session(run_id="run", worker_command=FAKE) as session:
        return session.measure(backends, sized(sizes), settings, on_record=on_record, progress=progress)


def test_records_of_a_session():
    seen, steps = [], []
    records = measured(["good", "chatty"], [20, 10], on_record=seen.append, progress=lambda *step: steps.append(step))
    assert seen == records
    found = [(record["problem"]["n"], record["backend"], record["status"]) for record in records]
    assert found == [(10, "good", "ok"), (10, "chatty", "ok"), (20, "good", "ok"), (20, "chatty", "ok")]
    first = records[0]
    assert (first["run_id"], first["threads"], first["copies"], first["transfers_counted"]) == ("run", 1, 0, None)
    assert (first["bytes_model_l1"], first["bytes_model_l2"], first["bytes_model_dram"]) == (1.0, None, 2.0)
    assert first["samples"] >= 2
    assert first["gflop_per_s"] == pytest.approx(first["gflop"] / first["median_s"])
    assert first["device"] == machine.cpu_name()
    assert first["wait_policy"] == wait_policy()
    assert first["environment"]["thread_pools"]
    assert [step[2] for step in steps[:2]] == ["starting good", "starting chatty"]
    done, totals = [step[0] for step in steps[2:]], {step[1] for step in steps[2:]}
    assert done == sorted(done)
    assert (done[0], done[-1], totals) == (0, 16, {16})


def test_parameters_reach_the_backend():
    record = measured(["good"], [10], params={"good": {"size": 2}})[0]
    assert record["params"] == {"size": 2}
    assert measured(["good"], [10], params={"good": {"tile": 2}})[0]["status"] == "failed"


@pytest.mark.parametrize(
    ("backend", "sizes", "status", "reason"),
    [
        ("idle", [20], "wrong", "left unwritten"),
        ("off", [10], "wrong", "times its bound"),
        ("off", [300], "wrong", "times its bound"),
        ("later", [20], "wrong", "times its bound"),
        ("stillborn", [20], "failed", "exit status 3"),
        ("absent", [20], "skipped", "there is no such device; fix: buy one"),
        ("picky", [20], "skipped", "it does not do 20"),
        ("raises", [20], "skipped", "not this one"),
        ("raises", [10], "failed", "RuntimeError: broken"),
        ("nowhere", [20], "failed", "no backend is named 'nowhere'"),
    ],
)
def test_what_goes_wrong_is_recorded(backend, sizes, status, reason):
    record = measured([backend], sizes)[-1]
    assert record["status"] == status
    assert reason in record["reason"]
    assert record["median_s"] is None
    assert record["gflop_per_s"] is None


def test_what_takes_longer_than_the_cap_is_skipped():
    record = measured(["slow"], [300], cap_s=0.05)[-1]
    assert (record["status"], record["median_s"]) == ("skipped", None)
    assert "over the cap of 0.05 s" in record["reason"]


def test_a_death_costs_one_case():
    found = measured(["dies", "good"], [10, 20, 30])
    assert [record["status"] for record in found] == ["ok", "ok", "failed", "ok", "ok", "ok"]
    assert "last words" in found[2]["reason"]


@pytest.mark.exhaustive
def test_a_hanging_backend_fails(monkeypatch):
    monkeypatch.setattr(isolated_backend, "_TIMEOUT_S", 5.0)
    monkeypatch.setattr(isolated_backend, "_TIMEOUT_CAPS", 0.0)
    found = measured(["hangs", "good"], [10])
    assert [record["status"] for record in found] == ["failed", "ok"]
    assert found[0]["reason"] == "no answer within 5 s"


def test_a_session_keeps_its_workers_from_one_measurement_to_the_next():
    with Session(worker_command=FAKE) as session:
        session.measure(["good"], sized([10]), BRIEF)
        (backend,) = session._backends.values()
        process = backend._process
        session.measure(["good"], sized([20]), BRIEF)
        assert list(session._backends.values()) == [backend]
        assert backend._process is process
    assert process._process.returncode is not None


class Imagined(IsolatedBackend):
    """A backend of a given speed, that notes the sizes it was asked for."""

    def __init__(self, gflop_per_s, cap_s):
        super().__init__("imagined", 1, ())
        self.speed, self.cap_s, self.edges = gflop_per_s, cap_s, []

    def ask(self, command, more_s=0.0, *, case, params):
        self.edges.append(case["n"])
        gflop = Case(**case).gflop
        return {"call_s": gflop / self.speed(gflop)}


@pytest.mark.parametrize(("speed", "runs"), [(1.0, False), (100.0, True)])
def test_a_large_case_alone_is_predicted_from_a_trial(speed, runs):
    backend = Imagined(lambda gflop: speed, cap_s=2.0)
    predicted_s = backend.predicted_s(sized([2048])[0], {})
    assert (predicted_s <= backend.cap_s) is runs
    assert backend.edges[0] == 128
    assert max(backend.edges) < 2048


def test_a_backend_that_gains_with_size_is_not_judged_by_small_work():
    backend = Imagined(lambda gflop: 300.0 * gflop / (gflop + 0.05), cap_s=1.0)
    backend.prepare(sized([16])[0], {})
    assert backend.predicted_s(sized([4032])[0], {}) <= backend.cap_s


@pytest.mark.parametrize("cap_s", [1e-9, 1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("first", [1, 2, 16, 500])
def test_prediction_ends(cap_s, first):
    backend = Imagined(lambda gflop: 1e-3, cap_s)
    backend.prepare(sized([first])[0], {})
    assert backend.predicted_s(sized([4032])[0], {}) > cap_s


def test_small_work_needs_no_prediction():
    backend = Imagined(lambda gflop: 1.0, cap_s=2.0)
    assert backend.predicted_s(sized([128])[0], {}) == 0
    assert backend.edges == []


def test_operands_of_a_case_fit_into_memory():
    backends = [(IsolatedBackend(str(i), 1, ()), {}) for i in range(5)]
    assert list(_that_fit(backends, sized([8])[0])) == [backends]
    assert list(_that_fit(backends, sized([10**6])[0])) == [[backend] for backend in backends]


@needs_proc
def test_ctrl_c_keeps_what_was_measured_and_leaves_no_worker(tmp_path):
    code = f"""
import sys; sys.path[:0] = {HOMES}
from gemmlab.measure import RecordFile, Session, Settings, sized
with RecordFile({str(tmp_path / "r")!r}) as file, Session(worker_command={FAKE!r}) as session:
    def progress(done, total, text):
        pids = [backend._process._process.pid for backend in session._backends.values() if backend._process]
        print(text, *pids, flush=True)
    brief = Settings(threads=1, rounds=1, budget_s=0)
    session.measure(["good"], sized([10]), brief, on_record=file.write)
    session.measure(["good", "hangs"], sized([20]), brief, progress=progress, on_record=file.write)
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    with parent:
        for line in parent.stdout:
            if line.startswith("hangs"):
                break
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        assert eventually(lambda: len(children.read_text().split()) == 2)
        time.sleep(1.0)  # into the product that never ends
        pids = [int(pid) for pid in children.read_text().split()]
        os.killpg(parent.pid, signal.SIGINT)  # as a terminal does: to the workers too
        error = parent.communicate(timeout=60)[1]
    assert error.rstrip().endswith("KeyboardInterrupt")
    assert not any(map(is_alive, pids))
    assert [record["problem"]["n"] for record in read(tmp_path / "r")] == [10]


def test_the_real_thing():
    with Session() as session:
        cases, settings = sized([16, 64], "float64"), Settings(rounds=1, budget_s=0.01)
        records = session.measure(["cpu-naive", "cpu-numpy"], cases, settings)
    assert [record["status"] for record in records] == ["ok"] * 4


# tables


def test_text_table_cuts_words_and_not_numbers():
    rows = [{"name": "x" * 100, "number": "1" * 20}]
    columns = [Column("name", lambda row: row["name"], number=False), Column("n", lambda row: row["number"])]
    lines = text_table(rows, columns).splitlines()
    assert max(map(len, lines)) == 80
    assert lines[-1].endswith("…  " + "1" * 20)
    assert text_table([], columns).splitlines()[0].split() == ["name", "n"]


def test_gemm_table():
    records = measured(["good", "picky", "slow"], [10, 20, 300], cap_s=0.05)
    text = gemm_table(records, peak=lambda record: None if record["problem"]["n"] == 10 else 100.0)
    assert max(map(len, text.splitlines())) <= 80
    rows = [line.split() for line in text.splitlines() if line.startswith(("good", "picky", "slow"))]
    assert [row[1] for row in rows] == sorted((row[1] for row in rows), key=int)
    assert text.index("Not measured:") < text.index("picky 20 skipped: it does not do 20")
    assert "over the cap" in " ".join(text.split())
    assert gemm_table([]) == ""


@pytest.mark.parametrize(
    ("value", "text"), [(131.4, "131 s"), (2.5, "2.50 s"), (0.0123, "12.3 ms"), (4e-6, "4.00 us"), (5e-9, "5.00 ns")]
)
def test_seconds(value, text):
    assert seconds(value) == text


def test_size():
    assert size({"m": 3, "n": 3, "k": 3, "batch": 1}) == "3"
    assert size({"m": 3, "n": 4, "k": 5, "batch": 2}) == "2*3x4x5"
