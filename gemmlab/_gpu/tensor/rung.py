"""The rung tensor: its tiles, what its kernel needs, and how its operands lie in memory.

A work-group computes a block of WARPS_Y x WARPS_X tiles, each by a warp. Operands lie along k, those of 16-bit numbers
across it too, and their rows begin at a multiple of 16 bytes: others are copied so first, on the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.kernels import kernel_text
from gemmlab._gpu.ladder.rung import OPERANDS, Defines, Rung, choice, count, local_limit
from gemmlab._gpu.ladder.tuned import GROUP_M, SHARES
from gemmlab._gpu.ladder.waves import Schedule, shares_for
from gemmlab._gpu.plans.launches import (
    COPIED_AS,
    MAX_GROUPS,
    Launch,
    Launches,
    Place,
    Side,
    Workspace,
    arguments_of,
    copies,
)
from gemmlab._gpu.tensor.kinds import NUMBERS, RESULTS, UNITS, stored_and_result

if TYPE_CHECKING:
    from gemmlab._gpu.runtime import Device

Params: TypeAlias = Mapping[str, int]
WARP, VECTOR = 32, 16  # work-items; bytes that are copied at once
LEAST_CAPABILITY = 80  # of the instructions
TURNED = 32  # rows and columns of a tile that is transposed in local memory
LEAST_SHARE_BYTES = 1024  # of k: a share is as deep, and sharing saves as much; else a second launch costs more
MAX_REGISTERS = 192  # of sums, of a work-item: more would be spilled


def group(params: Params) -> tuple[int, int]:
    """The work-items of a work-group."""
    return WARP * params["warps_y"] * params["warps_x"], 1


def block(params: Params, sum_size: int = 4) -> tuple[int, int]:
    """The columns and rows of C that a work-group computes."""
    return params["warps_x"] * params["tile_x"] * 4 // sum_size, params["warps_y"] * params["tile_y"]


def traffic(m: int, n: int, k: int, params: Params) -> dict[str, float]:
    """Elements of A and B that each block of C needs, and C; from local memory what each warp's tile needs."""
    columns, rows = block(params)
    tiles = m * k * -(-n // columns) + k * n * -(-m // rows)
    return {"l1": tiles + m * n, "local": tiles + (1 / params["tile_x"] + 1 / params["tile_y"]) * m * n * k}


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


class Tensor(Rung):
    """The rung."""

    def stage_bytes(self, params: Params, kind: str) -> int:
        """Of one stage in local memory: a tile of A and one of B."""
        return sum(block(params, self.numbers[kind].sum_size)) * params["step_bytes"]

    def refusal(self, params: Params, dtype: str, device: Device) -> str | None:
        if (lacking := self.demand(device)) is not None:
            return f"{device.label} {lacking}"
        named = ", ".join(f"{name}={value}" for name, value in params.items())
        numbers, (items, _) = self.numbers[dtype], self.group(params)
        columns, rows = block(params, numbers.sum_size)
        vectors = {params["step_bytes"] // VECTOR, *(edge * numbers.itemsize // VECTOR for edge in (columns, rows))}
        if params["tile_x"] * 4 // numbers.sum_size % 16 or params["tile_y"] % 16:
            return f"tile_x and tile_y must be multiples of 16, or tile_x of 32 for float64, not {named}"
        if any(items % vector for vector in vectors):
            return f"{named} makes groups of {items} work-items, which copy no whole rows of a tile"
        if items > device.group_limit:
            return f"{named} makes groups of {items} work-items; {device.label} takes {device.group_limit}"
        if params["tile_x"] * params["tile_y"] // WARP > MAX_REGISTERS:
            return f"{named} keeps more than {MAX_REGISTERS} sums in the registers of a work-item"
        nbytes = params["stages"] * self.stage_bytes(params, dtype)
        if nbytes > (limit := most_local_bytes(device)):
            return f"{named} needs {nbytes} bytes of local memory; {device.label} has {limit} a group"
        return None

    def takes_transposed(self) -> bool:
        return True

    def defines(self, params: Params, dtype: str) -> Defines:
        stored, result = stored_and_result(dtype)
        numbers, of_c = self.numbers[dtype], RESULTS[result]
        columns, rows = block(params, numbers.sum_size)
        tile_y, warps_y, tile_x, warps_x = (params[name] for name in ("tile_y", "warps_y", "tile_x", "warps_x"))
        return {
            "UNIT": UNITS[stored], "REAL": numbers.sum_type, "STORED": numbers.c_type, "STORED_C": of_c.c_type,
            "RESULT": of_c.rounded_to, "PAIR": of_c.pair, "TILE_Y": tile_y, "WARPS_Y": warps_y, "WARPS_X": warps_x,
            "TILE_X": tile_x * 4 // numbers.sum_size, "STEP_K": params["step_bytes"] // numbers.itemsize,
            "STAGES": params["stages"], "GROUP_M": params["group_m"], "BLOCK_X": columns, "BLOCK_Y": rows,
            "GROUP_X": self.group(params)[0], "GROUP_Y": 1,
        }  # fmt: skip

    def launches(
        self, params: Params, dtype: str, size: GemmSize, layouts: Sequence[Layout], device: Device
    ) -> Launches:
        itemsize, workspace, kernels = self.numbers[dtype].itemsize, Workspace(), []
        sides, shapes = list(zip(OPERANDS, layouts, strict=True)), ((size.m, size.k), (size.k, size.n))
        for i, shape in enumerate(shapes):
            if not _fits(sides[i][1], itemsize, along_k=_lies_along_k(sides[i][1], i)):
                sides[i], copied = _copied(sides[i], i, (size.batch, *shape), itemsize, workspace)
                kernels += copied
        whole, schedule = self.product(params, dtype, size, sides, device), self.schedule(params, dtype, size)
        if not schedule.shares:
            return Launches((*kernels, whole), workspace.nbytes)
        columns, rows = block(params, self.numbers[dtype].sum_size)
        sums = workspace.take(2 * schedule.shares * columns * rows, self.numbers[dtype].sum_size)
        counts = *map(np.int32, (schedule.tiles, schedule.whole, schedule.shares)), Place.WORKSPACE, np.int64(sums)
        shared = replace(
            whole, macros={**whole.macros, "EVEN_WAVES": 1}, arguments=(*whole.arguments, *counts),
            groups=(schedule.groups, 1, 1),
        )  # fmt: skip
        adding = schedule.shared * params["tile_y"] // 16, 1, 1
        added = replace(shared, name="add_shares", groups=adding, local_bytes=0)
        return Launches((*kernels, shared, added), workspace.nbytes)

    def schedule(self, params: Params, kind: str, size: GemmSize) -> Schedule:
        """Which work-groups compute what."""
        step = params["step_bytes"] // self.numbers[kind].itemsize
        return Schedule.of(self._tiles(params, kind, size), -(-size.k // step), params["shares"])

    def shares_for(self, params: Params, kind: str, size: GemmSize, compute_units: int) -> int:
        """How many work-groups share the tiles of C that fill no wave, if `shares` is to be chosen."""
        least = LEAST_SHARE_BYTES // self.numbers[kind].itemsize
        return shares_for(self._tiles(params, kind, size), size.k, self.at_a_time(params, compute_units), least)

    def _tiles(self, params: Params, kind: str, size: GemmSize) -> int:
        columns, rows = block(params, self.numbers[kind].sum_size)
        return -(-size.m // rows) * -(-size.n // columns) * size.batch

    def product(
        self, params: Params, kind: str, size: GemmSize, sides: Sequence[Side], device: Device, before: str = ""
    ) -> Launch:
        """The kernel, of operands that it takes as they lie in memory; text may come before its own."""
        (_, a), (_, b), (_, c) = sides
        macros = self.defines(params, kind) | {
            "A_ALONG_K": int(_lies_along_k(a, 0)), "B_ALONG_K": int(_lies_along_k(b, 1)),
            "PAIRS": int(not any(x % 2 for x in (c.start, c.ld, c.batch_stride))),
            "CAPABILITY": device.compute_capability or LEAST_CAPABILITY, "EVEN_WAVES": 0,
        }  # fmt: skip
        groups = self._tiles(params, kind, size), 1, 1
        arguments = [*map(np.int32, (size.m, size.n, size.k))]
        for side in sides:
            arguments += arguments_of(*side)
        local, group = params["stages"] * self.stage_bytes(params, kind), (*self.group(params), 1)
        return Launch(before + self.text, "gemm", macros, groups, group, tuple(arguments), local)


def _lies_along_k(x: Layout, side: int) -> bool:
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
    turned = not _lies_along_k(x, side) and itemsize != 2
    if turned:
        rows, columns = columns, rows
    ld = -(-columns * itemsize // VECTOR) * VECTOR // itemsize
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


TENSOR = Tensor(
    "tensor", "matrix units of NVIDIA's GPUs, fed by asynchronous copies", "CUTLASS; PTX ISA",
    (count("tile_x", "columns of C per warp, or half as many of float64", 32, 64, 128),
     count("tile_y", "rows of C per warp", 32, 64, 128),
     count("warps_x", "warps of a work-group along a row of C", 1, 2, 4),
     count("warps_y", "warps of a work-group along a column of C", 1, 2, 4),
     choice("step_bytes", "bytes of k of a row of a tile in local memory", 64, 128),
     count("stages", "tiles in local memory, of each operand: all but one are on their way", 2, 3, 4, 5),
     GROUP_M, SHARES),
    {"gpu": {"tile_x": 64, "tile_y": 64, "warps_x": 4, "warps_y": 2, "step_bytes": 64, "stages": 4, "group_m": 8,
             "shares": 0}},
    group=group, block=block, model=traffic, demand=no_unit,
    over={"tuned": "multiplies by matrix units"},
    dtypes=("float16", "bfloat16", "int8", "float32", "float64"), numbers=NUMBERS, kept=("group_m", "shares"),
    for_parts={"shares": 1},
    files=("common/units.h", "common/tile_order.h", "common/unit_tiles.h", "tensor.cl"),
)  # fmt: skip
