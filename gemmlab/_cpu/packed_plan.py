"""How cpu-packed cuts a product on one thread: the rule of `packed/paths.h` and the plan of `packed/loops.h` in Python.

The traffic model and the cache simulation read it. Where those files change a number or a rule, so does this one; a
test holds the numbers against them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gemmlab._cpu import isa

FEW_ROWS, IN_PLACE_BYTES, IN_PLACE_ROWS = 12, 128 << 10, 6
A_IN_L2, LEAST_COLUMNS, STRIP, CONFLICT = 512 << 10, 1024, 512, 4096
LEAST_B, A_OF_A_THREAD = 4 << 20, 2 << 20


@dataclass(frozen=True)
class Tile:
    """The register tile of an instruction set: `rows` by two vectors of `lanes`; in place, by `in_place` columns."""

    rows: int
    lanes: int
    in_place: int

    @property
    def columns(self) -> int:
        """Columns of C, and of a panel of B."""
        return 2 * self.lanes


@dataclass(frozen=True)
class Plan:
    """Extents of the five loops, as `loops.h` names them.

    Blocks of at most `mc` rows, `kc` deep, from `nc` columns and `kr` of k of B packed at once; C in strips of `ns`
    columns. `kept` blocks of packed A are kept; where sums stand `apart`, they go to C when they are whole.
    """

    mc: int
    kc: int
    nc: int
    kr: int
    ns: int
    kept: int
    apart: bool

    def buffers(self, tile: Tile, itemsize: int) -> tuple[int, int, int]:
        """Bytes of packed B, of packed A, and of sums that stand apart."""
        of_b = _up(self.nc, tile.columns) * self.kr
        of_a = self.kept * _up(self.mc, tile.rows) * self.kc
        return of_b * itemsize, of_a * itemsize, self.apart * self.mc * self.ns * itemsize


def tile(itemsize: int) -> Tile:
    """The tile of the instruction set in force, for numbers of so many bytes.

    Examples
    --------
    >>> tile(4).columns == 2 * tile(8).columns
    True
    """
    lanes = isa.VECTOR_BYTES[isa.chosen()] // itemsize
    wide = isa.chosen() == "v4"
    return Tile(14 if wide else 6, lanes, (4 if wide else 2) * lanes)


def is_in_place(m: int, n: int, k: int, itemsize: int) -> bool:
    """Whether operands are multiplied where they lie: one column, few rows of A, or a small B."""
    return n == 1 or m <= FEW_ROWS or _up(n, tile(itemsize).lanes) * k * itemsize <= IN_PLACE_BYTES


def depth(k: int, kc: int) -> int:
    """Of a block of k: as many blocks as kc makes, all but equal."""
    return _parts(k, _parts(k, kc))


def plan(m: int, n: int, k: int, itemsize: int, blocks: Mapping[str, Any]) -> Plan:
    """The plan of a product for the parameters `mc`, `kc` and `nc`.

    Examples
    --------
    >>> plan(576, 576, 576, 8, {"mc": 84, "kc": 384, "nc": 6144}).kc
    288
    """
    rows, columns = tile(itemsize).rows, tile(itemsize).columns
    kc, deep = depth(k, blocks["kc"]), k * itemsize
    fit = LEAST_B // deep // columns * columns
    nc = _parts(n, _parts(n, min(blocks["nc"], max(fit, LEAST_COLUMNS))))
    nc = min(n, _up(nc, columns))
    kr = min(k, kc * max(1, LEAST_B // (_up(nc, columns) * kc * itemsize)))
    in_l2 = max(3 * rows, A_IN_L2 // (kr * itemsize) // rows * rows)
    mc = _parts(m, _parts(m, min(blocks["mc"], in_l2)))
    kept = _parts(kr, kc)
    if kept * _up(mc, rows) * min(k, kc) * itemsize > A_OF_A_THREAD:
        kept = 1
    ns = _up(nc, columns)
    if kr > kc:
        ns = min(ns, _up(STRIP, columns))
    return Plan(mc, kc, nc, kr, ns, kept, kr == k and k > kc and n * itemsize % CONFLICT == 0)


def _parts(extent: int, size: int) -> int:
    return -(-extent // size)


def _up(extent: int, step: int) -> int:
    return _parts(extent, step) * step
