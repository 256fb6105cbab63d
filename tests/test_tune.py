"""gemmlab tune finds what is fastest, keeps it in the profile, and products follow it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers import output_of

import gemmlab
from gemmlab import UnsupportedProblem, _front, _profile, cli, tune
from gemmlab._cpu.packed_rung import Packed

SMALL = {"rounds": 1, "edges": (48, 64)}
MACHINE = Packed().profile_name


@pytest.fixture(autouse=True)
def own_profile(monkeypatch, tmp_path):
    """A profile of the test's own, and a backend that has read none."""
    monkeypatch.setattr(gemmlab.config, "cache_dir", tmp_path)

    def forget():
        _profile._machines.cache_clear()
        gemmlab.get_backend("cpu-packed").forget()
        _front.settings_changed()

    forget()
    yield
    monkeypatch.undo()
    forget()


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
    monkeypatch.setattr(tune, "_speeds", faster("kc", 192))
    (found,) = tune.tune("cpu-packed", ["float32"], **SMALL)
    assert found == tune.Tuned("float32", {**usual, "kc": 192}, 5.0, 10.0)
    assert in_force() == {**usual, "kc": 192}
    assert in_force("float64")["kc"] != 192
    kept = json.loads(_profile.path().read_text())
    assert kept == {"version": 1, "machines": {MACHINE: {"cpu-packed": {"float32": {**usual, "kc": 192}}}}}


def test_another_process_follows_the_profile(monkeypatch, tmp_path):
    monkeypatch.setattr(tune, "_speeds", faster("mc", 84))
    tune.tune("cpu-packed", ["float64"], **SMALL)
    ask = "import gemmlab; print(gemmlab.get_backend('cpu-packed').default_blocks('float64', 'float64')[0])"
    assert output_of(ask, GEMMLAB_CACHE_DIR=str(tmp_path)) == "84\n"


def test_without_a_winner_the_defaults_stay_and_nothing_is_pinned(monkeypatch):
    usual = in_force()
    monkeypatch.setattr(tune, "_speeds", lambda chosen, choices, squares, rounds: [7.0 for _ in choices])
    (found,) = tune.tune("cpu-packed", ["float32"], **SMALL)
    assert (dict(found.parameters), found.is_better) == (usual, False)
    assert _profile.parameters(MACHINE, "cpu-packed", "float32") == {}
    assert in_force() == usual


def test_a_winner_with_wrong_products_is_not_taken(monkeypatch):
    usual = in_force()
    monkeypatch.setattr(tune, "_speeds", faster("nc", 768))
    monkeypatch.setattr(tune, "_is_right", lambda chosen, dtype, choice: choice["nc"] != 768)
    (found,) = tune.tune("cpu-packed", ["float32"], **SMALL)
    assert dict(found.parameters) == usual


def test_a_real_search_ends_with_right_products():
    told = []
    found = tune.tune("cpu-packed", **SMALL, progress=lambda *step: told.append(step))
    assert [one.dtype for one in found] == ["float32", "float64"]
    assert all(one.after >= one.before > 0 for one in found)
    assert [(done, of) for done, of, _ in told] == [(i, 6) for i in range(6)]
    a, b = np.random.default_rng().integers(-8, 9, (2, 300, 300)).astype(float)
    assert np.array_equal(gemmlab.matmul(a, b), a @ b)


def test_only_a_backend_that_follows_the_profile_is_tuned():
    with pytest.raises(UnsupportedProblem, match="cpu-ikj does not follow the profile"):
        tune.tune("cpu-ikj")


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
    assert f"kept in {_profile.path()}" in out
    assert cli.main(["tune", "--rounds", "1", "--sizes", "48", "--json"]) == 0
    assert [one["dtype"] for one in json.loads(capsys.readouterr().out)] == ["float32", "float64"]
    assert cli.main(["tune", "cpu-numpy"]) == 2
