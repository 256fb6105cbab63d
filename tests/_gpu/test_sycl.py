"""The SYCL runtime: every rung's text on it, the order of its work, and arrays of dpnp where they are."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import output_of
from randomness import RNG

import gemmlab
from gemmlab._errors import BackendUnavailable, DeviceError, UnsupportedProblem
from gemmlab._gpu import runtime_named
from gemmlab._gpu import sycl as module
from gemmlab._gpu.batches import GemmSize
from gemmlab._gpu.ladder.rung import row_major
from gemmlab._gpu.ladder.rungs import RUNGS
from gemmlab._gpu.sycl import Sycl

dpctl = pytest.importorskip("dpctl")
dpnp = pytest.importorskip("dpnp")
RUNTIME = runtime_named("sycl")
try:
    DEVICE = RUNTIME.device("")
except BackendUnavailable as reason:
    pytest.skip(str(reason), allow_module_level=True)

ROUNDS = """
__kernel void rounds(const long count, __global float *x) {
    float value = x[get_global_id(0)];
    for (long i = 0; i < count; i++)
        value = value < 4 ? value + 1 : value - 3;
    x[get_global_id(0)] = value + 1;
}
"""  # value + 1 for each value in 1, 2, 3, 4 and a count that is a multiple of 4
LENGTH = 1 << 16
LONG = 4 * (2500 if DEVICE.kind == "cpu" else 2_500_000)  # rounds that take about a tenth of a second
float32 = np.dtype(np.float32)


@pytest.fixture
def queue():
    return RUNTIME.queue(DEVICE)


def integers(*shape, dtype="float32"):
    return RNG.integers(-8, 9, shape).astype(dtype)


def launched(queue, rung, shape, memories, dtype="float32"):
    """Start a rung on a stack of row-major products."""
    count, m, n, k = shape
    kind, size = queue.device.kind, GemmSize(m, n, k, count)
    launches = rung.on(kind).launches(rung.resolve({}, kind), dtype, size, row_major(size), queue.device)
    return queue.start(queue.prepared(launches), *memories)[-1]


def product(queue, rung, a, b):
    """A stack of products of host arrays, and the launch's event."""
    (count, m, k), n = a.shape, b.shape[-1]
    c = np.full((count, m, n), np.nan, a.dtype)
    memories = [queue.allocate(x.nbytes) for x in (a, b, c)]
    queue.upload(memories[0], a)
    queue.upload(memories[1], b)
    event = launched(queue, rung, (count, m, n, k), memories, a.dtype.name)
    queue.download(c, memories[2])
    return c, event


def works(queue):
    a, b = integers(1, 5, 7), integers(1, 7, 3)
    return np.array_equal(product(queue, RUNGS[1], a, b)[0], a @ b)


def rounds(queue, memory, count=LONG):
    """Add 1 to each of LENGTH numbers, which are 1, 2, 3 or 4, slowly."""
    kernel = queue.kernel(ROUNDS, "rounds", {})
    return queue.launch(kernel, (LENGTH // 64, 1, 1), (64, 1, 1), [np.int64(count), memory])


def numbers(queue, value=1):
    memory = queue.allocate(LENGTH * 4)
    queue.upload(memory, np.full(LENGTH, value, float32))
    return memory


# Devices


def test_devices_are_described():
    for number, device in enumerate(RUNTIME.devices):
        assert (device.runtime, device.index) == ("sycl", number)
        assert device.kind in ("gpu", "accelerator", "cpu")
        assert device.name
        assert device.platform
        assert "(R)" not in device.platform
        assert min(device.compute_units, device.group_limit, device.local_bytes) > 0
        assert 0 < device.allocation_bytes <= device.memory_bytes
        assert RUNTIME.device(str(number)) is device


def run_alone(code, **environ):
    return output_of(f"from gemmlab._gpu import runtime_named\nsycl = runtime_named('sycl')\n{code}", **environ)


ASKED = "try: print(sycl.devices)\nexcept Exception as error: print(error)"


@pytest.mark.parametrize("before", ["", "import dpctl", "import dpnp", "import gemmlab._gpu as gpu; gpu.devices()"])
def test_the_environment_is_left_alone(before):
    said = run_alone(f"{before}\n{ASKED}\nimport os; assert 'OCL_ICD_FILENAMES' not in os.environ")
    assert said.count("Device(") == len(RUNTIME.devices)


def test_a_users_list_of_drivers_is_his():
    said = run_alone(ASKED, OCL_ICD_FILENAMES="/nowhere/lib.so")
    assert said.count("Device(") < len(RUNTIME.devices) or "libintelocl" not in str(module.files("intel-opencl-rt"))


def test_dpctl_that_was_asked_before_is_given_as_a_reason():
    said = run_alone(f"import dpctl; dpctl.get_devices()\n{ASKED}")
    assert "Device(" in said or "dpctl listed its devices before gemmlab was imported" in said


# Every rung


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
@pytest.mark.parametrize("shape", [(1, 1, 1), (37, 53, 29), (5, 131, 67)])
def test_a_stack_of_products_is_exact(queue, rung, dtype, shape):
    m, n, k = shape
    a, b = integers(3, m, k, dtype=dtype), integers(3, k, n, dtype=dtype)
    c, event = product(queue, rung, a, b)
    assert np.array_equal(c, a @ b)
    assert 0 < event.kernel_s < 10


def test_a_longer_kernel_takes_longer_by_the_devices_clock(queue):
    memory = numbers(queue)
    start = perf_counter()
    short, long = rounds(queue, memory, 4), rounds(queue, memory, LONG)
    assert short.kernel_s < long.kernel_s / 10
    assert long.kernel_s < perf_counter() - start


# Texts that are refused


def test_a_refused_text_shows_the_compilers_log(queue):
    pytest.importorskip("pyopencl")
    with pytest.raises(DeviceError, match="cannot build the kernel") as caught:
        queue.kernel("__kernel void gemm() { this_is_no_function(); }", "gemm", {})
    assert "this_is_no_function" in str(caught.value)
    assert works(queue)


def test_without_pyopencl_it_says_where_the_log_is(queue, monkeypatch):
    class Absent:
        @property
        def devices(self):
            raise BackendUnavailable("pyopencl is not installed")

    monkeypatch.setattr(module, "runtime_named", lambda name: Absent())
    with pytest.raises(DeviceError, match=r"gemmlab\[opencl\]"):
        queue.kernel("__kernel void gemm() { nor_is_this(); }", "gemm", {})


def test_a_text_without_the_kernel(queue):
    with pytest.raises(DeviceError, match="no kernel 'other'"):
        queue.kernel("__kernel void gemm() {}", "other", {})
    assert works(queue)


def test_macros_reach_the_text(queue):
    text = "__kernel void set(__global float *x) { *x = WHAT + (ON); }"
    memory, found = queue.allocate(4), np.zeros(1, float32)
    queue.launch(queue.kernel(text, "set", {"WHAT": 40, "ON": "2"}), (1, 1, 1), (1, 1, 1), [memory])
    queue.download(found, memory)
    assert found == 42


# Trouble


def test_a_full_device(queue):
    with pytest.raises(DeviceError, match="ran out of memory"):
        queue.allocate(4 * DEVICE.memory_bytes)
    assert not queue.failed
    assert works(queue)


def test_a_launch_that_the_driver_refuses():
    own = Sycl()
    queue = own.queue(own.device(""))
    memory, kernel = numbers(queue), queue.kernel(ROUNDS, "rounds", {})
    with pytest.raises(DeviceError, match="failed starting a kernel"):
        queue.launch(kernel, (1, 1, 1), (2 * DEVICE.group_limit, 1, 1), [np.int64(0), memory])
    assert queue.failed
    assert own.queue(own.device("")) is not queue
    assert works(own.queue(own.device("")))


def test_an_event_that_failed(queue, monkeypatch):
    class Failed:
        def wait(self):
            pass

        @property
        def execution_status(self):
            raise ValueError("Unknown event status.")

    lost = module.SyclQueue(DEVICE, queue.queue)
    with pytest.raises(DeviceError, match="failed running a kernel"):
        module.SyclEvent(lost, Failed()).wait()
    assert lost.failed


def test_trouble_inside_of_trouble_is_told_once(queue):
    first = DeviceError("first")
    with pytest.raises(DeviceError) as caught, queue.device_errors("outer"):
        raise first
    assert caught.value is first


# Order and lifetimes


def test_launches_are_done_in_the_order_given(queue):
    memory, value = numbers(queue), np.zeros(LENGTH, float32)
    for _ in range(3):
        rounds(queue, memory)
    queue.download(value, memory)
    assert (value == 4).all()


def test_an_upload_waits_for_the_kernel_before_it(queue):
    memory, value = numbers(queue), np.zeros(LENGTH, float32)
    rounds(queue, memory)
    queue.upload(memory, np.full(LENGTH, 3, float32))
    queue.download(value, memory)
    assert (value == 3).all()


def test_a_launch_returns_at_once_and_keeps_its_memory(queue):
    seconds = []
    for _ in range(5):
        memory = numbers(queue)
        start = perf_counter()
        event = rounds(queue, memory)
        del memory  # to free it here would wait for the kernel, or crash
        seconds.append(perf_counter() - start)
        event.wait()
    assert min(seconds) < event.kernel_s / 5


def test_all_references_dropped_under_running_kernels(queue):
    rung, a, b = RUNGS[1], integers(1, 150, 150), integers(1, 150, 150)
    for _ in range(100):
        memories = [queue.allocate(a.nbytes) for _ in range(3)]
        queue.upload(memories[0], a)
        queue.upload(memories[1], b)
        for _ in range(5):
            launched(queue, rung, (1, 150, 150, 150), memories)
    assert works(queue)


def test_memory_is_back_when_a_download_returns(queue):
    assert works(queue)
    assert not queue.orders[queue.queue].host_task_events


def test_the_interpreter_may_end_under_a_running_kernel():
    run_alone(f"""
import numpy as np
queue = sycl.queue(sycl.device(""))
memory = queue.allocate({LENGTH * 4})
kernel = queue.kernel('''{ROUNDS}''', "rounds", {{}})
queue.launch(kernel, ({LENGTH // 64}, 1, 1), (64, 1, 1), [np.int64({LONG}), memory])
""")


def test_threads_share_a_queue(queue):
    def many(seed):
        rng, rung = np.random.default_rng(seed), RUNGS[seed % len(RUNGS)]
        for _ in range(10):
            m, n, k = rng.integers(1, 60, 3)
            a, b = integers(2, m, k), integers(2, k, n)
            assert np.array_equal(product(queue, rung, a, b)[0], a @ b)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(many, range(8)))


# Arrays of users


def usm(x):
    return x.get_array()


ARRAY_KINDS = pytest.mark.parametrize("kind", [lambda x: x, usm], ids=["dpnp", "usm_ndarray"])


def on_device(x):
    """On the queue that dpnp takes by default on this device."""
    return dpnp.asarray(x, sycl_queue=dpctl.get_device_cached_queue(RUNTIME._handles[DEVICE.index]))


def adopted_product(a, b, c, rung=RUNGS[1]):
    given = [RUNTIME.adopt(x) for x in (a, b, c)]
    (m, k), n = a.shape, b.shape[1]
    return launched(given[0].queue, rung, (1, m, n, k), [x.memory for x in given], a.dtype.name)


@ARRAY_KINDS
@pytest.mark.parametrize("usm_type", ["device", "shared", "host"])
def test_arrays_are_taken_as_they_are(kind, usm_type):
    a, b = integers(21, 13), integers(13, 34)
    device_a, device_b = (kind(dpnp.asarray(on_device(x), usm_type=usm_type)) for x in (a, b))
    c = gemmlab.matmul(device_a, device_b, backend="sycl-naive")
    assert type(c) is type(device_a)
    assert (c.usm_type, c.sycl_queue, c.dtype) == (usm_type, device_a.sycl_queue, device_a.dtype)
    c[:] = 0
    before = c.__sycl_usm_array_interface__["data"]
    adopted_product(device_a, device_b, c)
    assert np.array_equal(RUNTIME.values(c), a @ b)
    assert c.__sycl_usm_array_interface__["data"] == before
    assert RUNTIME.adopt(c).memory is (c.get_array() if kind is not usm else c).usm_data


VIEWS = {
    "part": lambda x: x[1:, 2:],
    "transposed": lambda x: x.T,
    "backwards": lambda x: x[::-1, ::2],
    "stack": lambda x: x.reshape(2, 3, 8)[:, 1],
    "through DLPack": lambda x: dpnp.from_dlpack(x[2:]) if isinstance(x, dpnp.ndarray) else x[2:],
}


@ARRAY_KINDS
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_are_where_they_are_in_one_memory(kind, view):
    host = np.arange(48, dtype=float32).reshape(6, 8)
    whole = on_device(host)
    adopted, base = RUNTIME.adopt(kind(view(whole))), RUNTIME.adopt(kind(whole))
    expected = view(host)
    assert adopted.region == (base.region[0], adopted.start_bytes)
    assert adopted.start_bytes == expected.ctypes.data - host.ctypes.data
    assert (adopted.shape, adopted.strides, adopted.dtype) == (expected.shape, expected.strides, expected.dtype)


def test_an_array_over_another_is_in_its_memory():
    x = on_device(np.arange(12, dtype=float32))
    over = type(usm(x))((4,), dtype="f4", buffer=dpctl.memory.as_usm_memory(x[5:]))
    assert RUNTIME.adopt(over).region == (RUNTIME.adopt(x).region[0], 20)


def test_a_queue_is_known_again_and_its_kernels_are_built_once():
    own = Sycl()
    queue = own.queue(own.device(""))
    x = on_device(np.ones(LENGTH, float32))
    theirs = own.adopt(x).queue
    assert theirs is own.adopt(x[3:]).queue
    assert theirs is not queue
    assert theirs.device == queue.device
    assert theirs.kernel(ROUNDS, "rounds", {}) is queue.kernel(ROUNDS, "rounds", {})
    assert own.adopt(own.array(own.device(""), np.ones(3))).queue is queue


def test_only_the_latest_queues_are_kept():
    own = Sycl()
    for _ in range(40):
        own.adopt(dpnp.ones(3, sycl_queue=dpctl.SyclQueue(RUNTIME._handles[DEVICE.index])))
    assert len(own._queues) == 16


def test_a_queue_without_times_gives_none():
    x, y, z = (on_device(integers(8, 8)) for _ in range(3))
    assert math.isnan(adopted_product(x, y, z).kernel_s)
    x, y, z = (RUNTIME.array(DEVICE, integers(8, 8)) for _ in range(3))
    assert adopted_product(x, y, z).kernel_s > 0


def test_what_dpnp_does_next_waits_for_a_launch_and_the_caller_does_not():
    x = on_device(np.ones(LENGTH, float32))
    adopted = RUNTIME.adopt(x)
    rounds(adopted.queue, adopted.memory, 4).wait()  # built
    start = perf_counter()
    event = rounds(adopted.queue, adopted.memory)
    launch_s = perf_counter() - start
    later = x + 10  # reads what the kernel writes
    x[:] = 0  # writes what it reads
    event.wait()
    assert launch_s < (perf_counter() - start) / 5
    assert (RUNTIME.values(later) == 13).all()
    assert (RUNTIME.values(x) == 0).all()


def test_a_launch_waits_for_what_dpnp_does_before():
    a, b = integers(1500, 1500), integers(1500, 1500)
    device_a, device_b, eye = on_device(a), on_device(b), on_device(np.eye(1500, dtype=float32))
    c = dpnp.empty_like(eye)
    adopted_product(device_a @ device_b, eye, c, RUNGS[2])
    assert np.array_equal(RUNTIME.values(c), a @ b)


def test_order_holds_between_queues_of_one_context():
    here, there = (dpctl.SyclQueue(RUNTIME._handles[DEVICE.index]) for _ in range(2))
    ours = RUNTIME.adopt(dpnp.ones(1, sycl_queue=here)).queue
    x = dpnp.zeros(LENGTH, dtype=float32, sycl_queue=there) + 1
    for _ in range(3):
        rounds(ours, RUNTIME.adopt(x).memory)
    assert (RUNTIME.values(x + 0) == 4).all()


def test_a_wait_is_over_when_the_work_is():
    x = on_device(np.ones(LENGTH, float32))
    adopted = RUNTIME.adopt(x)
    event = rounds(adopted.queue, adopted.memory)
    RUNTIME.wait(x)
    assert event.event.execution_status == dpctl.event_status_type.complete


def test_a_foreign_context_is_refused():
    device = RUNTIME._handles[DEVICE.index]
    foreign = dpctl.SyclQueue(dpctl.SyclContext([device]), device)
    x, y = on_device(integers(4, 4)), dpnp.asarray(integers(4, 4), sycl_queue=foreign)
    with pytest.raises(UnsupportedProblem, match="contexts"):
        adopted_product(x, y, dpnp.empty_like(x))


def test_a_backend_that_compiles_no_opencl_c_is_refused():
    device = SimpleNamespace(name="a GPU", backend=dpctl.backend_type.level_zero)
    with pytest.raises(UnsupportedProblem, match="ONEAPI_DEVICE_SELECTOR"):
        RUNTIME._queue_of(SimpleNamespace(sycl_queue=None, sycl_device=device))
