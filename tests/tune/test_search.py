"""The parts of the tuner that need no device: the space, the strategy, the ranking, and logs that are replayed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from randomness import RNG

from gemmlab import _profile, cli
from gemmlab._gpu.ladder.rungs import RUNG_NAMES, RUNGS
from gemmlab._gpu.runtime import Device
from gemmlab.report import draw_search
from gemmlab.tune.devices.space import RungSpace
from gemmlab.tune.search import log, replay
from gemmlab.tune.search.ranking import Ranking
from gemmlab.tune.search.space import LISTED
from gemmlab.tune.search.strategy import SAMPLE, Strategy

GPU = Device("opencl", 0, "a GPU", "gpu", "none", "1.0", 100, 1024, 48 << 10, 1 << 30, 1 << 30, True)
REGISTER = RUNGS[RUNG_NAMES.index("register")]
LOCAL4 = RUNGS[RUNG_NAMES.index("local4")]
SHAPE = (64, 64, 64)
LOGS = sorted(Path(__file__).with_name("logs").glob("*.jsonl"))


def entry(values, outcome="measured", times=(1e-3,) * 5, best=(), shape=SHAPE, **more):
    return {"seconds": 1.0, "dtype": "float32", "shape": shape, "values": list(values), "outcome": outcome,
            "times_s": list(times), "best_times_s": list(best), **more}  # fmt: skip


def large_space(monkeypatch, listed):
    """A space whose combinations are not listed."""
    monkeypatch.setattr("gemmlab.tune.search.space.LISTED", listed)
    return RungSpace(REGISTER, "float32", GPU)


def test_what_cannot_run_is_left_out():
    space = RungSpace(LOCAL4, "float64", GPU)
    assert all(LOCAL4.refusal(space.parameters(values), "float64", GPU) is None for values in space._all)
    assert 0 < len(space._all) < space.size
    small = RungSpace(LOCAL4, "float64", replace(GPU, local_bytes=5000, group_limit=64))
    assert {values[0] for values in small._all} == {8, 16}


def test_what_needs_more_registers_than_a_gpu_has_is_left_out():
    of_gpu, of_cpu = (RungSpace(REGISTER, "float32", replace(GPU, kind=kind)) for kind in ("gpu", "cpu"))
    assert set(of_gpu._all) < set(of_cpu._all)
    assert (16, 16, 1, 8, 8) not in of_gpu._all
    assert max(REGISTER.registers(of_gpu.parameters(values)) for values in of_gpu._all) <= 255
    assert max(REGISTER.registers(one) * one["group_x"] * one["group_y"]
               for one in map(of_gpu.parameters, of_gpu._all)) <= 65536  # fmt: skip


@pytest.mark.parametrize("listed", [LISTED, 0])
def test_a_draw_and_neighbours_are_new_and_can_run(listed, monkeypatch):
    space = large_space(monkeypatch, listed)
    start = space.drawn(RNG, ())
    near = space.neighbours(start, 1, ())
    assert len(near) > 10
    assert {sum(x != y for x, y in zip(start, one, strict=True)) for one in near} == {1}
    assert {sum(x != y for x, y in zip(start, one, strict=True)) for one in space.neighbours(start, 2, ())} == {2}
    assert set(space.neighbours(start, 1, near[3:])) == set(near[:3])
    assert all(space.can_run(one) for one in near)
    assert space.drawn(RNG, {start}) != start


def test_a_small_space_is_searched_as_a_whole():
    space, tried = RungSpace(LOCAL4, "float32", GPU), set()
    strategy = Strategy(space, [Ranking("float32", SHAPE)], tried, [(32, 4, 2)], RNG)
    found = list(iter(lambda: strategy.next(0.5), None))
    assert found[0] == (32, 4, 2)
    assert sorted(found) == sorted(space._all)


def test_a_large_space_is_climbed(monkeypatch):
    """Of a made-up speed, with one top: found after a fraction of the combinations."""
    space, tried = large_space(monkeypatch, 0), set()
    top = (8, 4, 16, 16, 8)
    ranking = Ranking("float32", SHAPE)
    strategy = Strategy(space, [ranking], tried, [], RNG)
    places = [{value: place for place, value in enumerate(own)} for own in space.choices]
    for number in range(600):
        values = strategy.next(number / 600)
        steps = sum(abs(at[x] - at[y]) for at, x, y in zip(places, values, top, strict=True))
        times = [1e-3 * (1 + steps)] * 5
        best = [] if ranking.best is None else [2e-9 * 64**3 / ranking.rates[ranking.best]] * 5
        ranking.add(values, entry(values, times=times, best=best))
    assert ranking.best == top
    assert len(tried) == 600 < space.size / 7
    assert SAMPLE < 600


def test_the_ranking_follows_ratios_and_not_rates():
    ranking = Ranking("float32", SHAPE)
    ranking.add((1,), entry((1,)))
    ranking.add((2,), entry((2,), times=[2e-3] * 5, best=[3e-3] * 5))  # the clock is at a third now
    assert ranking.best == (2,)
    ranking.add((3,), entry((3,), "slow", times=[1e-4], best=[5e-5]))
    assert ranking.leaders(3) == [(2,), (1,), (3,)]
    found = ranking.fastest(["x"], (1,))
    assert (found.parameters, found.speedup, found.tried, found.failed) == ({"x": 2}, None, 3, 0)
    assert found.gflop_per_s == pytest.approx(2e-9 * 64**3 / 2e-3)
    ranking.add((2,), entry((2,), times=[1e-3] * 5, best=[3e-3] * 5, against_defaults=True))
    assert ranking.fastest(["x"], (1,)).speedup == pytest.approx(3)
    ranking.add((2,), entry((2,), "wrong", shape=None))  # on another shape
    assert (ranking.best, ranking.fastest(["x"], (1,)).failed) == ((1,), 1)


def test_defaults_that_win_the_last_comparison_are_kept():
    ranking = Ranking("float32", SHAPE)
    ranking.add((1,), entry((1,)))
    ranking.add((2,), entry((2,), times=[1e-3] * 5, best=[1.1e-3] * 5))
    ranking.add((2,), entry((2,), times=[1.2e-3] * 5, best=[1e-3] * 5, against_defaults=True))
    found = ranking.fastest(["x"], (1,))
    assert (found.parameters, found.speedup) == ({"x": 1}, 1.0)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_a_kept_log_is_replayed_without_its_device(path, tmp_path, capsys):
    found = replay(path)
    header, entries = log.read(path)
    assert {one.dtype for one in found} == {entry["dtype"] for entry in entries}
    shipped = _profile._shipped().devices.get(header["device"], {}).get(header["backend"], {})
    for one in found:
        same = [kept["parameters"] for kept in shipped.get(one.dtype, ()) if tuple(kept["shape"]) == one.shape]
        # A rung may have got parameters since the log was written, or lost one.
        assert not same or any(
            all(kept[name] == x for name, x in one.parameters.items() if name in kept) for kept in same
        )
        own = [e for e in entries if e["shape"] and log.shape_of(e) == one.shape and e["dtype"] == one.dtype]
        assert any(dict(zip(header["names"], e["values"], strict=True)) == one.parameters for e in own)
    copy = tmp_path / "log.jsonl"
    copy.write_bytes(path.read_bytes())
    assert cli.main(["tune", "--replay", str(copy), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["parameters"] == dict(found[0].parameters)
    assert len(list(tmp_path.glob("*.svg"))) == len(list(tmp_path.glob("*.png"))) == len(found)


def test_a_figure_of_a_search_in_which_all_failed(tmp_path):
    header = {"gemmlab_tune": 1, "backend": "opencl-naive", "label": "a GPU", "names": ["x"], "defaults": [1]}
    lines = [header, entry((1,)), entry((1,), "wrong", shape=None)]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert replay(path) == []
    assert [one.suffix for one in draw_search(path)] == [".svg", ".png"]


def test_draws_are_the_same_for_the_same_seed():
    space = RungSpace(REGISTER, "float32", GPU)
    first, second = ([space.drawn(np.random.default_rng(7), ()) for _ in range(3)] for _ in range(2))
    assert first == second


@pytest.mark.parametrize("content", ['{"important": 1}', "one\ntwo\nlast line", "{"], ids=["json", "text", "a brace"])
def test_a_file_that_is_no_log_is_left_as_it_is(content, tmp_path):
    path = tmp_path / "notes"
    path.write_text(content)
    header = dict.fromkeys(log.SAME, "") | {"gemmlab_tune": log.VERSION}
    if content == "{":  # the beginning of a header, which a kill has cut
        with log.Log(path, header):
            assert json.loads(path.read_text()) == header
        return
    with pytest.raises(log.CannotGoOn):
        log.Log(path, header)
    assert path.read_text() == content


def test_what_failed_on_one_shape_is_not_tried_on_a_new_one():
    entries = [entry((1, 2), "failed", (), shape=None), entry((3, 4), times=(1e-3,) * 5)]
    found = log.ranking_of(("float32", (128, 128, 128)), entries)
    assert found.outcomes == {(1, 2): "failed"}
