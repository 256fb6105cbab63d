"""Products of device arrays that come again: what the first one found out is kept in a plan.

The first product of some arrays is checked in full, as `device_arrays` and `backend` do. Its plan holds the compiled
kernel, the launch and the arguments. A later product with the same key only gets memory for its result, sets three
addresses and starts the kernel. The key has all that the checks depend on: the backend and its parameters, the queue
or device, and for each array shape, strides, dtype and alignment.

A product that is not one launch without copies has no plan: it is checked and computed as the first one each time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from gemmlab._backend import Params
from gemmlab._gpu.batches import GemmSize, launches
from gemmlab._gpu.ladder.rungs import MAX_GROUPS

if TYPE_CHECKING:
    from gemmlab._gpu.backend import DeviceBackend
    from gemmlab._gpu.runtime import DeviceArray, Queue
    from gemmlab._problem import Problem

Start: TypeAlias = "Callable[[DeviceArray, DeviceArray, DeviceArray], None]"  # A, B and C
MAX_PLANS = 512


class Plan(NamedTuple):
    """How a product is started, on which queue, and the shape of its result."""

    queue: Queue
    start: Start
    shape: tuple[int, ...]


_plans: dict[Hashable, Plan] = {}


def key_of(
    backend: DeviceBackend, a: DeviceArray, b: DeviceArray, out: DeviceArray | None, params: Params
) -> Hashable | None:
    """The key of a product; None if it can have no plan."""
    arrays = backend.runtime.key_of(a, b, out)
    return None if arrays is None else (backend, arrays, *params.items())


def started(
    key: Hashable, backend: DeviceBackend, a: DeviceArray, b: DeviceArray, out: DeviceArray | None
) -> DeviceArray | None:
    """The result of a product that has a plan, started; None if it has none."""
    try:
        plan = _plans.get(key)
    except TypeError:  # a parameter that cannot be hashed: the full check names it
        return None
    if plan is None:
        return None
    if plan.queue.failed:
        del _plans[key]
        return None
    if out is None:
        out = backend.runtime.result(plan.queue, a, plan.shape)
    plan.start(a, b, out)
    return out


def remember(key: Hashable, backend: DeviceBackend, problem: Problem, params: Params) -> None:
    """Make a plan for products like this one, which has been started, if they can have one."""
    with suppress(TypeError):
        if (plan := _plan_of(backend, problem, params)) is not None:
            if len(_plans) >= MAX_PLANS:
                _plans.clear()
            _plans[key] = plan


def forget() -> None:
    """Drop all plans: the parameters that were chosen for them may be others now."""
    _plans.clear()


def _plan_of(backend: DeviceBackend, problem: Problem, params: Params) -> Plan | None:
    on_device = problem.device_operands
    if on_device is None or problem.copies or problem.caller_out is not None or not problem.out.size or not problem.k:
        return None
    resolved = backend.resolve(problem, params)
    operands = backend.in_place(on_device, (problem.a, problem.b), problem.out, resolved)
    if operands is None:
        return None
    parts = list(launches(problem.out.shape[:-2], operands, min(MAX_GROUPS, backend.max_batch(resolved))))
    if len(parts) != 1 or problem.m > backend.max_rows(resolved):
        return None
    batch, (a, b, c) = parts[0]
    size = GemmSize(problem.m, problem.n, problem.k, batch)
    start = backend.prepared(on_device.queue, resolved, problem.dtype.name, size, a, b, c)
    return None if start is None else Plan(on_device.queue, start, problem.result_shape)
