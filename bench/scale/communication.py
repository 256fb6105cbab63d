"""What a node moves in one product on p nodes: the schemes of docs/scaling.md against a lower bound, in Markdown.

    python bench/scale/communication.py N | M N K [--nodes 1,10,100,1000] [--memory GIB] [--itemsize 4]
                                  [--chunk 5000] [--tile 4]

The volume counts, in words, all of A and B that a node works on, also what it holds already, and once each element of C
or of a partial sum that leaves it. The formulas are those of continuous grids: a real number of nodes has factors, and
rounds them. A dash: the matrices do not fit the nodes' memory together, or there are fewer tasks than nodes.

Sources: Kwasniewski et al., "Red-blue pebbling revisited", SC 2019, arXiv 1908.09606, for the bound with limited memory
and for 2-D, 2.5-D and CARMA; Al Daas et al., SPAA 2022, arXiv 2205.13407, for the bound without a limit.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, sqrt

WORK_FLOP_PER_S = 1e12  # of a node, for the last row


@dataclass(frozen=True)
class Case:
    """C (m x n) = A (m x k) @ B (k x n) on `nodes` nodes with memory for `words` words each."""

    m: int
    n: int
    k: int
    nodes: int
    words: float
    chunk: int
    tile: int

    @property
    def share(self) -> float:
        """Multiplications of a node."""
        return self.m * self.n * self.k / self.nodes

    @property
    def all_words(self) -> float:
        return self.m * self.n + self.m * self.k + self.k * self.n

    @property
    def is_in_memory(self) -> bool:
        return self.all_words <= self.nodes * self.words


def bound(case: Case) -> float:
    """No scheme moves less, with any layout of the matrices."""
    return max(_faces(case), _in_passes(case, case.words, case.words))


def _faces(case: Case) -> float:
    """The three faces of the best box of a node's multiplications, with room for all of them."""
    k, n, m = sorted((case.m, case.n, case.k))
    p = case.nodes
    if p <= m / n:
        return (m * n + m * k) / p + n * k
    if p <= m * n / k**2:
        return 2 * sqrt(m * n * k * k / p) + m * n / p
    return 3 * case.share ** (2 / 3)


def _in_passes(case: Case, square: float, sums: float) -> float:
    """Two panels for each square of `square` sums, and the sums; 0 where one square is more than a node's share.

    Files may hold more of C than the memories: then each node writes its part of C.
    """
    if case.share <= square**1.5:
        return 0.0
    c = case.m * case.n
    return 2 * case.share / sqrt(square) + min(c, max(sums, c / case.nodes))


def rows(case: Case) -> float:
    """1-D: the rows of C are divided. Every node needs all of B; it comes once if the node's part of C stays."""
    m, n, k, p = case.m, case.n, case.k, case.nodes
    return m * k / p + k * n + m * n / p if m * n / p <= case.words else inf


def grid(case: Case) -> float:
    """2-D (SUMMA): sqrt(p) x sqrt(p) tiles of C."""
    return _layers(case, 1) if case.is_in_memory else inf


def grid_in_layers(case: Case) -> float:
    """2.5-D: c grids with a part of k each: as many as there is memory for, at most p^(1/3)."""
    copies = case.nodes * case.words / max(case.k * (case.m + case.n), case.m * case.n)
    return _layers(case, max(1, min(copies, case.nodes ** (1 / 3)))) if case.is_in_memory else inf


def _layers(case: Case, c: float) -> float:
    return case.k * (case.m + case.n) / sqrt(case.nodes * c) + case.m * case.n * c / case.nodes


def recursive(case: Case) -> float:
    """CARMA: halves the longest extent. With little memory its boxes are cubes whose three faces fit."""
    if not case.is_in_memory:
        return inf
    return max(_faces(case), _in_passes(case, case.words / 3, case.share ** (2 / 3)))


def cosma(case: Case) -> float:
    """COSMA: reaches the bound, up to the rounding of its grid."""
    return bound(case) if case.is_in_memory else inf


def chunks(case: Case) -> float:
    """Dask's product: a task multiplies one chunk by one chunk."""
    return _boxes(case, case.chunk, case.chunk)


def tiles(case: Case) -> float:
    """Up to tile x tile chunks of C, and as many blocks of k in a task as leave a task for every node."""
    volumes = []
    for side in range(1, case.tile + 1):
        extent = side * case.chunk
        depth = min(case.k, case.share / extent**2) // case.chunk * case.chunk
        if depth:
            volumes.append(_boxes(case, extent, depth))
    return min(volumes, default=inf)


def _boxes(case: Case, extent: int, depth: float) -> float:
    """Boxes of extent x extent x depth, one or more a node: two panels, and the sums that leave.

    The memory is that of one task: the sums before and after it, and a block of both panels.
    """
    fits = 2 * extent * (extent + case.chunk) <= case.words
    if not fits or extent > min(case.m, case.n) or depth > case.k or extent**2 * depth > case.share:
        return inf
    return 2 * case.share / extent + case.share / depth


SCHEMES: dict[str, Callable[[Case], float]] = {
    "lower bound": bound,
    "rows of C (1-D)": rows,
    "2-D (SUMMA)": grid,
    "2.5-D": grid_in_layers,
    "CARMA": recursive,
    "COSMA": cosma,
    "Dask's product": chunks,
    "tiles of chunks": tiles,
}


def table(cases: list[Case], itemsize: int) -> str:
    """GB a node, and in brackets the multiple of the bound."""
    lines = ["| GB a node, by nodes | " + " | ".join(str(case.nodes) for case in cases) + " |"]
    lines.append("| --- " * (len(cases) + 1) + "|")
    for name, volume in SCHEMES.items():
        cells = []
        for case in cases:
            words, least = volume(case), bound(case)
            assert words >= 0.999999 * least, f"{name} is below the bound on {case.nodes} nodes"
            times = "" if name == "lower bound" else f" ({words / least:.3g})"
            cells.append("–" if words == inf else f"{_short(words * itemsize / 1e9)}{times}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    seconds = [_short(2 * case.share / WORK_FLOP_PER_S) for case in cases]
    lines.append("| *seconds of work at 1 TFLOP/s a node* | " + " | ".join(seconds) + " |")
    return "\n".join(lines)


def _short(number: float) -> str:
    """Three digits, without an exponent."""
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extents", type=int, nargs="+", metavar="N", help="N for squares, or M N K")
    parser.add_argument("--nodes", default="1,10,100,1000", help="numbers of nodes (1,10,100,1000)")
    parser.add_argument("--memory", type=float, default=64, metavar="GIB", help="of a node (64)")
    parser.add_argument("--itemsize", type=int, default=4, help="bytes of an element (4)")
    parser.add_argument("--chunk", type=int, default=5000, help="extent of a Dask chunk (5000)")
    parser.add_argument("--tile", type=int, default=4, help="chunks along a side of a task's tile, at most (4)")
    asked = parser.parse_args()
    if len(asked.extents) not in (1, 3):
        parser.error("give N, or M N K")
    m, n, k = asked.extents * (3 // len(asked.extents))
    words = asked.memory * 2**30 / asked.itemsize
    cases = [Case(m, n, k, int(p), words, asked.chunk, asked.tile) for p in asked.nodes.split(",")]
    print(table(cases, asked.itemsize))


if __name__ == "__main__":
    main()
