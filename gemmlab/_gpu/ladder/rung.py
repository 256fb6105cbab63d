"""What a rung of the GPU ladder is: a kernel, its parameters, and what a product of it launches.

A rung of another kind derives from `Rung` and overrides `launches`: it may have several kernels and a workspace.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from gemmlab._backend import Param, Params
from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.kernels import HEADER, with_header
from gemmlab._gpu.ladder import traffic
from gemmlab._gpu.ladder.numbers import NUMBERS, Numbers
from gemmlab._gpu.ladder.waves import Work
from gemmlab._gpu.plans.launches import MAX_GROUPS, Argument, Launch, Launches, Place, Side, arguments_of

if TYPE_CHECKING:
    from gemmlab._gpu.runtime import Device

RungParams: TypeAlias = Mapping[str, int]
Shape: TypeAlias = tuple[int, int]  # x and y: columns and rows of C
Defines: TypeAlias = dict[str, int | str]  # macros and their values
FULL = 256  # work-items that keep a compute unit busy
VECTOR = 16  # bytes that a GPU's work-item reads or copies at once, from a multiple of as many
MAX_REGISTERS = 2048  # elements per work-item: more than any device has, and compilers need minutes
OPERANDS = Place.A, Place.B, Place.C


def aligned_ld(count: int, itemsize: int) -> int:
    """The numbers of a row of at least `count`, so that the next row begins at a multiple of a vector."""
    return -(-count * itemsize // VECTOR) * VECTOR // itemsize


def is_count(value: object, least: int = 1, most: int = 1024) -> bool:
    """Whether a value is an integer in a range."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and least <= int(value) <= most


def count(name: str, meaning: str, *choices: int) -> Param:
    """A parameter that is any count; `choices` are worth trying."""
    return Param(name, None, choices, meaning, "an integer from 1 to 1024", is_count)


def choice(name: str, meaning: str, *choices: int) -> Param:
    """A parameter that is one of a few values."""
    return Param(name, None, choices, meaning, f"one of {', '.join(map(str, choices))}", choices.__contains__)


@dataclass(frozen=True)
class Rung:
    """One rung.

    Attributes
    ----------
    params, defaults
        The parameters, of which each is a macro in capitals of the kernel's text, and their values on a "gpu" or "cpu".
    group, block : callable
        From the parameters: the work-items of a work-group, and the columns and rows of C that it computes.
    model : callable
        The memory traffic, see `traffic.py`.
    local, registers : callable
        The numbers in local memory of a work-group, and in registers of a work-item.
    over : mapping of str to str
        What this rung does better, for each rung that it improves on.
    rule : callable
        From the parameters: why they do not go together, in half a sentence; None if they do.
    demand : callable
        From a device: what the rung needs that the device lacks, in half a sentence; None if it lacks nothing.
    dtypes, numbers
        What it multiplies, and how the numbers of each dtype are kept.
    kept : tuple of str
        The parameters that `gemmlab tune` leaves as in `defaults`.
    files : tuple of str
        The kernel's text, after the header that all rungs share; "": one file with the rung's name.
    own_text : str
        The text itself, for a rung that is not one of ours.
    for_parts : mapping of str to int
        Parameters for blocks of a larger product, with which their bits do not depend on how it is cut.
    cpu : Rung or None
        The rung's other form for CPU devices, with another text, and of the parameters those that it has.
    """

    name: str
    summary: str
    source: str
    params: tuple[Param, ...]
    defaults: Mapping[str, RungParams]
    group: Callable[[RungParams], Shape]
    block: Callable[[RungParams], Shape]
    model: traffic.Model
    local: Callable[[RungParams], int] = lambda params: 0
    registers: Callable[[RungParams], int] = lambda params: 1
    over: Mapping[str, str] = field(default_factory=dict)
    rule: Callable[[RungParams], str | None] = lambda params: None
    demand: Callable[[Device], str | None] = lambda device: None
    dtypes: tuple[str, ...] = ("float32", "float64")
    numbers: Mapping[str, Numbers] = field(default_factory=lambda: NUMBERS)
    kept: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    own_text: str = ""
    for_parts: RungParams = field(default_factory=dict)
    cpu: Rung | None = None
    instead: ClassVar[RungParams] = {}  # of defaults that ask what a device may not have: where a trial of it fails

    @cached_property
    def text(self) -> str:
        """The kernel's text, after the header that all rungs share."""
        if self.own_text:
            return with_header() + self.own_text
        return with_header(*self.texts[1:])

    @property
    def texts(self) -> tuple[str, ...]:
        """The files of the text, in `kernels/`, in their order."""
        return HEADER, *(self.files or (f"{self.name.replace('-', '_')}.cl",))

    def on(self, kind: str) -> Rung:
        """The form of the rung for a kind of device."""
        return self.cpu if self.cpu is not None and kind == "cpu" else self

    def resolve(self, given: Params, kind: str, size: GemmSize | None = None, compute_units: int = 1) -> dict[str, int]:
        """All parameters that mean something to a kind of device: the given ones, and defaults for the rest.

        With a size, those that are fitted to it are too.
        """
        usual = self.defaults["cpu" if kind == "cpu" else "gpu"]
        if self.cpu is not None and kind == "cpu":
            return self.cpu.resolve({name: x for name, x in given.items() if name in usual}, kind, size, compute_units)
        return {**usual, **{name: int(value) for name, value in given.items() if value is not None}}

    def ignored(self, kind: str) -> tuple[str, ...]:
        """The parameters that mean nothing to a kind of device."""
        names = {param.name for param in self.on(kind).params}
        return tuple(param.name for param in self.params if param.name not in names)

    def searched(self, kind: str) -> tuple[str, ...]:
        """The parameters that `gemmlab tune` varies on a kind of device; the others stay as in `defaults`."""
        form = self.on(kind)
        return tuple(param.name for param in form.params if param.name not in form.kept)

    def at_a_time(self, params: RungParams, compute_units: int) -> int:
        """The work-groups that a GPU computes at a time."""
        return compute_units * max(1, FULL // math.prod(self.group(params)))

    def work(self, params: RungParams, size: GemmSize, device: Device) -> Work:
        """What a batch of products gives a GPU to do."""
        launches = self.launches(params, self.dtypes[0], size, row_major(size), device)  # of any dtype: the same grid
        return Work(((sum(math.prod(launch.groups) for launch in launches if launch.name == "gemm"), size.k),))

    def candidates(self, params: RungParams, size: GemmSize, device: Device) -> list[RungParams]:
        """The parameters among which a prediction chooses for a batch of products on a GPU."""
        return [self.resolve(params, device.kind, size, device.compute_units)]

    def refusal(self, params: RungParams, dtype: str, device: Device) -> str | None:
        """Why the rung cannot run on a device with these parameters, in a sentence; None if it can."""
        x, y = self.group(params)
        local_bytes = self.local(params) * self.numbers[dtype].sum_size
        named = ", ".join(f"{name}={value}" for name, value in params.items())
        if (lacking := self.demand(device)) is not None:
            return f"{device.label} {lacking}"
        if (broken := self.rule(params)) is not None:
            return f"{broken}, not {named}"
        if x * y > device.group_limit:
            return f"{named} makes groups of {x} x {y} work-items; {device.label} takes {device.group_limit}"
        if local_bytes > device.local_bytes and local_bytes > (limit := local_limit(device)):
            return f"{named} needs {local_bytes} bytes of local memory; {device.label} has {limit} a group"
        if self.registers(params) > MAX_REGISTERS:
            return f"{named} needs {self.registers(params)} elements per work-item; the maximum is {MAX_REGISTERS}"
        return None

    def takes_transposed(self) -> bool:
        """Whether A and B may be column-major."""
        return False

    def packs_along_k(self, itemsize: int, columns: int) -> bool | None:
        """Whether B of so many columns is read fastest along k, or else by rows; None: however it lies."""
        return None

    def defines(self, params: RungParams, dtype: str) -> Defines:
        """The macros that the kernel's text is compiled with."""
        x, y = self.group(params)
        macros = {name.upper(): value for name, value in params.items()}
        return {**macros, "GROUP_X": x, "GROUP_Y": y, "REAL": self.numbers[dtype].sum_type}

    def launches(
        self, params: RungParams, dtype: str, size: GemmSize, layouts: Sequence[Layout], device: Device
    ) -> Launches:
        """What a batch of products launches on a device, for A, B and C that lie in memory like this."""
        sides = list(zip(OPERANDS, layouts, strict=True))
        return Launches(tuple(self.gemm(params, self.defines(params, dtype), size, sides)))

    def gemm(
        self, params: RungParams, macros: Defines, size: GemmSize, sides: Sequence[Side], per_product: int = 1,
        *more: Argument,
    ) -> Iterator[Launch]:  # fmt: skip
        """The kernel `gemm`, as often as the limits of a grid ask for; `more` are its last arguments.

        `per_product` work-groups share one block of C. They count as products of the batch: C has a matrix for each.
        """
        columns, rows = self.block(params)
        (of_a, a), (of_b, b), (of_c, c) = sides
        most_products, most_rows = MAX_GROUPS // per_product, MAX_GROUPS * rows
        for first in range(0, size.batch, most_products):
            for i in range(0, size.m, most_rows):
                m, batch = min(most_rows, size.m - i), min(most_products, size.batch - first)
                groups = -(-size.n // columns), -(-m // rows), batch * per_product
                arguments = (
                    *map(np.int32, (m, size.n, size.k)),
                    *arguments_of(of_a, a.skip(i, first)),
                    *arguments_of(of_b, b.skip(0, first)),
                    *arguments_of(of_c, c.skip(i, first * per_product)),
                    *more,
                )
                yield Launch(self.text, "gemm", macros, groups, (*self.group(params), 1), arguments)


def launch_without_device(
    rung: Rung, params: RungParams, dtype: str, n: int, pad: int = 0, capability: int | None = None
) -> Launch:
    """The kernel `gemm` of a product of n x n matrices, whose rows are `pad` numbers longer: as on a GPU that copies
    nothing first."""
    device: Any = SimpleNamespace(memory_bytes=0, compute_capability=capability, compute_units=1)
    layouts = [Layout(0, n + pad, n * (n + pad))] * 3
    launches = rung.launches(params, dtype, GemmSize(n, n, n, 1), layouts, device)
    return next(launch for launch in launches if launch.name == "gemm")


def row_major(size: GemmSize) -> tuple[Layout, Layout, Layout]:
    """A, B and C whose matrices lie one after another, without gaps."""
    m, n, k = size.m, size.n, size.k
    return Layout(0, k, m * k), Layout(0, n, k * n), Layout(0, n, m * n)


def local_limit(device: Device) -> int:
    """The local memory that a group may have; it is probed where that may be more than the device reports."""
    from gemmlab._errors import BackendUnavailable

    try:
        return _probed_limit(device)
    except BackendUnavailable:  # a device that is not here
        return device.local_bytes


@cache
def _probed_limit(device: Device) -> int:
    from gemmlab._errors import BackendUnavailable
    from gemmlab._gpu import runtime_named

    runtime = runtime_named(device.runtime)
    if device not in runtime.devices:
        raise BackendUnavailable(f"{device.label} is not here")
    return runtime.queue(device).static_local_bytes
