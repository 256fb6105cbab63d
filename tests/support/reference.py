"""The values that a product may have: every order of summation, rounded to the dtypes on the way.

The sums of k products in floating point differ from the exact sum by at most gamma_k |A||B| (see
`gemmlab.verify.bounds`). So each element lies between two numbers, and these are rounded as the element is: to the
dtype of the loop, and to that of `out`. Rounding keeps their order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from calls import BFLOAT16, real_of

from gemmlab._backend import ErrorBound
from gemmlab.verify import gamma
from gemmlab.verify.bounds import GAMMA, excess


class Reading(NamedTuple):
    """Operands, and the first addend of every sum."""

    a: Any
    b: Any
    first: Any


def acceptable(
    given: Reading, c: Any, loop: np.dtype[Any], error: ErrorBound = GAMMA, is_exact: bool = False,
    may_flush: bool = False,
) -> Any:  # fmt: skip
    """Where `c` may be the product, summed and rounded in `loop` and then rounded to its own dtype.

    What is given are (stacks of) matrices in the dtype `loop`, of floating-point or complex numbers. `error` is what
    the backend states beside the rounding of plain sums. With `is_exact` no sum rounds; with `may_flush` subnormal
    numbers may be taken for 0.
    """
    parts = ("real", "imag") if loop.kind == c.dtype.kind == "c" else ("real",)
    with np.errstate(all="ignore"):
        readings = [given, Reading(*map(_flushed, given))] if may_flush else [given]
        return np.logical_and.reduce([_part_is_acceptable(readings, c, loop, part, error, is_exact) for part in parts])


def _part_is_acceptable(
    readings: list[Reading], c: Any, loop: np.dtype[Any], part: str, error: ErrorBound, is_exact: bool
) -> Any:  # fmt: skip
    given, k = readings[0], readings[0].a.shape[-1]
    c = getattr(c, part) if c.dtype.kind == "c" else c
    compute = np.result_type(real_of(loop), np.float32) if loop != BFLOAT16 else np.dtype(np.float32)
    in_float64 = compute == np.float32 and all(np.isfinite(x).all() for x in given)
    wide = np.dtype(np.float64 if in_float64 else np.longdouble)
    products = [_product(reading, part, wide) for reading in readings]
    size = _product(given, part, wide, _finite_size)
    relative = gamma(k + 1, loop if loop.kind == "c" else compute)
    margin = 0 if is_exact else relative * size + 2 * k * float(np.finfo(compute).smallest_normal)
    if error.bound is not None and not is_exact:
        margin = margin + _beyond_sums(given, error, wide)
    low, high = (
        _stored(x, compute, loop, c.dtype)
        for x in (np.minimum.reduce(products) - margin, np.maximum.reduce(products) + margin)
    )
    if c.dtype.kind == "b":
        return c | ((np.minimum.reduce(products) <= margin) & (np.maximum.reduce(products) >= -margin))
    if c.dtype.kind in "iu":
        ends = np.iinfo(c.dtype)
        in_range = (np.abs(products[0]) + margin < ends.max) & (products[0] - margin > ends.min)
        return ~in_range | ((low <= c) & (c <= high))
    all_finite = np.isfinite(given.a).all(-1)[..., :, None] & np.isfinite(given.b).all(-2)[..., None, :]
    all_finite = all_finite & np.isfinite(given.first)
    may_overflow = size * (1 + excess(error, relative)) > np.finfo(compute).max
    ok = ((low <= c) & (c <= high)) | (may_overflow & (all_finite | ~np.isfinite(c)))
    for product in products:
        ok = ok | (np.isnan(c) & np.isnan(product)) | (c == _stored(product, compute, loop, c.dtype))
    return ok


def _flushed(x: Any) -> Any:
    return np.where(np.abs(x.astype(np.float32)) < np.finfo(np.float32).smallest_normal, x.dtype.type(0), x)


def _finite_size(x: Any) -> Any:
    return np.abs(np.where(np.isfinite(x), x, 0))


def _beyond_sums(given: Reading, error: ErrorBound, wide: np.dtype[Any]) -> Any:
    """What a backend that puts its numbers together may be off by, of the finite numbers of rows and columns."""
    a, b = (np.abs(np.where(np.isfinite(x), x, 0).astype(np.result_type(x, wide))) for x in given[:2])
    lost = error.lost * (a.sum(-1)[..., :, None] + b.sum(-2)[..., None, :] + error.underflow * a.shape[-1])
    if error.kind == "norms":
        size = np.sqrt((a * a).sum(-1))[..., :, None] * np.sqrt((b * b).sum(-2))[..., None, :]
    else:
        size = np.matmul(a, b)
    return error.bound * size + lost


def _product(given: Reading, part: str, wide: np.dtype[Any], of: Callable[[Any], Any] = np.asarray) -> Any:
    """One part of the product in a wide type, of the numbers or of a function of them."""
    a, b, first = given
    pairs = [(a, b)]
    if a.dtype.kind == "c":
        pairs = [(a.real, b.real), (-a.imag, b.imag)] if part == "real" else [(a.real, b.imag), (a.imag, b.real)]
        first = getattr(first, part)
    return sum((np.matmul(of(x.astype(wide)), of(y.astype(wide))) for x, y in pairs), of(first.astype(wide)))


def _stored(x: Any, compute: np.dtype[Any], loop: np.dtype[Any], dtype: np.dtype[Any]) -> Any:
    """Numbers rounded to the type of the sums, to that of the loop, and to that of `out`."""
    return x.astype(compute).astype(real_of(loop)).astype(dtype)
