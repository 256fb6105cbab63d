"""float32 products out of products of bfloat16 or float16 parts.

Parts are exact: what rounding leaves over is the next part. Their products are exact in float32, which sums them, in
blocks: so the error is smaller than that of one long sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gemmlab._cpu import isa
from gemmlab._cpu.emulated.compiled import Bits, pair, rescale, split
from gemmlab._cpu.emulated.narrow import multiplied as product_of_parts
from gemmlab._emulated.schemes import PAIRS

Floats = NDArray[np.float32]
LEAST_SUMS = 64  # products
CHUNK = 4096  # of k, whose sums are added at the end
Apart: TypeAlias = tuple[Sequence[NDArray[Any]], "NDArray[np.int64] | None"]  # parts; the scales of f16-pairs


def of_rows(rows: Floats, scheme: str, threads: int) -> tuple[Apart, NDArray[np.bool_]]:
    """The parts of a matrix whose rows are scaled; and which rows have infinities or NaN, and so count as zeros."""
    if scheme == "f16-pairs":
        pairs, scales, special = pair(rows, threads)
        return (list(pairs), scales), special
    bits, special = bf16_parts(rows, threads)
    return (list(bits), None), special


def of_columns(x: Floats, scheme: str, threads: int) -> tuple[Apart, NDArray[np.bool_]]:
    """The same of a matrix whose columns are scaled."""
    (parts, scales), special = of_rows(x.T, scheme, threads)
    return ([part.T for part in parts], scales), special


def multiply(a: Apart, b: Apart, out: Floats, scheme: str, threads: int) -> None:
    """Fill `out` with the product of what is taken apart: of each chunk of k, the sum of the products of pairs."""
    (of_a, rows), (of_b, columns) = a, b
    for first in range(0, of_a[0].shape[1], CHUNK):
        chunk, found = slice(first, first + CHUNK), np.empty(out.shape, np.float32) if first else out
        _multiply_pairs([x[:, chunk] for x in of_a], [x[chunk] for x in of_b], found, scheme, threads)
        if first:
            out += found
    if rows is not None and columns is not None:
        rescale(out, rows, columns, threads)


def _multiply_pairs(
    a: Sequence[NDArray[Any]], b: Sequence[NDArray[Any]], out: Floats, scheme: str, threads: int
) -> None:
    """The smallest products first."""
    for first, (i, j) in enumerate(PAIRS[scheme]):
        product_of_parts(a[i], b[j], out, threads, accumulate=first > 0, kc=_sums(a[i]))


def _sums(part: NDArray[Any]) -> int:
    """How many products are summed before they are added to C; 0: as many as in any product of the dtype.

    The errors of such a sum, and of adding these, are about as large for k^(2/3). AMX sums thirty-two products by
    themselves before it adds them, which makes errors small enough.
    """
    if part.dtype == np.uint16 and "amx" in isa.extras():
        return 0
    numbers: int = part.shape[1]
    return LEAST_SUMS * max(1, round(math.pow(numbers, 2 / 3) / LEAST_SUMS))


def bf16_parts(rows: Floats, threads: int) -> tuple[Bits, NDArray[np.bool_]]:
    """The bits of three bfloat16 numbers whose sum each number is; and the rows with infinities or NaN, then zeros."""
    by_columns = abs(rows.strides[0]) < abs(rows.strides[1])  # so its lines in memory
    bits, marked = split(rows.T if by_columns else rows, threads)
    if by_columns:
        bits = bits.swapaxes(1, 2)
    special = np.zeros(len(rows), np.bool_)
    if marked.any():
        special = np.asarray(~np.isfinite(rows).all(axis=1), np.bool_)
        bits[:, special] = 0
    return bits, special
