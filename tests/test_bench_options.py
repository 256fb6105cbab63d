"""Options of `gemmlab bench`, `gemmlab records` and `gemmlab verify`, through the command line."""

from __future__ import annotations

import csv
import json
import os
import sys
from pathlib import Path

import made_up_records as made
import numpy as np
import pytest
from command import runner
from randomness import RNG
from sweeps import swept

from gemmlab.campaign import measuring, turns
from gemmlab.measure import read, write
from gemmlab.measure.schema import KEYS
from gemmlab.verify.dtypes import DTYPES

BRIEF = ["--rounds", "1", "--budget", "0.01"]
PACKED = ["bench", "--backends", "cpu-packed", *BRIEF]


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    """Runs a command in this process, in an empty folder: status, out and err."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(turns, "isolated_ceilings", lambda **_: [])
    monkeypatch.setattr(measuring.probe_loop, "COMMAND", None)
    return runner(capsys)


def products_of(done):
    assert done.status == 0, done.err
    return [record for record in json.loads(done.out) if record["kind"] == "gemm"]


def widest(text):
    return max(map(len, text.splitlines()))


# Names and files


def test_names_have_commas_or_spaces_between_them(command):
    for names in (["cpu-packed,cpu-ikj"], ["cpu-packed", "cpu-ikj"]):
        found = products_of(command("bench", "--backends", *names, *BRIEF, "--sizes", "8", "--json"))
        assert {record["backend"] for record in found} == {"cpu-packed", "cpu-ikj"}


def test_files_may_follow_names(command):
    for name in ("a.npy", "b.npy"):
        np.save(name, RNG.random((8, 8)))
    (record,) = products_of(command("bench", *BRIEF, "--json", "--backends", "cpu-packed", "a.npy", "b.npy"))
    assert (record["backend"], record["problem"]["suite"]) == ("cpu-packed", "files")


LISTED = """name,m,n,k,batch,dtype,layout
second,8,8,8,,int8,
"the first, long ago",70,5,9,3,,CFC

,4,4,4,,float64,
"""


def test_listed_products_keep_their_order_and_names(command):
    Path("cases.csv").write_text(LISTED, encoding="utf-8-sig")
    done = command("bench", "--backends", "cpu-packed", "cpu-blas", *BRIEF, "--cases", "cases.csv", "--out", "r.jsonl")
    assert done.status == 0, done.err
    places = [done.out.index(name) for name in ("second: N = 8, int8.", "the first, long ago: m", "4: N = 4, float64.")]
    assert places == sorted(places)
    assert widest(done.out) <= 80
    assert "cpu-blas skipped: cpu-blas multiplies float32 and float64" in done.out
    again = command("records", "r.jsonl", "--cases", "cases.csv")
    assert done.out.strip() in again.out
    Path("one.csv").write_text("k,n,m,name\n4,4,4,mine", encoding="utf-8")
    assert command("records", "r.jsonl", "--cases", "one.csv").status == 2  # measured in float64
    found = {(record["problem"]["label"], record["problem"]["batch"]) for record in read("r.jsonl")
             if record["kind"] == "gemm"}  # fmt: skip
    assert found == {("second", 1), ("the first, long ago", 3), ("4", 1)}


@pytest.mark.parametrize(("text", "said"), [
    ("", "line 1: the header has no column m, n, k"), ("name,m,n\n", "line 1: the header has no column k"),
    ("m,n,k,colour\n", "line 1: no column is called 'colour'"), ("m,n,k,m\n", "twice"), ("m,n,k\n", "no product"),
    ("m,n,k\n1,2,3\n1,x,3\n", "line 3: n must be an integer of at least 1, not 'x'"),
    ("m,n,k\n1,2\n", "line 2: k is missing"), ("m,n,k\n0,2,3\n", "line 2: m must be"),
    ("m,n,k\n1,2,3,4\n", "line 2: 4 cells below 3 columns"), ("m,n,k,dtype\n1,2,3,f4\n", "line 2: "),
    ("m,n,k,layout\n1,2,3,CCX\n", "line 2: layout must be three letters"), ("m,n,k\n1,2," + 30 * "9", "line 2: k must"),
    ('m,n,k\n1,2,"3', "line 2: "), (b"\xff\xfe", "UTF-8"), (None, "No such file"),
])  # fmt: skip
@pytest.mark.parametrize("asking", swept([["bench"], ["report"], ["records", "r.jsonl"]]))
def test_a_line_that_is_no_product_is_named(command, text, said, asking):
    write("r.jsonl", [made.gemm("cpu-packed")])
    if text is not None:
        Path("cases.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    done = command(*asking, "--cases", "cases.csv")
    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_one_kind_of_product_is_asked_for(command):
    Path("cases.csv").write_text(LISTED, encoding="utf-8")
    assert "one of --sizes, --suite, --cases" in command("bench", "--cases", "cases.csv", "--sizes", "8").err


# Sizes, layouts, dtypes


@pytest.mark.parametrize("sizes", swept([["8,5x9x70", "3*4", "2*3x4x5"], ["8 5x9x70,3*4 2*3X4X5"]]))
def test_sizes_are_squares_shapes_and_batches(command, sizes):
    found = {tuple(record["problem"][key] for key in ("label", "batch", "m", "n", "k"))
             for record in products_of(command(*PACKED, "--sizes", *sizes, "--json"))}  # fmt: skip
    assert found == {
        ("8", 1, 8, 8, 8), ("5x9x70", 1, 5, 9, 70), ("3*4", 3, 4, 4, 4), ("2*3x4x5", 2, 3, 4, 5)
    }  # fmt: skip


@pytest.mark.parametrize("sizes", ["8x8", "0", "8x0x8", "0*8", "8xx8", "8x8x8x8", "-8", "8.5", "", ",", "a", "9" * 10])
def test_sizes_that_are_none_are_wrong_usage(command, sizes):
    done = command(*PACKED, f"--sizes={sizes}")
    assert (done.status, done.out) == (2, "")
    assert "Traceback" not in done.err


@pytest.mark.parametrize("backend", swept(["cpu-packed", "cpu-naive", "cpu-numpy", "cpu-blas", "cpu-blocked"]))
@pytest.mark.parametrize("layout", swept(["SFF", "FCC", "CFC", "CCF", "css"]))
def test_operands_and_result_are_in_the_layout_asked_for(command, backend, layout):
    done = command("bench", "--backends", backend, *BRIEF, "--sizes", "9x33x20", "2*8", "--layout", layout, "--json")
    for record in products_of(done):
        assert (record["status"], record["problem"]["layout"]) == ("ok", layout.upper())
        assert record["error_over_bound"] <= 1


@pytest.mark.parametrize("layout", ["CFCC", "CXC", ""])
def test_a_layout_that_is_none_is_one_line(command, layout):
    done = command(*PACKED, "--sizes", "8", f"--layout={layout or ' '}")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert "layout must be three letters" in done.err


@pytest.mark.parametrize("dtype", swept(["int8", *DTYPES]))
def test_every_dtype_is_measured_and_checked(command, dtype):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    m, n, k = RNG.integers(1, 200, 3)
    done = command("bench", "--backends", "cpu-packed,cpu-numpy", *BRIEF, "--sizes", f"{m}x{n}x{k}", "150",
                   "--dtype", dtype, "--json")  # fmt: skip
    found = products_of(done)
    assert {(record["status"], record["problem"]["dtype"]) for record in found} == {("ok", dtype)}
    assert {record["backend"] for record in found} == {"cpu-packed", "cpu-numpy"}


def test_a_backend_without_the_dtype_is_left_out_with_one_line(command):
    done = command("bench", "--backends", "cpu-ikj,cpu-packed", *BRIEF, "--sizes", "8", "9", "--dtype", "int8")
    assert done.status == 0
    assert done.err.count("cpu-ikj left out: cpu-ikj multiplies float32 and float64, not int8") == 1
    assert "cpu-ikj" not in done.out
    assert "int8 on " in done.out
    done = command("bench", "--backends", "cpu-ikj", *BRIEF, "--sizes", "8", "--dtype", "int8")
    assert (done.status, done.out) == (2, "")
    assert done.err.count("cpu-ikj multiplies float32") == 1
    assert done.err.endswith("gemmlab: no backend is left that multiplies int8\n")


def test_verify_leaves_out_a_backend_without_the_dtype(command):
    done = command("verify", "cpu-ikj", "cpu-packed", "--dtype", "int8")
    assert (done.status, done.out.splitlines()[0].split(",")[0]) == (0, "cpu-packed: passed")
    assert "cpu-ikj" not in done.out
    assert "left out, as they do not multiply int8: cpu-ikj\n" in done.err
    done = command("verify", "cpu-ikj", "--dtype", "int8,float16")
    assert (done.status, done.out) == (2, "")
    assert done.err == "gemmlab: no backend is left that multiplies int8 or float16\n"


@pytest.mark.parametrize("name", ["bench", "report", "verify"])
def test_a_dtype_that_is_none_is_one_line(command, name):
    done = command(name, "--dtype", "float8")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert "bfloat16" in done.err


def test_a_wrong_integer_is_found():
    from gemmlab.measure.isolated.worker import check

    for dtype, size in (("int8", 200), ("uint64", 200), ("bool", 20)):
        a, b = (RNG.integers(0, 2, (size, size)).astype(dtype) for _ in "ab")
        c = a @ b
        assert check(a, b, c) == 0
        c[size // 2, size // 3] ^= 1
        assert check(a, b, c) > 1


# Sweeps, cold caches


def test_several_values_of_parameters_are_each_measured(command):
    sweep = ["--param", "bs_r=4,16", "--param", "bs_c=8,24", "--param", "schedule=static"]
    done = command("bench", "--backends", "cpu-blocked", *BRIEF, "--sizes", "33", *sweep, "--out", "r.jsonl")
    assert done.status == 0
    params = [record["params"] for record in read("r.jsonl") if record["kind"] == "gemm"]
    assert sorted((one["bs_r"], one["bs_c"]) for one in params) == [(4, 8), (4, 24), (16, 8), (16, 24)]
    assert all(f"bs_r={r} bs_c={c} " in done.out for r in (4, 16) for c in (8, 24))
    assert "schedule" not in done.out
    assert widest(done.out) <= 80


def test_a_value_that_a_backend_does_not_take_is_one_line(command):
    done = command("bench", "--backends", "cpu-blocked", "--sizes", "8", "--param", "bs_r=4,0", "--out", "r.jsonl")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert os.listdir() == []


@pytest.mark.exhaustive
def test_cold_empties_the_caches_before_each_call_and_says_so(command):
    done = command("bench", "--backends", "cpu-packed", *BRIEF, "--sizes", "33", "--cold", "--out", "cold.jsonl")
    assert done.status == 0
    assert ", cold caches\n" in done.out
    (record,) = (record for record in read("cold.jsonl") if record["kind"] == "gemm")
    assert (record["cold"], record["calls_per_sample"]) == (True, 1)
    warm = command(*PACKED, "--sizes", "33", "--against", "cold.jsonl")
    assert warm.status == 2
    assert "nothing in common" in warm.err


# Rows


def test_a_csv_file_has_a_row_for_each_record_and_the_same_columns(command):
    done = command(*PACKED, "--sizes", "8", "5x9x70", "--out", "r.jsonl", "--csv", "r.csv")
    assert done.status == 0
    records = read("r.jsonl")
    with open("r.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["kind"] for row in rows] == [record["kind"] for record in records]
    for row, record in zip(rows, records, strict=True):
        assert float(row["median_s"]) == record["median_s"]
        assert row["environment_cpu"] == record["environment"]["cpu"]
        assert (row["m"], row["n"], row["k"]) == tuple(
            str(record.get("problem", {}).get(side, "")) for side in ("m", "n", "k")
        )
    scalars = {key for keys in KEYS.values() for key in keys} - {"problem", "environment"}
    assert scalars | {"batch", "layout", "environment_cache_l2_bytes"} <= set(rows[0])
    assert command("records", "r.jsonl", "--csv", "again.csv").status == 0
    assert Path("again.csv").read_bytes() == Path("r.csv").read_bytes()
    assert sorted(os.listdir()) == ["again.csv", "r.csv", "r.jsonl"]


def test_records_are_shown_as_a_table_and_as_json(command):
    write("one.jsonl", made.ladder([64]))
    write("two.jsonl", made.ceilings())
    done = command("records", "one.jsonl", "two.jsonl")
    assert done.status == 0
    assert "cpu-blocked-local" in done.out
    assert f"8 products, {len(made.ceilings())} ceilings" in done.out
    assert widest(done.out) <= 80
    assert json.loads(command("records", "one.jsonl", "--json").out) == read("one.jsonl")


@pytest.mark.parametrize("text", ["", "{}\n", "not json\n"])
def test_what_holds_no_records_is_one_line(command, text):
    Path("r.jsonl").write_text(text)
    done = command("records", "r.jsonl", "--csv", "r.csv")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert os.listdir() == ["r.jsonl"]


def test_rows_are_not_written_over_records(command):
    write("r.jsonl", made.ladder([64]))
    before = Path("r.jsonl").read_bytes()
    bench = [*PACKED, "--sizes", "8"]
    for arguments in (
        ["records", "r.jsonl", "--csv", "./r.jsonl"],
        [*bench, "--out", "new", "--csv", "new"],
        [*bench, "--against", "r.jsonl", "--csv", "r.jsonl"],
    ):
        done = command(*arguments)
        assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
        assert "is the file of records" in done.err
    assert Path("r.jsonl").read_bytes() == before
    assert os.listdir() == ["r.jsonl"]


def test_a_csv_file_that_cannot_be_written_is_found_before_measuring(command):
    done = command(*PACKED, "--sizes", "8", "--csv", "no/such/folder.csv", "--out", "r.jsonl")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert os.listdir() == []


# Slower than before


def earlier(records, factor, noisy=False):
    """The same records, taken in `factor` of the time."""
    times = ("median_s", "p20_s", "p80_s", "min_s")
    for record in records:
        if record["kind"] == "gemm":
            record |= {key: record[key] * factor for key in times} | {"noisy": noisy}
            record |= {"gflop_per_s": record["gflop_per_s"] / factor, "probe_gflop_per_s": None}
    return records


@pytest.fixture
def not_noisy(monkeypatch):
    """No new record is noisy."""
    monkeypatch.setattr("gemmlab.measure.noise.why_noisy", lambda *_: None)


def test_a_slower_product_fails(command, not_noisy):
    assert command(*PACKED, "--sizes", "64", "--out", "now.jsonl").status == 0
    write("faster.jsonl", earlier(read("now.jsonl"), 1e-4))
    done = command(*PACKED, "--sizes", "64", "--against", "faster.jsonl", "--fail-if-slower", "5")
    assert done.status == 1
    assert "slower by more than 5 %: cpu-packed at 64 in float32" in done.err


def test_noise_leaves_open_only_what_its_interval_holds(command, not_noisy):
    assert command(*PACKED, "--sizes", "64", "--out", "now.jsonl").status == 0
    fail = ["--against", "then.jsonl", "--fail-if-slower", "5"]
    write("then.jsonl", earlier(read("now.jsonl"), 1e4))
    assert command(*PACKED, "--sizes", "64", *fail).status == 0
    write("then.jsonl", earlier(read("now.jsonl"), 1e-4, noisy=True))
    assert command(*PACKED, "--sizes", "64", *fail).status == 1
    wide = read("now.jsonl")[0]
    open_ = {"min_s": wide["median_s"] / 100, "p20_s": wide["median_s"] / 100, "p80_s": 100 * wide["median_s"]}
    write("then.jsonl", [wide | open_])
    done = command(*PACKED, "--sizes", "64", *fail)
    assert done.status == 3
    assert "may be slower by more than 5 %: cpu-packed at 64 in float32" in done.err
    assert "inconclusive: measure again" in done.err


def test_a_baseline_is_timed_in_turn(command, not_noisy):
    done = command(*PACKED, "--sizes", "64", "--paired", "cpu-numpy")
    assert done.status == 0
    assert "this run (new) against cpu-numpy (old): 1 product in both." in done.out
    assert "other parameters" not in done.out
    slow = command("bench", "--backends", "cpu-naive", *BRIEF, "--sizes", "256", "--paired", "cpu-numpy",
                   "--fail-if-slower", "5")  # fmt: skip
    assert slow.status == 1, slow.err


def test_another_python_is_a_baseline(command, not_noisy):
    done = command(*PACKED, "--sizes", "64", "--paired", sys.executable, "--out", "now.jsonl")
    assert done.status == 0
    assert "1 product in both." in " ".join(done.out.split())
    assert [record["backend"] for record in read("now.jsonl")] == ["cpu-packed"]


@pytest.mark.parametrize(("what", "said"), [
    (["--paired", "cpu-nosuch"], "cpu-nosuch"), (["--paired", "no/such/python"], "no/such/python is no Python"),
    (["--paired", "cpu-numpy", "--against", "a.jsonl"], "one of --against and --paired"),
])  # fmt: skip
def test_a_baseline_that_is_none(command, what, said):
    done = command(*PACKED, "--sizes", "8", *what)
    assert (done.status, done.out) == (2, "")
    assert said in done.err


@pytest.mark.parametrize("percent", ["5", "-1", "100", "x", "nan"])
def test_fail_if_slower_needs_an_earlier_run_and_per_cent(command, percent):
    done = command(*PACKED, "--sizes", "8", f"--fail-if-slower={percent}")
    assert (done.status, done.out) == (2, "")
