"""The rung tensor-async: warpgroups of four warps multiply, each 64 rows of a block of C, and another one copies.

Its instructions are those of compute capability 9.0. As many work-groups are started as the device has compute units,
and each takes one block of C after the other: the local memory of one lets a unit hold no second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gemmlab._gpu.batches import GemmSize
from gemmlab._gpu.kernels import with_header
from gemmlab._gpu.ladder.rung import VECTOR, Defines, choice, count
from gemmlab._gpu.ladder.tuned import GROUP_M, SHARES
from gemmlab._gpu.ladder.waves import Schedule
from gemmlab._gpu.plans.launches import Argument, Launch, Place, Side, Workspace
from gemmlab._gpu.ptx import ARCHITECTURE
from gemmlab._gpu.tensor import maps
from gemmlab._gpu.tensor.kinds import NUMBERS
from gemmlab._gpu.tensor.unit_rung import (
    FILES,
    WARP,
    Params,
    UnitRung,
    in_words,
    lies_along_k,
    no_unit,
    with_shares,
)

if TYPE_CHECKING:
    from gemmlab._gpu.runtime import Device

CAPABILITY = 90
WARPGROUP, ROWS = 128, 64  # work-items, and the rows of C that they compute
STEP_BYTES = 128  # of k: a row of a tile, which the unit's exclusive or is made for
ALIGNED_TO = 1024  # bytes: tiles begin where that begins anew
LEAST_STAGES = 3  # one is copied, one is on its way, one is multiplied
BEFORE = *FILES, "units/maps.h", "units/warpgroups.h", "units/warpgroup_tiles.h"  # the two ways of copies
WAYS = "units/copies_by_items.h", "units/copies_by_boxes.h"


def copiers(params: Params) -> int:
    """The work-items that copy; of a warp that copies boxes, one does."""
    return WARP if params["boxes"] else WARPGROUP


def group(params: Params) -> tuple[int, int]:
    """The work-items of a work-group."""
    return WARPGROUP * params["warpgroups"] + copiers(params), 1


def block(params: Params) -> tuple[int, int]:
    """The columns and rows of C that a work-group computes."""
    return params["columns"], ROWS * params["warpgroups"]


def traffic(m: int, n: int, k: int, params: Params) -> dict[str, float]:
    """Elements of A and B that each block of C needs, and C; from local memory A once, and B for each warpgroup."""
    columns, rows = block(params)
    tiles = m * k * -(-n // columns) + k * n * -(-m // rows)
    return {"l1": tiles + m * n, "local": tiles + (1 / columns + 1 / ROWS) * m * n * k}


def no_warpgroups(device: Device) -> str | None:
    """Why a device cannot run the instructions at all."""
    has = device.compute_capability
    if has is None or has == CAPABILITY:
        return no_unit(device)
    return f"has compute capability {has / 10}; the instructions are of {CAPABILITY / 10} alone"


class TensorAsync(UnitRung):
    """The rung."""

    instruction = "wgmma"
    instead = {"boxes": 0}  # noqa: RUF012
    smallest: Params = {  # noqa: RUF012
        "columns": 128, "warpgroups": 1, "stages": LEAST_STAGES, "boxes": 0, "group_m": 1, "shares": 1,
    }  # fmt: skip

    def block_of(self, params: Params, kind: str) -> tuple[int, int]:
        return block(params)

    def step_bytes(self, params: Params) -> int:
        return STEP_BYTES

    def local_bytes(self, params: Params, kind: str) -> int:
        return ALIGNED_TO + params["stages"] * (self.stage_bytes(params, kind) + VECTOR)  # with two barriers a stage

    def tiles(self, params: Params, kind: str) -> Defines:
        return {
            "TILE_X": params["columns"], "TILE_Y": 16, "WARPS_X": 1, "WARPS_Y": 4 * params["warpgroups"],
            "COPIERS": copiers(params), ARCHITECTURE: f"{CAPABILITY}a",
        }  # fmt: skip

    def misfit(self, params: Params, kind: str) -> str | None:
        if params["stages"] < LEAST_STAGES:
            return f"stages must be at least {LEAST_STAGES}, not {in_words(params)}"
        return None

    def tried(self, params: Params) -> Params:
        return {"boxes": 1} if params["boxes"] else {}

    def text_of(self, params: Params) -> str:
        return with_header(*BEFORE, WAYS[params["boxes"]], "tensor_async.cl")

    def maps(
        self, params: Params, kind: str, size: GemmSize, sides: Sequence[Side], workspace: Workspace
    ) -> tuple[list[Launch], tuple[Argument, ...]]:
        if not params["boxes"]:
            return [], ()
        itemsize, (columns, rows) = self.numbers[kind].itemsize, self.block_of(params, kind)
        line, words, operands = STEP_BYTES // itemsize, list[Argument](), list[Argument]()
        for i, (across, edge) in enumerate(((size.m, rows), (size.n, columns))):
            (place, x), depth = sides[i], max(size.k, 1)
            numbers, lines = (depth, across) if lies_along_k(x, i) else (across, depth)
            matrices = size.batch if x.batch_stride else 1
            strides = x.ld * itemsize, (x.batch_stride or lines * x.ld) * itemsize
            box = line, edge if lies_along_k(x, i) else line
            words += maps.encoded(itemsize, (numbers, lines, matrices), strides, box)
            operands += [place, np.int64(x.start * itemsize)]
        where = Place.WORKSPACE, np.int64(workspace.take(2 * maps.WORDS, 8))
        macros: Defines = {ARCHITECTURE: f"{CAPABILITY}a", "REAL": "float", "GROUP_X": WARP, "GROUP_Y": 1}
        text, arguments = with_header("units/maps.h", "units/maps.cl"), (*words, *operands, *where)
        return [Launch(text, "make_maps", macros, (1, 1, 1), (WARP, 1, 1), arguments)], where

    def at_a_time(self, params: Params, compute_units: int) -> int:
        return compute_units

    def gemm_of(self, whole: Launch, schedule: Schedule, sums: Place, start: int, device: Device) -> Launch:
        shared = with_shares(whole, schedule, sums, start)
        return replace(shared, groups=(min(device.compute_units, schedule.groups), 1, 1))


TENSOR_ASYNC = TensorAsync(
    "tensor-async", "matrix units of compute capability 9.0, that work while others copy", "CUTLASS; PTX ISA",
    (choice("columns", "columns of C per work-group", 64, 128, 256),
     choice("warpgroups", "warpgroups that multiply, each 64 rows of C", 1, 2),
     count("stages", "tiles in local memory, of each operand", 3, 4, 5, 6),
     choice("boxes", "1: one work-item starts the copies of whole tiles; 0: each copies 16 bytes at a time", 0, 1),
     GROUP_M, SHARES),
    {"gpu": {"columns": 256, "warpgroups": 2, "stages": 4, "boxes": 1, "group_m": 8, "shares": 0}},
    group=group, block=block, model=traffic, demand=no_warpgroups,
    over={"tensor": "multiplies while it copies, by the whole unit"},
    dtypes=("float16", "bfloat16", "int8", "float32"),
    numbers={kind: numbers for kind, numbers in NUMBERS.items() if kind != "float64"}, kept=("group_m", "shares"),
    for_parts={"shares": 1}, files=(*BEFORE, WAYS[0], "tensor_async.cl"),
)  # fmt: skip
