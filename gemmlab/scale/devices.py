"""One backend on all devices of a runtime: each multiplies a block of C, with a separate context and thread.

"All" are the devices of the first one's kind: the GPUs, or the CPUs where there is no GPU. Equal devices get blocks of
equal size. Unlike ones get rows by their measured rates. Host arrays go to every device, and the blocks of C come back,
by that device's ordinary backend; B goes from device to device where these can copy to each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from gemmlab._backend import Availability, FullBackend, Param, Params, check_params
from gemmlab._errors import BackendUnavailable
from gemmlab._name import ALL, BackendName
from gemmlab._process.forks import Lock, Pool
from gemmlab.scale import broadcast
from gemmlab.scale.blocks import Block, along, cut
from gemmlab.scale.lines import ending_together
from gemmlab.scale.parts import part_of, run_at_once
from gemmlab.scale.rates import Rates, axis_of, is_small

if TYPE_CHECKING:
    from gemmlab._backend import Handle
    from gemmlab._gpu.backend import DeviceBackend
    from gemmlab._gpu.runtime import Device, Queue, Runtime
    from gemmlab._problem import Problem


@dataclass(frozen=True)
class Split:
    """How a product is shared by devices, for `explain`: a label and a block for each that takes part."""

    shares: tuple[tuple[str, str], ...]

    @property
    def summary(self) -> str:
        """The number of devices that take part."""
        return f"{len(self.shares)} device{'s' * (len(self.shares) != 1)}"

    @property
    def loops(self) -> str:
        """Every block with its device."""
        return "; ".join(f"{block} on {label}" for label, block in self.shares)


class Done:
    """A product that all devices have computed."""

    def __init__(self, kernel_s: float) -> None:
        self.kernel_s = kernel_s  # of the device that computed longest

    def wait(self) -> None:
        """Return at once."""


class AllDevices(FullBackend):
    """A rung or a vendor's library on all devices of a runtime.

    `make` gives the backend of one device, chosen by its number as text, or one that is bound to no device by "".
    """

    selector = ""

    def __init__(self, runtime: Runtime, make: Callable[[str], DeviceBackend]) -> None:
        self.runtime, self._make = runtime, make
        one = make("")
        self.name, self.kind, self.source = BackendName.of(one.name).on(ALL), one.kind, one.source
        self.params: Mapping[str, Param] = one.params
        self.lock = Lock()

    @property
    def summary(self) -> str:
        """A description in half a line."""
        return f"{self._make('').summary}; on all devices"

    @cached_property
    def backends(self) -> tuple[DeviceBackend, ...]:
        """The backend of each device; BackendUnavailable if there is none."""
        first, *others = self.runtime.devices
        return tuple(self._make(str(one.index)) for one in (first, *others) if one.kind == first.kind)

    @property
    def devices(self) -> tuple[Device, ...]:
        """All devices that take part."""
        return tuple(backend.device for backend in self.backends)

    @property
    def device(self) -> Device:
        """The first of them."""
        return self.devices[0]

    @property
    def queue(self) -> Queue:
        """The queue of the first device."""
        return self.backends[0].queue

    @cached_property
    def _pool(self) -> Pool:
        return Pool(len(self.backends), "gemmlab-devices")

    @cached_property
    def rates(self) -> Rates:
        """The measured rates of the devices."""
        return Rates(self.backends)

    @cached_property
    def are_equal(self) -> bool:
        """Whether the devices are of one model, with one driver."""
        return len({(one.name, one.platform, one.driver, one.compute_units) for one in self.devices}) == 1

    def probe(self) -> Availability:
        """Available if every device is."""
        try:
            backends = self.backends
        except BackendUnavailable as error:
            reason, _, fix = str(error).partition("; fix: ")
            return Availability(False, reason, fix)
        found = [backend.probe() for backend in backends]
        return next((one for one in found if not one.ok), Availability(True, device=labels(self.devices)))

    def supports(self, problem: Problem) -> bool | str:
        """Host arrays that every device supports."""
        if problem.queue is not None:
            one = BackendName.of(self.name).on(str(problem.queue.device.index))
            return f"{self.name} shares products of host arrays: pass NumPy arrays, or name the device of these, {one}"
        return next((why for one in self.backends if (why := one.supports(problem)) is not True), True)

    def resolve(self, problem: Problem, params: Params) -> Params:
        """All parameters: the given ones, and defaults for the rest."""
        return self.backends[0].resolve(problem, {**params, **self.backends[0].for_parts})

    def traffic(self, problem: Problem, machine: object, **params: Any) -> dict[str, float]:
        """Bytes that all devices together move at each memory level."""
        return self.backends[0].traffic(problem, machine, **params)

    def blocks(self, problem: Problem, rows_only: bool) -> list[tuple[DeviceBackend, Block]]:
        """The devices that take part, each with its block of C."""
        shape = problem.out.shape
        if self.are_equal or is_small(problem):
            cuts = cut(shape, problem.k, len(self.backends), rows_only=rows_only)
            return list(zip(self.backends, cuts, strict=False))
        axis = axis_of(problem, len(self.backends))
        with self.lock:
            shares = ending_together(self.rates.lines(problem), shape[axis])
        cuts = along(axis, len(shape), shares)
        return [(one, block) for one, block, share in zip(self.backends, cuts, shares, strict=True) if share]

    def plan(self, problem: Problem, **params: Any) -> Split | None:
        """How a product is shared; None for an empty one."""
        if not problem.out.size or not problem.k:
            return None
        own = self.blocks(problem, self._get_b_from_each_other(problem))
        return Split(tuple((f"{one.device.index} {one.device.label}", _in_words(block)) for one, block in own))

    def gemm(self, problem: Problem, **params: Any) -> Handle:
        """Fill `problem.out`."""
        check_params(self, params)
        params |= self.backends[0].for_parts
        b_from_each_other = self._get_b_from_each_other(problem)  # asked once: free memory changes
        own = self.blocks(problem, b_from_each_other)
        backends, parts = [backend for backend, _ in own], [part_of(problem, block) for _, block in own]
        if b_from_each_other:
            jobs = broadcast.jobs(backends, parts, params)
        else:
            jobs = [partial(backend.gemm, part, **params) for backend, part in zip(backends, parts, strict=True)]
        seconds = run_at_once(self._pool, [partial(_kernel_s, job) for job in jobs])
        problem.copies += sum(part.copies for part in parts)
        return Done(max(seconds))

    def _get_b_from_each_other(self, problem: Problem) -> bool:
        return self.are_equal and broadcast.can_be(self.backends, problem)


def labels(devices: Sequence[Device]) -> str:
    """Devices in a few words: "2 x NVIDIA H100"."""
    counts = Counter(device.label for device in devices)
    return " + ".join(f"{count} x {label}" if count > 1 else label for label, count in counts.items())


def _kernel_s(multiply: Callable[[], Handle]) -> float:
    handle = multiply()
    handle.wait()
    return handle.kernel_s


def _in_words(block: Block) -> str:
    names = [*(f"matrices of axis {axis}" for axis in range(len(block.lead))), "rows", "columns"]
    parts = zip(names, (*block.lead, block.rows, block.columns), strict=True)
    said = [f"{name} {part.start} to {part.stop - 1}" for name, part in parts if part.stop is not None]
    return ", ".join(said) or "all"
