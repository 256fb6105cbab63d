"""The ceilings kept for this machine: whose they are, when they count, and what happens to a damaged file."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gemmlab._config import config
from gemmlab.measure.environment import environment
from gemmlab.measure.records import complete
from gemmlab.roofline import kept


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache_dir", tmp_path / "cache")


def ceiling(device="CPU", threads=1, gflop_per_s=1.0, **facts):
    found = {"kind": "ceiling", "ceiling": "fma", "threads": threads, "gflop_per_s": gflop_per_s}
    return complete(found, run_id="r", device=device, environment=environment(pools=[]) | facts)


def test_what_is_kept_comes_back():
    own = [ceiling(), ceiling(threads=2)]
    kept.keep(own)
    assert kept.kept("CPU", 2) == own
    assert kept.kept("another CPU", 2) == []


def test_only_for_as_many_threads():
    kept.keep([ceiling(), ceiling(threads=2)])
    assert kept.kept("CPU", 4) == []


@pytest.mark.parametrize("change", [{"gemmlab": "0.0.1"}, {"isa": "v1"}, {"cpus_usable": 999}, {"cpu": "Z80"}])
def test_not_for_another_machine_or_another_gemmlab(change):
    kept.keep([ceiling(**change)])
    assert kept.kept("CPU", 1) == []


def test_new_ones_take_the_place_of_old_ones_and_leave_other_devices():
    kept.keep([ceiling(), ceiling(threads=2)])
    kept.keep([ceiling("GPU", threads=None)])
    kept.keep([ceiling(threads=1)])
    assert [record["threads"] for record in kept.kept("CPU", 1)] == [1]
    assert len(kept.kept("GPU")) == 1


def test_a_faster_peak_takes_the_place_of_the_kept_one_and_a_slower_one_does_not():
    memory = ceiling(gflop_per_s=None) | {"ceiling": "bandwidth", "gb_per_s": 9.0}
    kept.keep([ceiling(gflop_per_s=5.0), ceiling(threads=2, gflop_per_s=10.0), memory])
    kept.lift([ceiling(gflop_per_s=4.0), ceiling(threads=2, gflop_per_s=11.0), ceiling(threads=4, gflop_per_s=20.0)])
    assert [record["gflop_per_s"] for record in kept.kept("CPU", 2)] == [5.0, 11.0, None]


@pytest.mark.parametrize("change", [{"isa": "v1"}, {"cpus_usable": 999}])
def test_a_peak_of_another_machine_lifts_nothing(change):
    kept.keep([ceiling(gflop_per_s=5.0)])
    kept.lift([ceiling(gflop_per_s=6.0, **change)])
    assert kept.kept("CPU", 1)[0]["gflop_per_s"] == 5.0


def test_a_damaged_file_counts_as_none_and_is_replaced():
    kept.path().parent.mkdir(parents=True)
    kept.path().write_text("{nonsense\n")
    assert kept.kept("CPU", 1) == []
    kept.keep([ceiling()])
    assert len(kept.kept("CPU", 1)) == 1


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(config, "cache_dir", tmp_path / "file" / "below")
    kept.keep([ceiling()])
    assert kept.kept("CPU", 1) == []


def test_the_age_is_that_of_the_oldest():
    records = [{"time_utc": "2026-03-01T00:00:00+00:00"}, {"time_utc": "2026-03-09T12:00:00+00:00"}]
    assert kept.age(records, datetime(2026, 3, 10, 13, tzinfo=UTC)) == "9 days old"
    assert kept.age(records[1:], datetime(2026, 3, 10, 13, tzinfo=UTC)) == "1 day old"
    assert kept.age(records[1:], datetime(2026, 3, 10, tzinfo=UTC)) == "less than a day old"


def probed(gflop_per_s, threads=1, **facts):
    return ceiling(threads=threads, gflop_per_s=gflop_per_s, **facts) | {"ceiling": "probe"}


def test_the_usual_probe_is_the_middle_of_the_last_sessions():
    assert kept.usual_probe("CPU", 1) is None
    for speed in (1.0, 1.0, 1.0, 100.0, 101.0, 60.0, 102.0, 103.0):
        kept.keep_probe(probed(speed))
    assert kept.usual_probe("CPU", 1) == 101
    assert kept.usual_probe("another CPU", 1) is None


def test_a_probe_on_other_threads_or_of_another_machine_is_another():
    for change in ({"threads": 2}, {"gemmlab": "0.0.1"}, {"isa": "v1"}, {"cpus_usable": 999}):
        kept.keep_probe(probed(7.0, **change))
    assert kept.usual_probe("CPU", 1) is None
    assert kept.usual_probe("CPU", 2) == 7


def test_probes_are_no_ceilings():
    kept.keep([ceiling()])
    kept.keep_probe(probed(5.0))
    assert kept.kept("CPU", 1) == [ceiling()]
