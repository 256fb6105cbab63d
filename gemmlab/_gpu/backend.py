"""Products on a device: what a rung's host code does, whichever runtime it is on.

    host arrays       to the device, the product, and back; `gemm` returns when `out` is filled
    device arrays     where they are; `gemm` returns at once, with a handle

A library that multiplies on a device (`vendor.py`) differs in `multiply` alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gemmlab._backend import Availability, Param, check_params
from gemmlab._errors import BackendUnavailable, DeviceError
from gemmlab._gpu.operands import Operand, Stacked, launches, row_major
from gemmlab._gpu.rungs import C_TYPE, ITEMSIZE, MOST_GROUPS, Rung, kernel_text
from gemmlab._gpu.runtime import Device, Event, HostArray, Queue, Runtime
from gemmlab._gpu.traffic import traffic
from gemmlab._problem import Problem

MOST_EDGE = 2**31 - 1 - 4096  # edges are ints in the kernels, and the last tile may reach beyond
COPY_GROUP = (32, 8, 1)


@dataclass(frozen=True)
class Size:
    """One launch: m, n and k of so many products."""

    m: int
    n: int
    k: int
    products: int


class Handle:
    """Work under way on a device."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events

    def wait(self) -> None:
        """Return when all of it is done."""
        for event in self.events:
            event.wait()

    @property
    def kernel_s(self) -> float:
        """Seconds of the kernels by the device's own clock; NaN where the device does not tell. Waits."""
        return sum(event.kernel_s for event in self.events)


class DeviceBackend:
    """A way to multiply on the devices of a runtime; `wanted` names one of them."""

    kind: str
    name: str
    source: str
    params: Mapping[str, Param]
    transposes = False  # whether `multiply` takes A and B column-major too

    def __init__(self, runtime: Runtime, name: str, wanted: str = "") -> None:
        self.runtime, self.wanted = runtime, wanted
        self.name = f"{name}:{wanted}" if wanted else name

    @property
    def summary(self) -> str:
        """What it is, in half a line."""
        raise NotImplementedError

    @property
    def device(self) -> Device:
        """The device that host arrays go to."""
        return self.runtime.device(self.wanted)

    @property
    def queue(self) -> Queue:
        """That device at work."""
        return self.runtime.queue(self.device)

    def probe(self) -> Availability:
        """Available where the runtime has the device, and a program runs on it."""
        try:
            device = self.device
            self.load()
        except BackendUnavailable as error:
            reason, _, fix = str(error).partition("; fix: ")
            return Availability(False, reason, fix)
        return Availability(True, device=device.label)

    def load(self) -> None:
        """Load what it needs besides the runtime; BackendUnavailable, with the fix, where that is missing."""

    def supports(self, problem: Problem) -> bool | str:
        if problem.dtype.name not in ITEMSIZE:
            return f"{self.name} multiplies float32 and float64, not {problem.dtype}: convert with astype"
        if max(problem.m, problem.n, problem.k) > MOST_EDGE:
            return f"{self.name} takes edges up to {MOST_EDGE}, not {problem.m} x {problem.n} x {problem.k}"
        device = self._queue_for(problem).device
        if problem.dtype == np.float64 and not device.float64:
            return f"{device.label} has no float64: convert with astype(numpy.float32), or take another device"
        return True

    def resolve(self, problem: Problem, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters in force for this problem, defaults filled in."""
        return {name: value for name, value in params.items() if value is not None}

    def gemm(self, problem: Problem, **params: Any) -> Handle:
        """Fill `problem.out`; for arrays on the device, start to."""
        check_params(self, params)
        plan = self.resolve(problem, params)
        queue = self._queue_for(problem)
        if problem.place is None:
            return self._from_host(queue, problem, plan)
        return self._in_place(queue, problem, plan)

    def multiply(
        self, queue: Queue, plan: Mapping[str, Any], dtype: str, size: Size, a: Operand, b: Operand, c: Operand
    ) -> Event:
        """C = A @ B for a stack with one step from each product to the next."""
        raise NotImplementedError

    def takes(self, columns: int, ld: int) -> bool:
        """Whether `multiply` takes matrices with `ld` elements from row to row; others are packed first."""
        return True

    def lacks(self, problem: Problem) -> str | None:
        """What the device lacks for a product of host arrays, in a sentence; None if it has all. "auto" asks."""
        return _lack_of_room(self.queue.device, problem)

    def _queue_for(self, problem: Problem) -> Queue:
        return self.queue if problem.place is None else problem.place.queue

    def _from_host(self, queue: Queue, problem: Problem, plan: Mapping[str, Any]) -> Handle:
        if (why_not := _lack_of_room(queue.device, problem)) is not None:  # before anything is moved
            raise DeviceError(why_not)
        a, b = _sent(queue, problem.a, problem), _sent(queue, problem.b, problem)
        out = problem.out if problem.out.flags.c_contiguous else np.empty(problem.out.shape, problem.dtype)
        memory = queue.allocate(out.nbytes)
        events = self._launch_all(queue, problem, plan, (a, b, row_major(memory, out.shape, problem.n)))
        queue.move_out(out, memory)
        if out is not problem.out:
            np.copyto(problem.out, out)
            problem.copies += 1
        return Handle(events)

    def _in_place(self, queue: Queue, problem: Problem, plan: Mapping[str, Any]) -> Handle:
        stacks, events = [], []
        for x in (problem.a, problem.b):
            stack = self._as_it_lies(problem, x)
            if stack is None and self.transposes:
                stack = self._as_it_lies(problem, x, transposed=True)
            if stack is None:
                stack = row_major(queue.allocate(x.size * x.itemsize), x.shape, x.shape[-1])
                events += _copy(queue, problem, x, stack)
            stacks.append(stack)
        aim = problem.out if problem.target is None else problem.target
        direct = self._as_it_lies(problem, aim) if problem.target is None else None
        out = direct or row_major(queue.allocate(aim.size * aim.itemsize), aim.shape, problem.n)
        events += self._launch_all(queue, problem, plan, (*stacks, out))
        if direct is None:  # it overlaps an operand, or its rows are not contiguous
            events += _copy(queue, problem, aim, out, back=True)
        return Handle(events)

    def _as_it_lies(self, problem: Problem, x: HostArray, transposed: bool = False) -> Stacked | None:
        """A device operand without a copy, if it can be multiplied so."""
        x = x.swapaxes(-1, -2) if transposed else x
        stack = _stacked(problem.place.where(x), x)
        if stack is None or not self.takes(x.shape[-1], stack.ld):
            return None
        return replace(stack, transposed=transposed)

    def _launch_all(
        self, queue: Queue, problem: Problem, plan: Mapping[str, Any], stacks: Sequence[Stacked]
    ) -> list[Event]:
        rows = self.rows_a_launch(plan)
        events = []
        for products, (a, b, c) in launches(problem.out.shape[:-2], stacks, MOST_GROUPS):
            for i in range(0, problem.m, rows):
                size = Size(min(rows, problem.m - i), problem.n, problem.k, products)
                events.append(
                    self.multiply(queue, plan, problem.dtype.name, size, a.moved(rows=i), b, c.moved(rows=i))
                )
        return events

    def rows_a_launch(self, plan: Mapping[str, Any]) -> int:
        """Rows of C that one launch may have."""
        return MOST_EDGE


class RungBackend(DeviceBackend):
    """A rung of the GPU ladder."""

    kind = "rung"

    def __init__(self, runtime: Runtime, rung: Rung, wanted: str = "") -> None:
        super().__init__(runtime, f"{runtime.name}-{rung.name}", wanted)
        self.rung = rung
        self.source = rung.source
        self.params = {param.name: param for param in rung.params}

    @property
    def summary(self) -> str:
        return self.rung.summary

    def resolve(self, problem: Problem, params: Mapping[str, Any]) -> dict[str, Any]:
        return self.rung.plan(params, self._queue_for(problem).device.kind)

    def rows_a_launch(self, plan: Mapping[str, Any]) -> int:
        return MOST_GROUPS * self.rung.piece(plan)[1]

    def traffic(self, problem: Problem, machine: Mapping[str, int], **params: Any) -> dict[str, float]:
        """Bytes that the rung's text moves at each memory level, whatever the machine's caches."""
        return traffic(self.rung.name, problem, self.resolve(problem, params))

    def multiply(
        self, queue: Queue, plan: Mapping[str, Any], dtype: str, size: Size, a: Operand, b: Operand, c: Operand
    ) -> Event:
        if (obstacle := self.rung.obstacle(plan, dtype, queue.device)) is not None:
            raise ValueError(f"{self.name}: {obstacle}")
        kernel = queue.kernel(self.rung.text, "gemm", self.rung.defines(plan, dtype))
        columns, rows = self.rung.piece(plan)
        groups = -(-size.n // columns), -(-size.m // rows), size.products
        places = [value for x in (a, b, c) for value in (x.memory, *map(np.int64, (x.start, x.ld, x.step)))]
        arguments = [*map(np.int32, (size.m, size.n, size.k)), *places]
        return queue.launch(kernel, groups, (*self.rung.group(plan), 1), arguments)


def _lack_of_room(device: Device, problem: Problem) -> str | None:
    """Why a product does not fit, in a sentence; None if it does."""
    sizes = [_distinct(x).size * x.itemsize for x in (problem.a, problem.b, problem.out)]
    what = f"a product of {problem.m} x {problem.n} x {problem.k}" + f", {problem.batch} times" * (problem.batch > 1)
    if max(sizes) > device.allocation_bytes:
        return (
            f"{what} needs {max(sizes)} bytes in one piece; {device.label} allocates at most "
            f"{device.allocation_bytes}: multiply in pieces, or take another device"
        )
    if sum(sizes) > device.memory_bytes:
        return (
            f"{what} needs {sum(sizes)} bytes; {device.label} has {device.memory_bytes}: multiply in pieces, or take "
            "another device"
        )
    return None


def _distinct(x: HostArray) -> HostArray:
    """The matrices of a stack without repetitions along its leading axes."""
    firsts = [slice(0, 1) if stride == 0 else slice(None) for stride in x.strides[:-2]]
    return x[tuple(firsts)]


def _sent(queue: Queue, x: HostArray, problem: Problem) -> Stacked:
    """A host operand on the device, row-major; a copy where it is not so in host memory."""
    distinct = _distinct(x)
    if not distinct.flags.c_contiguous:
        distinct = np.ascontiguousarray(distinct)
        problem.copies += 1
    memory = queue.allocate(distinct.nbytes)
    queue.move_in(memory, distinct)
    return row_major(memory, distinct.shape, x.shape[-1])


def _stacked(where: tuple[Any, int], x: HostArray) -> Stacked | None:
    """A device operand as it lies; None if its rows are not contiguous, or repeat where they may not."""
    memory, start_bytes = where
    strides = [stride // x.itemsize for stride in x.strides]
    if x.shape[-1] > 1 and strides[-1] != 1:
        return None
    ld = strides[-2] if x.shape[-2] > 1 else x.shape[-1]
    lead = tuple(0 if count == 1 else stride for count, stride in zip(x.shape[:-2], strides, strict=False))
    return Stacked(memory, start_bytes // x.itemsize, lead, ld)


def _copy(queue: Queue, problem: Problem, x: HostArray, packed: Stacked, back: bool = False) -> list[Event]:
    """Pack a device operand of any strides into row-major memory, or unpack that into it."""
    memory, start_bytes = problem.place.where(x)
    rows, columns = x.shape[-2:]
    row, column = (stride // x.itemsize for stride in x.strides[-2:])
    spread = Stacked(memory, start_bytes // x.itemsize, tuple(s // x.itemsize for s in x.strides[:-2]), row)
    kernel = queue.kernel(kernel_text("copy.cl"), "copy", {"REAL": C_TYPE[x.dtype.name]})
    problem.copies += 1
    events = []
    for products, sides in launches(x.shape[:-2], (spread, packed), MOST_GROUPS):
        for i in range(0, rows, MOST_GROUPS * COPY_GROUP[1]):
            count = min(MOST_GROUPS * COPY_GROUP[1], rows - i)
            ends = [
                (side.memory, *map(np.int64, (side.moved(rows=i).start, side.ld, step, side.step)))
                for side, step in zip(sides, (column, 1), strict=True)
            ]
            source, target = reversed(ends) if back else ends
            groups = -(-columns // COPY_GROUP[0]), -(-count // COPY_GROUP[1]), products
            arguments = [np.int32(count), np.int32(columns), *source, *target]
            events.append(queue.launch(kernel, groups, COPY_GROUP, arguments))
    return events
