"""A device's ceilings: loops that do what is counted, and records that make a roof."""

from __future__ import annotations

import gc
import math
from dataclasses import replace

import numpy as np
import pytest
from devices import FIRST_PLACES, PLACES, backend_at, nvrtc_here

from gemmlab._errors import DeviceError
from gemmlab._gpu import runtime_named
from gemmlab._gpu.cuda import compile_source
from gemmlab._gpu.kernels import kernel_text
from gemmlab._gpu.runtime import Device
from gemmlab.campaign.measuring import devices_of
from gemmlab.measure import records
from gemmlab.roofline import Roof
from gemmlab.roofline.ceilings import device as device_ceilings
from gemmlab.roofline.ceilings import isolated
from gemmlab.roofline.ceilings.device import CHAINS, STEPS, arithmetic_forms, memory_form, working_set

MIB, GIB = 1 << 20, 1 << 30
GPU = Device("cuda", 0, "GPU", "gpu", "CUDA", "1", 132, 1024, 48 << 10, 140 * GIB, 140 * GIB, True)
CPU = replace(GPU, kind="cpu")
DTYPES = ("float32", "float64")
on_every_device = pytest.mark.parametrize("place", PLACES)


def queue_at(place):
    name, _, index = place.partition(":")
    runtime = runtime_named(name)
    return runtime.queue(runtime.device(index))


def uploaded(queue, values):
    memory = queue.allocate(values.nbytes)
    queue.upload(memory, values)
    return memory


def downloaded(queue, memory, count, dtype="float32"):
    values = np.empty(count, dtype)
    queue.download(values, memory)
    return values


class TestPlan:
    def test_a_gpu_handles_numbers_and_a_cpu_vectors_of_64_bytes(self):
        assert [form.defines["LANES"] for form in arithmetic_forms(GPU, "float64")] == ["double"]
        assert [form.defines["LANES"] for form in arithmetic_forms(CPU, "float64")] == ["double", "double8"]
        assert [form.defines["LANES"] for form in arithmetic_forms(CPU, "float32")] == ["float", "float16"]
        assert memory_form(GPU).item_bytes == 16  # the widest that CUDA has
        assert memory_form(CPU).item_bytes == 64

    def test_global_memory_is_gone_through_far_beyond_the_last_cache(self):
        assert working_set(GPU) == 2 * GIB
        assert 256 * MIB <= working_set(CPU) <= 512 * MIB

    @pytest.mark.parametrize("limit", ["memory_bytes", "allocation_bytes"])
    def test_a_small_device_can_spare_less(self, limit):
        small = replace(GPU, **{limit: GIB})
        assert working_set(small) <= GIB

    @pytest.mark.parametrize("device", [GPU, CPU])
    def test_a_piece_is_made_of_whole_rounds(self, device):
        form = memory_form(device)
        assert device_ceilings.PIECE_BYTES % (STEPS * form.group * form.item_bytes) == 0
        window = device_ceilings.WINDOW_BYTES // form.item_bytes
        assert window & (window - 1) == 0

    def test_a_launch_gets_as_many_steps_as_it_needs_to_last(self):
        class Work:
            def __init__(self, steps):
                self.kernel_s = 1e-6 * steps

            def wait(self):
                pass

        assert 5000 <= device_ceilings._steps_that_last(Work) <= 6000

    @pytest.mark.parametrize("told", [math.nan, 0.0])
    def test_without_a_clock_there_is_no_ceiling(self, told):
        with pytest.raises(DeviceError, match="does not say how long"):
            device_ceilings._time(lambda: told, 0.0)

    def test_at_least_five_samples_and_no_more_than_fifty(self):
        assert device_ceilings._time(lambda: 1.0, 0.0)["samples"] == 5
        assert device_ceilings._time(lambda: 1.0, 60.0)["samples"] == 50


@on_every_device
class TestLoops:
    """What is counted is done."""

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("chains", CHAINS)
    def test_multiply_adds(self, place, chains, dtype):
        queue = queue_at(place)
        if dtype == "float64" and not queue.device.float64:
            pytest.skip("no float64 here")
        for form in arithmetic_forms(queue.device, dtype):
            run = device_ceilings._loop(queue, "fma.cl", "multiply_adds", form, CHAINS=chains)
            out, number = queue.allocate(2 * form.group * form.item_bytes), np.dtype(dtype).type
            run(2, np.int32(3), number(0.5), number(1), out).wait()
            starts = np.arange(form.group)[:, None] + np.arange(chains)
            expected = np.tile(np.repeat((starts / 8 + 1.75).sum(axis=1), form.lanes), 2)
            assert downloaded(queue, out, expected.size, dtype) == pytest.approx(expected)

    def test_streams(self, place):
        queue = queue_at(place)
        form, rounds, groups = memory_form(queue.device), 3, 5
        count = groups * rounds * STEPS * form.group * form.lanes
        a, b = (np.random.default_rng(seed).integers(0, 99, count).astype("float32") for seed in (1, 2))
        memories = uploaded(queue, a), uploaded(queue, b), uploaded(queue, np.zeros(count, "float32"))
        items = groups * form.group
        expected = {
            "triad": a + 2 * b,
            "copy": a,
            "load": a.reshape(groups, -1, form.group, form.lanes).sum(axis=1).ravel(),
            "fill": np.tile(a[: form.lanes], items * rounds * STEPS),
        }
        for name, values in expected.items():
            run = device_ceilings._loop(queue, "stream.cl", name, form)
            run(groups, np.int32(rounds), np.float32(2), *memories).wait()
            assert np.array_equal(downloaded(queue, memories[2], values.size), values), name

    @pytest.mark.parametrize("in_local", [0, 1])
    def test_windows(self, place, in_local):
        queue = queue_at(place)
        form, rounds, window = memory_form(queue.device), 9, 64
        lengths = window + STEPS * form.group, form.lanes
        values = np.random.default_rng(3).integers(0, 99, lengths).astype("float32")
        numbers, out = uploaded(queue, values), queue.allocate(2 * form.group * form.item_bytes)
        run = device_ceilings._loop(queue, "local.cl", "read_again", form, WINDOW=window, IN_LOCAL=in_local)
        run(2, np.int32(rounds), numbers, out).wait()
        expected = np.zeros((form.group, form.lanes))
        for item in range(form.group):
            first = item
            for _ in range(rounds):
                expected[item] += values[first : first + STEPS * form.group : form.group].sum(axis=0)
                first = (first + 7 * form.group) % window
        assert np.array_equal(downloaded(queue, out, 2 * expected.size), np.tile(expected.ravel(), 2))


@on_every_device
def test_pinned_memory_is_copied_and_outlives_its_name(place):
    queue = queue_at(place)
    pinned = queue.pinned(1 << 16)
    assert (pinned.dtype, pinned.shape) == (np.uint8, (1 << 16,))
    pinned[:] = np.arange(1 << 16, dtype=np.uint8)
    memory, part = uploaded(queue, pinned), pinned[3:6]
    assert np.array_equal(downloaded(queue, memory, 1 << 16, "uint8"), pinned)
    pinned[:] = 7
    queue.download(pinned, memory)
    del pinned
    gc.collect()
    assert part.tolist() == [3, 4, 5]


@pytest.fixture(scope="module")
def nvrtc():
    return nvrtc_here()


@pytest.mark.parametrize("kind", DTYPES)
def test_the_loops_compile_for_cuda(kind, nvrtc):
    def loops(name):
        return kernel_text(name, device_ceilings.PACKAGE)

    head = kernel_text("common/cuda.h") + loops("ceiling.h")
    arithmetic = compile_source(
        head + loops("fma.cl"), arithmetic_forms(GPU, kind)[0].defines | {"CHAINS": 8}, "compute_90"
    )
    assert arithmetic.count({"float32": b"fma.rn.f32", "float64": b"fma.rn.f64"}[kind]) >= 8
    memory = memory_form(GPU).defines | {"WINDOW": 512}
    assert b"ld.global.v4.f32" in compile_source(head + loops("stream.cl"), memory, "compute_90")
    for in_local, loads in enumerate((b"ld.global.v4.f32", b"ld.shared.v4.f32")):
        text = head + loops("local.cl")
        assert loads in compile_source(text, memory | {"IN_LOCAL": in_local}, "compute_90")


@pytest.fixture
def hurried(monkeypatch):
    """Everything is measured in the shortest time and in little memory."""
    monkeypatch.setattr(device_ceilings, "LAUNCH_S", 1e-4)
    monkeypatch.setattr(device_ceilings, "CHAINS", (4,))
    monkeypatch.setattr(device_ceilings, "TRANSFER_BYTES", MIB)
    monkeypatch.setattr(device_ceilings, "working_set", lambda device: 4 * MIB)


@pytest.mark.parametrize("place", FIRST_PLACES)
class TestCeilings:
    @pytest.fixture
    def measured(self, place, hurried):
        found = device_ceilings.measure_device_ceilings(queue_at(place), seconds=0.0)
        return [records.complete(record, run_id="a run", device="GPU", environment={}) for record in found]

    def test_each_is_measured_once(self, place, measured):
        def kinds(ceiling, *keys):
            return sorted(tuple(r[key] for key in keys) for r in measured if r["ceiling"] == ceiling)

        assert kinds("fma", "dtype") == [("float32",), ("float64",)][: 1 + queue_at(place).device.float64]
        assert kinds("bandwidth", "level", "operation") == [
            ("DRAM", "copy"), ("DRAM", "load"), ("DRAM", "triad"), ("L1", "load"), ("local", "load"),
        ]  # fmt: skip
        assert kinds("transfer", "memory", "operation") == [
            ("pageable", "from device"), ("pageable", "to device"), ("pinned", "from device"), ("pinned", "to device"),
        ]  # fmt: skip

    def test_records_are_those_of_the_docs(self, place, measured):
        for record in measured:
            assert (record["isa"], record["threads"]) == (place.partition(":")[0], None)
            assert (record["gflop_per_s"] or record["gb_per_s"]) > 0
            assert record["samples"] >= 5
            assert record["working_set_bytes"] or record["ceiling"] == "fma"

    def test_they_make_a_roof(self, place, measured):
        roof = Roof(measured)
        for level in ("local", "L1", "DRAM"):
            assert roof.ridge("float32", threads=None, level=level) > 0

    def test_multiply_adds_alone(self, place, hurried):
        found = device_ceilings.measure_device_ceilings(queue_at(place), seconds=0.0, bandwidth=False)
        assert {record["ceiling"] for record in found} == {"fma"}

    def test_a_device_may_have_no_pinned_memory_to_give(self, place, hurried, monkeypatch):
        def refused(nbytes):
            raise DeviceError("out of pinned memory")

        queue = queue_at(place)
        monkeypatch.setattr(queue, "pinned", refused)
        assert [record["memory"] for record in device_ceilings._transfers(queue, 0.0)] == ["pageable"] * 2


class TestIsolated:
    @pytest.mark.parametrize("place", FIRST_PLACES[:1])
    def test_in_a_process_of_its_own(self, place):
        found = isolated.isolated_device_ceilings(backend_at(place, "naive"), seconds=0.0, bandwidth=False)
        assert {record["ceiling"] for record in found} == {"fma"}

    def test_a_failure_is_told_in_a_line(self):
        with pytest.raises(RuntimeError, match=r"measuring the ceilings failed: .*no backend is named 'opencl-none'"):
            isolated.isolated_device_ceilings("opencl-none")

    @pytest.mark.parametrize("place", PLACES[:1])
    def test_a_device_is_measured_once_and_the_cpu_is_none(self, place):
        first, second = (backend_at(place, rung) for rung in ("naive", "local"))
        assert devices_of(["cpu-naive", first, second]) == {queue_at(place).device.label: first}


def test_slopes_that_lie_on_each_other_share_a_label():
    axes = pytest.importorskip("gemmlab.report.roofline_axes", exc_type=ImportError)
    assert axes.slope_labels({"local": 30.0, "L1": 28.0, "DRAM": 4.0}) == {"DRAM": 4.0, "L1, local": 30.0}
    assert axes.slope_labels({"L1": 9.0, "L2": 6.0}) == {"L2": 6.0, "L1": 9.0}
