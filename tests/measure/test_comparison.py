"""Two runs beside each other: what is matched, what a ratio and its interval are, and when a difference was seen."""

from __future__ import annotations

import json
import math
from importlib.util import find_spec
from typing import Any

import made_up_records as made
import pytest

from gemmlab.measure.comparison import NO_DIFFERENCE, compare, overlap, ratio
from gemmlab.measure.comparison_table import comparison_text, nothing_in_common, times

Record = dict[str, Any]


def faster(record: Record, factor: float) -> Record:
    """The same measurement, so many times as fast."""
    timed = {key: record[key] / factor for key in ("median_s", "p20_s", "p80_s", "min_s")}
    speeds = {key: record[key] * factor for key in ("gflop_per_s", "gb_per_s") if record.get(key)}
    return record | timed | speeds


def text_of(old: list[Record], new: list[Record], **options: bool) -> str:
    return comparison_text(compare(old, new), "old.jsonl", "new.jsonl", **options)


def words(text: str) -> str:
    """A text without its line breaks."""
    return " ".join(text.split())


# A pair


def test_a_ratio_is_of_speeds_and_its_interval_from_one_end_to_the_other():
    old = made.gemm("cpu-ikj") | {"p20_s": 1.9, "median_s": 2.0, "p80_s": 2.2}
    pair = ratio(old, old | {"p20_s": 0.95, "median_s": 1.0, "p80_s": 1.0})
    assert (pair.verdict, pair.ratio) == ("faster", 2.0)
    assert (pair.low, pair.high) == pytest.approx((1.9 / 1.0, 2.2 / 0.95))
    assert ratio(pair.new, pair.old).verdict == "slower"


@pytest.mark.parametrize(("p20_s", "seen"), [(0.9, False), (1.1, False), (1.1000001, True)])
def test_intervals_that_overlap_or_touch_show_no_difference(p20_s, seen):
    old = made.gemm("cpu-ikj") | {"p20_s": 0.9, "median_s": 1.0, "p80_s": 1.1}
    new = old | {"p20_s": p20_s, "median_s": 1.3, "p80_s": 1.4}
    assert overlap(old, new) is overlap(new, old) is not seen
    pair = ratio(old, new)
    assert pair.seen is seen
    assert (pair.low <= 1 <= pair.high) is not seen
    assert pair.verdict == ("slower" if seen else NO_DIFFERENCE)


def test_marks_widen_the_interval_of_a_ratio():
    old = made.gemm("cpu-ikj") | {"p20_s": 0.99, "median_s": 1.0, "p80_s": 1.01, "interval_percent": 1.0}
    new = old | {"p20_s": 0.49, "median_s": 0.5, "p80_s": 0.51}
    pair = ratio(old, new)
    assert (pair.least, pair.most) == (pair.low, pair.high)
    noisy = ratio(old, new | {"noisy": True, "interval_percent": 7.0})
    assert (noisy.least, noisy.most) == pytest.approx((2 / 1.08, 2 * 1.08))
    without = ratio(old, new | {"noisy": True, "interval_percent": None, "noise_percent": 20.0})
    assert (without.least, without.most) == pytest.approx((2 / 1.21, 2 * 1.21))
    slower_machine = ratio(old | {"probe_gflop_per_s": 100.0}, new | {"probe_gflop_per_s": 90.0})
    assert (slower_machine.least, slower_machine.most) == pytest.approx((2 / 1.12, 2 * 1.12))


def test_no_ratio_is_told_where_no_difference_was_seen():
    old = made.gemm("cpu-ikj")
    pair = ratio(old, faster(old, 1.01))
    assert times(pair) == "no difference seen"
    row = compare([old], [faster(old, 1.01)]).to_dict()["products"][0]
    assert (row["verdict"], row["ratio"]) == ("no difference seen", None)
    assert row["ratio_low"] < 1 < row["ratio_high"]


def test_a_peak_is_told_from_its_fastest_sample():
    old = made.ceiling("fma", gflop_per_s=100.0) | {"min_s": 0.9, "p20_s": 1.0, "median_s": 1.1, "p80_s": 1.2}
    new = old | {"gflop_per_s": 120.0, "min_s": 0.75, "p20_s": 0.76, "median_s": 0.8, "p80_s": 0.85}
    pair = ratio(old, new)
    assert pair.ratio == pytest.approx(1.2)
    assert pair.low <= pair.ratio <= pair.high
    assert pair.verdict == "faster"
    twice_the_work = {key: 2 * new[key] for key in ("min_s", "p20_s", "median_s", "p80_s")}
    assert ratio(old, new | twice_the_work).ratio == pytest.approx(1.2)


@pytest.mark.parametrize(("probe", "noisy"), [(100.9, False), (101.1, True), (98.0, True), (None, False)])
def test_a_pair_is_noisy_where_the_machine_ran_at_another_speed(probe, noisy):
    old = made.gemm("cpu-ikj") | {"probe_gflop_per_s": 100.0}
    new = faster(old, 1.2) | {"probe_gflop_per_s": probe}
    pair = ratio(old, new)
    assert (pair.verdict, pair.noisy, pair.other_speed) == ("faster", noisy, noisy)
    text = comparison_text(compare([old], [new]), "old", "new")
    assert ("ran at another speed at 1 of 1 products" in " ".join(text.split())) == noisy
    assert max(map(len, text.splitlines())) <= 80
    on_device = {"threads": None}  # the CPU's probe says nothing of it
    assert not ratio(old | on_device, new | on_device).noisy
    assert not ratio(old, new | {"threads": old["threads"] + 1}).noisy


# What is matched


def test_the_same_product_is_matched_whatever_its_suite_and_run():
    old = made.gemm("cpu-ikj", 512, suite="squares")
    new = made.gemm("cpu-ikj", 512, suite="sizes", label="another", run_id="another", time_utc="2026-01-01T00:00:00Z")
    assert len(compare([old], [new]).products) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"backend": "cpu-blocked"},
        {"device": "Another CPU"},
        {"threads": 1},
        {"transfers_counted": True},
        {"problem": made.gemm("cpu-ikj", 256)["problem"]},
        {"problem": made.gemm("cpu-ikj", dtype="float64")["problem"]},
        {"problem": made.gemm("cpu-ikj")["problem"] | {"layout": "CFC"}},
        {"problem": made.gemm("cpu-ikj")["problem"] | {"batch": 4}},
        {"environment": made.environment(isa="v3")},
        {"status": "wrong"},
        {"error_over_bound": 2.0},
    ],
    ids=lambda other: next(iter(other)),
)
def test_what_differs_is_not_matched(other):
    assert compare([made.gemm("cpu-ikj")], [made.gemm("cpu-ikj") | other]).products == ()


def test_a_device_has_no_instruction_set_of_the_host():
    old = made.gpu_product("opencl-local", 512, 1000.0)
    assert len(compare([old], [old | {"environment": made.environment(isa="v3")}]).products) == 1
    assert compare([old], [made.gpu_product("opencl-local", 512, 1000.0, transfers=True)]).products == ()


def test_one_set_of_parameters_each_is_compared_and_what_differs_is_named():
    old, new = made.gemm("cpu-blocked", params={"bs_r": 184}), made.gemm("cpu-blocked", params={"bs_r": 64, "bs_c": 8})
    (pair,) = compare([old], [new]).products
    assert pair.changed_params == {"bs_r": (184, 64), "bs_c": (None, 8)}
    text = text_of([old], [new])
    assert "cpu-blocked ran with other parameters, old to new: bs_r 184 to 64; bs_c unset to 8." in words(text)


def test_several_sets_of_parameters_are_told_apart():
    old = [made.gemm("cpu-blocked", params={"bs_r": size}) for size in (8, 16, 32)]
    new = [faster(made.gemm("cpu-blocked", params={"bs_r": size}), 2) for size in (16, 32, 64)]
    comparison = compare(old, new)
    assert [pair.new["params"]["bs_r"] for pair in comparison.products] == [16, 32]
    assert not any(pair.changed_params for pair in comparison.products)
    assert [len(comparison.only_old), len(comparison.only_new)] == [1, 1]
    assert "cpu-blocked bs_r=16" in text_of(old, new)


def test_of_several_times_the_fastest_counts():
    old = made.gemm("cpu-ikj")
    (pair,) = compare([old, faster(old, 2), faster(old, 1.5)], [faster(old, 4), old]).products
    assert pair.ratio == pytest.approx(2)


def test_ceilings_are_matched_by_loop_level_operation_and_threads():
    old, new = made.machine(), [faster(r, 1.5) if r.get("level") == "L2" else r for r in made.machine() if r["min_s"]]
    pairs = compare(old, new).ceilings
    assert {pair.new["ceiling"] for pair in pairs} == {"fma", "bandwidth"}
    assert {pair.new["level"] for pair in pairs if pair.seen} == {"L2"}
    assert {pair.new["threads"] for pair in pairs} == {1, 2}


def test_two_equal_runs_show_no_difference_and_go_to_json():
    comparison = compare(made.machine() + made.gpu(), made.machine() + made.gpu())
    assert {pair.verdict for pair in (*comparison.products, *comparison.ceilings)} == {NO_DIFFERENCE}
    found = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert (found["only_old"], found["only_new"]) == (0, 0)
    assert len(found["products"]) == len(comparison.products) > 100


# In words


def test_the_table_is_80_columns_wide_and_marks_noise():
    old = made.machine() + made.gpu()
    text = text_of(old, [record if not record["min_s"] else faster(record, 1.2) for record in old])
    assert max(map(len, text.splitlines())) <= 80
    assert "1.20 (1.16-1.24)" in text
    assert "!" not in text
    noisy = made.gemm("cpu-ikj", spread=0.3)
    assert "!: noisy" in text_of([noisy], [noisy])


def test_a_summary_tells_a_mean_only_where_most_rows_differ():
    old = [made.gemm("cpu-ikj", size) for size in (64, 128, 256, 512)]
    some = [faster(old[0], 2), *old[1:]]
    assert "cpu-ikj: no difference seen at 3, faster at 1 of 4." in text_of(old, some)
    assert "geometric mean" not in text_of(old, some)
    most = [faster(old[0], 2), faster(old[1], 2), faster(old[2], 16), old[3]]
    mean = f"{math.prod((2, 2, 16)) ** (1 / 3):.2f}"
    said = f"faster at 3, no difference seen at 1 of 4; {mean} times the speed in the geometric mean over those 3."
    assert said in words(text_of(old, most))
    assert "No difference seen at any product of cpu-ikj." in text_of(old, old)


def test_what_one_run_has_alone_is_counted_and_named():
    old = [made.gemm(name, size) for name in ("cpu-ikj", "cpu-mkl") for size in (64, 128, 256, 512, 600, 1000)]
    new = [made.gemm("cpu-ikj", 64), made.gemm("cpu-packed", 64)]
    text = words(text_of(old, new))
    assert "Only in old.jsonl: 11 products (backend cpu-mkl; size 128, 256, 512, 600 and 1 more)." in text
    assert "Only in new.jsonl: 1 product (backend cpu-packed)." in text


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"device": "Another CPU"}, "device Another CPU"),
        ({"threads": 1}, "threads 1"),
        ({"environment": made.environment(isa="v3")}, "instruction set v3"),
    ],
    ids=["device", "threads", "instruction set"],
)
def test_another_machine_is_said_to_be_one(other, said):
    old, new = [made.gemm("cpu-ikj")], [made.gemm("cpu-ikj") | other]
    text = nothing_in_common(compare(old, new), "old.jsonl", "new.jsonl")
    assert "nothing in common" in text
    assert f"Only in new.jsonl: 1 product ({said})." in text
    assert "is another machine" in text


def test_a_line_on_the_ceilings_where_they_are_not_the_matter():
    text = text_of(made.ceilings(), made.ceilings(), ceilings=False)
    assert f"Ceilings of {made.DEVICE}: no difference seen at 8 of 8." in text
    assert "L1 load" not in text


# In a figure


@pytest.mark.skipif(not find_spec("matplotlib"), reason="no matplotlib")
def test_every_group_that_both_have_is_drawn(tmp_path):
    from gemmlab.report import draw_comparison

    old = made.machine() + made.gpu()
    new = [faster(r, 1.2) if r["kind"] == "gemm" and r["min_s"] else r for r in old if r.get("backend") != "cpu-mkl"]
    files = draw_comparison(old, new, ("old.jsonl", "new.jsonl"), tmp_path / "figures")
    assert all(file.stat().st_size > 1000 for file in files)
    assert {file.name for file in files if file.suffix == ".svg"} == {
        "comparison-float32-2t.svg", "comparison-float64-2t.svg",
        "comparison-float32-device2.svg", "comparison-float32-transfers-device2.svg",
    }  # fmt: skip
    text = (tmp_path / "figures" / "comparison-float32-2t.svg").read_text(encoding="utf-8")
    assert "old.jsonl: hollow, dotted" in text
    assert "cpu-mkl" not in text


@pytest.mark.skipif(not find_spec("matplotlib"), reason="no matplotlib")
def test_ceilings_alone_are_drawn_and_no_roofs_leave_no_figure(tmp_path):
    from gemmlab.report import draw_comparison

    names = ("old.jsonl", "new.jsonl")
    assert len(draw_comparison(made.ceilings(), made.ceilings(), names, tmp_path)) == 2
    peaks = [made.ceiling("fma", gflop_per_s=100.0)]
    assert draw_comparison(peaks, peaks, names, tmp_path) == []
