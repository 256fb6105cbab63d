"""The tiles of a product, by what they make it read.

C is computed in tiles of tm x tn. A tile is the sum over blocks of k, tk at a time, in order:

    for tile (i, j), in order of rows or of columns:       of ceil(m/tm) x ceil(n/tn)
        for p in blocks of k:                              of ceil(k/tk)
            C[i, j] += A[i, p] @ B[p, j]

A block that the next step needs too is not read again, and the next is read while this one is multiplied. So, in
order of rows,

    A is read   once if tk = k, else ceil(n/tn) times
    B is read   once if tk = k and tn = n, else ceil(m/tm) times
    memory      (x tm tk + y tk tn) item + s tm tn sum_item

where x and y are 2, or 1 for an operand that is a single block, and s is 2 for a backend that cannot add to what C
holds, else 1. Order of columns is the same with A and B exchanged. With tk = k a panel of A stays while all of B passes
by; with a small tk tiles can be larger, and both operands are read less often where k is long.

A kernel packs, or a device gets, each block of each step anew: A moves ceil(n/tn) times through memory, B ceil(m/tm)
times. On a CPU a byte that is packed costs about a quarter of one that is read at 2 GB/s, so the cost of a plan is what
it reads and `MOVED` times what it moves. The search goes through all three extents and takes the least cost.

What is in memory alone is lost with the process. So tiles of up to `TILE_FLOP`, or as little more as can be, are
preferred among plans that cost at most a tenth more, and among those that read at most a tenth more and whose moves
take no more than a hundredth of the time of the multiplications on a CPU. A step of a long product is done in bands of
the tile's longer side, after each of which its sums can be kept (sums.py).

Bits do not depend on the plan where the backend says at which blocks k may be cut (`block_of_k`): tk is a multiple of
one. No tile is of one column, whose sums have another order, unless all of C is. Elsewhere blocks of k are part of the
order of summation. So a plan is kept with the tiles that it made.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from typing import Any

from gemmlab._tiles import chosen, cut, depths, entering, extents, in_order
from gemmlab.product.matrices import Range

TILE_FLOP = 1e12  # some seconds
STEP = 64  # extents of blocks are multiples of it, where no chunk says otherwise
LEAST_DEPTH = 512  # of a block of k: about as deep as the blocks of a kernel, which add to C as often
MOVED = 0.25
BANDS = 64  # of all work, or fewer, so that each is of
BAND_FLOP = 5e9  # at least, some seconds of the slowest rung,
LEAST_BAND = 256  # and of so many rows or columns: for each band the other operand is packed again
WORK_OF_BYTE = 25  # multiply-adds in the time of reading a byte: at 100 GFLOP/s and 2 GB/s
TOLERANCE = 1.1
FINENESS = 1.25  # of the numbers of parts that are tried
MIB = 1 << 20


@dataclass(frozen=True)
class Sizes:
    """A product as far as its plan needs it.

    Attributes
    ----------
    m, n, k : int
    a_item, b_item : int
        Bytes of a number in the files.
    items, cut_items : tuple of int
        Bytes of a number in a block and of a sum, where k is not cut and where it is.
    adds : bool
        Whether the backend adds to what C holds.
    steps : tuple of int
        Multiples of which tm, tn and tk are.
    read_steps : tuple of int
        Rows of A and columns of B that are best read together.
    """

    m: int
    n: int
    k: int
    a_item: int
    b_item: int
    items: tuple[int, int]
    cut_items: tuple[int, int]
    adds: bool = True
    steps: tuple[int, int, int] = (STEP, STEP, STEP)
    read_steps: tuple[int, int] = (STEP, STEP)


@dataclass(frozen=True)
class Tiling:
    """How a product is cut; see the head of this module."""

    m: int
    n: int
    k: int
    tm: int
    tn: int
    tk: int
    read_m: int
    read_n: int
    by_columns: bool
    bytes_read: int
    bytes_memory: int

    @cached_property
    def tiles(self) -> list[tuple[Range, Range]]:
        """Rows and columns of each tile, in the order in which they are computed."""
        rows, columns = cut(self.m, self.tm), cut(self.n, self.tn)
        return [(rows[i], columns[j]) for i, j in in_order(len(rows), len(columns), self.by_columns)]

    @cached_property
    def depths(self) -> list[Range]:
        """The blocks of k; an empty one if there is no k, so that C gets its zeros."""
        return cut(self.k, self.tk) or [(0, 0)]

    def bands(self, height: int, width: int) -> list[tuple[Range, Range]]:
        """Rows and columns of the parts of a tile of this size that are multiplied at once; none is of one column."""
        work = max(BAND_FLOP / 2, self.m * self.n * self.k / BANDS)
        extent = max(LEAST_BAND, int(work / max(1, min(self.tm, self.tn) * self.tk)))
        step = self.read_m if self.tm >= self.tn else self.read_n
        if step > 2 * extent:  # then parts of chunks are read again
            step = STEP
        band = max(1, extent // step) * step
        if self.tm >= self.tn:
            return [(rows, (0, width)) for rows in cut(height, band)]
        while band < width and width % band == 1:
            band += step
        return [((0, height), columns) for columns in cut(width, band)]

    def as_dict(self) -> dict[str, Any]:
        """For a journal."""
        return asdict(self)

    def is_of(self, sizes: tuple[int, int, int]) -> bool:
        """Whether this, from a journal, is a plan of a product of m, n and k."""
        tile, others = (self.tm, self.tn, self.tk), (self.read_m, self.read_n, self.bytes_read, self.bytes_memory)
        are_sizes = all(type(x) is int and x >= 0 for x in (self.m, self.n, self.k, *tile, *others))
        return (
            are_sizes and type(self.by_columns) is bool and (self.m, self.n, self.k) == sizes
            and all(1 <= extent <= max(1, size) for extent, size in zip(tile, sizes, strict=True))
            and min(self.read_m, self.read_n) >= 1
        )  # fmt: skip


def choose(sizes: Sizes, memory: int, overhead: int = 0) -> Tiling:
    """The plan of least cost within `memory` bytes, of which files take `overhead`. ValueError if none fits."""
    tried = candidates(sizes, overhead)
    costs = {id(one): one.bytes_read + MOVED * _bytes_moved(sizes, one) for one in tried}
    slack = 0.01 * sizes.m * sizes.n * sizes.k / WORK_OF_BYTE

    def is_alike(one: Tiling, least: Tiling) -> bool:
        more = costs[id(one)] - costs[id(least)]
        reads_as_little = one.bytes_read <= TOLERANCE * least.bytes_read
        return costs[id(one)] <= TOLERANCE * costs[id(least)] or (reads_as_little and more <= slack)

    def key(one: Tiling) -> tuple[float, ...]:
        """The largest of the small ones, else the smallest."""
        flop = 2.0 * sizes.k * one.tm * one.tn
        is_large = flop > TILE_FLOP
        return is_large, flop if is_large else -flop, -one.tk, costs[id(one)], one.tm

    fitting = (one for one in tried if one.bytes_memory <= memory)
    found = chosen(fitting, cost=lambda one: costs[id(one)], is_alike=is_alike, key=key)
    if found is None:
        raise ValueError(
            f"{memory / MIB:.3g} MiB of memory are too few for this product: give at least "
            f"{-(-min(one.bytes_memory for one in tried) // MIB)}MiB"
        )
    return found


def candidates(sizes: Sizes, overhead: int = 0) -> list[Tiling]:
    """The plans worth trying, in any memory."""
    m, n, step = sizes.steps
    of_m, of_n = (extents(size, one, -(-size // one), FINENESS) for size, one in ((sizes.m, m), (sizes.n, n)))
    of_k = depths(sizes.k, step, max(step, LEAST_DEPTH // step * step))
    found = product(of_m, (tn for tn in of_n if not _is_column(sizes.n, tn)), of_k)
    return [_tiling(sizes, tm, tn, tk, overhead) for tm, tn, tk in found]


def _tiling(sizes: Sizes, tm: int, tn: int, tk: int, overhead: int) -> Tiling:
    by_rows, by_columns = _bytes_read(sizes, tm, tn, tk)
    memory = _memory(sizes, tm, tn, tk) + overhead
    return Tiling(
        sizes.m, sizes.n, sizes.k, tm, tn, tk, *sizes.read_steps, by_columns < by_rows, min(by_rows, by_columns), memory
    )  # fmt: skip


def _is_column(n: int, tn: int) -> bool:
    """Whether some tile, but not all of C, is of one column."""
    return n > 1 and 1 in (tn, n % tn)


def _memory(sizes: Sizes, tm: int, tn: int, tk: int) -> int:
    is_whole = tk >= sizes.k
    of_a = (1 if is_whole and tm >= sizes.m else 2) * tm * tk
    of_b = (1 if is_whole and tn >= sizes.n else 2) * tk * tn
    of_c = (1 if is_whole or sizes.adds else 2) * tm * tn
    item, sum_item = sizes.items if is_whole else sizes.cut_items
    return (of_a + of_b) * item + of_c * sum_item


def _bytes_read(sizes: Sizes, tm: int, tn: int, tk: int) -> tuple[int, int]:
    """In order of rows, and of columns."""
    is_whole, times_a, times_b = tk >= sizes.k, -(-sizes.n // tn), -(-sizes.m // tm)
    a, b = sizes.m * sizes.k * sizes.a_item, sizes.k * sizes.n * sizes.b_item
    by_rows = a * (1 if is_whole else times_a) + b * (1 if is_whole and times_a <= 1 else times_b)
    by_columns = b * (1 if is_whole else times_b) + a * (1 if is_whole and times_b <= 1 else times_a)
    return by_rows, by_columns


def _bytes_moved(sizes: Sizes, one: Tiling) -> int:
    """Operands to the kernel, through memory."""
    rows, columns = -(-sizes.m // one.tm), -(-sizes.n // one.tn)
    return int(sizes.items[0] * entering(rows, columns, sizes.m * sizes.k, sizes.k * sizes.n))
