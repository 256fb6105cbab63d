"""Plans on pyopencl's arrays.

A plan has kernel objects of its own. All arguments but the memory are set once: pyopencl takes 6 us for a number, and
0.1 us for memory.
"""

from __future__ import annotations

import math
from typing import Any

import pyopencl as cl
from pyopencl.array import Array

from gemmlab._backend import Params
from gemmlab._gpu.opencl import OpenCLQueue, parent_buffer
from gemmlab._gpu.plans import table
from gemmlab._gpu.plans.launches import Launches, Place
from gemmlab._gpu.runtime import DeviceArray, Memory, Native

MAX_POOLED = 4 << 20  # bytes of a result; the time to allocate a larger one is small beside its product


def key_of(a: DeviceArray, b: DeviceArray, out: DeviceArray | None, name: str, params: Params) -> table.Key | None:
    """Everything that decides the product but its memory; None if it must go the long way."""
    queue = a.queue
    if queue is None:
        return None
    for x in (a, b) if out is None else (a, b, out):
        if x.queue is not queue and x.queue != queue:
            return None
        for event in x.events:
            if event.command_queue != queue:
                if event.command_execution_status != cl.command_execution_status.COMPLETE:
                    return None
                event.wait()  # returns at once, and makes what the other queue wrote visible
    return (
        name, table.of_params(params), queue, _part(a), _part(b), None if out is None else _part(out),
    )  # fmt: skip


def _part(x: DeviceArray) -> table.Key:
    """What of an array belongs to the key."""
    return x.shape, x.strides, x.dtype, x.offset, type(x.base_data)


def product(a: DeviceArray, b: DeviceArray, out: DeviceArray | None, name: str, params: Params) -> DeviceArray | None:
    """The product, started by a plan; None if it must go the long way."""
    key = key_of(a, b, out, name, params)
    plan = None if key is None else table.find(key)
    if plan is None or (out is not None and not _is_apart(plan, a, b, out)):
        return None
    try:
        c = _array_by_plan(plan, a) if out is None else out
        older = len(c.events)
        event = plan.prepared.start(a.base_data, b.base_data, c.base_data)
    except cl.Error:
        with plan.queue.device_errors(plan.prepared.doing):
            raise
    c.events.append(event)
    # The queue is in-order, and older events are its own: the new one stands for them. With a longer list, pyopencl
    # would wait now and then. An event that keeps host memory would wait when it is dropped, so it stays.
    c.events[:older] = [event for event in c.events[:older] if type(event) is not cl.Event]
    return c


def suits(*arrays: DeviceArray) -> bool:
    """Whether the arrays are in buffers, not in shared virtual memory."""
    return all(isinstance(x.base_data, cl.MemoryObjectHolder) for x in arrays)


def start_of(x: DeviceArray) -> int:
    """The first element in the array's memory."""
    return int(x.offset) // int(x.dtype.itemsize)


def template(out: DeviceArray) -> dict[str, Any]:
    """The attributes of arrays like this result, but for those of one array alone."""
    return {**vars(out), "queue": None, "base_data": None, "events": None, "allocator": None, "offset": 0}


def new_array(queue: OpenCLQueue, shape: tuple[int, ...], like: DeviceArray) -> DeviceArray:
    """A new array as `like`, on its queue: its memory is that of `_memory`."""
    nbytes = math.prod(shape) * like.dtype.itemsize
    memory = _memory(queue, nbytes, like.allocator) if nbytes else None
    return Array(like.queue, shape, like.dtype, allocator=like.allocator, data=memory)


def _memory(queue: Native, nbytes: int, allocator: Native) -> Memory:
    """Memory for an array that the caller gets: by the operand's own allocator, else from the pool if it is small.

    A driver may wait for all its work when memory is freed; the pool does not. What was freed is used again in the
    order of this queue, so work on another queue must be done before the array is freed.
    """
    try:
        if allocator is not None:
            return allocator(nbytes)
        if nbytes > MAX_POOLED or queue.is_out_of_order:
            return cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, nbytes)
        with queue.lock:
            return queue.pool.allocate(nbytes)
    except cl.Error:
        with queue.device_errors(f"allocating {nbytes} bytes"):
            raise


class PreparedLaunches:
    """Kernels whose arguments are set, but for memory."""

    doing = "starting a kernel"

    def __init__(self, queue: OpenCLQueue, launches: Launches) -> None:
        self.queue, self.workspace_bytes = queue, launches.workspace_bytes
        self.kernels = []
        for one in launches.kernels:
            kernel = cl.Kernel(one.kernel.kept_program, one.kernel.function_name)
            places = [(i, x.value) for i, x in enumerate(one.arguments) if isinstance(x, Place)]
            for i, x in enumerate(one.arguments):
                if not isinstance(x, Place):
                    kernel.set_arg(i, x)
            size = tuple(count * items for count, items in zip(one.groups, one.group, strict=True))
            self.kernels.append((kernel, size, one.group, places))

    def start(self, a: Memory, b: Memory, c: Memory) -> Native:
        """Enqueue them; pyopencl's event of the last one."""
        event, queue = None, self.queue
        with queue.lock:
            memories = a, b, c, queue.allocate(self.workspace_bytes) if self.workspace_bytes else None
            for kernel, size, group, places in self.kernels:
                for i, place in places:
                    kernel.set_arg(i, memories[place])
                event = cl.enqueue_nd_range_kernel(queue.queue, kernel, size, group)
        return event


def _is_apart(plan: table.Plan, a: DeviceArray, b: DeviceArray, out: DeviceArray) -> bool:
    """Whether `out` shares no bytes with the operands, as far as is known without asking for the parents' parents."""
    memory = out.base_data
    if parent_buffer(memory) is not None:
        return False
    for side, x in enumerate((a, b)):
        if x.base_data is memory or x.base_data == memory:
            if plan.overlaps(side, x.offset, out.offset):
                return False
        elif parent_buffer(x.base_data) is not None:
            return False
    return True


def _array_by_plan(plan: table.Plan, like: DeviceArray) -> DeviceArray:
    """As `new_array`. The constructor takes 12 us, most of them to check the shape."""
    array = Array.__new__(Array)
    array.__dict__.update(plan.template)
    array.queue, array.allocator, array.events = like.queue, like.allocator, []
    array.base_data = _memory(plan.queue, array.nbytes, like.allocator)
    return array
