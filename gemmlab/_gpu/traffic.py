"""How many bytes each GPU rung moves: the argument behind the ladder, in numbers.

    l1      what work-items read and write of A, B and C, every time anew, as the rung's text has it: what passes the
            memory system beside them, which begins with a cache
    local   what they read from local memory and write to it
    dram    each operand once: how much more the caches let through depends on which groups run together, and on caches
            that no runtime describes

A device that serves equal reads of neighbours at once, or a compiler that joins reads, does with less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gemmlab._problem import Problem

Plan = Mapping[str, int]
Model = Callable[[int, int, int, Plan], dict[str, float]]  # m, n, k, parameters -> numbers of each level


def in_global_memory(m: int, n: int, k: int, plan: Plan) -> dict[str, float]:
    """A multiply-add reads A, B and C, and writes C."""
    return {"l1": 4 * m * n * k}


def private(m: int, n: int, k: int, plan: Plan) -> dict[str, float]:
    """A multiply-add reads A and B; C is written once."""
    return {"l1": 2 * m * n * k + m * n}


def local(m: int, n: int, k: int, plan: Plan) -> dict[str, float]:
    """Tiles pass through local memory, from which a multiply-add reads A and B."""
    tiles = _passes(m, n, k, plan["tile_x"], plan["tile_y"])
    return {"l1": tiles + m * n, "local": tiles + 2 * m * n * k}


def local4(m: int, n: int, k: int, plan: Plan) -> dict[str, float]:
    """The same, but a number of B from local memory is used PER_ITEM times."""
    tiles = _passes(m, n, k, plan["tile"], plan["tile"])
    return {"l1": tiles + m * n, "local": tiles + (1 + 1 / plan["per_item"]) * m * n * k}


def register(m: int, n: int, k: int, plan: Plan) -> dict[str, float]:
    """A work-item reads what its own tile of C needs."""
    return {"l1": _passes(m, n, k, plan["tile_x"], plan["tile_y"]) + m * n}


MODELS: dict[str, Model] = {
    "naive": in_global_memory,
    "private": private,
    "local": local,
    "local4": local4,
    "register": register,
    "register-global": in_global_memory,
}


def traffic(rung: str, problem: Problem, plan: Plan) -> dict[str, float]:
    """Bytes that a rung moves at each level, for the whole stack; no level where the rung has no model."""
    if rung not in MODELS:
        return {}
    m, n, k = problem.m, problem.n, problem.k
    numbers = {**MODELS[rung](m, n, k, plan), "dram": m * k + k * n + m * n}
    return {level: float(count * problem.dtype.itemsize * problem.batch) for level, count in numbers.items()}


def _passes(m: int, n: int, k: int, columns: int, rows: int) -> int:
    """Numbers of A and B that tiles of C of so many columns and rows need."""
    return m * k * -(-n // columns) + k * n * -(-m // rows)
