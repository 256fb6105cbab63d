"""How a product is cut into tiles of C: which cuts are worth trying, what they move, and the order of the tiles.

For streaming through a device, products in files, Dask's tasks and shares of several devices. Each of them says what
its tiles take of the memory, and what they cost in bytes or seconds; the choice is made here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

Cut = TypeVar("Cut")
Number: TypeAlias = Any  # a number, or an array of them
Tile = tuple[int, int]  # its place among the rows and columns of tiles


def chosen(
    fitting: Iterable[Cut], *, cost: Callable[[Cut], float], is_alike: Callable[[Cut, Cut], bool],
    key: Callable[[Cut], Any],
) -> Cut | None:  # fmt: skip
    """Of the cuts that fit the memory, and are about as good as that of least cost: the one with the least key."""
    cuts = list(fitting)
    if not cuts:
        return None
    least = min(cuts, key=cost)
    return min((one for one in cuts if is_alike(one, least)), key=key)


def counts(extent: int, most: int, ratio: float) -> list[int]:
    """Numbers of parts worth trying, up to `most`: all small ones, then each about `ratio` times the one before."""
    most = max(1, min(extent, most))
    found, count = {most}, 1
    while count < most:
        found.add(count)
        count = max(count + 1, int(count * ratio))
    return sorted(found)


def extents(extent: int, step: int, most: int, ratio: float, *, small: bool = False) -> list[int]:
    """Extents of tiles worth trying: of equal parts, and multiples of `step` unless they are all of it.

    `small`: those below `step` are not rounded.
    """
    sizes = (-(-max(1, extent) // count) for count in counts(extent, most, ratio))
    return sorted({size if small and size <= step else min(max(1, extent), -(-size // step) * step) for size in sizes})


def depths(k: int, step: int = 1, least: int = 1) -> list[int]:
    """The extents of a block of k worth trying: k, and halves of it down to `least`, in multiples of `step`."""
    found = [max(1, k)]
    while found[-1] > least:
        half = -(-max(-(-found[-1] // 2), least) // step) * step
        if half >= found[-1]:
            break
        found.append(half)
    return found


def entering(rows: Number, columns: Number, of_a: Number, of_b: Number) -> Number:
    """What enters rows x columns tiles: A once for each column of tiles, B once for each row of them."""
    return columns * of_a + rows * of_b


def in_order(rows: int, columns: int, by_columns: bool = False, *, turning: bool = False) -> Iterator[Tile]:
    """The tiles row after row, or column after column; `turning`: every other one backwards, so that at a turn the
    inner panel is there already."""
    outer, inner = (columns, rows) if by_columns else (rows, columns)
    for i in range(outer):
        for j in reversed(range(inner)) if turning and i % 2 else range(inner):
            yield (j, i) if by_columns else (i, j)


def in_shells(rows: int, columns: int) -> Iterator[Tile]:
    """The tiles of the first r panels of A and of B, for r = 1, 2, ...: each panel that arrives makes work for r."""
    for r in range(max(rows, columns)):
        for i, j in (*((r, j) for j in range(r)), *((i, r) for i in range(r + 1))):
            if i < rows and j < columns:
                yield i, j


def cut(extent: int, size: int) -> list[tuple[int, int]]:
    """Ranges of `size`, the last one shorter."""
    return [(start, min(start + size, extent)) for start in range(0, extent, max(1, size))]


def even(total: int, count: int) -> list[int]:
    """`total` in at most `count` shares that differ by 1 at most, none empty."""
    count = min(count, total)
    return [total // count + (i < total % count) for i in range(count)]
