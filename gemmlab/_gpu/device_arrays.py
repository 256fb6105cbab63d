"""Device arrays of users, and arrays of other libraries that DLPack exchanges without a copy.

The result is an array of the type that the user passed in. Only packages that the user has imported are imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from gemmlab._errors import BackendUnavailable, UnsupportedProblem
from gemmlab._gpu import runtime_named
from gemmlab._gpu.runtime import Adopted, DeviceArray, HostArray, Memory, Queue
from gemmlab._problem import AnyArray, Problem

if TYPE_CHECKING:
    from gemmlab._gpu.backend import DeviceBackend

# Packages whose arrays are on a device, and the runtime that multiplies them.
OWNERS = {"pyopencl": "opencl", "dpnp": "sycl", "dpctl": "sycl", "cupy": "cuda"}
# DLPack's device types (dlpack.h), and the package that takes arrays on them without a copy.
DLPACK_CPU = 1
DLPACK = {2: "cupy", 13: "cupy", 14: "dpnp"}
_ADDRESS_RANGE = 1 << 46  # bytes of address space for each memory object


@dataclass
class DeviceOperands:
    """The device memory of a problem's operands.

    `Problem` checks NumPy arrays. So each device array gets a proxy: a NumPy array of the same shape and strides, whose
    address stands for a memory object and an offset into it. A proxy has no memory and must not be read.
    """

    queue: Queue
    memories: list[Memory] = field(default_factory=list)
    _slots: dict[int, int] = field(default_factory=dict)

    def proxy(self, adopted: Adopted) -> HostArray:
        """The proxy of a device array; arrays in the same memory have proxies in the same address range."""
        slot = self._slots.setdefault(adopted.address, len(self.memories))
        if slot == len(self.memories):
            self.memories.append(adopted.memory)
        return np.asarray(_ArrayInterface(adopted, (slot + 1) * _ADDRESS_RANGE + adopted.start_bytes))

    def locate(self, x: HostArray) -> tuple[Memory, int]:
        """The memory object of a view of a proxy, and the byte in it where the view begins."""
        slot, start_bytes = divmod(x.__array_interface__["data"][0], _ADDRESS_RANGE)
        return self.memories[slot - 1], start_bytes


class _ArrayInterface:
    def __init__(self, adopted: Adopted, address: int) -> None:
        self.__array_interface__ = {
            "data": (address, False), "shape": adopted.shape, "strides": adopted.strides,
            "typestr": adopted.dtype.str, "version": 3,
        }  # fmt: skip


def owner(x: object) -> str | None:
    """The runtime of a device array, "dlpack" for an array that DLPack can exchange, None for anything else."""
    if isinstance(x, np.ndarray | np.generic):
        return None
    root = type(x).__module__.partition(".")[0]
    if root in OWNERS and hasattr(x, "dtype"):
        return OWNERS[root]
    return "dlpack" if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__") else None


def common_owner(operands: Sequence[object]) -> str | None:
    """The owner of all operands; None if all are host arrays, UnsupportedProblem if the owners differ."""
    owners = [owner(x) for x in operands]
    if len({*owners}) > 1 or ("dlpack" in owners and len({type(x) for x in operands}) > 1):
        kinds = " and ".join(dict.fromkeys(f"{type(x).__module__}.{type(x).__qualname__}" for x in operands))
        raise UnsupportedProblem(f"operands of different kinds ({kinds}): bring all to one device and kind of array")
    return owners[0]


def exchanged(x: AnyArray) -> tuple[AnyArray, Callable[[AnyArray], AnyArray]]:
    """Another library's array as one that gemmlab multiplies, in the same memory, and a function that converts back."""
    device = int(x.__dlpack_device__()[0])
    library = sys.modules[type(x).__module__.partition(".")[0]]
    space = x.__array_namespace__() if hasattr(x, "__array_namespace__") else library
    if device == DLPACK_CPU:
        return np.from_dlpack(x), space.from_dlpack
    if device not in DLPACK:
        what = f"{type(x).__name__} is on a device of DLPack's type {device}"
        raise UnsupportedProblem(f"{what}, which gemmlab does not support: copy it to the host")
    try:
        known = import_module(DLPACK[device])
    except ImportError as error:
        raise BackendUnavailable(f"{type(x).__name__} needs {DLPACK[device]} here; fix: pip install it") from error
    return known.from_dlpack(x), space.from_dlpack


def problem_of(
    backend: DeviceBackend, a: DeviceArray, b: DeviceArray, out: DeviceArray | None, axes: object = None
) -> tuple[Problem, DeviceArray]:
    """The problem of multiplying arrays on one device, checked as NumPy's matmul does, and the array to fill."""
    runtime = backend.runtime
    given = [runtime.adopt(x) for x in (a, b, out) if x is not None]
    operands = DeviceOperands(_common_queue(backend, given))
    runtime.wait_for_others(operands.queue, [adopted.array for adopted in given])
    proxies = [operands.proxy(adopted) for adopted in given]
    problem = Problem.from_call(*proxies, axes=axes)
    if out is None:
        out = runtime.empty(a, problem.result_shape)
        proxies.append(operands.proxy(runtime.adopt(out)))
        problem = Problem.from_call(*proxies, axes=axes)
    problem.device_operands = operands
    return problem, out


def problem_to_explain(backend: DeviceBackend, a: DeviceArray, b: DeviceArray) -> Problem:
    """As `problem_of`, for a product that is not computed: nothing is allocated on the device."""
    given = [backend.runtime.adopt(x) for x in (a, b)]
    operands = DeviceOperands(_common_queue(backend, given))
    problem = Problem.from_call(*map(operands.proxy, given))
    problem.device_operands = operands
    return problem


def _common_queue(backend: DeviceBackend, given: Sequence[Adopted]) -> Queue:
    """The queue for a product of these arrays; UnsupportedProblem if one product cannot take them."""
    first = given[0]
    if len({adopted.queue.device for adopted in given}) > 1:
        labels = " and ".join(dict.fromkeys(adopted.queue.device.label for adopted in given))
        raise UnsupportedProblem(f"operands on {labels}: bring them to one device")
    if backend.selector and (label := backend.device.label) != first.queue.device.label:
        raise UnsupportedProblem(f"{backend.name} is on {label}, the operands on {first.queue.device.label}")
    if len({adopted.dtype for adopted in given}) > 1:
        dtypes = ", ".join(str(adopted.dtype) for adopted in given)
        raise UnsupportedProblem(f"on a device all operands have one dtype, not {dtypes}: convert with astype")
    if any(adopted.start_bytes % adopted.dtype.itemsize for adopted in given):
        raise UnsupportedProblem("an operand does not begin at a whole element of its memory: copy it")
    return first.queue


def to_device(backend: DeviceBackend, host: HostArray) -> DeviceArray:
    """Copy a host array to the backend's device, as an array of the runtime's usual type."""
    return backend.runtime.array(backend.device, np.ascontiguousarray(host))


def to_host(array: DeviceArray) -> HostArray:
    """Copy a device array to the host, after the work on it is done."""
    return runtime_named(str(owner(array))).values(array)


def wait(array: DeviceArray) -> None:
    """Block until the work on a device array is done."""
    runtime_named(str(owner(array))).wait(array)
