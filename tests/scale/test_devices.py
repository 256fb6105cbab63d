"""One product on several devices: the bits of one device for every split, errors, threads. PoCL stands in for GPUs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from devices import FIRST_PLACES
from fake_cuda import FakeCuda
from helpers import ROOT, SUPPORT, run_python
from randomness import RNG, fresh_seed
from sub_devices import OpenCLOn, all_of, halves, pocl_handles

import gemmlab
from gemmlab import DeviceError, UnknownBackend, UnsupportedProblem, _registry
from gemmlab._gpu.backend import RungBackend
from gemmlab._gpu.cuda import Cuda
from gemmlab._gpu.opencl import OpenCLQueue
from gemmlab._name import BackendName
from gemmlab._problem import Problem
from gemmlab.scale import blocks, broadcast

pytestmark = pytest.mark.usefixtures("quick_kernels")

HALVES = halves()
needs_two = pytest.mark.skipif(len(HALVES) < 2, reason="no OpenCL CPU device of two cores that can be parted")
needs_opencl = pytest.mark.skipif("opencl:0" not in FIRST_PLACES, reason="no OpenCL device here")
SIZES = [(1, 1, 1), (1, 70, 9), (2, 1, 33), (37, 41, 29), (130, 67, 65), (64, 256, 31)]


@pytest.fixture(scope="module")
def two():
    """A rung on two devices, under a name of its own: the registry knows only the machine's devices."""
    backend = all_of(OpenCLOn(HALVES), "local")
    backend.name = "two"
    with _registry.registered(backend):
        yield backend


def operands(m, n, k, dtype, lead=()):
    return (RNG.standard_normal((*lead, *shape)).astype(dtype) for shape in ((m, k), (k, n)))


def on_one(a, b, backend):
    """The product on the first device alone."""
    with _registry.registered(backend.backends[0]):
        return gemmlab.matmul(a, b, backend=backend.backends[0].name)


@needs_two
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sizes", SIZES)
def test_two_devices_give_the_bits_of_one(two, sizes, dtype):
    a, b = operands(*sizes, dtype)
    poisoned = np.full((sizes[0], sizes[1]), np.nan, dtype)
    assert gemmlab.matmul(a, b, out=poisoned, backend="two") is poisoned
    assert np.array_equal(poisoned, on_one(a, b, two))


@needs_two
@pytest.mark.parametrize("lead", [(2,), (5,), (3, 2), (1,), (0,)])
def test_a_batch_has_the_bits_of_one_device(two, lead):
    a, b = operands(9, 8, 7, "float32", lead)
    assert np.array_equal(gemmlab.matmul(a, b, backend="two"), on_one(a, b, two))
    assert np.array_equal(gemmlab.matmul(a, b[..., :1, :, :] if b.ndim > 3 else b[:1], backend="two"),
                          on_one(a, b[..., :1, :, :] if b.ndim > 3 else b[:1], two))  # fmt: skip


@needs_two
@pytest.mark.parametrize("shares", [[1, 36], [36, 1], [18, 19]])
def test_any_split_into_rows_or_columns_has_the_same_bits(two, shares, monkeypatch):
    a, b = operands(37, 37, 29, "float64")
    expected = on_one(a, b, two)
    for grid in ((2, 1), (1, 2)):
        monkeypatch.setattr(blocks, "even", lambda total, count: shares if count == 2 else [total])
        monkeypatch.setattr(blocks, "grid", lambda *given, grid=grid: grid)
        assert np.array_equal(gemmlab.matmul(a, b, backend="two"), expected)


@needs_two
@pytest.mark.parametrize(("m", "n", "k"), [(0, 5, 3), (4, 0, 3), (4, 5, 0)])
def test_empty_products(two, m, n, k):
    a, b = operands(m, n, k, "float32")
    assert np.array_equal(gemmlab.matmul(a, b, backend="two"), np.zeros((m, n)))
    assert two.plan(Problem.from_call(a, b)) is None


@needs_two
def test_operands_may_be_views_files_and_of_other_dtypes(two, tmp_path):
    a, b = operands(40, 30, 20, "float32")
    held = np.memmap(tmp_path / "c", "float32", "w+", shape=(40, 30))
    assert gemmlab.matmul(a, b, out=held, backend="two") is held
    expected = on_one(a, b, two)
    assert np.array_equal(held, expected)
    turned = np.empty((30, 40), "float32").T
    gemmlab.matmul(np.asfortranarray(a), b[:, ::-1], out=turned, backend="two")
    assert np.array_equal(turned, expected[:, ::-1])
    with gemmlab.trace() as calls:
        wide = gemmlab.matmul(a, b, dtype="float64", backend="two")
    assert np.array_equal(wide, on_one(a.astype("float64"), b.astype("float64"), two))
    assert (calls[0].copies, calls[0].backend) == (2, "two")
    with pytest.raises(UnsupportedProblem, match="not int64"):
        gemmlab.matmul(a.astype(int), b.astype(int), backend="two")


@needs_two
def test_explain_says_who_computes_what(two):
    a, b = operands(10, 4, 4, "float32")
    told = str(gemmlab.explain(a, b, backend="two"))
    assert "two" in told
    assert "2 devices" in told
    assert "rows 0 to 4 on 0 " in told
    assert "rows 5 to 9 on 1 " in told
    assert two.probe().device.startswith("2 x ")


@pytest.mark.exhaustive
@needs_two
def test_unlike_devices_get_rows_by_their_rates(two, monkeypatch):
    monkeypatch.setitem(two.__dict__, "are_equal", False)
    a, b = operands(700, 500, 500, "float32")
    assert np.array_equal(gemmlab.matmul(a, b, backend="two"), on_one(a, b, two))
    first, second = two.rates.lines(Problem.from_call(a, b))
    assert min(first.row_s, second.row_s) > 0


class Reading(OpenCLQueue):
    """A queue that reads from the others, in truth through the host."""

    log: ClassVar[list[tuple[int, int]]] = []

    def can_read(self, other):
        return True

    def copy_from(self, memory, other, source, nbytes):
        self.log.append((other.device.index, self.device.index))
        held = np.empty(nbytes, np.uint8)
        other.download(held, source)
        self.upload(memory, held)


class ReadingOpenCL(OpenCLOn):
    def _open_queue(self, device):
        return Reading(device, super()._open_queue(device).queue)


@needs_two
@pytest.mark.parametrize("lead", [(), (3,)])
def test_b_goes_from_device_to_device_where_it_can(lead, monkeypatch):
    monkeypatch.setattr(broadcast, "MIN_BYTES", 1)
    monkeypatch.setattr(Reading, "log", [])
    backend = all_of(ReadingOpenCL(HALVES), "local")
    backend.name = "reading"
    a, b = operands(41, 30, 20, "float32", lead)
    with _registry.registered(backend):
        strided = np.full((*lead, 41, 60), np.nan, "float32")[..., ::2]
        gemmlab.matmul(a, b, out=strided, backend="reading")
        assert np.array_equal(strided, on_one(a, b, backend))
        assert Reading.log == ([] if lead else [(0, 1)])
        monkeypatch.setattr(gemmlab.config, "device_memory", 1000)  # too little for the parts
        assert not broadcast.can_be(backend.backends, Problem.from_call(a, b))

        def lost(self, memory, array):
            raise DeviceError("the first device is lost")

        monkeypatch.setattr(gemmlab.config, "device_memory", None)
        monkeypatch.setattr(Reading, "copy_to_device", lost)
        with pytest.raises(DeviceError, match="is lost"):
            gemmlab.matmul(a, b, backend="reading")


def test_cuda_copies_between_devices_that_can_read_each_other():
    runtime = Cuda()
    fake = FakeCuda()
    vars(runtime)["cupy"] = SimpleNamespace(cuda=fake)
    one, two = map(runtime.queue, runtime._find())
    assert two.can_read(one)
    assert not two.can_read(two)
    values = RNG.integers(0, 255, 100).astype(np.uint8)
    source, target, found = one.allocate(100), two.allocate(100), np.zeros(100, np.uint8)
    one.upload(source, values)
    two.copy_from(target, one, source, 100)
    two.download(found, target)
    assert np.array_equal(found, values)
    assert target.place[0] == 1


@needs_two
def test_an_error_on_one_device_is_raised_when_all_have_ended():
    class Broken(RungBackend):
        ended: threading.Event

        def gemm(self, problem, **params):
            if self.selector == "1":
                raise DeviceError("the second device is lost")
            handle = super().gemm(problem, **params)
            handle.wait()
            self.ended.set()
            return handle

    Broken.ended = threading.Event()
    backend = all_of(OpenCLOn(HALVES), "local", Broken)
    backend.name = "broken"
    a, b = operands(64, 64, 64, "float32")
    with _registry.registered(backend):
        with pytest.raises(DeviceError, match="second device is lost"):
            gemmlab.matmul(a, b, backend="broken")
        assert Broken.ended.is_set()


@needs_two
def test_callers_in_several_threads(two):
    pairs = [tuple(operands(int(m), 50, 40, "float32")) for m in RNG.integers(1, 90, 12)]
    expected = [on_one(a, b, two) for a, b in pairs]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda pair: gemmlab.matmul(*pair, backend="two"), pairs))
    assert all(map(np.array_equal, found, expected))


@needs_opencl
def test_one_device_is_enough():
    handles = pocl_handles()[:1]
    if not handles:
        pytest.skip("no PoCL here")
    backend = all_of(OpenCLOn(handles), "private")
    backend.name = "single"
    a, b = operands(20, 30, 40, "float64")
    with _registry.registered(backend):
        assert np.array_equal(gemmlab.matmul(a, b, backend="single"), on_one(a, b, backend))
        assert "1 device; " not in str(gemmlab.explain(a, b, backend="single"))
        assert "1 device" in str(gemmlab.explain(a, b, backend="single"))
    assert not backend.probe().device.startswith("1 x")


@needs_opencl
def test_names_of_all_devices():
    assert _registry.resolve_name("opencl-local:all") == "opencl-local:all"
    family = _registry.resolve_name("opencl:all")
    assert family.startswith("opencl-")
    assert family.endswith(":all")
    one, every = (gemmlab.get_backend(f"opencl-private{where}") for where in ("", ":all"))
    assert one.params == every.params
    assert BackendName.of("opencl-local:all").plain == "opencl-local"
    assert BackendName.of("opencl-local:all").shares
    assert not BackendName.of("opencl-local:0").shares
    assert not any(":" in name for name in gemmlab.backends())
    with pytest.raises(UnknownBackend):
        gemmlab.get_backend("cpu-packed:all")
    with pytest.raises(TypeError, match="has no parameter 'tile'"):
        gemmlab.matmul(np.eye(2), np.eye(2), backend="opencl-private:all", tile=3)


@needs_opencl
def test_a_device_array_is_refused_with_what_to_do():
    from gemmlab._gpu.device_arrays import to_device

    x = to_device(gemmlab.get_backend("opencl-local:0"), np.eye(3, dtype="float32"))
    with pytest.raises(UnsupportedProblem, match="pass NumPy arrays, or name the device of these, opencl-local:0"):
        gemmlab.matmul(x, x, backend="opencl-local:all")


@needs_opencl
def test_the_audit_of_all_devices():
    assert gemmlab.verify("opencl:all", dtypes=["float32"]).passed


SEVERAL = """
import os, sys
os.environ["POCL_DEVICES"] = sys.argv[1]
import numpy as np, gemmlab
from sub_devices import OpenCLOn, all_of, pocl_handles
from gemmlab import _registry
handles = pocl_handles()
print(len(handles))
rng = np.random.default_rng(int(sys.argv[2]))
backend = all_of(OpenCLOn(handles), "local4")
backend.name = "several"
with _registry.registered(backend), _registry.registered(backend.backends[0]):
    for dtype in ("float32", "float64"):
        for m, n, k in ((1, 1, 1), (2, 70, 5), (3, 4, 33), (101, 67, 45), (97, 300, 64)):
            a, b = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
            one = gemmlab.matmul(a, b, backend=backend.backends[0].name)
            out = np.full((m, n), np.nan, dtype)
            gemmlab.matmul(a, b, out=out, backend="several")
            assert np.array_equal(out, one), (dtype, m, n, k)
        stack = rng.standard_normal((7, 9, 9)).astype(dtype)
        one = gemmlab.matmul(stack, stack, backend=backend.backends[0].name)
        assert np.array_equal(gemmlab.matmul(stack, stack, backend="several"), one)
    print(backend.plan(gemmlab._problem.Problem.from_call(a, b)).loops)
"""


@pytest.mark.skipif(not pocl_handles(), reason="no PoCL here")
@pytest.mark.parametrize("count", [3, 4])
def test_three_and_more_devices_of_pocl(count):
    """PoCL reads the variable at the first query; older versions call a CPU device pthread, newer ones cpu."""
    seed = fresh_seed()
    for word in ("pthread", "cpu"):
        done = run_python("-c", SEVERAL, " ".join([word] * count), seed, path=[ROOT, SUPPORT])
        if done.stdout.startswith(f"{count}\n"):
            break
    assert done.returncode == 0, f"seed {seed}: {done.stdout}{done.stderr}"
    assert done.stdout.startswith(f"{count}\n")
