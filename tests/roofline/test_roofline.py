"""The roofline: the model over made-up records, and the shape (never the speed) of measured ceilings."""

import math
from typing import Any

import pytest

from gemmlab._cpu.isa import EXTRAS, chosen, extras_here
from gemmlab.measure import records
from gemmlab.roofline import Roof, intensity, measure_ceilings, peak_of
from gemmlab.roofline._fma import Loops
from gemmlab.roofline._stream import STREAMS, Streams
from gemmlab.roofline.ceilings import bandwidth as bandwidth_module
from gemmlab.roofline.ceilings import cpu, timing
from gemmlab.roofline.ceilings.timing import Timing

KIB, MIB = 1 << 10, 1 << 20
CACHES = {"L1": 48 * KIB, "L2": 1 * MIB, "L3": 32 * MIB}


def fma(gflop_per_s: float, **keys: Any) -> dict[str, Any]:
    given = {"isa": "v3", "dtype": "float32", "threads": 1, "device": "CPU"} | keys
    return {"kind": "ceiling", "ceiling": "fma", "gflop_per_s": gflop_per_s, **given}


def bandwidth(gb_per_s: float, level: str = "DRAM", **keys: Any) -> dict[str, Any]:
    given = {"operation": "load", "threads": 1, "device": "CPU"} | keys
    return {"kind": "ceiling", "ceiling": "bandwidth", "level": level, "gb_per_s": gb_per_s, **given}


def product(
    gflop_per_s: float | None, *, flop: float = 1e9, moved: float = 1e9, **keys: Any
) -> dict[str, Any]:
    """A product of `flop` operations on operands of `moved` bytes."""
    given = {"backend": "cpu-any", "status": "ok", "device": "CPU", "threads": 1} | keys
    return {
        "kind": "gemm",
        "problem": {"dtype": "float32"},
        "gflop": flop / 1e9,
        "gflop_per_s": gflop_per_s,
        "bytes_compulsory": moved,
        "bytes_model_dram": None,
        "environment": {"cache_bytes": CACHES},
        **given,
    }


# Ridge over DRAM at 5 flop/byte.
CEILINGS = [fma(100.0), bandwidth(20.0), bandwidth(200.0, "L2")]


def test_a_peak_is_that_of_the_products_own_device():
    gpu = {"device": "GPU", "threads": None, "isa": "opencl"}
    peak = peak_of([*CEILINGS, fma(900.0, **gpu), {"kind": "ceiling", "ceiling": "transfer", **gpu}])
    assert peak(product(50.0)) == 100.0
    assert peak(product(50.0, device="GPU", threads=None)) == 900.0
    assert peak(product(50.0, device="another GPU", threads=None)) is None
    assert peak_of([])(product(50.0)) is None


class TestRoof:
    def test_bandwidth_limits_below_the_ridge_and_the_peak_above(self):
        roof = Roof(CEILINGS)
        assert roof.ridge("float32", threads=1) == 5.0
        assert roof.attainable(4.0, "float32", threads=1) == 80.0
        assert roof.attainable(6.0, "float32", threads=1) == 100.0
        assert roof.attainable(math.inf, "float32", threads=1) == 100.0

    def test_each_level_has_its_own_slope(self):
        roof = Roof(CEILINGS)
        assert roof.ridge("float32", threads=1, level="L2") == 0.5
        assert roof.attainable(0.25, "float32", threads=1, level="L2") == 50.0

    def test_the_peak_is_that_of_the_best_instruction_set_unless_one_is_named(self):
        roof = Roof([fma(100.0), fma(200.0, isa="v4"), fma(90.0, isa="v4", dtype="float64")])
        assert roof.peak_gflop_per_s("float32", 1) == 200.0
        assert roof.peak_gflop_per_s("float32", 1, isa="v3") == 100.0
        assert roof.peak_gflop_per_s("float64", 1) == 90.0

    def test_of_repeated_measurements_the_best_counts(self):
        assert Roof([*CEILINGS, fma(110.0), bandwidth(19.0)]).ridge("float32", threads=1) == 5.5

    def test_copy_is_not_load(self):
        roof = Roof([bandwidth(20.0), bandwidth(30.0, operation="copy")])
        assert roof.bandwidth("DRAM", 1) == 20.0
        assert roof.bandwidth("DRAM", 1, "copy") == 30.0

    @pytest.mark.parametrize(
        ("threads", "peak"), [(1, 100.0), (2, 100.0), (7, 100.0), (8, 700.0), (9, 700.0)]
    )
    def test_the_next_lower_thread_count_stands_in(self, threads, peak):
        assert Roof([fma(100.0), fma(700.0, threads=8)]).peak_gflop_per_s("float32", threads) == peak

    def test_more_threads_are_no_lower_bound(self):
        with pytest.raises(ValueError, match=r"threads: 1; `gemmlab roofline`"):
            Roof([fma(100.0, threads=2)]).peak_gflop_per_s("float32", 1)

    def test_a_gpu_has_no_thread_count(self):
        assert Roof([fma(9e3, threads=None)]).peak_gflop_per_s("float32", None) == 9e3

    @pytest.mark.parametrize(
        "ask",
        [
            lambda roof: roof.peak_gflop_per_s("int8", 1),
            lambda roof: roof.peak_gflop_per_s("float32", 1, isa="v2"),
            lambda roof: roof.bandwidth("L3", 1),
            lambda roof: roof.attainable(1.0, "float32", threads=1, level="L3"),
        ],
    )
    def test_a_missing_ceiling_says_what_to_do(self, ask):
        with pytest.raises(ValueError, match=r"no ceiling .* of CPU .*gemmlab roofline"):
            ask(Roof(CEILINGS))

    def test_devices_are_kept_apart(self):
        both = [*CEILINGS, fma(9e3, device="GPU")]
        assert Roof(both, "GPU").peak_gflop_per_s("float32", 1) == 9e3
        assert Roof(both, "CPU").peak_gflop_per_s("float32", 1) == 100.0
        with pytest.raises(ValueError, match="name one of CPU, GPU"):
            Roof(both)
        with pytest.raises(ValueError, match="no ceilings of TPU"):
            Roof(both, "TPU")
        with pytest.raises(ValueError, match="under the roof of CPU"):
            Roof(CEILINGS).share_of_peak(product(50.0, device="GPU"))

    def test_products_are_no_ceilings(self):
        with pytest.raises(ValueError, match="no ceilings of any device"):
            Roof([product(50.0)])


class TestProduct:
    def test_intensity_prefers_the_backends_own_model(self):
        assert intensity(product(1.0, flop=6e9, moved=2e9)) == (3.0, "compulsory")
        assert intensity(product(1.0, flop=6e9, moved=2e9, bytes_model_dram=4e9)) == (1.5, "modelled")
        assert intensity(product(1.0, flop=6e9, moved=2e9, bytes_model_dram=4e9), "L2") == (3.0, "compulsory")
        assert intensity(product(1.0, bytes_model_l2=0), "L2") == (math.inf, "modelled")

    def test_intensity_knows_the_levels(self):
        with pytest.raises(ValueError, match="local, L1, L2, L3, DRAM, not 'L4'"):
            intensity(product(1.0), "L4")

    def test_the_share_of_the_peak(self):
        assert Roof(CEILINGS).share_of_peak(product(10.0)) == 0.1

    def test_modelled_traffic_lowers_what_is_attainable(self):
        modelled = product(10.0, flop=1e12, moved=1e9, bytes_model_dram=1e12)
        assert Roof(CEILINGS).attainable(intensity(modelled)[0], "float32", threads=1) == 20.0

    @pytest.mark.parametrize(
        ("moved", "threads", "level"),
        [
            (96 * KIB, 1, "L1"),
            (97 * KIB, 1, "L2"),
            (97 * KIB, 2, "L1"),
            (2 * MIB, 1, "L2"),
            (3 * MIB, 1, "L3"),
            (64 * MIB, 2, "L3"),
            (65 * MIB, 2, "DRAM"),
        ],
    )
    def test_operands_come_from_the_innermost_level_with_room(self, moved, threads, level):
        roof = Roof([bandwidth(1.0, name) for name in ("L1", "L2", "L3", "DRAM")])
        assert roof.feeding_level(product(1.0, moved=moved, threads=threads)) == level

    @pytest.mark.parametrize(("moved", "level"), [(256 * MIB, "L1"), (257 * MIB, "DRAM")])
    def test_the_caches_of_a_device_are_not_those_of_the_cpu(self, moved, level):
        roof = Roof([bandwidth(1.0, name, threads=None) for name in ("local", "L1", "DRAM")])
        assert roof.feeding_level(product(1.0, moved=moved, threads=None)) == level

    def test_local_memory_has_a_slope_and_feeds_nothing(self):
        roof = Roof([fma(100.0, threads=None), bandwidth(10.0, "local", threads=None)])
        record = product(1.0, flop=1e9, bytes_model_local=2e8, threads=None)
        assert intensity(record, "local") == (5.0, "modelled")
        assert roof.attainable(5.0, "float32", threads=None, level="local") == 50.0

    def test_only_measured_levels_feed(self):
        assert Roof(CEILINGS).feeding_level(product(1.0, moved=100)) == "L2"
        assert Roof([bandwidth(1.0)]).feeding_level(product(1.0, moved=100)) == "DRAM"
        assert Roof(CEILINGS).feeding_level(product(1.0, moved=100, environment={})) == "DRAM"

    @pytest.mark.parametrize(("gflop_per_s", "above"), [(19.0, False), (20.9, False), (21.1, True)])
    def test_over_the_slope_by_more_than_the_tolerance_is_an_error(self, gflop_per_s, above):
        assert Roof(CEILINGS).above_roof(product(gflop_per_s, flop=1e9, moved=1e9)) is above

    @pytest.mark.parametrize(("gflop_per_s", "above"), [(104.0, False), (106.0, True)])
    def test_over_the_peak_by_more_than_the_tolerance_is_an_error(self, gflop_per_s, above):
        assert Roof(CEILINGS).above_roof(product(gflop_per_s, flop=1e12, moved=1e9)) is above

    def test_cached_operands_may_be_faster_than_memory(self):
        assert not Roof(CEILINGS).above_roof(product(90.0, flop=1e6, moved=1e6))

    def test_too_large_a_model_accuses_nobody(self):
        assert not Roof(CEILINGS).above_roof(product(90.0, flop=1e12, moved=1e9, bytes_model_dram=1e12))

    def test_nothing_is_above_the_roof_of_fewer_threads(self):
        assert not Roof(CEILINGS).above_roof(product(190.0, flop=1e12, threads=2))

    def test_a_product_that_did_not_run_has_no_share(self):
        with pytest.raises(ValueError, match="it was skipped"):
            Roof(CEILINGS).share_of_peak(product(None, status="skipped"))


@pytest.fixture(scope="module")
def measured():
    """Every ceiling, measured in the shortest time, on a machine with tiny caches that is never busy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "MIN_LATE_S", math.inf)
        patch.setattr(timing, "MIN_PATIENCE_S", math.inf)
        patch.setattr(bandwidth_module, "caches", lambda: {"L1": 32 * KIB, "L2": 256 * KIB})
        patch.setattr(bandwidth_module, "largest_working_set", lambda cache_bytes, threads: 2 * MIB)
        return measure_ceilings(seconds=1e-3, threads=2)


class TestCeilings:
    def test_records_are_those_of_the_docs(self, measured):
        for record in measured:
            whole = records.complete(record, run_id="a run", device="CPU", environment={})
            assert whole["kind"] == "ceiling"
            assert whole["samples"] >= 5
            assert whole["calls_per_sample"] >= 1
            assert 0 < whole["min_s"] <= whole["p20_s"] <= whole["median_s"] <= whole["p80_s"]

    def test_multiply_adds_of_every_instruction_set_dtype_and_thread_count(self, measured):
        found = [record for record in measured if record["ceiling"] == "fma"]
        counts = cpu._thread_counts(2)
        kinds = {(record["isa"], record["dtype"], record["threads"]) for record in found}
        dtypes = [cpu._dtypes(isa) for isa in (cpu.SCALAR, *cpu.available_with_extras())]
        assert len(found) == len(kinds) == sum(map(len, dtypes)) * len(counts)
        assert all(record["gflop_per_s"] > 0 for record in found)

    def test_every_level_has_each_operation(self, measured):
        found = [record for record in measured if record["ceiling"] == "bandwidth"]
        kinds = {(record["level"], record["operation"], record["threads"]) for record in found}
        counts = cpu._thread_counts(2)
        assert len(found) == len(kinds) == 3 * 3 * len(counts)
        assert {level for level, _, _ in kinds} == {"L1", "L2", "DRAM"}

    def test_a_level_stands_at_a_point_of_the_sweep(self, measured):
        sweep = {(r["operation"], r["threads"], r["working_set_bytes"]) for r in measured if r["ceiling"] == "sweep"}
        for record in measured:
            if record["ceiling"] == "bandwidth":
                assert (record["operation"], record["threads"], record["working_set_bytes"]) in sweep

    def test_a_level_has_the_samples_of_its_points(self, measured):
        for record in measured:
            if record["ceiling"] == "bandwidth":
                assert record["samples"] >= 5

    def test_the_rate_is_that_of_the_fastest_sample_of_all_parts(self, monkeypatch):
        loop = cpu.MultiplyAdds(chosen(), "float32")
        parts = iter([[2.0, 2.0], [1.0, 4.0]])
        asked = []
        monkeypatch.setattr(cpu, "time_loop", lambda run, threads, seconds, calls: (
            asked.append(calls), Timing(next(parts), 7))[1])  # fmt: skip
        loop.time(1, 0.1)
        loop.time(1, 0.1)
        record = loop.record(1)
        assert asked == [1, 7]
        assert (record["samples"], record["min_s"], record["calls_per_sample"]) == (4, 1.0, 7)

    @pytest.mark.parametrize(("seconds", "parts"), [(1e-3, 1), (1.0, 3)])
    def test_multiply_adds_are_timed_in_parts_where_there_is_time(self, seconds, parts, monkeypatch):
        asked = []
        monkeypatch.setattr(cpu.MultiplyAdds, "time", lambda loop, threads, seconds: asked.append((threads, seconds)))
        monkeypatch.setattr(cpu.MultiplyAdds, "record", lambda loop, threads: {})
        monkeypatch.setattr(cpu, "available_with_extras", lambda: (chosen(),))
        found = measure_ceilings(seconds=seconds, threads=2, bandwidth=False)
        assert len(asked) == parts * len(found)
        assert sum(each for _, each in asked) == pytest.approx(seconds)

    def test_the_clock_is_told_beside_the_multiply_adds(self, measured):
        assert all(0 < r["clock_ghz"] < 10 for r in measured if r["ceiling"] == "fma")

    def test_bandwidth_is_bytes_over_time(self, measured):
        for record in measured:
            if record["ceiling"] != "fma":
                passed = record["threads"] * record["working_set_bytes"]
                assert record["gb_per_s"] == pytest.approx(passed / record["median_s"] / 1e9)

    def test_the_model_can_be_built_on_them(self, measured):
        whole = [records.complete(r, run_id="a run", device="CPU", environment={}) for r in measured]
        roof = Roof(whole)
        for threads in (1, 2):
            assert roof.ridge("float64", threads=threads) > 0

    def test_threads_out_of_range(self):
        with pytest.raises(ValueError, match="threads must be"):
            measure_ceilings(threads=0)

    def test_one_thread_is_measured_where_no_more_may_run(self, monkeypatch):
        monkeypatch.setattr(cpu, "usable_threads", lambda threads: 1)  # a build without OpenMP, or a forked child
        assert cpu._thread_counts(2) == [1]


class TestLoops:
    """The compiled loops refuse what would read beyond their buffer."""

    def test_streams_must_fit(self):
        streams = Streams(3 * 4096, 1)  # three more pages, for streams that begin on them
        for operation in STREAMS:
            assert streams.run(operation, 4096, 1, 1) > 0
        assert streams.run("load", 3 * 4096, 1, 1) > 0
        for operation, stream_bytes, threads in [("load", 100, 1), ("triad", 12288, 1), ("load", 4096, 2)]:
            with pytest.raises(ValueError, match="bytes a stream"):
                streams.run(operation, stream_bytes, threads, 1)

    def test_an_unknown_dtype(self):
        fma_loop = Loops()
        assert fma_loop.flops_per_iteration("float32") == 2 * fma_loop.flops_per_iteration("float64")
        for dtype, is_scalar in (("int64", False), ("int8", True)):
            with pytest.raises(ValueError, match=f"not {dtype}"):
                fma_loop.run(dtype, 1, 1, is_scalar)

    @pytest.mark.skipif("int8" not in Loops().dtypes(), reason="no int8 loop for this processor")
    def test_int8_is_multiplied_by_groups(self):
        fma_loop = Loops()
        assert fma_loop.flops_per_iteration("int8") == 2 * fma_loop.flops_per_iteration("float32")
        assert fma_loop.run("int8", 1, 10) > 0

    @pytest.mark.parametrize("extra", EXTRAS)
    def test_an_extra_has_loops_of_narrow_numbers(self, extra):
        """Of at least four products of int8 where a vector has one of float32, and half as many of bfloat16."""
        if extra not in extras_here():
            pytest.skip(f"this CPU has no {extra}")
        fma_loop = Loops(f"v4+{extra}")
        assert fma_loop.dtypes() == ("int8", "bfloat16")
        of_int8, of_bfloat16 = map(fma_loop.flops_per_iteration, fma_loop.dtypes())
        assert of_int8 == 2 * of_bfloat16 >= 4 * Loops("v4").flops_per_iteration("float32")
        assert all(fma_loop.run(dtype, 2, 10) > 0 for dtype in fma_loop.dtypes())
        assert fma_loop.clock_ghz(1, 1000) > 0
