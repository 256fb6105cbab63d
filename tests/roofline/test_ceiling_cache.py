"""The stored ceilings of this machine: whose they are, when they count, and what happens to a damaged file."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gemmlab._config import config
from gemmlab.measure.environment import environment
from gemmlab.measure.records import complete
from gemmlab.roofline.ceilings import cache


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache_dir", tmp_path / "cache")


def ceiling(device="CPU", threads=1, gflop_per_s=1.0, **facts):
    found = {"kind": "ceiling", "ceiling": "fma", "isa": "v3", "dtype": "float32", "threads": threads}
    found |= {"gflop_per_s": gflop_per_s, "noise_percent": 1.0, "noisy": False}
    found |= dict.fromkeys(("min_s", "p20_s", "median_s", "p80_s"), 0.01)
    return complete(found, run_id="r", device=device, environment=environment(pools=[]) | facts)


def test_what_is_stored_comes_back():
    own = [ceiling(), ceiling(threads=2)]
    cache.store(own)
    assert cache.cached("CPU", 2) == own
    assert cache.cached("another CPU", 2) == []


def test_only_for_as_many_threads():
    cache.store([ceiling(), ceiling(threads=2)])
    assert cache.cached("CPU", 4) == []


@pytest.mark.parametrize("change", [{"gemmlab": "0.0.1"}, {"isa": "v1"}, {"cpus_usable": 999}, {"cpu": "Z80"}])
def test_not_for_another_machine_or_another_gemmlab(change):
    cache.store([ceiling(**change)])
    assert cache.cached("CPU", 1) == []


def test_new_ones_take_the_place_of_old_ones_and_leave_other_devices():
    cache.store([ceiling(), ceiling(threads=2)])
    cache.store([ceiling("GPU", threads=None)])
    cache.store([ceiling(threads=1)])
    assert [record["threads"] for record in cache.cached("CPU", 1)] == [1]
    assert len(cache.cached("GPU")) == 1


def test_a_faster_peak_takes_the_place_of_the_stored_one_and_a_slower_one_does_not():
    memory = ceiling(gflop_per_s=None) | {
        "ceiling": "bandwidth", "level": "L1", "operation": "load", "gb_per_s": 9.0
    }  # fmt: skip
    cache.store([ceiling(gflop_per_s=5.0), ceiling(threads=2, gflop_per_s=10.0), memory])
    speeds = {1: 4.0, 2: 11.0, 4: 20.0}
    cache.raise_peaks([ceiling(threads=threads, gflop_per_s=speed) for threads, speed in speeds.items()])
    assert [record["gflop_per_s"] for record in cache.cached("CPU", 2)] == [5.0, 11.0, None]


@pytest.mark.parametrize("change", [{"isa": "v1"}, {"cpus_usable": 999}])
def test_a_peak_of_another_machine_replaces_nothing(change):
    cache.store([ceiling(gflop_per_s=5.0)])
    cache.raise_peaks([ceiling(gflop_per_s=6.0, **change)])
    assert cache.cached("CPU", 1)[0]["gflop_per_s"] == 5.0


DAMAGED = [b"{nonsense\n", b"\xff\0", b"3\n", b'{"kind": "ceiling"}\n', b"[" * 9000]


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_file_counts_as_none_with_one_warning_and_is_replaced(content):
    cache.path().parent.mkdir(parents=True)
    cache.path().write_bytes(content)
    with pytest.warns(RuntimeWarning, match=r"^the stored ceilings are not used: .*ceilings\.jsonl") as warned:
        assert cache.cached("CPU", 1) == []
    assert len(warned) == 1
    assert len(str(warned[0].message)) <= 300
    with pytest.warns(RuntimeWarning, match="the stored ceilings are not used"):
        cache.store([ceiling()])
    assert len(cache.cached("CPU", 1)) == 1


def test_a_folder_in_place_of_the_file_is_one_warning():
    cache.path().mkdir(parents=True)
    with pytest.warns(RuntimeWarning, match="the stored ceilings are not used: .*directory"):
        assert cache.cached("CPU", 1) == []


def test_a_folder_that_cannot_be_written_stores_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(config, "cache_dir", tmp_path / "file" / "below")
    cache.store([ceiling()])
    assert cache.cached("CPU", 1) == []


def test_the_age_is_that_of_the_oldest():
    records = [{"time_utc": "2026-03-01T00:00:00+00:00"}, {"time_utc": "2026-03-09T12:00:00+00:00"}]
    assert cache.age(records, datetime(2026, 3, 10, 13, tzinfo=UTC)) == "9 days old"
    assert cache.age(records[1:], datetime(2026, 3, 10, 13, tzinfo=UTC)) == "1 day old"
    assert cache.age(records[1:], datetime(2026, 3, 10, tzinfo=UTC)) == "less than a day old"
