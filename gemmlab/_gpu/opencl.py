"""OpenCL, through pyopencl.

A wheel of pyopencl brings its own loader, which looks for drivers in a folder of its own. So that it finds the
system's drivers too, Intel's CPU runtime from its wheel, and NVIDIA's library where a container has it without the
file that announces it, the first use names all of them to the loader.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import numpy as np

from gemmlab._errors import UnsupportedProblem
from gemmlab._gpu.ptx import is_ptx, machine_code
from gemmlab._gpu.runtime import (
    Adopted,
    Defines,
    Device,
    Event,
    HostArray,
    Queue,
    Runtime,
    build_failed,
    failed,
    numbered,
    out_of_memory,
)

SYSTEM_DRIVERS = Path("/etc/OpenCL/vendors")
SHORT = {"Portable Computing Language": "PoCL", "Intel(R) OpenCL": "Intel OpenCL", "NVIDIA CUDA": "NVIDIA"}
_KEPT_QUEUES = 16  # of arrays that users bring


class OpenCL(Runtime):
    """All platforms that the loader finds."""

    name, package, extra = "opencl", "pyopencl", "opencl"
    no_device = "pip install pocl-binary-distribution brings a CPU device; a GPU needs its vendor's OpenCL driver"

    def __init__(self) -> None:
        super().__init__()
        self._handles: list[Any] = []  # pyopencl's devices, by index
        self._adopted: dict[Any, OpenCLQueue] = {}

    # devices

    def _find(self) -> list[Device]:
        with drivers_announced():
            import pyopencl as cl

            platforms = cl.get_platforms()
        # PoCL before other CPU runtimes: it is what the extra brings, and installing another changes nothing.
        platforms.sort(key=lambda platform: platform.name != "Portable Computing Language")
        handles = [device for platform in platforms for device in platform.get_devices()]
        devices = numbered([_described(number, handle) for number, handle in enumerate(handles)])
        self._handles = [handles[device.handle] for device in devices]
        return devices

    def _opened(self, device: Device) -> OpenCLQueue:
        import pyopencl as cl
        import pyopencl.invoker  # what its first kernel would otherwise wait for

        context = cl.Context([self._handles[device.index]])
        profiled = cl.command_queue_properties.PROFILING_ENABLE
        return OpenCLQueue(device, cl.CommandQueue(context, properties=profiled))

    # device arrays of users

    def adopt(self, array: Any) -> Adopted:
        """A `pyopencl.array.Array`, with the queue that it came with."""
        if array.queue is None:
            raise UnsupportedProblem("the pyopencl array has no queue: give it one with array.with_queue(queue)")
        strays = [event for event in array.events if event.command_queue != array.queue]
        if strays:  # what comes next on the array's own queue waits for them; that queue's own events keep order
            import pyopencl as cl

            cl.enqueue_barrier(array.queue, wait_for=strays)
        memory, start = array.base_data, array.offset
        if (whole := _whole(memory)) is not None:
            memory, start = whole[0], start + whole[1]
        address = 0 if memory is None else memory.int_ptr  # an empty array has no memory
        return Adopted(
            array, self._queue_of(array.queue), memory, address, start, array.shape, array.strides, array.dtype
        )

    def _queue_of(self, queue: Any) -> OpenCLQueue:
        """Our side of a user's queue; kernels are built once a context."""
        with self._lock:
            if queue not in self._adopted or self._adopted[queue].failed:
                handle = queue.device
                known = [d for d, own in zip(self.devices, self._handles, strict=True) if own == handle]
                ours = OpenCLQueue(known[0] if known else _described(0, handle), queue)
                for other in self._adopted.values():
                    if other.context == ours.context and other.device == ours.device and not other.failed:
                        ours.share_kernels(other)
                while len(self._adopted) >= _KEPT_QUEUES:
                    self._adopted.pop(next(iter(self._adopted)))
                self._adopted[queue] = ours
            return self._adopted[queue]

    def empty(self, like: Any, shape: tuple[int, ...]) -> Any:
        import pyopencl.array

        return pyopencl.array.empty(like.queue, shape, like.dtype, allocator=like.allocator)

    def finish(self, out: Any, event: Event) -> None:
        assert isinstance(event, OpenCLEvent)
        out.add_event(event.event)

    def array(self, device: Device, host: HostArray) -> Any:
        import pyopencl.array

        queue = self.queue(device)
        assert isinstance(queue, OpenCLQueue)
        with queue.trouble("copying to it"):
            return pyopencl.array.to_device(queue.queue, host)

    def values(self, array: Any) -> HostArray:
        return np.asarray(array.get())

    def wait(self, array: Any) -> None:
        array.finish()


class OpenCLQueue(Queue):
    """A command queue; in order, and with profiling, unless a user brought it."""

    def __init__(self, device: Device, queue: Any) -> None:
        super().__init__(device)
        import pyopencl as cl

        self.queue, self.context = queue, queue.context
        self._out_of_order = bool(queue.properties & cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
        self._pool: Any = None

    # memory

    def allocate(self, nbytes: int) -> Any:
        import pyopencl.tools as tools

        with self.lock, self.trouble(f"allocating {nbytes} bytes"):
            if self._pool is None:
                self._pool = tools.MemoryPool(tools.ImmediateAllocator(self.queue))
            return self._pool.allocate(nbytes)

    # A copy starts under the lock and is waited for outside it: NVIDIA's driver (580) crashes, or never ends the
    # process, when threads make blocking copies on one queue at the same time.

    def upload(self, memory: Any, array: HostArray) -> None:
        self.send(memory, 0, array).wait()

    def download(self, array: HostArray, memory: Any) -> None:
        self.fetch(array, memory, 0).wait()

    def pinned(self, nbytes: int) -> HostArray:
        """A buffer that the driver keeps in host memory, mapped until the array goes: drivers know its addresses."""
        import pyopencl as cl

        with self.trouble(f"pinning {nbytes} bytes"):
            buffer = cl.Buffer(self.context, cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR, nbytes)
            both: Any = cl.map_flags.READ | cl.map_flags.WRITE
            array: HostArray
            array, _ = cl.enqueue_map_buffer(self.queue, buffer, both, 0, (nbytes,), np.dtype(np.uint8))
            return array

    def send(self, memory: Any, start: int, piece: HostArray) -> OpenCLEvent:
        import pyopencl as cl

        with self.lock, self.trouble("copying to it"):
            return OpenCLEvent(self, cl.enqueue_copy(self.queue, memory, piece, dst_offset=start, is_blocking=False))

    def fetch(self, piece: HostArray, memory: Any, start: int) -> OpenCLEvent:
        import pyopencl as cl

        with self.lock, self.trouble("copying from it"):
            return OpenCLEvent(self, cl.enqueue_copy(self.queue, piece, memory, src_offset=start, is_blocking=False))

    # compile

    def target(self) -> str:
        return str(self.queue.device.version)

    def _from_source(self, source: str, name: str, defines: Defines) -> tuple[Any, bytes]:
        import pyopencl as cl

        options = [f"-D {macro}={value}" for macro, value in defines.items()]
        try:
            program = _built(cl.Program(self.context, source), options)
        except cl.RuntimeError as error:
            raise build_failed(self.device, str(error)) from None
        return cl.Kernel(program, name), program.binaries[0]

    def _keepable(self, binary: bytes, name: str) -> bytes:
        """Machine code for NVIDIA's PTX, if its linker is at hand and the driver takes what it makes."""
        if not is_ptx(binary):
            return binary
        with suppress(Exception):  # whatever an older driver has against it: PTX will do
            code = machine_code(binary, _bus_id(self.queue.device))
            self._from_binary(code, name)
            return code
        return binary

    def _from_binary(self, binary: bytes, name: str) -> Any:
        import pyopencl as cl

        return cl.Kernel(_built(cl.Program(self.context, [self.queue.device], [binary]), []), name)

    # launch and event time

    def launch(
        self, kernel: Any, groups: tuple[int, int, int], group: tuple[int, int, int], arguments: Sequence[Any]
    ) -> OpenCLEvent:
        import pyopencl as cl

        size = tuple(many * items for many, items in zip(groups, group, strict=True))
        with self.lock, self.trouble("starting a kernel"):
            if self._out_of_order:
                cl.enqueue_barrier(self.queue)
            kernel.set_args(*arguments)
            return OpenCLEvent(self, cl.enqueue_nd_range_kernel(self.queue, kernel, size, group))

    @contextmanager
    def trouble(self, doing: str) -> Iterator[None]:
        import pyopencl as cl

        try:
            yield
        except cl.MemoryError as error:
            if self._pool is not None:
                self._pool.free_held()
            raise out_of_memory(self.device, doing, error) from error
        except cl.Error as error:
            self.failed = True
            raise failed(self.device, doing, error) from error


class OpenCLEvent(Event):
    """An event; it knows its time if its queue keeps times."""

    def __init__(self, queue: OpenCLQueue, event: Any) -> None:
        self.queue, self.event = queue, event

    def wait(self) -> None:
        with self.queue.trouble("running a kernel"):
            self.event.wait()

    @property
    def kernel_s(self) -> float:
        import pyopencl as cl

        self.wait()
        with suppress(cl.Error):
            return float(self.event.profile.end - self.event.profile.start) * 1e-9
        return float("nan")


def _built(program: Any, options: list[str]) -> Any:
    """Build a program past pyopencl's own cache, and without its warning that the compiler had something to say."""
    import pyopencl as cl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)
        return program.build(options, cache_dir=False)


def _bus_id(device: Any) -> str:
    """The PCI address of NVIDIA's device, as CUDA writes it."""
    return f"{device.pci_domain_id_nv:04x}:{device.pci_bus_id_nv:02x}:{device.pci_slot_id_nv:02x}.0"


def _described(handle: int, device: Any) -> Device:
    import pyopencl as cl

    kinds = {cl.device_type.GPU: "gpu", cl.device_type.CPU: "cpu"}
    platform = device.platform
    return Device(
        "opencl", 0,
        name=device.name.strip().removeprefix("pthread-").removeprefix("cpu-"),
        kind=next((kind for bit, kind in kinds.items() if device.type & bit), "accelerator"),
        platform=SHORT.get(platform.name.strip(), platform.name.strip()),
        driver=f"{device.driver_version} ({platform.version.strip()})",
        compute_units=device.max_compute_units,
        group_limit=device.max_work_group_size,
        local_bytes=device.local_mem_size,
        memory_bytes=device.global_mem_size,
        allocation_bytes=device.max_mem_alloc_size,
        float64=bool(device.double_fp_config),
        handle=handle,
    )  # fmt: skip


def _whole(memory: Any) -> tuple[Any, int] | None:
    """The buffer that a sub-buffer is a part of, and where it begins in it; None for a whole one."""
    import pyopencl as cl

    with suppress(cl.Error, AttributeError):  # SVM has no such parent
        parent = memory.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT)
        return None if parent is None else (parent, memory.get_info(cl.mem_info.OFFSET))
    return None


@contextmanager
def drivers_announced() -> Iterator[None]:
    """Have the loader, which reads it once, see a folder with all drivers; a folder that the user names is his."""
    # PoCL would compile a kernel once more at its first launch, for that launch's size: half a second that no
    # cache keeps, and no gain where the size of the groups stands in the text.
    os.environ.setdefault("POCL_WORK_GROUP_SPECIALIZATION", "0")
    if "OCL_ICD_VENDORS" in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        for number, library in enumerate(_drivers()):
            Path(folder, f"{number}.icd").write_text(library)
        os.environ["OCL_ICD_VENDORS"] = folder
        try:
            yield
        finally:
            del os.environ["OCL_ICD_VENDORS"]


def intels_cpu_runtime() -> list[str]:
    """The library of Intel's CPU runtime, if its wheel is installed."""
    with suppress(PackageNotFoundError):
        own = files("intel-opencl-rt") or ()
        return [os.path.realpath(file.locate()) for file in own if file.name == "libintelocl.so"]
    return []


def _drivers() -> list[str]:
    """Libraries that the system announces, and those that nothing does."""
    found = []
    for announcement in sorted(SYSTEM_DRIVERS.glob("*.icd")):
        with suppress(OSError):
            found.append(announcement.read_text().strip())
    found += intels_cpu_runtime()
    nvidia = "libnvidia-opencl.so.1"
    if not any("nvidia-opencl" in library for library in found):
        with suppress(OSError):
            ctypes.CDLL(nvidia)
            found.append(nvidia)
    return found
