"""The report's sentences: each says what its records say, and the opposite when they do."""

from collections.abc import Sequence
from typing import Any

import made_up_records as made
import pytest

from gemmlab.analysis import verdicts
from gemmlab.analysis.attainable import lowest_limit
from gemmlab.analysis.groups import Group, devices
from gemmlab.report import method
from gemmlab.report.tables import RESULT_COLUMNS, ceilings, results

Record = dict[str, Any]


def group_of(*records: Record) -> Group:
    return devices(records)[0].groups[0]


def answer(*records: Record) -> str:
    return " ".join(verdicts.answers(group_of(*records)).values())


def verdict(backend: str, *records: Record) -> verdicts.Verdict:
    return verdicts.verdict(group_of(*records), backend)


class TestAnswer:
    def test_names_the_fastest_and_its_lead(self):
        said = answer(made.gemm("cpu-packed", gflop_per_s=200), made.gemm("cpu-numpy", gflop_per_s=100))
        assert "cpu-packed is the fastest at N = 2048 in float32 on 2 threads: 200 GFLOP/s" in said
        assert "2 times the speed of cpu-numpy (the next)" in said

    def test_names_another_when_another_is_fastest(self):
        said = answer(made.gemm("cpu-packed", gflop_per_s=100), made.gemm("cpu-numpy", gflop_per_s=200))
        assert "cpu-numpy is the fastest" in said
        assert "cpu-packed, the best of gemmlab's rungs, reaches 50 % of that" in said

    def test_compares_with_numpy_also_where_another_is_next(self):
        speeds = {"cpu-packed": 200, "cpu-mkl": 150, "cpu-numpy": 100}
        said = answer(*(made.gemm(name, gflop_per_s=speed) for name, speed in speeds.items()))
        assert "1.33 times the speed of cpu-mkl (the next) and 2 times the speed of cpu-numpy" in said

    def test_overlapping_times_are_no_difference_and_get_no_ratio(self):
        said = answer(
            made.gemm("cpu-packed", gflop_per_s=101, spread=0.05), made.gemm("cpu-numpy", gflop_per_s=100, spread=0.05)
        )
        assert "cpu-packed and cpu-numpy are the fastest" in said
        assert "no difference seen" in said
        assert "times the speed" not in said

    def test_a_tie_still_leads_over_the_rest(self):
        tie = [made.gemm("cpu-packed", gflop_per_s=101), made.gemm("cpu-mkl", gflop_per_s=100)]
        assert "cpu-packed has 2.02 times the speed of cpu-numpy (the next)" in answer(
            *tie, made.gemm("cpu-numpy", gflop_per_s=50)
        )

    def test_one_backend_is_not_called_fastest(self):
        said = answer(made.gemm("cpu-naive", gflop_per_s=1, threads=1))
        assert "cpu-naive is the only backend timed" in said
        assert "fastest" not in said

    def test_is_about_the_largest_square_that_two_did(self):
        records = [made.gemm("cpu-numpy", size, speed) for size, speed in ((512, 90), (1024, 100), (2048, 110))]
        records += [made.gemm("cpu-packed", 512, 95), made.gemm("cpu-packed", 1024, 50)]
        records += [made.gemm(name, (4096, 4096, 4096 * 2), 300) for name in ("cpu-numpy", "cpu-packed")]
        assert "cpu-numpy is the fastest at N = 1024" in answer(*records)

    def test_is_about_another_shape_where_none_is_square(self):
        records = [made.gemm("cpu-numpy", (64, 96, 128), 50), made.gemm("cpu-packed", (64, 96, 128), 99)]
        assert "cpu-packed is the fastest at m × n × k = 64 × 96 × 128" in answer(*records)

    def test_says_how_far_the_peak_is(self):
        records = [made.gemm("cpu-packed", gflop_per_s=140), *made.ceilings(peak=280)]
        assert "cpu-packed reaches 50 % of the measured peak of 280 GFLOP/s (v4 multiply-adds)" in answer(*records)

    def test_says_so_when_the_peak_is_passed(self):
        records = [made.gemm("cpu-packed", gflop_per_s=300), *made.ceilings(peak=250)]
        assert "20 % above the measured peak" in answer(*records)

    def test_does_not_guess_a_peak(self):
        assert "No peak was measured in float32 on 2 threads" in answer(made.gemm("cpu-packed"))
        assert "No peak was measured" in answer(made.gemm("cpu-packed"), *made.ceilings(threads=1))

    def test_says_what_stops_the_others(self):
        others = [
            made.gemm("cpu-ikj", gflop_per_s=15, intensity=0.16),
            made.gemm("cpu-blocked", gflop_per_s=40, intensity=50),
            made.gemm("cpu-mkl", gflop_per_s=240),
            made.gemm("cpu-numpy", gflop_per_s=100),
            made.gemm("cpu-naive", gflop_per_s=1, threads=1),
        ]
        said = answer(made.gemm("cpu-packed", gflop_per_s=270), *others, *made.ceilings())
        assert "emory bandwidth limits cpu-ikj;" in said
        assert "rithmetic limits cpu-mkl;" in said
        assert "not bandwidth, limit cpu-blocked;" in said
        assert "fewer threads limit cpu-naive;" in said
        assert "it is not known what limits cpu-numpy." in said

    def test_warns_of_wrong_failed_and_missing_backends(self):
        said = answer(
            made.gemm("cpu-numpy"),
            made.not_run("cpu-packed", "wrong", "the error is 30 times its bound"),
            made.not_run("cpu-blas", "failed", "it crashed"),
            made.not_run("cpu-mkl", "skipped", "MKL is not installed"),
        )
        assert (
            "Do not use cpu-packed here: a product came out wrong; cpu-blas failed; cpu-mkl could not be timed." in said
        )

    def test_has_two_to_four_sentences_of_a_whole_run(self):
        assert 2 <= len(verdicts.answers(group_of(*made.machine()))) <= 4

    def test_nothing_timed(self):
        assert "No backend was timed in float32 on 2 threads" in answer(made.not_run("cpu-mkl", "skipped", "absent"))

    def test_ceilings_alone(self):
        assert answer(*made.ceilings()) == "No product was measured on this device, only its ceilings."

    def test_the_readers_own_matrices_come_first(self):
        own = [made.gemm(name, (300, 50, 70), speed, suite="files", dtype="float64")
               for name, speed in (("cpu-a", 20), ("cpu-b", 10))]  # fmt: skip
        others = [made.gemm("cpu-b", size, 99) for size in (512, 1024, 2048)]
        first = devices([*others, *own])[0].groups[0]
        assert first.dtype == "float64"
        said = verdicts.answers(first)
        assert next(iter(said)) == "On your matrices"
        assert said["On your matrices"].startswith("cpu-a is the fastest at m × n × k = 300 × 50 × 70")


class TestVerdict:
    def test_gives_speed_share_and_speed_ups(self):
        said = verdict(
            "cpu-packed",
            made.gemm("cpu-packed", gflop_per_s=140),
            made.gemm("cpu-ikj", gflop_per_s=14),
            made.gemm("cpu-naive", gflop_per_s=1, threads=1),
            *made.ceilings(),
        )
        assert said.state == "ok"
        assert said.share_of_peak == pytest.approx(0.5)
        assert "140 GFLOP/s at N = 2048, 50 % of the measured peak" in said.text
        assert "10 times the speed of cpu-ikj and 140 times the speed of cpu-naive." in said.text

    def test_a_speed_up_at_another_size_names_it(self):
        said = verdict(
            "cpu-packed", made.gemm("cpu-packed", 512), made.gemm("cpu-packed"), made.gemm("cpu-ikj", 512, 10)
        )
        assert "10 times the speed of cpu-ikj (at N = 512)" in said.text

    def test_a_slower_backend_is_a_share_of_the_reference(self):
        said = verdict("cpu-blocked", made.gemm("cpu-blocked", gflop_per_s=5), made.gemm("cpu-ikj", gflop_per_s=10))
        assert "50 % of the speed of cpu-ikj" in said.text

    def test_overlapping_times_have_no_speed_up(self):
        said = verdict("cpu-blocked", made.gemm("cpu-blocked", gflop_per_s=10.1), made.gemm("cpu-ikj", gflop_per_s=10))
        assert "no difference seen from cpu-ikj" in said.text
        assert "times the speed" not in said.text

    def test_without_references_there_is_no_speed_up(self):
        assert "speed of" not in verdict("cpu-packed", made.gemm("cpu-packed")).text

    def test_is_of_the_largest_square(self):
        said = verdict("cpu-mkl", made.gemm("cpu-mkl", 256, 9), made.gemm("cpu-mkl", (999, 999, 9999), 7))
        assert said.text.startswith("9 GFLOP/s at N = 256")

    def test_noise_shows_as_a_range(self):
        noisy = verdict("cpu-mkl", made.gemm("cpu-mkl", gflop_per_s=100, spread=0.5))
        assert noisy.noisy
        assert "Noisy. Its speed is 76.9 to 125 GFLOP/s from p80 to p20 of its times." in noisy.text
        assert "Noisy" not in verdict("cpu-mkl", made.gemm("cpu-mkl")).text

    def test_correctness_is_that_of_the_worst_product(self):
        records = [made.gemm("cpu-mkl", 64, error_over_bound=0.5), made.gemm("cpu-mkl", 512, error_over_bound=0.1)]
        assert "Correct: its error is at most 0.5 of the bound." in verdict("cpu-mkl", *records).text
        unchecked = made.gemm("cpu-mkl", error_over_bound=None)
        assert "Its results were not checked." in verdict("cpu-mkl", unchecked).text


SHARES = {"complex64": "143 %", "float16": "36 %", "bfloat16": "36 %", "int8": ""}


@pytest.mark.parametrize("dtype", SHARES)
def test_a_dtype_is_judged_by_the_peak_of_the_one_that_it_is_multiplied_in(dtype):
    record = made.gemm("cpu-packed", gflop_per_s=100, intensity=50)
    said = verdict("cpu-packed", record | {"problem": record["problem"] | {"dtype": dtype}}, *made.ceilings())
    assert f"{SHARES[dtype]} of the measured peak".lstrip() in said.text or not SHARES[dtype]
    assert ("of the measured peak" in said.text) == bool(SHARES[dtype])


class TestBound:
    """Where a backend stands under the roofs: 280 GFLOP/s, L3 120 and DRAM 40 GB/s; N = 2048 fits L3."""

    @staticmethod
    def judged(speed: float, intensity: float | None, *extra: Record, size: int = 2048) -> verdicts.Verdict:
        record = made.gemm("cpu-x", size, speed, intensity=intensity)
        return verdict("cpu-x", record, *(extra or made.ceilings()))

    def test_memory(self):
        said = self.judged(18, 0.2)
        assert said.bound == "memory"
        assert "Memory-bound: L3 bandwidth allows 24 GFLOP/s at its 0.2 flop per byte, and it reaches 75 %" in said.text

    def test_memory_beyond_the_caches_is_dram(self):
        assert "DRAM bandwidth allows 8 GFLOP/s" in self.judged(7, 0.2, size=4096).text

    def test_compute(self):
        said = self.judged(270, 90)
        assert said.bound == "compute"
        assert "Compute-bound: bandwidth would allow the full peak." in said.text

    def test_neither(self):
        under_the_peak, under_memory = self.judged(20, 90), self.judged(3, 0.2)
        assert under_the_peak.bound == under_memory.bound == "instructions"
        assert "Not bound by bandwidth: bandwidth would allow the full peak. Other instructions" in under_the_peak.text
        assert "and it reaches 12 % of that. Other instructions" in under_memory.text

    def test_without_a_model_a_slow_one_is_not_explained(self):
        said = self.judged(20, None)
        assert said.bound == "unknown"
        assert "With each operand moved once, bandwidth would allow the full peak, and it reaches 7.1 %" in said.text

    def test_without_a_model_a_fast_one_is_compute_bound(self):
        assert self.judged(270, None).bound == "compute"

    def test_above_its_roof(self):
        said = self.judged(48, 0.2)
        assert said.bound == "above"
        assert "Above its limit" in said.text
        assert "100 % over that" in said.text

    def test_without_ceilings_nothing_is_said_of_it(self):
        said = verdict("cpu-x", made.gemm("cpu-x"))
        assert said.bound is None
        assert "What limits it is not known" in said.text

    def test_one_thread_among_two(self):
        records = [made.gemm("cpu-naive", gflop_per_s=1, threads=1), made.gemm("cpu-x"), *made.ceilings(threads=1)]
        said = verdict("cpu-naive", *records)
        assert said.bound == "thread"
        assert "It runs on 1 thread where the others have 2; its share is of the peak of as many." in said.text
        assert said.share_of_peak == pytest.approx(1 / 140)

    def test_a_cache_of_unknown_size_is_no_obstacle(self):
        records = [*made.ceilings(), made.gemm("cpu-x", intensity=0.2, gflop_per_s=7)]
        for record in records:
            record["environment"] = made.environment(cache_bytes={"L1": 49152, "L2": None, "L3": None})
        assert verdict("cpu-x", *records).bound == "memory"


class TestTrouble:
    def test_wrong_anywhere_puts_a_backend_out_of_the_contest(self):
        wrong = made.not_run("cpu-packed", "wrong", "the error is 30 times its bound", 513)
        records = [made.gemm("cpu-packed", gflop_per_s=270), wrong, made.gemm("cpu-numpy", gflop_per_s=100)]
        said = verdict("cpu-packed", *records)
        assert (said.state, said.gflop_per_s) == ("wrong", None)
        assert said.text == "Wrong product at N = 513: the error is 30 times its bound. Its times do not count."
        assert "cpu-numpy is the only backend timed" in answer(*records)

    def test_an_error_over_the_bound_is_wrong_whatever_the_status(self):
        said = verdict("cpu-packed", made.gemm("cpu-packed", error_over_bound=3.5))
        assert said.state == "wrong"
        assert "its error is 3.5 times the bound" in said.text

    def test_failed_keeps_what_was_timed(self):
        failed = made.not_run("cpu-mkl", "failed", "the process died", 4096)
        said = verdict("cpu-mkl", made.gemm("cpu-mkl"), failed)
        assert said.state == "failed"
        assert said.text.startswith("100 GFLOP/s")
        assert said.text.endswith("Failed at N = 4096: the process died.")

    def test_skipped_only(self):
        said = verdict("cpu-blis", made.not_run("cpu-blis", "skipped", "BLIS is not installed (pip install blis)"))
        assert said.state == "skipped"
        assert said.text == "Skipped at N = 2048: BLIS is not installed (pip install blis)."

    def test_skipped_at_one_size_is_no_trouble(self):
        skipped = made.not_run("cpu-naive", "skipped", "over the cap", 4096, threads=1)
        assert verdict("cpu-naive", made.gemm("cpu-naive", 64, 1, threads=1), skipped).state == "ok"


class TestGroups:
    def test_the_group_with_most_records_comes_first_and_float32_of_equals(self):
        doubles = made.ladder((256, 512), "float64")
        assert group_of(*doubles, *made.ladder((256, 512))).dtype == "float32"
        assert group_of(*doubles, *made.ladder((256,))).dtype == "float64"

    def test_products_too_small_for_all_threads_stay_with_the_others(self):
        records = [
            made.gemm("cpu-x", 64, 5, threads=1),
            made.gemm("cpu-x", 512, 50),
            made.gemm("cpu-naive", 64, 1, threads=1),
        ]
        (group,) = devices(records)[0].groups
        assert group.threads == 2
        assert [record["problem"]["n"] for record in group.squares("cpu-x")] == [64, 512]

    def test_two_thread_counts_make_two_groups(self):
        records = [
            made.gemm("cpu-x", 512, 50),
            made.gemm("cpu-x", 512, 30, threads=1),
            made.gemm("cpu-y", 512, 9, threads=1),
        ]
        both = {group.threads: group for group in devices(records)[0].groups}
        assert set(both) == {1, 2}
        assert [record["gflop_per_s"] for record in both[1].squares("cpu-x")] == [30]
        assert [record["gflop_per_s"] for record in both[2].squares("cpu-x")] == [50]
        assert all("cpu-y" in group.backends() for group in both.values())

    def test_each_device_has_its_own_ceilings(self):
        gpu = {"device": "A GPU", "threads": None}
        records = [made.gemm("cpu-x", gflop_per_s=140), *made.ceilings(peak=280)]
        records += [made.gemm("opencl-local", gflop_per_s=500) | gpu]
        records += [ceiling | gpu for ceiling in made.ceilings(peak=1000)]
        cpu, other = devices(records)
        assert "reaches 50 % of the measured peak of 280" in " ".join(verdicts.answers(cpu.groups[0]).values())
        assert "reaches 50 % of the measured peak of 1000" in " ".join(verdicts.answers(other.groups[0]).values())

    def test_with_and_without_transfers_are_two_contests(self):
        (device,) = devices([*made.gpu(), made.gpu_product("opencl-local", 512, 99, dtype="float64")])
        titles = ["float32", "float32 + transfers", "float64"]
        assert [group.title for group in device.groups] == titles
        assert [group.slug for group in device.groups] == ["float32", "float32-transfers", "float64"]
        assert {len(group.backends()) for group in device.groups[:2]} == {len(made.GPU_LADDER)}
        whole, moved = (" ".join(verdicts.answers(group).values()) for group in device.groups[:2])
        assert "opencl-clblast is the fastest at N = 2048 in float32: 6710 GFLOP/s" in whole
        assert "opencl-clblast is the fastest at N = 2048 in float32 with transfers: 3380 GFLOP/s" in moved

    def test_a_product_that_waits_for_transfers_is_bound_by_them(self):
        ceilings = made.gpu_ceilings()
        moved = verdict("opencl-local4", made.gpu_product("opencl-local4", 256, 2000, transfers=True), *ceilings)
        assert moved.bound == "transfers"
        assert "Limited by transfers: its kernels take 30 % of the time" in moved.text
        alone = verdict("opencl-local4", made.gpu_product("opencl-local4", 256, 2000), *ceilings)
        slow = verdict("opencl-naive", made.gpu_product("opencl-naive", 256, 2, transfers=True), *ceilings)
        assert (alone.bound, slow.bound) == ("unknown", "unknown")

    def test_transfers_stop_the_others(self):
        records = [made.gpu_product(name, 256, speed, transfers=True) for name, speed in (("a", 1500), ("b", 1200))]
        assert "ransfers limit b." in answer(*records, *made.gpu_ceilings())

    def test_the_caches_of_the_cpu_are_not_the_gpus(self):
        """Theirs are not known: the nearest may have what is not larger than any."""
        small, large = (made.gpu_product("opencl-local", 64, 1500, bytes_compulsory=size) for size in (2**27, 2**29))
        (device,) = devices([small, large, *made.gpu_ceilings()])
        group = device.groups[0]
        assert [lowest_limit(group, record).level for record in group.products] == ["L1", "DRAM"]

    def test_of_several_parameters_the_fastest_counts(self):
        records = [made.gemm("cpu-blocked", gflop_per_s=speed, params={"bs_r": speed}) for speed in (30, 50, 40)]
        assert "50 GFLOP/s" in verdict("cpu-blocked", *records).text


class TestMethod:
    @staticmethod
    def said(records: Sequence[Record]) -> str:
        return " ".join(method.how_measured(records))

    def test_samples_and_noise(self):
        records = [made.gemm("cpu-x", samples=5), made.gemm("cpu-y", samples=9, spread=0.2)]
        assert "the median of 5 to 9 samples" in self.said(records)
        assert "Of 2 times, 1 are noisy" in self.said(records)
        assert "median of" not in self.said([made.not_run("cpu-x", "skipped", "absent")])

    def test_ceilings_that_are_older_than_the_products_say_so(self):
        product = {**made.gemm("cpu-x"), "time_utc": "2026-03-09T10:00:00+00:00"}
        times = "2026-03-01T09:00:00+00:00", product["time_utc"]
        old, new = ({**made.ceiling("fma"), "time_utc": time} for time in times)
        assert "measured on 2026-03-01 and cached" in self.said([product, old, new])
        assert "cached" not in self.said([product, new])
        assert "cached" not in self.said([product])

    def test_transfers(self):
        inside, outside = made.gemm("gpu-x", transfers_counted=True), made.gemm("gpu-x", transfers_counted=False)
        assert "is included in the times." in self.said([inside])
        assert "is not included in the times." in self.said([outside])
        assert "marked" in self.said([inside, outside])
        assert "Moving" not in self.said([made.gemm("cpu-x")])

    def test_kernels(self):
        assert "by the device's own clock" in self.said([made.gpu_product("opencl-local", 64, 9)])
        assert "clock" not in self.said([made.gemm("cpu-x")])


class TestCeilings:
    def test_transfers_have_a_table_and_a_gpu_no_threads(self):
        tables = {table.slug: table for table in ceilings(made.gpu_ceilings())}
        assert tables["ceilings-fma"].columns == ("Runtime", "float32", "float64")
        assert tables["ceilings-fma"].rows[0].cells == ("opencl", "15000", "7500")
        assert [row.cells[0] for row in tables["ceilings-bandwidth"].rows] == ["DRAM", "L1", "local"]
        assert tables["ceilings-transfer"].columns == ("Host memory", "to device", "from device")
        assert tables["ceilings-transfer"].rows[1].cells == ("pinned", "22", "22")

    def test_of_other_kinds_nothing_is_said(self):
        assert ceilings([made.ceiling("latency")]) == []


class TestResults:
    def test_rows_are_sorted_and_reasons_listed(self):
        records = [
            made.gemm("cpu-ikj", gflop_per_s=10),
            made.gemm("cpu-mkl", gflop_per_s=90),
            made.not_run("cpu-blis", "skipped", "BLIS is not installed"),
            made.gemm("cpu-blocked", gflop_per_s=10.1),
        ]
        (table,) = results(group_of(*records, *made.ceilings()))
        assert [row.cells[0] for row in table.rows] == ["cpu-mkl", "cpu-blocked", "cpu-ikj", "cpu-blis"]
        over_reference = table.columns.index("Over cpu-ikj")
        assert [row.cells[over_reference] for row in table.rows[:3]] == ["9", "no difference", "1"]
        assert table.rows[3].note == "skipped: BLIS is not installed"

    def test_a_time_above_its_roof_says_so(self):
        (table,) = results(group_of(made.gemm("cpu-mkl", gflop_per_s=300), *made.ceilings(peak=250)))
        assert table.rows[0].cells[table.columns.index("Of its limit")] == "120 % (above)"

    def test_a_column_without_anything_in_it_is_left_out(self):
        (cpu,) = results(group_of(made.gemm("cpu-x"), made.gemm("cpu-ikj"), *made.ceilings()))
        (gpu,) = results(group_of(made.gpu_product("opencl-local", 512, 99), made.not_run("opencl-x", "failed", "no")))
        assert "Kernel" not in cpu.columns
        assert {"Threads", "Over cpu-ikj", "Of peak"}.isdisjoint(gpu.columns)
        assert gpu.rows[0].cells[gpu.columns.index("Kernel")] == "2.71 ms"
        assert len(gpu.rows[0].cells) == len(gpu.columns)

    def test_nothing_timed_keeps_every_column(self):
        (table,) = results(group_of(made.not_run("cpu-x", "failed", "no")))
        assert table.columns == RESULT_COLUMNS

    def test_every_suite_has_a_table_and_the_readers_own_comes_first(self):
        records = [made.gemm("cpu-x"), made.gemm("cpu-x", (8, 9, 10), suite="files"), *made.layers()]
        captions = [table.caption for table in results(group_of(*records))]
        assert captions[0].startswith("Your matrices")
        assert len(captions) == 3
