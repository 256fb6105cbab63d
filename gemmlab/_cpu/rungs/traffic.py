"""What each CPU rung reads and writes: its loops as data, and a model of the bytes between the levels of memory.

The bytes of a level are those that move from it towards the core, and back. `l1` counts every load and store of a
number by the instructions. The other levels count the misses of the cache above them, by one rule: data that a loop
uses in every iteration is still cached in the next one if its reuse distance, the bytes touched between two uses, fits
the cache; otherwise all of it is loaded again. The reuse distance is one iteration's worth: part of this iteration and
part of the next. Of data that an iteration uses repeatedly, both the old and the new piece count. So each model is a
list of loops, outermost first, with their reuse distances.

The caches are empty at first, and what was written goes back at the end: C is loaded and stored. Several threads are
taken to move the same bytes as one. The model has no conflict misses: it assumes fully associative caches with LRU
replacement. If the rows of a matrix are a power of two apart, more is moved than it says. The study `cache-model`
compares the models with a simulation, which replays the loops (`roofline/simulation.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

from gemmlab._cpu.rungs import tiled
from gemmlab._problem import Problem

LINE = 64
ABOVE = {"l2": "L1", "l3": "L2", "dram": "L3"}  # the cache whose misses go to a level
USUAL = {"L1": 32 << 10, "L2": 1 << 20, "L3": 8 << 20}


class Cache(NamedTuple):
    """Bytes of a cache, and of the one above it (0 for the first)."""

    size: int
    above: int

    def passes(self, *loops: tuple[int, int]) -> int:
        """How often data is loaded that each of these loops uses in every iteration.

        A loop is its number of iterations and its reuse distance in bytes.
        """
        return prod(iterations for iterations, touched in loops if touched > self.size)

    def pieces(self, touched: int) -> int:
        """How many pieces count of data that an iteration uses repeatedly, with a reuse distance of `touched` bytes.

        The old one and the new; but a piece that stays in the cache above is requested from this one only once.
        """
        return 2 if touched > self.above else 1


@dataclass(frozen=True)
class Access:
    """An access to A, B or C at a row and a column: indices of the loops around it.

    A `piece` is all of what the loop of `column` has in hand. `moved`: a piece that would stick out is moved back into
    the row, with the full step of its loop. `first`: only where that index is 0. `beside`: a matrix and its row, of
    which the same piece is read, line by line. `packed`: of the copy in panels of the block around it; there `row` is
    the index of k, and `column` that of the panel.
    """

    matrix: str
    row: str
    column: str
    piece: bool = False
    writes: bool = False
    moved: bool = False
    first: str = ""
    beside: tuple[str, str] | None = None
    packed: bool = False


@dataclass(frozen=True)
class Loop:
    """A loop over m, n or k, or through the block of an outer loop; `step`: 1, an extent, or a parameter.

    `moved`: through a whole tile of rows, which is moved back where it would stick out of C.
    """

    index: str
    over: str
    step: int | str
    body: tuple[Loop | Access, ...]
    moved: bool = False


NAIVE = Loop("i", "m", 1, (Loop("j", "n", 1, (
    Access("c", "i", "j", writes=True),
    Loop("p", "k", 1, (Access("a", "i", "p"), Access("b", "p", "j"), Access("c", "i", "j", writes=True))),
)),))  # fmt: skip
IKJ = Loop("i", "m", 1, (Loop("j", "n", "n", (
    Access("c", "i", "j", piece=True, writes=True),
    Loop("p", "k", 1, (Access("a", "i", "p"), Access("c", "i", "j", piece=True, writes=True, beside=("b", "p")))),
)),))  # fmt: skip


def _in_blocks(*of_a_row: Loop | Access) -> Loop:
    """What is done for each row i of a block row of C, in a block of k and one of columns."""
    rows = Loop("i", "i0", 1, of_a_row)
    return Loop("i0", "m", "bs_r", (Loop("p0", "k", "bs_k", (Loop("j0", "n", "bs_c", (rows,)),)),))


BLOCKED = _in_blocks(
    Access("c", "i", "j0", piece=True, writes=True, first="p0"),
    Loop("p", "p0", 1, (Access("a", "i", "p"), Access("c", "i", "j0", piece=True, writes=True, beside=("b", "p")))),
)
BLOCKED_LOCAL = _in_blocks(Loop("j", "j0", "strip", (
    Loop("p", "p0", 1, (Access("a", "i", "p"), Access("b", "p", "j", piece=True, moved=True))),
    Access("c", "i", "j", piece=True, writes=True),
)))  # fmt: skip


def _tile(a: Loop | Access, b: Access) -> tuple[Loop, Loop]:
    """A register tile: through k, then its rows of C."""
    return Loop("p", "p0", 1, (b, a)), Loop("r", "i", 1, (Access("c", "r", "j", piece=True, writes=True),))


# Rows of A as they are stored, and the copies.
_ROWS_OF_A = Loop("r", "i", 1, (Access("a", "r", "p"),), moved=True)
_PANEL_OF_A, _PANEL_OF_B = (Access(x, "p", index, piece=True, packed=True) for x, index in (("a", "i"), ("b", "j")))
_COPY_OF_A = Loop("i", "i0", "tile_rows", (Loop("p", "p0", 1, (
    Loop("r", "i", 1, (Access("a", "r", "p"),)), replace(_PANEL_OF_A, writes=True),
)),))  # fmt: skip
_COPY_OF_B = Loop("j", "j0", "tile_columns", (Loop("p", "p0", 1, (
    Access("b", "p", "j", piece=True), replace(_PANEL_OF_B, writes=True),
)),))  # fmt: skip


def _panel_by_panel(a: Loop | Access) -> Loop:
    """A panel of B by all rows of A, then the next."""
    return Loop("j", "j0", "tile_columns", (Loop("i", "i0", "tile_rows", _tile(a, _PANEL_OF_B)),))


REGISTER = Loop("i0", "m", "bs_r", (Loop("p0", "k", "bs_k", (Loop("j0", "n", "bs_c", (
    Loop("i", "i0", "tile_rows", (Loop("j", "j0", "tile_columns", _tile(
        _ROWS_OF_A, Access("b", "p", "j", piece=True, moved=True),
    )),)),
)),)),))  # fmt: skip
PACK_B = Loop("i0", "m", "bs_r", (Loop("p0", "k", "bs_k", (Loop("j0", "n", "bs_c", (
    _COPY_OF_B, _panel_by_panel(_ROWS_OF_A),
)),)),))  # fmt: skip
PACK_AB = Loop("i0", "m", "bs_r", (Loop("p0", "k", "bs_k", (
    _COPY_OF_A, Loop("j0", "n", "bs_c", (_COPY_OF_B, _panel_by_panel(_PANEL_OF_A))),
)),))  # fmt: skip
FIVE_LOOPS = Loop("j0", "n", "bs_c", (Loop("p0", "k", "bs_k", (
    _COPY_OF_B, Loop("i0", "m", "bs_r", (_COPY_OF_A, _panel_by_panel(_PANEL_OF_A))),
)),))  # fmt: skip

Model = Callable[[Problem, Mapping[str, int], Mapping[str, Any]], dict[str, float]]


def naive(problem: Problem, caches: Mapping[str, int], params: Mapping[str, Any]) -> dict[str, float]:
    """For i, for j: a row of A times a column of B, which has one number in each of k cache lines.

    From j to j + 1 these lines and the row of A must stay cached; otherwise each number of B is a miss, and A is loaded
    again. From i to i + 1 all of B must stay.
    """
    m, n, k, s = problem.m, problem.n, problem.k, problem.dtype.itemsize
    row, column, b = k * s, k * LINE, k * n * s
    moved = {"l1": 4.0 * m * n * k * s}
    for level, cache in asked(caches):
        of_b = b * cache.passes((m, b + 2 * row + n * s), (min(n, LINE // s), column + row + LINE))
        of_a = m * k * s * cache.passes((n, column + row + LINE))
        moved[level] = of_a + of_b + 2 * m * n * s
    return of_batch(problem, moved)


def ikj(problem: Problem, caches: Mapping[str, int], params: Mapping[str, Any]) -> dict[str, float]:
    """For i, for p: a row of B is added to a row of C.

    From p to p + 1 the row of C and the line of A must stay cached; from i to i + 1 all of B.
    """
    m, n, k, s = problem.m, problem.n, problem.k, problem.dtype.itemsize
    b, rows = k * n * s, 2 * n * s + LINE
    moved = {"l1": 3.0 * m * n * k * s}
    for level, cache in asked(caches):
        of_a = m * k * s * cache.passes((min(k, LINE // s), rows))
        of_b = b * cache.passes((m, b + k * s + 2 * n * s))
        of_c = 2 * m * n * s * cache.passes((k, rows))
        moved[level] = of_a + of_b + of_c
    return of_batch(problem, moved)


def blocked(problem: Problem, caches: Mapping[str, int], params: Mapping[str, Any]) -> dict[str, float]:
    """For a block row of C, for a block of k, for a block of B: it is multiplied by a block of A, as in `ikj`.

    From one row to the next the block of B must stay cached; from one block of B to the next beside it, the block of A;
    from one block of k to the next, the block row of C; from one block row to the next, all of B.
    """
    moved = _blocked_levels(problem, caches, params)
    return of_batch(problem, {"l1": 3.0 * problem.m * problem.n * problem.k * problem.dtype.itemsize} | moved)


def blocked_local(problem: Problem, caches: Mapping[str, int], params: Mapping[str, Any]) -> dict[str, float]:
    """As `blocked`, but the instructions load and store C once per block of k: one number per multiply-add."""
    m, n, k, s = problem.m, problem.n, problem.k, problem.dtype.itemsize
    passes_of_c = -(-k // params["bs_k"])
    moved = _blocked_levels(problem, caches, params)
    return of_batch(problem, {"l1": float(m * n * k * s + 2 * m * n * s * passes_of_c)} | moved)


def register(problem: Problem, caches: Mapping[str, int], params: Mapping[str, Any]) -> dict[str, float]:
    """As `blocked_local`, but a tile loads a row of B once for all its rows, and a number of A once for all columns."""
    moved = _blocked_levels(problem, caches, params, tiled.tile()[0])
    return of_batch(problem, {"l1": _of_tiles(problem, params)} | moved)


def pack_b(problem: Problem, caches: Mapping[str, int], params: Mapping[str, Any]) -> dict[str, float]:
    """Each block row reads B once more and writes its copy, which stays in L1; a block of A is read for each panel."""
    x = _Extents.of(problem, params)
    moved = {"l1": _of_tiles(problem, params) + 2.0 * x.k * x.n * x.s * x.block_rows}
    for level, cache in asked(caches):
        of_a = x.m * x.k * x.s * cache.passes((x.panels, x.for_a_panel))
        moved[level] = of_a + _of_b_and_c(x, cache) + x.copied(cache, x.copy_of_b, x.k * x.n * x.block_rows, 1)
    return of_batch(problem, moved)


def pack_ab(problem: Problem, caches: Mapping[str, int], params: Mapping[str, Any]) -> dict[str, float]:
    """As `pack_b`, but A is read once, and its copy for each panel of B."""
    x = _Extents.of(problem, params)
    moved = {"l1": _of_tiles(problem, params) + 2.0 * x.s * (x.k * x.n * x.block_rows + x.m * x.k)}
    for level, cache in asked(caches):
        copies = x.copied(cache, x.copy_of_b, x.k * x.n * x.block_rows, 1)
        copies += x.copied(cache, x.copy_of_a, x.m * x.k, x.panels, x.for_a_panel)
        moved[level] = x.m * x.k * x.s + _of_b_and_c(x, cache) + copies
    return of_batch(problem, moved)


def five_loops(problem: Problem, caches: Mapping[str, int], params: Mapping[str, Any]) -> dict[str, float]:
    """B is read once; its copy for each block row, and that of a block of A for each panel. A is read for each block
    of columns, and C for each block of k, unless a cache still has them."""
    x = _Extents.of(problem, params)
    times_a = -(-x.n // x.bs_c)
    moved = {"l1": _of_tiles(problem, params) + 2.0 * x.s * (x.k * x.n + times_a * x.m * x.k)}
    block_of_k = x.s * (2 * x.bs_k * x.bs_c + x.m * x.bs_k + x.m * x.bs_c)
    block_of_columns = x.s * (x.m * x.k + x.k * x.bs_c + 2 * x.m * x.bs_c)
    for level, cache in asked(caches):
        of_c = 2 * x.m * x.n * x.s * cache.passes((x.blocks_of_k, block_of_k))
        of_a = x.m * x.k * x.s * cache.passes((times_a, block_of_columns))
        for_a_block = x.s * (x.bs_k * x.bs_c + 2 * x.bs_r * x.bs_k + x.bs_r * x.bs_c)
        copies = x.copied(cache, x.copy_of_b, x.k * x.n, x.block_rows, for_a_block)
        copies += x.copied(cache, x.copy_of_a, times_a * x.m * x.k, -(-x.bs_c // x.columns), x.for_a_panel)
        moved[level] = x.k * x.n * x.s + of_a + of_c + copies
    return of_batch(problem, moved)


@dataclass(frozen=True)
class _Extents:
    """Extents of a product and of its blocks, which are at most as large, in numbers of `s` bytes."""

    m: int
    n: int
    k: int
    s: int
    bs_r: int
    bs_c: int
    bs_k: int

    @classmethod
    def of(cls, problem: Problem, params: Mapping[str, Any]) -> _Extents:
        m, n, k, s = problem.m, problem.n, problem.k, problem.dtype.itemsize
        return cls(m, n, k, s, min(params["bs_r"], m), min(params["bs_c"], n), min(params["bs_k"], k))

    @property
    def beside(self) -> int:
        """Bytes touched from one block of B to the next beside it."""
        return self.s * (self.bs_r * self.bs_k + 2 * self.bs_k * self.bs_c + self.bs_r * self.bs_c)

    def for_a_block_of_k(self, cache: Cache) -> int:
        """Bytes touched from one block of k to the next in a block row of C."""
        of_a = cache.pieces(self.beside) * self.bs_r * self.bs_k
        return self.s * ((self.bs_r + self.bs_k) * self.n + of_a)

    def for_a_block_row(self, cache: Cache) -> int:
        """Bytes touched from one block row of C to the next."""
        of_c = cache.pieces(self.for_a_block_of_k(cache)) * self.bs_r * self.n
        return self.s * (self.k * self.n + self.bs_r * self.k + of_c)

    @property
    def blocks_of_k(self) -> int:
        """Blocks of k."""
        return -(-self.k // self.bs_k)

    @property
    def columns(self) -> int:
        """Columns of a register tile."""
        return tiled.tile()[1] // self.s

    @property
    def copy_of_a(self) -> int:
        """Numbers of a block of A in whole panels."""
        return in_panels(self.bs_r, self.bs_k, tiled.tile()[0])

    @property
    def copy_of_b(self) -> int:
        """Numbers of a block of B in whole panels."""
        return in_panels(self.bs_c, self.bs_k, self.columns)

    @property
    def block_rows(self) -> int:
        """Block rows of C."""
        return -(-self.m // self.bs_r)

    @property
    def panels(self) -> int:
        """Panels of B."""
        return -(-self.n // self.columns)

    @property
    def for_a_panel(self) -> int:
        """Bytes touched while a block of A is multiplied by a panel of B."""
        return self.s * (self.bs_r * self.bs_k + 2 * self.bs_k * self.columns + self.bs_r * self.columns)

    def copied(self, cache: Cache, size: int, numbers: int, reads: int, touched: int = 0) -> float:
        """Bytes of a copy of `size` numbers: where it stays it is brought in once and written back once; where it does
        not, all `numbers` that are written to it are, and each of the `reads` brings it in again."""
        stays = max(size * self.s, touched) <= cache.size
        return float(2 * size * self.s if stays else numbers * self.s * (2 + reads))


def in_panels(extent: int, depth: int, panel: int) -> int:
    """Numbers of so many rows or columns in whole panels."""
    return -(-extent // panel) * panel * depth


def _of_b_and_c(x: _Extents, cache: Cache) -> float:
    """B for each block row, and C for each block of k."""
    of_c = 2 * x.m * x.n * x.s * cache.passes((x.blocks_of_k, x.for_a_block_of_k(cache)))
    return float(x.k * x.n * x.s * cache.passes((x.block_rows, x.for_a_block_row(cache))) + of_c)


def _of_tiles(problem: Problem, params: Mapping[str, Any]) -> float:
    """What the tiles load and store: a number of A for all columns, of B for all rows, and C for each block of k."""
    m, n, k, s = problem.m, problem.n, problem.k, problem.dtype.itemsize
    rows, width = tiled.tile()
    return float(m * n * k * s * (1 / rows + s / width) + 2 * m * n * s * -(-k // params["bs_k"]))


def _blocked_levels(
    problem: Problem, caches: Mapping[str, int], params: Mapping[str, Any], rows: int = 1
) -> dict[str, float]:
    """Of loops over so many rows of C at a time."""
    x, moved = _Extents.of(problem, params), {}
    of_rows = -(-x.bs_r // rows), x.s * (x.bs_k * x.bs_c + rows * (x.bs_k + 2 * x.bs_c))
    for level, cache in asked(caches):
        of_b = x.k * x.n * x.s * cache.passes((x.block_rows, x.for_a_block_row(cache)), of_rows)
        of_a = x.m * x.k * x.s * cache.passes((-(-x.n // x.bs_c), x.beside))
        of_c = 2 * x.m * x.n * x.s * cache.passes(
            (x.blocks_of_k, x.for_a_block_of_k(cache)), (x.bs_k, 2 * x.bs_c * x.s + LINE)
        )  # fmt: skip
        moved[level] = float(of_a + of_b + of_c)
    return moved


def asked(caches: Mapping[str, int]) -> Iterator[tuple[str, Cache]]:
    """Each level below the first, with the cache above it, whose misses go to the level."""
    above = 0
    for level, name in ABOVE.items():
        size = caches.get(name, USUAL[name])
        yield level, Cache(size, above)
        above = size


def of_batch(problem: Problem, moved: Mapping[str, float]) -> dict[str, float]:
    """The same for every product of a batch."""
    return {level: float(size) * problem.batch for level, size in moved.items()}
