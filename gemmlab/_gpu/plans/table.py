"""The plans of this process, by everything that decides a product but its memory.

A key has the backend's name and parameters, the queue or device, and shape, strides, start and dtype of each array.
What else decides a product are settings and the set of backends: when these change, all plans are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from gemmlab._backend import Params
from gemmlab._gpu.operands import share_bytes
from gemmlab._process import forks

if TYPE_CHECKING:
    from gemmlab._gpu.runtime import DeviceArray, Event, Memory
    from gemmlab._problem import Problem

MAX_PLANS = 256
Key: TypeAlias = Hashable


class Prepared(Protocol):
    """Work that is ready but for the memory of its operands. `doing` says what failed if it does."""

    doing: str

    def start(self, a: Memory, b: Memory, c: Memory, events: list[Event] | None = None) -> Any:
        """Start it on its queue; returns the runtime's event, if there is one.

        An event of each kernel, with its time, is added to `events`. Errors of the driver are not converted.
        """


class Executor(Protocol):
    """What `on_opencl`, `on_sycl` and `on_cuda` have."""

    def key_of(self, a: DeviceArray, b: DeviceArray, out: DeviceArray | None, name: str, params: Params) -> Key:
        """Everything that decides the product but its memory."""

    def product(
        self, a: DeviceArray, b: DeviceArray, out: DeviceArray | None, name: str, params: Params
    ) -> DeviceArray | None:
        """The product by its plan, started; None if there is none yet."""

    def execute(
        self, plan: Plan, a: DeviceArray, b: DeviceArray, out: DeviceArray | None, events: list[Event] | None
    ) -> DeviceArray:
        """Start a plan with these arrays, after the work on them; the array of the result."""


class Plan:
    """How to compute products of one kind.

    `shape` and `dtype` are those of the result. `bounds` are the lowest byte and the byte after the highest one of A, B
    and C, from the first element of each. A plan that `copies_out` computes C elsewhere first, because it shares memory
    with A or B. `template` is for the runtime's module, which makes arrays of results.
    """

    __slots__ = ("bounds", "copies_out", "dtype", "prepared", "queue", "shape", "template")

    def __init__(self, problem: Problem, prepared: Prepared) -> None:
        assert problem.queue is not None
        self.queue, self.prepared = problem.queue, prepared
        self.template: Any = None
        self.shape, self.dtype = problem.result_shape, problem.dtype
        self.bounds = tuple(x.bounds() for x in problem.on_device)
        self.copies_out = problem.caller_out is not None

    def overlaps(self, side: int, begin: int, out_begin: int) -> bool:
        """Whether A (0) or B (1), which begins at a byte of the same memory as C, shares bytes with it."""
        return share_bytes(begin, self.bounds[side], out_begin, self.bounds[2])


_plans: dict[Key, Plan] = {}


def find(key: Key) -> Plan | None:
    """The plan for products of this kind; None if there is none."""
    try:
        plan = _plans.get(key)
    except TypeError:  # a parameter that has no hash
        return None
    return None if plan is None or plan.queue.failed else plan


def find_with_out(key: Key, overlaps: Callable[[Plan], bool]) -> Plan | None:
    """The plan for a product with `out`, which may share memory with the operands."""
    plan = find(key)
    if plan is not None and not overlaps(plan):
        return plan
    plan = find((key, "overlaps"))
    return plan if plan is not None and overlaps(plan) else None


def keep(key: Key, plan: Plan) -> None:
    """Keep a plan for the next product of its kind."""
    try:
        if len(_plans) >= MAX_PLANS:
            _plans.clear()
        _plans[(key, "overlaps") if plan.copies_out else key] = plan
    except TypeError:  # a parameter that has no hash
        return


def forget_all() -> None:
    """Forget all plans: a setting is another, a backend has gone, or a profile has changed."""
    _plans.clear()


forks.in_child(forget_all)


def of_params(params: Params) -> Key:
    """Parameters as a part of a key. Their types belong to it: a backend may accept 8, but not 8.0 or True."""
    return tuple((name, type(value), value) for name, value in sorted(params.items())) if params else ()
