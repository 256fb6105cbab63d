"""The vendors' libraries: what they are asked, what they answer where they are, and what is said where they are not."""

from __future__ import annotations

import ctypes
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from devices import DTYPES, integers
from fake_cublas import FakeCuBLAS
from fake_cuda import FakeCuda, FakeDevice
from helpers import output_of

import gemmlab
from gemmlab import BackendUnavailable, DeviceError, UnsupportedProblem
from gemmlab._gpu import VENDORS, backend_named, device_arrays, runtime_named
from gemmlab._gpu import clblast as clblast_module
from gemmlab._gpu.batches import GemmSize, Layout, Operand
from gemmlab._gpu.cuda import CudaQueue
from gemmlab._gpu.ladder.numbers import into
from gemmlab._gpu.vendor import CuBLAS
from gemmlab._problem import Problem

NAMES = tuple(f"{runtime}-{way}" for runtime, way in VENDORS.items())
COMPILED = pytest.param("opencl-clblast", marks=pytest.mark.exhaustive)  # CLBlast compiles for minutes at its first use
FIXES = {"opencl-clblast": "apt install", "sycl-onemkl": r"gemmlab\[sycl\]", "cuda-cublas": r"cupy-cuda13x\[ctk\]"}
HERE = tuple(name for name in NAMES[:2] if gemmlab.backends()[name].available)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)
every_vendor = pytest.mark.parametrize("name", NAMES)
needs_opencl = pytest.mark.skipif(not gemmlab.backends()["opencl-naive"].available, reason="OpenCL has no device here")


@pytest.fixture(params=[COMPILED, *NAMES[1:]])
def here(request):
    """The name of a vendor's backend that can run here."""
    if not (info := gemmlab.backends()[request.param]).available:
        pytest.skip(info.reason)
    return request.param


# What they are, and what is missing


@every_vendor
def test_it_is_a_baseline_that_says_what_it_is(name):
    backend = backend_named(name)
    assert (backend.name, backend.kind) == (name, "baseline")
    assert backend.source in backend.summary
    assert backend_named(f"{name}:gpu").name == f"{name}:gpu"


def test_what_is_here_says_its_version(here):
    assert any(letter.isdigit() for letter in gemmlab.backends()[here].summary)


def without_library(monkeypatch):
    def refuse(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(clblast_module, "ctypes", SimpleNamespace(CDLL=refuse))
    monkeypatch.setitem(sys.modules, "dpnp", None)
    monkeypatch.setitem(sys.modules, "cupy.cuda", None)


@every_vendor
def test_a_missing_library_is_a_reason_with_its_fix(name, monkeypatch):
    without_library(monkeypatch)
    backend = backend_named(name)
    backend.runtime = SimpleNamespace(device=lambda wanted: SimpleNamespace(label="a device"))
    found = backend.probe()
    assert not found.ok
    assert backend.source.split()[-1] in found.reason or "dpnp" in found.reason
    assert FIXES[name].replace("\\", "") in found.fix
    assert backend.summary == backend.source


@every_vendor
def test_a_missing_device_comes_before_a_missing_library(name, monkeypatch):
    def device(wanted):
        raise BackendUnavailable(f"no device {wanted!r}; fix: buy one")

    without_library(monkeypatch)
    backend = backend_named(f"{name}:this")
    backend.runtime = SimpleNamespace(device=device)
    assert (backend.probe().reason, backend.probe().fix) == ("no device 'this'", "buy one")


# Products, where a library is


@every_dtype
@pytest.mark.parametrize(
    "shapes",
    [((1, 1), (1, 1)), ((67, 300), (300, 129)), ((5, 1), (1, 9)), ((1, 40), (40, 7)), ((40, 7), (7, 1)),
     ((3, 33, 17), (3, 17, 65)), ((3, 33, 17), (17, 65)), ((2, 1, 5, 4), (3, 4, 6)), ((4, 0), (0, 3)), ((7,), (7,))],
)  # fmt: skip
def test_host_arrays(here, shapes, dtype):
    a, b = (integers(shape, dtype) for shape in shapes)
    assert np.array_equal(gemmlab.matmul(a, b, backend=here), a @ b)


def on_device(name, host):
    return device_arrays.to_device(gemmlab.get_backend(name), host)


@every_dtype
@pytest.mark.parametrize("products", [(), (3,)])
def test_parts_of_device_arrays(here, products, dtype):
    a, b = integers((*products, 40, 50), dtype), integers((*products, 50, 70), dtype)
    out = np.full((*products, 45, 80), 9, dtype)
    device_a, device_b, device_out = (on_device(here, x) for x in (a, b, out))
    with gemmlab.trace() as calls:
        gemmlab.matmul(device_a[..., 3:33, 5:], device_b[..., 5:, 2:62], out=device_out[..., 7:37, 9:69], backend=here)
    out[..., 7:37, 9:69] = a[..., 3:33, 5:] @ b[..., 5:, 2:62]
    assert np.array_equal(device_arrays.to_host(device_out), out)
    assert calls[0].copies == (3 if here == "sycl-onemkl" else 0)
    assert calls[0].kernel_s > 0 or here == "sycl-onemkl"


@every_dtype
def test_columns_are_not_moved_where_the_library_takes_them(here, dtype):
    a, b = integers((50, 30), dtype), integers((60, 50), dtype)
    device_a, device_b = on_device(here, a), on_device(here, b)
    with gemmlab.trace() as calls:
        products = [
            gemmlab.matmul(x, y, backend=here)
            for x, y in ((device_a.T, device_b.T), (device_a.T[3:, :], device_a), (device_a, device_a.T))
        ]
    assert all(map(np.array_equal, map(device_arrays.to_host, products), (a.T @ b.T, a.T[3:] @ a, a @ a.T)))
    assert [call.copies for call in calls] == ([2, 1, 1] if here == "sycl-onemkl" else [0, 0, 0])


def test_rows_that_a_library_refuses_are_packed(here):
    a, b = integers((20, 30), "float32"), integers((30, 8), "float32")
    device_a, device_b = on_device(here, a), on_device(here, b)
    if here != "opencl-clblast":  # pyopencl slices backwards, but not so that it can be multiplied
        with gemmlab.trace() as calls:
            c = gemmlab.matmul(device_a[::-1], device_b, backend=here)
        assert np.array_equal(device_arrays.to_host(c), a[::-1] @ b)
        assert calls[0].copies == 1
    assert not gemmlab.get_backend(here).accepts_layout(30, 29)
    assert not gemmlab.get_backend(here).accepts_layout(30, -30)


def test_no_terms_give_zeros(here):
    out = on_device(here, np.full((5, 6), 7, "float32"))
    queue = gemmlab.get_backend(here).queue
    memory = queue.allocate(4)
    place = gemmlab.get_backend(here).runtime.adopt(out)
    operand = Operand(place.memory, place.start_bytes // 4, 6)
    nothing = Operand(memory, 0, 6)
    gemmlab.get_backend(here).multiply(queue, {}, "float32", GemmSize(5, 6, 0, 1), nothing, nothing, operand).wait()
    assert not device_arrays.to_host(out).any()


def test_threads_do_not_disturb_each_other(here):
    def product(seed):
        a, b = integers((30 + seed % 5, 40), "float32"), integers((40, 20), "float32")
        return np.array_equal(gemmlab.matmul(a, b, backend=here), a @ b)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(product, range(80)))


# CLBlast


class FakeCLBlast:
    """Says with which status each function ends, and keeps what it was asked."""

    def __init__(self, status=0):
        self.status, self.calls = status, []

    def __getattr__(self, name):
        def function(*arguments):
            self.calls.append((name.removeprefix("CLBlast"), arguments))
            return self.status

        return function


@pytest.fixture
def clblast():
    backend = backend_named("opencl-clblast")
    backend.library = FakeCLBlast()
    return backend


def plain(argument):
    """A ctypes argument as a number, a list of starts as a tuple."""
    return tuple(argument) if isinstance(argument, ctypes.Array) else getattr(argument, "value", argument)


def asked(backend, dtype, size, *places):
    """What CLBlast is asked for operands at (start, ld, step), its memory objects left out."""
    queue = backend.queue
    memories = [queue.allocate(64) for _ in range(3)]
    operands = [Operand(memory, *place) for memory, place in zip(memories, places, strict=True)]
    backend.multiply(queue, {}, dtype, size, *operands).wait()
    handles = [memory.int_ptr for memory in memories]
    [(name, arguments)] = backend.library.calls
    found = [plain(argument) for argument in arguments[:-2]]
    assert [x for x in found if x in handles] == [handles[1], handles[0], handles[2]]
    return name, [x for x in found if x not in handles]


@needs_opencl
def test_one_product_is_asked_for_in_columns(clblast):
    name, given = asked(clblast, "float32", GemmSize(2, 3, 4, 1), (5, 40), (6, 30, 0, True), (7, 33))
    assert (name, given) == ("Sgemm", [102, 112, 111, 3, 2, 4, 1.0, 6, 30, 5, 40, 0.0, 7, 33])


@needs_opencl
def test_a_dense_stack_is_one_strided_call(clblast):
    name, given = asked(clblast, "float64", GemmSize(2, 3, 4, 10), (0, 4, 8), (0, 3, 12), (0, 3, 6))
    assert name == "DgemmStridedBatched"
    assert given == [102, 111, 111, 3, 2, 4, 1.0, 0, 3, 12, 0, 4, 8, 0.0, 0, 3, 6, 10]


@needs_opencl
@pytest.mark.parametrize("first", [(0, 4, 0), (1, 4, 8), (0, 5, 10), (16, 4, -8)])
def test_any_other_stack_has_its_starts_listed(clblast, first):
    name, given = asked(clblast, "float32", GemmSize(2, 3, 4, 3), first, (0, 3, 12), (0, 3, 6))
    start, ld, step = first
    assert name == "SgemmBatched"
    starts = tuple(start + i * step for i in range(3))
    assert given[6:] == [(1, 1, 1), (0, 12, 24), 3, starts, ld, (0, 0, 0), (0, 6, 12), 3, 3]


@needs_opencl
def test_a_long_stack_of_small_products_is_cut_to_what_32_bits_count(clblast):
    clblast.multiply(
        clblast.queue, {}, "float32", GemmSize(1, 1, 1, 100_000),
        *(Operand(clblast.queue.allocate(64), 0, 1, 1) for _ in range(3)),
    ).wait()  # fmt: skip
    counts = [plain(arguments[-3]) for _, arguments in clblast.library.calls]
    assert sum(counts) == 100_000
    assert max(counts) * 3 * 128**2 < 2**31


@needs_opencl
@pytest.mark.parametrize(
    ("status", "said"),
    [(-4, "ran out of memory multiplying.*-4, TempBufferAllocFailure"), (-11, "-11, OpenCLBuildProgramFailure"),
     (-1016, "-1016, InvalidLeadDimA"), (-9999, "-9999, unknown")],
)  # fmt: skip
def test_a_status_is_an_error_with_its_name(clblast, status, said):
    clblast.library.status = status
    a = np.ones((3, 3), "float32")
    with pytest.raises(DeviceError, match=said):
        clblast.gemm(Problem.from_call(a, a))
    assert np.array_equal(gemmlab.matmul(a, a, backend="opencl-naive"), a @ a)


@needs_opencl
def test_what_32_bits_do_not_count_is_refused(clblast):
    long = np.broadcast_to(np.float32(1), (60_000, 60_000))
    assert "32 bits" in clblast.supports(Problem(long, long, long))
    with pytest.raises(UnsupportedProblem, match="32 bits"):
        asked(clblast, "float32", GemmSize(2, 3, 4, 1), (2**31, 4), (0, 3), (0, 3))


@needs_opencl
def test_shared_virtual_memory_is_refused(clblast):
    problem = Problem(*(SimpleNamespace(memory=object(), shape=(2, 2), dtype=np.dtype("float32")) for _ in range(3)))
    problem.queue = clblast.queue
    assert "shared virtual memory" in clblast.supports(problem)


@pytest.mark.exhaustive
@pytest.mark.skipif("opencl-clblast" not in HERE, reason="CLBlast cannot run here")
@pytest.mark.parametrize(("start", "repeated"), [(0, "b"), (7, "")])
def test_stacks_that_its_strided_function_gets_wrong(start, repeated):
    n = 1024  # large enough for the fast kernel, whose tiles it fills
    whole = {side: integers((2 * n * n + start,), "float32") for side in "ab"}
    hosts, devices = [], []
    for side, host in whole.items():
        device = on_device("opencl-clblast", host)
        shape = (n, n) if side == repeated else (2, n, n)
        count = int(np.prod(shape))
        hosts.append(host[start : start + count].reshape(shape))
        devices.append(device[start : start + count].reshape(shape))
    c = gemmlab.matmul(*devices, backend="opencl-clblast")
    assert np.array_equal(device_arrays.to_host(c), hosts[0] @ hosts[1])


@pytest.mark.skipif(len(HERE) < 2, reason="CLBlast and oneMKL cannot both run here")
@pytest.mark.parametrize("first", [0, 1])
def test_the_systems_loader_and_dpctls_go_together(first):
    names = HERE[first], HERE[1 - first]
    code = "a = np.eye(3, dtype='f'); print([gemmlab.matmul(a, a, backend=name).sum() for name in {!r}])"
    assert output_of(f"import gemmlab, numpy as np; {code.format(names)}").count("3.0") == 2


# oneMKL


@pytest.mark.skipif("sycl-onemkl" not in HERE, reason="oneMKL cannot run here")
def test_arrays_of_one_context_and_two_queues():
    import dpctl
    import dpnp

    a, b = integers((50, 60), "float32"), integers((60, 40), "float32")
    device_a, device_b = on_device("sycl-onemkl", a), on_device("sycl-onemkl", b)
    other = dpctl.SyclQueue(device_a.sycl_device)
    device_a = device_a.to_device(other) if other.sycl_context == device_a.sycl_context else device_a
    device_b = device_b.to_device(device_a.sycl_queue)
    for _ in range(5):
        device_a += 1  # listed on its own queue alone
        c = gemmlab.matmul(device_a, device_b, backend="sycl-onemkl")
        a += 1
        assert np.array_equal(dpnp.asnumpy(c + 0), a @ b)


# cuBLAS


@pytest.fixture
def cublas(monkeypatch):
    fake = FakeCuda()
    monkeypatch.setattr(FakeDevice, "cublas_handle", 77, raising=False)
    backend = backend_named("cuda-cublas:1")
    backend.runtime = type(backend.runtime)()
    backend.runtime.cupy = SimpleNamespace(cuda=fake, __version__="14.2.0")
    backend.runtime.devices = tuple(backend.runtime._find())
    backend.library = FakeCuBLAS(fake)
    return backend


def multiplied(backend, size, dtype, a, b, c, plan):
    """C after C = A @ B; each is an array and what of it is the operand, as (start, ld, step, transposed)."""
    operands = [Operand(SimpleNamespace(ptr=x.ctypes.data), *place) for x, place in (a, b, c)]
    return backend.multiply(backend.queue, plan, dtype, size, *operands)


@every_dtype
@pytest.mark.parametrize("products", [1, 3])
@pytest.mark.parametrize("columns", [(False, False), (True, False), (False, True), (True, True)])
def test_order_transposes_starts_and_leading_dimensions(cublas, columns, products, dtype):
    m, n, k, start = 5, 4, 3, 2
    shapes = [(m, k), (k, n), (m, n)]
    flags = (*columns, False)
    lying = [shape[::-1] if flag else shape for shape, flag in zip(shapes, flags, strict=True)]
    rooms = [integers((start + products * rows * 9 + 9,), dtype) for rows, _ in lying]
    views = [
        room[start : start + products * rows * 9].reshape(products, rows, 9)[..., :width]
        for room, (rows, width) in zip(rooms, lying, strict=True)
    ]
    a, b, c = (view.swapaxes(1, 2) if flag else view for view, flag in zip(views, flags, strict=True))
    places = [(start, 9, rows * 9, flag) for (rows, _), flag in zip(lying, flags, strict=True)]
    wanted, around = a @ b, rooms[2].copy()
    plan = {"precision": dtype}
    event = multiplied(cublas, GemmSize(m, n, k, products), dtype, *zip(rooms, places, strict=True), plan)
    assert np.array_equal(c, wanted)
    c[...] = around[start : start + products * m * 9].reshape(products, m, 9)[..., :n]
    assert np.array_equal(rooms[2], around)
    assert event.kernel_s == 2.5e-3
    assert cublas.library.calls[0] == ("gemmEx" if products == 1 else "gemmStridedBatchedEx")


def test_a_broadcast_operand_has_a_step_of_0(cublas):
    a, b, c = integers((4, 2, 3), "float32"), integers((3, 5), "float32"), np.empty((4, 2, 5), "float32")
    places = (0, 3, 6), (0, 5, 0), (0, 5, 10)
    multiplied(cublas, GemmSize(2, 5, 3, 4), "float32", *zip((a, b, c), places, strict=True), {"precision": "float32"})
    assert np.array_equal(c, a @ b)


@pytest.mark.parametrize(
    ("dtype", "requested_backend", "in_force", "given"),
    [("float32", None, "float32", 68), ("float32", "float32", "float32", 68), ("float32", "tf32", "tf32", 77),
     ("float64", None, "float64", 70), ("float64", "float64", "float64", 70)],
)  # fmt: skip
@pytest.mark.parametrize("name", ["precision", "compute"])
def test_the_precision_is_said_and_given(cublas, monkeypatch, name, dtype, requested_backend, in_force, given):
    monkeypatch.setenv("CUPY_TF32", "1")
    a = np.ones((2, 2), dtype)
    plan = cublas.resolve(Problem.from_call(a, a), {name: requested_backend})
    assert plan == {"precision": in_force}
    multiplied(cublas, GemmSize(2, 2, 2, 1), dtype, *((x, (0, 2)) for x in (a, a, np.empty((2, 2), dtype))), plan)
    queue = cublas.queue
    assert isinstance(queue, CudaQueue)
    assert cublas.library.calls[1] == (given, queue.stream)
    assert (cublas.library.scalars, cublas.library.math) == (1, 3)


@pytest.mark.parametrize(("dtype", "precision"), [("float64", "tf32"), ("float64", "float32"), ("float32", "float64")])
def test_a_precision_that_is_not_the_operands(cublas, dtype, precision):
    a = np.ones((2, 2), dtype)
    with pytest.raises(ValueError, match=f"{dtype} is not multiplied in {precision}"):
        cublas.gemm(Problem.from_call(a, a), precision=precision)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_narrow_numbers_of_the_host(cublas, dtype):
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    a, b = integers((3, 12, 8), dtype), integers((8, 4), dtype)
    exact, wide = a.astype(int) @ b.astype(int), cublas.sums[dtype.name]
    for problem in (Problem.from_call(a, b), Problem.from_call(a, b, dtype=wide)):
        if problem.dtype == np.int8:
            assert "pass dtype='int32'" in cublas.supports(problem)
            continue
        size = GemmSize(12, 4, 8, 3)
        operands = [(problem.unconverted or (a, b))[0], b, problem.out]
        kind = into(dtype.name, problem.dtype.name)
        plan = cublas.resolve(problem, {})
        assert plan == {"precision": wide}
        multiplied(cublas, size, kind, *zip(operands, ((0, 8, 96), (0, 4, 0), (0, 4, 48)), strict=True), plan)
        rounded = exact.astype(np.float64).astype(problem.dtype)  # bfloat16 has not all of them
        assert np.array_equal(problem.out, rounded)


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_an_empty_sum_of_narrow_numbers(dtype):
    if not (found := gemmlab.backends()["opencl-naive"]).available:
        pytest.skip(found.reason)

    class Asked(CuBLAS):
        library_name = "naive"

    backend = Asked(runtime_named("opencl"))
    kind = into(dtype, backend.sums[dtype])
    out = np.full((3, 5), 7, backend.sums[dtype])
    queue, memory = backend.queue, backend.queue.allocate(out.nbytes)
    queue.upload(memory, out)
    layouts = Layout(0, 1), Layout(0, 5), Layout(0, 5)
    queue.start(backend.prepared(queue, {}, kind, GemmSize(3, 5, 0, 1), layouts), memory, memory, memory)
    queue.download(out, memory)
    assert not out.any()


def test_an_unknown_precision(cublas):
    a = np.ones((2, 2), "float32")
    with pytest.raises(ValueError, match="precision must be float32 or tf32"):
        cublas.gemm(Problem.from_call(a, a), precision="int8")
    assert cublas.params["precision"].choices == ("float32", "tf32")


def test_what_cublas_refuses_is_a_device_error(cublas):
    a = np.ones((2, 2), "float32")
    with pytest.raises(DeviceError, match="CUBLAS_STATUS_INVALID_VALUE"):
        multiplied(cublas, GemmSize(2, 2, 2, 1), "float32", *((a, (0, 1)) for _ in range(3)), {"precision": "float32"})
    assert (cublas.library.scalars, cublas.library.math) == (1, 3)


def test_versions_of_cublas_and_cupy(cublas):
    assert cublas.summary == "NVIDIA cuBLAS 13.2.0"
    assert runtime_named("cuda") is not cublas.runtime
