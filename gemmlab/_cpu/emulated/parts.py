"""float32 products out of products of bfloat16 or float16 parts.

Parts are exact: what rounding leaves over is the next part. Their products are exact in float32, which sums them, in
blocks: so the error is smaller than that of one long sum.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gemmlab._cpu import isa
from gemmlab._cpu.emulated.compiled import CHUNK, Bits, pair, rescale, split
from gemmlab._cpu.emulated.narrow import multiplied as product_of_parts
from gemmlab._emulated.schemes import PAIRS, PARTS

Floats = NDArray[np.float32]
LEAST_SUMS = 64  # products
Apart: TypeAlias = tuple[NDArray[Any], "NDArray[np.int64] | None"]  # parts along k: see parts.c; scales of f16-pairs


def of_rows(rows: Floats, scheme: str, threads: int, reverse: bool = False) -> tuple[Apart, NDArray[np.bool_]]:
    """The parts of a matrix whose rows are scaled; and which rows have infinities or NaN, and so count as zeros."""
    if scheme == "f16-pairs":
        pairs, scales, special = pair(rows, threads, reverse)
        return (pairs, scales), special
    bits, special = bf16_parts(rows, threads, reverse)
    return (bits, None), special


def of_columns(x: Floats, scheme: str, threads: int) -> tuple[Apart, NDArray[np.bool_]]:
    """The same of a matrix whose columns are scaled, with the last part first."""
    (parts, scales), special = of_rows(x.T, scheme, threads, reverse=True)
    return (parts.T, scales), special


def multiply(a: Apart, b: Apart, out: Floats, scheme: str, threads: int) -> None:
    """Fill `out` with the product of what is taken apart: of each chunk of k, the sum of the products of pairs."""
    (of_a, rows), (of_b, columns) = a, b
    parts = PARTS[scheme]
    k = of_a.shape[1] // parts
    for first in range(0, k, CHUNK):
        chunk, found = slice(parts * first, parts * (first + CHUNK)), np.empty(out.shape, np.float32) if first else out
        _multiply_pairs(of_a[:, chunk], of_b[chunk], min(CHUNK, k - first), found, scheme, threads)
        if first:
            out += found
    if rows is not None and columns is not None:
        rescale(out, rows, columns, threads)


def _multiply_pairs(a: NDArray[Any], b: NDArray[Any], k: int, out: Floats, scheme: str, threads: int) -> None:
    """The smallest products first: parts of A and B whose numbers have the same sum are next to each other in both."""
    most = max(i + j for i, j in PAIRS[scheme])
    for both in range(most, -1, -1):
        of_a = [i for i, j in PAIRS[scheme] if i + j == both]
        first, end = min(of_a), max(of_a) + 1
        before = PARTS[scheme] - 1 - both + first  # parts of B before the first that is wanted
        left, right = a[:, first * k : end * k], b[before * k : (before + end - first) * k]
        product_of_parts(left, right, out, threads, accumulate=both < most, kc=_sums(a.dtype, k))


def _sums(dtype: np.dtype[Any], k: int) -> int:
    """How many products are summed before they are added to C; 0: as many as in any product of the dtype.

    The errors of such a sum, and of adding these, are about as large for k^(2/3). AMX sums thirty-two products by
    themselves before it adds them, which makes errors small enough.
    """
    if dtype == np.uint16 and "amx" in isa.extras():
        return 0
    return LEAST_SUMS * max(1, round(math.pow(k, 2 / 3) / LEAST_SUMS))


def bf16_parts(rows: Floats, threads: int, reverse: bool = False) -> tuple[Bits, NDArray[np.bool_]]:
    """The bits of three bfloat16 numbers whose sum each number is; and the rows with infinities or NaN, then zeros."""
    by_columns = abs(rows.strides[0]) < abs(rows.strides[1])  # so its lines in memory
    if by_columns:
        bits, marked = split(rows.T, threads, across_k=True, reverse=reverse)
        bits = bits.T
        special = np.zeros(len(rows), np.bool_)
        if marked.any():
            special = np.asarray(~np.isfinite(rows).all(axis=1), np.bool_)
    else:
        bits, special = split(rows, threads, reverse=reverse)
    if special.any():
        bits[special] = 0
    return bits, special
