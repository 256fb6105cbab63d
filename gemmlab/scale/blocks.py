"""How C is cut into blocks, one for each device: along a batch, into rows, or into rows and columns.

Every block needs its rows of A and its columns of B. Rows alone move A once and B to every device; a grid of r x c
blocks moves A c times and B r times. Numbers are counted, not bytes: all three matrices have one dtype.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise, product
from typing import NamedTuple

from gemmlab._tiles import chosen, entering, even

ALL = slice(None)


class Block(NamedTuple):
    """A part of C: a slice for each leading axis, one of rows, one of columns."""

    lead: tuple[slice, ...]
    rows: slice
    columns: slice


def grid(count: int, m: int, n: int, k: int) -> tuple[int, int]:
    """The numbers of rows and columns of blocks, at most `count` together, that move the fewest numbers.

    As many blocks as possible come first: fewer leave a device idle. Of grids that move as much, that with the most
    rows is taken, since rows of C are adjacent in memory.
    """
    grids = [(r, c) for r in range(1, min(count, m) + 1) for c in range(1, min(count // r, n) + 1)]
    found = chosen(
        grids,
        cost=lambda rc: -rc[0] * rc[1],
        is_alike=lambda rc, most: rc[0] * rc[1] == most[0] * most[1],
        key=lambda rc: (moved(rc[0], rc[1], m, n, k), -rc[0]),
    )
    assert found is not None
    return found


def moved(r: int, c: int, m: int, n: int, k: int) -> int:
    """The numbers of A, B and C that pass between host and devices, for a grid of r x c blocks."""
    return int(entering(r, c, m * k, k * n)) + m * n


def slices(shares: Sequence[int]) -> list[slice]:
    """Shares as slices that follow each other."""
    return [slice(start, stop) for start, stop in pairwise(accumulate(shares, initial=0))]


def axis_to_cut(shape: Sequence[int], count: int) -> int:
    """The axis of C that `count` shares are cut along: the longest of the batch that is long enough, else the rows."""
    ndim = len(shape)
    longest = max(range(ndim - 2), key=lambda axis: shape[axis], default=None)
    return longest if longest is not None and shape[longest] >= count else ndim - 2


def along(axis: int, ndim: int, shares: Sequence[int]) -> list[Block]:
    """Blocks that cut C along one axis, the batch's or the rows'."""
    return [_with(axis, ndim, part) for part in slices(shares)]


def _with(axis: int, ndim: int, part: slice) -> Block:
    whole = [ALL] * (ndim - 1)
    whole[axis] = part
    return Block(tuple(whole[:-1]), whole[-1], ALL)


def cut(shape: Sequence[int], k: int, count: int, *, rows_only: bool = False) -> list[Block]:
    """C, of this shape, in at most `count` blocks of equal size: along the batch if it is long enough, else a grid.

    With `rows_only`, whole rows: for devices that get B from each other.
    """
    axis, ndim = axis_to_cut(shape, count), len(shape)
    if axis < ndim - 2 or rows_only:
        return along(axis, ndim, even(shape[axis], count))
    m, n = shape[-2], shape[-1]
    return list(_grid_blocks(ndim, m, n, grid(count, m, n, k)))


def _grid_blocks(ndim: int, m: int, n: int, counts: tuple[int, int]) -> Iterator[Block]:
    rows, columns = slices(even(m, counts[0])), slices(even(n, counts[1]))
    for one, other in product(rows, columns):
        yield Block((ALL,) * (ndim - 2), one, other if len(columns) > 1 else ALL)
