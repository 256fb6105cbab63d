"""What makes rows of the table out of records, and what compares `auto` with NumPy."""

from __future__ import annotations

import importlib.util
import json

import made_up_records as made
import pytest
from helpers import ROOT
from randomness import RNG

from gemmlab.measure import read, write

SHAPES = [(300 + 10 * i, 400, 5) for i in range(6)]  # of short k


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "bench" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_of(ratios, backends=("cpu-packed", "cpu-numpy"), shapes=SHAPES, **options):
    """Records of one run: ours has these ratios to NumPy's speed."""
    ours = [made.gemm(backends[0], shape, 100.0 * x, **options) for shape, x in zip(shapes, ratios, strict=False)]
    numpys = [made.gemm(backends[1], shape, 100.0, **options) for shape in shapes]
    return [*ours, *numpys]


@pytest.fixture
def files(tmp_path):
    """Writes runs, and returns their paths."""

    def written(*runs):
        paths = [tmp_path / f"{i}.jsonl" for i in range(len(runs))]
        for path, records in zip(paths, runs, strict=True):
            write(path, records)
        return [str(path) for path in paths]

    return written


@pytest.mark.parametrize(("first", "second", "verdict"), [
    ([0.7] * 6, [0.8] * 6, "a row"),
    ([0.7] * 6, [0.96] * 6, "no row"),
    ([0.7] * 6, [0.94] * 6, "within noise"),  # p20 to p80 of both are 3 % wide
    ([0.5] * 5 + [1.5], [0.5] * 5 + [1.6], "mixed: cpu-packed is ahead at a shape"),
    ([0.5] * 5 + [1.5], [0.5] * 5 + [0.9], "a row"),  # ahead in one run only
    ([0.7] * 4, [0.7] * 4, "not measured: fewer than 5 shapes"),
])  # fmt: skip
def test_a_row_takes_a_gap_in_both_runs(first, second, verdict, files):
    (line,) = tool("auto_table").table(*files(run_of(first), run_of(second)))
    assert (line["verdict"], line["shape_class"], line["threads"]) == (verdict, "short k", 2)
    assert (line["processor"], line["library"]) == ("AuthenticAMD-25-33", "openblas 0.3")


def test_marks_of_noise_keep_a_row_away(files):
    quiet, noisy = run_of([0.85] * 6), run_of([0.85] * 6, noisy=True, interval_percent=8.0)
    module = tool("auto_table")
    assert [module.table(*files(quiet, second))[0]["verdict"] for second in (quiet, noisy)] == ["a row", "within noise"]


def test_rows_are_stored_in_place_of_those_of_the_same_class(files, tmp_path, monkeypatch, capsys):
    module = tool("auto_table")
    monkeypatch.setattr(module, "TABLE", tmp_path / "auto.json")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    (tmp_path / "auto.json").write_text('{"rows": []}')
    float32, float64 = (run_of([0.7] * 6, dtype=dtype) for dtype in ("float32", "float64"))
    paths = files(float32 + float64, float32 + float64)
    with pytest.raises(SystemExit):
        module.main([*paths, "--write"])
    assert "is not in docs/measured/" in capsys.readouterr().err
    (tmp_path / "docs" / "measured").mkdir(parents=True)
    monkeypatch.setattr(module, "kept_names", lambda names: ["docs/measured/0.jsonl", "docs/measured/1.jsonl"])
    assert module.main([*paths, "--write"]) == 0
    rows = json.loads((tmp_path / "auto.json").read_text())["rows"]
    assert [(row["dtype"], row["ratios"]) for row in rows] == [("float32", [0.7, 0.7]), ("float64", [0.7, 0.7])]
    healed = run_of([1.1] * 6)
    assert module.main([*files(healed, healed), "--write"]) == 0
    assert [row["dtype"] for row in json.loads((tmp_path / "auto.json").read_text())["rows"]] == ["float64"]


@pytest.mark.parametrize(("records", "why"), [
    ([made.gemm("cpu-packed")], "no product in common"),
    ([made.gemm("cpu-packed", environment=made.environment(processor=None))], "measure again"),
])  # fmt: skip
def test_records_that_make_no_row_are_one_line(records, why, files, capsys):
    with pytest.raises(SystemExit) as end:
        tool("auto_table").main(files(records, records))
    assert end.value.code == 2
    assert why in capsys.readouterr().err


def test_random_problems_are_of_all_kinds_and_the_same_for_a_seed():
    module, seed = tool("auto_vs_numpy"), int(RNG.integers(10**6))
    cases = module.problems(seed, 4000)
    assert cases == module.problems(seed, 4000)
    assert {case.dtype for case in cases} == set(module.DTYPES)
    assert {case.label for case in cases} == set(module.ENDS)
    assert {case.layout[:2] for case in cases} == {a + b for a in "CFS" for b in "CFS"}


def test_a_problem_is_below_in_both_runs_beyond_noise(files, capsys):
    module, both = tool("auto_vs_numpy"), ("auto", "cpu-numpy")
    first = run_of([0.5, 0.94, 0.7, 1.2], both, params={"kc": 256})
    second = run_of([0.6, 0.94, 0.99, 1.2], both, params={"kc": 256})
    first[3]["params"] = {}  # np.matmul has none
    assert module.main(["--from", *files(first, second)]) == 1
    out = capsys.readouterr().out
    assert "below 0.95 beyond noise: 1\nfloat32     CCC  300x400x5" in out
    assert "below 0.95, within noise: 2\n" in out
    assert "4 problems, 2 not measured" in out
    assert "by way of NumPy: 25%" in out
    assert module.main(["--from", *files(run_of([1.2], both))]) == 0


def test_auto_is_measured_as_it_is_called(tmp_path):
    module = tool("auto_vs_numpy")
    out = tmp_path / "records.jsonl"
    options = ["--rounds", "1", "--budget", "0.001", "--threads", "1", "--count", "2", "--out", str(out)]
    assert module.main(["--seed", "1", *options]) in (0, 1)
    assert [record["backend"] for record in read(out)].count("auto") == 2
    assert all(record["status"] == "ok" and record["params"] for record in read(out) if record["backend"] == "auto")
