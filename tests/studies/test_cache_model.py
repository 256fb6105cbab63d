"""The study cache-model: measured by its command, drawn again from its records, and what it says of them."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec

import pytest

from gemmlab import studies
from gemmlab.cli import main
from gemmlab.measure import read
from gemmlab.measure.comparison import is_good
from gemmlab.studies import STUDIES, Options, cache_model

pytestmark = pytest.mark.skipif(not find_spec("matplotlib") or not find_spec("jinja2"), reason="needs the extra report")
STUDY = STUDIES["cache-model"]
KEYS = [f"bytes_{way}_{level}" for way in ("model", "simulated") for level in ("l2", "l3", "dram")]


def nothing(*step):
    """A progress display that shows nothing."""


def pair(name="cpu-ikj", n=512, model=100e6, simulated=100e6, one_set=100e6):
    """Records of a rung at a size, made up."""
    record = {
        "kind": "gemm", "status": "ok", "backend": name, "median_s": None, "bytes_compulsory": 24 * n * n,
        "params": {"bs_r": 180, "bs_c": 48, "bs_k": 48} if "blocked" in name else {},
        "problem": {"suite": "cache-model", "label": str(n), "m": n, "n": n, "k": n, "dtype": "float64"},
    }  # fmt: skip
    first = record | dict.fromkeys(KEYS[:3], model) | dict.fromkeys(KEYS[3:], simulated)
    second = first | dict.fromkeys(KEYS[3:], one_set)
    return [first, second | {"problem": record["problem"] | {"label": f"{n}, fully associative"}}]


def said(records):
    """What is said of memory."""
    return " ".join("\n".join(cache_model.blocks(records)).partition("Megabytes from L3")[0].split())


def test_the_command_simulates_writes_records_and_draws_again(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["study", "cache-model", "--sizes", "24,40"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "18 of 18 are within 15 % of the simulation." in out
    assert "Megabytes from memory" in out
    folder = tmp_path / "study-cache-model"
    assert {path.name for path in folder.iterdir()} == {"cache-model.txt", "records.jsonl"}
    records = read(folder / "records.jsonl")
    assert len(records) == 9 * 2 * 2
    for record in records:
        assert (record["status"], record["median_s"], record["threads"]) == ("ok", None, 1)
        assert all(record[key] > 0 for key in KEYS)
        assert not is_good(record)  # to all that is drawn of times
    text = (folder / "cache-model.txt").read_text()
    assert main(["study", "cache-model", "--from", str(folder / "records.jsonl"), "--out", "again", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["study"] == "cache-model"
    assert (tmp_path / "again" / "cache-model.txt").read_text() == text


def test_a_product_that_is_too_large_is_skipped_with_the_reason(tmp_path):
    study = replace(STUDY, entries=STUDY.entries[:1])
    outcome = studies.run(study, Options(sizes=(16, 2000)), tmp_path, nothing)
    assert [record["status"] for record in outcome.records] == ["ok", "ok", "skipped"]
    assert "Not measured: cpu-naive at N 2000, skipped: 2000 x 2000 x 2000 takes" in " ".join(outcome.text.split())


def test_it_runs_on_no_runtime(tmp_path):
    with pytest.raises(ValueError, match="runs on the CPU alone"):
        studies.run(STUDY, Options(runtimes=("opencl",)), tmp_path, nothing)


def test_half_of_a_pair_is_no_row():
    assert cache_model.simulated(pair()[:1], "dram") == []
    assert list(cache_model.blocks([])) == []


def test_what_is_right_needs_no_reason():
    assert said(pair(simulated=110e6)).endswith("1 of 1 are within 15 % of the simulation.")


def test_conflict_misses_are_named():
    text = said(pair(simulated=300e6, one_set=102e6))
    assert "0 of 1 are within 15 %" in text
    assert "* cpu-ikj at N = 512: conflict misses." in text


def test_other_differences_are_named():
    assert "* cpu-ikj at N = 512: not conflict misses." in said(pair(simulated=300e9, one_set=300e9))
