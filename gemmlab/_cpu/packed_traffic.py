"""How many bytes cpu-packed moves between the levels of memory, by the rule of `traffic.py`.

Packing reads each number and writes it to memory of its own, which comes into the caches and goes back as any other.
Then blocks pass:

    for jc, for pr:                     a block of B is packed
        for ic:                         it has to stay
            for each strip of columns:
                for pc:                 a block of A is packed, unless it is kept from the strip before; C has to stay
                    for jr:             the block of A has to stay
                        for ir:         a panel of B has to stay: a tile
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gemmlab._cpu import packed_plan
from gemmlab._cpu.packed_plan import Plan, Tile
from gemmlab._cpu.traffic import Cache, asked, of_stack
from gemmlab._problem import Problem


def packed(problem: Problem, caches: Mapping[str, int], params: Mapping[str, Any]) -> dict[str, float]:
    """Bytes that pass from each level towards the core, and back."""
    m, n, k, s = problem.m, problem.n, problem.k, problem.dtype.itemsize
    if packed_plan.is_in_place(m, n, k, s):
        return of_stack(problem, _in_place(m, n, k, s, caches, params))
    loops = _Loops(m, n, k, s, packed_plan.plan(m, n, k, s, params), packed_plan.tile(s))
    moved = {"l1": loops.l1}
    for level, cache in asked(caches):
        moved[level] = loops.of_b(cache) + loops.of_a(cache) + loops.of_c(cache)
    return of_stack(problem, moved)


def _in_place(
    m: int, n: int, k: int, s: int, caches: Mapping[str, int], params: Mapping[str, Any]
) -> dict[str, float]:
    """For a strip of columns, for a block of k, for a tile of rows: all three where they lie.

    From a tile to the next the strip of B has to stay; from a block of k to the next the strip of C; from a strip to
    the next all of A.
    """
    rows, columns = packed_plan.IN_PLACE_ROWS, min(n, packed_plan.tile(s).in_place)
    kc = packed_plan.depth(k, params["kc"])
    strip_of_b, strip_of_c = kc * columns * s, m * columns * s
    moved = {"l1": m * n * k * s * (1 / rows + 1 / columns) + 2.0 * m * n * s * -(-k // kc)}
    for level, cache in asked(caches):
        of_a = m * k * s * cache.passes((-(-n // columns), (m * k + k * columns) * s + strip_of_c))
        of_b = k * n * s * cache.passes((-(-m // rows), strip_of_b + rows * (kc + columns) * s))
        of_c = 2 * m * n * s * cache.passes((-(-k // kc), strip_of_b + m * kc * s + strip_of_c))
        moved[level] = float(of_a + of_b + of_c)
    return moved


@dataclass(frozen=True)
class _Loops:
    """The five loops of a product: what each operand moves through a cache of so many bytes."""

    m: int
    n: int
    k: int
    s: int
    plan: Plan
    tile: Tile

    @property
    def l1(self) -> float:
        """A tile loads a row of B and a column of A for each step; then packing, and C."""
        loads = self.m * self.n * self.k * self.s * (self.tiles / self.plan.mc + 1 / self.tile.columns)
        packing = 2 * self.k * self.n + 2 * self.m * self.k * self.packings
        return loads + packing * self.s + 2.0 * self.m * self.n * self.s * -(-self.k // self.plan.kc)

    @cached_property
    def strips(self) -> list[int]:
        """Columns of each strip of a block of B."""
        return [min(self.plan.ns, self.plan.nc - j) for j in range(0, self.plan.nc, self.plan.ns)]

    @property
    def repeats(self) -> bool:
        """Whether A is packed anew for each strip, since there is room for one block of k alone."""
        return self.plan.kept * self.plan.kc < self.plan.kr

    @property
    def packings(self) -> int:
        """How often A is packed: for each block of B, and perhaps each strip."""
        return -(-self.n // self.plan.nc) * (len(self.strips) if self.repeats else 1)

    @property
    def tiles(self) -> int:
        """Tiles of a block of A, one below the other."""
        return -(-self.plan.mc // self.tile.rows)

    @property
    def block_of_a(self) -> int:
        """Bytes of a packed block of A."""
        return self.plan.mc * self.plan.kc * self.s

    @property
    def one_tile(self) -> int:
        """Bytes from one use of a panel of B to the next, a tile further down."""
        return (self.plan.kc * (self.tile.columns + self.tile.rows) + self.tile.rows * self.tile.columns) * self.s

    def one_panel(self, cache: Cache) -> int:
        """Bytes from one use of a block of A to the next, a panel of B further on."""
        of_b = cache.pieces(self.one_tile) * self.plan.kc
        return self.block_of_a + self.tile.columns * (of_b + self.plan.mc) * self.s

    def one_block_of_k(self, cache: Cache, columns: int) -> int:
        """Bytes from one use of a strip of C to the next: A as stored and packed, and the block packed before."""
        of_a = (1 + cache.pieces(self.one_panel(cache))) * self.block_of_a
        return of_a + (self.plan.mc + self.plan.kc) * columns * self.s

    def of_b(self, cache: Cache) -> float:
        """Read once to be packed; the panels are written, and read for each block of A."""
        plan, s, whole = self.plan, self.s, self.k * self.n * self.s
        block = plan.nc * plan.kr * s
        one_block_of_b = 2 * block + self.m * (plan.kr + plan.nc) * s
        strips_of_c = plan.nc + plan.ns * (cache.pieces(self.one_block_of_k(cache, plan.ns)) - 1) * (plan.kr > plan.kc)
        one_block_of_a = block + plan.mc * (2 * plan.kr + strips_of_c) * s
        written = 2 * (whole if one_block_of_b > cache.size else block)
        first = 2 * block > cache.size  # what was packed first is no longer there when all is packed
        later = (-(-self.m // plan.mc) - 1) * (one_block_of_a > cache.size)
        return float(whole + written + whole * (first + later) * cache.passes((self.tiles, self.one_tile)))

    def of_a(self, cache: Cache) -> float:
        """Read to be packed; a block is written, and read for each panel of B."""
        plan, s, whole = self.plan, self.s, self.m * self.k * self.s
        everything = (self.m * self.k + self.k * self.n + self.m * self.n) * s + plan.nc * plan.kr * s
        source = whole * cache.passes((self.packings, everything))
        packed_again = (plan.kept + 1) * self.block_of_a
        if plan.kept > 1:
            packed_again += plan.ns * (plan.kr - plan.kc + plan.mc) * s
        written = 2 * (whole * self.packings if packed_again > cache.size else plan.kept * self.block_of_a)
        read = 0
        for number, columns in enumerate(self.strips):
            one_strip = plan.kr * (plan.mc + columns) * s + 2 * plan.mc * columns * s
            fresh = number == 0 or self.repeats
            read += (2 * self.block_of_a if fresh else one_strip) > cache.size
            read += (-(-columns // self.tile.columns) - 1) * (self.one_panel(cache) > cache.size)
        return float(source + written + whole * read * -(-self.n // plan.nc))

    def of_c(self, cache: Cache) -> float:
        """A strip is loaded and stored for each block of k; where its sums stand apart, they are, and it is stored."""
        plan, moved = self.plan, 0
        for columns in self.strips:
            again = -(-self.k // (plan.kc if self.one_block_of_k(cache, columns) > cache.size else plan.kr))
            moved += 2 * self.m * columns * self.s * (1 + again if plan.apart and again > 1 else again)
        return float(moved * -(-self.n // plan.nc))
