"""Check a product in files by a random vector, a block at a time: the check and the bound of `verify.freivalds`.

C t is compared with A (B t) for a random vector t, which reads each file once. Its numbers are between 0.5 and 1, of
random signs, so that equal errors in a row do not cancel, as they may with signs alone; the bound, by Hoeffding's
inequality, is that for signs. For integers they are odd ones of 64 bits. Very regular data may exceed the bound, which
is one for random data; then the rows that exceed it most are judged by the bound that always holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmlab._problem import Array, DType
from gemmlab.product.matrices import Matrix, Range, cut, pieces
from gemmlab.verify.bounds import error_over_bound, over_bound, random_bound, row_norms
from gemmlab.verify.dtypes import is_exact

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
    vectors = _Vectors(a, b, c, dtype, min(PIECE_BYTES, max(1, memory // 8)))
    with np.errstate(all="ignore"):
        left, right, bound = vectors.compare(_random_vector(c.shape[1], dtype, rng))
        if is_exact(dtype):
            return Check("a random vector", float("inf") if (left - right).astype(dtype).any() else 0.0)
        ratios = over_bound(left, right, bound).max(axis=0)
    if ratios.max() <= 1 or np.isinf(ratios).any():
        return Check("a random vector", float(ratios.max()))
    worst = np.argsort(ratios)[-ROWS:][::-1]
    return Check(f"the {len(worst)} worst rows", _error_of_rows(a, b, c, dtype, worst, memory))


def _random_vector(n: int, dtype: DType, rng: np.random.Generator) -> Array:
    if is_exact(dtype):
        odd: Array = rng.integers(-(2**63), 2**63 - 1, n) | 1
        return odd
    numbers: Array = rng.uniform(0.5, 1.0, n) * rng.choice([-1.0, 1.0], n)
    return numbers


class _Vectors:
    """The products with a vector that the check compares. Those of complex matrices have two rows: real, imaginary."""

    def __init__(self, a: Matrix, b: Matrix, c: Matrix, dtype: DType, piece_bytes: int) -> None:
        self.a, self.b, self.c, self.dtype, self.piece_bytes = a, b, c, dtype, piece_bytes
        self.parts = 2 if dtype.kind == "c" else 1
        self.wide = np.dtype(np.int64 if is_exact(dtype) else np.float64)

    def compare(self, vector: Array) -> tuple[Array, Array, Array]:
        """C t, A (B t), and what they may differ by."""
        (m, n), k = self.c.shape, self.a.shape[1]
        real = np.empty(0, self.dtype).real.dtype
        is_rounded = self.wide.kind == "f" and real.itemsize < 4  # to a narrower dtype than that of the sums
        left, norms_of_c = self._times(self.c, vector, with_norms=is_rounded)
        of_b, norms_of_b = self._times(self.b, vector, with_norms=self.wide.kind == "f")
        right, size = np.zeros((self.parts, m), self.wide), np.zeros((self.parts, m))
        self._for_each_piece(self.a, lambda rows, columns, part: self._add_of_a(
            part, right[:, rows], size[:, rows], of_b[:, columns], norms_of_b[:, columns]))  # fmt: skip
        if is_exact(self.dtype):
            return left, right, size
        compute = np.result_type(real, np.float32)
        return left, right, random_bound(size, norms_of_c, self.parts * k, n, compute, real)

    def _times(self, matrix: Matrix, vector: Array, with_norms: bool) -> tuple[Array, Array]:
        """The product with the vector, and the norms of the rows, zero where they are not asked for."""
        product, norms = np.zeros((self.parts, matrix.shape[0]), self.wide), np.zeros((self.parts, matrix.shape[0]))

        def add(rows: slice, columns: slice, parts: list[Array]) -> None:
            for number, part in enumerate(parts):
                product[number, rows] += part @ vector[columns]
                if with_norms:
                    norms[number, rows] = np.hypot(norms[number, rows], row_norms(part))

        self._for_each_piece(matrix, add)
        return product, norms

    def _add_of_a(self, parts: list[Array], right: Array, size: Array, of_b: Array, norms_of_b: Array) -> None:
        """As if of [[Re A, -Im A], [Im A, Re A]], the real matrix that a complex one stands for."""
        for to in range(self.parts):
            for of in range(self.parts):
                part = parts[to ^ of]
                right[to] += (part @ of_b[of]) * (-1 if to < of else 1)
                if self.wide.kind == "f":
                    size[to] += np.abs(part) @ norms_of_b[of]

    def _for_each_piece(self, matrix: Matrix, add: Callable[[slice, slice, list[Array]], None]) -> None:
        for rows, columns in pieces(matrix, self.piece_bytes):
            block = _read(matrix, rows, columns, self.dtype)
            parts = [block.real, block.imag] if self.parts == 2 else [block]
            add(slice(*rows), slice(*columns), [part.astype(self.wide) for part in parts])


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
