"""The rung tensor: a work-group computes a block of WARPS_Y x WARPS_X tiles, each by a warp."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmlab._gpu.ladder.rung import VECTOR, Defines, choice, count
from gemmlab._gpu.ladder.tuned import GROUP_M, SHARES
from gemmlab._gpu.ladder.waves import Schedule
from gemmlab._gpu.plans.launches import Launch, Place
from gemmlab._gpu.tensor.kinds import NUMBERS
from gemmlab._gpu.tensor.unit_rung import FILES, WARP, Params, UnitRung, in_words, no_unit, with_shares

if TYPE_CHECKING:
    from gemmlab._gpu.runtime import Device

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


class Tensor(UnitRung):
    """The rung."""

    instruction = "mma.sync"
    smallest: Params = {  # noqa: RUF012
        "tile_x": 32, "tile_y": 16, "warps_x": 1, "warps_y": 1, "step_bytes": 64, "stages": 2, "group_m": 1,
        "shares": 1,
    }  # fmt: skip

    def block_of(self, params: Params, kind: str) -> tuple[int, int]:
        return block(params, self.numbers[kind].sum_size)

    def step_bytes(self, params: Params) -> int:
        return params["step_bytes"]

    def tiles(self, params: Params, kind: str) -> Defines:
        given: Defines = {name.upper(): params[name] for name in ("tile_x", "tile_y", "warps_x", "warps_y")}
        return {**given, "TILE_X": params["tile_x"] * 4 // self.numbers[kind].sum_size}

    def misfit(self, params: Params, kind: str) -> str | None:
        named, numbers, (items, _) = in_words(params), self.numbers[kind], self.group(params)
        vectors = {params["step_bytes"] // VECTOR}
        vectors |= {edge * numbers.itemsize // VECTOR for edge in self.block_of(params, kind)}
        if params["tile_x"] * 4 // numbers.sum_size % 16 or params["tile_y"] % 16:
            return f"tile_x and tile_y must be multiples of 16, or tile_x of 32 for float64, not {named}"
        if any(items % vector for vector in vectors):
            return f"{named} makes groups of {items} work-items, which copy no whole rows of a tile"
        if params["tile_x"] * params["tile_y"] // WARP > MAX_REGISTERS:
            return f"{named} keeps more than {MAX_REGISTERS} sums in the registers of a work-item"
        return None

    def gemm_of(self, whole: Launch, schedule: Schedule, sums: Place, start: int, device: Device) -> Launch:
        return with_shares(whole, schedule, sums, start) if schedule.shares else whole


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
    files=(*FILES, "units/warp_tiles.h", "tensor.cl"),
)  # fmt: skip
