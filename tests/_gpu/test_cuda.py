"""The CUDA runtime: sources compiled without a GPU, calls to a fake CuPy, and tests on a GPU."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from devices import nvrtc_here
from fake_cuda import DriverFailure, FakeCuda, FakeStream, OutOfMemory, RuntimeFailure
from helpers import output_of

import gemmlab
from gemmlab._config import config
from gemmlab._errors import BackendUnavailable, DeviceError
from gemmlab._gpu import cuda as module
from gemmlab._gpu import runtime
from gemmlab._gpu.backend import RungBackend
from gemmlab._gpu.batches import GemmSize, Layout, Operand
from gemmlab._gpu.cuda import Cuda, CudaQueue, compile_source
from gemmlab._gpu.kernels import kernel_text
from gemmlab._gpu.ladder.rung import row_major
from gemmlab._gpu.ladder.rungs import RUNG_NAMES, RUNGS
from gemmlab._gpu.runtime import Device

DTYPES = ("float32", "float64")
H100 = Device("cuda", 0, "NVIDIA H100", "gpu", "CUDA", "d", 132, 1024, 48 << 10, 80 << 30, 80 << 30, True)
STORES_IN_THE_LOOP = {"naive", "register-global"}
every_rung = pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


@pytest.fixture(autouse=True)
def cache_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setattr(config, "cache_dir", tmp_path)


# Texts


@pytest.fixture(scope="module")
def nvrtc():
    return nvrtc_here()


def compiled(rung, dtype, arch, **params):
    size, params = GemmSize(256, 256, 256, 1), rung.resolve(params, "gpu")
    one, *_ = rung.launches(params, dtype, size, row_major(size), H100)
    return compile_source(kernel_text("common/cuda.h") + one.text, one.macros, arch)


@pytest.mark.parametrize(
    ("rung", "dtype"), [(rung, dtype) for rung in RUNGS for dtype in rung.dtypes],
    ids=lambda one: one if isinstance(one, str) else one.name,
)  # fmt: skip
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_every_rung_compiles_to_machine_code(rung, dtype, arch, nvrtc):
    assert compiled(rung, dtype, arch).startswith(b"\x7fELF")


@pytest.mark.parametrize("shares", [1, 7])
def test_float16_is_converted_once_on_its_way(shares, nvrtc):
    """From memory to local memory and at the end; the sums of shares stay float32 until they are added."""
    ptx = compiled(RUNGS[RUNG_NAMES.index("tuned")], "float16", "compute_90", shares=shares).decode()
    adding = [block for block in flow(ptx)[0] if count(block, "fma.rn")]
    assert adding
    assert not any(count(block, "cvt.rn.f16.f32") for block in adding)
    assert (".entry add_shares(" in ptx) == (shares > 1)
    assert ptx.count("cvt.f32.f16")


@pytest.mark.parametrize("real", ["char", "short", "int", "long"])
def test_the_copy_compiles(real, nvrtc):
    text = kernel_text("common/cuda.h") + kernel_text("common/copy.cl")
    assert b".entry copy(" in compile_source(text, {"REAL": real}, "compute_90")


def test_the_clearing_compiles(nvrtc):
    text = kernel_text("common/cuda.h") + kernel_text("common/clear.cl")
    assert b".entry clear(" in compile_source(text, {}, "compute_90")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("few", [1, 11])
def test_a_thin_product_reads_its_matrix_in_vectors(few, dtype, transposed, nvrtc):
    rung = RUNGS[RUNG_NAMES.index("tuned")]
    layouts = Layout(0, 256, 0, transposed), Layout(0, few), Layout(0, few)
    params = {**rung.resolve({}, "gpu"), "shares": 2}
    launches = rung.launches(params, dtype, GemmSize(256, few, 256, 1), layouts, H100)
    assert [one.name for one in launches] == ["multiply_thin", "add_slices"]
    for one in launches:
        ptx = compile_source(kernel_text("common/cuda.h") + one.text, one.macros, "compute_80").decode()
        assert re.search(r"ld\.global(\.nc)?\.v[24]\.", ptx)
        assert ".local" not in ptx  # sums stay in registers


def flow(ptx):
    """The basic blocks of the one kernel in a PTX text, and for each the blocks that may run after it."""
    blocks, labels = [[]], {}
    for line in map(str.strip, ptx[ptx.index("{") + 1 : ptx.rindex("}")].splitlines()):
        if line.startswith("$"):
            labels[line.rstrip(":")] = len(blocks)
            blocks.append([])
        elif line and line[0] not in "./":
            blocks[-1].append(line)
            if re.search(r"\b(bra|ret)\b", line):
                blocks.append([])
    following = []
    for number, block in enumerate(blocks):
        last = block[-1] if block else ""
        branch = re.search(r"\bbra(?:\.uni)?\s+(\S+);", last)
        goes_on = last.startswith("@") or not re.match(r"bra|ret", last)
        following.append({labels[branch[1]]} if branch else set())
        following[-1] |= {number + 1} if goes_on and number + 1 < len(blocks) else set()
    after = [set(block) for block in following]
    for _ in blocks:
        after = [own.union(*(after[other] for other in own)) for own in after]
    return blocks, after


def count(block, instruction):
    return sum(instruction in line for line in block)


@every_rung
@every_dtype
def test_only_the_naive_rungs_store_c_in_the_loop_over_k(rung, dtype, nvrtc):
    blocks, after = flow(compiled(rung, dtype, "compute_90").decode())
    adding = [number for number, block in enumerate(blocks) if count(block, "fma.rn")]
    storing = [number for number, block in enumerate(blocks) if count(block, "st.global")]
    looped = [number for number in adding if number in after[number]]
    assert looped
    assert storing
    if rung.name in STORES_IN_THE_LOOP:
        for number in looped:
            assert count(blocks[number], "st.global") == count(blocks[number], "fma.rn")
    else:
        assert not {*adding} & set().union(*(after[number] for number in storing))


def test_the_flow_of_a_text_is_understood():
    text = "{\n.reg .b32 %r1;\na;\n$L1:\nb;\n@%p bra $L1;\nc;\nbra.uni $L2;\nd;\n$L2:\nret;\n}"
    blocks, after = flow(text)
    named = {block[0][0]: number for number, block in enumerate(blocks) if block}
    assert named["b"] in after[named["b"]]
    assert named["a"] not in after[named["b"]]
    assert named["r"] in after[named["c"]]
    assert named["d"] not in after[named["a"]]


def test_a_build_error_has_the_log(nvrtc):
    with pytest.raises(DeviceError, match=r"(?s)cannot build the kernel for sm_90 .*identifier \"nonsense\""):
        compile_source("__global__ void gemm() { nonsense; }", {}, "sm_90")
    with pytest.raises(DeviceError, match="gpu-architecture"):
        compile_source("", {}, "sm_10")


# What is asked of CuPy, by a stand-in for it


@pytest.fixture
def fake(monkeypatch):
    fake = FakeCuda()
    monkeypatch.setattr(module, "compile_source", lambda source, defines, arch: fake.program)
    yield fake
    assert fake.current is fake.before  # whatever happened, the user's stream is current again
    assert fake.device is None


@pytest.fixture
def cuda(fake):
    cuda = Cuda()
    cuda.cupy = SimpleNamespace(cuda=fake)
    cuda.devices = tuple(cuda._find())
    return cuda


@pytest.fixture
def queue(cuda):
    return cuda.queue(cuda.devices[1])


def test_devices_say_what_they_are(cuda):
    first, second = cuda.devices
    assert (first.name, first.kind, first.label) == ("NVIDIA H200", "gpu", "NVIDIA H200")
    assert first.driver == "CUDA 13.0 driver, 12.9 runtime"
    assert (first.local_bytes, first.group_limit, first.compute_units) == (49152, 1024, 132)
    assert (second.index, second.handle) == (1, 1)


@pytest.mark.parametrize("missing", ["getDeviceCount", "getVersion"])
def test_without_a_driver_or_nvrtc_it_says_what_to_do(missing, fake, monkeypatch):
    def refuse():
        raise RuntimeFailure(35, "CUDA driver version is insufficient")

    setattr(fake.runtime if missing == "getDeviceCount" else fake.nvrtc, missing, refuse)
    monkeypatch.setattr(runtime, "find_spec", lambda name: name)
    cuda = Cuda()
    cuda.cupy = SimpleNamespace(cuda=fake)
    with pytest.raises(BackendUnavailable, match=r"driver version is insufficient; fix: on a machine with an"):
        _ = cuda.devices


def test_without_cupy_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(runtime, "find_spec", lambda name: None)
    with pytest.raises(BackendUnavailable, match=r"cupy is not installed; fix: pip install 'gemmlab\[cuda\]'"):
        _ = Cuda().devices


def test_a_host_array_may_change_once_it_is_uploaded(queue):
    array = np.arange(12.0).reshape(3, 4)
    memory = queue.allocate(array.nbytes)
    queue.upload(memory, array)
    array[:] = 0
    back = np.empty_like(array)
    queue.download(back, memory)
    assert (back == np.arange(12.0).reshape(3, 4)).all()


def test_host_work_is_on_the_device_and_on_our_own_stream(queue, fake):
    assert queue.stream is not fake.before
    assert queue.allocate(8).place == (1, queue.stream)


def test_a_launch_is_timed_by_events_around_it(queue, fake):
    kernel = queue.kernel("text", "gemm", {})
    fake.log.clear()
    arguments = [queue.allocate(8), np.int32(3)]
    event = queue.launch(kernel, (5, 6, 7), (32, 8, 1), arguments)
    _, call, _ = fake.log
    assert call == ("gemm", (5, 6, 7), (32, 8, 1), arguments, queue.stream)
    assert all(record[2] is queue.stream for record in (fake.log[0], fake.log[2]))
    assert event.kernel_s == 2.5e-3


def test_two_launches_have_separate_events(queue, fake):
    kernel = queue.kernel("text", "gemm", {})
    held = [queue.launch(kernel, (1, 1, 1), (1, 1, 1), []) for _ in range(3)]
    assert len({id(event) for launch in held for event in (launch.first, launch.last)}) == 6


def test_users_arrays_are_multiplied_on_the_stream_that_is_current(cuda, queue, fake):
    of_arrays = cuda._queue_for_arrays(cuda.devices[1])
    assert of_arrays is cuda._queue_for_arrays(cuda.devices[1])
    kernel = of_arrays.kernel("text", "gemm", {})
    assert queue.kernel("text", "gemm", {}) is kernel
    assert sum(entry[0] == "load" for entry in fake.log) == 1
    for stream in (fake.before, FakeStream(fake)):
        stream.use()
        of_arrays.launch(kernel, (1, 1, 1), (1, 1, 1), [])
        assert fake.log[-1][2] is stream
        assert of_arrays.allocate(8).place == (1, stream)
    fake.before.use()


def test_a_kernel_is_built_once_a_machine(queue, cuda, fake):
    queue.kernel("text", "gemm", {"N": 1})
    again = CudaQueue(cuda.devices[1], fake)
    again.kernel("text", "gemm", {"N": 1})
    again.kernel("text", "gemm", {"N": 2})
    assert [build.how for build in (*queue.builds, *again.builds)] == ["source", "disk", "source"]


def test_a_program_that_the_driver_refuses_is_built_again(queue, cuda, fake):
    queue.kernel("text", "gemm", {})
    fake.program = b"what the driver takes now"
    again = CudaQueue(cuda.devices[1], fake)
    again.kernel("text", "gemm", {})
    assert [build.how for build in again.builds] == ["source"]


@pytest.mark.parametrize(
    ("capability", "arch"), [("90", "sm_90"), ("103", "compute_100"), ("86", "compute_80"), ("61", "compute_61")]
)
def test_an_architecture_that_nvrtc_does_not_know_takes_the_one_before(capability, arch, queue, monkeypatch):
    monkeypatch.setattr(queue, "device", replace(queue.device, compute_capability=int(capability)))
    assert queue.arch == arch
    assert queue.target() == f"{arch}, NVRTC 13.5"


@pytest.mark.parametrize("error", [OutOfMemory("full"), RuntimeFailure(2, "full"), DriverFailure(2, "full")])
def test_an_out_of_memory_error_leaves_the_device_usable(error, queue):
    full = r"ran out of memory allocating 8 bytes \(full\): free arrays on it"
    with pytest.raises(DeviceError, match=full), queue.device_errors("allocating 8 bytes"):
        raise error
    assert not queue.failed


def test_other_errors_are_reported_and_the_device_still_works(queue, cuda):
    failed = r"failed starting a kernel \(DriverFailure: invalid value\): try again"
    with pytest.raises(DeviceError, match=failed), queue.on_stream("starting a kernel"):
        raise DriverFailure(1, "invalid value")
    assert cuda.queue(queue.device) is queue


def test_our_own_errors_and_those_of_others_pass(queue):
    for error in (DeviceError("ours"), ValueError("another's")):
        with pytest.raises(type(error), match=r"s$"), queue.device_errors("working"):
            raise error


def test_a_lost_context_says_that_a_new_process_is_needed(queue, cuda, fake):
    event = queue.launch(queue.kernel("text", "gemm", {}), (1, 1, 1), (1, 1, 1), [])
    of_arrays = cuda._queue_for_arrays(queue.device)
    fake.broken = RuntimeFailure(700, "cudaErrorIllegalAddress")
    lost = r"failed running a kernel .cudaErrorIllegalAddress.; this process cannot use CUDA any more: start a new one"
    with pytest.raises(DeviceError, match=lost):
        event.wait()
    assert queue.failed
    with pytest.raises(DeviceError, match=r"failed opening it .* cannot use CUDA any more"):
        cuda.queue(queue.device)
    with pytest.raises(DeviceError, match="cannot use CUDA any more"):
        of_arrays.allocate(8)


# CuPy's own arrays; they need no device to be looked at


def at(address, nbytes=1 << 20):
    cuda = pytest.importorskip("cupy.cuda")
    return cuda.MemoryPointer(cuda.UnownedMemory(address, nbytes, None, 1), 0)


@pytest.fixture
def looking(cuda):
    """A runtime that looks at CuPy's arrays, and works on the stand-in."""
    cupy = pytest.importorskip("cupy")
    for name in ("MemoryPointer", "UnownedMemory"):
        setattr(cuda.cupy.cuda, name, getattr(cupy.cuda, name))
    return cuda


@pytest.mark.parametrize("base", [0x7F0000000000, 0x200000000], ids=["Linux", "Windows"])
def test_an_array_is_adopted_without_copy(base, looking):
    cupy = pytest.importorskip("cupy")
    array = cupy.ndarray((4, 6), np.float32, at(base + 512))[1:, ::-1]
    adopted = looking.adopt(array)
    assert adopted.memory.ptr % 128 == 0
    assert adopted.memory.ptr + adopted.start_bytes == base + 512 + 24 + 20 == adopted.region[1]
    assert (adopted.shape, adopted.strides, adopted.dtype) == ((3, 6), (24, -4), np.float32)
    assert adopted.queue.device.index == 1
    assert adopted.queue is looking.adopt(array.T).queue


def test_overlap_is_detected_for_separately_allocated_arrays(looking):
    cupy = pytest.importorskip("cupy")
    base = 0x7F0000000000
    whole = looking.adopt(cupy.ndarray((8, 8), np.float64, at(base)))
    lower = looking.adopt(cupy.ndarray((4, 8), np.float64, at(base + 256)))  # what DLPack brings begins where it does
    apart = looking.adopt(cupy.ndarray((8, 8), np.float64, at(base + 512)))
    assert [whole.overlaps(other) for other in (lower, apart)] == [True, False]
    assert [other.overlaps(whole) for other in (lower, apart)] == [True, False]


# What a GPU answers


@pytest.fixture(scope="module")
def gpu():
    found = Cuda()
    try:
        found.device("gpu")
    except BackendUnavailable as error:
        pytest.skip(str(error))
    return found


def integers(dtype, *shape):
    """Small integers: their products and sums are exact in any order."""
    return np.random.default_rng(sum(shape)).integers(-8, 9, shape).astype(dtype)


def multiply(gpu, queue, rung, operands, size):
    backend = RungBackend(gpu, rung)
    return backend.multiply(queue, rung.resolve({}, "gpu"), operands[0].dtype.name, size, *map(in_memory, operands))


def in_memory(x):
    """An adopted stack of matrices as the kernels take it."""
    step, ld, _ = (stride // x.dtype.itemsize for stride in x.strides)
    return Operand(x.memory, x.start_bytes // x.dtype.itemsize, ld, step)


def uploaded(queue, array):
    memory = queue.allocate(array.nbytes)
    queue.upload(memory, array)
    return SimpleNamespace(memory=memory, start_bytes=0, strides=array.strides, dtype=array.dtype)


def product_of_host_arrays(gpu, queue, rung, a, b):
    out = np.full((len(a), a.shape[1], b.shape[2]), np.nan, a.dtype)
    operands = [uploaded(queue, x) for x in (a, b, out)]
    handle = multiply(gpu, queue, rung, operands, GemmSize(*out.shape[1:], a.shape[2], len(a)))
    queue.download(out, operands[2].memory)
    return out, handle


@every_rung
@every_dtype
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (67, 129, 43), (131, 33, 300), (5, 7, 0)])
def test_products_of_integers_are_exact(rung, dtype, m, n, k, gpu):
    queue = gpu.queue(gpu.device("gpu"))
    a, b = integers(dtype, 3, m, k), integers(dtype, 3, k, n)
    out, event = product_of_host_arrays(gpu, queue, rung, a, b)
    np.testing.assert_array_equal(out, a @ b)
    assert 0 < event.kernel_s < 1


def test_kernels_of_a_later_process_come_from_disk(gpu):
    a = integers("float32", 1, 40, 40)
    for how in ("source", "disk"):
        later = Cuda()
        queue = later.queue(later.device("gpu"))
        out, _ = product_of_host_arrays(later, queue, RUNGS[0], a, a)
        np.testing.assert_array_equal(out, a @ a)
        assert [build.how for build in queue.builds] == [how]


def test_an_out_of_memory_error_leaves_the_gpu_usable(gpu):
    queue = gpu.queue(gpu.device("gpu"))
    with pytest.raises(DeviceError, match="ran out of memory allocating"):
        queue.allocate(4 * queue.device.memory_bytes)
    a = integers("float64", 1, 30, 30)
    assert (product_of_host_arrays(gpu, gpu.queue(queue.device), RUNGS[0], a, a)[0] == a @ a).all()


def test_users_arrays_are_multiplied_where_they_are_and_in_order(gpu):
    cupy = pytest.importorskip("cupy")
    a, b = integers("float32", 3, 70, 300), integers("float32", 3, 300, 90)
    stream = cupy.cuda.Stream(non_blocking=True)
    for use in (stream.use, cupy.cuda.Stream.null.use):
        current = use()
        whole = cupy.asarray(np.pad(a, ((0, 0), (2, 3), (5, 1))))
        given = whole[:, 2:-3, 5:-1], cupy.asarray(b)
        out = cupy.empty((3, 70, 90), np.float32)
        adopted = [gpu.adopt(x) for x in (*given, out)]
        for x in adopted:
            assert x.memory.ptr + x.start_bytes == x.array.data.ptr
        for rung in RUNGS:
            out.set(np.full(out.shape, np.nan, out.dtype))
            multiply(gpu, adopted[0].queue, rung, adopted, GemmSize(70, 90, 300, 3))
            np.testing.assert_array_equal(gpu.values(out), a @ b)
        assert cupy.cuda.get_current_stream() == current


def test_the_one_call_takes_and_gives_cupys_arrays(gpu):
    cupy = pytest.importorskip("cupy")
    a, b = integers("float64", 50, 61), integers("float64", 61, 44)
    out = gemmlab.matmul(cupy.asarray(a), cupy.asarray(b.T.copy()).T, backend="cuda-local4")
    assert isinstance(out, cupy.ndarray)
    np.testing.assert_array_equal(out.get(), a @ b)


LOSE_THE_CONTEXT = """
import numpy, gemmlab
from gemmlab._gpu import runtime_named
cuda = runtime_named("cuda")
device = cuda.device("gpu")
queue = cuda.queue(device)
kernel = queue.kernel("__kernel void stray(__global int *p) { p[0] = 1; }", "stray", {})
a = numpy.eye(3)
for attempt in (
    lambda: queue.launch(kernel, (1, 1, 1), (1, 1, 1), [numpy.uint64(8)]).wait(),
    lambda: gemmlab.matmul(a, a, backend="cuda-naive"),
):
    try:
        attempt()
    except gemmlab.DeviceError as error:
        print(error)
print(gemmlab.matmul(a, a, backend="cpu-ikj").sum())
"""


def test_after_a_stray_kernel_only_a_new_process_helps(gpu, tmp_path):
    first, second, third = output_of(LOSE_THE_CONTEXT, GEMMLAB_CACHE_DIR=str(tmp_path)).splitlines()
    assert "failed running a kernel" in first
    assert "this process cannot use CUDA any more: start a new one" in first
    assert "this process cannot use CUDA any more: start a new one" in second
    assert third == "3.0"
