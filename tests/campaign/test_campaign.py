"""Campaigns: what each of them measures, in which order records come, and when ceilings come from the cache."""

from __future__ import annotations

from dataclasses import replace

import made_up_records as made
import numpy as np
import pytest

from gemmlab import CannotWrite
from gemmlab._config import config
from gemmlab._cpu import machine
from gemmlab.campaign import CAMPAIGNS, Campaign, carry_out, make_directory, measure, measuring, roofline, turns
from gemmlab.measure import Settings, read, sized
from gemmlab.roofline.ceilings import cache

BRIEF = Settings(threads=1, rounds=1, budget_s=0)
ONE = Campaign(sized([10]), ["cpu-ikj"], BRIEF)


def show(done, total, text):
    """Shows nothing."""


@pytest.fixture(autouse=True)
def asked(monkeypatch, tmp_path):
    """An empty cache, and ceilings that are made up; the list says which were measured."""
    found = []

    def ceilings(*, seconds, threads, bandwidth=True):
        found.append("all" if bandwidth else "peak")
        kinds = ["fma", "bandwidth"] if bandwidth else ["fma"]
        own = {"isa": "v3", "dtype": "float32", "gflop_per_s": 1000 + len(found), "level": "L1", "operation": "load"}
        common = {"kind": "ceiling", "threads": 1, "gb_per_s": 1000.0} | own | made.times(0.01)
        return [common | {"ceiling": kind} for kind in kinds]

    monkeypatch.setattr(config, "cache_dir", tmp_path / "cache")
    monkeypatch.setattr(turns, "isolated_ceilings", ceilings)
    return found


def kinds_of(campaign):
    records = []
    carry_out(campaign, "a run", show, records.append)
    assert {record["run_id"] for record in records} <= {"a run", "another run"}
    return [record["ceiling"] if record["kind"] == "ceiling" else "product" for record in records]


def test_without_time_for_ceilings_the_peak_is_measured_before_and_after(asked):
    assert kinds_of(ONE) == ["fma", "product", "fma"]
    assert asked == ["peak", "peak"]


def test_ceilings_are_measured_once_and_then_come_from_the_cache(asked):
    campaign = replace(ONE, ceilings_s=turns.MIN_CACHED_S)
    assert kinds_of(campaign) == ["fma", "bandwidth", "product", "fma"]
    assert kinds_of(campaign) == ["fma", "bandwidth", "fma", "product", "fma"]
    assert asked == ["all", "all", "peak", "peak"]
    assert kinds_of(replace(campaign, fresh=True)) == ["fma", "bandwidth", "product", "fma"]
    assert asked[4:] == ["all", "all"]


def test_a_turn_that_is_no_better_leaves_no_record(monkeypatch):
    monkeypatch.setattr(turns, "isolated_ceilings", lambda **_: [made.ceilings(threads=1)[0]])
    assert kinds_of(ONE) == ["fma", "product"]


def test_a_product_above_its_roof_starts_another_turn(asked):
    now = turns.Turns(ONE, {}, lambda found, device: [one | {"device": device} for one in found], lambda _: None)
    now.take()  # 1,000 GFLOP/s and the number of the turn
    product = made.gemm("cpu-ikj", gflop_per_s=1053.6, threads=1, intensity=9) | {"device": machine.cpu_name()}
    now.take_more([product | {"gflop_per_s": 1.0}])
    assert len(asked) == 1
    now.take_more([product], lambda: 0.0)
    assert len(asked) == 1
    now.take_more([product])
    assert len(asked) == 3


def test_a_higher_peak_replaces_the_cached_one():
    kinds_of(replace(ONE, ceilings_s=turns.MIN_CACHED_S))
    stored = {record["ceiling"]: record["gflop_per_s"] for record in cache.cached(machine.cpu_name(), 1)}
    assert stored == {"fma": 1002, "bandwidth": 1001}
    kinds_of(replace(ONE, ceilings_s=turns.MIN_CACHED_S))
    stored = {record["ceiling"]: record["gflop_per_s"] for record in cache.cached(machine.cpu_name(), 1)}
    assert stored == {"fma": 1004, "bandwidth": 1001}


def test_ceilings_of_a_short_measurement_are_not_stored():
    kinds_of(replace(ONE, ceilings_s=turns.MIN_CACHED_S / 2))
    assert not cache.path().exists()


def test_a_device_that_fails_leaves_the_others(monkeypatch):
    def fails(backend, **_):
        if backend == "bad":
            raise RuntimeError("it is lost")
        return [{"kind": "ceiling", "ceiling": "transfer"}]

    monkeypatch.setattr(measuring, "devices_of", lambda backends: {"one": "bad", "two": "good"})
    monkeypatch.setattr(turns, "isolated_device_ceilings", fails)
    with pytest.warns(UserWarning, match="one: it is lost"):
        assert kinds_of(ONE) == ["fma", "transfer", "product", "fma"]


def test_a_small_product_has_simulated_bytes():
    records = []
    carry_out(ONE, "a run", show, records.append)
    assert records[1]["bytes_simulated_dram"] > 0
    assert measuring.simulated_bytes(records[1] | {"status": "failed"}) == {}


def test_records_go_to_a_file_as_they_come(tmp_path):
    records = []
    measure(ONE, tmp_path / "records.jsonl", show, records)
    assert read(tmp_path / "records.jsonl") == records
    assert len({record["run_id"] for record in records}) == 1


@pytest.mark.parametrize("make", [*CAMPAIGNS.values(), roofline])
def test_campaigns_have_products_and_the_users_own_come_first(make, tmp_path):


    np.save(tmp_path / "a.npy", np.ones((3, 4)))
    np.save(tmp_path / "b.npy", np.ones((4, 5)))
    campaign = make((tmp_path / "a.npy", tmp_path / "b.npy"), ["cpu-ikj"], 1)
    assert campaign.cases[0].suite == "files"
    assert campaign.cases[1:] == make(None, ["cpu-ikj"], 1).cases
    assert campaign.ceilings_s > 0
    assert campaign.settings.thread_count == 1


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path):
    make_directory(tmp_path / "new" / "below")
    (tmp_path / "file").touch()
    with pytest.raises(CannotWrite, match="choose another --out"):
        make_directory(tmp_path / "file" / "below")
