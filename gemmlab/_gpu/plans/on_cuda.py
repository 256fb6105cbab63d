"""Plans on CuPy's arrays: on the stream that is current in the calling thread, without events.

Such a product is waited for by its stream, and nobody asks for its time.
"""

from __future__ import annotations

from typing import Any

from cupy import ndarray
from cupy.cuda import alloc, get_current_stream
from cupy.cuda.runtime import getDevice

from gemmlab._backend import Params
from gemmlab._gpu.plans import table
from gemmlab._gpu.plans.launches import Launches, Place
from gemmlab._gpu.runtime import DeviceArray, Memory

ALIGNMENT = 128  # bytes: see `batches.Layout`


def key_of(a: DeviceArray, b: DeviceArray, out: DeviceArray | None, name: str, params: Params) -> table.Key | None:
    """Everything that decides the product but its memory; None if it must go the long way."""
    device = getDevice()
    if a.data.device_id != device or b.data.device_id != device:
        return None
    if out is None:
        return name, table.of_params(params), device, _part(a), _part(b)
    if out.data.device_id != device:
        return None
    return name, table.of_params(params), device, _part(a), _part(b), _part(out)


def _part(x: DeviceArray) -> table.Key:
    """What of an array belongs to the key."""
    return x.shape, x.strides, x.dtype, x.data.ptr % ALIGNMENT


def product(a: DeviceArray, b: DeviceArray, out: DeviceArray | None, name: str, params: Params) -> DeviceArray | None:
    """The product, started by a plan; None if it must go the long way."""
    key = key_of(a, b, out, name, params)
    plan = None if key is None else table.find(key)
    if plan is None:
        return None
    if out is not None and any(plan.overlaps(side, x.data.ptr, out.data.ptr) for side, x in enumerate((a, b))):
        return None
    doing = "allocating the result"
    try:
        c = ndarray(*plan.template) if out is None else out
        if out is None and c.data.ptr % ALIGNMENT:  # of an allocator of the user's
            return None
        doing = plan.prepared.doing
        plan.prepared.start(_memory(a), _memory(b), _memory(c))
    except Exception:
        with plan.queue.device_errors(doing):
            raise
    return c


def _memory(x: DeviceArray) -> Memory:
    """The aligned memory that the array begins in."""
    beyond = x.data.ptr % ALIGNMENT
    return x.data + -beyond if beyond else x.data


def suits(*arrays: DeviceArray) -> bool:
    """Whether a plan takes such memory: any of CuPy's."""
    return True


def start_of(x: DeviceArray) -> int:
    """The first element in the array's memory."""
    return int(x.data.ptr) % ALIGNMENT // int(x.dtype.itemsize)


def template(out: DeviceArray) -> tuple[Any, ...]:
    """The arguments that make an array like this result."""
    return out.shape, out.dtype


class PreparedLaunches:
    """Kernels and their arguments, but for memory."""

    doing = "starting a kernel"

    def __init__(self, launches: Launches) -> None:
        self.workspace_bytes = launches.workspace_bytes
        self.kernels = [
            (one, [(i, x.value) for i, x in enumerate(one.arguments) if isinstance(x, Place)])
            for one in launches.kernels
        ]

    def start(self, a: Memory, b: Memory, c: Memory) -> None:
        """Launch them on the current stream. Memory of the pool may be freed while that stream still uses it."""
        stream = get_current_stream()
        memories = a, b, c, alloc(self.workspace_bytes) if self.workspace_bytes else None
        for one, places in self.kernels:
            arguments: list[Any] = list(one.arguments)
            for i, place in places:
                arguments[i] = memories[place]
            one.kernel(one.groups, one.group, arguments, stream=stream)
