"""The advice: each rule applies where its records ask for it, and not where they do not."""

from typing import Any

import made_up_records as made
import pytest

from gemmlab.analysis import verdicts
from gemmlab.analysis.advice import advice
from gemmlab.analysis.groups import Device, devices

Record = dict[str, Any]


def device_of(*records: Record) -> Device:
    return devices(records)[0]


def advised(backend: str, *records: Record) -> str:
    return advice(device_of(*records).groups[0], backend)


def speeds(**rates: float) -> list[Record]:
    """One product of each backend, as ``cpu_packed=200``."""
    return [made.gemm(name.replace("_", "-"), gflop_per_s=rate) for name, rate in rates.items()]


class TestNextRung:
    def test_says_what_it_does_by_the_models_and_by_the_clock(self):
        own = made.gemm("cpu-blocked", gflop_per_s=40, bytes_model_l1=3e9, bytes_model_l2=2e9)
        better = made.gemm("cpu-blocked-local", gflop_per_s=60, bytes_model_l1=1e9, bytes_model_l2=2e9)
        assert advised("cpu-blocked", own, better) == (
            "The next rung, cpu-blocked-local, sums a piece of a row of C in a local buffer. "
            "By the traffic models it moves 3 times fewer bytes from L1; it has 1.5 times the speed."
        )

    def test_overlapping_times_have_no_ratio(self):
        said = advised("cpu-ikj", *speeds(cpu_ikj=10.1, cpu_blocked=10))
        assert said == "The next rung, cpu-blocked, keeps a block of B in L1; no difference in speed was seen."

    def test_a_slower_one_is_no_advice(self):
        assert "it has only 50 % of the speed" in advised("cpu-ikj", *speeds(cpu_ikj=20, cpu_blocked=10))

    def test_a_ratio_at_another_size_names_it(self):
        records = [made.gemm("cpu-ikj"), made.gemm("cpu-ikj", 512, 10), made.gemm("cpu-blocked", 512, 30)]
        assert "it has 3 times the speed at N = 512." in advised("cpu-ikj", *records)

    def test_one_that_was_not_measured_is_not_named(self):
        assert "cpu-blocked" not in advised("cpu-ikj", *speeds(cpu_ikj=10))

    @pytest.mark.parametrize(("rung", "better"), [("naive", "private"), ("local4", "register")])
    def test_a_devices_rungs_stay_with_their_runtime(self, rung: str, better: str):
        records = [made.gpu_product(f"cuda-{name}", 512, rate) for name, rate in ((rung, 100), (better, 300))]
        assert f"The next rung, cuda-{better}, " in advised(f"cuda-{rung}", *records)


class TestFaster:
    def test_a_beaten_backend_is_told_what_to_use(self):
        assert advised("cpu-blas", *speeds(cpu_blas=100, cpu_mkl=210)) == "Use cpu-mkl: 2.1 times the speed."

    def test_the_next_rung_is_not_named_twice(self):
        said = advised("cpu-five-loops", *speeds(cpu_five_loops=50, cpu_packed=200))
        assert "it has 4 times the speed." in said
        assert "Use" not in said

    def test_a_rung_below_the_winner_hears_of_both(self):
        said = advised("cpu-ikj", *speeds(cpu_ikj=10, cpu_blocked=30, cpu_mkl=200))
        assert "it has 3 times the speed. Use cpu-mkl: 20 times the speed." in said

    def test_nobody_is_sent_to_an_equal(self):
        assert "Use" not in advised("cpu-blas", *speeds(cpu_blas=100, cpu_mkl=101))


class TestPacking:
    @staticmethod
    def product(size: int, percent: float | None) -> Record:
        return made.gemm("cpu-packed", size, 200, packing_percent=percent)

    def test_where_its_share_of_the_time_is_largest(self):
        records = [self.product(size, percent) for size, percent in ((64, 0.0), (256, 24.6), (1000, 4.0), (2048, None))]
        assert advised("cpu-packed", *records) == (
            "Packing takes 25 % of its time at N = 256: gemmlab.pack packs a B once for many products."
        )

    def test_a_small_share_is_not_worth_a_word(self):
        assert "Packing" not in advised("cpu-packed", self.product(2048, 9.0))


class TestTransfers:
    def test_keep_operands_on_the_device(self):
        record = made.gpu_product("opencl-local4", 1024, 4000, transfers=True)
        slow = record | made.times(record["kernel_s"] + record["bytes_compulsory"] / 5e9)
        said = advised("opencl-local4", slow, *made.gpu_ceilings())
        assert said == "Keep operands on the device: the kernels alone reach 4000 GFLOP/s."

    def test_without_transfers_there_is_none(self):
        assert "device" not in advised("opencl-local4", made.gpu_product("opencl-local4", 256, 4000))


class TestInVerdicts:
    def test_summary_then_advice_then_caveats(self):
        records = [*speeds(cpu_blas=100, cpu_mkl=210), *made.ceilings()]
        said = verdicts.verdict(device_of(*records).groups[0], "cpu-blas")
        assert said.advice == "Use cpu-mkl: 2.1 times the speed."
        assert said.caveats == "Correct: its error is at most 0.02 of the bound."
        assert said.text == f"{said.summary} {said.advice} {said.caveats}"

    def test_a_wrong_one_has_none(self):
        wrong = made.not_run("cpu-packed", "wrong", "the error is 30 times its bound")
        assert verdicts.verdict(device_of(wrong).groups[0], "cpu-packed").advice == ""

    def test_at_most_two_rules_apply(self):
        records = [made.gemm("cpu-ikj", gflop_per_s=10, packing_percent=20.0), *speeds(cpu_blocked=30, cpu_mkl=200)]
        assert "Packing" not in advised("cpu-ikj", *records)

    def test_nothing_is_known_without_times_or_rivals(self):
        assert advised("cpu-x", *speeds(cpu_x=224)) == ""
        assert advised("cpu-x", made.not_run("cpu-x", "skipped", "absent")) == ""
