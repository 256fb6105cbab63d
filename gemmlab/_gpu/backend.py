"""The host code of a product on a device, the same for every runtime.

    host arrays       are copied to the device, multiplied and copied back; `gemm` returns when `out` is filled.
                      A large product is streamed, see `streaming`
    device arrays     are multiplied on their device; `gemm` returns at once, with a handle

A vendor library (`vendor.py`) overrides `multiply`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gemmlab._backend import Availability, FullBackend, Param, Params, check_params
from gemmlab._errors import BackendUnavailable
from gemmlab._gpu import configurations, streaming
from gemmlab._gpu.batches import BatchedOperand, GemmSize, Layout, Operand, launches, row_major
from gemmlab._gpu.device_arrays import DeviceOperands
from gemmlab._gpu.ladder.rungs import MAX_GROUPS, Rung
from gemmlab._gpu.ladder.traffic import traffic_bytes
from gemmlab._gpu.plans.launches import Launches, Place
from gemmlab._gpu.plans.of_rungs import copies, launches_of
from gemmlab._gpu.plans.table import Prepared
from gemmlab._gpu.runtime import Device, Event, HostArray, Memory, Queue, Runtime
from gemmlab._problem import Problem

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
        return sum(one.kernel_s for event in self.events for one in (*event.earlier, event))


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

    def supports(self, problem: Problem) -> bool | str:
        if problem.dtype.name not in self.dtypes:
            *others, last = self.dtypes
            return f"{self.name} multiplies {', '.join(others)} and {last}, not {problem.dtype}: convert with astype"
        if max(problem.m, problem.n, problem.k) > MAX_EDGE:
            return f"{self.name} takes edges up to {MAX_EDGE}, not {problem.m} x {problem.n} x {problem.k}"
        device = self._queue_for(problem).device
        if problem.dtype == np.float64 and not device.float64:
            return f"{device.label} has no float64: convert with astype(numpy.float32), or take another device"
        return True

    def resolve(self, problem: Problem, params: Params) -> Params:
        """All parameters for this problem: the given ones, and defaults for the rest."""
        return {name: value for name, value in params.items() if value is not None}

    def gemm(self, problem: Problem, **params: Any) -> Handle:
        """Fill `problem.out`. For device arrays: start to fill it."""
        check_params(self, params)
        resolved = self.resolve(problem, params)
        if problem.device_operands is None:
            return self._multiply_host(problem, resolved)
        return self._multiply_device(problem, problem.device_operands, resolved)

    def multiply(
        self, queue: Queue, params: Params, dtype: str, size: GemmSize, a: Operand, b: Operand, c: Operand
    ) -> Event:
        """Launch C = A @ B for a batch with one constant stride per operand."""
        raise NotImplementedError

    def accepts_transposed(self, params: Params) -> bool:
        """Whether `multiply` accepts column-major A and B; others are copied first."""
        return False

    def prepared(
        self, queue: Queue, params: Params, dtype: str, size: GemmSize, layouts: Sequence[Layout]
    ) -> Prepared | None:
        """What `multiply` would do, ready but for the memory of A, B and C; None if it cannot be kept in a plan."""
        return None

    def accepts_layout(self, columns: int, ld: int) -> bool:
        """Whether `multiply` accepts matrices with leading dimension `ld`; others are copied first."""
        return True

    def forecast(self, problem: Problem, **params: Any) -> str:
        """How a large product of host arrays is streamed, and the time that it will take; "" for any other."""
        if problem.device_operands is not None or not streaming.is_wanted(self.queue, problem):
            return ""
        return streaming.forecast(self, self.queue, problem, self.resolve(problem, params))

    def predicted_s(self, problem: Problem) -> float | None:
        """The predicted seconds of a large product of host arrays, which is streamed; None for any other."""
        if problem.device_operands is not None or not streaming.is_wanted(self.queue, problem):
            return None
        return streaming.predicted_s(self, self.queue, problem, self.resolve(problem, {}))

    def _queue_for(self, problem: Problem) -> Queue:
        return self.queue if problem.device_operands is None else problem.device_operands.queue

    def _multiply_host(self, problem: Problem, params: Params) -> Handle:
        queue = self.queue
        if streaming.is_wanted(queue, problem):
            return Handle(streaming.multiply(self, queue, problem, params))
        a, b = _uploaded(queue, problem.a, problem), _uploaded(queue, problem.b, problem)
        out = problem.out if problem.out.flags.c_contiguous else np.empty(problem.out.shape, problem.dtype)
        memory = queue.allocate(out.nbytes)
        events = self._launch(queue, problem, params, (a, b, row_major(memory, out.shape, problem.n)))
        queue.copy_to_host(out, memory)
        if out is not problem.out:
            np.copyto(problem.out, out)
            problem.copies += 1
        return Handle(events)

    def _multiply_device(self, problem: Problem, on_device: DeviceOperands, params: Params) -> Handle:
        queue, operands, events = on_device.queue, [], []
        for x in (problem.a, problem.b):
            operand = self.without_copy(on_device, x, self.accepts_transposed(params))
            if operand is None:
                operand = row_major(queue.allocate(x.size * x.itemsize), x.shape, x.shape[-1])
                events += _copy(on_device, problem, x, operand)
            operands.append(operand)
        result = problem.out if problem.caller_out is None else problem.caller_out
        direct = self.without_copy(on_device, result) if problem.caller_out is None else None
        out = direct or row_major(queue.allocate(result.size * result.itemsize), result.shape, problem.n)
        events += self._launch(queue, problem, params, (*operands, out))
        if direct is None:  # `out` overlaps an operand, or its rows are not contiguous
            events += _copy(on_device, problem, result, out, back=True)
        return Handle(events)

    def without_copy(
        self, on_device: DeviceOperands, x: HostArray, may_be_transposed: bool = False
    ) -> BatchedOperand | None:
        """A device operand as it is in memory; None if `multiply` does not accept its layout."""
        for transposed in (False, True) if may_be_transposed else (False,):
            view = x.swapaxes(-1, -2) if transposed else x
            operand = _batched_view(on_device.locate(view), view)
            if operand is not None and self.accepts_layout(view.shape[-1], operand.ld):
                return replace(operand, transposed=transposed)
        return None

    def _launch(
        self, queue: Queue, problem: Problem, params: Params, operands: Sequence[BatchedOperand]
    ) -> list[Event]:
        max_rows = self.max_rows(params)
        events = []
        for batch, (a, b, c) in launches(problem.out.shape[:-2], operands, self.max_batch(params)):
            for i in range(0, problem.m, max_rows):
                size = GemmSize(min(max_rows, problem.m - i), problem.n, problem.k, batch)
                rows_a, rows_c = a.skip(rows=i), c.skip(rows=i)
                events.append(self.multiply(queue, params, problem.dtype.name, size, rows_a, b, rows_c))
        return events

    def max_rows(self, params: Params) -> int:
        """The maximum number of rows of C in one launch."""
        return MAX_EDGE

    def max_batch(self, params: Params) -> int:
        """The maximum number of products in one launch."""
        return MAX_GROUPS


class RungBackend(DeviceBackend):
    """A rung of the GPU ladder."""

    kind = "rung"

    def __init__(self, runtime: Runtime, rung: Rung, selector: str = "") -> None:
        super().__init__(runtime, f"{runtime.name}-{rung.name}", selector)
        self.rung = rung
        self.source = rung.source
        self.dtypes = rung.dtypes
        self.params = {param.name: param for param in rung.params}

    @property
    def summary(self) -> str:
        return self.rung.summary

    def resolve(self, problem: Problem, params: Params) -> Params:
        queue = self._queue_for(problem)
        size = GemmSize(problem.m, problem.n, problem.k, problem.batch)
        found = configurations.resolve(self, queue, problem, params)
        return self.rung.fitted(found, size, queue.device.compute_units)

    def forecast(self, problem: Problem, **params: Any) -> str:
        """How a large product is streamed, and where the parameters come from that the caller did not give."""
        origin = "" if params else configurations.note(self, self._queue_for(problem), problem)
        return "; ".join(filter(None, (super().forecast(problem, **params), origin)))

    def accepts_transposed(self, params: Params) -> bool:
        return self.rung.takes_transposed(params)

    def max_batch(self, params: Params) -> int:
        return MAX_GROUPS // self.rung.parts(params)

    def max_rows(self, params: Params) -> int:
        return MAX_GROUPS * self.rung.block(params)[1]

    def traffic(self, problem: Problem, machine: object, **params: Any) -> dict[str, float]:
        """Bytes that the rung moves at each memory level; they do not depend on the machine's caches."""
        return traffic_bytes(self.rung.model, problem, self.resolve(problem, params))

    def multiply(
        self, queue: Queue, params: Params, dtype: str, size: GemmSize, a: Operand, b: Operand, c: Operand
    ) -> Event:
        launches = self.launches_for(queue, params, dtype, size, [x.layout for x in (a, b, c)])
        return launches.start(queue, [x.memory for x in (a, b, c)])

    def launches_for(
        self, queue: Queue, params: Params, dtype: str, size: GemmSize, layouts: Sequence[Layout]
    ) -> Launches:
        """What `multiply` launches, for operands without their memory; ValueError if the device cannot run it."""
        if (refusal := self.rung.refusal(params, dtype, queue.device)) is not None:
            raise ValueError(f"{self.name}: {refusal}")
        return launches_of(self.rung, queue, params, dtype, size, layouts)

    def prepared(
        self, queue: Queue, params: Params, dtype: str, size: GemmSize, layouts: Sequence[Layout]
    ) -> Prepared | None:
        return queue.prepared(self.launches_for(queue, params, dtype, size, layouts))


def _distinct(x: HostArray) -> HostArray:
    """The matrices of a batch without the repetitions that broadcasting made."""
    firsts = [slice(0, 1) if stride == 0 else slice(None) for stride in x.strides[:-2]]
    return x[tuple(firsts)]


def _uploaded(queue: Queue, x: HostArray, problem: Problem) -> BatchedOperand:
    """Copy a host operand to the device, row-major; counts a copy if it is not row-major in host memory."""
    distinct = _distinct(x)
    if not distinct.flags.c_contiguous:
        distinct = np.ascontiguousarray(distinct)
        problem.copies += 1
    memory = queue.allocate(distinct.nbytes)
    queue.copy_to_device(memory, distinct)
    return row_major(memory, distinct.shape, x.shape[-1])


def _batched_view(where: tuple[Memory, int], x: HostArray) -> BatchedOperand | None:
    """A device operand as it is in memory; None if its rows are not contiguous."""
    memory, start_bytes = where
    strides = [stride // x.itemsize for stride in x.strides]
    if x.shape[-1] > 1 and strides[-1] != 1:
        return None
    ld = strides[-2] if x.shape[-2] > 1 else x.shape[-1]
    lead = tuple(0 if count == 1 else stride for count, stride in zip(x.shape[:-2], strides, strict=False))
    return BatchedOperand(memory, start_bytes // x.itemsize, lead, ld)


def _copy(
    on_device: DeviceOperands, problem: Problem, x: HostArray, packed: BatchedOperand, back: bool = False
) -> list[Event]:
    """Copy a device operand of any strides to row-major memory or, with `back`, row-major memory to the operand."""
    queue = on_device.queue
    memory, start_bytes = on_device.locate(x)
    rows, columns = x.shape[-2:]
    row_stride, column_stride = (stride // x.itemsize for stride in x.strides[-2:])
    batch_strides = tuple(stride // x.itemsize for stride in x.strides[:-2])
    strided = BatchedOperand(memory, start_bytes // x.itemsize, batch_strides, row_stride)
    problem.copies += 1
    events: list[Event] = []
    for batch, (outside, inside) in launches(x.shape[:-2], (strided, packed), MAX_GROUPS):
        sides = (Place.A, outside.layout, column_stride), (Place.B, inside.layout, 1)
        shape = batch, rows, columns
        copied = Launches(tuple(copies(queue, x.dtype.name, shape, *(sides[::-1] if back else sides))))
        if copied.kernels:  # none for no rows
            events.append(copied.start(queue, [outside.memory, inside.memory]))
    return events
