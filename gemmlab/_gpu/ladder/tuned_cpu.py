"""The rung tuned on CPU devices: a work-group is one work-item, which computes one tile of C from the caches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from gemmlab._gpu.ladder import tuned
from gemmlab._gpu.ladder.rung import Shape

if TYPE_CHECKING:
    from gemmlab._gpu.runtime import Device

Params: TypeAlias = Mapping[str, int]


def group(params: Params) -> Shape:
    """The work-items of a work-group."""
    return 1, 1


def block(params: Params) -> Shape:
    """The columns and rows of C that a work-group computes."""
    return params["tile_x"], params["tile_y"]


def registers(params: Params) -> int:
    """The elements in registers: the tile, and what is multiplied."""
    return params["tile_x"] * params["tile_y"] + params["tile_x"] + params["tile_y"]


def traffic(m: int, n: int, k: int, params: Params) -> dict[str, float]:
    """Elements of A and B that each tile of C needs, and C."""
    columns, rows = block(params)
    return {"l1": m * k * -(-n // columns) + k * n * -(-m // rows) + m * n}


class TunedOnCpu(tuned.Wide):
    """The form for CPU devices."""

    def refusal(self, params: Params, dtype: str, device: Device) -> str | None:
        wide = self.wide(params, dtype)
        if wide not in (2, 4, 8, 16):
            return f"vector_bytes={params['vector_bytes']} makes vectors of {wide} elements, not 2, 4, 8 or 16"
        if params["tile_x"] % wide:
            return f"tile_x must be a multiple of the {wide} elements of a vector"
        return super().refusal(params, dtype, device)


TUNED = TunedOnCpu(
    "tuned", tuned.TUNED.summary, tuned.TUNED.source,
    (tuned.TILE_X, tuned.TILE_Y, tuned.GROUP_M, tuned.VECTOR_BYTES),
    {"cpu": {"tile_x": 16, "tile_y": 6, "group_m": 8, "vector_bytes": 64}},
    group=group, block=block, model=traffic, registers=registers,
    dtypes=tuned.HALF_TOO, files=("common/stored.h", "common/tile_order.h", "tuned_cpu.cl"),
)  # fmt: skip
