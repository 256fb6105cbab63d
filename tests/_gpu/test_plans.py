"""Plans of repeated products: the same results and the same errors as without them.

On PoCL, and for CUDA on CuPy's own arrays in host memory with a stand-in for the driver.
"""

from __future__ import annotations

import threading
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from devices import FIRST_PLACES, RUNG_AND_PLACE, backend_at, integers
from fake_cublas import FakeCuBLAS
from fake_cuda import FakeCuda, FakeDevice, RuntimeFailure

import gemmlab
from gemmlab import DeviceError, UnsupportedProblem, _registry
from gemmlab._config import config
from gemmlab._gpu import backend_named, choose_rung, runtime_named
from gemmlab._gpu.backend import RungBackend
from gemmlab._gpu.batches import Layout, Operand
from gemmlab._gpu.device_arrays import problem_of, to_device
from gemmlab._gpu.ladder.rung import Rung
from gemmlab._gpu.ladder.rungs import BEST_RUNG, RUNG_NAMES, RUNGS
from gemmlab._gpu.plans import table
from gemmlab._gpu.plans.launches import Launches, Place, Workspace, arguments_of, copies

on_opencl = pytest.mark.skipif("opencl:0" not in FIRST_PLACES, reason="OpenCL has no device here")
NAME = "opencl-private:0"


@pytest.fixture(autouse=True)
def no_plans():
    table.forget_all()
    yield
    table.forget_all()


@pytest.fixture
def made(monkeypatch):
    """The plans that were made."""
    found, keep = [], table.keep

    def noted(key, plan):
        found.append(plan)
        keep(key, plan)

    monkeypatch.setattr(table, "keep", noted)
    return found


def put(*hosts: Any, name: str = NAME) -> Any:
    arrays = [to_device(gemmlab.get_backend(name), host) for host in hosts]
    return arrays if len(arrays) > 1 else arrays[0]


def poisoned(shape: tuple[int, ...], dtype: Any = "float32") -> Any:
    return put(np.full(shape, np.nan, dtype))


def repeat(times: int, *shapes: tuple[int, ...], out: bool = False, **options: Any) -> None:
    """Products of fresh operands, each of which must be exact."""
    options = {"backend": NAME, **options}
    name = options["backend"] or NAME
    for _ in range(times):
        a, b = integers(shapes[0], "float32"), integers(shapes[1], "float32")
        wanted = a @ b
        c = put(np.full(wanted.shape, np.nan, "float32"), name=name) if out else None
        found = gemmlab.matmul(*put(a, b, name=name), c, **options)
        assert found is c or not out
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        assert np.array_equal(found.get(), wanted)


@on_opencl
@pytest.mark.parametrize("out", [False, True])
@pytest.mark.parametrize(("rung", "place"), [one for one in RUNG_AND_PLACE if one[1].startswith("opencl")])
def test_the_first_product_of_a_kind_makes_its_plan(rung, place, out, made):
    for _ in range(4):
        repeat(1, (33, 17), (17, 65), out=out, backend=backend_at(place, rung))
        assert len(made) == 1


@on_opencl
@pytest.mark.parametrize(
    "shapes",
    [((4, 9, 5), (4, 5, 7)), ((4, 9, 5), (5, 7)), ((9, 5), (4, 5, 7)), ((2, 3, 9, 5), (2, 3, 5, 7)), ((5,), (5, 7)),
     ((9, 5), (5,)), ((5,), (5,)), ((2, 1, 9, 5), (2, 1, 5, 7)), ((1, 1), (1, 1))],
)  # fmt: skip
@pytest.mark.parametrize("out", [False, True])
def test_stacks_and_vectors_are_one_launch(shapes, out, made):
    repeat(4, *shapes, out=out and shapes != ((5,), (5,)))  # pyopencl copies no array of no axes to the device
    (plan,) = made
    assert len(plan.prepared.given) == 1


@on_opencl
def test_what_is_more_than_one_launch_is_one_plan(made):
    repeat(4, (2, 1, 9, 5), (1, 3, 5, 7))  # broadcast along two axes
    repeat(4, (3, 0), (0, 4))
    a, b = integers((5, 9), "float32"), integers((5, 7), "float32")
    device_a, device_b = put(a, b)
    for _ in range(4):
        assert np.array_equal(gemmlab.matmul(device_a.T, device_b, backend=NAME).get(), a.T @ b)  # packed first
    assert len(made) == 3


@on_opencl
def test_strides_and_starts_belong_to_the_kind(made):
    a, b = integers((40, 50), "float32"), integers((50, 40), "float32")
    device_a, device_b = put(a, b)
    for _ in range(4):
        for i, j in ((0, 0), (3, 5), (7, 0), (0, 8)):
            rows, columns = slice(i, i + 20), slice(j, j + 16)
            c = gemmlab.matmul(device_a[rows, columns], device_b[columns, rows], backend=NAME)
            assert np.array_equal(c.get(), a[rows, columns] @ b[columns, rows])
    c = poisoned((40, 40))
    for _ in range(4):
        gemmlab.matmul(device_a[:20, :16], device_b[:16, :20], c[3:23, 7:27], backend=NAME)
        assert np.array_equal(c.get()[3:23, 7:27], a[:20, :16] @ b[:16, :20])
    assert np.isnan(c.get()).sum() == 40 * 40 - 20 * 20
    assert len(made) == 4 + 1


@on_opencl
def test_an_out_that_overlaps_an_operand(made):
    import pyopencl.array

    a, b = integers((16, 16), "float32"), integers((16, 16), "float32")
    for _ in range(3):
        gemmlab.matmul(*put(a, b), poisoned((16, 16)), backend=NAME)
    assert len(made) == 1
    for side in (0, 1):
        given = put(a, b)
        gemmlab.matmul(*given, given[side], backend=NAME)
        assert np.array_equal(given[side].get(), a @ b)
    whole = put(np.concatenate([a, b]))
    part = whole.base_data.get_sub_region(0, 8 * 16 * 4 * 2)  # the same bytes by another name
    out = pyopencl.array.Array(whole.queue, (16, 16), np.float32, data=part)
    gemmlab.matmul(whole[:16], whole[16:], out, backend=NAME)
    assert np.array_equal(out.get(), a @ b)
    assert [plan.copies_out for plan in made] == [False, True, True]


@on_opencl
def test_halves_of_one_buffer_do_not_overlap(made):
    a, b = integers((16, 16), "float32"), integers((16, 16), "float32")
    for _ in range(3):
        whole = put(np.concatenate([a, b, np.full_like(a, np.nan)]))
        gemmlab.matmul(whole[:16], whole[16:32], whole[32:], backend=NAME)
        assert np.array_equal(whole[32:].get(), a @ b)
    assert len(made) == 1


@on_opencl
def test_errors_are_the_same_with_a_plan(made):
    repeat(3, (9, 5), (5, 7))
    a, b = put(integers((9, 5), "float32"), integers((5, 7), "float32"))
    calls = [
        (ValueError, "mismatch in its core dimension", (a, a), {}),
        (ValueError, "mismatch|size", (a, b, poisoned((9, 8))), {}),
        (UnsupportedProblem, "one dtype", (a, b.astype("float64")), {}),
        (UnsupportedProblem, "one dtype", (a, b, poisoned((9, 7), "float64")), {}),
        (UnsupportedProblem, "different kinds", (a, b.get()), {}),
        (UnsupportedProblem, "convert them with astype", (a, b), {"dtype": "float64"}),
        (TypeError, "has no parameter", (a, b), {"bs_r": 2}),
        (ValueError, "group_x must be", (a, b), {"group_x": [4]}),
        (ValueError, "threads must be", (a, b), {"threads": 0}),
        (TypeError, "axes", (a, b), {"axes": 3}),
    ]
    for kind, match, given, options in calls:
        with pytest.raises(kind, match=match):
            gemmlab.matmul(*given, **{"backend": NAME, **options})
    assert len(made) == 1


@on_opencl
def test_parameters_belong_to_the_kind(made):
    for _ in range(3):
        for group in (16, 32):
            repeat(1, (40, 40), (40, 40), group_x=group)
    assert len(made) == 2
    with pytest.raises(ValueError, match="group_x must be"):
        gemmlab.matmul(*put(np.ones((40, 40), "f"), np.ones((40, 40), "f")), backend=NAME, group_x=16.0)
    repeat(3, (40, 40), (40, 40), group_x=1)
    with pytest.raises(ValueError, match="group_x must be"):
        gemmlab.matmul(*put(np.ones((40, 40), "f"), np.ones((40, 40), "f")), backend=NAME, group_x=True)
    with gemmlab.use(NAME, group_x=16):
        repeat(2, (40, 40), (40, 40), backend=None)
    assert len(made) == 3


@on_opencl
def test_settings_apply_at_once(made, monkeypatch):
    repeat(3, (9, 5), (5, 7))
    monkeypatch.setattr(config, "block", {"opencl-private"})
    with pytest.raises(gemmlab.BackendUnavailable, match="blocked"):
        repeat(1, (9, 5), (5, 7))
    monkeypatch.setattr(config, "block", ())
    repeat(1, (9, 5), (5, 7))
    monkeypatch.setattr(config, "backend", NAME)
    repeat(3, (9, 5), (5, 7), backend=None)
    monkeypatch.setattr(config, "backend", "cpu-ikj")
    with pytest.raises(UnsupportedProblem, match="cpu-ikj cannot take"):
        repeat(1, (9, 5), (5, 7), backend=None)
    assert len(made) == 3


@on_opencl
def test_a_trace_sees_every_product(made):
    repeat(3, (9, 5), (5, 7))
    with gemmlab.trace() as calls:
        repeat(3, (9, 5), (5, 7))
    assert [call.backend for call in calls] == [NAME] * 3
    assert all(call.kernel_s > 0 for call in calls)


@on_opencl
def test_each_queue_has_its_own_plans(made):
    import pyopencl as cl

    a, b = put(integers((9, 5), "float32"), integers((5, 7), "float32"))
    wanted = a.get() @ b.get()
    other = cl.CommandQueue(a.context)
    loose = cl.CommandQueue(a.context, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
    for _ in range(3):
        for queue in (a.queue, other, loose):
            c = gemmlab.matmul(a.with_queue(queue), b.with_queue(queue), backend=NAME)
            assert c.queue == queue
            assert np.array_equal(c.get(), wanted)
    assert [plan.queue.queue for plan in made] == [a.queue, other, loose]


@on_opencl
@pytest.mark.parametrize("side", [0, 1, 2])
def test_work_of_another_queue_is_waited_for(side):
    import pyopencl as cl

    def product(*given: Any) -> Any:
        return gemmlab.matmul(*given, backend=NAME)

    a, b = integers((64, 64), "float32"), integers((64, 64), "float32")
    for _ in range(3):
        product(*put(a, b), poisoned((64, 64)))
    given = [*put(a, b), poisoned((64, 64))]
    other, gate = cl.CommandQueue(given[0].context), cl.UserEvent(given[0].context)
    late = given[side].with_queue(other)  # of which only its own queue knows that it is written
    late.add_event(cl.enqueue_copy(other, late.base_data, a + 1, wait_for=[gate], is_blocking=False))
    given[side] = late
    if side == 0:
        given = [late, *(x.with_queue(other) for x in given[1:])]
    c = product(*given)
    gate.set_status(cl.command_execution_status.COMPLETE)
    wanted = [a, b]
    if side < 2:
        wanted[side] = a + 1
    assert np.array_equal(c.get(), wanted[0] @ wanted[1])


@on_opencl
def test_memory_of_another_queue_is_not_used_again_before_it_was_read():
    """A temporary of one queue, read on another that is busy, and dropped at once."""
    import pyopencl as cl
    import pyopencl.array as cl_array

    context = gemmlab.get_backend(NAME).queue.context
    busy, other = cl.CommandQueue(context), cl.CommandQueue(context)
    a, b, d, e = (integers((64, 64), "float32") for _ in range(4))
    on_busy, (on_b, on_d, on_e) = cl_array.to_device(busy, a), (cl_array.to_device(other, x) for x in (b, d, e))
    for _ in range(3):
        gemmlab.matmul(on_b, on_d, backend=NAME).finish()
    gate = cl.UserEvent(context)
    cl.enqueue_barrier(busy, wait_for=[gate])
    c = gemmlab.matmul(on_busy, gemmlab.matmul(on_b, on_d, backend=NAME), backend=NAME)
    next_one = gemmlab.matmul(on_e, on_e, backend=NAME)  # in the memory of what was dropped
    other.flush()
    gate.set_status(cl.command_execution_status.COMPLETE)
    assert np.array_equal(c.get(), a @ (b @ d))
    assert np.array_equal(next_one.get(), e @ e)


@on_opencl
def test_out_keeps_few_events():
    a, b, c = put(*(integers((16, 16), "float32") for _ in range(3)))
    late, view = a.get(), c[:8]
    for _ in range(30):
        gemmlab.matmul(a, b, c, backend=NAME)
        assert len(c.events) <= 4
    assert view.events is c.events
    assert np.array_equal(view.get(), (late @ b.get())[:8])


@on_opencl
def test_memory_is_used_again_in_order():
    hosts = [integers((32, 32), "float32") for _ in range(4)]
    a, *others = put(*hosts)
    c = wanted = None
    for i in range(60):  # each result is freed while the next product still reads it
        c = gemmlab.matmul(a, others[i % 3] if c is None or i % 5 == 0 else c / 4096, backend=NAME)
        wanted = hosts[0] @ (hosts[1 + i % 3] if wanted is None or i % 5 == 0 else wanted / np.float32(4096))
    assert np.allclose(c.get(), wanted, rtol=1e-3)


@on_opencl
def test_the_operands_allocator_makes_the_result(made):
    import pyopencl.array
    from pyopencl.tools import ImmediateAllocator

    a, b = integers((16, 16), "float32"), integers((16, 16), "float32")
    queue, asked = put(a).queue, []
    immediate = ImmediateAllocator(queue)

    def allocator(nbytes: int) -> Any:
        asked.append(nbytes)
        return immediate(nbytes)

    for _ in range(4):
        device_a = pyopencl.array.to_device(queue, a, allocator=allocator)
        asked.clear()
        c = gemmlab.matmul(device_a, put(b), backend=NAME)
        assert asked == [1024]
        assert c.allocator is allocator
        assert np.array_equal(c.get(), a @ b)
    assert len(made) == 1


@on_opencl
def test_threads_share_a_plan(made):
    repeat(2, (24, 24), (24, 24))
    failures: list[BaseException] = []

    def work() -> None:
        try:
            mine = [(integers((24, 24), "float32"), integers((24, 24), "float32")) for _ in range(6)]
            results = [(gemmlab.matmul(*put(a, b), backend=NAME), a @ b) for _ in range(5) for a, b in mine]
            assert all(np.array_equal(c.get(), wanted) for c, wanted in results)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(made) == 1


@on_opencl
def test_a_failed_queue_has_no_plans(made):
    repeat(3, (9, 5), (5, 7))
    (plan,) = {id(found): found for found in table._plans.values()}.values()
    assert len(made) == 1
    plan.queue.failed = True
    repeat(2, (9, 5), (5, 7))
    assert plan not in table._plans.values()


@on_opencl
def test_a_driver_error_is_ours(made, monkeypatch):
    import pyopencl as cl

    repeat(3, (9, 5), (5, 7))
    a, b = put(integers((9, 5), "float32"), integers((5, 7), "float32"))

    def refuse(*given: Any) -> None:
        cl.Buffer(a.context, 0, 0)  # an error of the driver, of its own type

    with monkeypatch.context() as broken:
        broken.setattr("gemmlab._gpu.plans.on_opencl.cl.enqueue_nd_range_kernel", refuse)
        with pytest.raises(DeviceError, match="failed starting a kernel"):
            gemmlab.matmul(a, b, backend=NAME)
    assert np.array_equal(gemmlab.matmul(a, b, backend=NAME).get(), a.get() @ b.get())


def own_rung(scale: int) -> Any:
    text = (
        "__kernel GROUP void gemm(OPERANDS) { THIS_PRODUCT; const int i = get_global_id(1), j = get_global_id(0); "
        "if (i >= m || j >= n) return; real sum = 0; "
        "for (int p = 0; p < k; p++) sum += A[i * lda + p] * B[p * ldb + j]; "
        f"C[i * ldc + j] = {scale} * sum; }}"
    )  # fmt: skip
    width = gemmlab.Param("group_x", 16, (16, 64), "work-items of a group")
    return gemmlab.opencl_rung(
        "opencl-scaled", text, params=[width], group=lambda p: (p["group_x"], 1), block=lambda p: (p["group_x"], 1)
    )


@on_opencl
def test_a_plugins_rung_goes_and_comes(made):
    a, b = put(integers((9, 5), "float32"), integers((5, 7), "float32"))
    for scale in (1, 3):
        with _registry.registered(own_rung(scale)):
            for _ in range(4):
                c = gemmlab.matmul(a, b, backend="opencl-scaled")
                assert np.array_equal(c.get(), scale * (a.get() @ b.get()))
        with pytest.raises(gemmlab.UnknownBackend):
            gemmlab.matmul(a, b, backend="opencl-scaled")
    assert len(made) == 2


class ByWayOfAWorkspace(Rung):
    """The rung `private` into a workspace that is cleared, and a copy to C."""

    def launches(self, params, dtype, size, layouts, device):
        a, b, c = layouts
        workspace = Workspace()
        inside = Layout(workspace.take(size.batch * size.m * size.n, 4), size.n, size.m * size.n)
        sides = (Place.A, a), (Place.B, b), (Place.WORKSPACE, inside)
        product = self.gemm(params, self.defines(params, dtype), size, sides)
        copied = copies(4, (size.batch, size.m, size.n), (*sides[2], 1), (Place.C, c, 1))
        return Launches((*product, *copied), workspace.nbytes, clear_bytes=workspace.nbytes)


@on_opencl
def test_a_rung_of_two_kernels_and_a_workspace(made):
    private = RUNGS[RUNG_NAMES.index("private")]
    rung = ByWayOfAWorkspace(**{field.name: getattr(private, field.name) for field in fields(private)})
    rung = replace(rung, name="two", dtypes=("float32",), files=("private.cl",))
    backend = RungBackend(runtime_named("opencl"), rung)
    with _registry.registered(backend):
        repeat(4, (33, 17), (17, 65), backend="opencl-two")
        repeat(4, (3, 33, 17), (3, 17, 65), out=True, backend="opencl-two")
        assert len(made) == 2
        given = put(integers((9, 5), "float32"), integers((5, 7), "float32"), np.zeros((9, 7), "float32"))
        handle = backend.gemm(problem_of(backend, *given))
        handle.wait()
        assert len(handle.events) == 3
        assert handle.kernel_s == sum(event.kernel_s for event in handle.events)
        a = integers((40, 40), "float32")
        assert np.array_equal(gemmlab.matmul(a, a, backend="opencl-two"), a @ a)  # host arrays


@on_opencl
def test_results_are_what_pyopencls_constructor_makes():
    """What is made of the attributes of the first result, without the constructor."""
    import pyopencl.array

    a, b = put(integers((6, 5), "float32"), integers((5, 7), "float32"))
    first, second = (gemmlab.matmul(a, b, backend=NAME) for _ in range(2))
    public = pyopencl.array.Array(a.queue, (6, 7), np.float32, allocator=a.allocator, data=second.base_data)
    for found in (first, second):
        assert type(found) is type(public)
        assert vars(found).keys() == vars(public).keys()
        own = {"base_data", "events"}
        assert {x: y for x, y in vars(found).items() if x not in own} == {
            x: y for x, y in vars(public).items() if x not in own
        }
    assert np.array_equal((first + second).get(), 2 * second.get())


@on_opencl
def test_few_plans_are_kept(monkeypatch):
    monkeypatch.setattr(table, "MAX_PLANS", 8)
    for n in range(1, 30):
        repeat(3, (3, n), (n, 3))
        assert len(table._plans) <= 8


def test_the_arguments_of_an_operand():
    assert arguments_of(Place.B, Operand(None, 2, 20, 200).layout) == (Place.B, 2, 20, 200)



# The choice of a family


@on_opencl
def test_a_family_chooses_for_each_product_and_says_why(made, monkeypatch):
    device = gemmlab.get_backend(NAME).device
    rung, why = choose_rung("opencl", device, "float32", 3, 5, 4)
    assert rung == BEST_RUNG
    assert why == f"opencl-{BEST_RUNG} is our fastest for 3 x 5 x 4 of float32 on {device.label}"
    small = replace(device, local_bytes=16, kind="gpu")
    rung, why = choose_rung("opencl", small, "float64", 3, 5, 4)
    assert rung == "register"
    assert "not opencl-tuned: tile_x=8" in why


@on_opencl
def test_a_family_goes_by_its_plan_and_explains_itself(made):
    rung = gemmlab.get_backend("opencl:0").name
    a, b = put(integers((9, 5), "float32"), integers((5, 7), "float32"))
    row = gemmlab.explain(a, b, backend="opencl:0").rows[0]
    assert row[:2] == (rung, True)
    assert row[2].startswith("asked for as opencl:0: opencl-")
    assert "9 x 7 x 5 of float32" in row[2]
    assert gemmlab.explain(a.get(), b.get(), backend="opencl:0").rows[0] == row
    assert gemmlab.explain(a, b, backend=rung).rows[0][2].count("profile") == row[2].count("profile")
    assert not gemmlab.explain(a, b, backend="cpu-packed").rows[0][1]
    assert not gemmlab.explain(a, b.astype("float64"), backend="opencl:0").rows[0][1]
    with gemmlab.trace() as calls:
        repeat(1, (9, 5), (5, 7), backend="opencl:0")
        gemmlab.matmul(a.get(), b.get(), backend="opencl:0")
    assert [call.backend for call in calls] == [rung, rung]
    repeat(3, (9, 5), (5, 7), backend="opencl:0")
    assert len(made) == 1


@on_opencl
def test_parameters_belong_to_the_rung_that_the_family_stands_for(monkeypatch):
    name = gemmlab.get_backend("opencl:0").name
    param, value = "group_m", 4
    monkeypatch.setattr(_registry, "choose_rung", lambda *given: ("naive", "because"))
    a, b = put(integers((9, 5), "float32"), integers((5, 7), "float32"))
    with gemmlab.trace() as calls:
        gemmlab.matmul(a, b, backend="opencl:0")
        gemmlab.matmul(a, b, backend="opencl:0", **{param: value})
    assert [call.backend for call in calls] == ["opencl-naive:0", name]


# CUDA: CuPy's arrays in host memory


class Cupys:
    """The runtime, its device and cuBLAS by stand-ins, and arrays that they take."""

    def __init__(self, cupy: Any, fake: FakeCuda) -> None:
        self.cupy, self.fake = cupy, fake

    def put(self, host: Any, beyond: int = 0) -> Any:
        """An array with the values of `host`, which begins some bytes after a multiple of 128."""
        room = np.zeros(host.nbytes + 256, np.uint8)
        start = -room.ctypes.data % 128 + beyond
        memory = self.cupy.cuda.UnownedMemory(room.ctypes.data, room.nbytes, room, 1)
        array = self.cupy.ndarray(host.shape, host.dtype, self.cupy.cuda.MemoryPointer(memory, start))
        self.values(array)[...] = host
        return array

    def values(self, array: Any) -> Any:
        """The array as NumPy's, without a copy."""
        interface = {
            "data": (array.data.ptr, False), "shape": array.shape, "strides": array.strides,
            "typestr": f"|V{array.dtype.itemsize}", "version": 3,
        }  # fmt: skip
        return np.asarray(SimpleNamespace(__array_interface__=interface)).view(array.dtype)

    def new(self, shape: tuple[int, ...], dtype: Any) -> Any:
        poison = np.full((*shape, np.dtype(dtype).itemsize), 0xFF, np.uint8)
        return self.put(poison.view(dtype)[..., 0])


@pytest.fixture
def cupys(monkeypatch):
    cupy = pytest.importorskip("cupy")
    from gemmlab._gpu import cuda as module
    from gemmlab._gpu.plans import on_cuda

    fake = FakeCuda()
    cupys = Cupys(cupy, fake)
    fake.device = 1
    for name in ("MemoryPointer", "UnownedMemory"):
        setattr(fake, name, getattr(cupy.cuda, name))
    monkeypatch.setattr(FakeDevice, "cublas_handle", 77, raising=False)
    monkeypatch.setattr(module, "compile_source", lambda source, defines, arch: fake.program)
    fake.runtime.getDevice = lambda: fake.device
    monkeypatch.setattr(on_cuda, "_ndarray", cupys.new)
    backend = backend_named("cuda-cublas:1")
    backend.name, backend.selector = "cuda-standin", ""
    runtime = backend.runtime = type(backend.runtime)()
    runtime.cupy = SimpleNamespace(cuda=fake, empty=cupys.new, __version__="14.2.0")
    runtime.devices = tuple(runtime._find())
    backend.library = FakeCuBLAS(fake)
    cupys.backend = backend
    with _registry.registered(backend):
        yield cupys
    assert fake.current is fake.before


def cuda_product(cupys, *given: Any, **options: Any) -> Any:
    return gemmlab.matmul(*given, **{"backend": "cuda-standin", **options})


@pytest.mark.parametrize("out", [False, True])
@pytest.mark.parametrize("beyond", [0, 4, 64])
@pytest.mark.parametrize(
    "shapes", [((6, 4), (4, 5)), ((3, 6, 4), (3, 4, 5)), ((3, 6, 4), (4, 5)), ((6, 4), (4,)), ((6, 4), (5, 4))]
)
def test_cublas_by_a_plan(cupys, shapes, beyond, out):
    recorded = []
    for _ in range(5):
        a, b = integers(shapes[0], "float32"), integers(shapes[1], "float32")
        given = cupys.put(a, beyond), cupys.put(b, beyond)
        if shapes[1] == (5, 4):  # B is column-major
            b, given = b.T, (given[0], given[1].T)
        c = cupys.new(np.shape(a @ b), "float32") if out else None
        cupys.fake.log.clear()
        found = cuda_product(cupys, *given, c)
        assert found is c or not out
        assert np.array_equal(cupys.values(found), a @ b)
        recorded.append(len(cupys.fake.log))
    assert recorded == [0] * 5  # no events: nobody asks for the time
    assert (cupys.backend.library.scalars, cupys.backend.library.math) == (1, 3)


@pytest.mark.parametrize(("dtype", "sums"), [("int8", "int32"), ("float16", "float32"), ("bfloat16", "float32")])
def test_the_sums_of_narrow_numbers(cupys, dtype, sums):
    import ml_dtypes

    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    a, b = integers((2, 6, 8), dtype), integers((8, 4), dtype)
    given, exact = (cupys.put(a), cupys.put(b)), a.astype(int) @ b.astype(int)
    for _ in range(3):
        found = cuda_product(cupys, *given, dtype=sums)
        assert np.array_equal(cupys.values(found), exact)
        assert found.dtype == sums
        out = cupys.new(exact.shape, sums)
        assert cuda_product(cupys, *given, out) is out
        assert np.array_equal(cupys.values(out), exact)
    assert len(table._plans) == 2
    assert gemmlab.explain(*given, backend="cuda-standin", dtype=sums).rows[0][1]
    with pytest.raises(UnsupportedProblem, match="convert them with astype"):
        cuda_product(cupys, *given, dtype="float64")
    if dtype == np.int8:
        with pytest.raises(UnsupportedProblem, match="into int32: pass dtype='int32'"):
            cuda_product(cupys, *given)
        odd = cupys.put(a[..., :7]), cupys.put(b[:7])
        with pytest.raises(UnsupportedProblem, match="use cuda-tensor"):
            cuda_product(cupys, *odd, dtype=sums)
    else:
        assert np.array_equal(cupys.values(cuda_product(cupys, *given)), exact.astype(dtype))


def test_a_plan_runs_on_the_current_stream(cupys):
    from fake_cuda import FakeStream

    a, b = (cupys.put(integers((4, 4), "float32")) for _ in range(2))
    for _ in range(2):
        cuda_product(cupys, a, b)
    other = FakeStream(cupys.fake)
    other.use()
    cuda_product(cupys, a, b)
    cupys.fake.before.use()
    assert cupys.backend.library.calls[-1] == (68, other)


def test_a_plan_is_for_the_current_device(cupys):
    a, b = (cupys.put(integers((4, 4), "float32")) for _ in range(2))
    for _ in range(3):
        cuda_product(cupys, a, b)
    cupys.fake.device = 0
    cupys.fake.log.clear()
    c = cuda_product(cupys, a, b)  # makes the arrays' device current meanwhile
    assert np.array_equal(cupys.values(c), cupys.values(a) @ cupys.values(b))
    assert cupys.fake.device == 0
    cupys.fake.device = 1


def test_overlap_and_settings_of_the_handle(cupys):
    a, b = integers((4, 4), "float32"), integers((4, 4), "float32")
    for _ in range(3):
        cuda_product(cupys, cupys.put(a), cupys.put(b), cupys.new((4, 4), "float32"))
    given = cupys.put(a), cupys.put(b)
    plan = next(iter(table._plans.values()))
    assert plan.overlaps(0, given[0].data.ptr, given[0].data.ptr)
    assert not plan.overlaps(0, given[0].data.ptr, given[0].data.ptr + 64)
    assert plan.overlaps(0, given[0].data.ptr, given[0].data.ptr + 60)
    cupys.backend.library.scalars, cupys.backend.library.math = 0, 0
    c = cuda_product(cupys, *given)
    assert np.array_equal(cupys.values(c), a @ b)


def test_a_rung_gets_memory_that_is_aligned(cupys):
    rung = RungBackend(cupys.backend.runtime, RUNGS[RUNG_NAMES.index("register")])
    rung.name = "cuda-own"
    log = cupys.fake.log
    with _registry.registered(rung):
        for beyond in (0, 4, 64):
            for _ in range(3):
                a, b = (cupys.put(integers((16, 16), "float32"), beyond) for _ in range(2))
                log.clear()
                c = cuda_product(cupys, a, b, backend="cuda-own")
                (launch,) = [entry for entry in log if entry[0] == "gemm"]
                assert not any(entry[0] == "record" for entry in log)
                memory, start = launch[3][3:5]
                assert memory.ptr % 128 == 0
                assert memory.ptr + 4 * start == a.data.ptr
                assert launch[3][11].ptr + 4 * launch[3][12] == c.data.ptr
                assert launch[4] is cupys.fake.before


def test_what_the_driver_refuses_is_a_device_error(cupys):
    a, b = (cupys.put(integers((4, 4), "float32")) for _ in range(2))
    for _ in range(3):
        cuda_product(cupys, a, b)

    def refuse(*given: Any) -> None:
        raise cupys.backend.library.CUBLASError("CUBLAS_STATUS_EXECUTION_FAILED")

    table_entry = next(iter(table._plans.values()))
    table_entry.prepared.function = refuse
    with pytest.raises(DeviceError, match=r"failed multiplying by cuBLAS .*EXECUTION_FAILED"):
        cuda_product(cupys, a, b)
    cupys.fake.broken = RuntimeFailure(700, "cudaErrorIllegalAddress")

    def fail(*given: Any) -> None:
        raise cupys.fake.broken

    table_entry.prepared.function = fail
    with pytest.raises(DeviceError, match=r"failed multiplying .*cannot use CUDA any more"):
        cuda_product(cupys, a, b)
    assert table_entry.queue.failed
    cupys.fake.broken = None
