"""The plan of a product on cpu-packed, as its compiled loops say it."""

from __future__ import annotations

from typing import NamedTuple

STRATEGIES = (  # five loops; in place, in the order of `OrderInPlace`; a vector, in the order of `Pass`
    "five loops on packed panels",
    "in place, by strips",
    "in place, by rows of C",
    "in place, by rows of B",
    "dot products",
    "a vector by columns of the matrix",
    "a vector by rows of the matrix",
)


class Plan(NamedTuple):
    """How a product is cut: its strategy, and the extents of its loops.

    Attributes
    ----------
    strategy : str
        One of `STRATEGIES`.
    threads : int
        Of the whole product.
    slices : int
        Parts of k, each summed into a partial result, if more than 1.
    pieces : int
        Parts of C, a grid of them, each multiplied by one thread, if more than 1.
    is_mirrored : bool
        Whether B is A' in the same memory: only what is on the diagonal of C and below it is multiplied, and mirrored.
        The pieces are squares; if there is 1, the five loops leave out the tiles above the diagonal.
    m, n, k : int
        Extents of one slice or piece, which the other numbers are for; of one row, those of C' = B' A'.
    mr, nr : int
        Rows and columns of the largest register tile; with a vector, rows of a block, and 1.
    mc, kc, nc, kr, ns : int
        Blocks of at most `mc` rows, `kc` deep, of `nc` columns and `kr` of k of B packed at once, in strips of `ns`
        columns of C: the extents of the five loops. Without packed panels all but `kc` are 0; but where rows of B or C
        are passed in blocks of `nc` columns, `ns` of them go through all of A.
    kept : int
        Blocks of packed A that are kept for the next strip.
    peeled : int
        First columns of B that are multiplied alone, so that the vectors of the others do not cross cache lines.
    rows_of_b : int
        Rows of B that are read at a time, from the first column of a block to its last; 0: all of a block of k.
    tile_k : int
        Of panels, what a tile takes at a time: kc, or what stays in L1 of a panel of B.
    packs_a : bool
        Whether the five loops pack A too, or take it as it is stored.
    packs_b : bool
        Whether B is packed: in panels, or in place strip by strip.
    separate : bool
        Whether a strip's sums are in a separate accumulator until they are whole.
    panel_bytes : int
        Bytes of a number in a panel.
    workspace : int
        Bytes of memory for panels, partial results and sums.
    """

    strategy: str
    threads: int
    slices: int
    pieces: int
    is_mirrored: bool
    m: int
    n: int
    k: int
    mr: int
    nr: int
    kc: int
    panel_bytes: int
    workspace: int
    mc: int = 0
    nc: int = 0
    kr: int = 0
    ns: int = 0
    kept: int = 0
    peeled: int = 0
    rows_of_b: int = 0
    tile_k: int = 0
    packs_a: bool = False
    packs_b: bool = False
    separate: bool = False

    @property
    def is_packed(self) -> bool:
        """Whether B is packed to panels, and perhaps A."""
        return self.strategy == STRATEGIES[0]

    @property
    def is_in_place(self) -> bool:
        """Whether A is multiplied as it is stored, and B too where its columns are adjacent."""
        return self.strategy.startswith("in place")

    @property
    def summary(self) -> str:
        """The strategy and the threads, in words."""
        parts = [self.strategy]
        if self.slices > 1:
            parts.append(f"{self.slices} slices of k, added in order")
        if self.is_mirrored and self.pieces == 1:
            parts.append("tiles on the diagonal and below it, mirrored")
        if self.pieces > 1:
            which = "on the diagonal and below it, mirrored" if self.is_mirrored else "for the threads"
            parts.append(f"{self.pieces} pieces of {self.m} x {self.n} {which}")
        return ", ".join(parts) + f"; {self.threads} thread{'s' if self.threads > 1 else ''}"

    @property
    def loops(self) -> str:
        """The extents of the loops, in one line."""
        tile = f"tile {self.mr} x {self.nr}, kc {self.kc}"
        if self.strategy in STRATEGIES[5:]:
            return f"blocks of {self.mr} rows, kc {self.kc}"
        if not self.is_packed:
            first = f", the first {self.peeled} column{'s' if self.peeled > 1 else ''} alone" if self.peeled else ""
            return tile + first + (", B packed strip by strip" if self.packs_b else "")
        tile += f", {self.tile_k} at a time" if self.tile_k < self.kc else ""
        blocks = f"mc {self.mc}, nc {self.nc}, {self.kr} of k packed at once, strips of {self.ns}"
        if not self.packs_a:
            return f"{tile}, {blocks}, A as it is stored" + (", separate accumulator" if self.separate else "")
        kept = f"{self.kept} block{'s' if self.kept > 1 else ''} of A kept"
        return f"{tile}, {blocks}, {kept}" + (", separate accumulator" if self.separate else "")
