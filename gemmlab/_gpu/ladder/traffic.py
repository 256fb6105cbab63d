"""How many bytes each GPU rung moves: the reason why each step of the ladder is faster.

    l1      reads and writes of A, B and C by the work-items, as the rung's source has them, before any cache
    local   reads and writes of local memory
    dram    each operand once. How much more the caches let through depends on which work-groups run at the same time,
            and on caches that no runtime describes.

The device may move less: it coalesces equal reads of neighbouring work-items, and a compiler may join reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from gemmlab._problem import Problem

Params: TypeAlias = Mapping[str, int]
Model: TypeAlias = Callable[[int, int, int, Params], dict[str, float]]  # m, n, k, parameters -> elements per level


def nothing(m: int, n: int, k: int, params: Params) -> dict[str, float]:
    """No model: only the operands are counted, once each."""
    return {}


def in_global_memory(m: int, n: int, k: int, params: Params) -> dict[str, float]:
    """Each multiply-add reads A, B and C, and writes C."""
    return {"l1": 4 * m * n * k}


def private(m: int, n: int, k: int, params: Params) -> dict[str, float]:
    """Each multiply-add reads A and B; C is written once."""
    return {"l1": 2 * m * n * k + m * n}


def local(m: int, n: int, k: int, params: Params) -> dict[str, float]:
    """Tiles are copied to local memory, from which each multiply-add reads A and B."""
    tiles = _tile_reads(m, n, k, params["tile_x"], params["tile_y"])
    return {"l1": tiles + m * n, "local": tiles + 2 * m * n * k}


def local4(m: int, n: int, k: int, params: Params) -> dict[str, float]:
    """As `local`, but each element of B read from local memory is used PER_ITEM times."""
    tiles = _tile_reads(m, n, k, params["tile"], params["tile"])
    return {"l1": tiles + m * n, "local": tiles + (1 + 1 / params["per_item"]) * m * n * k}


def register(m: int, n: int, k: int, params: Params) -> dict[str, float]:
    """Each work-item reads the rows of A and the columns of B that its tile of C needs."""
    return {"l1": _tile_reads(m, n, k, params["tile_x"], params["tile_y"]) + m * n}


def traffic_bytes(model: Model, problem: Problem, params: Params) -> dict[str, float]:
    """Bytes moved at each level for the whole batch."""
    m, n, k = problem.m, problem.n, problem.k
    elements = {**model(m, n, k, params), "dram": m * k + k * n + m * n}
    return {level: float(count * problem.dtype.itemsize * problem.batch) for level, count in elements.items()}


def _tile_reads(m: int, n: int, k: int, columns: int, rows: int) -> int:
    """Elements of A and B that are read if C is computed in tiles of `rows` x `columns`."""
    return m * k * -(-n // columns) + k * n * -(-m // rows)
