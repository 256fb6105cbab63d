"""Plans on arrays of dpnp and dpctl."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmlab._backend import Params
from gemmlab._gpu.plans import table
from gemmlab._gpu.plans.launches import Place
from gemmlab._gpu.runtime import CompiledLaunch, DeviceArray, Event, Memory, Native

if TYPE_CHECKING:
    from gemmlab._gpu.sycl import SyclQueue

SCALARS: Mapping[type, Callable[[Native], Native]] = {
    np.int32: ctypes.c_int, np.int64: ctypes.c_longlong, np.float32: ctypes.c_float, np.float64: ctypes.c_double,
}


class Launcher:
    """Kernels and their arguments, but for memory.

    A launch waits for the events of its arguments' queues, and is added to their lists. A host task after the kernel
    keeps the arguments alive: freeing memory that a kernel still uses would block, with the GIL held.
    """

    doing = "starting a kernel"

    def __init__(self, queue: SyclQueue, kernels: Sequence[CompiledLaunch], workspace_bytes: int) -> None:
        self.queue, self.workspace_bytes = queue, workspace_bytes
        self.kernels = []
        for one in kernels:
            arguments = [SCALARS[type(x)](x) if type(x) in SCALARS else x for x in one.arguments]
            size = [count * items for count, items in zip(one.groups, one.group, strict=True)]
            # SYCL's last dimension is OpenCL's first one.
            self.kernels.append((one.kernel, arguments, size[::-1], [*one.group[::-1]]))

    def start(self, a: Memory, b: Memory, c: Memory, events: list[Event] | None = None) -> Native:
        """Submit them; dpctl's event of the last."""
        queue, event = self.queue, None
        memories = a, b, c, queue.allocate(self.workspace_bytes) if self.workspace_bytes else None
        for kernel, arguments, size, group in self.kernels:
            given = [memories[x.value] if isinstance(x, Place) else x for x in arguments]
            with queue.lock:
                orders = queue.orders_of(given)
                before = [event for order in orders for event in order.submitted_events]
                event = queue.queue.submit_async(kernel, given, size, group, before)
                host_task = queue.queue._submit_keep_args_alive(given, [event])
                for order in orders:
                    order.add_event_pair(host_task, event)
            if events is not None:
                events.append(queue.event(event))
        return event


def key_of(a: DeviceArray, b: DeviceArray, out: DeviceArray | None, name: str, params: Params) -> table.Key:
    """Everything that decides the product but its memory."""
    return (
        name, table.of_params(params), a.sycl_queue, _part(a), _part(b), None if out is None else _part(out),
    )  # fmt: skip


def _part(x: DeviceArray) -> table.Key:
    """What of an array belongs to the key."""
    return type(x), x.shape, x.strides, x.dtype, start_of(x), x.usm_type, x.sycl_device


def product(a: DeviceArray, b: DeviceArray, out: DeviceArray | None, name: str, params: Params) -> DeviceArray | None:
    """The product by its plan, started; None if there is none yet."""
    key = key_of(a, b, out, name, params)
    if out is None:
        plan = table.find(key)
    else:
        plan = table.find_with_out(key, lambda plan: _overlaps(plan, a, b, out))
    return None if plan is None else execute(plan, a, b, out)


def execute(
    plan: table.Plan, a: DeviceArray, b: DeviceArray, out: DeviceArray | None, events: list[Event] | None = None
) -> DeviceArray:
    """Start a plan; dpnp waits for the events that the launch has added to the list of its queue."""
    with plan.queue.device_errors("allocating the result"):
        c = library_of(a).empty(
            plan.shape, dtype=plan.dtype, usm_type=a.usm_type, sycl_queue=a.sycl_queue
        ) if out is None else out  # fmt: skip
    with plan.queue.device_errors(plan.prepared.doing):
        plan.prepared.start(allocation(a), allocation(b), allocation(c), events)
    return c


def _overlaps(plan: table.Plan, a: DeviceArray, b: DeviceArray, out: DeviceArray) -> bool:
    """Whether `out` shares bytes with an operand."""
    memory, begin = allocation(out)._pointer, start_of(out)
    return any(
        allocation(x)._pointer == memory and plan.overlaps(side, start_of(x), begin) for side, x in enumerate((a, b))
    )


def usm(array: DeviceArray) -> Any:
    """The `usm_ndarray` of a dpnp array, or the array itself."""
    return array.get_array() if hasattr(array, "get_array") else array


def start_of(array: DeviceArray) -> int:
    """The byte of its allocation where an array begins."""
    interface = usm(array).__sycl_usm_array_interface__
    begin: int = interface["data"][0] + interface["offset"] * array.dtype.itemsize
    return begin - int(allocation(array)._pointer)


def allocation(array: DeviceArray) -> Memory:
    """The whole allocation that contains an array: the same object for all its views."""
    memory: Native = getattr(usm(array), "usm_data", usm(array))  # after to_device, memory refers to the allocation
    whole = memory.reference_obj
    return allocation(whole) if hasattr(whole, "__sycl_usm_array_interface__") else memory


def library_of(array: DeviceArray) -> Native:
    """The module that creates arrays of this type: dpnp, dpnp.tensor or dpctl.tensor."""
    return import_module(type(array).__module__.rpartition(".")[0])
