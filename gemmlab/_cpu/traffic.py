"""How many bytes each rung moves between the levels of memory: the argument behind the ladder, in numbers.

A level's bytes are those that pass from it towards the core. `l1` counts every load and store of a number
by the instructions; the other levels count what the level above cannot hold. Two threads on one machine move
the same bytes as one: the model is of the whole product. It ignores conflicts between addresses, so it is a
lower estimate where a leading dimension is a power of two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gemmlab._problem import Problem

LINE = 64
ABOVE = {"l2": "L1", "l3": "L2", "dram": "L3"}  # which cache has to miss for a level to be asked
USUAL = {"L1": 32 << 10, "L2": 1 << 20, "L3": 8 << 20}

TILE_ROWS, TILE_ROW_BYTES = 14, 128  # of cpu-packed, with AVX-512
STRIP, LEAST_COLUMNS, PACKED_B, A_IN_L2 = 512, 1024, 4 << 20, 512 << 10  # of cpu-packed, as in packed/loops.h

Model = Callable[[Problem, Mapping[str, int], Mapping[str, Any]], dict[str, float]]


def naive(problem: Problem, caches: Mapping[str, int], params: Mapping[str, Any]) -> dict[str, float]:
    """B is read down its columns: once a column's k lines outgrow a cache, each step of B is a line."""
    m, n, k, s = problem.m, problem.n, problem.k, problem.dtype.itemsize
    moved = {"l1": 4.0 * m * n * k * s}
    for level, cache in _sizes(caches).items():
        column_fits = k * LINE <= cache
        of_b = k * n * s if k * n * s <= cache else m * n * k * (s if column_fits else LINE)
        moved[level] = m * k * s + of_b + 2 * m * n * s
    return _stack(problem, moved)


def ikj(problem: Problem, caches: Mapping[str, int], params: Mapping[str, Any]) -> dict[str, float]:
    """All of B passes for each row of C; the row of C is loaded and stored for each row of B."""
    m, n, k, s = problem.m, problem.n, problem.k, problem.dtype.itemsize
    moved = {"l1": 3.0 * m * n * k * s}
    for level, cache in _sizes(caches).items():
        of_b = k * n * s * (1 if k * n * s <= cache else m)
        of_c = 2 * m * n * s * (1 if 2 * n * s <= cache else k)
        moved[level] = m * k * s + of_b + of_c
    return _stack(problem, moved)


def blocked(problem: Problem, caches: Mapping[str, int], params: Mapping[str, Any]) -> dict[str, float]:
    """B passes for each block row of C, C for each block of k, a block of A for each block of columns."""
    moved = _blocked_levels(problem, caches, params)
    return _stack(problem, {"l1": 3.0 * problem.m * problem.n * problem.k * problem.dtype.itemsize} | moved)


def blocked_local(problem: Problem, caches: Mapping[str, int], params: Mapping[str, Any]) -> dict[str, float]:
    """As `blocked`, but the instructions load and store C once a block of k: one number a multiply-add."""
    m, n, k, s = problem.m, problem.n, problem.k, problem.dtype.itemsize
    passes_of_c = -(-k // params["bs_k"])
    moved = _blocked_levels(problem, caches, params)
    return _stack(problem, {"l1": float(m * n * k * s + 2 * m * n * s * passes_of_c)} | moved)


def packed(problem: Problem, caches: Mapping[str, int], params: Mapping[str, Any]) -> dict[str, float]:
    """Each operand passes once to be packed; then blocks: A's for each block of B, a panel of B for each tile of A.

    A strip of C, as wide as STRIP, is summed over all of k before the next; B is packed in as many columns at once as
    PACKED_B holds.

    The tile is taken as 14 x 32 numbers of 4 bytes, AVX-512's; narrower ones load more from L1.
    """
    m, n, k, s = problem.m, problem.n, problem.k, problem.dtype.itemsize
    mc, kc, nc = (min(params[name], size) for name, size in (("mc", m), ("kc", k), ("nc", n)))
    rows, columns = TILE_ROWS, TILE_ROW_BYTES / s
    mc = min(mc, max(3 * TILE_ROWS, A_IN_L2 // (k * s)))
    nc = min(nc, max(LEAST_COLUMNS, PACKED_B // (k * s)))
    passes_of_c, passes_of_a = -(-k // kc), -(-n // nc)
    packing = 2.0 * k * n * s + 2.0 * m * k * s * passes_of_a  # in, and out to the panel
    of_c = 2.0 * m * n * s * passes_of_c
    moved = {"l1": m * n * k * s * (1 / rows + 1 / columns) + packing + of_c}
    for level, cache in _sizes(caches).items():
        of_b = k * n * s * (1 if kc * nc * s <= cache else -(-m // (rows if kc * columns * s > cache else mc)))
        of_a = m * k * s * (1 if m * k * s <= cache else passes_of_a)
        panels_of_a = m * k * s * (n / columns if mc * kc * s > cache else 1)
        c_here = 2 * m * n * s * (1 if mc * min(n, STRIP) * s <= cache else passes_of_c)
        moved[level] = float(of_a + panels_of_a + of_b + c_here)
    return _stack(problem, moved)


def _blocked_levels(problem: Problem, caches: Mapping[str, int], params: Mapping[str, Any]) -> dict[str, float]:
    m, n, k, s = problem.m, problem.n, problem.k, problem.dtype.itemsize
    bs_r, bs_c, bs_k = (min(params[name], size) for name, size in (("bs_r", m), ("bs_c", n), ("bs_k", k)))
    moved = {}
    for level, cache in _sizes(caches).items():
        if bs_k * bs_c * s > cache:
            of_b = m * k * n * s  # the block itself does not fit: as without blocks
        else:
            of_b = k * n * s * (1 if k * n * s <= cache else -(-m // bs_r))
        of_a = m * k * s * (1 if bs_r * bs_k * s <= cache else -(-n // bs_c))
        of_c = 2 * m * n * s * (1 if bs_r * n * s <= cache else -(-k // bs_k))
        moved[level] = float(of_a + of_b + of_c)
    return moved


def _sizes(caches: Mapping[str, int]) -> dict[str, int]:
    return {level: caches.get(cache, USUAL[cache]) for level, cache in ABOVE.items()}


def _stack(problem: Problem, moved: Mapping[str, float]) -> dict[str, float]:
    return {level: float(size) * problem.batch for level, size in moved.items()}


MODELS: dict[str, Model] = {
    "cpu-naive": naive,
    "cpu-ikj": ikj,
    "cpu-blocked": blocked,
    "cpu-blocked-local": blocked_local,
}
