"""CUDA, through CuPy; its NVRTC compiles the rungs' own text behind `kernels/cuda.h`.

Host arrays go through a stream of our own. Arrays of CuPy's users are multiplied on the stream that is current in the
calling thread, as CuPy's own functions would, so all that the user does with them stays in order.

CuPy keeps freed memory for later allocations on the stream that it was allocated on. So memory may be let go while
a kernel of that stream still works on it: whoever gets it next comes after the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any

import numpy as np

from gemmlab._errors import DeviceError
from gemmlab._gpu import runtime
from gemmlab._gpu.rungs import kernel_text
from gemmlab._gpu.runtime import Adopted, Defines, Device, Event, HostArray, Queue, Runtime

_WINDOW = 1 << 45  # bytes; more than any array, less than arrays.py has room for
_OUT_OF_MEMORY = 2  # in cudaError and in CUresult


class Cuda(Runtime):
    """The GPUs of NVIDIA's driver."""

    name, package, extra = "cuda", "cupy", "cuda"
    no_device = "on a machine with an NVIDIA GPU: pip install 'cupy-cuda13x[ctk]'"

    def __init__(self) -> None:
        super().__init__()
        self._for_arrays: dict[int, CudaQueue] = {}

    @cached_property
    def cupy(self) -> Any:
        import cupy

        return cupy

    # devices

    def _find(self) -> list[Device]:
        cuda = self.cupy.cuda
        found = [_described(cuda, handle) for handle in range(cuda.runtime.getDeviceCount())]
        cuda.nvrtc.getVersion()  # a library of its own: without it there is no kernel
        return runtime.numbered(found)

    def _opened(self, device: Device) -> CudaQueue:
        queue = CudaQueue(device, self.cupy.cuda)
        with queue.at_work("opening it"):
            queue.stream = self.cupy.cuda.Stream(non_blocking=True)
        return queue

    # device arrays of users

    def adopt(self, array: Any) -> Adopted:
        """A `cupy.ndarray`.

        A window of the one address space stands for the memory object, so that arrays which overlap are seen to,
        whoever allocated them: of what came through DLPack, CuPy knows no more than where the array begins.
        """
        start_bytes = array.data.ptr % _WINDOW
        address, queue, cuda = array.data.ptr - start_bytes, self._queue_of(array), self.cupy.cuda
        window = cuda.MemoryPointer(cuda.UnownedMemory(address, 0, array, array.device.id), 0)
        return Adopted(array, queue, window, address, start_bytes, array.shape, array.strides, array.dtype)

    def _queue_of(self, array: Any) -> CudaQueue:
        return self._queue_for_arrays(self.devices[array.device.id])

    def _queue_for_arrays(self, device: Device) -> CudaQueue:
        """The queue on whichever stream is current; it has its kernels in common with the one on our own."""
        own = self.queue(device)
        with self._lock:
            queue = self._for_arrays.get(device.index)
            if queue is None or queue.failed:
                queue = self._for_arrays[device.index] = CudaQueue(device, self.cupy.cuda)
                queue.share_kernels(own)
            return queue

    def empty(self, like: Any, shape: tuple[int, ...]) -> Any:
        with self._queue_of(like).at_work("allocating the result"):
            return self.cupy.empty(shape, like.dtype)

    def finish(self, out: Any, event: Event) -> None:
        """Nothing: later work on the same stream waits by itself."""

    def array(self, device: Device, host: HostArray) -> Any:
        with self._queue_for_arrays(device).at_work("copying to it"):
            return self.cupy.asarray(host)

    def values(self, array: Any) -> HostArray:
        with self._queue_of(array).at_work("copying from it"):
            return np.asarray(array.get())

    def wait(self, array: Any) -> None:
        with self._queue_of(array).at_work("running a kernel") as stream:
            stream.synchronize()


class CudaQueue(Queue):
    """One stream: `stream` or, where that is None, whichever is current in the calling thread."""

    def __init__(self, device: Device, cuda: Any) -> None:
        super().__init__(device)
        self.cuda, self.stream = cuda, None
        self.errors = cuda.memory.OutOfMemoryError, cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError

    @contextmanager
    def at_work(self, doing: str) -> Iterator[Any]:
        """The device and the stream, made current in this thread: CuPy takes both from there."""
        with self.trouble(doing), self.cuda.Device(self.device.handle):
            current = self.cuda.get_current_stream()
            stream = self.stream or current
            stream.use()  # to leave a `with stream` would end a `use` of the user's
            try:
                yield stream
            finally:
                current.use()

    # memory

    def allocate(self, nbytes: int) -> Any:
        with self.at_work(f"allocating {nbytes} bytes"):
            return self.cuda.alloc(nbytes)

    def upload(self, memory: Any, array: HostArray) -> None:
        with self.at_work("copying to it") as stream:
            memory.copy_from_host_async(array.ctypes.data, array.nbytes, stream)
            stream.synchronize()

    def download(self, array: HostArray, memory: Any) -> None:
        with self.at_work("copying from it") as stream:
            memory.copy_to_host_async(array.ctypes.data, array.nbytes, stream)
            stream.synchronize()

    def pinned(self, nbytes: int) -> HostArray:
        with self.at_work(f"pinning {nbytes} bytes"):
            return np.frombuffer(self.cuda.alloc_pinned_memory(nbytes), np.uint8, nbytes)

    def send(self, memory: Any, start: int, piece: HostArray) -> CudaEvent:
        place = memory + start
        return self.timed(
            "copying to it", lambda stream: place.copy_from_host_async(piece.ctypes.data, piece.nbytes, stream)
        )

    def fetch(self, piece: HostArray, memory: Any, start: int) -> CudaEvent:
        place = memory + start
        return self.timed(
            "copying from it", lambda stream: place.copy_to_host_async(piece.ctypes.data, piece.nbytes, stream)
        )

    # compile

    def prelude(self) -> str:
        return kernel_text("cuda.h")

    def target(self) -> str:
        major, minor = self.cuda.nvrtc.getVersion()
        return f"{self.arch}, NVRTC {major}.{minor}"

    @cached_property
    def arch(self) -> str:
        """The device's own; for one that NVRTC does not know, the newest before it, as PTX for the driver."""
        own, known = int(self.cuda.Device(self.device.handle).compute_capability), self.cuda.nvrtc.getSupportedArchs()
        return f"sm_{own}" if own in known else f"compute_{max((arch for arch in known if arch < own), default=own)}"

    def _from_source(self, source: str, name: str, defines: Defines) -> tuple[Any, bytes]:
        binary = compile_text(self.prelude() + source, defines, self.arch)
        return self._from_binary(binary, name), binary

    def _from_binary(self, binary: bytes, name: str) -> Any:
        with self.at_work("loading a kernel"):
            module = self.cuda.Module()
            module.load(binary)
            return module.get_function(name)

    # launch and event time

    def launch(
        self, kernel: Any, groups: tuple[int, int, int], group: tuple[int, int, int], arguments: Sequence[Any]
    ) -> CudaEvent:
        return self.timed("starting a kernel", lambda stream: kernel(groups, group, arguments, stream=stream))

    def timed(self, doing: str, work: Callable[[Any], None]) -> CudaEvent:
        """Have `work` put something on the stream, between two events."""
        with self.lock, self.at_work(doing) as stream:
            first, last = self.cuda.Event(), self.cuda.Event()
            first.record(stream)
            work(stream)
            last.record(stream)
            return CudaEvent(self, first, last)

    @contextmanager
    def trouble(self, doing: str) -> Iterator[None]:
        try:
            yield
        except self.errors as error:
            if getattr(error, "status", _OUT_OF_MEMORY) == _OUT_OF_MEMORY:  # that of CuPy's pool has no status
                raise runtime.out_of_memory(self.device, doing, error) from error
            if not self._is_lost():
                raise runtime.failed(self.device, doing, error) from error
            self.failed = True
            lost = "CUDA is lost to this process: start a new one to use it again; other backends go on working"
            raise DeviceError(f"{self.device.label} failed {doing} ({error}), and {lost}") from error

    def _is_lost(self) -> bool:
        """Whether a kernel took the device's context with it: then every call fails until the process ends."""
        with suppress(self.cuda.runtime.CUDARuntimeError), self.cuda.Device(self.device.handle):
            self.cuda.runtime.memGetInfo()
            return False
        return True


class CudaEvent(Event):
    """A kernel between two events of its stream."""

    def __init__(self, queue: CudaQueue, first: Any, last: Any) -> None:
        self.queue, self.first, self.last = queue, first, last

    def wait(self) -> None:
        with self.queue.trouble("running a kernel"):
            self.last.synchronize()

    @property
    def kernel_s(self) -> float:
        """Seconds from one to the other: on an idle device that counts the host's few microseconds in between."""
        self.wait()
        with self.queue.trouble("timing a kernel"):
            return float(self.queue.cuda.get_elapsed_time(self.first, self.last)) * 1e-3


def compile_text(source: str, defines: Defines, arch: str) -> bytes:
    """Compile a text that has `kernels/cuda.h` before it; needs NVRTC, but no GPU.

    To machine code for "sm_90", which drivers older than NVRTC run too; to PTX for "compute_90". DeviceError with
    NVRTC's log if the text is refused.
    """
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(source, "kernel.cu", (), ())
    try:
        macros = [f"-D{macro}={value}" for macro, value in defines.items()]
        nvrtc.compileProgram(program, [f"-arch={arch}", "--std=c++17", *macros])
        return bytes(nvrtc.getCUBIN(program) if arch.startswith("sm_") else nvrtc.getPTX(program))
    except nvrtc.NVRTCError as error:
        log = nvrtc.getProgramLog(program).strip()
        raise DeviceError(f"NVRTC cannot build the kernel for {arch} ({error}); it says:\n{log}") from None
    finally:
        nvrtc.destroyProgram(program)


def _described(cuda: Any, handle: int) -> Device:
    found = cuda.runtime.getDeviceProperties(handle)
    versions = cuda.runtime.driverGetVersion(), cuda.runtime.runtimeGetVersion()
    driver, library = (f"{version // 1000}.{version % 1000 // 10}" for version in versions)
    return Device(
        "cuda", handle, found["name"].decode(), "gpu", "CUDA", driver=f"CUDA {driver} driver, {library} runtime",
        compute_units=found["multiProcessorCount"], group_limit=found["maxThreadsPerBlock"],
        memory_bytes=found["totalGlobalMem"], allocation_bytes=found["totalGlobalMem"],
        local_bytes=found["sharedMemPerBlock"], float64=True, handle=handle,
    )  # fmt: skip
