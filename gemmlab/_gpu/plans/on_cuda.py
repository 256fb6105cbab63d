"""Plans on CuPy's arrays: on the stream that is current in the calling thread.

Such a product is waited for by its stream; events are recorded only if someone asks for its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gemmlab._backend import Params
from gemmlab._gpu.plans import table
from gemmlab._gpu.plans.launches import Place
from gemmlab._gpu.runtime import CompiledLaunch, DeviceArray, Event, Memory, Native

if TYPE_CHECKING:
    from gemmlab._gpu.cuda import CudaQueue

ALIGNMENT = 128  # bytes: see `batches.Layout`


class Launcher:
    """Kernels and their arguments, but for memory."""

    doing = "starting a kernel"

    def __init__(self, queue: CudaQueue, kernels: Sequence[CompiledLaunch], workspace_bytes: int) -> None:
        self.queue, self.workspace_bytes = queue, workspace_bytes
        self.kernels = [
            (one, [(i, x.value) for i, x in enumerate(one.arguments) if isinstance(x, Place)]) for one in kernels
        ]

    def start(self, a: Memory, b: Memory, c: Memory, events: list[Event] | None = None) -> None:
        """Launch them: on the queue's stream with `events`, else on the current stream of the current device.

        Memory of the pool may be freed while that stream still uses it.
        """
        if events is not None:
            self._timed((a, b, c), events)
            return
        cuda = self.queue.cuda
        memories = a, b, c, cuda.alloc(self.workspace_bytes) if self.workspace_bytes else None
        stream = cuda.get_current_stream()
        for one, places in self.kernels:
            one.kernel(one.groups, one.group, _filled(one, places, memories), one.local_bytes, stream)

    def _timed(self, operands: tuple[Memory, ...], events: list[Event]) -> None:
        memories = *operands, self.queue.allocate(self.workspace_bytes) if self.workspace_bytes else None
        for one, places in self.kernels:
            arguments = _filled(one, places, memories)

            def launch(stream: Native, one: CompiledLaunch = one, arguments: list[Any] = arguments) -> None:
                one.kernel(one.groups, one.group, arguments, one.local_bytes, stream)

            events.append(self.queue.timed(self.doing, launch))


def _filled(one: CompiledLaunch, places: list[tuple[int, int]], memories: tuple[Memory, ...]) -> list[Any]:
    arguments: list[Any] = list(one.arguments)
    for i, place in places:
        arguments[i] = memories[place]
    return arguments


def key_of(a: DeviceArray, b: DeviceArray, out: DeviceArray | None, name: str, params: Params) -> table.Key:
    """Everything that decides the product but its memory."""
    if out is None:
        return name, table.of_params(params), _part(a), _part(b)
    return name, table.of_params(params), _part(a), _part(b), _part(out)


def _part(x: DeviceArray) -> table.Key:
    """What of an array belongs to the key."""
    return x.shape, x.strides, x.dtype, x.data.ptr % ALIGNMENT, x.data.device_id


def product(a: DeviceArray, b: DeviceArray, out: DeviceArray | None, name: str, params: Params) -> DeviceArray | None:
    """The product by its plan, started; None if there is none yet."""
    key = key_of(a, b, out, name, params)
    if out is None:
        plan = table.find(key)
    else:
        begin = out.data.ptr
        plan = table.find_with_out(
            key, lambda plan: any(plan.overlaps(side, x.data.ptr, begin) for side, x in enumerate((a, b)))
        )
    return None if plan is None else execute(plan, a, b, out)


def execute(
    plan: table.Plan, a: DeviceArray, b: DeviceArray, out: DeviceArray | None, events: list[Event] | None = None
) -> DeviceArray:
    """Start a plan on the current stream of the arrays' device."""
    queue: Any = plan.queue
    if queue.device.handle != queue.cuda.runtime.getDevice():
        with queue.on_stream(plan.prepared.doing):
            return _execute(plan, a, b, out, events)
    return _execute(plan, a, b, out, events)


def _execute(
    plan: table.Plan, a: DeviceArray, b: DeviceArray, out: DeviceArray | None, events: list[Event] | None
) -> DeviceArray:
    doing = "allocating the result"
    try:
        c = _new_array(plan) if out is None else out
        doing = plan.prepared.doing
        plan.prepared.start(aligned(a), aligned(b), aligned(c), events)
    except Exception:
        with plan.queue.device_errors(doing):
            raise
    return c


def _new_array(plan: table.Plan) -> DeviceArray:
    """A new array for a result. It begins at a multiple of 128 bytes, whatever allocator the user has set."""
    array = _ndarray(plan.shape, plan.dtype)
    if array.data.ptr % ALIGNMENT:
        whole = _ndarray((array.nbytes + ALIGNMENT,), "uint8").data
        array = _ndarray(plan.shape, plan.dtype, whole + -whole.ptr % ALIGNMENT)
    return array


def _ndarray(*given: Any) -> DeviceArray:
    from cupy import ndarray

    return ndarray(*given)


def aligned(x: DeviceArray) -> Memory:
    """The aligned memory that the array begins in."""
    beyond = x.data.ptr % ALIGNMENT
    return x.data + -beyond if beyond else x.data
