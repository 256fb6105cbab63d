"""Thin products on GPUs, as tuned launches them: a matrix by one vector or a few, where C has few columns or few rows.

The roof is the device's memory: the matrix is read once, and where it has few rows, k is cut into slices, so that all
of the device reads. The sums of slices are added in their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.kernels import with_header
from gemmlab._gpu.plans.launches import MAX_GROUPS, Argument, Launch, Launches, Place, Workspace

MOST_VECTORS = 16  # more make a product of tiles
GROUP, PARTS = 256, 8  # work-items, and those that share a sum
ITEM_ROWS = 4  # of a work-item that goes along k: each number of x is read once for them
ROWS_AT_ONCE = 128  # of a work-group, where M is read in vectors of four
GROUPS_A_UNIT = 8  # that keep a compute unit reading
LEAST_SLICE = 1024  # of k
TEXT = "common/stored.h", "tuned_thin.cl"


def is_thin(size: GemmSize) -> bool:
    """Whether C has few columns or few rows."""
    return min(size.m, size.n) <= MOST_VECTORS


def slices_for(size: GemmSize, compute_units: int) -> int:
    """In how many slices k is cut, so that a device has work-groups enough; 0 if it is not."""
    groups = -(-max(size.m, size.n) // ROWS_AT_ONCE) * size.batch
    slices = min(GROUPS_A_UNIT * compute_units // groups, size.k // LEAST_SLICE)
    return slices if slices > 1 else 0


@dataclass(frozen=True)
class ThinProduct:
    """y = M x, for each of a batch: where M, x and y are, and how they lie in memory.

    Attributes
    ----------
    rows, vectors : int
        Those of y.
    matrix, x, y : tuple
        Memory, start, and the distances: of M's rows or columns, the leading dimension; of x and y, from number to
        number of a vector, and from vector to vector; at last those of the batch.
    along_k : bool
        Whether rows of M are contiguous; else its columns are.
    """

    rows: int
    vectors: int
    size: GemmSize
    matrix: tuple[Place, int, int, int]
    x: tuple[Place, int, int, int, int]
    y: tuple[Place, int, int, int, int]
    along_k: bool

    @classmethod
    def of(cls, size: GemmSize, layouts: Sequence[Layout]) -> ThinProduct:
        """That of A by few columns, or of few rows by B."""
        a, b, c = layouts
        few_columns = size.n <= size.m
        (of_m, m), (of_x, x) = ((Place.A, a), (Place.B, b)) if few_columns else ((Place.B, b), (Place.A, a))
        along_k = m.transposed != few_columns
        # A number of x after another one of its vector: in the next row of B, or the next column of A.
        strides = (1, x.ld) if x.transposed == few_columns else (x.ld, 1)
        of_y = (c.ld, 1) if few_columns else (1, c.ld)
        rows, vectors = (size.m, size.n) if few_columns else (size.n, size.m)
        return cls(
            rows, vectors, size, (of_m, m.start, m.ld, m.batch_stride), (of_x, x.start, *strides, x.batch_stride),
            (Place.C, c.start, *of_y, c.batch_stride), along_k,
        )  # fmt: skip

    def launches(self, macros: Mapping[str, int | str], wide: int, slices: int, itemsize: int) -> Launches:
        """The kernels, with so many slices of k."""
        _, start, ld, step = self.matrix
        aligned = not any(value % wide for value in (start, ld, step)) and (self.along_k or self.rows % wide == 0)
        depth = -(-self.size.k // slices // wide) * wide
        slices = -(-self.size.k // depth) if depth else 1
        width = wide if aligned else 1
        rows_at_once = GROUP // PARTS * (ITEM_ROWS if self.along_k else width)
        defines = {
            **macros, "M_ALONG_K": int(self.along_k), "M_WIDTH": width, "WIDE": wide, "GROUP_X": GROUP, "GROUP_Y": 1,
            "VECTORS": 1 << (self.vectors - 1).bit_length(), **({"ITEM_ROWS": ITEM_ROWS} if self.along_k else {}),
        }  # fmt: skip
        workspace, kernels, of_slice = Workspace(), [], self.rows * self.vectors
        sums = workspace.take(slices * of_slice * self.size.batch, itemsize) if slices > 1 else 0
        of_sums = Place.WORKSPACE if slices > 1 else self.y[0]  # which is not used
        text = with_header(*TEXT)
        for first in range(0, self.size.batch, MAX_GROUPS):
            batch, skipped = min(MAX_GROUPS, self.size.batch - first), sums + first * slices * of_slice
            m, x, y = (_from(side, first) for side in (self.matrix, self.x, self.y))
            extents = map(np.int32, (self.rows, self.vectors, self.size.k, depth))
            groups = -(-self.rows // rows_at_once), slices, batch
            arguments = *extents, *m, *x, *y, of_sums, np.int64(skipped)
            kernels.append(Launch(text, "multiply_thin", defines, groups, (GROUP, 1, 1), arguments))
            if slices > 1:
                counts = map(np.int32, (self.rows, self.vectors, slices))
                groups = -(-of_slice // GROUP), 1, batch
                arguments = *counts, Place.WORKSPACE, np.int64(skipped), *y
                kernels.append(Launch(text, "add_slices", defines, groups, (GROUP, 1, 1), arguments))
        return Launches(tuple(kernels), workspace.nbytes)


def _from(side: tuple[Any, ...], first: int) -> tuple[Argument, ...]:
    """The arguments for M, x or y, from one of the batch on."""
    place, start, *distances = side
    return place, *map(np.int64, (start + first * distances[-1], *distances))
