"""gemmlab tune finds what is fastest, keeps it in the profile, and products follow it."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from fresh_profile import profile_in
from helpers import output_of
from randomness import RNG

import gemmlab
from gemmlab import UnsupportedProblem, _profile, cli, tune
from gemmlab._cpu import _driver, isa
from gemmlab.tune import auto, blocks

SMALL = {"rounds": 1, "edges": (48, 64)}
MACHINE = isa.profile_name()


@pytest.fixture(autouse=True)
def own_profile(monkeypatch, tmp_path):
    """A profile of the test's own, and a backend that has read none."""
    with profile_in(tmp_path, monkeypatch):
        yield


def in_force(dtype="float32"):
    a = np.ones((60, 60), dtype)
    with gemmlab.trace() as calls:
        gemmlab.matmul(a, a, backend="cpu-packed")
    return calls[0].params


def faster(name, value):
    """Speeds under which one value of one parameter wins."""

    def speeds(chosen, choices, squares, rounds):
        return [10.0 if choice[name] == value else 5.0 for choice in choices]

    return speeds


def test_what_wins_is_kept_and_followed(monkeypatch):
    usual = in_force()
    monkeypatch.setattr(blocks, "_speeds", faster("kc", 192))
    monkeypatch.setattr(blocks, "_team_flop", lambda *given: 50_000)
    (found,) = tune.tune("cpu-packed", ["float32"], **SMALL)
    best = {**usual, "kc": 192, "team_flop": 50_000}
    assert found == tune.Tuned("float32", best, 5.0, 10.0)
    assert in_force() == {**usual, "kc": 192}
    assert in_force("float64")["kc"] != 192
    kept = json.loads(_profile.path().read_text())
    assert kept == {"version": 1, "machines": {MACHINE: {"cpu-packed": {"float32": best}}}}


def test_another_process_follows_the_profile(monkeypatch, tmp_path):
    monkeypatch.setattr(blocks, "_speeds", faster("mc", 84))
    tune.tune("cpu-packed", ["float64"], **SMALL)
    ask = "import gemmlab; print(gemmlab.get_backend('cpu-packed').default_blocks('float64', 'float64')[0])"
    assert output_of(ask, GEMMLAB_CACHE_DIR=str(tmp_path)) == "84\n"


def test_without_a_winner_the_defaults_stay_and_nothing_is_pinned(monkeypatch):
    usual = in_force()
    monkeypatch.setattr(blocks, "_speeds", lambda chosen, choices, squares, rounds: [7.0 for _ in choices])
    monkeypatch.setattr(blocks, "_team_flop", lambda *given: 50_000)
    (found,) = tune.tune("cpu-packed", ["float32"], **SMALL)
    assert found.parameters == {**usual, "team_flop": 50_000}
    assert _profile.parameters(MACHINE, "cpu-packed", "float32") == {"team_flop": 50_000}
    assert in_force() == usual


def test_a_winner_with_wrong_products_is_not_taken(monkeypatch):
    usual = in_force()
    monkeypatch.setattr(blocks, "_speeds", faster("nc", 768))
    monkeypatch.setattr(blocks, "_is_right", lambda chosen, dtype, choice: choice["nc"] != 768)
    (found,) = tune.tune("cpu-packed", ["float32"], **SMALL)
    assert {**found.parameters, "team_flop": 0} == {**usual, "team_flop": 0}


def test_a_real_search_ends_with_right_products():
    told = []
    found = tune.tune("cpu-packed", **SMALL, progress=lambda *step: told.append(step))
    assert [one.dtype for one in found] == ["float32", "float64"]
    assert all(one.after >= one.before > 0 for one in found)
    assert [(done, of) for done, of, _ in told] == [(i, 6) for i in range(6)]
    a, b = RNG.integers(-8, 9, (2, 300, 300)).astype(float)
    assert np.array_equal(gemmlab.matmul(a, b), a @ b)


def threads_of(edge):
    a = np.ones((edge, edge))
    with gemmlab.trace() as calls:
        gemmlab.matmul(a, a, backend="cpu-packed")
    return calls[0].threads


@pytest.mark.skipif(_driver.max_threads() < 2, reason="one thread is all there is")
def test_threads_follow_what_the_profile_says_of_their_cost():
    _profile.store(MACHINE, "cpu-packed", {"float64": {"team_flop": 2000 * 6 // (_driver.max_threads() + 4)}})
    gemmlab.get_backend("cpu-packed").forget()
    assert (threads_of(8), threads_of(32)) == (1, _driver.max_threads())
    _profile.store(MACHINE, "cpu-packed", {"float64": {"team_flop": 10**9}})
    gemmlab.get_backend("cpu-packed").forget()
    assert threads_of(200) == 1


@pytest.mark.skipif(_driver.max_threads() < 2, reason="one thread is all there is")
def test_what_a_team_costs_is_measured_within_reason():
    packed = gemmlab.get_backend("cpu-packed")
    mc, kc, nc = packed.usual_blocks("float32", "float32")
    usual = packed.usual_team_flop("float32", "float32")
    assert usual / 8 - 1 <= blocks._team_flop(packed, "float32", {"mc": mc, "kc": kc, "nc": nc}, 1) <= usual * 8


def record(backend, edge, seconds, spread=0.01):
    times = {"median_s": seconds, "p20_s": seconds * (1 - spread), "p80_s": seconds * (1 + spread)}
    return {"status": "ok", "backend": backend, "problem": {"n": edge}, **times}


@pytest.mark.parametrize(("theirs", "spread", "taken"), [
    ({256: 2.0, 512: 2.0}, 0.01, auto.Taken("float64")),  # slower
    ({256: 2.0, 512: 0.5}, 0.01, auto.Taken("float64", "cpu-numpy", 512, 2.0)),
    ({256: 0.5, 512: 0.8}, 0.01, auto.Taken("float64", "cpu-numpy", 256, 1.25)),
    ({256: 0.5, 512: 1.5}, 0.01, auto.Taken("float64")),  # ahead where it is small only
    ({256: 0.9, 512: 0.9}, 0.1, auto.Taken("float64")),  # by less than the spread
    ({256: 0.5}, 0.01, auto.Taken("float64")),  # not measured at the largest
])  # fmt: skip
def test_another_backend_must_be_ahead_up_to_the_largest_size(theirs, spread, taken):
    records = [record("cpu-packed", edge, 1.0, spread) for edge in (256, 512)]
    records += [record("cpu-numpy", edge, seconds, spread) for edge, seconds in theirs.items()]
    records += [{"status": "failed", "backend": "cpu-blas", "problem": {"n": 512}}]
    assert auto.best_of("float64", records) == taken


def test_of_two_that_are_ahead_the_faster_is_taken():
    seconds = {"cpu-packed": 1.0, "cpu-numpy": 0.8, "cpu-mkl": 0.5}
    records = [record(name, 512, own) for name, own in seconds.items()]
    assert auto.best_of("float32", records) == auto.Taken("float32", "cpu-mkl", 512, 2.0)


def taken_for(edge, dtype="float64"):
    """The backend of auto, by the general way and, when that has made the compiled one ready, by that."""
    a = np.ones((edge, edge), dtype)
    for _ in range(2):
        assert np.array_equal(gemmlab.matmul(a, a), np.full((edge, edge), edge, dtype))
    with gemmlab.trace() as calls:
        gemmlab.matmul(a, a)
    return calls[0].backend


def test_auto_follows_the_profile():
    _profile.store(MACHINE, "auto", {"float64": {"cpu-numpy": 100}})
    gemmlab.get_backend("cpu-packed").forget()
    assert [taken_for(99), taken_for(100), taken_for(100, "float32")] == ["cpu-packed", "cpu-numpy", "cpu-packed"]
    why = {name: why for name, taken, why in gemmlab.explain(np.ones((100, 100)), np.ones((100, 100))).rows if taken}
    assert why == {"cpu-numpy": "auto: gemmlab tune auto found it faster for products of this size here"}
    a = np.ones((100, 3))
    assert gemmlab.explain(a, a.T).rows[0][0] == "cpu-packed"  # one extent is small


def test_the_compiled_way_leaves_large_products_to_auto(monkeypatch):
    _profile.store(MACHINE, "auto", {"float64": {"cpu-numpy": 100}})
    packed = gemmlab.get_backend("cpu-packed")
    packed.forget()
    taken_for(10)
    called = []
    monkeypatch.setattr(gemmlab.get_backend("cpu-numpy"), "gemm", lambda problem: called.append(problem.m))
    for edge in (99, 100):
        gemmlab.matmul(np.ones((edge, edge)), np.ones((edge, edge)))
    assert called == [100]
    gemmlab.matmul(np.ones((100, 100)), np.ones((100, 100)), backend="cpu-packed")
    assert called == [100]


def test_what_the_profile_names_must_be_there(monkeypatch):
    _profile.store(MACHINE, "auto", {"float64": {"no-such-backend": 10, "cpu-numpy": 10}})
    monkeypatch.setattr(gemmlab.config, "block", ("cpu-numpy",))
    gemmlab.get_backend("cpu-packed").forget()
    assert taken_for(50) == "cpu-packed"


def test_a_call_with_parameters_is_our_own_backends():
    _profile.store(MACHINE, "auto", {"float64": {"cpu-numpy": 10}})
    gemmlab.get_backend("cpu-packed").forget()
    a = np.ones((50, 50))
    with gemmlab.trace() as calls, gemmlab.use(kc=25):
        gemmlab.matmul(a, a)
    assert (calls[0].backend, calls[0].params["kc"]) == ("cpu-packed", 25)


def test_auto_leaves_out_a_backend_that_is_short_of_memory(monkeypatch):
    _profile.store(MACHINE, "auto", {"float64": {"cpu-numpy": 10}})
    gemmlab.get_backend("cpu-packed").forget()
    monkeypatch.setattr(gemmlab.get_backend("cpu-numpy"), "memory_shortage", lambda problem: "memory", raising=False)
    assert taken_for(50) == "cpu-packed"


def test_a_real_comparison_ends_with_a_profile(capsys):
    assert cli.main(["tune", "auto", "--rounds", "1", "--sizes", "32,64", "--dtype", "float32"]) == 0
    assert capsys.readouterr().out.startswith("float32 ")
    assert json.loads(_profile.path().read_text())["machines"][MACHINE]["auto"].keys() == {"float32"}


def test_only_a_backend_that_follows_the_profile_is_tuned():
    with pytest.raises(UnsupportedProblem, match="cpu-ikj does not follow the profile"):
        tune.tune("cpu-ikj")


@pytest.mark.parametrize(("options", "why"), [
    (["--dtype", "nope"], "cpu-packed: dtype must be one of .*float32.*, not 'nope'"),
    (["--dtype", "float32,object"], "cpu-packed: dtype must be one of .*, not 'object'"),
    (["auto", "--dtype", "float32,nope"], "dtype must be one of .*float32.*, not 'nope'"),
    (["--rounds", "0"], "must be an integer of at least 1, not '0'"),
])  # fmt: skip
def test_wrong_usage_is_seen_before_anything_is_measured(options, why, capsys, monkeypatch):
    monkeypatch.setattr(blocks, "_speeds", None)
    monkeypatch.setattr(auto, "Session", None)
    try:
        status = cli.main(["tune", *options])
    except SystemExit as end:
        status = end.code
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert re.search(why, err)
    assert not _profile.path().exists()


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"version": 2, "machines": {}}', '{"version": 1, "machines": {"x": 3}}']
)
def test_a_damaged_profile_counts_as_none(content):
    usual = in_force()
    _profile.path().write_text(content)
    _profile._machines.cache_clear()
    gemmlab.get_backend("cpu-packed").forget()
    assert in_force() == usual


def test_values_that_are_no_sizes_are_left_out():
    _profile.store(MACHINE, "cpu-packed", {"float32": {"kc": 0, "mc": "many", "nc": 768}})
    assert _profile.parameters(MACHINE, "cpu-packed", "float32") == {"nc": 768}


def test_machines_and_dtypes_stand_beside_each_other():
    _profile.store("another", "cpu-packed", {"float32": {"kc": 100}})
    _profile.store(MACHINE, "cpu-packed", {"float32": {"kc": 200}})
    _profile.store(MACHINE, "cpu-packed", {"float64": {"kc": 300}})
    assert _profile.parameters("another", "cpu-packed", "float32") == {"kc": 100}
    assert _profile.parameters(MACHINE, "cpu-packed", "float32") == {"kc": 200}
    assert _profile.parameters(MACHINE, "cpu-packed", "float64") == {"kc": 300}
    assert [file.name for file in _profile.path().parent.iterdir()] == ["profile.json"]


def test_the_command(capsys):
    assert cli.main(["tune", "--rounds", "1", "--sizes", "48,64", "--dtype", "float32"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("float32     mc ")
    assert f"stored in {_profile.path()}" in out
    assert cli.main(["tune", "--rounds", "1", "--sizes", "48", "--json"]) == 0
    assert [one["dtype"] for one in json.loads(capsys.readouterr().out)] == ["float32", "float64"]
    assert cli.main(["tune", "cpu-numpy"]) == 2
