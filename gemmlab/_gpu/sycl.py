"""SYCL, through dpctl.

DPC++ compiles OpenCL C only for devices of its OpenCL backend, without the platforms of NVIDIA and AMD. That leaves
Intel's GPUs, and CPUs with Intel's CPU runtime, which gemmlab lists for the OpenCL loader before its first use.

Work is ordered in the same way as dpnp orders it: dpctl's `SequentialOrderManager` lists the submitted events of each
queue; see `plans/on_sycl.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec

import numpy as np

from gemmlab._errors import BackendUnavailable, GemmlabError, UnsupportedProblem
from gemmlab._gpu import failures, runtime, runtime_named
from gemmlab._gpu.opencl_drivers import drivers_listed, intels_cpu_runtime
from gemmlab._gpu.operands import DeviceOperand
from gemmlab._gpu.plans.table import Executor, Prepared
from gemmlab._gpu.runtime import (
    DEVICE_KINDS,
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

_MAX_QUEUES = 16  # ours and those of users' arrays


class Sycl(Runtime):
    """The devices of DPC++'s OpenCL backend."""

    name, package, extra = "sycl", "dpctl", "sycl"
    no_device = "pip install intel-opencl-rt brings a CPU device; a GPU needs Intel's OpenCL driver"

    def __init__(self) -> None:
        super().__init__()
        self._handles: list[Native] = []  # dpctl's devices, by index
        self._queues: list[SyclQueue] = []

    # devices

    def _find(self) -> list[Device]:
        was_here = "dpctl" in sys.modules
        with _cpu_runtime_listed():
            import dpctl

            handles = dpctl.get_devices(backend="opencl")
        if was_here and not handles:
            why = "if that is installed, dpctl listed its devices before gemmlab was imported"
            self.no_device = f"{Sycl.no_device}; {why}"
        devices = runtime.numbered([_device_info(number, handle) for number, handle in enumerate(handles)])
        self._handles = [handles[device.handle] for device in devices]
        return devices

    def _open_queue(self, device: Device) -> SyclQueue:
        import dpctl

        try:  # not "in_order": with host tasks, threads that share such a queue deadlock
            queue = dpctl.SyclQueue(self._handles[device.index], property="enable_profiling")
        except dpctl.SyclQueueCreationError as error:
            raise failures.failed(device, "opening it", error) from error
        return self._registered(SyclQueue(device, queue))

    def _registered(self, queue: SyclQueue) -> SyclQueue:
        """Add a queue to the list; queues of one context share their kernels."""
        self._queues = [ours for ours in self._queues[1 - _MAX_QUEUES :] if not ours.failed]
        for ours in self._queues:
            if (ours.context, ours.device) == (queue.context, queue.device):
                queue.share_kernels(ours)
        self._queues.append(queue)
        return queue

    # device arrays of users

    @property
    def plans(self) -> Executor:
        from gemmlab._gpu.plans import on_sycl

        return on_sycl

    def adopt(self, array: DeviceArray) -> DeviceOperand:
        """A dpnp array or a `usm_ndarray`, with its queue."""
        from gemmlab._gpu.plans.on_sycl import allocation, start_of, usm

        memory, begin = allocation(array), start_of(array)
        strides = tuple(stride * array.dtype.itemsize for stride in usm(array).strides)
        region = memory._pointer, begin
        return DeviceOperand(array, self._queue_of(array), memory, begin, region, array.shape, strides, array.dtype)

    def _queue_of(self, array: DeviceArray) -> SyclQueue:
        """The queue object for an array's queue."""
        queue, device = array.sycl_queue, array.sycl_device
        if device.backend.name != "opencl":
            raise UnsupportedProblem(
                f"the array is on {device.name} by {device.backend.name}, where dpctl compiles no OpenCL C: set "
                "ONEAPI_DEVICE_SELECTOR='opencl:*' before Python starts"
            )
        with self._lock:
            for ours in self._queues:
                if ours.queue == queue and not ours.failed:
                    return ours
            known = [info for info, handle in zip(self.devices, self._handles, strict=True) if handle == device]
            return self._registered(SyclQueue(known[0] if known else _device_info(0, device), queue))

    def array(self, device: Device, host: HostArray) -> DeviceArray:
        import dpnp

        queue = self.queue(device)
        assert isinstance(queue, SyclQueue)
        with queue.device_errors("copying to it"):
            return dpnp.asarray(host, sycl_queue=queue.queue)

    def values(self, array: DeviceArray) -> HostArray:
        from gemmlab._gpu.plans.on_sycl import library_of

        with self._queue_of(array).device_errors("copying from it"):
            return np.asarray(library_of(array).asnumpy(array))

    def wait(self, array: DeviceArray) -> None:
        queue = self._queue_of(array)
        with queue.device_errors("running a kernel"):
            _wait_for(queue.orders[queue.queue].submitted_events)


class SyclQueue(Queue):
    """A queue of dpctl, with profiling unless it is a user's."""

    caches_programs = False  # dpctl does not return binaries
    can_stage = False  # dpctl cannot copy to an offset in an allocation

    def __init__(self, device: Device, queue: Native) -> None:
        from dpctl.utils import SequentialOrderManager

        super().__init__(device)
        self.queue, self.context = queue, queue.sycl_context
        self.orders = SequentialOrderManager  # the submitted events, by queue

    # memory

    def allocate(self, nbytes: int) -> Memory:
        from dpctl.memory import MemoryUSMDevice

        with self.device_errors(f"allocating {nbytes} bytes"):
            return MemoryUSMDevice(nbytes, queue=self.queue)

    def upload(self, memory: Memory, array: HostArray) -> None:
        self._copy(memory, array, array.nbytes, "copying to it")

    def download(self, array: HostArray, memory: Memory) -> None:
        self._copy(array, memory, array.nbytes, "copying from it")

    def pinned(self, nbytes: int) -> HostArray:
        from dpctl.memory import MemoryUSMHost

        with self.device_errors(f"pinning {nbytes} bytes"):
            return np.frombuffer(MemoryUSMHost(nbytes, queue=self.queue), np.uint8)

    def _copy(self, target: Native, source: Native, nbytes: int, doing: str) -> None:
        """Copy after all work submitted so far, and wait until that work has released its memory."""
        with self.device_errors(doing):
            with self.lock:
                order = self.orders[self.queue]
                host_tasks = order.host_task_events
                event = self.queue.memcpy_async(target, source, nbytes, order.submitted_events)
                order.add_event_pair(event, event)
            _wait_for([event, *host_tasks])

    # compile

    def _from_source(self, source: str, name: str, defines: Defines) -> tuple[Kernel, bytes]:
        compiler = import_module("dpctl.compiler" if find_spec("dpctl.compiler") else "dpctl.program")
        build = getattr(compiler, "create_kernel_bundle_from_source", None) or compiler.create_program_from_source
        try:
            program = build(self.queue, source, "".join(f" -D {macro}={value}" for macro, value in defines.items()))
        except Exception:  # its type differs between versions, and it does not contain the build log
            self._build_through_opencl(source, name, defines)
            log = "(dpctl does not return the log; pip install 'gemmlab[opencl]' to see it here)"
            raise failures.build_failed(self.device, log) from None
        if not program.has_sycl_kernel(name):  # dpctl would return a kernel that crashes
            raise failures.build_failed(self.device, f"(nothing, but the text has no kernel {name!r})")
        return program.get_sycl_kernel(name), b""

    def _build_through_opencl(self, source: str, name: str, defines: Defines) -> None:
        """Build with the same driver through pyopencl, if available: its DeviceError contains the build log."""
        opencl = runtime_named("opencl")
        with suppress(BackendUnavailable):
            for device in opencl.devices:
                if (device.name, device.platform) == (self.device.name, self.device.platform):
                    opencl.queue(device).kernel(source, name, defines)

    def _from_binary(self, binary: bytes, name: str) -> Kernel:
        raise NotImplementedError("dpctl does not return binaries")

    # launch and event time

    def launcher(self, kernels: Sequence[CompiledLaunch], workspace_bytes: int) -> Prepared:
        from gemmlab._gpu.plans.on_sycl import Launcher

        return Launcher(self, kernels, workspace_bytes)

    def event(self, event: Native) -> SyclEvent:
        """dpctl's event of this queue as ours."""
        return SyclEvent(self, event)

    def orders_of(self, arguments: Sequence[Native]) -> list[Native]:
        """The lists of submitted events: of this queue first, then of the queues of the arguments' memory."""
        queues = dict.fromkeys([self.queue, *(x.sycl_queue for x in arguments if hasattr(x, "sycl_queue"))])
        if any(queue.sycl_context != self.context for queue in queues):
            raise UnsupportedProblem("operands of different SYCL contexts: bring them to one with to_device")
        return [self.orders[queue] for queue in queues]

    @contextmanager
    def device_errors(self, doing: str) -> Iterator[None]:
        import dpctl
        from dpctl.memory import USMAllocationError

        try:
            yield
        except GemmlabError:
            raise
        except USMAllocationError as error:
            raise failures.out_of_memory(self.device, doing, error) from error
        except (dpctl.SyclKernelSubmitError, RuntimeError, ValueError) as error:
            self.failed = True
            raise failures.failed(self.device, doing, error) from error


class SyclEvent(Event):
    """A kernel; it has a time if its queue has profiling, which users' queues seldom have."""

    def __init__(self, queue: SyclQueue, event: Native) -> None:
        self.queue, self.event = queue, event

    def wait(self) -> None:
        with self.queue.device_errors("running a kernel"):
            _wait_for([self.event])

    @property
    def kernel_s(self) -> float:
        """Seconds on the device, measured by its clock; NaN if the queue has no profiling. Blocks."""
        self.wait()
        timed = self.queue.queue.has_enable_profiling
        return (self.event.profiling_info_end - self.event.profiling_info_start) * 1e-9 if timed else float("nan")


def _wait_for(events: Sequence[Native]) -> None:
    for event in events:
        event.wait()  # does not report a failure
        _ = event.execution_status  # ValueError after one


def _device_info(handle: int, device: Native) -> Device:
    kind = device.device_type.name
    return Device(
        "sycl", 0, name=device.name.strip(), kind=kind if kind in DEVICE_KINDS else "accelerator",
        platform=device.sycl_platform.name.replace("(R)", "").strip(), driver=device.driver_version,
        compute_units=device.max_compute_units, group_limit=device.max_work_group_size,
        local_bytes=device.local_mem_size,
        memory_bytes=device.global_mem_size, allocation_bytes=device.max_mem_alloc_size,
        float64=device.has_aspect_fp64, handle=handle, vector_bits=32 * int(device.native_vector_width_float),
        clock_mhz=device.max_clock_frequency,
    )  # fmt: skip


@contextmanager
def _cpu_runtime_listed() -> Iterator[None]:
    """Within the block, the OpenCL loader sees Intel's CPU runtime of the wheel, unless the user has set a list."""
    found = intels_cpu_runtime()
    if not found or "OCL_ICD_FILENAMES" in os.environ:
        yield
        return
    os.environ["OCL_ICD_FILENAMES"] = found[0]
    try:
        with drivers_listed():  # after CLBlast has loaded the system's loader, dpctl uses it; it reads `.icd` files
            yield
    finally:
        del os.environ["OCL_ICD_FILENAMES"]
