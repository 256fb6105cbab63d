"""Plans on pyopencl's arrays.

A plan has separate kernel objects. All arguments but the memory are set once: pyopencl takes 6 us for a number, and
0.1 us for memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyopencl as cl
from pyopencl.array import Array

from gemmlab._backend import Params
from gemmlab._gpu.plans import table
from gemmlab._gpu.plans.launches import Place
from gemmlab._gpu.runtime import CompiledLaunch, DeviceArray, Event, Memory, Native, WorkGroups

if TYPE_CHECKING:
    from gemmlab._gpu.opencl import OpenCLQueue

Ready: TypeAlias = tuple[Native, tuple[int, ...], WorkGroups, list[tuple[int, int]]]  # kernel, grid, places of memory
PARENT, OFFSET = cl.mem_info.ASSOCIATED_MEMOBJECT, cl.mem_info.OFFSET
MAX_POOLED = 4 << 20  # bytes of a result; the time to allocate a larger one is small beside its product
NULL = np.uintp(0)  # in place of a buffer: pyopencl before 2026.1 takes no None


class Launcher:
    """Kernels whose arguments are set, but for memory.

    A first start uses the kernel objects that all launches share. From the second on there are separate ones, whose
    numbers stay set: for a single start they would cost more than they save.
    """

    doing = "starting a kernel"

    def __init__(self, queue: OpenCLQueue, kernels: Sequence[CompiledLaunch], workspace_bytes: int) -> None:
        self.queue, self.workspace_bytes = queue, workspace_bytes
        self.given = kernels
        self.ready: list[Ready] = []
        self.is_used = False

    def start(self, a: Memory, b: Memory, c: Memory, events: list[Event] | None = None) -> Native:
        """Enqueue them; pyopencl's event of the last."""
        event, queue = None, self.queue
        with queue.lock:
            memories = a, b, c, queue.allocate(self.workspace_bytes) if self.workspace_bytes else None
            for kernel, size, group, places in self.ready or self._set():
                for i, place in places:
                    memory = memories[place]
                    kernel.set_arg(i, NULL if memory is None else memory)  # an array without elements has no buffer
                if queue.is_out_of_order:
                    cl.enqueue_barrier(queue.queue)
                event = cl.enqueue_nd_range_kernel(queue.queue, kernel, size, group)
                if events is not None:
                    events.append(queue.event(event))
        return event

    def _set(self) -> Iterator[Ready]:
        """Each kernel with its numbers set."""
        for one in self.given:
            kernel = cl.Kernel(one.kernel.kept_program, one.kernel.function_name) if self.is_used else one.kernel
            for i, x in enumerate(one.arguments):
                if not isinstance(x, Place):
                    kernel.set_arg(i, x)
            places = [(i, x.value) for i, x in enumerate(one.arguments) if isinstance(x, Place)]
            size = tuple(count * items for count, items in zip(one.groups, one.group, strict=True))
            found = kernel, size, one.group, places
            if self.is_used:
                self.ready.append(found)
            yield found
        self.is_used = True


def key_of(a: DeviceArray, b: DeviceArray, out: DeviceArray | None, name: str, params: Params) -> table.Key:
    """Everything that decides the product but its memory."""
    return (
        name, table.of_params(params), a.queue, _part(a), _part(b), None if out is None else _part(out),
    )  # fmt: skip


def _part(x: DeviceArray) -> table.Key:
    """What of an array belongs to the key."""
    return x.shape, x.strides, x.dtype, x.offset, type(x.base_data)


def product(a: DeviceArray, b: DeviceArray, out: DeviceArray | None, name: str, params: Params) -> DeviceArray | None:
    """The product by its plan, started; None if there is none yet."""
    if a.queue is None or b.queue is None or (out is not None and out.queue is None):
        return None  # an error
    key = key_of(a, b, out, name, params)
    if out is None:
        plan = table.find(key)
    else:
        plan = table.find_with_out(key, lambda plan: _overlaps(plan, a, b, out))
    return None if plan is None else execute(plan, a, b, out)


def execute(
    plan: table.Plan, a: DeviceArray, b: DeviceArray, out: DeviceArray | None, events: list[Event] | None = None
) -> DeviceArray:
    """Start a plan, after what other queues do with these arrays, which do not use their memory before its end."""
    queue: Any = plan.queue
    try:
        others = _others(queue, (a, b) if out is None else (a, b, out))
        c = _new_array(plan, a) if out is None else out
        older = len(c.events)
        event = plan.prepared.start(a.base_data, b.base_data, c.base_data, events)
        if event is None:  # an empty result
            return c
        if queue.is_out_of_order:
            c.add_event(event)
        else:
            c.events.append(event)
            if older:
                # Older events of an in-order queue are its own: the new one stands for them. With a longer list,
                # pyopencl would wait now and then. An event that keeps host memory would wait when it is dropped, so it
                # stays.
                c.events[:older] = [event for event in c.events[:older] if type(event) is not cl.Event]
        if others:
            queue.queue.flush()
            for other in others:
                cl.enqueue_barrier(other, wait_for=[event])
    except cl.Error:
        with queue.device_errors(plan.prepared.doing):
            raise
    return c


def _others(queue: OpenCLQueue, arrays: Sequence[DeviceArray]) -> list[Native]:
    """The other queues of these arrays. This queue waits for what they still do with them; the caller does not."""
    ours = queue.queue
    others, waits = [], []
    for x in arrays:
        if x.queue is not ours and x.queue != ours:
            others.append(x.queue)
        for event in x.events:
            if event.command_queue != ours:
                waits.append(event)
    if waits:
        with queue.lock:
            for event in waits:
                event.command_queue.flush()  # what is not on its way would be waited for for ever
            cl.enqueue_barrier(ours, wait_for=waits)
    return others


def _overlaps(plan: table.Plan, a: DeviceArray, b: DeviceArray, out: DeviceArray) -> bool:
    """Whether `out` shares bytes with an operand."""
    memory, begin = region_of(out.base_data, out.offset)
    for side, x in ((0, a), (1, b)):
        other, other_begin = region_of(x.base_data, x.offset)
        if (other is memory or other == memory) and plan.overlaps(side, other_begin, begin):
            return True
    return False


def region_of(memory: Memory, start: int) -> tuple[Memory, int]:
    """The whole buffer that memory is a part of, and the byte in it where an array begins."""
    try:
        parent = memory.get_info(PARENT)
    except cl.Error:
        return memory, start
    return (memory, start) if parent is None else (parent, start + memory.get_info(OFFSET))


def _new_array(plan: table.Plan, like: DeviceArray) -> DeviceArray:
    """A new array for a result, on the queue of `like`.

    pyopencl's constructor makes the first of a plan. It takes 12 us, most of them to check the shape, so later ones
    are made of the attributes of the first. A test compares the two.
    """
    queue: Any = plan.queue
    if plan.template is None:
        array = Array(like.queue, plan.shape, plan.dtype, allocator=like.allocator, data=_ANY)
        plan.template = {**vars(array), "queue": None, "base_data": None, "events": None, "allocator": None}
    array = Array.__new__(Array)
    array.__dict__.update(plan.template)
    array.queue, array.allocator, array.events = like.queue, like.allocator, []
    array.base_data = _memory(queue, array.nbytes, like.allocator) if array.nbytes else None
    return array


_ANY = object()  # for memory, which the constructor does not look at


def _memory(queue: OpenCLQueue, nbytes: int, allocator: Native) -> Memory:
    """Memory for an array that the caller gets: by the operand's allocator, else from the pool if it is small.

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
