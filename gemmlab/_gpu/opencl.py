"""OpenCL, through pyopencl."""

from __future__ import annotations

import atexit
import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from time import monotonic, sleep

import numpy as np

from gemmlab._errors import DeviceError, UnsupportedProblem
from gemmlab._gpu import failures
from gemmlab._gpu.opencl_drivers import described, drivers_listed
from gemmlab._gpu.operands import DeviceOperand
from gemmlab._gpu.plans.table import Executor, Prepared
from gemmlab._gpu.ptx import ARCHITECTURE, is_ptx, machine_code, without_marks
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
    numbered,
)
from gemmlab._process.forks import Lock, tell

_MAX_QUEUES = 16  # for users' arrays
MAX_CALL_S = 10.0  # at the end of a program


class OpenCL(Runtime):
    """The devices of all platforms that the loader finds."""

    name, package, extra = "opencl", "pyopencl", "opencl"
    no_device = "pip install pocl-binary-distribution brings a CPU device; a GPU needs its vendor's OpenCL driver"

    def __init__(self) -> None:
        super().__init__()
        self._handles: list[Native] = []  # pyopencl's devices, by index
        self._adopted: dict[Native, OpenCLQueue] = {}

    # devices

    def _find(self) -> list[Device]:
        with drivers_listed():
            import pyopencl as cl

            platforms = cl.get_platforms()
        # PoCL before other CPU runtimes: the extra installs it; installing another one must not change the default.
        platforms.sort(key=lambda platform: platform.name != "Portable Computing Language")
        found = (device for platform in platforms for device in platform.get_devices())
        handles = list(dict.fromkeys(found))  # a driver that the loader was told of twice lists its devices twice
        devices = numbered([described(number, handle) for number, handle in enumerate(handles)])
        self._handles = [handles[device.handle] for device in devices]
        return devices

    def _open_queue(self, device: Device) -> OpenCLQueue:
        import pyopencl as cl
        import pyopencl.invoker  # imported here, so that the first kernel need not wait for it

        context = cl.Context([self._handles[device.index]])
        profiled = cl.command_queue_properties.PROFILING_ENABLE
        return OpenCLQueue(device, cl.CommandQueue(context, properties=profiled))

    # device arrays of users

    @property
    def plans(self) -> Executor:
        from gemmlab._gpu.plans import on_opencl

        return on_opencl

    def adopt(self, array: DeviceArray) -> DeviceOperand:
        """A `pyopencl.array.Array`, with its queue."""
        from gemmlab._gpu.plans.on_opencl import region_of

        if array.queue is None:
            raise UnsupportedProblem("the pyopencl array has no queue: give it one with array.with_queue(queue)")
        region = None
        if hasattr(array.base_data, "svm_ptr"):  # freed beneath work that is under way, with some drivers
            fix = "copy it into a buffer, with pyopencl.array.to_device(queue, array.get())"
            raise UnsupportedProblem(f"the pyopencl array is in shared virtual memory: {fix}")
        if array.base_data is not None:  # an empty array has no memory
            whole, begin = region_of(array.base_data, array.offset)
            region = whole.int_ptr, begin
        queue = self._queue_of(array.queue)
        return DeviceOperand(
            array, queue, array.base_data, array.offset, region, array.shape, array.strides, array.dtype
        )

    def _queue_of(self, queue: Native) -> OpenCLQueue:
        """The queue object for a user's command queue; queues of one context share their kernels."""
        with self._lock:
            if queue not in self._adopted or self._adopted[queue].failed:
                handle = queue.device
                known = [info for info, own in zip(self.devices, self._handles, strict=True) if own == handle]
                ours = OpenCLQueue(known[0] if known else described(0, handle), queue)
                for other in self._adopted.values():
                    if other.context == ours.context and other.device == ours.device and not other.failed:
                        ours.share_kernels(other)
                while len(self._adopted) >= _MAX_QUEUES:
                    self._adopted.pop(next(iter(self._adopted)))
                self._adopted[queue] = ours
            return self._adopted[queue]

    def array(self, device: Device, host: HostArray) -> DeviceArray:
        import pyopencl.array

        queue = self.queue(device)
        assert isinstance(queue, OpenCLQueue)
        with queue.device_errors("copying to it"):
            return pyopencl.array.to_device(queue.queue, host)

    def values(self, array: DeviceArray) -> HostArray:
        if array.flags.forc:
            return np.asarray(array.get())
        operand = self.adopt(array)  # pyopencl copies no view with gaps
        held = np.empty(operand.start_bytes + operand.bounds()[1], np.uint8)
        operand.queue.download(held, operand.memory)
        return np.ndarray(operand.shape, operand.dtype, held, operand.start_bytes, operand.strides).copy()

    def wait(self, array: DeviceArray) -> None:
        array.finish()


class OpenCLQueue(Queue):
    """A command queue: in-order and with profiling, unless it is a user's."""

    def __init__(self, device: Device, queue: Native) -> None:
        super().__init__(device)
        import pyopencl as cl

        self.queue, self.context = queue, queue.context
        self.is_out_of_order = bool(queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)

    def sibling(self) -> OpenCLQueue:
        import pyopencl as cl

        profiled = cl.command_queue_properties.PROFILING_ENABLE
        return OpenCLQueue(self.device, cl.CommandQueue(self.context, properties=profiled))

    def after(self, event: Event) -> None:
        import pyopencl as cl

        assert isinstance(event, OpenCLEvent)
        with self.lock, self.device_errors("waiting for another queue"):
            event.queue.queue.flush()  # what is not on its way would be waited for for ever
            cl.enqueue_barrier(self.queue, wait_for=[event.event])

    def marker(self) -> OpenCLEvent:
        import pyopencl as cl

        with self.lock, self.device_errors("marking its work"):
            return OpenCLEvent(self, cl.enqueue_marker(self.queue))

    # memory

    @cached_property
    def pool(self) -> Native:
        import pyopencl.tools as tools

        return tools.MemoryPool(tools.ImmediateAllocator(self.queue))

    def allocate(self, nbytes: int) -> Memory:
        with self.lock, self.device_errors(f"allocating {nbytes} bytes"):
            return self.pool.allocate(nbytes)

    # A copy starts while the lock is held, and is waited for without it: NVIDIA's driver (580) crashes or hangs when
    # several threads make blocking copies on one queue.

    def upload(self, memory: Memory, array: HostArray) -> None:
        self.start_upload(memory, 0, array).wait()

    def download(self, array: HostArray, memory: Memory) -> None:
        self.start_download(array, memory, 0).wait()

    def pinned(self, nbytes: int) -> HostArray:
        """A buffer in host memory that the driver has allocated, mapped until the array is freed."""
        import pyopencl as cl

        with self.device_errors(f"pinning {nbytes} bytes"):
            buffer = cl.Buffer(self.context, cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR, nbytes)
            both: Native = cl.map_flags.READ | cl.map_flags.WRITE
            array: HostArray
            array, _ = cl.enqueue_map_buffer(self.queue, buffer, both, 0, (nbytes,), np.dtype(np.uint8))
            return array

    def start_upload(self, memory: Memory, start: int, piece: HostArray) -> OpenCLEvent:
        import pyopencl as cl

        with self.lock, self.device_errors("copying to it"):
            return OpenCLEvent(self, cl.enqueue_copy(self.queue, memory, piece, dst_offset=start, is_blocking=False))

    def start_download(self, piece: HostArray, memory: Memory, start: int) -> OpenCLEvent:
        import pyopencl as cl

        with self.lock, self.device_errors("copying from it"):
            return OpenCLEvent(self, cl.enqueue_copy(self.queue, piece, memory, src_offset=start, is_blocking=False))

    # compile

    def target(self) -> str:
        forced = os.environ.get("PYOPENCL_BUILD_OPTIONS", "")  # pyopencl adds these to every build
        return f"{self.queue.device.version} {forced}".rstrip()

    def _from_source(self, source: str, name: str, defines: Defines) -> tuple[Kernel, bytes]:
        import pyopencl as cl

        options = [f"-D {macro}={value}" for macro, value in defines.items()]
        try:
            program = _build(cl.Program(self.context, source), options)
        except cl.RuntimeError as error:
            raise failures.build_failed(self.device, str(error), source) from None
        if ARCHITECTURE not in defines:
            return _kernel_of(program, name), program.binaries[0]
        try:
            binary = without_marks(program.binaries[0], str(defines[ARCHITECTURE]))
            return self._from_binary(binary, name), binary
        except (ValueError, cl.RuntimeError) as error:
            raise DeviceError(f"{self.device.label} cannot build {name} for {defines[ARCHITECTURE]}: {error}") from None

    def ptx_and_code(self, source: str, name: str, defines: Defines) -> tuple[str, bytes] | None:
        _, binary = self._from_source(source, name, defines)
        if not is_ptx(binary):
            return None
        return binary.rstrip(b"\0").decode(), machine_code(binary, _bus_id(self.queue.device))

    def _binary_to_cache(self, binary: bytes, name: str) -> bytes:
        """Machine code instead of PTX, if NVIDIA's linker is available and the driver loads its result."""
        if not is_ptx(binary):
            return binary
        with suppress(Exception):  # an older driver may refuse it; then the PTX is cached
            code = machine_code(binary, _bus_id(self.queue.device))
            self._from_binary(code, name)
            return code
        return binary

    def _from_binary(self, binary: bytes, name: str) -> Kernel:
        import pyopencl as cl

        return _kernel_of(_build(cl.Program(self.context, [self.queue.device], [binary]), []), name)

    # launch and event time

    def launcher(self, kernels: Sequence[CompiledLaunch], workspace_bytes: int) -> Prepared:
        from gemmlab._gpu.plans.on_opencl import Launcher

        return Launcher(self, kernels, workspace_bytes)

    def event(self, event: Native) -> OpenCLEvent:
        """pyopencl's event of this queue as ours."""
        return OpenCLEvent(self, event)

    @contextmanager
    def device_errors(self, doing: str) -> Iterator[None]:
        import pyopencl as cl

        try:
            with _driver_calls:
                yield
        except cl.MemoryError as error:
            if "pool" in vars(self):
                self.pool.free_held()
            raise failures.out_of_memory(self.device, doing, error) from error
        except cl.Error as error:
            self.failed = True
            raise failures.failed(self.device, doing, error) from error


class DriverCalls:
    """A block of calls of the driver, which several threads may be in at once; the program ends after them.

    Python ends daemon threads where they take the GIL again. pyopencl does that in C++ code, which aborts the process
    then. So at exit daemon threads start no more calls, and the others are awaited.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._is_ending = False
        atexit.register(self.end)
        tell(self)

    def __enter__(self) -> None:
        with self._lock:
            if not (self._is_ending and threading.current_thread().daemon):
                self._inside += 1
                return
        threading.Event().wait()  # until the process has ended

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1

    def forked(self) -> None:
        """No call of the parent is under way in its child."""
        self._inside = 0

    def end(self) -> None:
        """Wait for the calls of daemon threads, and stop these threads."""
        self._is_ending = True
        deadline = monotonic() + MAX_CALL_S
        while self._inside and monotonic() < deadline:
            sleep(0.001)


_driver_calls = DriverCalls()


def _kernel_of(program: Native, name: str) -> Kernel:
    """A kernel that keeps its program: Intel's runtime frees it otherwise, and `kernel.program` is invalid then."""
    import pyopencl as cl

    kernel: Native = cl.Kernel(program, name)
    kernel.kept_program = program
    return kernel


class OpenCLEvent(Event):
    """An event; it has a time if its queue has profiling."""

    def __init__(self, queue: OpenCLQueue, event: Native) -> None:
        self.queue, self.event = queue, event

    def wait(self) -> None:
        with self.queue.device_errors("running a kernel"):
            self.event.wait()

    @property
    def kernel_s(self) -> float:
        import pyopencl as cl

        self.wait()
        with suppress(cl.Error):
            return float(self.event.profile.end - self.event.profile.start) * 1e-9
        return float("nan")


def _build(program: Native, options: list[str]) -> Native:
    """Build a program without pyopencl's cache and without its warning about compiler output."""
    with _without_warnings:
        return program.build(options, cache_dir=False)


class _WithoutCompilerWarnings:
    """A block without pyopencl's warnings of compiler output, which several threads may be in at once: the first sets
    the filter, and the last restores what was there."""

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0

    def __enter__(self) -> None:
        import pyopencl as cl

        with self._lock:
            if self._inside == 0:
                self._caught = warnings.catch_warnings()
                self._caught.__enter__()
                warnings.simplefilter("ignore", cl.CompilerWarning)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._caught.__exit__(None, None, None)


_without_warnings = _WithoutCompilerWarnings()


def _bus_id(device: Native) -> str:
    """The PCI address of NVIDIA's device, as CUDA writes it."""
    return f"{device.pci_domain_id_nv:04x}:{device.pci_bus_id_nv:02x}:{device.pci_slot_id_nv:02x}.0"
