"""What the host knows about the rung tuned: its tiles, what its kernel needs, and how its operands lie in memory.

    on a GPU     a work-group computes a block of WARPS_Y x WARPS_X tiles, each by a warp of 32 work-items
    on a CPU     a work-group is one work-item, and computes one tile (`local_copy` 0)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from gemmlab._gpu.batches import GemmSize, Layout

Params: TypeAlias = Mapping[str, int]
WARP = 32
MAX_PARTS = 128  # of k
LEAST_DEPTH = 256  # of k for a part
MUCH_REUSE = 2560  # times that an element is multiplied: then a copy that can be read in vectors pays
INT_MAX = 2**31 - 1


def group(params: Params) -> tuple[int, int]:
    """The work-items of a work-group."""
    return (WARP * params["warps_y"] * params["warps_x"] if params["local_copy"] else 1), 1


def block(params: Params) -> tuple[int, int]:
    """The columns and rows of C that a work-group computes."""
    x, y = params["tile_x"], params["tile_y"]
    if not params["local_copy"]:
        return x, y
    return params["warps_x"] * (WARP // params["warp_y"]) * x, params["warps_y"] * params["warp_y"] * y


def local(params: Params) -> int:
    """The elements in local memory."""
    if not params["local_copy"]:
        return 0
    return params["buffers"] * params["step_k"] * (sum(block(params)) + 2 * params["pad"])


def registers(params: Params) -> int:
    """The elements in registers of a work-item: its tile, what it multiplies, and what it copies."""
    own = params["tile_x"] * params["tile_y"] + params["tile_x"] + params["tile_y"]
    return own + (-(-params["step_k"] * sum(block(params)) // group(params)[0]) if params["local_copy"] else 0)


def traffic(m: int, n: int, k: int, params: Params) -> dict[str, float]:
    """Elements of A and B that each block of C needs, and C; from local memory what each tile of a work-item needs."""
    (columns, rows), (x, y) = block(params), (params["tile_x"], params["tile_y"])
    tiles = m * k * -(-n // columns) + k * n * -(-m // rows)
    if not params["local_copy"]:
        return {"l1": tiles + m * n}
    return {"l1": tiles + m * n, "local": tiles + (1 / x + 1 / y) * m * n * k}


def refusal(params: Params, itemsize: int, kind: str) -> str | None:
    """Why the text cannot be compiled so for a kind of device, in half a sentence."""
    wide = params["vector_bytes"] // itemsize
    if kind != "cpu" and not params["local_copy"]:
        return "local_copy=0 is for CPU devices"
    if wide not in ((2, 4) if params["local_copy"] else (2, 4, 8, 16)):
        return f"vector_bytes={params['vector_bytes']} makes vectors of {wide} elements, not 2 or 4"
    if params["tile_x"] % wide or (params["local_copy"] and (params["tile_y"] % wide or params["step_k"] % wide)):
        return f"tile_x, and with local_copy tile_y and step_k, must be a multiple of the {wide} elements of a vector"
    if not params["local_copy"]:
        return None
    if params["quads"] and params["warp_y"] in (1, WARP):
        return f"quads=1 needs warp_y from 2 to {WARP // 2}, not {params['warp_y']}"
    return f"pad must be a multiple of {wide}, a vector" if params["pad"] % wide else None


def with_parts(params: dict[str, int], size: GemmSize, compute_units: int) -> dict[str, int]:
    """The parameters with `split_k`: so many parts that every compute unit has work, if k is long enough for them."""
    if params["split_k"]:
        return params
    columns, rows = block(params)
    groups = max(1, -(-size.m // rows) * -(-size.n // columns) * size.batch)
    deep = size.k // LEAST_DEPTH
    count = min(compute_units // groups, deep, MAX_PARTS) if params["local_copy"] else 1
    return {**params, "split_k": max(1, count)}


def defines(params: Params, itemsize: int) -> dict[str, int | str]:
    """Macros that follow from the parameters; those of `layout` as for large row-major matrices."""
    columns, rows = block(params)
    wide = params["vector_bytes"] // itemsize
    usual: dict[str, int | str]
    usual = {"A_ALONG_K": 1, "B_ALONG_K": 0, "A_WIDTH": wide, "B_WIDTH": wide, "C_WIDTH": wide, "INDEX": "int"}
    return usual | {"WIDE": wide, "BLOCK_X": columns, "BLOCK_Y": rows}


def layout(params: Params, itemsize: int, size: GemmSize, a: Layout, b: Layout, c: Layout) -> dict[str, int | str]:
    """Macros that say how the operands lie in memory, and which of them can be read in vectors."""
    if not params["local_copy"]:
        return {}
    wide = params["vector_bytes"] // itemsize
    c_wide = wide if not any(value % wide for value in (c.start, c.ld, c.batch_stride, size.n)) else 1
    farthest = max(abs(a.ld), abs(b.ld)) * max(*block(params), params["step_k"])
    return {
        "A_ALONG_K": int(not a.transposed), "B_ALONG_K": int(b.transposed),
        "A_WIDTH": wide if in_vectors(a, not a.transposed, size.m, wide) else 1,
        "B_WIDTH": wide if in_vectors(b, b.transposed, size.n, wide) else 1, "C_WIDTH": c_wide,
        "INDEX": "int" if farthest <= INT_MAX else "long",
    }  # fmt: skip


def in_vectors(x: Layout, along_k: bool, rows: int, wide: int) -> bool:
    """Whether an operand can be read in vectors of `wide` elements. `rows` is its extent across k.

    Along k no vector reaches over the end: the last tile is read in single elements.
    """
    aligned = not any(value % wide for value in (x.start, x.ld, x.batch_stride))
    return aligned and (along_k or x.padded or rows % wide == 0)


def to_pack(params: Params, itemsize: int, size: GemmSize, a: Layout, b: Layout) -> tuple[int, int]:
    """The leading dimensions of copies of A and B that can be read in vectors; 0 where a copy does not pay."""
    if not params["local_copy"] or a.is_tile or b.is_tile:
        return 0, 0
    wide = params["vector_bytes"] // itemsize
    of_a, of_b = (size.m, size.k), (size.k, size.n)

    def ld(shape: tuple[int, int], transposed: bool, is_needed: bool) -> int:
        return -(-shape[0 if transposed else 1] // wide) * wide if is_needed else 0

    return (
        ld(of_a, a.transposed, size.n >= MUCH_REUSE and not in_vectors(a, not a.transposed, size.m, wide)),
        ld(of_b, b.transposed, size.m >= MUCH_REUSE and not in_vectors(b, b.transposed, size.n, wide)),
    )
