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
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

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
    which the same piece is read, line by line.
    """

    matrix: str
    row: str
    column: str
    piece: bool = False
    writes: bool = False
    moved: bool = False
    first: str = ""
    beside: tuple[str, str] | None = None


@dataclass(frozen=True)
class Loop:
    """A loop over m, n or k, or through the block of an outer loop; `step`: 1, an extent, or a parameter."""

    index: str
    over: str
    step: int | str
    body: tuple[Loop | Access, ...]


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


def _blocked_levels(problem: Problem, caches: Mapping[str, int], params: Mapping[str, Any]) -> dict[str, float]:
    m, n, k, s = problem.m, problem.n, problem.k, problem.dtype.itemsize
    bs_r, bs_c, bs_k = (min(params[name], size) for name, size in (("bs_r", m), ("bs_c", n), ("bs_k", k)))
    a, b, c = bs_r * bs_k * s, bs_k * bs_c * s, bs_r * bs_c * s  # blocks
    beside = a + 2 * b + c
    moved = {}
    for level, cache in asked(caches):
        block_of_k = (bs_r + bs_k) * n * s + cache.pieces(beside) * a
        block_row = (k * n + bs_r * k + cache.pieces(block_of_k) * bs_r * n) * s
        of_b = k * n * s * cache.passes((-(-m // bs_r), block_row), (bs_r, b + bs_k * s + 2 * bs_c * s))
        of_a = m * k * s * cache.passes((-(-n // bs_c), beside))
        of_c = 2 * m * n * s * cache.passes((-(-k // bs_k), block_of_k), (bs_k, 2 * bs_c * s + LINE))
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
