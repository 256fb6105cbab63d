"""Products of device arrays: the result has the same type, nothing is copied, and the call does not block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from devices import DTYPES, FIRST_PLACES, RUNG_NAMES, backend_at, integers
from exporter import Exporter
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

import gemmlab
from gemmlab import UnsupportedProblem
from gemmlab._gpu import backend_named, runtime_named
from gemmlab._gpu.device_arrays import to_device, to_host, wait

needs_device = pytest.mark.skipif(not FIRST_PLACES, reason="no runtime has a device here")
every_runtime = pytest.mark.parametrize("place", FIRST_PLACES)
PLACE = FIRST_PLACES[0] if FIRST_PLACES else ""


def on_device(place: str, *hosts: Any) -> Any:
    backend = gemmlab.get_backend(backend_at(place, "private"))
    arrays = [to_device(backend, host) for host in hosts]
    return arrays if len(arrays) > 1 else arrays[0]


def both(place: str, *shapes: tuple[int, ...], dtype: Any = "float32") -> tuple[Any, ...]:
    hosts = [integers(shape, dtype) for shape in shapes]
    return (*hosts, *(on_device(place, host) for host in hosts))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rung", RUNG_NAMES)
@every_runtime
def test_the_result_has_the_same_type_and_nothing_is_copied(place: str, rung: str, dtype: str) -> None:
    a, b, device_a, device_b = both(place, (33, 17), (17, 65), dtype=dtype)
    with gemmlab.trace() as calls:
        c = gemmlab.matmul(device_a, device_b, backend=backend_at(place, rung))
    assert type(c) is type(device_a)
    assert c.dtype == dtype
    assert np.array_equal(to_host(c), a @ b)
    assert calls[0].copies == 0
    assert calls[0].kernel_s is None or calls[0].kernel_s != 0


@every_runtime
def test_no_host_memory_is_touched(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, device_a, device_b = both(place, (5, 7), (7, 3))
    queue = type(gemmlab.get_backend(backend_at(place, "private")).queue)
    for step in ("upload", "download"):
        monkeypatch.setattr(queue, step, lambda *arguments: pytest.fail("went over the host"))
    c = gemmlab.matmul(device_a, device_b)
    monkeypatch.undo()
    assert np.array_equal(to_host(c), a @ b)


@every_runtime
def test_auto_uses_the_library_of_the_arrays(place: str) -> None:
    a, b, device_a, device_b = both(place, (5, 7), (7, 3))
    with gemmlab.trace() as calls:
        c = gemmlab.matmul(device_a, device_b)
    assert calls[0].backend.startswith(place.partition(":")[0])
    assert np.array_equal(to_host(c), a @ b)
    assert gemmlab.explain(device_a, device_b).rows[0][0] == calls[0].backend


@pytest.mark.filterwarnings("ignore:Non-empty compiler output")  # of pyopencl, for its own kernel
@every_runtime
def test_a_product_does_not_block_and_hands_back_its_event(place: str) -> None:
    backend = gemmlab.get_backend(backend_at(place, "naive"))
    a, b, device_a, device_b = both(place, (300, 300), (300, 300))
    from gemmlab._gpu.device_arrays import problem_of

    out = on_device(place, np.full((300, 300), np.nan, "float32"))
    handle = backend.gemm(problem_of(backend, device_a, device_b, out))
    handle.wait()
    assert handle.kernel_s != 0
    assert np.array_equal(to_host(out), a @ b)
    chain = device_a
    for _ in range(3):  # each waits for the one before, on the device
        chain = gemmlab.matmul(chain, device_b, backend=backend.name)
        chain /= 1024  # exact, and enqueued by the array's own library
    wait(chain)
    expected = a
    for _ in range(3):
        expected = expected @ b / np.float32(1024)
    assert np.allclose(to_host(chain), expected, rtol=1e-4)


@every_runtime
def test_out_is_filled_and_given_back(place: str) -> None:
    a, b, device_a, device_b = both(place, (9, 4), (4, 6))
    out = on_device(place, np.full((9, 6), np.nan, "float32"))
    assert gemmlab.matmul(device_a, device_b, out=out) is out
    assert np.array_equal(to_host(out), a @ b)
    assert gemmlab.matmul(device_a, device_b, out=(out,)) is out


@every_runtime
def test_out_may_be_an_operand(place: str) -> None:
    a, device_a = both(place, (40, 40))
    gemmlab.matmul(device_a, device_a, out=device_a)
    assert np.array_equal(to_host(device_a), a @ a)


@every_runtime
def test_transposed_operands_and_results(place: str) -> None:
    a, b, device_a, device_b = both(place, (9, 4), (6, 9))
    with gemmlab.trace() as calls:
        c = gemmlab.matmul(device_a.T, device_b.T, backend=backend_at(place, "local4"))
    assert np.array_equal(to_host(c), a.T @ b.T)
    assert calls[0].copies == 2
    out = on_device(place, np.full((6, 4), np.nan, "float32"))
    gemmlab.matmul(device_a.T, device_b.T, out=out.T, backend=backend_at(place, "local4"))
    assert np.array_equal(to_host(out).T, a.T @ b.T)


@every_runtime
def test_rows_of_a_larger_array_are_not_copied(place: str) -> None:
    a, b, device_a, device_b = both(place, (12, 20), (20, 8))
    with gemmlab.trace() as calls:
        c = gemmlab.matmul(device_a[2:7, :6], device_b[3:9, 1:5], backend=backend_at(place, "register"))
    assert np.array_equal(to_host(c), a[2:7, :6] @ b[3:9, 1:5])
    assert calls[0].copies == 0


@needs_device
@settings(max_examples=60, deadline=None)
@given(
    mutually_broadcastable_shapes(signature="(m,k),(k,n)->(m,n)", max_dims=3, max_side=4, min_side=1),
    st.sampled_from(FIRST_PLACES or ["none"]),
    st.sampled_from(RUNG_NAMES),
)
def test_batches_broadcast_as_in_numpy(shapes: Any, place: str, rung: str) -> None:
    a, b, device_a, device_b = both(place, *shapes.input_shapes)
    assert np.array_equal(to_host(gemmlab.matmul(device_a, device_b, backend=backend_at(place, rung))), a @ b)


@pytest.mark.parametrize("shapes", [((4,), (4, 3)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4,))])
@every_runtime
def test_vectors(place: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    a, b, device_a, device_b = both(place, *shapes)
    c = gemmlab.matmul(device_a, device_b)
    assert type(c) is type(device_a)
    assert to_host(c).shape == np.shape(a @ b)
    assert np.array_equal(to_host(c), a @ b)


@every_runtime
def test_errors_are_numpys(place: str) -> None:
    *_, device_a, device_b = both(place, (3, 4), (5, 6))
    with pytest.raises(ValueError, match="mismatch in its core dimension"):
        gemmlab.matmul(device_a, device_b)


@every_runtime
def test_refused_arrays(place: str) -> None:
    _, b, device_a, device_b = both(place, (3, 4), (4, 5))
    backend = backend_at(place, "private")
    with pytest.raises(UnsupportedProblem, match="different kinds"):
        gemmlab.matmul(device_a, b)
    with pytest.raises(UnsupportedProblem, match="cpu-ikj cannot take"):
        gemmlab.matmul(device_a, device_b, backend="cpu-ikj")
    with pytest.raises(UnsupportedProblem, match="one dtype"):
        gemmlab.matmul(device_a, on_device(place, b.astype("float64")), backend=backend)
    with pytest.raises(UnsupportedProblem, match="convert them with astype"):
        gemmlab.matmul(device_a, device_b, backend=backend, dtype="float64")
    with pytest.raises(TypeError, match="has no parameter"):
        gemmlab.matmul(device_a, device_b, backend=backend, bs_r=2)
    others = [other for other in FIRST_PLACES if other != place]
    for other in others:
        with pytest.raises(UnsupportedProblem, match="cannot take"):
            gemmlab.matmul(device_a, device_b, backend=backend_at(other, "private"))


def test_arrays_of_two_devices() -> None:
    runtime = runtime_named("opencl")
    if sum(place.startswith("opencl") for place in FIRST_PLACES) == 0 or len(runtime.devices) < 2:
        pytest.skip("OpenCL has one device here")
    first, second = (backend_named(f"opencl-private:{index}") for index in (0, 1))
    a = integers((3, 3), "float32")
    with pytest.raises(UnsupportedProblem, match="bring them to one device"):
        gemmlab.matmul(to_device(first, a), to_device(second, a))
    with pytest.raises(UnsupportedProblem, match=r"is on .* the operands on"):
        gemmlab.matmul(to_device(first, a), to_device(first, a), backend="opencl-private:1")


def test_work_of_another_queue_is_waited_for() -> None:
    if not any(place.startswith("opencl") for place in FIRST_PLACES):
        pytest.skip("OpenCL has no device here")
    import pyopencl
    import pyopencl.array

    queue = gemmlab.get_backend("opencl-private").queue.queue
    other = pyopencl.CommandQueue(queue.context)
    a = integers((64, 64), "float32")
    device_a = pyopencl.array.to_device(queue, a)
    gate = pyopencl.UserEvent(queue.context)
    device_a.add_event(pyopencl.enqueue_copy(other, device_a.base_data, 2 * a, wait_for=[gate], is_blocking=False))
    c = gemmlab.matmul(device_a, device_a, backend="opencl-private")
    gate.set_status(pyopencl.command_execution_status.COMPLETE)
    assert np.array_equal(c.get(), 4 * (a @ a))


def test_an_out_of_order_queue() -> None:
    if not any(place.startswith("opencl") for place in FIRST_PLACES):
        pytest.skip("OpenCL has no device here")
    import pyopencl
    import pyopencl.array

    context = gemmlab.get_backend("opencl-private").queue.context
    loose = pyopencl.CommandQueue(context, properties=pyopencl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
    for _ in range(20):
        a, b = integers((90, 70), "float32"), integers((60, 90), "float32")
        device_a, device_b = (pyopencl.array.to_device(loose, x) for x in (a, b))
        c = gemmlab.matmul(device_a.T, device_b.T, backend="opencl-naive")  # each operand is packed first
        assert np.array_equal(c.get(), a.T @ b.T)


@every_runtime
def test_the_settings_apply(place: str) -> None:
    a, b, device_a, device_b = both(place, (9, 4), (4, 6))
    with gemmlab.use(backend_at(place, "local"), tile_x=8, tile_y=4), gemmlab.trace() as calls:
        c = gemmlab.matmul(device_a, device_b)
    assert calls[0].params["tile_x"] == 8
    assert np.array_equal(to_host(c), a @ b)


# DLPack


@pytest.mark.parametrize("backend", ["auto", "cpu-ikj", *(backend_at(place, "private") for place in FIRST_PLACES)])
def test_another_librarys_arrays_come_back_as_theirs(backend: str) -> None:
    a, b = integers((3, 4), "float32"), integers((4, 5), "float32")
    c = gemmlab.matmul(Exporter.Tensor(a), Exporter.Tensor(b), backend=backend)
    assert type(c) is Exporter.Tensor
    assert np.array_equal(c.values, a @ b)
    out = Exporter.Tensor(np.full((3, 5), np.nan, "float32"))
    assert gemmlab.matmul(Exporter.Tensor(a), Exporter.Tensor(b), out=out, backend=backend) is out
    assert np.array_equal(out.values, a @ b)
    dot = gemmlab.matmul(Exporter.Tensor(a[0]), Exporter.Tensor(a[1]), backend=backend)
    assert type(dot) is Exporter.Tensor
    assert dot.values == a[0] @ a[1]


def test_the_settings_apply_to_another_librarys_arrays() -> None:
    a = Exporter.Tensor(integers((40, 40), "float32"))
    with gemmlab.use("cpu-blocked", bs_c=32), gemmlab.trace() as calls:
        gemmlab.matmul(a, a)
    assert calls[0].params["bs_c"] == 32


def test_an_unknown_device_type() -> None:
    class Elsewhere(Exporter.Tensor):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 99, 0

    x = Elsewhere(np.eye(2))
    with pytest.raises(UnsupportedProblem, match="DLPack's type 99"):
        gemmlab.matmul(x, x)
