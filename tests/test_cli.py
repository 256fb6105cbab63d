"""The command line: exit statuses, one line for what is wrong, whole files or none, Ctrl-C."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import made_up_records as made
import numpy as np
import pytest
from command import runner
from devices import FIRST_PLACES, backend_at
from helpers import run_python
from sweeps import swept

import gemmlab
from gemmlab import Availability
from gemmlab._registry import registered
from gemmlab.campaign import turns
from gemmlab.measure import read, write

BRIEF = ["--rounds", "1", "--budget", "0.01"]
BENCH = ["bench", "--backends", "cpu-ikj,cpu-numpy", "--sizes", "8,33", *BRIEF]
GEMMLAB = [sys.executable, "-P", "-m", "gemmlab"]
FULL_DEVICE = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    """Runs a command in this process, in an empty folder: status, out and err."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(turns, "PEAK_S", 0.05)
    return runner(capsys)


def is_one_line(done):
    """Whether a command ended as wrong usage does: status 2, one line on stderr, no output."""
    return done.status == 2 and not done.out.strip() and done.err.startswith("gemmlab: ") and done.err.count("\n") == 1


def products(records):
    return [record for record in records if record["kind"] == "gemm"]


def widest(text):
    return max(map(len, text.splitlines()))


# What is done


@pytest.mark.parametrize(
    "name", [[], ["report"], ["backends"], ["bench"], ["roofline"], ["study"], ["verify"], ["info"]]
)
def test_every_command_has_help(name, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = command(*name, "--help")
    assert (done.status, done.err) == (0, "")
    assert widest(done.out) <= 80


def test_backends_lists_every_backend_in_80_columns(command):
    done = command("backends")
    assert (done.status, done.err) == (0, "")
    assert all(name in done.out for name in gemmlab.backends())
    assert widest(done.out) <= 80


def test_backends_says_why_not_and_what_to_do(command, monkeypatch):
    monkeypatch.setattr(gemmlab.config, "block", "cpu-ikj")
    done = command("backends")
    assert done.status == 0
    assert "cpu-ikj: blocked" in done.out
    assert "fix: take cpu-ikj off" in done.out
    assert widest(done.out) <= 80


def test_backends_as_json(command):
    rows = {row["name"]: row for row in json.loads(command("backends", "--json").out)}
    assert list(rows) == list(gemmlab.backends())
    assert rows["cpu-ikj"]["works"] == "yes"
    assert rows["cpu-blocked"]["params"] == ["bs_c", "bs_k", "bs_r", "schedule"]


def test_bench_prints_a_table_in_80_columns(command):
    done = command(*BENCH)
    assert done.status == 0
    assert widest(done.out) <= 80
    assert done.out.count("cpu-ikj") == done.out.count("cpu-numpy") == 2
    assert os.listdir() == []


@pytest.mark.exhaustive
def test_bench_as_json_and_as_a_file_have_the_same_records(command):
    done = command(*BENCH, "--json", "--out", "records.jsonl")
    assert done.status == 0
    assert json.loads(done.out) == read("records.jsonl")
    assert os.listdir() == ["records.jsonl"]


@pytest.mark.exhaustive
def test_bench_passes_options_on(command):
    options = ["--dtype", "float64", "--threads", "1", "--param", "bs_c=16", "--param", "schedule=guided"]
    done = command("bench", "--backends", "cpu-blocked-local", "--sizes", "150", *BRIEF, *options, "--json")
    (record,) = products(json.loads(done.out))
    assert (record["backend"], record["problem"]["dtype"], record["threads"]) == ("cpu-blocked-local", "float64", 1)
    assert (record["params"]["bs_c"], record["params"]["schedule"]) == (16, "guided")


@pytest.mark.skipif(not FIRST_PLACES, reason="no runtime has a device here")
@pytest.mark.parametrize(
    ("option", "counted"), swept([([], [False, True]), (["with"], [True]), (["without"], [False])])
)
def test_bench_times_a_device_with_transfers_and_without(command, option, counted):
    chosen = ["--transfers", *option] if option else []
    name = backend_at(FIRST_PLACES[0], "private")
    done = command("bench", "--backends", name, "--sizes", "16", *BRIEF, *chosen, "--out", "r.jsonl")
    assert (done.status, widest(done.out) <= 80) == (0, True)
    assert [record["transfers_counted"] for record in products(read("r.jsonl"))] == counted
    assert done.out.count(" + transfers\n") == counted.count(True)


def test_bench_takes_your_own_matrices_and_any_cap(command):
    np.save("a.npy", np.ones((3, 4), np.float32))
    np.save("b.npy", np.asfortranarray(np.ones((4, 5), np.float32)))
    done = command("bench", "a.npy", "b.npy", "--backends", "cpu-ikj", *BRIEF, "--cap", "inf", "--json")
    (record,) = products(json.loads(done.out))
    assert (record["status"], record["problem"]["layout"]) == ("ok", "CFC")
    assert [record["problem"][side] for side in "mnk"] == [3, 5, 4]


def test_verify_prints_a_line_for_each_backend_and_a_table_on_request(command):
    done = command("verify", "cpu-naive", "cpu-ikj", "--seed", "5")
    assert done.status == 0
    assert [line.split(", ")[0] for line in done.out.splitlines()] == ["cpu-naive: passed", "cpu-ikj: passed"]
    assert "in 2 dtypes, error at most 0." in done.out
    assert [line for line in done.err.splitlines() if line.startswith("100 %")] == ["100 %"]
    done = command("verify", "cpu-packed", "--details", "--dtype", "int8,float16")
    assert done.status == 0
    assert "cpu-packed: passed (seed " in done.out
    assert "check                   int8                        float16\n" in done.out
    assert widest(done.out) <= 80


def test_verify_shows_what_fails(command):
    with registered(Wrong()):
        done = command("verify", "made-up-wrong", "cpu-ikj", "--dtype", "float32")
    assert done.status == 1
    assert "made-up-wrong: FAILED: exact integers" in done.out
    assert "exact integers, float32: m=24 n=40 k=32: C[0, 0] is 1.0" in done.out
    assert "cpu-ikj: passed (seed" not in done.out
    assert widest(done.out) <= 80


def test_verify_as_json(command):
    (audit,) = json.loads(command("verify", "cpu-ikj", "--json").out)
    assert (audit["backend"], audit["passed"]) == ("cpu-ikj", True)


def test_info_tells_of_this_machine(command):
    done = command("info")
    assert done.status == 0
    told = {line.split()[0] for line in done.out.splitlines()}
    assert {"gemmlab", "numpy", "cpu", "isa", "openmp", "threads"} <= told
    assert json.loads(command("info", "--json").out)["gemmlab"] == gemmlab.__version__


def test_version_is_one_line(command):
    done = command("--version")
    assert (done.status, done.out, done.err) == (0, f"gemmlab {gemmlab.__version__}\n", "")


def test_the_package_runs_as_a_module():
    done = run_python("-m", "gemmlab", "backends")
    assert (done.returncode, done.stderr) == (0, "")


# A check failed: 1


class Wrong:
    name, kind, summary, source = "made-up-wrong", "plugin", "gives what is not the product", ""
    params = {}  # noqa: RUF012

    def probe(self):
        return Availability(True)

    def supports(self, problem):
        return True

    def gemm(self, problem):
        problem.out[...] = 1


def test_backends_finds_a_wrong_product(command):
    with registered(Wrong()):
        done = command("backends")
    assert done.status == 1
    assert "wrong product" in done.out


def test_verify_finds_a_wrong_product(command):
    with registered(Wrong()):
        done = command("verify", "made-up-wrong")
    assert done.status == 1
    assert done.out.startswith("made-up-wrong: FAILED")
    assert widest(done.out) <= 80


# Wrong usage: 2


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nosuch"],
        ["backends", "--nosuch"],
        ["bench", "--sizes", "1,,2"],
        ["bench", "--sizes", "0"],
        ["bench", "--dtype"],
        ["bench", "--threads", "0"],
        ["bench", "--threads", "5000"],
        ["bench", "--rounds", "0"],
        ["bench", "--rounds", "-1"],
        ["bench", "--budget", "-1"],
        ["bench", "--budget", "nan"],
        ["bench", "--cap", "nan"],
        ["bench", "--backends", ""],
        ["bench", "--backends", ","],
        ["report", "--full", "--quick"],
        ["report", "--input", "a.npy"],
        ["roofline", "--compare", "one.jsonl"],
        ["roofline", "--compare", "one.jsonl", "two.jsonl", "--from", "three.jsonl"],
        ["verify", "--seed", "x"],
        ["verify", "--seed", "-1"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_parsed_is_wrong_usage(command, arguments):
    few = ["--sizes", "8"] if arguments[:1] == ["bench"] and "--sizes" not in arguments else []
    done = command(*arguments[:1], *few, *arguments[1:])
    assert (done.status, done.out) == (2, "")
    assert "Traceback" not in done.err
    assert os.listdir() == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify", "cpu-bloked"],
        ["bench", "--backends", "cpu-ikj,cpu-bloked"],
        ["report", "--backends", "cpu-bloked"],
        ["roofline", "--backends", "cpu-bloked"],
        ["bench", "--backends", "cpu-ikj", "--param", "bs_q=1"],
        ["bench", "--backends", "cpu-blocked", "--param", "bs_c=0"],
        ["bench", "--backends", "cpu-blocked", "--param", "bs_c"],
        ["bench", "--sizes", "8", "--suite", "squares"],
        ["bench", "one.npy"],
        ["bench", "one.npy", "two.npy", "three.npy"],
        ["report", "--from", "nosuch.jsonl"],
        ["roofline", "--from", "nosuch.jsonl"],
        ["roofline", "--compare", "nosuch.jsonl", "nosuch.jsonl"],
        ["bench", "--sizes", "8", "--against", "nosuch.jsonl"],
    ],
    ids=" ".join,
)
def test_what_is_wrong_is_one_line(command, arguments):
    assert is_one_line(command(*arguments))
    assert os.listdir() == []


def test_a_blocked_backend_by_name_is_one_line(command, monkeypatch):
    monkeypatch.setattr(gemmlab.config, "block", "cpu-ikj")
    done = command("verify", "cpu-ikj")
    assert is_one_line(done)
    assert "fix: take cpu-ikj off" in done.err


def test_there_is_no_traceback_in_a_process_either():
    done = run_python("-m", "gemmlab", "verify", "cpu-bloked")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("gemmlab: no backend is named 'cpu-bloked': did you mean cpu-blocked")


# Two runs beside each other


def faster(record, factor):
    """The same measurement, so many times as fast."""
    times = {key: record[key] / factor for key in ("median_s", "p20_s", "p80_s", "min_s") if record[key]}
    speeds = {key: record[key] * factor for key in ("gflop_per_s", "gb_per_s") if record.get(key)}
    return record | times | speeds


@pytest.fixture
def two_runs(command):
    """Records of a machine, and of the same one with cpu-blocked twice as fast, in two files."""
    old = made.machine()
    write("old.jsonl", old)
    write("new.jsonl", [faster(record, 2) if record.get("backend") == "cpu-blocked" else record for record in old])


@pytest.mark.exhaustive
def test_bench_compares_with_an_earlier_run(command):
    assert command(*BENCH, "--out", "old.jsonl").status == 0
    write("slow.jsonl", [faster(record, 1e-4) for record in read("old.jsonl")])
    done = command(*BENCH, "--against", "slow.jsonl")
    assert done.status == 0
    assert "this run (new) against slow.jsonl (old): 4 products in both." in done.out
    assert "cpu-ikj: faster at 2 of 2" in done.out
    assert widest(done.out) <= 80
    found = json.loads(command(*BENCH, "--against", "slow.jsonl", "--json").out)
    assert [row["verdict"] for row in found["against"]["products"]] == ["faster"] * 4
    assert {record["kind"] for record in found["records"]} == {"gemm", "ceiling"}


@pytest.mark.parametrize("name", ["nofile", "."])
def test_bench_against_no_file_is_one_line(command, name):
    done = command("bench", "--against", name)
    assert is_one_line(done)
    assert done.err == f"gemmlab: {name}: {'Is a directory' if name == '.' else 'No such file or directory'}\n"


@pytest.mark.exhaustive
def test_bench_against_another_machine_shows_its_table_and_says_what_differs(command):
    write("other.jsonl", made.ladder([64]))
    done = command(*BENCH, "--against", "other.jsonl")
    assert done.status == 2
    assert done.out.count("cpu-ikj") == 2
    assert "nothing in common" in done.err
    assert made.DEVICE in done.err.splitlines()[-1]


@pytest.mark.parametrize("records", [[], made.ceilings()], ids=["nothing", "ceilings"])
def test_bench_against_a_file_without_products_measures_nothing(command, records):
    write("old.jsonl", [*records, made.not_run("cpu-ikj", "skipped", "over the cap")])
    done = command(*BENCH, "--against", "old.jsonl")
    assert is_one_line(done)
    assert "old.jsonl holds no timed product" in done.err


@pytest.mark.skipif(not find_spec("matplotlib"), reason="no matplotlib")
def test_roofline_compares_two_files(command, two_runs):
    done = command("roofline", "--compare", "old.jsonl", "new.jsonl", "--out", "figures")
    assert done.status == 0
    assert "new.jsonl (new) against old.jsonl (old): " in done.out
    assert "cpu-blocked: faster at 10 of 10; 2.00 times the speed in the geometric mean." in done.out
    assert "Ceilings: no difference seen" in done.out
    drawn = [Path(line) for line in done.out.split("\n\n")[-1].splitlines()]
    stems = ("comparison-float32-2t", "comparison-float64-2t")
    assert {path.name for path in drawn} == {f"{stem}.{ending}" for stem in stems for ending in ("svg", "png")}
    assert all(path.is_file() for path in drawn)
    assert widest(done.out) <= 80


@pytest.mark.skipif(not find_spec("matplotlib"), reason="no matplotlib")
def test_roofline_compares_as_json(command, two_runs):
    found = json.loads(command("roofline", "--compare", "old.jsonl", "new.jsonl", "--json").out)
    ratios = [row["ratio"] for row in found["products"] if row["backend"] == "cpu-blocked"]
    assert ratios == pytest.approx([2] * 16)
    assert {row["ratio"] for row in found["products"] if row["backend"] != "cpu-blocked"} == {None}
    assert {row["verdict"] for row in found["ceilings"]} == {"no difference seen"}


@pytest.mark.skipif(not find_spec("matplotlib"), reason="no matplotlib")
def test_roofline_says_why_two_files_cannot_be_compared(command):
    write("one.jsonl", made.ladder())
    write("two.jsonl", made.gpu())
    done = command("roofline", "--compare", "one.jsonl", "two.jsonl")
    assert is_one_line(done)
    assert made.DEVICE in done.err
    assert made.GPU in done.err
    assert sorted(os.listdir()) == ["one.jsonl", "two.jsonl"]


# Your own matrices


class Bomb:
    """Whoever unpickles it makes a file."""

    def __reduce__(self):
        return Path.touch, (Path("unpickled"),)


def save_bomb(path):
    np.save(path, np.array([[Bomb()]], dtype=object), allow_pickle=True)


def save_truncated(path):
    np.save(path, np.ones((50, 50), np.float32))
    path.write_bytes(path.read_bytes()[:1000])


def save_archive(path):
    with path.open("wb") as file:
        np.savez(file, np.ones((2, 2), np.float32))


NOT_A_MATRIX = {
    "text": lambda path: path.write_text("1 2\n3 4\n"),
    "empty": lambda path: path.touch(),
    "truncated": save_truncated,
    "a pickle": lambda path: path.write_bytes(pickle.dumps(Bomb())),
    "objects": save_bomb,
    "an archive": save_archive,
    "a vector": lambda path: np.save(path, np.ones(4, np.float32)),
    "a stack": lambda path: np.save(path, np.ones((2, 4, 4), np.float32)),
    "no rows": lambda path: np.save(path, np.ones((0, 4), np.float32)),
    "times": lambda path: np.save(path, np.ones((4, 4), "m8[s]")),
    "four axes": lambda path: np.save(path, np.ones((2, 2, 4, 4), np.float32)),
    "not finite": lambda path: np.save(path, np.full((4, 4), np.nan, np.float32)),
    "a folder": lambda path: path.mkdir(),
    "not there": lambda path: None,
    "other k": lambda path: np.save(path, np.ones((2, 3), np.float32)),
}


@pytest.mark.parametrize("first", [True, False], ids=["A", "B"])
@pytest.mark.parametrize("what", NOT_A_MATRIX)
def test_a_file_that_is_no_matrix_is_one_line(command, tmp_path, what, first):
    NOT_A_MATRIX[what](tmp_path / "bad.npy")
    np.save("good.npy", np.ones((4, 4), np.float32))
    before = sorted(os.listdir())
    names = ["bad.npy", "good.npy"] if first else ["good.npy", "bad.npy"]
    done = command("bench", *names, "--backends", "cpu-ikj", "--out", "records.jsonl")
    assert is_one_line(done)
    assert "bad.npy" in done.err
    assert sorted(os.listdir()) == before


@pytest.mark.skipif(not find_spec("matplotlib"), reason="no matplotlib")
def test_a_report_on_a_file_that_is_no_matrix_is_one_line(command):
    Path("bad.npy").write_text("1 2\n3 4\n")
    done = command("report", "--smallest", "--input", "bad.npy", "bad.npy")
    assert is_one_line(done)
    assert os.listdir() == ["bad.npy"]


# What cannot be written


@pytest.mark.parametrize("out", ["file/below", "folder", "missing/records.jsonl", "folder/"])
def test_an_out_that_cannot_be_written_is_one_line(command, out):
    Path("file").write_text("mine\n")
    Path("folder").mkdir()
    done = command(*BENCH, "--out", out)
    assert is_one_line(done)
    assert sorted(os.listdir()) == ["file", "folder"]
    assert os.listdir("folder") == []
    assert Path("file").read_text() == "mine\n"


@FULL_DEVICE
def test_an_out_on_a_full_device_is_one_line(command):
    done = command(*BENCH, "--out", "/dev/full")
    assert done.status == 2
    assert done.err.splitlines()[-1] == "gemmlab: cannot write /dev/full: No space left on device"


@FULL_DEVICE
@pytest.mark.parametrize("command", [["info"], ["backends"], ["backends", "--json"]])  # within a buffer, and beyond
def test_output_to_a_full_device_is_one_line(command):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*GEMMLAB, *command], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    lines = done.stderr.splitlines()  # a driver that compiles says so on its own
    assert [line for line in lines if line.startswith("gemmlab: ")] == lines[-1:]
    assert "No space left on device" in lines[-1]


def test_a_reader_that_has_gone_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*GEMMLAB, "backends"], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("wrong", [["--backends", "cpu-bloked"], ["--param", "bs_q=1"]])
def test_what_fails_leaves_an_earlier_file_alone(command, wrong):
    Path("records.jsonl").write_text("earlier\n")
    assert command(*BENCH, *wrong, "--out", "records.jsonl").status == 2
    assert os.listdir() == ["records.jsonl"]
    assert Path("records.jsonl").read_text() == "earlier\n"


@pytest.mark.skipif(not find_spec("matplotlib"), reason="no matplotlib")
def test_roofline_prints_its_ceilings(command, report):
    done = command("roofline", "--from", report[0] / "records.jsonl", "--out", "again")
    (row,) = [line for line in done.out.splitlines() if line.startswith("loads from DRAM")]
    assert row.endswith("GB/s")
    assert "multiply-adds, float32, " in done.out
    assert max(map(len, done.out.splitlines()[:-3])) <= 80


@pytest.mark.parametrize("name", ["report", "roofline"])
def test_a_folder_that_cannot_be_made_is_one_line(command, name):
    Path("file").touch()
    for out in ("file", "file/below"):
        done = command(name, "--out", out)
        assert is_one_line(done)
        assert "--out" in done.err
    assert os.listdir() == ["file"]


# Ended early: 130 and 143


# SIGINT may be ignored where the tests run, as in a shell's background.
INTERRUPTIBLE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from gemmlab.cli import main
sys.exit(main())
"""
ENDINGS = {signal.SIGINT: (130, "interrupted"), signal.SIGTERM: (143, "terminated")}


def end_early(number, partial, *arguments):
    """Run a command until a product is in its partial file, and send it a signal: its exit status, out and err."""
    command = subprocess.Popen(
        [sys.executable, "-P", "-c", INTERRUPTIBLE, *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while not (partial.exists() and '"gemm"' in partial.read_text()):
            assert command.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        command.send_signal(number)
        out, err = command.communicate(timeout=120)
    finally:
        command.kill()
        command.wait()
    return SimpleNamespace(status=command.returncode, out=out, err=err)


LONG_BENCH = ["bench", "--backends", "cpu-naive", "--sizes", "8,6000", "--cap", "10000", *BRIEF, "--out"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals as on Unix")
@pytest.mark.parametrize("number", swept(reversed(ENDINGS)))
def test_a_bench_that_is_ended_keeps_what_was_measured(tmp_path, number):
    records = tmp_path / "records.jsonl"
    done = end_early(number, tmp_path / "records.jsonl.partial", *LONG_BENCH, records)
    assert (done.status, done.err.splitlines()[-1]) == ENDINGS[number]
    assert "Traceback" not in done.err
    assert "cpu-naive" in done.out
    assert [record["problem"]["m"] for record in products(read(records))] == [8]
    assert os.listdir(tmp_path) == ["records.jsonl"]


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform == "win32", reason="signals as on Unix")
def test_the_records_of_a_killed_bench_are_not_overwritten(tmp_path):
    records = tmp_path / "records.jsonl"
    killed = end_early(signal.SIGKILL, tmp_path / "records.jsonl.partial", *LONG_BENCH, records)
    assert killed.status == -signal.SIGKILL
    done = run_python("-m", "gemmlab", *BENCH, "--out", records)
    assert done.returncode == 0
    assert f"gemmlab: {records}.partial is of a run that was killed; it is kept as {records}.killed-1\n" in done.stderr
    assert [record["problem"]["m"] for record in products(read(f"{records}.killed-1"))] == [8]
    assert sorted(os.listdir(tmp_path)) == ["records.jsonl", "records.jsonl.killed-1"]


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform == "win32", reason="signals as on Unix")
@pytest.mark.skipif(not (find_spec("matplotlib") and find_spec("jinja2")), reason="needs matplotlib and jinja2")
@pytest.mark.parametrize("number", ENDINGS)
def test_a_report_that_is_ended_is_a_page_about_what_was_measured(tmp_path, number):
    np.save(tmp_path / "square.npy", np.ones((6000, 6000), np.float32))
    own = ["--input", tmp_path / "square.npy", tmp_path / "square.npy"]
    folder = tmp_path / "page"
    partial = folder / "records.jsonl.partial"
    done = end_early(number, partial, "report", "--smallest", *own, "--backends", "cpu-numpy", "--out", folder)
    assert (done.status, done.err.splitlines()[-1]) == ENDINGS[number]
    assert "cpu-numpy" in (folder / "index.html").read_text(encoding="utf-8")
    assert products(read(folder / "records.jsonl"))
    assert not partial.exists()


# The main job


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The smallest report of three backends and a user's own matrices: the folder, and what was printed."""
    if not (find_spec("matplotlib") and find_spec("jinja2")):
        pytest.skip("the report needs matplotlib and jinja2")
    folder = tmp_path_factory.mktemp("report")
    np.save(folder / "a.npy", np.ones((30, 40), np.float32))
    np.save(folder / "b.npy", np.ones((40, 50), np.float32))
    own = ["--input", folder / "a.npy", folder / "b.npy"]
    backends = ["--backends", "cpu-naive,cpu-blocked,cpu-numpy"]
    done = run_python("-m", "gemmlab", "report", "--smallest", *own, *backends, "--out", folder / "page", timeout=300)
    assert done.returncode == 0, done.stderr
    return folder / "page", done


def test_a_report_is_a_page_with_its_records(report):
    folder, done = report
    assert done.stdout.splitlines()[-1] == str(folder / "index.html")
    assert "Fastest here: " in done.stdout
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert all(name in page for name in ("cpu-naive", "cpu-blocked", "cpu-numpy"))
    assert not list(folder.glob("*.partial"))


def test_a_report_measures_ceilings_every_backend_and_your_matrices(report):
    records = read(report[0] / "records.jsonl")
    assert {record["kind"] for record in records} == {"ceiling", "gemm"}
    measured = products(records)
    assert {record["backend"] for record in measured} == {"cpu-naive", "cpu-blocked", "cpu-numpy"}
    assert {record["status"] for record in measured} == {"ok"}
    assert len([record for record in measured if record["problem"]["suite"] == "files"]) == 3


@pytest.mark.parametrize("name", ["report", "roofline"])
def test_records_are_drawn_again_without_measuring(command, report, name):
    done = command(name, "--from", report[0] / "records.jsonl", "--out", "again")
    assert done.status == 0
    drawn = [Path(line) for line in done.out.splitlines() if line.endswith((".html", ".png", ".svg"))]
    assert drawn
    assert all(path.is_file() for path in drawn)
    assert not Path("again", "records.jsonl").exists()


@pytest.mark.parametrize("name", ["report", "roofline"])
def test_records_are_not_drawn_where_nothing_can_be_written(command, report, name):
    Path("file").touch()
    done = command(name, "--from", report[0] / "records.jsonl", "--out", "file/below")
    assert is_one_line(done)
    assert os.listdir() == ["file"]


@pytest.mark.skipif(not find_spec("matplotlib"), reason="no matplotlib")
@pytest.mark.parametrize("text", ["", "not json\n", "{}\n", "[]\n"])
@pytest.mark.parametrize("name", ["report", "roofline"])
def test_a_file_that_holds_no_records_is_one_line(command, name, text):
    Path("records.jsonl").write_text(text)
    assert is_one_line(command(name, "--from", "records.jsonl", "--out", "page"))
    assert os.listdir() == ["records.jsonl"]
