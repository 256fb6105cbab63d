"""Ways to give a device the host's data, and to get its results back.

    copies        pageable arrays, copied to device memory and back
    pinned        page-locked arrays, copied likewise
    mapped        buffers in host memory that the device reads and writes where they are
    svm           OpenCL's coarse-grained shared virtual memory
    usm-shared    SYCL's shared memory: pages move to where they are used
    usm-host      SYCL's host memory: the device reads it over the bus
    managed       CUDA's managed memory: pages move to where they are used

The host writes a region, `bring` makes that visible to the device, and `fetch` makes visible to the host what the
device wrote.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gemmlab._errors import UnsupportedProblem
from gemmlab._gpu.runtime import HostArray

Handle = Any  # of a runtime's types, which have no stubs: a queue, a buffer, a pointer
Allocate = Callable[[Handle, int], tuple[Handle, HostArray]]  # from a queue and bytes
Mode = Callable[[Handle, int], "Region"]


class Region:
    """Bytes of the host and of the device, which are copied."""

    def __init__(self, queue: Handle, nbytes: int) -> None:
        self.queue, self.nbytes = queue, nbytes
        self.memory: Handle = queue.allocate(nbytes)  # the kernel's argument
        self.host = self.host_bytes()

    def host_bytes(self) -> HostArray:
        """Memory of the host."""
        return np.zeros(self.nbytes, np.uint8)

    def writable(self) -> HostArray:
        """The host's bytes, to be written before `bring`."""
        return self.host

    def bring(self) -> None:
        """Make what the host wrote visible to the device."""
        self.queue.upload(self.memory, self.host)

    def fetch(self) -> HostArray:
        """Make what the device wrote visible to the host."""
        self.queue.download(self.host, self.memory)
        return self.host

    def release(self) -> None:
        """Give back to the device what the host has fetched."""


class Pinned(Region):
    """The same with page-locked memory of the host."""

    def host_bytes(self) -> HostArray:
        array: HostArray = self.queue.pinned(self.nbytes)
        return array


class Shared(Region):
    """Memory that host and device both use; `allocate` gives it as a kernel's argument and as bytes of the host."""

    def __init__(self, allocate: Allocate, queue: Handle, nbytes: int) -> None:
        self.queue, self.nbytes = queue, nbytes
        self.memory, self.host = allocate(queue, nbytes)

    def bring(self) -> None:
        """Nothing: pages move by themselves, or not at all."""

    def fetch(self) -> HostArray:
        return self.host


class Mapped(Shared):
    """OpenCL buffers in host memory, which the host maps for as long as it uses them."""

    def __init__(self, allocate: Allocate, queue: Handle, nbytes: int) -> None:
        super().__init__(allocate, queue, nbytes)
        self.mapped: list[Handle] = []

    def writable(self) -> HostArray:
        """Map the memory for the host, until `bring` or `release`."""
        import pyopencl as cl

        both: Handle = cl.map_flags.READ | cl.map_flags.WRITE
        array: HostArray
        array, _ = cl.enqueue_map_buffer(self.queue.queue, self.memory, both, 0, (self.nbytes,), np.dtype(np.uint8))
        self.mapped.append(array.base)
        return array

    def bring(self) -> None:
        self.release()

    def fetch(self) -> HostArray:
        return self.writable()

    def release(self) -> None:
        for mapped in self.mapped:
            mapped.release(self.queue.queue)
        self.mapped = []


class SharedVirtual(Mapped):
    """OpenCL's coarse-grained shared virtual memory."""

    def writable(self) -> HostArray:
        self.mapped.append(self.memory.map_rw(self.queue.queue))
        return np.asarray(self.mapped[-1].array)


def _usm(kind: str, queue: Handle, nbytes: int) -> tuple[Handle, HostArray]:
    from dpctl import memory

    made = getattr(memory, kind)(nbytes, queue=queue.queue)
    return made, np.ndarray(nbytes, np.uint8, buffer=made)


def _managed(queue: Handle, nbytes: int) -> tuple[Handle, HostArray]:
    import cupy

    with queue.on_stream(f"allocating {nbytes} managed bytes"):
        memory = cupy.cuda.malloc_managed(nbytes)
    return memory, np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(memory.ptr))


def _cuda_mapped(queue: Handle, nbytes: int) -> tuple[Handle, HostArray]:
    import cupy

    view = queue.pinned(nbytes)  # it has the same address on the device
    whole = cupy.cuda.UnownedMemory(view.ctypes.data, nbytes, view, queue.device.handle)
    return cupy.cuda.MemoryPointer(whole, 0), view


def _cl_mapped(queue: Handle, nbytes: int) -> tuple[Handle, HostArray]:
    import pyopencl as cl

    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
    return cl.Buffer(queue.context, flags, nbytes), np.empty(0, np.uint8)  # the host maps it


def _svm(queue: Handle, nbytes: int) -> tuple[Handle, HostArray]:
    import pyopencl as cl

    if not queue.queue.device.svm_capabilities & cl.device_svm_capabilities.COARSE_GRAIN_BUFFER:
        raise UnsupportedProblem(f"{queue.device.label} has no shared virtual memory")
    array: Handle = cl.svm_empty(queue.context, cl.svm_mem_flags.READ_WRITE, nbytes, np.dtype(np.uint8))
    return cl.SVM(array), array


COPIES: dict[str, Mode] = {"copies": Region, "pinned": Pinned}
MODES: dict[str, dict[str, Mode]] = {
    "opencl": COPIES | {"mapped": partial(Mapped, _cl_mapped), "svm": partial(SharedVirtual, _svm)},
    "sycl": COPIES | {f"usm-{kind.lower()}": partial(Shared, partial(_usm, f"MemoryUSM{kind}"))
                      for kind in ("Shared", "Host")},
    "cuda": COPIES | {"mapped": partial(Shared, _cuda_mapped), "managed": partial(Shared, _managed)},
}  # fmt: skip
