"""Exact products of large integers, as products of their residues modulo a few small numbers.

A row x of A, or a column of B, becomes the integers nearest to 2^s x, whose 2-norm is at most a limit. s is found in
integers, so it does not depend on an order of summation: elements are rounded up to 15 bits of the row's largest, and
their squares are summed. The moduli are pairwise coprime and at most 256, so a residue is an int8. P is their product,
and the sum of products lies between -P/2 and P/2: so its residues tell it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmlab._cpu.emulated import narrow
from gemmlab._cpu.emulated.compiled import Ints, Residues, rebuild, reduce, spread
from gemmlab._emulated.moduli import MODULI, half_root, root_of_half

STEPS = range(-64, 128)  # powers of two that a norm of such elements may be scaled by
LARGEST = 1 << 62
BLOCK = 1 << 16  # of k: the sums of so many products of residues fit int32


def of_rows(rows: NDArray[Any], moduli: int, threads: int) -> tuple[Ints, Residues]:
    """The scale of each row, SPECIAL where it is to count as zeros, and the residues of its integers: see `spread`."""
    reals = rows.shape[1] * (2 if rows.dtype.kind == "c" else 1)
    return spread(rows, _squares_at_most(root_of_half(moduli) - half_root(reals)), moduli, threads)


def multiply(
    rows: tuple[Ints, Residues], columns: tuple[Ints, Residues], out: NDArray[Any], threads: int
) -> None:  # fmt: skip
    """Fill `out` with the product of rows by columns that are spread."""
    (of_rows, left), (of_columns, right) = rows, columns
    rests = products(left, np.swapaxes(right, -1, -2), left.shape[1], threads)
    planes = (out,) if len(rests) == 1 else (out.real, out.imag)
    for part, plane in zip(rests, planes, strict=True):
        rebuild(part, of_rows, of_columns, plane, threads)


@cache
def _squares_at_most(limit: int) -> Ints:
    """The largest sum of squares that may be scaled by each power of two, the largest power first."""
    found = [limit * limit >> 2 * q if q >= 0 else limit * limit << -2 * q for q in reversed(STEPS)]
    return np.array([min(square, LARGEST) for square in found], np.int64)


def products(a: Residues, b: Residues, count: int, threads: int) -> Residues:
    """The residues of the products: (1, moduli, m, n), or (2, ...) for real and imaginary parts.

    Those of complex numbers are three products of real ones.
    """
    found = np.empty((len(a), count, a.shape[-2], b.shape[-1]), np.int8)
    for part, i in np.ndindex(found.shape[:2]):
        _multiply(a[part, i], b[part, i], MODULI[i], found[part, i], threads)
    if len(a) == 1:
        return found
    parts = np.empty((2, *found.shape[1:]), np.int8)
    for i, modulus in enumerate(MODULI[:count]):
        real, imaginary, both = (x[i].astype(np.int32) for x in found)
        reduce(real - imaginary, modulus, parts[0, i], threads)
        reduce(both - real - imaginary, modulus, parts[1, i], threads)
    return parts


def _multiply(a: Residues, b: Residues, modulus: int, out: Residues, threads: int) -> None:
    """The product modulo a modulus, in blocks of k whose sums int32 holds."""
    k = a.shape[-1]
    if k == 0:
        out[...] = 0
    narrow.multiplied(a[:, :BLOCK], b[:BLOCK], out, threads, modulus=modulus)
    for i in range(BLOCK, k, BLOCK):
        more = narrow.multiplied(a[:, i : i + BLOCK], b[i : i + BLOCK], np.empty_like(out), threads, modulus=modulus)
        reduce(np.add(out, more, dtype=np.int32), modulus, out, threads)
