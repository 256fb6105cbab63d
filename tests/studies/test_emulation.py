"""The study emulation: measured by its command, drawn again from its records, and what its tables say."""

from __future__ import annotations

import json
from importlib.util import find_spec

import numpy as np
import pytest

from gemmlab.cli import main
from gemmlab.measure.records import read
from gemmlab.studies.rungs import emulation

pytestmark = pytest.mark.skipif(not find_spec("matplotlib") or not find_spec("jinja2"), reason="needs the extra report")
K = 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("study")
    assert main(["study", "emulation", "--quick", "--sizes", str(K), "--out", str(out)]) == 0
    return out


def errors(folder, key):
    """By the line of the table, then by input."""
    found = {}
    for record in read(str(folder / "records.jsonl")):
        assert record["status"] == "ok", record
        found.setdefault(emulation.title(record), {})[record["problem"]["label"]] = record[key]
    return found


def test_its_files_and_its_text(folder, tmp_path, capsys):
    assert {path.name for path in folder.iterdir()} == {
        "emulation.txt", "emulation.svg", "emulation.png", "records.jsonl"}  # fmt: skip
    text = (folder / "emulation.txt").read_text(encoding="utf-8")
    assert f"Largest error by |A||B|, float64, k = {K}" in text
    assert max(map(len, text.splitlines())) <= 80
    again = ["study", "emulation", "--from", str(folder / "records.jsonl"), "--out", str(tmp_path / "again"), "--json"]
    assert main(again) == 0
    assert json.loads(capsys.readouterr().out)["study"] == "emulation"
    assert (tmp_path / "again" / "emulation.txt").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(("key", "dtype", "scheme"), [
    ("error_norms", "float32", "8 moduli"), ("error_norms", "float64", "15 moduli"),
    ("error_norms", "float32", "f16-pairs"), ("error_componentwise", "float32", "bf16x6"),
    ("error_componentwise", "float32", "bf16x9"),
])  # fmt: skip
def test_the_error_is_no_larger_than_that_of_the_plain_product(folder, key, dtype, scheme):
    found = errors(folder, key)
    emulated, plain = found[f"{dtype} {scheme}"], found[f"{dtype} cpu-packed"]
    assert set(emulated) == set(emulation.INPUTS)
    # Two float16 numbers have 22 bits of a float32's 24: that is seen where rounding errors cancel as the sums do.
    allowed = {"cancelling"} if scheme == "f16-pairs" else set()
    assert {name for name in emulated if emulated[name] > plain[name]} <= allowed


def test_the_inputs_are_the_same_every_time_and_of_their_kind():
    for inputs in emulation.INPUTS:
        first, second = (emulation.operands(inputs, K, "float64") for _ in range(2))
        assert all(np.array_equal(x, y) for x, y in zip(first, second, strict=True))
    a, b = emulation.operands("cancelling", K, "float64")
    assert np.abs(a @ b).max() < 0.01 * (np.abs(a) @ np.abs(b)).min()
    a, _ = emulation.operands("graded", K, "float64")
    assert np.abs(a[-1]).max() < 1e-9 * np.abs(a[0]).max()


def test_without_records_there_is_no_table():
    assert list(emulation.blocks([])) == []
