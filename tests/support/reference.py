"""The values that a product may have: every order of summation, rounded to the dtypes on the way.

The sums of k products in floating point differ from the exact sum by at most gamma_k |A||B| (see
`gemmlab.verify.bounds`). So each element lies between two numbers, and these are rounded as the element is: to the
dtype of the loop, and to that of `out`. Rounding keeps their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from calls import BFLOAT16, real_of

from gemmlab.verify import gamma


def acceptable(a: Any, b: Any, c: Any, loop: np.dtype[Any], is_exact: bool = False, may_flush: bool = False) -> Any:
    """Where `c` may be the product of `a` and `b`, summed and rounded in `loop` and then rounded to its own dtype.

    `a` and `b` are (stacks of) matrices in the dtype `loop`, of floating-point or complex numbers. With `is_exact`
    no sum rounds; with `may_flush` subnormal numbers of a and b may be taken for 0.
    """
    parts = ("real", "imag") if loop.kind == c.dtype.kind == "c" else ("real",)
    with np.errstate(all="ignore"):
        readings = [(a, b), (_flushed(a), _flushed(b))] if may_flush else [(a, b)]
        return np.logical_and.reduce([_part_is_acceptable(readings, c, loop, part, is_exact) for part in parts])


def _part_is_acceptable(readings: list[tuple[Any, Any]], c: Any, loop: np.dtype[Any], part: str, is_exact: bool) -> Any:
    a, b = readings[0]
    c = getattr(c, part) if c.dtype.kind == "c" else c
    compute = np.result_type(real_of(loop), np.float32) if loop != BFLOAT16 else np.dtype(np.float32)
    in_float64 = compute == np.float32 and np.isfinite(a).all() and np.isfinite(b).all()
    wide = np.dtype(np.float64 if in_float64 else np.longdouble)
    products = [_product(*pair, part, wide) for pair in readings]
    finite = [np.where(np.isfinite(x), x, 0) for x in (a, b)]
    size = _product(*finite, part, wide, of_sizes=True)
    relative = gamma(a.shape[-1], loop if loop.kind == "c" else compute)
    margin = 0 if is_exact else relative * size + 2 * a.shape[-1] * float(np.finfo(compute).smallest_normal)
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
    all_finite = np.isfinite(a).all(-1)[..., :, None] & np.isfinite(b).all(-2)[..., None, :]
    may_overflow = size * (1 + relative) > np.finfo(compute).max
    ok = ((low <= c) & (c <= high)) | (may_overflow & (all_finite | ~np.isfinite(c)))
    for product in products:
        ok = ok | (np.isnan(c) & np.isnan(product)) | (c == _stored(product, compute, loop, c.dtype))
    return ok


def _flushed(x: Any) -> Any:
    return np.where(np.abs(x.astype(np.float32)) < np.finfo(np.float32).smallest_normal, x.dtype.type(0), x)


def _product(a: Any, b: Any, part: str, wide: np.dtype[Any], of_sizes: bool = False) -> Any:
    """One part of the product in a wide type; of sizes: of the absolute values."""
    pairs = [(a, b)]
    if a.dtype.kind == "c":
        pairs = [(a.real, b.real), (-a.imag, b.imag)] if part == "real" else [(a.real, b.imag), (a.imag, b.real)]
    change = np.abs if of_sizes else np.asarray
    return sum(np.matmul(change(x.astype(wide)), change(y.astype(wide))) for x, y in pairs)


def _stored(x: Any, compute: np.dtype[Any], loop: np.dtype[Any], dtype: np.dtype[Any]) -> Any:
    """Numbers rounded to the type of the sums, to that of the loop, and to that of `out`."""
    return x.astype(compute).astype(real_of(loop)).astype(dtype)
