"""The plans of this process, by everything that decides a product but its memory.

A key has the backend's name and parameters, the queue or device, and shape, strides, start and dtype of each array.
What else decides a product are settings and the set of backends: when these change, all plans are forgotten.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from gemmlab._backend import Params

if TYPE_CHECKING:
    from gemmlab._gpu.runtime import Memory, Queue

MAX_PLANS = 256
Key: TypeAlias = Hashable


class Prepared(Protocol):
    """Work that is ready but for the memory of its operands. `doing` says what failed if it does."""

    doing: str

    def start(self, a: Memory, b: Memory, c: Memory) -> Any:
        """Start it on its queue; returns the runtime's own event, if there is one. Does not convert errors."""


class Plan:
    """How to repeat one product.

    `template` is what the array of the result is made like. `bounds` are the lowest byte and the byte after
    the highest one of A, B and C, from the first element of each: C may not share memory with A or B.
    """

    __slots__ = ("bounds", "prepared", "queue", "template")

    def __init__(
        self, queue: Queue, prepared: Prepared, template: Any, bounds: tuple[tuple[int, int], ...]
    ) -> None:
        self.queue, self.prepared, self.template, self.bounds = queue, prepared, template, bounds

    def overlaps(self, side: int, begin: int, out_begin: int) -> bool:
        """Whether A (0) or B (1), which begins at a byte of the same memory as C, shares bytes with it."""
        (low, high), (out_low, out_high) = self.bounds[side], self.bounds[2]
        return begin + low < out_begin + out_high and out_begin + out_low < begin + high


class _Mark(Enum):
    SEEN = "a product of this kind went the long way once"
    NO_PLAN = "it has no plan"


_plans: dict[Key, Plan | _Mark] = {}


def find(key: Key) -> Plan | None:
    """The plan for products of this kind; None if there is none."""
    try:
        plan = _plans.get(key)
    except TypeError:  # a parameter that has no hash
        return None
    return plan if type(plan) is Plan and not plan.queue.failed else None


def is_due(key: Key) -> bool:
    """Whether to make a plan now: at the second product of a kind, and after its queue has failed."""
    try:
        found = _plans.get(key)
    except TypeError:
        return False
    if found is None:
        _put(key, _Mark.SEEN)
    return found is _Mark.SEEN or (type(found) is Plan and found.queue.failed)


def keep(key: Key, plan: Plan | None) -> None:
    """Keep a plan; None: products of this kind have none."""
    _put(key, plan or _Mark.NO_PLAN)


def forget_all() -> None:
    """Forget all plans: a setting is another, a backend has gone, or a profile has changed."""
    _plans.clear()


def of_params(params: Params) -> Key:
    """Parameters as a part of a key. Their types belong to it: a backend may accept 8, but not 8.0 or True."""
    return tuple((name, type(value), value) for name, value in sorted(params.items())) if params else ()


def _put(key: Key, value: Plan | _Mark) -> None:
    if len(_plans) >= MAX_PLANS:
        _plans.clear()
    _plans[key] = value
