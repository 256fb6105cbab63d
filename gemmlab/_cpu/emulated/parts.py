"""float32 products out of products of bfloat16 or float16 parts.

Parts are exact: what rounding leaves over is the next part. Their products are exact in float32, which sums them, in
blocks: so the error is smaller than that of one long sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gemmlab._cpu.emulated.narrow import added
from gemmlab._emulated.schemes import CHUNK, PAIRS, SUMS

Floats = NDArray[np.float32]
LARGEST_BF16 = np.float32(2.0**128 * (1 - 2.0**-8))
LOW_BITS = 11  # of float16: the second of a pair is scaled up by so many
PAIR_EXPONENT = 15  # the largest number of a row is below 2^15


def bf16_parts(x: Floats) -> list[Floats]:
    """Three bfloat16 numbers, kept in float32, whose sum is x; but for what is below the smallest float32."""
    found = []
    for _ in range(3):
        part = np.clip(_as_bf16(x), -LARGEST_BF16, LARGEST_BF16)
        found.append(part)
        x = x - part
    return found


def _as_bf16(x: Floats) -> Floats:
    """The nearest bfloat16 number, ties to even."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    rounded: Floats = ((bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
    return rounded


Apart: TypeAlias = tuple[Sequence[Floats], "NDArray[np.int64] | None"]  # parts of a matrix; the scales of f16-pairs


def of_rows(rows: Floats, scheme: str) -> Apart:
    """The parts of a matrix whose rows are scaled."""
    return f16_parts(rows) if scheme == "f16-pairs" else (bf16_parts(rows), None)


def of_columns(x: Floats, scheme: str) -> Apart:
    """The parts of a matrix whose columns are scaled."""
    parts, scales = of_rows(x.T, scheme)
    return [part.T for part in parts], scales


def multiplied(a: Apart, b: Apart, scheme: str, threads: int) -> Floats:
    """The product of what is taken apart, by the pairs of a scheme."""
    (of_a, rows), (of_b, columns) = a, b
    total = _by_pairs(of_a, of_b, PAIRS[scheme], 0 if rows is None else LOW_BITS, threads)
    if rows is None or columns is None:
        return total
    with np.errstate(over="ignore"):
        scaled: Floats = np.ldexp(total.astype(np.float64), -(rows[:, None] + columns)).astype(np.float32)
    return scaled


def _by_pairs(
    a: Sequence[Floats], b: Sequence[Floats], pairs: Sequence[tuple[int, int]], low_bits: int, threads: int
) -> Floats:
    """The sum of the products of pairs, the smallest first. All but that of the first parts are times 2^low_bits."""
    (m, k), n = a[0].shape, b[0].shape[1]
    total = np.zeros((m, n), np.float32)
    for first in range(0, k, CHUNK):
        chunk, out = slice(first, first + CHUNK), np.zeros((m, n), np.float32)
        for i, j in pairs:
            if i + j == 0:
                out = np.ldexp(out, -low_bits)
            added(a[i][:, chunk], b[j][chunk], out, threads, block=SUMS)
        total += out
    return total


def f16_parts(rows: Floats) -> tuple[list[Floats], NDArray[np.int64]]:
    """Rows times 2^s as a float16 number, and 2^11 times the rest as a second, kept in float32; and s of each row."""
    _, exponents = np.frexp(np.abs(rows).max(axis=-1, initial=0.0))
    scales = PAIR_EXPONENT - exponents.astype(np.int64)
    scaled = np.ldexp(rows.astype(np.float64), scales[..., None])
    high = scaled.astype(np.float16).astype(np.float64)
    low = np.ldexp(scaled - high, LOW_BITS).astype(np.float16)
    return [high.astype(np.float32), low.astype(np.float32)], scales
