"""The host code of a product on a device, the same for every runtime.

    host arrays       are copied to the device, multiplied and copied back; `gemm` returns when `out` is filled.
                      A large product is streamed, see `streaming`
    device arrays     are multiplied on their device; `gemm` returns at once, with a handle

Both are planned first, see `plans`. A backend says by `prepared` what one batch of products launches.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from gemmlab._backend import Availability, FullBackend, Param, Params, check_params
from gemmlab._errors import BackendUnavailable
from gemmlab._gpu import configurations, streaming
from gemmlab._gpu.batches import BatchedLayout, GemmSize, Layout, Operand, row_major
from gemmlab._gpu.ladder.rung import Rung, aligned_ld
from gemmlab._gpu.ladder.traffic import traffic_bytes
from gemmlab._gpu.plans.making import Request, planned
from gemmlab._gpu.plans.table import Prepared
from gemmlab._gpu.runtime import Device, DeviceArray, Event, HostArray, Memory, Queue, Runtime
from gemmlab._problem import Problem

Uploaded: TypeAlias = tuple[Memory, BatchedLayout]  # a host operand on the device
MAX_PREPARED = 256  # that a rung keeps
MAX_EDGE = 2**31 - 1 - 4096  # sizes are 32-bit integers in the kernels, and the last tile may exceed the matrix


class Handle:
    """Products that a device is computing."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events

    def wait(self) -> None:
        """Block until all of them are done."""
        for event in self.events:
            event.wait()

    @property
    def kernel_s(self) -> float:
        """Seconds of the kernels, measured by the device's clock; NaN if it does not measure them. Blocks."""
        return sum(event.kernel_s for event in self.events)


class DeviceBackend(FullBackend):
    """A backend on the devices of a runtime; `selector` chooses one of them, see `Runtime.device`."""

    kind: str
    name: str
    source: str
    params: Mapping[str, Param]
    dtypes: tuple[str, ...] = ("float32", "float64")
    runtime: Runtime

    def __init__(self, runtime: Runtime, name: str, selector: str = "") -> None:
        self.runtime, self.selector = runtime, selector
        self.name = f"{name}:{selector}" if selector else name

    @property
    def summary(self) -> str:
        """A description in half a line."""
        raise NotImplementedError

    @property
    def device(self) -> Device:
        """The device that host arrays go to."""
        return self.runtime.device(self.selector)

    @property
    def queue(self) -> Queue:
        """The queue of that device."""
        return self.runtime.queue(self.device)

    def probe(self) -> Availability:
        """Available if the runtime has the device and everything that the backend needs can be loaded."""
        try:
            device = self.device
            self.load()
        except BackendUnavailable as error:
            reason, _, fix = str(error).partition("; fix: ")
            return Availability(False, reason, fix)
        return Availability(True, device=device.label)

    def load(self) -> None:
        """Load what the backend needs besides the runtime; BackendUnavailable, with the fix, if that is missing."""

    def stored(self, problem: Problem) -> np.dtype[Any]:
        """The dtype of A and B as the device gets them: that of C, but where C has the sums as they are."""
        found: np.dtype[Any] = problem.dtype
        if problem.queue is not None:
            found = problem.on_device[0].dtype
        elif (given := self._of_sums(problem)) is not None:
            found = given[0].dtype
        return found

    def _of_sums(self, problem: Problem) -> tuple[HostArray, HostArray] | None:
        """Host operands that are not converted, since C has their sums as they are."""
        given = problem.unconverted
        return None if given is None or self.sums.get(given[0].dtype.name) != problem.dtype.name else given

    def supports(self, problem: Problem) -> bool | str:
        stored = self.stored(problem)
        if stored.name not in self.dtypes:
            *others, last = self.dtypes
            return f"{self.name} multiplies {', '.join(others)} and {last}, not {stored}: convert with astype"
        if stored != problem.dtype and self.sums.get(stored.name) != problem.dtype.name:
            return f"{self.name} multiplies {stored} into {self.sums.get(stored.name, stored)}, not {problem.dtype}"
        if max(problem.m, problem.n, problem.k) > MAX_EDGE:
            return f"{self.name} takes edges up to {MAX_EDGE}, not {problem.m} x {problem.n} x {problem.k}"
        device = self._queue_for(problem).device
        if problem.dtype.char in "dD" and not device.float64:
            return f"{device.label} has no float64: convert with astype(numpy.float32), or take another device"
        return True

    def resolve(self, problem: Problem, params: Params) -> Params:
        """All parameters for this problem: the given ones, and defaults for the rest."""
        return {name: value for name, value in params.items() if value is not None}

    def gemm(self, problem: Problem, **params: Any) -> Handle:
        """Fill `problem.out`. For device arrays: start to fill it."""
        check_params(self, params)
        resolved = self.resolve(problem, params)
        if self._is_streamed(problem):
            return Handle(streaming.multiply(self, self.queue, problem, resolved))
        if problem.queue is None:
            return self.multiply_host(problem, resolved)
        work = self.planned(problem, resolved)
        a, b, c = (x.memory for x in problem.on_device)
        return Handle(problem.queue.start(work, a, b, c))

    def planned(self, problem: Problem, params: Params) -> Prepared:
        """The product of device arrays, ready to be started with their memory. Counts the operands that it copies."""
        assert problem.queue is not None
        a, b, c = problem.on_device
        layouts, overlaps = (a.layout, b.layout, c.layout), problem.caller_out is not None
        request = Request(a.dtype, c.dtype, problem.out.shape, problem.k, layouts, overlaps)
        work, copies = planned(self, problem.queue, params, request)
        problem.copies += copies
        return work

    def multiply(
        self, queue: Queue, params: Params, dtype: str, size: GemmSize, a: Operand, b: Operand, c: Operand
    ) -> Handle:
        """Start C = A @ B for a batch with one constant stride per operand."""
        work = self.prepared(queue, params, dtype, size, [x.layout for x in (a, b, c)])
        return Handle(queue.start(work, a.memory, b.memory, c.memory))

    def prepared(
        self, queue: Queue, params: Params, dtype: str, size: GemmSize, layouts: Sequence[Layout]
    ) -> Prepared:
        """C = A @ B for a batch with one constant stride per operand, ready but for the memory of A, B and C."""
        raise NotImplementedError

    def accepts_transposed(self, device: Device) -> bool:
        """Whether `prepared` accepts column-major A and B on a device; others are copied first."""
        return False

    def accepts_layout(self, columns: int, ld: int) -> bool:
        """Whether `prepared` accepts matrices with leading dimension `ld`; others are copied first."""
        return True

    def forecast(self, problem: Problem, **params: Any) -> str:
        """How a large product of host arrays is streamed, and the time that it will take; "" for any other."""
        if not self._is_streamed(problem):
            return ""
        return streaming.forecast(self, self.queue, problem, self.resolve(problem, params))

    def predicted_s(self, problem: Problem) -> float | None:
        """The predicted seconds of a large product of host arrays, which is streamed; None for any other."""
        if not self._is_streamed(problem):
            return None
        return streaming.predicted_s(self, self.queue, problem, self.resolve(problem, {}))

    def _is_streamed(self, problem: Problem) -> bool:
        """Whether it is a product of host arrays that goes through the device in tiles."""
        return problem.queue is None and streaming.is_wanted(self.queue, problem)

    def _queue_for(self, problem: Problem) -> Queue:
        return self.queue if problem.queue is None else problem.queue

    def multiply_host(
        self, problem: Problem, params: Params, bring_b: Callable[[], Uploaded] | None = None
    ) -> Handle:
        """The product of host arrays that fit the device. `bring_b` says where B is on it; by default it is copied."""
        queue, stored = self.queue, self.stored(problem)
        left, right = self._of_sums(problem) or (problem.a, problem.b)
        a, of_a = uploaded(queue, left, problem)
        b, of_b = bring_b() if bring_b is not None else uploaded(queue, right, problem)
        out = problem.out if problem.out.flags.c_contiguous else np.empty(problem.out.shape, problem.dtype)
        memory = queue.allocate(out.nbytes)
        layouts = of_a, of_b, row_major(out.shape, problem.n)
        work, _ = planned(self, queue, params, Request(stored, problem.dtype, out.shape, problem.k, layouts))
        events = queue.start(work, a, b, memory)
        queue.copy_to_host(out, memory)
        if out is not problem.out:
            np.copyto(problem.out, out)
            problem.copies += 1
        return Handle(events)


class RungBackend(DeviceBackend):
    """A rung of the GPU ladder."""

    kind = "rung"

    def __init__(self, runtime: Runtime, rung: Rung, selector: str = "") -> None:
        super().__init__(runtime, f"{runtime.name}-{rung.name}", selector)
        self.rung = rung
        self.source = rung.source
        self.dtypes = rung.dtypes
        self.params = {param.name: param for param in rung.params}
        self.for_parts = rung.for_parts
        self._prepared: dict[Hashable, Prepared] = {}

    @property
    def summary(self) -> str:
        return self.rung.summary

    def resolve(self, problem: Problem, params: Params) -> Params:
        if self.for_parts and self._is_streamed(problem):
            params = {**params, **self.for_parts}  # it is streamed in tiles
        return configurations.resolve(self, self._queue_for(problem), problem, params)

    def forecast(self, problem: Problem, **params: Any) -> str:
        """How a large product is streamed, where the parameters come from, and which of them the device ignores."""
        queue = self._queue_for(problem)
        origin = "" if params else configurations.note(self, queue, problem)
        ignored = ", ".join(self.rung.ignored(queue.device.kind))
        said = f"on {queue.device.label} it ignores {ignored}" if ignored else ""
        return "; ".join(filter(None, (super().forecast(problem, **params), origin, said)))

    def probe(self) -> Availability:
        """Available if the runtime has the device, and the device has what the rung needs."""
        found = super().probe()
        if not found.ok or (lacking := self.rung.demand(self.device)) is None:
            return found
        return Availability(False, f"{found.device} {lacking}", "take another device: `gemmlab info` lists them")

    def accepts_transposed(self, device: Device) -> bool:
        return self.rung.on(device.kind).takes_transposed()

    def traffic(self, problem: Problem, machine: object, **params: Any) -> dict[str, float]:
        """Bytes that the rung moves at each memory level; they do not depend on the machine's caches."""
        form = self.rung.on(self._queue_for(problem).device.kind)
        return traffic_bytes(form.model, problem, self.resolve(problem, params))

    def pack(self, b: HostArray, params: Params) -> DeviceArray:
        """A right operand on the device as the rung reads it fastest: along k or by rows, of a multiple of 16 bytes."""
        along_k = self.rung.on(self.device.kind).packs_along_k(b.itemsize, b.shape[1])
        if along_k is None:
            return super().pack(b, params)
        lines = b.T if along_k else b
        count, length = lines.shape
        aligned = np.zeros((count, aligned_ld(length, b.itemsize)), b.dtype)
        aligned[:, :length] = lines
        packed = self.runtime.array(self.device, aligned)[:, :length]
        return packed.T if along_k else packed

    def prepared(
        self, queue: Queue, params: Params, dtype: str, size: GemmSize, layouts: Sequence[Layout]
    ) -> Prepared:
        form = self.rung.on(queue.device.kind)
        key = queue, tuple(params.items()), dtype, size, tuple(layouts)
        found = self._prepared.get(key)  # that of a like product or tile
        if found is None or queue.failed:
            if (refusal := form.refusal(params, dtype, queue.device)) is not None:
                raise ValueError(f"{self.name}: {refusal}")
            if len(self._prepared) >= MAX_PREPARED:
                self._prepared.clear()
            found = queue.prepared(form.launches(params, dtype, size, layouts, queue.device))
            self._prepared[key] = found
        return found


def uploaded(queue: Queue, x: HostArray, problem: Problem) -> Uploaded:
    """Copy a host operand to the device, row-major; counts a copy if it is not row-major in host memory."""
    # A batch without the repetitions that broadcasting made.
    distinct = x[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in x.strides[:-2])]
    if not distinct.flags.c_contiguous:
        distinct = np.ascontiguousarray(distinct)
        problem.copies += 1
    memory = queue.allocate(distinct.nbytes)
    queue.copy_to_device(memory, distinct)
    return memory, row_major(distinct.shape, x.shape[-1])
