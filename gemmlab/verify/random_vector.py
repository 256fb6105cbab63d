"""A product checked by a random vector, in O(n^2): C t is compared with A (B t).

For products too large for `error_over_bound` (R. Freivalds, IFIP Congress 1977). The numbers of t are between 0.5 and
1, of random signs, so that equal errors in a row do not cancel, as they may with signs alone. With random signs the
errors of a row add up like their 2-norm (Hoeffding), and rounding errors of random data grow like sqrt(k) u (Higham and
Mary, SIAM J. Sci. Comput. 41, 2019); the bound is 8 times the two together. It is thus a bound for random data, and
sharp enough to find one wrong element in a row of thousands. For integers the numbers of t are odd, of 64 bits, and the
comparison is modulo 2^bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gemmlab.verify.bounds import Floats, as_matrices, by_rows, compute_type, row_norms, unit_roundoff
from gemmlab.verify.dtypes import finfo, is_exact

SAFETY = 8.0
DType = np.dtype[Any]


class InBlocks(Protocol):
    """A matrix that is read a block at a time."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    def blocks(self) -> Iterator[tuple[slice, slice, NDArray[Any]]]:
        """Blocks that together are the whole matrix: which rows and columns, and their numbers."""


class _InMemory:
    def __init__(self, array: NDArray[Any]) -> None:
        self.array, self.shape = array, (array.shape[0], array.shape[1])

    def blocks(self) -> Iterator[tuple[slice, slice, NDArray[Any]]]:
        for rows, block in by_rows(self.array, self.array.dtype):
            yield rows, slice(None), block


def freivalds(a: ArrayLike, b: ArrayLike, c: ArrayLike, rng: np.random.Generator) -> float:
    """Return |C t - A (B t)| over its bound, for a random vector t.

    A product of bools is no sum, and passes unchecked. Highly regular data (all elements alike) can have errors that
    grow like k u and exceed the bound: judge those by `error_over_bound` on a sample of rows and columns.

    Parameters
    ----------
    a, b : array_like
        Factors as for `numpy.matmul`.
    c : array_like
        The product to be judged.
    rng : numpy.random.Generator
        Chooses t.

    Returns
    -------
    float
        Over 1: wrong. 0 for an empty product. Infinity where one side is NaN or infinite and the
        other is not.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmlab.verify import freivalds
    >>> rng = np.random.default_rng(1)
    >>> a, b = rng.random((500, 400)), rng.random((400, 300))
    >>> c = a @ b
    >>> freivalds(a, b, c, rng) < 1
    True
    >>> c[499, 299] = 0
    >>> freivalds(a, b, c, rng) < 1
    False
    """
    return float(row_ratios(a, b, c, rng).max(initial=0.0))


def row_ratios(a: ArrayLike, b: ArrayLike, c: ArrayLike, rng: np.random.Generator) -> Floats:
    """What `freivalds` finds for each row: of shape (..., m)."""
    a, b, c = as_matrices(a, b, c)
    found: Floats = np.zeros(c.shape[:-1])
    if c.size == 0 or c.dtype.kind == "b":
        return found
    lead = c.shape[:-2]
    all_a, all_b = (np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, b))
    compute = compute_type(*(x.real if x.dtype.kind == "c" else x for x in (a, b)))
    stored = np.result_type(a, b, c) if any(x.dtype.kind == "c" for x in (a, b, c)) else c.dtype
    for at in np.ndindex(*lead):
        of_a, of_b, of_c = (_InMemory(x[at]) for x in (all_a, all_b, c))
        found[at] = compare(of_a, of_b, of_c, stored, compute, rng)
    return found


def compare(
    a: InBlocks, b: InBlocks, c: InBlocks, dtype: DType, compute: DType, rng: np.random.Generator
) -> Floats:
    """|C t - A (B t)| over its bound for each row of C, of `dtype`, whose sums are done in `compute`.

    Each matrix is read once. For integers, infinity where the two differ. A complex product is checked as the real one
    that it stands for: [[Re A, -Im A], [Im A, Re A]] @ [[Re B], [Im B]].
    """
    exact, parts, (m, n), k = is_exact(dtype), 2 if dtype.kind == "c" else 1, c.shape, a.shape[1]
    vector = _random_vector(n, exact, rng)
    stored = np.empty(0, dtype).real.dtype
    is_rounded = not exact and finfo(stored).eps > finfo(compute).eps
    with np.errstate(all="ignore"):
        left, norms_of_c = _times(c, vector, parts, with_norms=is_rounded)
        of_b, norms_of_b = _times(b, vector, parts, with_norms=not exact)
        right, size = np.zeros((parts, m), vector.dtype), np.zeros((parts, m))

        def add(rows: slice, columns: slice, of_a: list[NDArray[Any]]) -> None:
            for to in range(parts):
                for of in range(parts):
                    part = of_a[to ^ of]
                    right[to, rows] += (part @ of_b[of, columns]) * (-1 if to < of else 1)
                    if not exact:
                        # |A| times the norms of B's rows is at least the norms of |A||B|'s rows.
                        size[to, rows] += np.abs(part) @ norms_of_b[of, columns]

        _for_each_block(a, vector.dtype, parts, add)
        if exact:
            return np.where((left - right)[0].astype(dtype) != 0, np.inf, 0.0)
        bound = _bound(size, norms_of_c, parts * k, n, compute, stored)
        return np.asarray(_over_bound(left, right, bound).max(axis=0))


def _random_vector(n: int, exact: bool, rng: np.random.Generator) -> NDArray[Any]:
    if exact:
        odd: NDArray[Any] = rng.integers(-(2**63), 2**63 - 1, n) | 1
        return odd
    numbers: NDArray[Any] = rng.uniform(0.5, 1.0, n) * rng.choice([-1.0, 1.0], n)
    return numbers


def _times(matrix: InBlocks, vector: NDArray[Any], parts: int, with_norms: bool) -> tuple[NDArray[Any], Floats]:
    """The product with the vector, for the real and the imaginary part, and the norms of the rows if asked for."""
    product, norms = np.zeros((parts, matrix.shape[0]), vector.dtype), np.zeros((parts, matrix.shape[0]))

    def add(rows: slice, columns: slice, of_matrix: list[NDArray[Any]]) -> None:
        for number, part in enumerate(of_matrix):
            product[number, rows] += part @ vector[columns]
            if with_norms:
                norms[number, rows] = np.hypot(norms[number, rows], row_norms(part))

    _for_each_block(matrix, vector.dtype, parts, add)
    return product, norms


def _for_each_block(
    matrix: InBlocks, wide: DType, parts: int, add: Callable[[slice, slice, list[NDArray[Any]]], None]
) -> None:
    for rows, columns, block in matrix.blocks():
        add(rows, columns, [part.astype(wide) for part in ((block.real, block.imag) if parts == 2 else (block,))])


def _bound(
    size: Floats, norms_of_c: Floats, k: int, n: int, compute: np.dtype[Any], stored: np.dtype[Any]
) -> Floats:
    """What `compare` allows for each row: `size` is |A| times the norms of B's rows, sums are done in `compute`."""
    of_product = np.sqrt(k) * unit_roundoff(compute)
    of_this_check = (np.sqrt(k) + 2 * np.sqrt(n)) * unit_roundoff(np.float64)
    bound: Floats = (of_product + of_this_check) * size
    bound += np.sqrt(n) * k * float(np.finfo(compute).smallest_normal)
    if finfo(stored).eps > finfo(compute).eps:
        finest = float(finfo(stored).smallest_subnormal)
        bound += unit_roundoff(stored) * norms_of_c + np.sqrt(n) * finest
    bound *= SAFETY
    return bound


def _over_bound(left: Floats, right: Floats, bound: Floats) -> Floats:
    """|C t - A(B t)| of each row over its bound; infinity where one side alone is NaN or infinite."""
    with np.errstate(all="ignore"):
        ratios = np.where(left == right, 0.0, np.abs(left - right) / bound)
    same_kind = np.isfinite(left) == np.isfinite(right)
    return np.where(np.isfinite(left) & same_kind, ratios, np.where(same_kind, 0.0, np.inf))
