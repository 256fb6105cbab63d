"""Arrays of others: those that live on a device, and those that DLPack can bring over without a copy.

What a user brings decides what he gets back. Nothing is imported here that he has not imported himself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from gemmlab._errors import BackendUnavailable, UnsupportedProblem
from gemmlab._gpu import runtime_named
from gemmlab._gpu.backend import DeviceBackend
from gemmlab._gpu.runtime import Adopted, Queue
from gemmlab._problem import Problem

# Whose types live on a device, and through which runtime.
OWNERS = {"pyopencl": "opencl", "dpnp": "sycl", "dpctl": "sycl", "cupy": "cuda"}
# DLPack's device types (dlpack.h) that another library's arrays bring, and who takes them without a copy.
DLPACK_CPU = 1
DLPACK = {2: "cupy", 13: "cupy", 14: "dpnp"}
_ROOM = 1 << 46  # bytes of address space for each memory object, in the stand-ins


@dataclass
class Place:
    """Where the stand-ins of a problem really lie: a queue, and memory objects by stand-in address."""

    queue: Queue
    memories: list[Any] = field(default_factory=list)
    _slots: dict[int, int] = field(default_factory=dict)

    def stand_in(self, adopted: Adopted) -> Any:
        """An array of the same shape and strides that holds no memory; equal memory gives equal addresses."""
        slot = self._slots.setdefault(adopted.address, len(self.memories))
        if slot == len(self.memories):
            self.memories.append(adopted.memory)
        return np.asarray(_StandIn(adopted, (slot + 1) * _ROOM + adopted.start_bytes))

    def where(self, x: Any) -> tuple[Any, int]:
        """The memory object of a stand-in's view, and the byte in it where the view begins."""
        slot, start_bytes = divmod(x.__array_interface__["data"][0], _ROOM)
        return self.memories[slot - 1], start_bytes


class _StandIn:
    def __init__(self, adopted: Adopted, address: int) -> None:
        self.__array_interface__ = {
            "data": (address, False), "shape": adopted.shape, "strides": adopted.strides,
            "typestr": adopted.dtype.str, "version": 3,
        }  # fmt: skip


def owner(x: Any) -> str | None:
    """The runtime whose array this is, "dlpack" for one that another library can hand over, None for any other."""
    if isinstance(x, np.ndarray | np.generic):
        return None
    root = type(x).__module__.partition(".")[0]
    if root in OWNERS and hasattr(x, "dtype"):
        return OWNERS[root]
    return "dlpack" if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__") else None


def common_owner(operands: Sequence[Any]) -> str | None:
    """The owner of all operands; None where all are the host's, UnsupportedProblem where they differ."""
    owners = [owner(x) for x in operands]
    if len({*owners}) > 1 or ("dlpack" in owners and len({type(x) for x in operands}) > 1):
        kinds = " and ".join(dict.fromkeys(f"{type(x).__module__}.{type(x).__qualname__}" for x in operands))
        raise UnsupportedProblem(f"operands of different kinds ({kinds}): bring all to one device and kind of array")
    return owners[0]


def exchanged(x: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Another library's array as one that we know, in the same memory, and the way back."""
    device = int(x.__dlpack_device__()[0])
    library = sys.modules[type(x).__module__.partition(".")[0]]
    space = x.__array_namespace__() if hasattr(x, "__array_namespace__") else library
    if device == DLPACK_CPU:
        return np.from_dlpack(x), space.from_dlpack
    if device not in DLPACK:
        raise UnsupportedProblem(f"{type(x).__name__} lives on a device of DLPack's type {device}, which gemmlab lacks")
    try:
        known = import_module(DLPACK[device])
    except ImportError as error:
        raise BackendUnavailable(f"{type(x).__name__} needs {DLPACK[device]} here; fix: pip install it") from error
    return known.from_dlpack(x), space.from_dlpack


def problem_of(backend: DeviceBackend, a: Any, b: Any, out: Any, axes: Any = None) -> tuple[Problem, Any]:
    """The problem of multiplying arrays on one device, checked as NumPy's matmul checks, and the array to fill."""
    runtime = backend.runtime
    given = [runtime.adopt(x) for x in (a, b, out) if x is not None]
    place = Place(_one_queue(backend, given))
    stand_ins: list[Any] = [place.stand_in(adopted) for adopted in given]
    problem = Problem.from_call(*stand_ins, axes=axes)
    if out is None:
        out = runtime.empty(a, problem.result_shape)
        stand_ins.append(place.stand_in(runtime.adopt(out)))
        problem = Problem.from_call(*stand_ins, axes=axes)
    problem.place = place
    return problem, out


def _one_queue(backend: DeviceBackend, given: Sequence[Adopted]) -> Queue:
    """The queue of arrays that one product can take; UnsupportedProblem for others."""
    first = given[0]
    if len({adopted.queue.device for adopted in given}) > 1:
        places = " and ".join(dict.fromkeys(adopted.queue.device.label for adopted in given))
        raise UnsupportedProblem(f"operands on {places}: bring them to one device")
    if backend.wanted and (label := backend.device.label) != first.queue.device.label:
        raise UnsupportedProblem(f"{backend.name} is on {label}, the operands on {first.queue.device.label}")
    if len({adopted.dtype for adopted in given}) > 1:
        dtypes = ", ".join(str(adopted.dtype) for adopted in given)
        raise UnsupportedProblem(f"on a device all operands have one dtype, not {dtypes}: convert with astype")
    if any(adopted.start_bytes % adopted.dtype.itemsize for adopted in given):
        raise UnsupportedProblem("an operand does not begin at a whole element of its memory: copy it")
    return first.queue


def to_device(backend: DeviceBackend, host: Any) -> Any:
    """A host array as an array of the runtime's own kind, on the backend's device."""
    return backend.runtime.array(backend.device, np.ascontiguousarray(host))


def to_host(array: Any) -> Any:
    """A device array's values, once the work on it is done."""
    return runtime_named(str(owner(array))).values(array)


def wait(array: Any) -> None:
    """Return when the work on a device array is done."""
    runtime_named(str(owner(array))).wait(array)
