"""The next lever: each rule speaks where its records ask for it, and is silent where they do not."""

from typing import Any

import made_up_records as made
import pytest

from gemmlab.report import levers, verdicts
from gemmlab.report.groups import Device, devices

Record = dict[str, Any]


def device_of(*records: Record) -> Device:
    return devices(records)[0]


def lever(backend: str, *records: Record) -> str:
    group, *others = device_of(*records).groups
    return levers.lever(group, backend, others)


def speeds(**rates: float) -> list[Record]:
    """One product of each backend, as ``cpu_packed=200``."""
    return [made.gemm(name.replace("_", "-"), gflop_per_s=rate) for name, rate in rates.items()]


def in_isa(isa: str, *records: Record) -> list[Record]:
    """The same records where another instruction set is in use."""
    return [record | {"environment": made.environment(isa=isa)} for record in records]


class TestInstructionSet:
    """The made-up CPU has v4 (280 GFLOP/s) and v3 (146)."""

    def test_near_the_roof_of_the_one_in_use(self):
        said = lever("cpu-packed", *in_isa("v3", *speeds(cpu_packed=133), *made.ceilings()))
        assert said.startswith("The v3 roof is reached at 91 %; this CPU has v4 (AVX-512): leave GEMMLAB_ISA unset.")

    def test_far_below_it_says_nothing(self):
        assert "v4" not in lever("cpu-ikj", *in_isa("v3", *speeds(cpu_ikj=9), *made.ceilings()))

    def test_the_best_in_use_says_nothing(self):
        assert "roof is reached" not in lever("cpu-packed", *speeds(cpu_packed=260), *made.ceilings())

    def test_a_library_chooses_its_own(self):
        assert "GEMMLAB_ISA" not in lever("cpu-mkl", *in_isa("v3", *speeds(cpu_mkl=133), *made.ceilings()))

    def test_without_that_roof_only_the_lack_is_named(self):
        said = lever("cpu-packed", *in_isa("v3", *speeds(cpu_packed=133)))
        assert said == "It runs in v3; this CPU has v4 (AVX-512): leave GEMMLAB_ISA unset."


class TestNextRung:
    def test_says_what_it_does_by_the_models_and_by_the_clock(self):
        own = made.gemm("cpu-blocked", gflop_per_s=40, bytes_model_l1=3e9, bytes_model_l2=2e9)
        better = made.gemm("cpu-blocked-local", gflop_per_s=60, bytes_model_l1=1e9, bytes_model_l2=2e9)
        assert lever("cpu-blocked", own, better) == (
            "The next rung, cpu-blocked-local, sums a piece of a row of C in a buffer of its own: by the models its "
            "bytes from L1 fall 3 times; it has 1.5 times the speed."
        )

    def test_overlapping_times_have_no_ratio(self):
        said = lever("cpu-ikj", *speeds(cpu_ikj=10.1, cpu_blocked=10))
        assert said == "The next rung, cpu-blocked, keeps a block of B in L1; no difference in speed was seen."

    def test_a_slower_one_is_no_advice(self):
        assert "but it has 50 % of the speed" in lever("cpu-ikj", *speeds(cpu_ikj=20, cpu_blocked=10))

    def test_a_ratio_at_another_size_names_it(self):
        records = [made.gemm("cpu-ikj"), made.gemm("cpu-ikj", 512, 10), made.gemm("cpu-blocked", 512, 30)]
        assert "it has 3 times the speed at N = 512." in lever("cpu-ikj", *records)

    def test_one_that_was_not_measured_is_not_named(self):
        assert "cpu-blocked" not in lever("cpu-ikj", *speeds(cpu_ikj=10))

    @pytest.mark.parametrize(("rung", "better"), [("naive", "private"), ("local4", "register")])
    def test_a_devices_rungs_stay_with_their_runtime(self, rung: str, better: str):
        records = [made.gpu_product(f"cuda-{name}", 512, rate) for name, rate in ((rung, 100), (better, 300))]
        assert f"The next rung, cuda-{better}, " in lever(f"cuda-{rung}", *records)


class TestFaster:
    def test_a_beaten_backend_is_told_what_to_use(self):
        assert lever("cpu-blas", *speeds(cpu_blas=100, cpu_mkl=210)) == "Use cpu-mkl: 2.1 times the speed."

    def test_the_next_rung_is_not_named_twice(self):
        said = lever("cpu-blocked-local", *speeds(cpu_blocked_local=50, cpu_packed=200))
        assert "it has 4 times the speed." in said
        assert "Use" not in said

    def test_a_rung_below_the_winner_hears_of_both(self):
        said = lever("cpu-ikj", *speeds(cpu_ikj=10, cpu_blocked=30, cpu_mkl=200))
        assert "it has 3 times the speed. Use cpu-mkl: 20 times the speed." in said

    def test_nobody_is_sent_to_an_equal(self):
        assert "Use" not in lever("cpu-blas", *speeds(cpu_blas=100, cpu_mkl=101))


class TestSizes:
    def test_memory_bound_at_some_sizes(self):
        """DRAM allows 8 GFLOP/s at 0.2 flop a byte, and the peak is 280."""
        records = [made.gemm("cpu-x", 64, 200, intensity=90), made.gemm("cpu-x", 4096, 7, intensity=0.2)]
        assert lever("cpu-x", *records, *made.ceilings()).startswith("Memory-bound from N = 4096.")

    def test_memory_bound_at_all_sizes_is_the_verdicts_to_say(self):
        records = [made.gemm("cpu-x", size, 7, intensity=0.2) for size in (4096, 8192)]
        assert "Memory-bound" not in lever("cpu-x", *records, *made.ceilings())

    def test_small_ones_under_half_of_the_peak(self):
        records = [made.gemm("cpu-mkl", size, rate) for size, rate in ((64, 90), (96, 130), (512, 250))]
        assert lever("cpu-mkl", *records, *made.ceilings()).startswith("Under half of the peak up to N = 96.")

    @pytest.mark.parametrize(
        ("holds", "text"),
        [
            ({1: True, 2: False}, "up to N = 1"),
            ({1: False, 2: True, 3: True}, "from N = 2"),
            ({1: True, 2: False, 3: True}, "at N = 1 and 3"),
            ({1: True}, ""),
            ({1: False}, ""),
            ({}, ""),
        ],
    )
    def test_ranges(self, holds: dict[int, bool], text: str):
        assert levers._sizes(holds) == text


class TestPacking:
    @staticmethod
    def product(size: int, percent: float | None) -> Record:
        return made.gemm("cpu-packed", size, 200, packing_percent=percent)

    def test_where_its_share_of_the_time_is_largest(self):
        records = [self.product(size, percent) for size, percent in ((64, 0.0), (256, 24.6), (1000, 4.0), (2048, None))]
        assert lever("cpu-packed", *records) == (
            "Packing is 25 % of its time at N = 256: gemmlab.pack packs a B once for many products."
        )

    def test_a_small_share_is_not_worth_a_word(self):
        assert "Packing" not in lever("cpu-packed", self.product(2048, 9.0))


class TestThreads:
    @staticmethod
    def both(*pairs: tuple[int, float, float]) -> list[Record]:
        """A backend at some sizes, at a speed on one thread and at another on two."""
        alone = [made.gemm("cpu-x", size, rate, threads=1) for size, rate, _ in pairs]
        return [*alone, *(made.gemm("cpu-x", size, rate) for size, _, rate in pairs)]

    def test_small_products_that_gain_nothing(self):
        said = lever("cpu-x", *self.both((64, 20, 15), (96, 30, 30.2), (512, 50, 90)))
        assert said == "2 threads do not pay up to N = 96."

    def test_none_that_gains(self):
        assert lever("cpu-x", *self.both((64, 20, 15), (512, 50, 40))) == "2 threads do not pay at any N."

    def test_all_that_gain(self):
        assert lever("cpu-x", *self.both((64, 20, 35), (512, 50, 90))) == ""

    def test_the_other_group_is_of_the_same_number_type(self):
        doubles = [made.gemm("cpu-x", size, 99, threads=1, dtype="float64") for size in (64, 512)]
        assert lever("cpu-x", *(made.gemm("cpu-x", size, 9) for size in (64, 512, 600)), *doubles) == ""


class TestTransfers:
    def test_keep_operands_on_the_device_or_pin_them(self):
        record = made.gpu_product("opencl-local4", 1024, 4000, transfers=True)
        slow = record | made.times(record["kernel_s"] + record["bytes_compulsory"] / 5e9)
        assert lever("opencl-local4", slow, *made.gpu_ceilings()).startswith(
            "Keep operands on the device: its kernels alone do 4000 GFLOP/s. "
            "Operands move at 5 GB/s; from pinned memory it could be 22."
        )

    def test_where_they_move_as_fast_as_they_can(self):
        record = made.gpu_product("opencl-local4", 256, 4000, transfers=True)
        fast = record | made.times(record["kernel_s"] + record["bytes_compulsory"] / 30e9)
        said = lever("opencl-local4", fast, *made.gpu_ceilings())
        assert "Keep operands on the device" in said
        assert "pinned" not in said

    def test_without_transfers_there_is_none(self):
        assert "device" not in lever("opencl-local4", made.gpu_product("opencl-local4", 256, 4000))


class TestLeft:
    def test_the_winner_hears_what_is_left(self):
        assert lever("cpu-x", *speeds(cpu_x=224), *made.ceilings()) == "At most 1.25 times is left under the peak."
        assert lever("cpu-x", *speeds(cpu_x=300), *made.ceilings()) == "Nothing is left under the peak."

    def test_nothing_is_known_without_ceilings_or_times(self):
        assert lever("cpu-x", *speeds(cpu_x=224)) == ""
        assert lever("cpu-x", made.not_run("cpu-x", "skipped", "absent")) == ""


class TestInVerdicts:
    def test_bound_then_lever_then_caveats(self):
        records = [*speeds(cpu_blas=100, cpu_mkl=210), *made.ceilings()]
        said = verdicts.verdict(device_of(*records).groups[0], "cpu-blas")
        assert said.lever == "Use cpu-mkl: 2.1 times the speed."
        assert said.caveats == "Correct: its error is at most 0.02 of the bound."
        assert said.text == f"{said.said} {said.lever} {said.caveats}"

    def test_a_wrong_one_has_none(self):
        wrong = made.not_run("cpu-packed", "wrong", "the error is 30 times its bound")
        assert verdicts.verdict(device_of(wrong).groups[0], "cpu-packed").lever == ""

    def test_at_most_two_rules_are_heard(self):
        for group in device_of(*made.machine()).groups:
            for judged in verdicts.verdicts(group):
                assert judged.lever.count(". ") < 3, judged.lever
