"""CUDA, through CuPy; its NVRTC compiles the rungs' sources after `kernels/cuda.h`.

Products of host arrays use a stream that gemmlab creates. Products of CuPy arrays use the stream that is current in the
calling thread, as CuPy's functions do, so they stay in order with the user's other work.

CuPy's memory pool reuses freed memory for allocations on the same stream only. So memory may be freed while a kernel of
that stream still uses it: work on the new allocation runs after the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property

import numpy as np

from gemmlab._errors import BackendUnavailable, DeviceError
from gemmlab._gpu import failures, runtime
from gemmlab._gpu.kernels import kernel_text
from gemmlab._gpu.operands import DeviceOperand
from gemmlab._gpu.plans.table import Executor, Prepared
from gemmlab._gpu.ptx import ARCHITECTURE
from gemmlab._gpu.runtime import (
    CompiledLaunch,
    Defines,
    Device,
    DeviceArray,
    Event,
    HostArray,
    Kernel,
    Memory,
    Native,
    Queue,
    Runtime,
)

CLOCK_RATE = 13  # cudaDevAttrClockRate, in kHz
_OUT_OF_MEMORY = 2  # the code in both cudaError and CUresult


class Cuda(Runtime):
    """The GPUs of NVIDIA's driver."""

    name, package, extra = "cuda", "cupy", "cuda"
    no_device = "on a machine with an NVIDIA GPU: pip install 'cupy-cuda13x[ctk]'"

    def __init__(self) -> None:
        super().__init__()
        self._for_arrays: dict[int, CudaQueue] = {}

    @cached_property
    def cupy(self) -> Native:
        import cupy

        return cupy

    # devices

    def _find(self) -> list[Device]:
        cuda = self.cupy.cuda
        found = [_device_info(cuda, handle) for handle in range(cuda.runtime.getDeviceCount())]
        cuda.nvrtc.getVersion()  # a separate library that may be missing: no kernel compiles without it
        return runtime.numbered(found)

    def _open_queue(self, device: Device) -> CudaQueue:
        return CudaQueue(device, self.cupy.cuda).sibling()

    # device arrays of users

    @property
    def plans(self) -> Executor:
        from gemmlab._gpu.plans import on_cuda

        return on_cuda

    def adopt(self, array: DeviceArray) -> DeviceOperand:
        """A `cupy.ndarray`.

        All of a device's memory counts as one region, so that overlap is detected for any two arrays: for an array from
        DLPack, CuPy knows the array's address, but not the allocation.
        """
        from gemmlab._gpu.plans.on_cuda import ALIGNMENT, aligned

        begin = array.data.ptr
        region = array.device.id, begin
        return DeviceOperand(
            array, self._queue_of(array), aligned(array), begin % ALIGNMENT, region, array.shape, array.strides,
            array.dtype,
        )  # fmt: skip

    def _queue_of(self, array: DeviceArray) -> CudaQueue:
        return self._queue_for_arrays(self.devices[array.device.id])

    def _queue_for_arrays(self, device: Device) -> CudaQueue:
        """The queue on the current stream; it shares its kernels with the queue for host arrays."""
        own = self.queue(device)
        with self._lock:
            queue = self._for_arrays.get(device.index)
            if queue is None or queue.failed:
                queue = self._for_arrays[device.index] = CudaQueue(device, self.cupy.cuda)
                queue.share_kernels(own)
            return queue

    def array(self, device: Device, host: HostArray) -> DeviceArray:
        with self._queue_for_arrays(device).on_stream("copying to it"):
            return self.cupy.asarray(host)

    def values(self, array: DeviceArray) -> HostArray:
        with self._queue_of(array).on_stream("copying from it"):
            return np.asarray(array.get())

    def wait(self, array: DeviceArray) -> None:
        with self._queue_of(array).on_stream("running a kernel") as stream:
            stream.synchronize()


class CudaQueue(Queue):
    """A stream: `stream` or, if that is None, the stream that is current in the calling thread."""

    def __init__(self, device: Device, cuda: Native) -> None:
        super().__init__(device)
        self.cuda = cuda
        self.stream: Native = None
        self.errors = cuda.memory.OutOfMemoryError, cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError

    @contextmanager
    def on_stream(self, doing: str) -> Iterator[Native]:
        """Make the device and the stream current in this thread, as CuPy's functions expect."""
        with self.device_errors(doing), self.cuda.Device(self.device.handle):
            current = self.cuda.get_current_stream()
            stream = self.stream or current
            stream.use()  # not `with stream`, whose end would undo an earlier `use()` by the user
            try:
                yield stream
            finally:
                current.use()

    def sibling(self) -> CudaQueue:
        queue = CudaQueue(self.device, self.cuda)
        with queue.on_stream("opening it"):
            queue.stream = self.cuda.Stream(non_blocking=True)
        return queue

    def after(self, event: Event) -> None:
        assert isinstance(event, CudaEvent)
        with self.device_errors("waiting for another stream"), self.cuda.Device(self.device.handle):
            self.stream.wait_event(event.last)

    def marker(self) -> CudaEvent:
        with self.device_errors("marking its work"), self.cuda.Device(self.device.handle):
            return self._marked()

    # memory

    def free_bytes(self) -> int:
        """What the driver has free, and what CuPy's pool holds and nobody uses."""
        with self.on_stream("asking for its memory"):
            pool: Native = getattr(self.cuda.get_allocator(), "__self__", None)  # users may have set another allocator
            unused = int(pool.free_bytes()) if hasattr(pool, "free_bytes") else 0
            return int(self.cuda.runtime.memGetInfo()[0]) + unused

    def allocate(self, nbytes: int) -> Memory:
        with self.on_stream(f"allocating {nbytes} bytes"):
            return self.cuda.alloc(nbytes)

    def upload(self, memory: Memory, array: HostArray) -> None:
        with self.on_stream("copying to it") as stream:
            memory.copy_from_host_async(array.ctypes.data, array.nbytes, stream)
            stream.synchronize()

    def download(self, array: HostArray, memory: Memory) -> None:
        with self.on_stream("copying from it") as stream:
            memory.copy_to_host_async(array.ctypes.data, array.nbytes, stream)
            stream.synchronize()

    def pinned(self, nbytes: int) -> HostArray:
        with self.on_stream(f"pinning {nbytes} bytes"):
            return np.frombuffer(self.cuda.alloc_pinned_memory(nbytes), np.uint8, nbytes)

    # A transfer of many pieces is as fast as these two: no change of the current stream, and no time.

    def start_upload(self, memory: Memory, start: int, piece: HostArray) -> CudaEvent:
        with self.device_errors("copying to it"), self.cuda.Device(self.device.handle):
            (memory + start).copy_from_host_async(piece.ctypes.data, piece.nbytes, self.stream)
            return self._marked()

    def start_download(self, piece: HostArray, memory: Memory, start: int) -> CudaEvent:
        with self.device_errors("copying from it"), self.cuda.Device(self.device.handle):
            (memory + start).copy_to_host_async(piece.ctypes.data, piece.nbytes, self.stream)
            return self._marked()

    def _marked(self) -> CudaEvent:
        """The work submitted so far. A thread that waits for it leaves its core to others."""
        last = self.cuda.Event(block=True, disable_timing=True)
        last.record(self.stream)
        return CudaEvent(self, None, last)

    def can_read(self, other: Queue) -> bool:
        if not isinstance(other, CudaQueue):
            return False
        return bool(self.cuda.runtime.deviceCanAccessPeer(self.device.handle, other.device.handle))

    def copy_from(self, memory: Memory, other: Queue, source: Memory, nbytes: int) -> None:
        with self.on_stream("copying from another device") as stream:
            memory.copy_from_device_async(source, nbytes, stream)
            stream.synchronize()

    # compile

    def prelude(self) -> str:
        return kernel_text("common/cuda.h")

    def target(self) -> str:
        major, minor = self.cuda.nvrtc.getVersion()
        return f"{self.arch}, NVRTC {major}.{minor}"

    @cached_property
    def static_local_bytes(self) -> int:
        """What the device reports: ptxas refuses more in a static array."""
        return self.device.local_bytes

    @cached_property
    def arch(self) -> str:
        """The device's architecture; if NVRTC does not know it, the newest earlier one, as PTX for the driver."""
        own, known = self.device.compute_capability or 0, self.cuda.nvrtc.getSupportedArchs()
        return f"sm_{own}" if own in known else f"compute_{max((arch for arch in known if arch < own), default=own)}"

    def _from_source(self, source: str, name: str, defines: Defines) -> tuple[Kernel, bytes]:
        binary = compile_source(self.prelude() + source, defines, self.arch)
        return self._from_binary(binary, name), binary

    def ptx_and_code(self, source: str, name: str, defines: Defines) -> tuple[str, bytes]:
        return compiled_for(f"sm_{self.device.compute_capability}", source, defines)

    def _from_binary(self, binary: bytes, name: str) -> Kernel:
        with self.on_stream("loading a kernel"):
            module = self.cuda.Module()
            module.load(binary)
            return module.get_function(name)

    # launch and event time

    def launcher(self, kernels: Sequence[CompiledLaunch], workspace_bytes: int) -> Prepared:
        from gemmlab._gpu.plans.on_cuda import Launcher

        for one in kernels:
            if one.local_bytes:
                with self.on_stream("asking for local memory"):
                    attribute = self.cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                    self.cuda.driver.funcSetAttribute(one.kernel.ptr, attribute, one.local_bytes)
        return Launcher(self, kernels, workspace_bytes)

    def timed(self, doing: str, work: Callable[[Native], None]) -> CudaEvent:
        """Submit `work` to the stream between two events."""
        with self.lock, self.on_stream(doing) as stream:
            first, last = self.cuda.Event(), self.cuda.Event()
            first.record(stream)
            work(stream)
            last.record(stream)
            return CudaEvent(self, first, last)

    @contextmanager
    def device_errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except self.errors as error:
            if getattr(error, "status", _OUT_OF_MEMORY) == _OUT_OF_MEMORY:  # the error of CuPy's pool has no status
                raise failures.out_of_memory(self.device, doing, error) from error
            if not self._is_lost():
                raise failures.failed(self.device, doing, error) from error
            self.failed = True
            lost = "this process cannot use CUDA any more: start a new one; other backends still work"
            raise DeviceError(f"{self.device.label} failed {doing} ({error}); {lost}") from error

    def _is_lost(self) -> bool:
        """Whether a kernel has corrupted the device's context: then every call fails until the process ends."""
        with suppress(self.cuda.runtime.CUDARuntimeError), self.cuda.Device(self.device.handle):
            self.cuda.runtime.memGetInfo()
            return False
        return True


class CudaEvent(Event):
    """Work between two events of a stream; it has a time if there is a first one."""

    def __init__(self, queue: CudaQueue, first: Native | None, last: Native) -> None:
        self.queue, self.first, self.last = queue, first, last

    def wait(self) -> None:
        with self.queue.device_errors("running a kernel"):
            self.last.synchronize()

    @property
    def kernel_s(self) -> float:
        """Seconds between the events. On an idle device they include a few microseconds of host time."""
        self.wait()
        if self.first is None:
            return float("nan")
        with self.queue.device_errors("timing a kernel"):
            return float(self.queue.cuda.get_elapsed_time(self.first, self.last)) * 1e-3


def compiled_for(arch: str, source: str, defines: Defines) -> tuple[str, bytes]:
    """A kernel in PTX with its source's lines, and as machine code, for an architecture: "sm_90". Needs no GPU."""
    try:
        from cupy.cuda import nvrtc

        nvrtc.getVersion()
    except Exception as error:
        raise BackendUnavailable(f"NVRTC cannot be used: {error}; fix: pip install 'cupy-cuda13x[ctk]'") from None
    whole = kernel_text("common/cuda.h") + source
    ptx = compile_source(whole, defines, arch.replace("sm_", "compute_"), "-lineinfo")
    return ptx.rstrip(b"\0").decode(), compile_source(whole, defines, arch)


def compile_source(source: str, defines: Defines, arch: str, *options: str) -> bytes:
    """Compile a source that includes `kernels/cuda.h`. Needs NVRTC, but no GPU.

    For "sm_90" the result is machine code, which drivers older than NVRTC run too; for "compute_90" it is PTX.
    A kernel with the instructions of one chip is compiled for that: see `ptx.py`.
    DeviceError with NVRTC's log if the source does not compile.
    """
    from cupy.cuda import nvrtc

    arch = f"{arch.partition('_')[0]}_{defines.get(ARCHITECTURE, arch.partition('_')[2])}"
    program = nvrtc.createProgram(source, "kernel.cu", (), ())
    try:
        macros = [f"-D{macro}={value}" for macro, value in defines.items()]
        nvrtc.compileProgram(program, [f"-arch={arch}", "--std=c++17", "-default-device", *macros, *options])
        return bytes(nvrtc.getCUBIN(program) if arch.startswith("sm_") else nvrtc.getPTX(program))
    except nvrtc.NVRTCError as error:
        log = nvrtc.getProgramLog(program).strip()
        raise DeviceError(f"NVRTC cannot build the kernel for {arch} ({error}); it says:\n{log}") from None
    finally:
        nvrtc.destroyProgram(program)


def _device_info(cuda: Native, handle: int) -> Device:
    found = cuda.runtime.getDeviceProperties(handle)
    versions = cuda.runtime.driverGetVersion(), cuda.runtime.runtimeGetVersion()
    driver, library = (f"{version // 1000}.{version % 1000 // 10}" for version in versions)
    return Device(
        "cuda", handle, found["name"].decode(), "gpu", "CUDA", driver=f"CUDA {driver} driver, {library} runtime",
        compute_units=found["multiProcessorCount"], group_limit=found["maxThreadsPerBlock"],
        memory_bytes=found["totalGlobalMem"], allocation_bytes=found["totalGlobalMem"],
        local_bytes=found["sharedMemPerBlock"], float64=True, handle=handle,
        compute_capability=int(cuda.Device(handle).compute_capability),
        most_local_bytes=found.get("sharedMemPerBlockOptin", 0),
        clock_mhz=cuda.runtime.deviceGetAttribute(CLOCK_RATE, handle) // 1000,
    )  # fmt: skip
