"""SYCL, through dpctl.

DPC++ takes OpenCL C for devices of its OpenCL backend alone, and turns NVIDIA's and AMD's platforms away. That leaves
Intel's GPUs, and CPUs by Intel's CPU runtime, which the first use names to the OpenCL loader.

Work is ordered as dpnp orders its own: dpctl's `SequentialOrderManager` lists what is under way on each queue. A launch
waits for what is listed for the queues of its arguments, and is listed there itself. A host task after the kernel keeps
the arguments alive: to free memory that a kernel works on would at best wait for it, with the GIL held.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from gemmlab._errors import BackendUnavailable, GemmlabError, UnsupportedProblem
from gemmlab._gpu import runtime, runtime_named
from gemmlab._gpu.opencl import drivers_announced, intels_cpu_runtime
from gemmlab._gpu.runtime import KINDS, Adopted, Defines, Device, Event, HostArray, Queue, Runtime

SCALARS = {np.int32: ctypes.c_int, np.int64: ctypes.c_longlong, np.float32: ctypes.c_float, np.float64: ctypes.c_double}
_KEPT_QUEUES = 16  # of ours and of arrays that users bring


class Sycl(Runtime):
    """The devices of DPC++'s OpenCL backend."""

    name, package, extra = "sycl", "dpctl", "sycl"
    no_device = "pip install intel-opencl-rt brings a CPU device; a GPU needs Intel's OpenCL driver"

    def __init__(self) -> None:
        super().__init__()
        self._handles: list[Any] = []  # dpctl's devices, by index
        self._queues: list[SyclQueue] = []

    # devices

    def _find(self) -> list[Device]:
        was_here = "dpctl" in sys.modules
        with _cpu_runtime_announced():
            import dpctl

            handles = dpctl.get_devices(backend="opencl")
        if was_here and not handles:
            self.no_device = f"{Sycl.no_device}; if that is there, dpctl was asked for its devices before gemmlab was"
        devices = runtime.numbered([_described(number, handle) for number, handle in enumerate(handles)])
        self._handles = [handles[device.handle] for device in devices]
        return devices

    def _opened(self, device: Device) -> SyclQueue:
        import dpctl

        try:  # not "in_order": with host tasks in between, threads that share such a queue come to a deadlock
            queue = dpctl.SyclQueue(self._handles[device.index], property="enable_profiling")
        except dpctl.SyclQueueCreationError as error:
            raise runtime.failed(device, "opening it", error) from error
        return self._known(SyclQueue(device, queue))

    def _known(self, queue: SyclQueue) -> SyclQueue:
        """Enter a queue; kernels are built once a context, which a device's queues share by default."""
        self._queues = [ours for ours in self._queues[1 - _KEPT_QUEUES :] if not ours.failed]
        for ours in self._queues:
            if (ours.context, ours.device) == (queue.context, queue.device):
                queue.share_kernels(ours)
        self._queues.append(queue)
        return queue

    # device arrays of users

    def adopt(self, array: Any) -> Adopted:
        """A dpnp array or a `usm_ndarray`, with the queue that it came with."""
        usm, memory, itemsize = _usm(array), _allocation(array), array.dtype.itemsize
        place = usm.__sycl_usm_array_interface__
        start_bytes = place["data"][0] + place["offset"] * itemsize - memory._pointer
        strides = tuple(stride * itemsize for stride in usm.strides)
        queue = self._queue_of(array)
        return Adopted(array, queue, memory, memory._pointer, start_bytes, usm.shape, strides, usm.dtype)

    def _queue_of(self, array: Any) -> SyclQueue:
        """Our side of the queue that an array came with."""
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
            known = [facts for facts, handle in zip(self.devices, self._handles, strict=True) if handle == device]
            return self._known(SyclQueue(known[0] if known else _described(0, device), queue))

    def empty(self, like: Any, shape: tuple[int, ...]) -> Any:
        with self._queue_of(like).trouble("allocating the result"):
            return _library(like).empty(shape, dtype=like.dtype, usm_type=like.usm_type, sycl_queue=like.sycl_queue)

    def finish(self, out: Any, event: Event) -> None:
        """Nothing: the launch is listed where dpnp looks before it touches `out`."""

    def array(self, device: Device, host: HostArray) -> Any:
        import dpnp

        queue = self.queue(device)
        assert isinstance(queue, SyclQueue)
        with queue.trouble("copying to it"):
            return dpnp.asarray(host, sycl_queue=queue.queue)

    def values(self, array: Any) -> HostArray:
        with self._queue_of(array).trouble("copying from it"):
            return np.asarray(_library(array).asnumpy(array))

    def wait(self, array: Any) -> None:
        queue = self._queue_of(array)
        with queue.trouble("running a kernel"):
            _wait_for(queue.orders[queue.queue].submitted_events)


class SyclQueue(Queue):
    """A queue of dpctl's; with profiling, unless a user brought it."""

    cached = False  # dpctl gives no binary back
    stages = False  # and copies to no place inside an allocation

    def __init__(self, device: Device, queue: Any) -> None:
        from dpctl.utils import SequentialOrderManager

        super().__init__(device)
        self.queue, self.context = queue, queue.sycl_context
        self.orders = SequentialOrderManager  # by queue

    # memory

    def allocate(self, nbytes: int) -> Any:
        from dpctl.memory import MemoryUSMDevice

        with self.trouble(f"allocating {nbytes} bytes"):
            return MemoryUSMDevice(nbytes, queue=self.queue)

    def upload(self, memory: Any, array: HostArray) -> None:
        self._copy(memory, array, array.nbytes, "copying to it")

    def download(self, array: HostArray, memory: Any) -> None:
        self._copy(array, memory, array.nbytes, "copying from it")

    def pinned(self, nbytes: int) -> HostArray:
        from dpctl.memory import MemoryUSMHost

        with self.trouble(f"pinning {nbytes} bytes"):
            return np.frombuffer(MemoryUSMHost(nbytes, queue=self.queue), np.uint8)

    def _copy(self, target: Any, source: Any, nbytes: int, doing: str) -> None:
        """Copy after all work given so far, and wait; what only that work has kept alive is freed by then."""
        with self.trouble(doing):
            with self.lock:
                order = self.orders[self.queue]
                kept = order.host_task_events
                event = self.queue.memcpy_async(target, source, nbytes, order.submitted_events)
                order.add_event_pair(event, event)
            _wait_for([event, *kept])

    # compile

    def _from_source(self, source: str, name: str, defines: Defines) -> tuple[Any, bytes]:
        place = import_module("dpctl.compiler" if find_spec("dpctl.compiler") else "dpctl.program")
        build = getattr(place, "create_kernel_bundle_from_source", None) or place.create_program_from_source
        try:
            program = build(self.queue, source, "".join(f" -D {macro}={value}" for macro, value in defines.items()))
        except Exception:  # of another name in each version, and without the compiler's log
            self._build_through_opencl(source, name, defines)
            log = "(dpctl does not pass on what it says; pip install 'gemmlab[opencl]' brings it here)"
            raise runtime.build_failed(self.device, log) from None
        if not program.has_sycl_kernel(name):  # dpctl would give one that crashes
            raise runtime.build_failed(self.device, f"(nothing, but the text has no kernel {name!r})")
        return program.get_sycl_kernel(name), b""

    def _build_through_opencl(self, source: str, name: str, defines: Defines) -> None:
        """Build by the same driver where pyopencl is at hand, for its DeviceError has the compiler's log."""
        opencl = runtime_named("opencl")
        with suppress(BackendUnavailable):
            for device in opencl.devices:
                if (device.name, device.platform) == (self.device.name, self.device.platform):
                    opencl.queue(device).kernel(source, name, defines)

    def _from_binary(self, binary: bytes, name: str) -> Any:
        raise NotImplementedError("dpctl gives no binary back")

    # launch and event time

    def launch(
        self, kernel: Any, groups: tuple[int, int, int], group: tuple[int, int, int], arguments: Sequence[Any]
    ) -> SyclEvent:
        given = [SCALARS[type(x)](x) if type(x) in SCALARS else x for x in arguments]
        size = [many * items for many, items in zip(groups, group, strict=True)]
        with self.lock, self.trouble("starting a kernel"):
            orders = self.orders_of(given)
            before = [event for order in orders for event in order.submitted_events]
            # SYCL's last dimension is OpenCL's first.
            event = self.queue.submit_async(kernel, given, size[::-1], [*group[::-1]], before)
            kept = self.queue._submit_keep_args_alive(given, [event])
            for order in orders:
                order.add_event_pair(kept, event)
        return SyclEvent(self, event)

    def orders_of(self, arguments: Sequence[Any]) -> list[Any]:
        """What is under way: on this queue first, then on those that the arguments' memory came with."""
        queues = dict.fromkeys([self.queue, *(x.sycl_queue for x in arguments if hasattr(x, "sycl_queue"))])
        if any(queue.sycl_context != self.context for queue in queues):
            raise UnsupportedProblem("operands of different SYCL contexts: bring them to one with to_device")
        return [self.orders[queue] for queue in queues]

    @contextmanager
    def trouble(self, doing: str) -> Iterator[None]:
        import dpctl
        from dpctl.memory import USMAllocationError

        try:
            yield
        except GemmlabError:
            raise
        except USMAllocationError as error:
            raise runtime.out_of_memory(self.device, doing, error) from error
        except (dpctl.SyclKernelSubmitError, RuntimeError, ValueError) as error:
            self.failed = True
            raise runtime.failed(self.device, doing, error) from error


class SyclEvent(Event):
    """A kernel; it knows its time if its queue keeps times, as the queues of dpnp's users seldom do."""

    def __init__(self, queue: SyclQueue, event: Any) -> None:
        self.queue, self.event = queue, event

    def wait(self) -> None:
        with self.queue.trouble("running a kernel"):
            _wait_for([self.event])

    @property
    def kernel_s(self) -> float:
        """Seconds on the device, by its own clock; NaN where the queue keeps no times. Waits."""
        self.wait()
        timed = self.queue.queue.has_enable_profiling
        return (self.event.profiling_info_end - self.event.profiling_info_start) * 1e-9 if timed else float("nan")


def _wait_for(events: Sequence[Any]) -> None:
    for event in events:
        event.wait()  # it says nothing of a failure
        _ = event.execution_status  # ValueError after one


def _usm(array: Any) -> Any:
    """The `usm_ndarray` of a dpnp array, or the array itself."""
    return array.get_array() if hasattr(array, "get_array") else array


def _allocation(array: Any) -> Any:
    """The whole memory that an array lies in: the same for all its views."""
    usm = _usm(array)
    memory = getattr(usm, "usm_data", usm)  # what another queue came with is memory that is a part of memory
    whole = memory.reference_obj
    return _allocation(whole) if hasattr(whole, "__sycl_usm_array_interface__") else memory


def _library(array: Any) -> Any:
    """The module whose functions make an array's kind: dpnp, dpnp.tensor or dpctl.tensor."""
    return import_module(type(array).__module__.rpartition(".")[0])


def _described(handle: int, device: Any) -> Device:
    kind = device.device_type.name
    return Device(
        "sycl", 0, name=device.name.strip(), kind=kind if kind in KINDS else "accelerator",
        platform=device.sycl_platform.name.replace("(R)", "").strip(), driver=device.driver_version,
        compute_units=device.max_compute_units, group_limit=device.max_work_group_size,
        local_bytes=device.local_mem_size,
        memory_bytes=device.global_mem_size, allocation_bytes=device.max_mem_alloc_size,
        float64=device.has_aspect_fp64, handle=handle,
    )  # fmt: skip


@contextmanager
def _cpu_runtime_announced() -> Iterator[None]:
    """Have the OpenCL loader, which looks once, see Intel's CPU runtime of the wheel; a user's own list is his."""
    found = intels_cpu_runtime()
    if not found or "OCL_ICD_FILENAMES" in os.environ:
        yield
        return
    os.environ["OCL_ICD_FILENAMES"] = found[0]
    try:
        with drivers_announced():  # once CLBlast has the system's loader here, dpctl gets that one, which reads folders
            yield
    finally:
        del os.environ["OCL_ICD_FILENAMES"]
