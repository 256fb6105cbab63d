"""A matrix by a vector on GPUs, as tuned launches it: C has one column or one row.

The roof is the device's memory: the matrix is read once, and where it has few rows, k is cut into slices, so that all
of the device reads. The sums of slices are added in their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gemmlab._gpu.batches import GemmSize, Layout
from gemmlab._gpu.kernels import with_header
from gemmlab._gpu.plans.launches import MAX_GROUPS, Argument, Launch, Launches, Place, Workspace

LANES, GROUP = 32, 256  # work-items
ROWS_AT_ONCE = 64  # of a work-group, of either form, more or less
GROUPS_A_UNIT = 8  # that keep a compute unit reading
LEAST_SLICE = 1024  # of k
TEXT = "common/stored.h", "tuned_vector.cl"


def slices_for(size: GemmSize, compute_units: int) -> int:
    """In how many slices k is cut, so that a device has work-groups enough."""
    groups = -(-max(size.m, size.n) // ROWS_AT_ONCE) * size.batch
    return max(1, min(GROUPS_A_UNIT * compute_units // groups, size.k // LEAST_SLICE))


@dataclass(frozen=True)
class VectorProduct:
    """y = M x, for each of a batch: where M, x and y are, and how they lie in memory.

    Attributes
    ----------
    matrix, x, y : (Place, int, int, int)
        Memory, start, leading dimension of M or stride of a vector, and the step of the batch.
    along_k : bool
        Whether rows of M are contiguous; else its columns are.
    """

    rows: int
    size: GemmSize
    matrix: tuple[Place, int, int, int]
    x: tuple[Place, int, int, int]
    y: tuple[Place, int, int, int]
    along_k: bool

    @classmethod
    def of(cls, size: GemmSize, layouts: Sequence[Layout]) -> VectorProduct:
        """That of A by a column, or of a row by B."""
        a, b, c = layouts
        if size.n == 1:
            m, x, y, along_k = (Place.A, a), (Place.B, b, 1 if b.transposed else b.ld), c.ld, not a.transposed
            rows = size.m
        else:
            m, x, y, along_k = (Place.B, b), (Place.A, a, a.ld if a.transposed else 1), 1, b.transposed
            rows = size.n
        return cls(
            rows, size, (m[0], m[1].start, m[1].ld, m[1].batch_stride), (x[0], x[1].start, x[2], x[1].batch_stride),
            (Place.C, c.start, y, c.batch_stride), along_k,
        )  # fmt: skip

    def launches(self, macros: Mapping[str, int | str], wide: int, slices: int, itemsize: int) -> Launches:
        """The kernels, with so many slices of k."""
        _, start, ld, step = self.matrix
        aligned = not any(value % wide for value in (start, ld, step)) and (self.along_k or self.rows % wide == 0)
        depth = -(-self.size.k // slices // wide) * wide
        slices = -(-self.size.k // depth) if depth else 1
        width = wide if aligned else 1
        rows_at_once = GROUP // LANES if self.along_k else GROUP * width
        defines = {
            **macros, "M_ALONG_K": int(self.along_k), "M_WIDTH": width, "WIDE": wide, "GROUP_X": GROUP, "GROUP_Y": 1,
        }  # fmt: skip
        workspace, kernels = Workspace(), []
        sums = workspace.take(slices * self.rows * self.size.batch, itemsize) if slices > 1 else 0
        of_sums = Place.WORKSPACE if slices > 1 else self.y[0]  # which is not used
        text = with_header(*TEXT)
        for first in range(0, self.size.batch, MAX_GROUPS):
            batch, skipped = min(MAX_GROUPS, self.size.batch - first), sums + first * slices * self.rows
            of_all = [*self._arguments(first), of_sums, np.int64(skipped)]
            extents = map(np.int32, (self.rows, self.size.k, depth))
            groups = -(-self.rows // rows_at_once), slices, batch
            kernels.append(Launch(text, "multiply_vector", defines, groups, (GROUP, 1, 1), (*extents, *of_all)))
            if slices > 1:
                counts = map(np.int32, (self.rows, slices))
                arguments = *counts, Place.WORKSPACE, np.int64(skipped), *self._arguments(first)[8:]
                groups = -(-self.rows // GROUP), 1, batch
                kernels.append(Launch(text, "add_slices", defines, groups, (GROUP, 1, 1), tuple(arguments)))
        return Launches(tuple(kernels), workspace.nbytes)

    def _arguments(self, first: int) -> list[Argument]:
        """M, x and y, from one of the batch on: four arguments each."""
        found: list[Argument] = []
        for place, start, stride, step in (self.matrix, self.x, self.y):
            found += [place, *map(np.int64, (start + first * step, stride, step))]
        return found
