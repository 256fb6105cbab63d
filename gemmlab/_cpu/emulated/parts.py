"""float32 products out of products of bfloat16 or float16 parts.

Parts are exact: what rounding leaves over is the next part. Their products are exact in float32, which sums them, in
blocks: so the error is smaller than that of one long sum.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def by_bf16(a: Floats, b: Floats, scheme: str, threads: int) -> Floats:
    """A @ B by the pairs of a scheme."""
    return _by_pairs(bf16_parts(a), bf16_parts(b), PAIRS[scheme], 0, threads)


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


def by_f16(a: Floats, b: Floats, threads: int) -> Floats:
    """A @ B by pairs of float16 numbers, and three products."""
    of_a, of_rows = f16_parts(a)
    of_b, of_columns = f16_parts(b.T)
    total = _by_pairs(of_a, [part.T for part in of_b], PAIRS["f16-pairs"], LOW_BITS, threads)
    with np.errstate(over="ignore"):
        scaled: Floats = np.ldexp(total.astype(np.float64), -(of_rows[:, None] + of_columns)).astype(np.float32)
    return scaled
