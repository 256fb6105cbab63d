"""What the rungs of matrix units share: how operands lie in memory, which work-groups compute what, and the launches.

Operands lie along k, those of 16-bit numbers across it too, and their rows begin at a multiple of 16 bytes: others are
copied so first, on the device.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.kernels import kernel_text
from gemmlab._gpu.ladder.rung import OPERANDS, VECTOR, Defines, Rung, aligned_ld, local_limit
from gemmlab._gpu.ladder.waves import Schedule, Work, shares_for
from gemmlab._gpu.plans.launches import (
    COPIED_AS,
    MAX_GROUPS,
    Argument,
    Launch,
    Launches,
    Place,
    Side,
    Workspace,
    arguments_of,
    copies,
)
from gemmlab._gpu.tensor.kinds import RESULTS, UNITS, stored_and_result

if TYPE_CHECKING:
    from gemmlab._gpu.runtime import Device

Params: TypeAlias = Mapping[str, int]
WARP = 32  # work-items
LEAST_CAPABILITY = 80  # of the instructions
TURNED = 32  # rows and columns of a tile that is transposed in local memory
LEAST_SHARE_BYTES = 1024  # of k: a share is as deep, and sharing saves as much; else a second launch costs more
FILES = "units/units.h", "common/tile_order.h", "units/tiles.h", "units/shares.h"


def no_unit(device: Device) -> str | None:
    """Why a device cannot run the instructions at all."""
    if device.compute_capability is None:
        return "has no matrix unit that PTX reaches; NVIDIA's GPUs have, through OpenCL and CUDA"
    if device.compute_capability < LEAST_CAPABILITY:
        return f"has compute capability {device.compute_capability / 10}; this takes {LEAST_CAPABILITY / 10}"
    return None


def most_local_bytes(device: Device) -> int:
    """The local memory of a work-group: where a launch says how much, or where it is in the text."""
    return device.most_local_bytes or local_limit(device)


def in_words(params: Params) -> str:
    """Parameters for a message."""
    return ", ".join(f"{name}={value}" for name, value in params.items())


class UnitRung(Rung):
    """A rung of matrix units."""

    # what each rung says

    instruction: str  # of its products, in PTX
    smallest: Params  # parameters of the smallest block, by which a device is tried

    @abstractmethod
    def block_of(self, params: Params, kind: str) -> tuple[int, int]:
        """The columns and rows of C that a work-group computes."""

    @abstractmethod
    def step_bytes(self, params: Params) -> int:
        """The bytes of k of a row of a tile in local memory."""

    @abstractmethod
    def tiles(self, params: Params, kind: str) -> Defines:
        """The macros of the tiles of warps."""

    @abstractmethod
    def misfit(self, params: Params, kind: str) -> str | None:
        """Why parameters do not go together, in a sentence."""

    def local_bytes(self, params: Params, kind: str) -> int:
        """The local memory of a work-group."""
        return params["stages"] * self.stage_bytes(params, kind)

    @abstractmethod
    def gemm_of(self, whole: Launch, schedule: Schedule, sums: Place, start: int, device: Device) -> Launch:
        """The kernel `gemm` for a schedule whose shares keep their sums there."""

    def tried(self, params: Params) -> Params:
        """The parameters that ask something else of a device: each is tried, and `instead` is taken where it fails."""
        return {}

    def text_of(self, params: Params) -> str:
        """The kernel's text."""
        return self.text

    def maps(
        self, params: Params, kind: str, size: GemmSize, sides: Sequence[Side], workspace: Workspace
    ) -> tuple[list[Launch], tuple[Argument, ...]]:
        """What is launched before `gemm` for the copies of operands, and its last arguments for them."""
        return [], ()

    # what follows

    def stage_bytes(self, params: Params, kind: str) -> int:
        """Of one stage in local memory: a tile of A and one of B."""
        return sum(self.block_of(params, kind)) * self.step_bytes(params)

    def refusal(self, params: Params, dtype: str, device: Device) -> str | None:
        if (lacking := self.demand(device)) is not None:
            return f"{device.label} {lacking}"
        if (misfit := self.misfit(params, dtype)) is not None:
            return misfit
        named, (items, _) = in_words(params), self.group(params)
        if items > device.group_limit:
            return f"{named} makes groups of {items} work-items; {device.label} takes {device.group_limit}"
        if (nbytes := self.local_bytes(params, dtype)) > (limit := most_local_bytes(device)):
            return f"{named} needs {nbytes} bytes of local memory; {device.label} has {limit} a group"
        return None

    def takes_transposed(self) -> bool:
        return True

    def defines(self, params: Params, dtype: str) -> Defines:
        stored, result = stored_and_result(dtype)
        numbers, of_c = self.numbers[dtype], RESULTS[result]
        columns, rows = self.block_of(params, dtype)
        return {
            "UNIT": UNITS[stored], "REAL": numbers.sum_type, "STORED": numbers.c_type, "STORED_C": of_c.c_type,
            "RESULT": of_c.rounded_to, "PAIR": of_c.pair, "STEP_K": self.step_bytes(params) // numbers.itemsize,
            "STAGES": params["stages"], "GROUP_M": params["group_m"], "BLOCK_X": columns, "BLOCK_Y": rows,
            "GROUP_X": self.group(params)[0], "GROUP_Y": 1, **self.tiles(params, dtype),
        }  # fmt: skip

    def launches(
        self, params: Params, dtype: str, size: GemmSize, layouts: Sequence[Layout], device: Device
    ) -> Launches:
        itemsize, workspace, kernels = self.numbers[dtype].itemsize, Workspace(), []
        sides, shapes = list(zip(OPERANDS, layouts, strict=True)), ((size.m, size.k), (size.k, size.n))
        for i, shape in enumerate(shapes):
            if not _fits(sides[i][1], itemsize, along_k=lies_along_k(sides[i][1], i)):
                sides[i], copied = _copied(sides[i], i, (size.batch, *shape), itemsize, workspace)
                kernels += copied
        whole, schedule = self.product(params, dtype, size, sides, device), self.schedule(params, dtype, size)
        made, more = self.maps(params, dtype, size, sides, workspace)
        kernels += made
        if not schedule.shares:
            gemm = self.gemm_of(whole, schedule, Place.C, 0, device)
            return Launches((*kernels, replace(gemm, arguments=(*gemm.arguments, *more))), workspace.nbytes)
        columns, rows = self.block_of(params, dtype)
        sums = workspace.take(2 * schedule.shares * columns * rows, self.numbers[dtype].sum_size)
        shared = self.gemm_of(whole, schedule, Place.WORKSPACE, sums, device)
        adding = schedule.shared * int(self.tiles(params, dtype)["TILE_Y"]) // 16, 1, 1
        added = replace(shared, name="add_shares", groups=adding, local_bytes=0)
        gemm = replace(shared, arguments=(*shared.arguments, *more))
        return Launches((*kernels, gemm, added), workspace.nbytes)

    def work(self, params: Params, size: GemmSize, device: Device) -> Work:
        kind = self.dtypes[0]  # whose k is as deep for the unit as any other's
        return self.schedule(params, kind, size).work(self._step(params, kind), math.prod(self.block_of(params, kind)))

    def packs_along_k(self, itemsize: int, columns: int) -> bool:
        return itemsize != 2

    def schedule(self, params: Params, kind: str, size: GemmSize) -> Schedule:
        """Which work-groups compute what."""
        return Schedule.of(self._tiles(params, kind, size), -(-size.k // self._step(params, kind)), params["shares"])

    def _step(self, params: Params, kind: str) -> int:
        """The k of a tile in local memory."""
        return self.step_bytes(params) // self.numbers[kind].itemsize

    def shares_for(self, params: Params, kind: str, size: GemmSize, compute_units: int) -> int:
        """How many work-groups share the tiles of C that fill no wave, if `shares` is to be chosen."""
        least = LEAST_SHARE_BYTES // self.numbers[kind].itemsize
        return shares_for(self._tiles(params, kind, size), size.k, self.at_a_time(params, compute_units), least)

    def _tiles(self, params: Params, kind: str, size: GemmSize) -> int:
        columns, rows = self.block_of(params, kind)
        return -(-size.m // rows) * -(-size.n // columns) * size.batch

    def product(
        self, params: Params, kind: str, size: GemmSize, sides: Sequence[Side], device: Device, before: str = ""
    ) -> Launch:
        """The kernel, of operands that it takes as they lie in memory; text may come before its own."""
        (_, a), (_, b), (_, c) = sides
        macros = self.defines(params, kind) | {
            "A_ALONG_K": int(lies_along_k(a, 0)), "B_ALONG_K": int(lies_along_k(b, 1)),
            "PAIRS": int(not any(x % 2 for x in (c.start, c.ld, c.batch_stride))),
            "CAPABILITY": device.compute_capability or LEAST_CAPABILITY, "EVEN_WAVES": 0,
        }  # fmt: skip
        groups = self._tiles(params, kind, size), 1, 1
        arguments = [*map(np.int32, (size.m, size.n, size.k))]
        for side in sides:
            arguments += arguments_of(*side)
        local, group = self.local_bytes(params, kind), (*self.group(params), 1)
        return Launch(before + self.text_of(params), "gemm", macros, groups, group, tuple(arguments), local)


def with_shares(whole: Launch, schedule: Schedule, sums: Place, start: int) -> Launch:
    """A kernel that takes a schedule."""
    counts = *map(np.int32, (schedule.tiles, schedule.whole, schedule.shares)), sums, np.int64(start)
    return replace(
        whole, macros={**whole.macros, "EVEN_WAVES": int(schedule.shares > 0)}, arguments=(*whole.arguments, *counts),
        groups=(schedule.groups, 1, 1),
    )  # fmt: skip


def lies_along_k(x: Layout, side: int) -> bool:
    """Whether an operand is contiguous along k: A by rows, B by columns."""
    return x.transposed == (side == 1)


def _fits(x: Layout, itemsize: int, along_k: bool) -> bool:
    """Whether the kernel takes an operand as it lies in memory."""
    aligned = not any(value * itemsize % VECTOR for value in (x.start, x.ld, x.batch_stride))
    return aligned and (along_k or itemsize == 2)


def _copied(
    given: Side, side: int, shape: tuple[int, int, int], itemsize: int, workspace: Workspace
) -> tuple[Side, list[Launch]]:
    """A copy of an operand that the kernel takes, in the workspace, and what makes it."""
    (place, x), (batch, *extents) = given, shape
    rows, columns = extents[::-1] if x.transposed else extents  # as it lies in memory
    turned = not lies_along_k(x, side) and itemsize != 2
    if turned:
        rows, columns = columns, rows
    ld = aligned_ld(columns, itemsize)
    count, step = (batch, rows * ld) if x.batch_stride else (1, 0)
    there = Layout(workspace.take(count * rows * ld, itemsize), ld, step, x.transposed != turned)
    target = Place.WORKSPACE, there
    if turned:
        return target, list(_turned(itemsize, (count, rows, columns), given, target))
    return target, list(copies(itemsize, (count, rows, columns), (place, x, 1), (*target, 1)))


def _turned(itemsize: int, shape: tuple[int, int, int], source: Side, target: Side) -> Iterator[Launch]:
    """Transpose matrices of (count, rows, columns) of the target."""
    count, rows, columns = shape
    macros: Defines = {"REAL": COPIED_AS[itemsize]}
    for i in range(0, rows, MAX_GROUPS * TURNED):
        some = min(MAX_GROUPS * TURNED, rows - i)
        groups = -(-columns // TURNED), -(-some // TURNED), count
        (from_place, x), (to_place, y) = source, target
        arguments = (
            *map(np.int32, (some, columns)),
            *arguments_of(from_place, replace(x, start=x.start + i)), *arguments_of(to_place, y.skip(i)),
        )  # fmt: skip
        yield Launch(kernel_text("common/transpose.cl"), "transpose", macros, groups, (TURNED, 8, 1), arguments)
