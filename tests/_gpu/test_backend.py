"""Products of host arrays on a device: errors have clear messages, and later products work."""

from __future__ import annotations

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from devices import FIRST_PLACES, PLACES, backend_at, integers

import gemmlab
from gemmlab import BackendUnavailable, DeviceError, UnsupportedProblem
from gemmlab._gpu import RUNTIMES, VENDORS, backend_named, runtime_named
from gemmlab._gpu.ladder import rung as of_the_ladder
from gemmlab._gpu.plans import making
from gemmlab._gpu.streaming.rates import rates_of
from gemmlab._gpu.transfers import staging

pytestmark = pytest.mark.skipif(not PLACES, reason="no runtime has a device here")

PLACE = PLACES[0] if PLACES else ""
PRIVATE = backend_at(PLACE, "private") if PLACES else ""


def queue_of(place: str) -> Any:
    return gemmlab.get_backend(backend_at(place, "private")).queue


def works(backend: str) -> bool:
    a, b = integers((5, 7), "float32"), integers((7, 3), "float32")
    return np.array_equal(gemmlab.matmul(a, b, backend=backend), a @ b)


# Names and devices


def test_every_rung_is_known_on_every_runtime() -> None:
    known = gemmlab.backends()
    for runtime in RUNTIMES:
        for way in ("naive", "private", "local", "local4", "register", "register-global", VENDORS[runtime]):
            info = known[f"{runtime}-{way}"]
            assert info.available or info.reason


def test_a_device_is_chosen_by_index_kind_or_name() -> None:
    runtime, _, index = PLACE.partition(":")
    device = runtime_named(runtime).devices[int(index)]
    for wanted in (index, device.kind, device.platform.lower(), device.name.split()[0]):
        chosen = gemmlab.get_backend(f"{runtime}-private:{wanted}")
        assert chosen.name == f"{runtime}-private:{wanted}"
        assert works(chosen.name)
        with gemmlab.trace() as calls:
            works(chosen.name)
        assert calls[0].device == device.label


def test_a_family_takes_a_device_too() -> None:
    runtime, _, index = PLACE.partition(":")
    assert gemmlab.get_backend(runtime).name.startswith(f"{runtime}-")
    assert gemmlab.get_backend(f"{runtime}:{index}").name.endswith(f":{index}")
    assert works(f"{runtime}:{index}")


@pytest.mark.parametrize("wanted", ["99", "no such name"])
def test_a_device_that_is_not_there(wanted: str) -> None:
    runtime = PLACE.partition(":")[0]
    with pytest.raises(BackendUnavailable, match=f"no device '{wanted}'; fix: take one of 0 "):
        gemmlab.matmul(np.eye(2), np.eye(2), backend=f"{runtime}-naive:{wanted}")
    assert f"{runtime}-naive:{wanted}" not in gemmlab.backends()


def test_an_unknown_rung_gets_similar_names() -> None:
    with pytest.raises(gemmlab.UnknownBackend, match="did you mean"):
        gemmlab.get_backend("opencl-lokal:0")


def test_a_block_holds_on_every_device(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, _, index = PLACE.partition(":")
    monkeypatch.setattr(gemmlab.config, "block", {f"{runtime}-naive"})
    with pytest.raises(BackendUnavailable, match="blocked"):
        gemmlab.get_backend(f"{runtime}-naive:{index}")


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_missing_package_has_a_fix(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemmlab._gpu.runtime.find_spec", lambda name: None)
    fresh = type(runtime_named(runtime))()
    found = type(backend_named(f"{runtime}-naive"))(fresh, backend_named(f"{runtime}-naive").rung).probe()
    assert not found.ok
    assert "not installed" in found.reason
    assert found.fix == f"pip install 'gemmlab[{fresh.extra}]'"


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_no_device_has_a_fix(runtime: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemmlab._gpu.runtime.find_spec", lambda name: True)
    fresh = type(runtime_named(runtime))()
    monkeypatch.setattr(fresh, "_find", list)
    with pytest.raises(BackendUnavailable, match=r"sees no device; fix: \w+"):
        _ = fresh.devices

    def broken() -> Any:
        raise OSError("driver\nis upset")

    monkeypatch.setattr(fresh, "_find", broken)
    with pytest.raises(BackendUnavailable, match=r"cannot be used: OSError: driver is upset; fix: \w+"):
        _ = fresh.devices


# What a problem may be


def test_other_dtypes_are_refused_with_a_fix() -> None:
    a = np.ones((2, 2), np.int32)
    with pytest.raises(UnsupportedProblem, match="convert with astype"):
        gemmlab.matmul(a, a, backend=PRIVATE)


def test_no_float64_on_a_device_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = queue_of(PLACE)
    monkeypatch.setattr(queue, "device", replace(queue.device, float64=False))
    with pytest.raises(UnsupportedProblem, match="has no float64: convert with astype"):
        gemmlab.matmul(np.eye(2), np.eye(2), backend=PRIVATE)
    assert works(PRIVATE)


@pytest.mark.parametrize("limits", [{"allocation_bytes": 1000}, {"memory_bytes": 3000}])
def test_a_product_that_does_not_fit_goes_in_tiles(limits: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    queue, allocate, sizes = queue_of(PLACE), queue_of(PLACE).allocate, []
    a = integers((20, 20), "float32")
    gemmlab.matmul(a, a, backend=PRIVATE)
    monkeypatch.setattr(queue, "device", replace(queue.device, **limits))
    rates_of(backend_named(PRIVATE), queue, "float32", backend_named(PRIVATE).rung.resolve({}, "cpu"))
    monkeypatch.setattr(queue, "allocate", lambda nbytes: (sizes.append(nbytes), allocate(nbytes))[1])
    assert np.array_equal(gemmlab.matmul(a, a, backend=PRIVATE), a @ a)
    assert max(sizes) <= limits.get("allocation_bytes", 3000)
    assert sum(sizes) <= limits.get("memory_bytes", 10**6)


def test_a_broadcast_operand_is_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    queue, sent = queue_of(PLACE), []
    upload = queue.upload
    monkeypatch.setattr(queue, "copy_to_device", lambda memory, array: (sent.append(array.size), upload(memory, array)))
    a, b = integers((4, 3, 5), "float32"), integers((5, 6), "float32")
    assert np.array_equal(gemmlab.matmul(a, b, backend=PRIVATE), a @ b)
    assert sent == [60, 30]


def test_large_grids_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (making, of_the_ladder):
        monkeypatch.setattr(module, "MAX_GROUPS", 3)
    for place in FIRST_PLACES:
        for rung in ("private", "local", "register"):
            a, b = integers((5, 1, 300, 7), "float32"), integers((2, 7, 9), "float32")
            assert np.array_equal(gemmlab.matmul(a, b, backend=backend_at(place, rung)), a @ b)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("count", [1, 1000, staging.PIECE_BYTES // 4, 3 * staging.PIECE_BYTES + 5])
def test_staged_transfers_copy_every_byte(place: str, count: int) -> None:
    queue = queue_of(place)
    if not queue.can_stage:
        pytest.skip("copies go straight there")
    values, back = integers((count,), "float32"), np.full(count, np.nan, "float32")
    memory = queue.allocate(values.nbytes)
    queue.staging.upload(memory, values)
    queue.staging.download(back, memory)
    assert np.array_equal(values, back)


def test_large_arrays_go_to_a_gpu_by_way_of_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = queue_of(PLACE)
    monkeypatch.setattr(queue, "device", replace(queue.device, kind="gpu"))
    monkeypatch.setattr(queue, "upload", lambda memory, array: pytest.fail("large, and not staged"))
    monkeypatch.setattr(queue, "download", lambda array, memory: pytest.fail("large, and not staged"))
    a = integers((staging.MIN_BYTES // 4 // 64, 64), "float32")
    memory, back = queue.allocate(a.nbytes), np.full_like(a, np.nan)
    queue.copy_to_device(memory, a)
    queue.copy_to_host(back, memory)
    assert np.array_equal(a, back)


# Trouble


@pytest.mark.parametrize("place", FIRST_PLACES)
def test_a_build_failure_shows_the_log_and_later_calls_work(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = backend_named(backend_at(place, "private"))
    text = "__kernel void gemm() { this_is_no_function(); }"
    monkeypatch.setattr(type(backend.rung), "text", property(lambda rung: text))
    fresh = gemmlab.get_backend(backend.name)
    monkeypatch.setattr(fresh, "_prepared", {})
    with pytest.raises(DeviceError, match="cannot build the kernel") as caught:
        gemmlab.matmul(np.eye(3), np.eye(3), backend=backend.name)
    assert "this_is_no_function" in str(caught.value)
    monkeypatch.undo()
    assert works(backend.name)


@pytest.mark.parametrize("place", FIRST_PLACES)
@pytest.mark.parametrize("step", ["allocate", "copy_to_device", "prepared", "start", "copy_to_host"])
def test_a_device_lost_in_use(place: str, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = backend_at(place, "private")
    queue = queue_of(place)

    def lost(*arguments: Any) -> Any:
        with queue.device_errors("in a test"):
            raise _driver_error(place)

    monkeypatch.setattr(queue, step, lost)
    monkeypatch.setattr(gemmlab.get_backend(name), "_prepared", {})
    a, b = integers((5, 7), "float32"), integers((7, 3), "float32")
    kept = a.copy(), b.copy()
    with pytest.raises(DeviceError):
        gemmlab.matmul(a, b, backend=name)
    assert np.array_equal(a, kept[0])
    assert np.array_equal(b, kept[1])
    assert queue_of(place) is not queue  # opened anew
    assert works(name)


def _driver_error(place: str) -> Exception:
    if place.startswith("opencl"):
        import pyopencl

        return pyopencl.RuntimeError("the device is gone")
    if place.startswith("sycl"):
        return RuntimeError("the device is gone")
    pytest.skip("a lost CUDA device ends CUDA for the process")


@pytest.mark.parametrize("place", FIRST_PLACES)
def test_a_full_device(place: str) -> None:
    queue = queue_of(place)
    with pytest.raises(DeviceError):
        queue.allocate(1 << 50)
    assert works(backend_at(place, "private"))


def test_a_program_on_disk_is_not_built_again(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemmlab.config, "cache_dir", tmp_path)
    for place in FIRST_PLACES:
        runtime = runtime_named(place.partition(":")[0])
        if not queue_of(place).caches_programs:
            continue
        ways = []
        for _ in range(2):
            queue = runtime._open_queue(runtime.devices[0])
            rung = backend_named(backend_at(place, "private")).rung
            queue.kernel(rung.text, "gemm", rung.defines(rung.resolve({}, queue.device.kind), "float32"))
            ways += [build.how for build in queue.builds]
        assert ways == ["source", "disk"]


def test_warnings_of_compilers_are_left_out_in_several_threads_and_then_are_as_before() -> None:
    cl = pytest.importorskip("pyopencl")
    from gemmlab._gpu.opencl import _without_warnings

    before, both = list(warnings.filters), threading.Barrier(2, timeout=20)

    def build(waits: int) -> None:
        with _without_warnings:
            for _ in range(2):  # both are inside; then one leaves before the other
                warnings.warn("2 warnings generated.", cl.CompilerWarning, stacklevel=1)
                both.wait()
            for _ in range(waits):
                warnings.warn("2 warnings generated.", cl.CompilerWarning, stacklevel=1)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(build, (0, 1000)))
    assert warnings.filters == before
