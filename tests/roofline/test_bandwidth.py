"""The bandwidth sweep: which working sets, where its plateaus are found, and what a level's record says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gemmlab.roofline.ceilings import bandwidth
from gemmlab.roofline.ceilings.bandwidth import Point, find_plateaus, largest_working_set, levels_seen, sweep_sizes
from gemmlab.roofline.ceilings.timing import Timing, time_loop

KIB, MIB = 1 << 10, 1 << 20
CACHES = {"L1": 48 * KIB, "L2": 1 * MIB, "L3": 32 * MIB}


def sweep(sizes, steps, speeds, noise=0.0):
    """Bandwidths over working sets that fall at each step, the point next to it in between."""
    rng = np.random.default_rng(len(sizes))
    level = np.searchsorted(steps, sizes)
    return [speeds[i] * (1 + noise * rng.standard_normal()) for i in level]


@pytest.mark.parametrize("noise", [0.0, 0.03, 0.08])
@pytest.mark.parametrize("threads", [1, 2, 16])
def test_plateaus_are_found_where_the_caches_end_whatever_the_system_says(threads, noise):
    sizes = sweep_sizes(largest_working_set(CACHES, threads))
    steps = [48 * KIB, 1 * MIB, 32 * MIB / threads]
    speeds = sweep(sizes, steps, [400, 120, 60, 15], noise)
    found = find_plateaus(speeds, 4)
    for number, own in enumerate(found):
        assert len(own) >= 1
        assert {int(np.searchsorted(steps, sizes[i])) for i in own} == {number}


def test_points_beside_a_step_are_left_out():
    assert find_plateaus([9, 9, 9, 9, 6, 3, 3, 3, 3], 2) == [range(4), range(6, 9)]
    assert find_plateaus([5.0, 5.0, 5.0], 1) == [range(3)]
    assert find_plateaus([9, 1], 2) == [range(1), range(1, 2)]


def test_caches_that_make_a_plateau():
    assert levels_seen(CACHES, 1, 256 * MIB) == ["L1", "L2", "L3"]
    assert levels_seen(CACHES, 32, 16 * MIB) == ["L1", "L2"]  # a thread's share of L3 is no larger than L2
    assert levels_seen({"L1": 64 * KIB, "L2": 100 * KIB}, 1, 256 * MIB) == ["L1"]
    assert levels_seen({"L3": 260 * MIB}, 1, 512 * MIB) == []
    assert levels_seen({}, 2, 128 * MIB) == []


@pytest.mark.parametrize(("threads", "largest"), [(1, 256), (2, 128), (3, 85), (16, 16), (96, 16)])
def test_threads_share_the_buffer_down_to_16_mib_each(threads, largest):
    assert largest_working_set(CACHES, threads) == largest * MIB


def test_memory_is_reached_as_far_out_as_affordable():
    assert largest_working_set({"L3": 260 * MIB}, 1) == 512 * MIB


@pytest.mark.parametrize("largest", [2 * MIB, 16 * MIB, 512 * MIB])
def test_working_sets_rise_to_the_largest_in_whole_blocks(largest):
    sizes = sweep_sizes(largest)
    assert sizes == sorted(set(sizes))
    assert (sizes[0], sizes[-1]) == (8 * KIB, largest)
    assert all(size % 512 == 0 for size in sizes)


def test_a_level_has_the_samples_of_all_its_points_at_the_middle_one():
    def point(size, *gb_per_s):
        return Point("load", size, 2, Timing([2 * size / speed / 1e9 for speed in gb_per_s], 3))

    level = bandwidth._level("L2", [point(1000, 50, 60), point(2000, 70, 80), point(3000, 90, 100)])
    assert (level["ceiling"], level["level"], level["operation"]) == ("bandwidth", "L2", "load")
    assert level["working_set_bytes"] == 2000
    assert level["samples"] == 6
    assert level["gb_per_s"] == pytest.approx(2 / (1 / 70 + 1 / 80))  # the median of the times
    assert 2 * 2000 / level["p80_s"] / 1e9 == pytest.approx(60)
    assert 2 * 2000 / level["p20_s"] / 1e9 == pytest.approx(90)


def test_a_machine_slow_to_wake_threads_still_gets_long_samples():
    assert time_loop(lambda threads, calls: (threads - 1) * 1e-2 + calls * 1e-6, 2, 0.0).calls_per_sample >= 1000


def test_calls_are_added_until_a_sample_is_long_enough():
    asked = []

    def run(threads, calls):
        asked.append((threads, calls))
        return calls * 1e-6

    timing = time_loop(run, 2, 0.0)
    assert timing.calls_per_sample >= 1000
    assert timing.samples_s == pytest.approx([1e-6] * 5)
    assert asked[-5:] == [(2, timing.calls_per_sample)] * 5


@pytest.mark.parametrize(
    ("end_s", "operations", "sizes"), [(math.inf, {"load", "copy", "triad"}, 19), (0.0, {"load"}, 10)]
)
def test_after_its_time_a_sweep_has_loads_alone_at_fewer_working_sets(monkeypatch, end_s, operations, sizes):
    monkeypatch.setattr(bandwidth, "largest_working_set", lambda *_: MIB)
    found = bandwidth.measure_bandwidths(1, 0.0, end_s)
    assert {record["operation"] for record in found} == operations
    loads = [record for record in found if record["ceiling"] == "sweep" and record["operation"] == "load"]
    assert len(loads) == sizes
    assert "DRAM" in {record.get("level") for record in found}
