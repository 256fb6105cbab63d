"""float32 products out of products of bfloat16 or float16 parts.

Parts are exact: what rounding leaves over is the next part. Their products are exact in float32, which sums them, in
blocks: so the error is smaller than that of one long sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gemmlab._cpu import isa
from gemmlab._cpu.emulated.compiled import Bits, split
from gemmlab._cpu.emulated.narrow import multiplied as product_of_parts
from gemmlab._emulated.schemes import CHUNK, PAIRS, SUMS

Floats = NDArray[np.float32]
LOW_BITS = 11  # of float16: the second of a pair is scaled up by so many
PAIR_EXPONENT = 15  # the largest number of a row is below 2^15
Apart: TypeAlias = tuple[Sequence[NDArray[Any]], "NDArray[np.int64] | None"]  # parts; the scales of f16-pairs


def of_rows(rows: Floats, scheme: str, threads: int) -> tuple[Apart, NDArray[np.bool_]]:
    """The parts of a matrix whose rows are scaled; and which rows have infinities or NaN, and so count as zeros."""
    if scheme != "f16-pairs":
        bits, special = bf16_parts(rows, threads)
        return (list(bits), None), special
    special = _not_finite(rows)
    return f16_parts(np.where(special[:, None], np.float32(0), rows)), special


def of_columns(x: Floats, scheme: str, threads: int) -> tuple[Apart, NDArray[np.bool_]]:
    """The same of a matrix whose columns are scaled."""
    (parts, scales), special = of_rows(x.T, scheme, threads)
    return ([part.T for part in parts], scales), special


def multiply(a: Apart, b: Apart, out: Floats, scheme: str, threads: int) -> None:
    """Fill `out` with the product of what is taken apart, by the pairs of a scheme."""
    (of_a, rows), (of_b, columns) = a, b
    if rows is None or columns is None:
        _multiply_pairs(of_a, of_b, out, PAIRS[scheme], threads)
        return
    total = np.zeros(out.shape, np.float32)
    for first in range(0, of_a[0].shape[1], CHUNK):  # sums of chunks of k are added at the end: a smaller error
        chunk, found = slice(first, first + CHUNK), np.empty(out.shape, np.float32)
        pairs = [x[:, chunk] for x in of_a], [x[chunk] for x in of_b]
        _multiply_pairs(*pairs, found, PAIRS[scheme], threads, LOW_BITS)
        total += found
    with np.errstate(over="ignore"):
        out[...] = np.ldexp(total.astype(np.float64), -(rows[:, None] + columns))


def _multiply_pairs(
    a: Sequence[NDArray[Any]], b: Sequence[NDArray[Any]], out: Floats, pairs: Sequence[tuple[int, int]], threads: int,
    low_bits: int = 0,
) -> None:  # fmt: skip
    """The sum of the products of pairs, the smallest first. All but that of the first parts are times 2^low_bits."""
    for first, (i, j) in enumerate(pairs):
        if low_bits and i + j == 0:
            np.ldexp(out, -low_bits, out=out)
        product_of_parts(a[i], b[j], out, threads, accumulate=first > 0, kc=_sums(a[i].dtype))


def _sums(dtype: np.dtype[Any]) -> int:
    """How many products are summed before they are added to C; 0: as many as in any product of the dtype.

    AMX sums thirty-two products by themselves before it adds them, which makes errors small enough.
    """
    return 0 if dtype == np.uint16 and "amx" in isa.extras() else SUMS


def bf16_parts(rows: Floats, threads: int) -> tuple[Bits, NDArray[np.bool_]]:
    """The bits of three bfloat16 numbers whose sum each number is; and the rows with infinities or NaN, then zeros."""
    by_columns = abs(rows.strides[0]) < abs(rows.strides[1])  # so its lines in memory
    bits, marked = split(rows.T if by_columns else rows, threads)
    if by_columns:
        bits = bits.swapaxes(1, 2)
    special = np.zeros(len(rows), np.bool_)
    if marked.any():
        special = _not_finite(rows)
        bits[:, special] = 0
    return bits, special


def _not_finite(rows: Floats) -> NDArray[np.bool_]:
    """Which rows have infinities or NaN."""
    return np.asarray(~np.isfinite(rows).all(axis=1), np.bool_)


def f16_parts(rows: Floats) -> tuple[list[Floats], NDArray[np.int64]]:
    """Rows times 2^s as a float16 number, and 2^11 times the rest as a second, kept in float32; and s of each row."""
    _, exponents = np.frexp(np.abs(rows).max(axis=-1, initial=0.0))
    scales = PAIR_EXPONENT - exponents.astype(np.int64)
    scaled = np.ldexp(rows.astype(np.float64), scales[..., None])
    high = scaled.astype(np.float16).astype(np.float64)
    low = np.ldexp(scaled - high, LOW_BITS).astype(np.float16)
    return [high.astype(np.float32), low.astype(np.float32)], scales
