"""The shape of the tiles of a streamed product, from a model of its time.

C is computed in tiles, row panel after row panel:

    for i in row panels of A                        A[i] stays on the device
        for j in column panels of B                 B[j] comes anew for each i, unless all of B fits
            for p in blocks of k                    one block, unless k is too long
                C[i, j] += A[i, p] @ B[p, j]

or column panel after column panel, with A and B exchanged. Where all of A and B fit, the tiles come in shells instead:
those of the first r panels of A and of B, for r = 1, 2, ..., so that each panel that arrives makes work for r tiles.

The transfers of the next panel and of the last tile of C
run beside the work, as far as there is room for panels ahead. So the time of a row panel is the longest of four: the
work, the bytes in, the bytes out, and both together, where the host's memory limits them. What cannot overlap comes
before and after: the first tiles, the last tile of C. While the first row panel is computed, all panels of B come for
the first time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from gemmlab._errors import DeviceError
from gemmlab._gpu.plans.launches import MAX_GROUPS
from gemmlab._tiles import chosen, counts, depths, extents, in_order, in_shells

C_SLOTS = 2  # tiles of C: one is computed, one is copied to the host
STEP_S = 1e-4  # seconds of the host for a step
INNER_SLOTS = 2, 4, 8
USUAL_PARTS = 32  # panels of a matrix; more only where the memory is very small
MUCH_FASTER, SHORT_K = 0.8, 256
ALIKE = 1.03  # times as long: within what the rates are known to; the fewer steps, the less depends on them
FINENESS = 1.5  # of the numbers of panels that are tried
UNIT = 64  # rows and columns of a tile are multiples of it, where they are not all


@dataclass(frozen=True)
class Rates:
    """What was measured, per second: bytes to the device, from it, both at once; floating-point operations."""

    up: float
    down: float
    both: float
    flop: float


@dataclass(frozen=True)
class Size:
    """`batch` products of m x n x k, the bytes of an element, and whether sums of blocks of k may be stored as such."""

    batch: int
    m: int
    n: int
    k: int
    itemsize: int
    cuts_k: bool = True

    @property
    def blocks_of_k(self) -> tuple[int, ...]:
        """The extents of a block of k, from the whole k down."""
        return tuple(depths(self.k)) if self.cuts_k else (self.k,)

    @property
    def exchanged(self) -> Size:
        """The size of B^T @ A^T."""
        return replace(self, m=self.n, n=self.m)


@dataclass(frozen=True)
class Tiles:
    """Tiles of m x n x k of `group` products. `a_slots` and `b_slots` are the panels of A and B kept on the device.

    `order` is that of the tiles: by "rows", by "columns" or in "shells". `seconds` is what the model predicts.
    """

    size: Size
    group: int
    m: int
    n: int
    k: int
    a_slots: int
    b_slots: int
    order: str
    seconds: float = float("inf")

    @property
    def panels(self) -> tuple[int, int, int]:
        """The numbers of panels of m, n and k."""
        return -(-self.size.m // self.m), -(-self.size.n // self.n), -(-self.size.k // self.k)

    @property
    def nbytes(self) -> int:
        """The bytes on the device."""
        a, b, c = self.group * self.m * self.k, self.group * self.k * self.n, self.group * self.m * self.n
        partial = 1 if self.k < self.size.k else 0
        return (self.a_slots * a + self.b_slots * b + (self.c_slots + partial) * c) * self.size.itemsize

    @property
    def c_slots(self) -> int:
        rows, columns, _ = self.panels
        return min(C_SLOTS, rows * columns * -(-self.size.batch // self.group))

    @property
    def largest_bytes(self) -> int:
        """The bytes of the largest allocation."""
        largest = max(self.m * self.k, self.k * self.n, self.m * self.n)
        return self.group * largest * self.size.itemsize

    def steps(self) -> Iterator[tuple[int, int, int]]:
        """The tiles of one product in their order, as indices of panels of m, n and k."""
        rows, columns, blocks = self.panels
        if self.order == "shells":
            found = in_shells(rows, columns)
        else:
            found = in_order(rows, columns, self.order == "columns", turning=True)
        for i, j in found:
            for p in range(blocks):
                yield i, j, p


@lru_cache(maxsize=256)
def choose(size: Size, limit: int, largest: int, rates: Rates) -> Tiles:
    """The tiles with the shortest predicted time that take at most `limit` bytes, and `largest` in one allocation.

    k is cut where that is much faster, or where nothing else fits: a sum that is not cut has the bits of one product.
    DeviceError if not even the smallest tiles fit.
    """
    fastest: Tiles | None = None
    for parts in (USUAL_PARTS, max(size.m, size.n)):
        for k in size.blocks_of_k:
            candidates = (*_groups(size), *_tiles(size, k, parts))
            fitting = (tiles for tiles in candidates if tiles.nbytes <= limit and tiles.largest_bytes <= largest)
            best = chosen(
                (replace(tiles, seconds=_seconds(tiles, rates)) for tiles in fitting),
                cost=lambda tiles: tiles.seconds,
                is_alike=lambda tiles, least: tiles.seconds <= ALIKE * least.seconds,
                key=lambda tiles: (math.prod(tiles.panels), tiles.seconds),
            )
            if best is not None and (fastest is None or best.seconds < MUCH_FASTER * fastest.seconds):
                fastest = best
            if fastest is not None and (fastest.seconds < _least_seconds(size, rates) / MUCH_FASTER or k < SHORT_K):
                return fastest
        if fastest is not None:
            return fastest
    smallest = min(tiles.nbytes for tiles in _tiles(size, size.blocks_of_k[-1], max(size.m, size.n)))
    raise DeviceError(
        f"a product of {size.m} x {size.n} x {size.k} needs {smallest} bytes on the device in the smallest tiles, not "
        f"{limit}: raise gemmlab.config.device_memory"
    )


def _least_seconds(size: Size, rates: Rates) -> float:
    """The time if everything overlapped and came once."""
    flop = 2 * size.batch * size.m * size.n * size.k
    bytes_in, bytes_out = size.batch * (size.m + size.n) * size.k, size.batch * size.m * size.n
    transfers = max(bytes_in / rates.up, bytes_out / rates.down, (bytes_in + bytes_out) / rates.both)
    return max(flop / rates.flop, transfers * size.itemsize)


def _groups(size: Size) -> Iterator[Tiles]:
    """Whole products, several at a time."""
    if size.batch > 1:
        parts = counts(size.batch, size.batch, FINENESS)
        for group in sorted({min(MAX_GROUPS, -(-size.batch // count)) for count in parts}):
            yield Tiles(size, group, size.m, size.n, size.k, 2, 2, "rows")


def _tiles(size: Size, k: int, parts: int) -> Iterator[Tiles]:
    """Tiles of one product with `k` steps of k each, and at most `parts` panels of A and of B."""
    for m in extents(size.m, UNIT, parts, FINENESS, small=True):
        for n in extents(size.n, UNIT, parts, FINENESS, small=True):
            rows, columns = -(-size.m // m), -(-size.n // n)
            if k < size.k:
                yield from (Tiles(size, 1, m, n, k, 2, 2, order) for order in ("rows", "columns"))
                continue
            yield Tiles(size, 1, m, n, k, rows, columns, "shells")
            for slots in {min(slots, columns) for slots in (*INNER_SLOTS, columns)}:
                yield Tiles(size, 1, m, n, k, min(2, rows), slots, "rows")
            for slots in {min(slots, rows) for slots in (*INNER_SLOTS, rows)}:
                yield Tiles(size, 1, m, n, k, slots, min(2, columns), "columns")


def _seconds(tiles: Tiles, rates: Rates) -> float:
    """The model at the head of this file."""
    if tiles.group > 1:
        return _seconds_of_groups(tiles, rates)
    if tiles.order == "shells":
        return _seconds_in_shells(tiles, rates)
    if tiles.order == "columns":
        size = tiles.size.exchanged
        tiles = Tiles(size, 1, tiles.n, tiles.m, tiles.k, tiles.b_slots, tiles.a_slots, "rows")
    size, (rows, columns, blocks) = tiles.size, tiles.panels
    item = size.itemsize
    a, b, c = size.m / rows * size.k * item, size.k * size.n / columns * item, size.m / rows * size.n / columns * item
    again = columns if blocks > 1 else 1  # with blocks of k, A comes anew for every tile
    comes_once = tiles.b_slots >= columns and blocks == 1
    work = 2 * size.m / rows * size.n * size.k / rates.flop + columns * blocks * STEP_S

    def row(bytes_in: float) -> float:
        return max(work, bytes_in / rates.up, columns * c / rates.down, (bytes_in + columns * c) / rates.both)

    first = max(row(a * (again - 1) + columns * b), columns * max(b / rates.up, work / columns))
    later = row(a * again + (0 if comes_once else columns * b))
    if not comes_once:  # the next panel of A comes after this row's last of B, while the device works on those it has
        later += max(0.0, a * again / columns / rates.up - (tiles.b_slots - 1) * work / columns)
    return size.batch * ((a + b) / blocks / rates.up + first + (rows - 1) * later + c / rates.down)


def _seconds_in_shells(tiles: Tiles, rates: Rates) -> float:
    """The same in shells: the work on a panel's tiles begins when it has arrived and the work before is done."""
    size, (rows, columns, _) = tiles.size, tiles.panels
    a, b = size.m / rows * size.k * size.itemsize, size.k * size.n / columns * size.itemsize
    tile = 2 * size.m / rows * size.n / columns * size.k / rates.flop + STEP_S
    arrived = done = 0.0
    for r in range(max(rows, columns)):
        for is_there, nbytes, count in ((r < rows, a, min(r, columns)), (r < columns, b, min(r + 1, rows))):
            if is_there:
                arrived += nbytes / rates.up
                done = max(done, arrived) + count * tile
    bytes_in, bytes_out = rows * a + columns * b, size.m * size.n * size.itemsize
    longest = max(done, bytes_out / rates.down, (bytes_in + bytes_out) / rates.both)
    return size.batch * (longest + bytes_out / rows / columns / rates.down)


def _seconds_of_groups(tiles: Tiles, rates: Rates) -> float:
    """The same for whole products, of which nothing comes twice."""
    size, steps = tiles.size, -(-tiles.size.batch // tiles.group)
    bytes_in = size.batch * (size.m * size.k + size.k * size.n) * size.itemsize
    bytes_out = size.batch * size.m * size.n * size.itemsize
    work = 2 * size.batch * size.m * size.n * size.k / rates.flop + steps * STEP_S
    longest = max(work, bytes_in / rates.up, bytes_out / rates.down, (bytes_in + bytes_out) / rates.both)
    return bytes_in / steps / rates.up + longest + bytes_out / steps / rates.down
