"""Check a product in files by a random vector (`verify/random_vector.py`), a block at a time: each file is read once.

Very regular data may exceed its bound, which is for random data; then the rows that exceed it most are judged by the
bound that always holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmlab._problem import Array, DType
from gemmlab._tiles import cut
from gemmlab.product.matrices import Matrix, Range, pieces
from gemmlab.verify.bounds import error_over_bound
from gemmlab.verify.dtypes import is_exact
from gemmlab.verify.random_vector import compare

PIECE_BYTES = 8 << 20
ROWS = 8  # computed again where the random vector says too little
COPIES, WIDEST = 4, 16  # of some columns of B, in long double


@dataclass(frozen=True)
class Check:
    """How a product was checked, and its error over the bound; an error over 1 is a fault."""

    by: str
    error: float

    @property
    def ok(self) -> bool:
        """Whether the product is right, as far as this check can tell."""
        return self.error <= 1


def check(a: Matrix, b: Matrix, c: Matrix, dtype: DType, memory: int, rng: np.random.Generator) -> Check:
    """Check c = a b, in `memory` bytes and some vectors.

    A product of bools is no sum, which a vector could check; some of its rows are computed again.
    """
    if 0 in c.shape:
        return Check("having no number", 0.0)
    if dtype.kind == "b":
        some = rng.choice(c.shape[0], min(ROWS, c.shape[0]), replace=False)
        return Check(f"{len(some)} rows", _error_of_rows(a, b, c, dtype, some, memory))
    piece_bytes = min(PIECE_BYTES, max(1, memory // 8))
    real = np.empty(0, dtype).real.dtype
    compute = dtype if is_exact(dtype) else np.result_type(real, np.float32)
    of_a, of_b, of_c = (_InFile(x, dtype, piece_bytes) for x in (a, b, c))
    ratios = compare(of_a, of_b, of_c, dtype, compute, rng)
    if is_exact(dtype) or ratios.max() <= 1 or np.isinf(ratios).any():
        return Check("a random vector", float(ratios.max()))
    worst = np.argsort(ratios)[-ROWS:][::-1]
    return Check(f"the {len(worst)} worst rows", _error_of_rows(a, b, c, dtype, worst, memory))


@dataclass(frozen=True)
class _InFile:
    """A matrix as the check reads it: in the dtype of the product, a piece at a time."""

    matrix: Matrix
    dtype: DType
    piece_bytes: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    def blocks(self) -> Iterator[tuple[slice, slice, Array]]:
        for rows, columns in pieces(self.matrix, self.piece_bytes):
            yield slice(*rows), slice(*columns), _read(self.matrix, rows, columns, self.dtype)


def _error_of_rows(a: Matrix, b: Matrix, c: Matrix, dtype: DType, rows: Array, memory: int) -> float:
    """The largest error of some rows over the bound that holds for any data."""
    k, n = b.shape
    of_a = np.concatenate([_read(a, (row, row + 1), (0, k), dtype) for row in rows])
    worst = 0.0
    for columns in cut(n, max(1, memory // (COPIES * max(1, k) * WIDEST))):
        of_b = _read(b, (0, k), columns, dtype)
        of_c = np.concatenate([_read(c, (row, row + 1), columns, dtype) for row in rows])
        worst = max(worst, error_over_bound(of_a, of_b, of_c))
    return worst


def _read(matrix: Matrix, rows: Range, columns: Range, dtype: DType) -> Array:
    space: np.ndarray[Any, Any] = np.empty((rows[1] - rows[0]) * (columns[1] - columns[0]), dtype)
    return matrix.read(rows, columns, space)
