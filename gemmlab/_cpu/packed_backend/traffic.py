"""How many bytes cpu-packed moves between the levels of memory, by the rule of `_cpu/rungs/traffic.py`.

Packing reads each number and writes it to a workspace, which is cached and written back as any other memory.
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

from gemmlab._cpu.packed_backend.plan import STRATEGIES, Plan
from gemmlab._cpu.rungs.traffic import Cache, asked, of_batch
from gemmlab._problem import Problem


def moved(problem: Problem, caches: Mapping[str, int], plan: Plan, stored: int) -> dict[str, float]:
    """Bytes that pass from each level towards the core, and back, with the operands' `stored` bytes a number."""
    m, n, k = problem.m, problem.n, problem.k
    if not plan.is_packed:
        return of_batch(problem, _in_place(m, n, k, stored, caches, plan))
    loops = _Loops(m, n, k, stored, problem.dtype.itemsize, plan)
    levels = {"l1": loops.l1}
    for level, cache in asked(caches):
        levels[level] = loops.of_b(cache) + loops.of_a(cache) + loops.of_c(cache)
    return of_batch(problem, levels)


def _in_place(m: int, n: int, k: int, s: int, caches: Mapping[str, int], plan: Plan) -> dict[str, float]:
    """All three operands as they are stored, in one order of the loops or the other. What is copied is not counted.

        by strips    strips, blocks of k, tiles
        by rows      blocks of columns, some of k, some of the columns, tiles, strips

    By strips, all of A has to stay from a strip to the next. By rows, some columns of some rows of B have to stay from
    a tile to the next, and the block of C from some of k to the next.
    """
    rows, columns, depth, block = min(m, plan.mr), min(n, plan.nr), plan.rows_of_b or plan.kc, plan.nc or n
    some = plan.ns or columns
    levels = {"l1": m * n * k * s * (1 / rows + 1 / columns) + 2.0 * m * n * s * -(-k // depth)}
    strips, tiles = -(-some // columns), -(-m // rows)
    one_tile = (depth * columns + rows * (depth + columns)) * s
    some_columns = (depth * some + rows * (depth + some)) * s
    for level, cache in asked(caches):
        if plan.strategy == STRATEGIES[1]:
            of_a = cache.passes((-(-n // columns), (m * k + k * columns + m * columns) * s))
            one_block = (depth * columns + m * depth + m * columns) * s
        else:
            of_a = cache.passes(
                (-(-n // block), (m * k + k * block + m * block) * s),
                (-(-block // some), (m * depth + depth * some + m * some) * s),
                (strips, one_tile),
            )
            one_block = (depth * block + m * depth + m * block) * s
        of_b, of_c = cache.passes((tiles, some_columns)), cache.passes((-(-k // depth), one_block))
        levels[level] = float(m * k * s * of_a + k * n * s * of_b + 2 * m * n * s * of_c)
    return levels


@dataclass(frozen=True)
class _Loops:
    """The five loops of a product: what each operand moves through a cache of so many bytes.

    Numbers of A and B have `stored` bytes, those of panels `plan.panel_bytes`, those of C `result`. Sums in a separate
    accumulator are counted as if they were as wide as C.
    """

    m: int
    n: int
    k: int
    stored: int
    result: int
    plan: Plan

    @property
    def panel(self) -> int:
        """Bytes of a number in a panel."""
        return self.plan.panel_bytes

    @property
    def l1(self) -> float:
        """A tile loads a row of B and a column of A for each step; then packing, and C."""
        loads = self.m * self.n * self.k * self.panel * (self.tiles / self.plan.mc + 1 / self.plan.nr)
        packing = (self.k * self.n + self.m * self.k * self.packings * self.plan.packs_a) * (self.stored + self.panel)
        return loads + packing + 2.0 * self.m * self.n * self.result * -(-self.k // self.plan.kc)

    @cached_property
    def strips(self) -> list[int]:
        """Columns of each strip of a block of B."""
        return [min(self.plan.ns, self.plan.nc - j) for j in range(0, self.plan.nc, self.plan.ns)]

    @property
    def repeats(self) -> bool:
        """Whether A is packed anew for each strip, since there is room for one block of k alone."""
        return self.plan.packs_a and self.plan.kept * self.plan.kc < self.plan.kr

    @property
    def packings(self) -> int:
        """How often A is packed: for each block of B, and perhaps each strip."""
        return self.blocks_of_b * (len(self.strips) if self.repeats else 1)

    @property
    def blocks_of_b(self) -> int:
        """Blocks of columns that are packed, one after the other."""
        return -(-self.n // self.plan.nc)

    @property
    def tiles(self) -> int:
        """Tiles of a block of A, one below the other."""
        return -(-self.plan.mc // self.plan.mr)

    @property
    def block_of_a(self) -> int:
        """Bytes of a packed block of A."""
        return self.plan.mc * self.plan.kc * self.panel

    @property
    def block_of_b(self) -> int:
        """Bytes of a packed block of B."""
        return self.plan.nc * self.plan.kr * self.panel

    @property
    def one_tile(self) -> int:
        """Bytes from one use of a panel of B to the next, a tile further down."""
        rows, columns = self.plan.mr, self.plan.nr
        return self.plan.kc * (columns + rows) * self.panel + rows * columns * self.result

    def one_panel(self, cache: Cache) -> int:
        """Bytes from one use of a block of A to the next, a panel of B further on."""
        of_b = cache.pieces(self.one_tile) * self.plan.kc * self.panel
        return self.block_of_a + self.plan.nr * (of_b + self.plan.mc * self.result)

    def one_block_of_k(self, cache: Cache, columns: int) -> int:
        """Bytes from one use of a strip of C to the next: A as stored and packed, and the block packed before."""
        plan = self.plan
        of_a = plan.mc * plan.kc * self.stored
        if plan.packs_a:
            of_a += cache.pieces(self.one_panel(cache)) * self.block_of_a
        return of_a + (plan.mc * self.result + plan.kc * self.panel) * columns

    def of_b(self, cache: Cache) -> float:
        """Read once to be packed; the panels are written, and read for each block of A."""
        plan, block, panels = self.plan, self.block_of_b, self.k * self.n * self.panel
        packing = block + plan.nc * plan.kr * self.stored
        last_block_of_a = packing + plan.mc * (plan.kr * self.stored + plan.nc * self.result)
        strips_of_c = plan.nc + plan.ns * (cache.pieces(self.one_block_of_k(cache, plan.ns)) - 1) * (plan.kr > plan.kc)
        row_of_a = self.stored + self.panel * plan.packs_a
        one_block_of_a = block + plan.mc * (plan.kr * row_of_a + strips_of_c * self.result)
        written = 2 * (panels if last_block_of_a > cache.size else block)
        first = packing > cache.size  # what was packed first is no longer cached when all is packed
        later = (-(-self.m // plan.mc) - 1) * (one_block_of_a > cache.size)
        read = panels * (first + later) * cache.passes((self.tiles, self.one_tile))
        return float(self.k * self.n * self.stored + written + read)

    def of_a(self, cache: Cache) -> float:
        """Read to be packed; a block is written, and read for each panel of B. As it is stored, it is read alone."""
        if not self.plan.packs_a:
            one_block_of_b = self.m * self.k * self.stored + self.block_of_b + self.m * self.plan.nc * self.result
            again = one_block_of_b + self.plan.nc * self.plan.kr * self.stored > cache.size
            reads = self.reads_of_a(cache, True) + (self.blocks_of_b - 1) * self.reads_of_a(cache, again)
            return float(self.m * self.k * self.stored * reads)
        plan, block, panels = self.plan, self.block_of_a, self.m * self.k * self.panel
        operands = (self.m * self.k + self.k * self.n) * self.stored + self.m * self.n * self.result
        source = self.m * self.k * self.stored * cache.passes((self.packings, operands + self.block_of_b))
        packing = block + plan.mc * plan.kc * self.stored
        packed_again = packing + (plan.kept - 1) * block
        if plan.kept > 1:
            packed_again += plan.ns * ((plan.kr - plan.kc) * self.panel + plan.mc * self.result)
        written = 2 * (panels * self.packings if packed_again > cache.size else plan.kept * block)
        return float(source + written + panels * self.blocks_of_b * self.reads_of_a(cache, packing > cache.size))

    def reads_of_a(self, cache: Cache, first: bool) -> int:
        """How often multiplying by a block of B reads A into the cache: for each panel of B, and for the first of a
        strip of C, where `first` says whether what is used at first has to be read."""
        plan, reads = self.plan, 0
        for number, columns in enumerate(self.strips):
            one_strip = plan.kr * (plan.mc + columns) * self.panel + 2 * plan.mc * columns * self.result
            reads += first if number == 0 or self.repeats else one_strip > cache.size
            reads += (-(-columns // plan.nr) - 1) * (self.one_panel(cache) > cache.size)
        return reads

    def of_c(self, cache: Cache) -> float:
        """A strip is loaded and stored for each block of k; a separate accumulator is instead, and C is stored once."""
        plan, numbers = self.plan, 0
        for columns in self.strips:
            passes = -(-self.k // (plan.kc if self.one_block_of_k(cache, columns) > cache.size else plan.kr))
            numbers += 2 * self.m * columns * (1 + passes if plan.separate and passes > 1 else passes)
        return float(numbers * self.result * -(-self.n // plan.nc))
