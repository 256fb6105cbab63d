"""gemmlab tune finds what is fastest, keeps it in the profile, and products follow it."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from time import monotonic

import made_up_records as made
import numpy as np
import pytest
from fresh_profile import profile_in
from helpers import output_of
from randomness import RNG

import gemmlab
from gemmlab import UnsupportedProblem, _profile, cli, tune
from gemmlab._cpu import isa
from gemmlab._cpu.threads._threads import max_threads
from gemmlab.tune import auto, blocks
from gemmlab.tune.evidence import Undecided
from gemmlab.tune.search import log

SMALL = {"rounds": 1, "edges": (48, 64), "minutes": 1}
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


class MadeUpSession:
    """A session whose records say what a function does: of a choice, its edge, and a record of 10 GFLOP/s."""

    says = staticmethod(lambda choice, record: record)

    def __init__(self, **_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def measure(self, backends, cases, settings, *, progress=None):
        return [
            MadeUpSession.says(choice, made.gemm("cpu-packed", case.n, 10.0, dtype=case.dtype, params=dict(choice)))
            for choice in settings.params["cpu-packed"] for case in cases
        ]  # fmt: skip


@pytest.fixture
def session(monkeypatch):
    """A function that makes every session of the tuner a made-up one."""

    def put(says, team_flop=50_000):
        monkeypatch.setattr(blocks, "Session", MadeUpSession)
        monkeypatch.setattr(MadeUpSession, "says", staticmethod(says))
        monkeypatch.setattr(blocks, "_team_flop", lambda *given: team_flop)
        monkeypatch.setattr(blocks, "is_right", lambda *given: True)

    return put


def sped_up(record, factor):
    times = {key: record[key] / factor for key in ("median_s", "p20_s", "p80_s", "min_s")}
    return record | times | {"gflop_per_s": record["gflop_per_s"] * factor}


def faster(name, value, factor=2.0, **marks):
    """Records in which one value of one parameter wins."""
    return lambda choice, record: (sped_up(record, factor) if choice[name] == value else record) | marks


def test_what_wins_is_kept_and_followed(session):
    usual = in_force()
    session(faster("kc", 192))
    (found,) = tune.tune("cpu-packed", ["float32"], **SMALL)
    best = {**usual, "kc": 192, "team_flop": 50_000}
    assert (found.dtype, found.parameters) == ("float32", best)
    assert (found.before, found.after) == pytest.approx((10.0, 20.0))
    assert in_force() == {**usual, "kc": 192}
    assert in_force("float64")["kc"] != 192
    kept = json.loads(_profile.path().read_text())
    assert kept == {"version": 2, "machines": {MACHINE: {"cpu-packed": {"float32": best}}}, "devices": {}}


def test_another_process_follows_the_profile(session, tmp_path):
    session(faster("mc", 84))
    tune.tune("cpu-packed", ["float64"], **SMALL)
    ask = "import gemmlab; print(gemmlab.get_backend('cpu-packed').default_blocks('float64', 'float64')[0])"
    assert output_of(ask, GEMMLAB_CACHE_DIR=str(tmp_path)) == "84\n"


@pytest.mark.parametrize("says", [
    lambda choice, record: record,
    faster("kc", 192, 1.015),  # by too little
    faster("kc", 192, 0.5, noisy=True, interval_percent=30.0),  # noise, but nothing that is faster
    lambda choice, record: record | ({"status": "failed"} if choice["kc"] == 192 else {}),
])  # fmt: skip
def test_without_a_winner_the_defaults_stay_and_nothing_is_pinned(says, session):
    usual = in_force()
    session(says)
    (found,) = tune.tune("cpu-packed", ["float32"], **SMALL)
    assert found.parameters == {**usual, "team_flop": 50_000}
    assert _profile.parameters(MACHINE, "cpu-packed", "float32") == {"team_flop": 50_000}
    assert in_force() == usual


def test_a_winner_with_wrong_products_is_not_taken(monkeypatch, session):
    usual = in_force()
    session(faster("nc", 768))
    monkeypatch.setattr(blocks, "is_right", lambda chosen, dtype, choice: choice["nc"] != 768)
    (found,) = tune.tune("cpu-packed", ["float32"], **SMALL)
    assert {**found.parameters, "team_flop": 0} == {**usual, "team_flop": 0}


NOISE = {
    "rounds disagree": faster("kc", 192, 1.3, noisy=True, interval_percent=20.0, noisy_because="rounds disagree"),
    "samples spread": faster("kc", 192, 1.3, noisy=True, noise_percent=40.0, noisy_because="samples spread"),
    "the machine's speed changed by 50.0 %": lambda choice, record: (
        sped_up(record, 1.3 if choice["kc"] == 192 else 1.0)
        | {"probe_gflop_per_s": 75.0 if choice["kc"] == 192 else 50.0}
    ),
    "not measured (predicted 9 s)": lambda choice, record: record | {"status": "skipped", "reason": "predicted 9 s"},
}


@pytest.mark.parametrize("because", NOISE)
def test_what_noise_may_explain_is_not_kept(because, session, capsys):
    usual = in_force()
    session(NOISE[because])
    assert cli.main(["tune", "--dtype", "float32"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("float32     nothing was kept: ")
    assert because in line
    assert not _profile.path().exists()
    assert in_force() == usual


def test_what_noise_does_not_explain_is_kept(session):
    session(faster("kc", 192, 2.0, noisy=True, interval_percent=10.0))
    (found,) = tune.tune("cpu-packed", ["float32"], **SMALL)
    assert found.parameters["kc"] == 192
    assert in_force()["kc"] == 192


def test_a_disturbed_dtype_leaves_the_others_and_what_was_stored_before(session):
    _profile.store(MACHINE, "cpu-packed", {"float32": {"mc": 84}})
    noisy, quiet = NOISE["rounds disagree"], faster("kc", 192)
    session(lambda choice, one: (noisy if one["problem"]["dtype"] == "float32" else quiet)(choice, one))
    disturbed, tuned = tune.tune("cpu-packed", **SMALL)
    assert (type(disturbed), type(tuned)) == (tune.Disturbed, tune.Tuned)
    assert _profile.parameters(MACHINE, "cpu-packed", "float32") == {"mc": 84}
    assert _profile.parameters(MACHINE, "cpu-packed", "float64")["kc"] == 192


def test_a_search_goes_on_from_its_log(session, tmp_path):
    path = tmp_path / "log.jsonl"
    session(faster("kc", 192))
    first = tune.search_for("cpu-packed", ["float32"], rounds=1, edges=(48, 64), minutes=0, log=path)
    first.run()
    header, entries = log.read(path)
    assert (header["backend"], header["names"]) == ("cpu-packed", ["mc", "kc", "nc"])
    assert tuple(entries[0]["values"]) == log.defaults_of(header, "float32")
    assert [entry["shape"] for entry in entries] == [[64, 64, 64]] * len(entries)
    assert len(entries) <= blocks.TOGETHER + 1
    (found,) = tune.tune("cpu-packed", ["float32"], rounds=1, edges=(48, 64), minutes=1, log=path)
    _, entries = log.read(path)
    tried = [tuple(entry["values"]) for entry in entries if not entry.get("against_defaults")]
    packed = gemmlab.get_backend("cpu-packed")
    assert len(tried) == len(set(tried)) >= math.prod(len(param.choices) for param in packed.params.values())
    assert found.parameters["kc"] == 192
    (replayed,) = tune.replay(path)
    assert replayed.parameters["kc"] == 192
    assert replayed.speedup == pytest.approx(2, rel=1e-3)
    with pytest.raises(log.CannotGoOn, match=r"squares of 48, 64, not \d+ threads, squares of 48: give another"):
        tune.tune("cpu-packed", ["float32"], rounds=1, edges=(48,), log=path)


@pytest.mark.parametrize("says", [
    faster("kc", 192), faster("kc", 192, 1.015), NOISE["rounds disagree"],
    lambda choice, one: sped_up(one, 1.0 + choice["kc"] / 1e6 + choice["mc"] / 1e5),
])  # fmt: skip
def test_a_replay_says_what_was_kept(says, session, tmp_path):
    session(says)
    path = tmp_path / "log.jsonl"
    tune.tune("cpu-packed", ["float32"], **SMALL, log=path)
    (replayed,) = tune.replay(path)
    assert replayed.parameters == in_force()
    assert replayed.speedup is not None
    tune.tune("cpu-packed", ["float32"], **SMALL, log=path)
    assert tune.replay(path)[0].parameters == in_force()


def test_without_a_time_of_the_defaults_nothing_is_tried(session, tmp_path):
    usual, path = in_force(), tmp_path / "log.jsonl"

    def says(choice, one):
        skipped = {"status": "skipped", "reason": "predicted 9 s"}
        return one | (skipped if choice == usual and one["problem"]["n"] == 64 else {})

    session(says)
    (found,) = tune.tune("cpu-packed", ["float32"], **SMALL, log=path)
    assert found == tune.Disturbed("float32", "the defaults: not measured (predicted 9 s)")
    assert log.read(path)[1] == []


def test_a_last_comparison_without_an_edge_leaves_a_log_to_go_on_from(session, tmp_path):
    usual, path, seen = in_force(), tmp_path / "log.jsonl", []

    def says(choice, one):
        if choice != usual:
            return sped_up(one, 2.0 if choice["kc"] == 192 else 1.5)
        seen.append(one)
        return one | ({"status": "skipped", "reason": "predicted 9 s"} if len(seen) == 4 else {})

    session(says)
    (found,) = tune.tune("cpu-packed", ["float32"], **SMALL, log=path)
    assert found.parameters["kc"] == 192
    assert len(seen) == 4
    assert tune.replay(path)[0].parameters["kc"] == 192


def test_ctrl_c_keeps_the_dtypes_that_are_done(session, capsys):
    def says(choice, one):
        if one["problem"]["dtype"] == "float64":
            raise KeyboardInterrupt
        return faster("kc", 192)(choice, one)

    session(says)
    assert cli.main(["tune", "--rounds", "1", "--sizes", "48,64"]) == 130
    out, err = capsys.readouterr()
    assert out.startswith("float32 ")
    assert f"stored in {_profile.path()}" in out
    assert "log: " in err
    assert in_force()["kc"] == 192


def test_the_log_counts_the_seconds_of_the_search(session, tmp_path):
    session(faster("kc", 192))
    start_s = monotonic()
    tune.tune("cpu-packed", ["float32", "float64"], **SMALL, log=tmp_path / "log.jsonl")
    elapsed_s = monotonic() - start_s
    seconds = [entry["seconds"] for entry in log.read(tmp_path / "log.jsonl")[1]]
    assert seconds == sorted(seconds)
    assert seconds[-1] <= elapsed_s + 0.001


@pytest.mark.parametrize("dtype", sorted({dtype for dtype, out in gemmlab.get_backend("cpu-packed").kernels
                                          if dtype == out} - blocks.UNTUNED))  # fmt: skip
def test_the_check_of_a_configuration_is_of_every_dtype(dtype):
    packed = gemmlab.get_backend("cpu-packed")
    usual = dict(zip(packed.params, packed.usual_blocks(dtype, dtype), strict=True))
    assert blocks.is_right(packed, dtype, usual)


def test_the_fastest_that_is_most_like_the_defaults_is_taken(session):
    """Of those that differ by less than counts."""
    usual = in_force()
    session(lambda choice, record: sped_up(record, 1.5 if choice["kc"] == 192 else 1) | (
        {} if choice["mc"] == usual["mc"] else sped_up(record, 1.51 if choice["kc"] == 192 else 1)))  # fmt: skip
    (found,) = tune.tune("cpu-packed", ["float32"], **SMALL)
    assert {**found.parameters, "team_flop": 0} == {**usual, "kc": 192, "team_flop": 0}


def times_of_a_team(monkeypatch, alone, together):
    """Make the clock of the small product say these seconds a call, round by round."""
    monkeypatch.setattr(blocks, "_team_seconds", lambda *given: {1: alone, max_threads(): together})
    packed = gemmlab.get_backend("cpu-packed")
    return blocks._team_flop(packed, "float32", {}, 7), packed.usual_team_flop("float32", "float32")


@pytest.mark.skipif(max_threads() < 2, reason="one thread is all there is")
def test_the_cost_of_a_team_is_not_kept_where_noise_may_explain_it(monkeypatch):
    found, usual = times_of_a_team(monkeypatch, [1e-5] * 7, [9e-6] * 7)
    assert found != usual
    disturbed = [1e-6, 9e-6, 2e-5, 5e-6, 3e-5, 8e-6, 1e-6]
    with pytest.raises(Undecided, match="what a team of threads costs: rounds disagree"):
        times_of_a_team(monkeypatch, [1e-5] * 7, disturbed)


def test_a_real_search_ends_with_right_products(monkeypatch):
    packed, shown = gemmlab.get_backend("cpu-packed"), []
    few = {name: replace(param, choices=param.choices[:1]) for name, param in packed.params.items()}
    monkeypatch.setattr(type(packed), "params", few)
    (found,) = tune.tune(
        "cpu-packed", ["float64"], rounds=1, edges=(48,), minutes=0.01, progress=lambda *step: shown.append(step)
    )
    assert found.dtype == "float64"
    assert isinstance(found, tune.Disturbed) or found.after >= found.before > 0
    assert [step[0] for step in shown] == sorted(step[0] for step in shown)
    assert shown[-1][:2] == (1000, 1000)
    a, b = RNG.integers(-8, 9, (2, 300, 300)).astype(float)
    assert np.array_equal(gemmlab.matmul(a, b), a @ b)


def threads_of(edge):
    a = np.ones((edge, edge))
    with gemmlab.trace() as calls:
        gemmlab.matmul(a, a, backend="cpu-packed")
    return calls[0].threads


@pytest.mark.skipif(max_threads() < 2, reason="one thread is all there is")
def test_threads_follow_what_the_profile_says_of_their_cost():
    _profile.store(MACHINE, "cpu-packed", {"float64": {"team_flop": 2000 * 6 // (max_threads() + 4)}})
    gemmlab.get_backend("cpu-packed").forget()
    assert (threads_of(8), threads_of(32)) == (1, max_threads())
    _profile.store(MACHINE, "cpu-packed", {"float64": {"team_flop": 10**9}})
    gemmlab.get_backend("cpu-packed").forget()
    assert threads_of(200) == 1


@pytest.mark.skipif(max_threads() < 2, reason="one thread is all there is")
def test_what_a_team_costs_is_measured_within_reason():
    packed = gemmlab.get_backend("cpu-packed")
    mc, kc, nc = packed.usual_blocks("float32", "float32")
    usual = packed.usual_team_flop("float32", "float32")
    assert usual / 8 - 1 <= blocks._team_flop(packed, "float32", {"mc": mc, "kc": kc, "nc": nc}, 1) <= usual * 8


def record(backend, edge, seconds, spread=0.02, **marks):
    return made.gemm(backend, edge, 2e-9 * edge**3 / seconds, spread=spread, dtype="float64", **marks)


@pytest.mark.parametrize(("theirs", "spread", "taken"), [
    ({256: 2.0, 512: 2.0}, 0.02, auto.Taken("float64")),  # slower
    ({256: 2.0, 512: 0.5}, 0.02, auto.Taken("float64", "cpu-numpy", 512, 2.0)),
    ({256: 0.5, 512: 0.8}, 0.02, auto.Taken("float64", "cpu-numpy", 256, 1.25)),
    ({256: 0.5, 512: 1.5}, 0.02, auto.Taken("float64")),  # ahead where it is small only
    ({256: 0.95, 512: 0.95}, 0.1, auto.Taken("float64")),  # by less than the spread
    ({256: 0.5}, 0.02, auto.Taken("float64")),  # not measured at the largest
])  # fmt: skip
def test_another_backend_must_be_ahead_up_to_the_largest_size(theirs, spread, taken):
    records = [record("cpu-packed", edge, 1.0, spread) for edge in (256, 512)]
    records += [record("cpu-numpy", edge, seconds, spread) for edge, seconds in theirs.items()]
    records += [record("cpu-blas", 512, 1.0, status="failed")]
    found = auto.best_of("float64", records)
    assert (found.backend, found.least_extent) == (taken.backend, taken.least_extent)
    assert found.speedup == pytest.approx(taken.speedup)


def test_of_two_that_are_ahead_the_faster_is_taken():
    seconds = {"cpu-packed": 1.0, "cpu-numpy": 0.8, "cpu-mkl": 0.5}
    records = [record(name, 512, own) for name, own in seconds.items()]
    assert auto.best_of("float32", records) == auto.Taken("float32", "cpu-mkl", 512, 2.0)


MARKED = {"noisy": True, "interval_percent": 15.0, "noisy_because": "rounds disagree: +-15.0 %"}


@pytest.mark.parametrize(("theirs", "taken"), [
    ({256: 0.9, 512: 0.9}, None),  # noise may explain that it is ahead
    ({256: 1.1, 512: 1.1}, None),  # or that it is not
    ({256: 1.5, 512: 1.5}, ("cpu-packed", 1)),
    ({256: 0.9, 512: 0.5}, ("cpu-numpy", 512)),  # ahead by more than that, from there on
])  # fmt: skip
def test_in_noise_auto_keeps_what_is_beyond_it(theirs, taken):
    records = [record("cpu-packed", edge, 1.0) for edge in (256, 512)]
    records += [record("cpu-numpy", edge, seconds, **MARKED) for edge, seconds in theirs.items()]
    found = auto.best_of("float64", records)
    if taken is None:
        because = "cpu-numpy beside cpu-packed at 512: rounds disagree: +-15.0 %"
        assert found == tune.Disturbed("float64", because)
    else:
        assert (found.backend, found.least_extent) == taken


def test_auto_stores_nothing_where_all_is_disturbed(monkeypatch, capsys):
    class Noisy(MadeUpSession):
        def measure(self, backends, cases, settings, *, progress=None):
            return [record(name, case.n, 1.0, **MARKED) for case in cases for name in ("cpu-packed", "cpu-numpy")]

    monkeypatch.setattr(auto, "Session", Noisy)
    assert cli.main(["tune", "auto", "--dtype", "float64"]) == 0
    assert "nothing was kept" in capsys.readouterr().out
    assert not _profile.path().exists()


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


def test_a_real_comparison_ends_with_a_profile(capsys):
    assert cli.main(["tune", "auto", "--rounds", "1", "--sizes", "32,64", "--dtype", "float32"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("float32 ")
    assert _profile.is_tuned(MACHINE, "auto", "float32") is ("nothing was kept" not in out)


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
    monkeypatch.setattr(blocks, "Session", None)
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
    _profile._own.cache_clear()
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


def test_the_command(capsys, session):
    session(lambda choice, record: record)
    assert cli.main(["tune", "--rounds", "1", "--sizes", "48,64", "--dtype", "float32"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("float32     mc ")
    assert f"stored in {_profile.path()}" in out
    assert cli.main(["tune", "--rounds", "1", "--sizes", "48", "--json"]) == 0
    assert [one["dtype"] for one in json.loads(capsys.readouterr().out)] == ["float32", "float64"]
    assert cli.main(["tune", "cpu-numpy"]) == 2
