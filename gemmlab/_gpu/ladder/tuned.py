"""The rung tuned on GPUs: its tiles, what its kernel needs, and how its operands lie in memory.

A work-group computes a block of WARPS_Y x WARPS_X tiles, each by a warp of 32 work-items. `tuned_cpu.py` is the form
for CPU devices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain, starmap
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from gemmlab._backend import Param
from gemmlab._backend import Params as Given
from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.ladder import waves
from gemmlab._gpu.ladder.rung import OPERANDS, VECTOR, Defines, Rung, choice, count, is_count
from gemmlab._gpu.ladder.thin import ThinProduct, is_thin, slices_for
from gemmlab._gpu.ladder.waves import Schedule, Work
from gemmlab._gpu.plans.launches import Launch, Launches, Place, Side, Workspace, arguments_of, copies

if TYPE_CHECKING:
    from gemmlab._gpu.runtime import Device

Params: TypeAlias = Mapping[str, int]
WARP = 32
MAX_SHARES = 1 << 16
MUCH_REUSE = 2560  # times that an element is multiplied: then a copy that can be read in vectors pays
COPY_PART = 32  # of the device's memory, for a copy
INT_MAX = 2**31 - 1
HALF_TOO = ("float32", "float64", "float16")

TILE_X = count("tile_x", "columns of C per work-item", 1, 2, 4, 8, 12, 16)
TILE_Y = count("tile_y", "rows of C per work-item", 1, 2, 4, 8, 12, 16)
GROUP_M = count("group_m", "tiles of C that groups compute down a column of C, before the next", 1, 4, 8, 16)
SHARES = Param(
    "shares", None, (0, 1),
    "work-groups that share the tiles of C that fill no wave, or slices of k of a thin product; 0 chooses",
    f"an integer from 0 to {MAX_SHARES}", lambda value: is_count(value, 0, MAX_SHARES),
)  # fmt: skip
VECTOR_BYTES = choice("vector_bytes", "bytes that are read or written at once", 8, 16, 32, 64)


def group(params: Params) -> tuple[int, int]:
    """The work-items of a work-group."""
    return WARP * params["warps_y"] * params["warps_x"], 1


def block(params: Params) -> tuple[int, int]:
    """The columns and rows of C that a work-group computes."""
    x, y = params["tile_x"], params["tile_y"]
    return params["warps_x"] * (WARP // params["warp_y"]) * x, params["warps_y"] * params["warp_y"] * y


def local(params: Params) -> int:
    """The elements in local memory."""
    return params["buffers"] * params["step_k"] * (sum(block(params)) + 2 * params["pad"])


def registers(params: Params) -> int:
    """The elements in registers of a work-item: its tile, what it multiplies, and what it copies."""
    tile = params["tile_x"] * params["tile_y"] + params["tile_x"] + params["tile_y"]
    return tile + -(-params["step_k"] * sum(block(params)) // group(params)[0])


def traffic(m: int, n: int, k: int, params: Params) -> dict[str, float]:
    """Elements of A and B that each block of C needs, and C; from local memory what each tile of a work-item needs."""
    (columns, rows), (x, y) = block(params), (params["tile_x"], params["tile_y"])
    tiles = m * k * -(-n // columns) + k * n * -(-m // rows)
    return {"l1": tiles + m * n, "local": tiles + (1 / x + 1 / y) * m * n * k}


def in_vectors(x: Layout, along_k: bool, rows: int, wide: int) -> bool:
    """Whether an operand can be read in vectors of `wide` elements. `rows` is its extent across k.

    Along k no vector reaches over the end: the last tile is read in single elements.
    """
    aligned = not any(value % wide for value in (x.start, x.ld, x.batch_stride))
    return aligned and (along_k or x.padded or rows % wide == 0)


class Wide(Rung):
    """A form of the rung tuned: it reads vectors, and it has float16."""

    def wide(self, params: Params, dtype: str) -> int:
        """The elements of a vector."""
        return params["vector_bytes"] // self.numbers[dtype].sum_size

    def defines(self, params: Params, dtype: str) -> Defines:
        macros = super().defines(params, dtype)
        columns, rows = self.block(params)
        if dtype == "float16":
            macros |= {"STORED": self.numbers[dtype].c_type, "HALF": 1, "HALF_C": 1}
        return macros | {"WIDE": self.wide(params, dtype), "BLOCK_X": columns, "BLOCK_Y": rows}


class Tuned(Wide):
    """The form for GPUs: it fills their waves, its text depends on the layout of the operands, and it copies them."""

    def resolve(self, given: Given, kind: str, size: GemmSize | None = None, compute_units: int = 1) -> dict[str, int]:
        """With a size, `shares` is chosen if it is 0."""
        params = super().resolve(given, kind, size, compute_units)
        if size is None or params.get("shares", 1):  # the form for CPU devices has none
            return params
        if is_thin(size):
            return {**params, "shares": slices_for(size, compute_units)}
        chosen = waves.shares_for(self._tiles(params, size), size.k, self.at_a_time(params, compute_units))
        return {**params, "shares": chosen}

    def _tiles(self, params: Params, size: GemmSize) -> int:
        columns, rows = self.block(params)
        return -(-size.m // rows) * -(-size.n // columns) * size.batch

    def _reads_once(self, params: Params, size: GemmSize) -> bool:
        """Whether it is a thin product. With shares=1 each tile of C is one chain, as in blocks of a larger product."""
        return is_thin(size) and params["shares"] != 1

    def work(self, params: Params, size: GemmSize, device: Device) -> Work:
        if self._reads_once(params, size):
            return Work(())  # it takes as long as memory
        return self.schedule(params, size).work(params["step_k"], math.prod(self.block(params)))

    def candidates(self, params: Params, size: GemmSize, device: Device) -> list[Params]:
        if params["shares"] or is_thin(size):
            return super().candidates(params, size, device)
        steps = -(-size.k // params["step_k"])
        shares = waves.candidates(self._tiles(params, size), steps, device.compute_units)
        return [{**params, "shares": count} for count in shares]

    def schedule(self, params: Params, size: GemmSize) -> Schedule:
        """Which work-groups compute what."""
        return Schedule.of(self._tiles(params, size), -(-size.k // params["step_k"]), params["shares"])

    def launches(
        self, params: Params, dtype: str, size: GemmSize, layouts: Sequence[Layout], device: Device
    ) -> Launches:
        if self._reads_once(params, size):
            macros, wide = self.defines(params, dtype), self.wide(params, dtype)
            slices, itemsize = max(1, params["shares"]), self.numbers[dtype].sum_size
            return ThinProduct.of(size, layouts).launches(macros, wide, slices, itemsize)
        workspace, given = Workspace(), list(zip(OPERANDS, layouts, strict=True))
        kernels, sides = self.packed(params, dtype, size, given, workspace, device)
        macros = self.defines(params, dtype) | self.layout(params, dtype, size, *(x for _, x in sides))
        arguments = [*map(np.int32, (size.m, size.n, size.k)), *chain.from_iterable(starmap(arguments_of, sides))]
        schedule = self.schedule(params, size)
        if schedule.shares:
            columns, rows = self.block(params)
            sums = workspace.take(2 * schedule.shares * columns * rows, self.numbers[dtype].sum_size)
            counts = schedule.tiles, schedule.whole, schedule.shares
            arguments += [*map(np.int32, counts), Place.WORKSPACE, np.int64(sums)]
        macros["EVEN_WAVES"] = int(schedule.shares > 0)
        group = *self.group(params), 1
        kernels.append(Launch(self.text, "gemm", macros, (schedule.groups, 1, 1), group, tuple(arguments)))
        if schedule.shares:
            adding = schedule.shared * params["tile_y"], 1, 1
            kernels.append(Launch(self.text, "add_shares", macros, adding, group, tuple(arguments)))
        return Launches(tuple(kernels), workspace.nbytes)

    def refusal(self, params: Params, dtype: str, device: Device) -> str | None:
        wide = self.wide(params, dtype)
        if wide not in (2, 4):
            return f"vector_bytes={params['vector_bytes']} makes vectors of {wide} elements, not 2 or 4"
        if any(params[name] % wide for name in ("tile_x", "tile_y", "step_k")):
            return f"tile_x, tile_y and step_k must be a multiple of the {wide} elements of a vector"
        if params["quads"] and params["warp_y"] in (1, WARP):
            return f"quads=1 needs warp_y from 2 to {WARP // 2}, not {params['warp_y']}"
        if params["pad"] % wide:
            return f"pad must be a multiple of {wide}, a vector"
        return super().refusal(params, dtype, device)

    def takes_transposed(self) -> bool:
        return True

    def packs_along_k(self, itemsize: int, columns: int) -> bool:
        return columns * itemsize % VECTOR > 0  # then rows of it are not read in vectors

    def layout(self, params: Params, dtype: str, size: GemmSize, a: Layout, b: Layout, c: Layout) -> Defines:
        """How the operands lie in memory, and which of them can be read in vectors."""
        wide = self.wide(params, dtype)
        c_wide = wide if not any(value % wide for value in (c.start, c.ld, c.batch_stride, size.n)) else 1
        farthest = max(abs(a.ld), abs(b.ld)) * max(*self.block(params), params["step_k"])
        return {
            "A_ALONG_K": int(not a.transposed), "B_ALONG_K": int(b.transposed),
            "A_WIDTH": wide if in_vectors(a, not a.transposed, size.m, wide) else 1,
            "B_WIDTH": wide if in_vectors(b, b.transposed, size.n, wide) else 1, "C_WIDTH": c_wide,
            "INDEX": "int" if farthest <= INT_MAX else "long",
        }  # fmt: skip

    def packed(
        self, params: Params, dtype: str, size: GemmSize, sides: list[Side], workspace: Workspace, device: Device
    ) -> tuple[list[Launch], list[Side]]:
        itemsize, found = self.numbers[dtype].itemsize, list(sides)
        kernels: list[Launch] = []
        shapes = (size.m, size.k), (size.k, size.n)
        for i, ld in enumerate(self.copied_ld(params, dtype, size, sides[0][1], sides[1][1])):
            (place, x), shape = sides[i], shapes[i]
            rows, columns = shape[::-1] if x.transposed else shape
            batch, step = (size.batch, rows * ld) if x.batch_stride else (1, 0)
            if ld and batch * rows * ld * itemsize <= device.memory_bytes // COPY_PART:
                start = workspace.take(batch * rows * ld, itemsize)
                found[i] = Place.WORKSPACE, Layout(start, ld, step, x.transposed, padded=True)
                kernels += copies(itemsize, (batch, rows, columns), (place, x, 1), (*found[i], 1))
        return kernels, found

    def copied_ld(self, params: Params, dtype: str, size: GemmSize, a: Layout, b: Layout) -> tuple[int, int]:
        """The leading dimensions of copies of A and B that can be read in vectors; 0 where a copy does not pay."""
        if a.is_tile or b.is_tile:
            return 0, 0
        wide = self.wide(params, dtype)

        def ld(columns: int, is_needed: bool) -> int:
            return -(-columns // wide) * wide if is_needed else 0

        return (
            ld(size.m if a.transposed else size.k,
               size.n >= MUCH_REUSE and not in_vectors(a, not a.transposed, size.m, wide)),
            ld(size.k if b.transposed else size.n,
               size.m >= MUCH_REUSE and not in_vectors(b, b.transposed, size.n, wide)),
        )  # fmt: skip


TUNED = Tuned(
    "tuned", "tiles for work-groups, warps and work-items, double buffers, wide accesses, even waves",
    "CUTLASS; Boehm 2022",
    (TILE_X, TILE_Y,
     choice("warp_y", "work-items of a warp along a column of C", 1, 2, 4, 8, 16, 32),
     choice("quads", "whether every four work-items in a row compute 2 x 2 neighbouring tiles", 0, 1),
     choice("serpentine", "whether odd rows of a work-item's tile are multiplied from right to left", 0, 1),
     count("warps_x", "warps of a work-group along a row of C", 1, 2, 3, 4, 6, 8),
     count("warps_y", "warps of a work-group along a column of C", 1, 2, 3, 4, 6, 8),
     count("step_k", "k extent of a tile in local memory", 4, 8, 16, 32),
     choice("buffers", "tiles in local memory, of each operand", 1, 2),
     choice("pad", "elements between the columns of a tile", 0, 4, 8), GROUP_M, SHARES, VECTOR_BYTES),
    {"gpu": {"tile_x": 8, "tile_y": 8, "warp_y": 4, "quads": 0, "serpentine": 0, "warps_x": 2, "warps_y": 4,
             "step_k": 8, "buffers": 2, "pad": 4, "group_m": 8, "shares": 0, "vector_bytes": 16}},
    group=group, block=block, model=traffic, local=local, registers=registers,
    over={"register": "shares tiles in local memory by warps and reads them in vectors"},
    dtypes=HALF_TOO, kept=("shares", "vector_bytes"), for_parts={"shares": 1},
    files=("common/stored.h", "common/tile_order.h", "tuned.cl"),
)  # fmt: skip
