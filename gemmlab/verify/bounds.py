"""How large may the error of a product be?

Every way of summing k products in floating point, in any order, with or without fused multiply-add, obeys

    |C - AB| <= gamma_k |A||B|,    gamma_k = k u / (1 - k u),

element by element, u being half the distance from 1 to the next number (Higham, Accuracy and Stability of
Numerical Algorithms, 2nd ed., section 3.5). An error over this bound is therefore a fault, whatever the
kernel does, and an error far below it is a good kernel. Two allowances are added: k times the smallest
normal number, since products may underflow, and half a unit in the last place of C where C is stored in a
narrower type than the sums were done in.

The sums are done in the type of A and B, and in float32 for float16 and bfloat16. A complex product is judged as the
real product it stands for, whose sums have 2k terms. A product of integers has no error: it is exact modulo 2^bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from gemmlab._backend import ErrorBound
from gemmlab.verify.dtypes import DTYPES, finfo, is_exact

Floats: TypeAlias = NDArray[np.floating[Any]]
Index: TypeAlias = slice | NDArray[np.integer[Any]] | list[int] | None

_LONGDOUBLE_IS_WIDER = bool(np.finfo(np.longdouble).eps < np.finfo(np.float64).eps)
GAMMA = ErrorBound()
OF_PARTS = 2.0**-6  # the products of the first parts of numbers may be larger than those of the numbers
_BLOCK_NUMBERS = 1 << 16  # 512 KiB in float64: a block stays in the caches


def gamma(k: int, dtype: DTypeLike) -> float:
    """Return gamma_k = k u / (1 - k u), the largest relative error of a sum of k products.

    Parameters
    ----------
    k : int
        Number of products.
    dtype : dtype
        Floating-point or complex type that the sum is done in; the real and imaginary parts of a complex
        sum have 2k products each.

    Returns
    -------
    float
        Infinity where k u >= 1: nothing can be said any more.

    Examples
    --------
    >>> from gemmlab.verify import gamma
    >>> gamma(100, "float64") < 1.2e-14
    True
    """
    products = 2 * k if np.dtype(dtype).kind == "c" else k
    relative = products * unit_roundoff(np.dtype(dtype))
    return relative / (1 - relative) if relative < 1 else float("inf")


def error_over_bound(
    a: ArrayLike, b: ArrayLike, c: ArrayLike, *, rows: Index = None, columns: Index = None, error: ErrorBound = GAMMA
) -> float:
    """Return the largest error of `c` as the product of `a` and `b`, divided by its bound.

    The reference is worked out in float64 for float16 and float32. For float64 it is worked out in
    long double where that is wider, else by a compensated dot product (Dot2 of Ogita, Rump and Oishi,
    SIAM J. Sci. Comput. 26, 2005), as if in twice the precision.

    Parameters
    ----------
    a, b : array_like
        Factors as for `numpy.matmul`: vectors, matrices, or stacks of matrices. bool, integers, float16, bfloat16,
        float32, float64, complex64 or complex128.
    c : array_like
        The product to be judged.
    rows, columns : slice or sequence of int, optional
        Judge these rows and columns of `c` only; a sample of a large product.
    error : ErrorBound, optional
        The bound that the backend states, as `Backend.error` returns it; by default gamma_k |A||B|.

    Returns
    -------
    float
        Over 1: wrong. 0 for an empty product, and where `c` is exact. Infinity for a wrong integer, and where
        `c` is NaN or infinite and the product is not, or the other way round; an infinity that comes from
        overflow on the way is accepted wherever |A||B| is too large for the type.

    Raises
    ------
    ValueError
        If the shapes do not fit.
    TypeError
        For objects, long double, and integers beside other numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from gemmlab.verify import error_over_bound
    >>> a, b = np.full((3, 4), 0.1), np.full((4, 5), 0.3)
    >>> error_over_bound(a, b, a @ b) < 1
    True
    >>> error_over_bound(a, b, a @ b + 1e-9) < 1
    False
    """
    a, b, c = as_matrices(a, b, c)
    chosen_rows = slice(None) if rows is None else rows
    chosen_columns = slice(None) if columns is None else columns
    some = c[..., chosen_rows, :][..., chosen_columns]
    sample = element_ratios(a[..., chosen_rows, :], b[..., chosen_columns], some, error)
    return float(sample.max(initial=0.0))


def element_ratios(a: ArrayLike, b: ArrayLike, c: ArrayLike, error: ErrorBound = GAMMA) -> Floats:
    """Return the error of each element divided by its bound; see `error_over_bound`. `error` is another bound.

    For a complex product: the larger ratio of the real and the imaginary part.
    """
    a, b, c = as_matrices(a, b, c)
    if is_exact(c.dtype):
        return np.where(c == np.matmul(a.astype(np.int64), b.astype(np.int64)).astype(c.dtype), 0.0, np.inf)
    is_complex = any(array.dtype.kind == "c" for array in (a, b, c))
    a, b, c = _real_form(a, b, c) if is_complex else (a, b, c)
    ratios = _real_ratios(a, b, c, error)
    if is_complex:
        real, imaginary = np.split(ratios, 2, axis=-2)
        ratios = np.maximum(real, imaginary)
    return ratios


def _real_ratios(a: Floats, b: Floats, c: Floats, error: ErrorBound) -> Floats:
    compute, k = compute_type(a, b), a.shape[-1]
    relative = gamma(k, compute) if error.bound is None else error.bound
    finite_rows, finite_columns = np.isfinite(a).all(-1, keepdims=True), np.isfinite(b).all(-2, keepdims=True)
    finite_inputs = finite_rows & finite_columns
    # NumPy multiplies long doubles by plain loops, so that NaN and infinity do not depend on any BLAS.
    in_float64 = compute == np.float32 and finite_inputs.all()
    wide = np.dtype(np.float64 if in_float64 else np.longdouble)
    a, b = a.astype(wide), b.astype(wide)

    with np.errstate(all="ignore"):
        product = np.matmul(a, b)
        magnitude = np.matmul(np.abs(a), np.abs(b))
        difference = np.abs(c - product)
        if compute == np.float64 and not _LONGDOUBLE_IS_WIDER:
            sharp = np.abs(_residual(a, b, c.astype(np.float64)))
            difference = np.where(np.isfinite(sharp), sharp, difference)

        of_norms = error.kind == "norms"
        size = row_norms(a)[..., :, None] * row_norms(b.mT)[..., None, :] if of_norms else magnitude
        bound = relative * size + error.underflow * k * float(np.finfo(compute).smallest_normal)
        if error.lost:
            bound += error.lost * (np.abs(a).sum(-1)[..., :, None] + np.abs(b).sum(-2)[..., None, :])
        bound += _half_unit_in_last_place(np.abs(product) + bound, compute, c.dtype)
        ratios = np.where(difference == 0, 0.0, difference / bound)

        may_overflow = magnitude * (1 + excess(error, relative)) > np.finfo(compute).max
        may_overflow |= np.abs(product) + bound > float(finfo(c.dtype).max)
        same = (c == product) | (np.isnan(c) & np.isnan(product))
        without_numbers = np.where(same | (finite_inputs & may_overflow), 0.0, np.inf)
    return np.asarray(np.where(np.isfinite(c) & np.isfinite(product), ratios, without_numbers), np.float64)


def excess(error: ErrorBound, relative: float) -> float:
    """By how much what is summed may exceed |A||B|: by rounding, or since its numbers are put together from parts."""
    return relative if error.bound is None else max(relative, OF_PARTS)


def _half_unit_in_last_place(size: Floats, compute: np.dtype[Any], stored: np.dtype[Any]) -> Floats | float:
    if finfo(stored).eps <= finfo(compute).eps:
        return 0.0
    unit: Floats = np.spacing(np.minimum(size, float(finfo(stored).max)).astype(stored))
    return unit.astype(size.dtype) / 2


def exact_errors(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> tuple[Floats, Floats]:
    """|C - AB| of real matrices, as if in twice the precision of float64, and |A||B|."""
    wide = [x.astype(np.float64) for x in (a, b, c)]
    return np.abs(_residual(*wide)), np.abs(wide[0]) @ np.abs(wide[1])


def _residual(a: Floats, b: Floats, c: Floats) -> Floats:
    """C - AB with the rounding errors of every product and every sum carried along."""
    high, low = c.copy(), np.zeros_like(c)
    for p in range(a.shape[-1]):
        product, product_error = _two_product(-a[..., :, p, None], b[..., None, p, :])
        high, sum_error = _two_sum(high, product)
        low += product_error + sum_error
    return high + low


def _two_sum(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    total = x + y
    virtual = total - x
    return total, (x - (total - virtual)) + (y - virtual)


def _two_product(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    product = x * y
    (x_high, x_low), (y_high, y_low) = _split(x), _split(y)
    return product, x_low * y_low - (((product - x_high * y_high) - x_low * y_high) - x_high * y_low)


def _split(x: Floats) -> tuple[Floats, Floats]:
    scaled = 134217729.0 * x  # 2^27 + 1: halves of 26 bits, whose products are exact
    high = scaled - (scaled - x)
    return high, x - high


def row_norms(matrix: Floats) -> Floats:
    """2-norm of each row."""
    norm = _norm if matrix.dtype.itemsize < np.dtype(np.float64).itemsize else _scaled_norm
    result = np.empty(matrix.shape[:-1])
    for rows, block in by_rows(matrix):
        result[..., rows] = norm(block)
    return result


def _norm(block: Floats) -> Floats:
    """Of numbers whose squares float64 holds, as it does those of every narrower type."""
    norms: Floats = np.sqrt(np.einsum("...i,...i->...", block, block))
    return norms


def _scaled_norm(block: Floats) -> Floats:
    """By parts of its largest element, so that no square overflows or underflows on the way."""
    largest = np.abs(block).max(axis=-1)
    parts = block / np.where((largest > 0) & (largest < np.inf), largest, 1.0)[..., None]
    norms: Floats = largest * _norm(parts)
    return norms


def by_rows(matrix: NDArray[Any], dtype: DTypeLike = np.float64) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Some rows at a time, copied to a wider dtype: no such copy of a whole matrix."""
    rows_at_a_time = max(1, _BLOCK_NUMBERS * matrix.shape[-2] // max(matrix.size, 1))
    for start in range(0, matrix.shape[-2], rows_at_a_time):
        rows = slice(start, start + rows_at_a_time)
        yield rows, matrix[..., rows, :].astype(dtype)


def as_matrices(a: ArrayLike, b: ArrayLike, c: ArrayLike) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The three as (stacks of) matrices, vectors made into a row or a column."""
    a, b, c = np.asarray(a), np.asarray(b), np.asarray(c)
    for array in (a, b, c):
        if array.dtype.name not in DTYPES:
            raise TypeError(f"errors are judged in {', '.join(DTYPES)}, not {array.dtype}")
    if len({is_exact(array.dtype) for array in (a, b, c)}) > 1:
        raise TypeError(f"integers are judged beside integers: a, b and c are {a.dtype}, {b.dtype} and {c.dtype}")
    if not a.ndim or not b.ndim:
        raise ValueError("a and b must have at least one dimension")
    if b.ndim == 1:
        b, c = b[:, None], c[..., None]
    if a.ndim == 1:
        a, c = a[None, :], c[..., None, :]
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    if a.shape[-1] != b.shape[-2] or c.shape != shape:
        raise ValueError(f"c of shape {c.shape} is no product of {a.shape} and {b.shape}")
    return a, b, c


def _real_form(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> tuple[Floats, Floats, Floats]:
    """[[Re A, -Im A], [Im A, Re A]] @ [[Re B], [Im B]] = [[Re C], [Im C]]."""
    upper = np.concatenate([a.real, -a.imag], axis=-1)
    lower = np.concatenate([a.imag, a.real], axis=-1)
    b, c = (np.concatenate([array.real, array.imag], axis=-2) for array in (b, c))
    return np.concatenate([upper, lower], axis=-2), b, c


def compute_type(a: Floats, b: Floats) -> np.dtype[Any]:
    return np.result_type(a, b, np.float32)


def unit_roundoff(dtype: DTypeLike) -> float:
    return float(finfo(np.dtype(dtype)).eps) / 2
