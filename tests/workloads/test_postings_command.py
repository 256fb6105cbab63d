"""`gemmlab postings`: what is found, its check, and what is refused in one line."""

from __future__ import annotations

import json

import pytest
from command import runner
from randomness import fresh_seed

from gemmlab.workloads import postings


@pytest.fixture
def command(capsys):
    return runner(capsys)


@pytest.fixture
def files(tmp_path):
    index, queries = postings.generate(scale=0.002, seed=fresh_seed())
    index.write(tmp_path / "index")
    postings.write_queries(tmp_path / "queries", queries)
    return index, queries, tmp_path


def test_what_is_found_in_80_columns(command, files):
    index, queries, folder = files
    found = command("postings", folder / "index", folder / "queries", "--out", folder / "found")
    assert (found.status, max(map(len, found.out.splitlines()[:-1])) <= 80) == (0, True)
    assert "as NumPy finds them" in found.out
    written = postings.Index.read(folder / "found")
    assert [ids.tolist() for ids in written] == [ids.tolist() for ids in postings.intersect(index, queries)]


@pytest.mark.parametrize("method", ["merge", "bitmap"])
def test_json_has_the_counts(command, files, method):
    index, queries, folder = files
    found = json.loads(command("postings", folder / "index", folder / "queries", "--method", method, "--json").out)
    assert found["counts"] == [len(ids) for ids in postings.intersect(index, queries)]
    assert (found["right"], found["lists"]) == (True, 1756)


def test_a_wrong_result_fails_the_check(command, files, monkeypatch):
    _, queries, folder = files
    monkeypatch.setattr(postings, "intersect", lambda *arguments, **others: [[1, 2, 3]] * len(queries))
    found = command("postings", folder / "index", folder / "queries")
    assert found.status == 1
    assert "NOT what NumPy finds" in found.out


def test_what_makes_no_sense_is_one_line(command, files):
    _, _, folder = files
    (folder / "cut").write_bytes((folder / "index").read_bytes()[:-4])
    (folder / "far").write_text("1756\n", encoding="utf-8")
    for arguments, says in (
        (("index", "missing"), "No such file"),
        (("cut", "queries"), "says at byte"),
        (("index", "far"), "query 0 has list 1756; the index has 1756"),
        (("index", "queries", "--method", "hash"), "no method 'hash'"),
        (("index", "queries", "--backend", "hip"), "no backend 'hip'"),
    ):
        found = command("postings", folder / arguments[0], folder / arguments[1], *arguments[2:])
        assert (found.status, found.out) == (2, "")
        assert says in found.err.splitlines()[-1]
