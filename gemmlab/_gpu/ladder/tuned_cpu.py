"""The rung tuned on CPU devices: a work-group is one work-item, which computes one tile of C from the caches.

A large B is copied first, into panels in the order in which tiles read it: else its rows, which lie far apart, want
more lines of a cache and pages than there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.ladder import tuned
from gemmlab._gpu.ladder.rung import OPERANDS, Shape
from gemmlab._gpu.plans.launches import MAX_GROUPS, Launches, Place, Workspace

if TYPE_CHECKING:
    from gemmlab._gpu.runtime import Device

Params: TypeAlias = Mapping[str, int]
LEAST_ROWS = 256  # of A: below, panels are not read often enough to pay for the copy
LEAST_BYTES = 2 << 20  # of B: what L2 holds is read fast as it lies
PACKED_ROWS = 32  # of B, by a work-item


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

    def launches(
        self, params: Params, dtype: str, size: GemmSize, layouts: Sequence[Layout], device: Device
    ) -> Launches:
        sides = list(zip(OPERANDS, layouts, strict=True))
        matrices = size.batch if layouts[1].batch_stride else 1
        panels, steps = -(-size.n // params["tile_x"]), -(-size.k // PACKED_ROWS)
        count, numbers = matrices * panels * params["tile_x"] * size.k, self.numbers[dtype]
        packs = all((
            size.m >= LEAST_ROWS, size.n * size.k * numbers.itemsize >= LEAST_BYTES,
            count * numbers.sum_size <= device.memory_bytes // tuned.COPY_PART, max(size.batch, steps) <= MAX_GROUPS,
        ))  # fmt: skip
        macros = {**self.defines(params, dtype), "PACKED": int(packs), "PACKED_ROWS": PACKED_ROWS}
        if not packs:
            return Launches(tuple(self.gemm(params, macros, size, sides)))
        workspace = Workspace()
        more = Place.WORKSPACE, np.int64(workspace.take(count, numbers.sum_size))
        gemm = list(self.gemm(params, macros, size, sides, 1, *more))
        return Launches((replace(gemm[0], name="pack", groups=(panels, steps, matrices)), *gemm), workspace.nbytes)

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
