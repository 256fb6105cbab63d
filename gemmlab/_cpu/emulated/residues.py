"""Exact products of large integers, as products of their residues modulo a few small numbers.

The moduli are pairwise coprime and at most 256, so a residue is an int8. P is their product, and the sum of products
lies between -P/2 and P/2: so its residues tell it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gemmlab._cpu.emulated.narrow import product
from gemmlab._emulated.moduli import MODULI, root_of_half

PART = 26  # bits: an integer of up to 2^78 is taken in parts, so that sums of their residues are exact in float64
BLOCK = 1 << 16  # of k: the sums of so many products of residues fit int32
Floats: TypeAlias = NDArray[np.float64]  # of integers


def in_parts(x: Floats, count: int) -> list[Floats]:
    """Integers as sums of parts times 2^0, 2^26, 2^52: as many as integers for so many moduli need."""
    parts = []
    for _ in range(root_of_half(count).bit_length() // PART):
        above = np.floor(x * 2.0**-PART)
        parts.append(x - above * 2.0**PART)
        x = above
    return [*parts, x]


def residues(parts: Sequence[Floats], modulus: int) -> NDArray[np.int8]:
    """Of integers in parts, from -modulus/2 on."""
    total = parts[0]
    for i, part in enumerate(parts[1:], 1):
        if factor := 2 ** (PART * i) % modulus:
            total = total + part * factor
    return _int8(centred(total, modulus))


def centred(x: NDArray[Any], modulus: int) -> Floats:
    """The number from -modulus/2 to modulus/2 that is x modulo it: quotients come near a half only for 256, exactly."""
    quotient = x * (1 / modulus)
    np.rint(quotient, out=quotient)
    quotient *= -modulus
    quotient += x
    return quotient


def _int8(x: Floats) -> NDArray[np.int8]:
    return x.astype(np.int16).astype(np.int8)  # 128 modulo 256 is -128


def products(a: NDArray[Any], b: NDArray[Any], count: int, threads: int) -> Floats:
    """The residues of the products of two matrices of integers, for each modulus.

    Complex matrices have an axis more, for the real and the imaginary part, and so have their products.
    """
    of_a, of_b = in_parts(a, count), in_parts(b, count)
    return np.stack([_modulo(residues(of_a, p), residues(of_b, p), p, threads) for p in MODULI[:count]])


def _modulo(a: NDArray[np.int8], b: NDArray[np.int8], modulus: int, threads: int) -> Floats:
    if a.ndim == 2:
        return _sum(a, b, modulus, threads)
    sums = [_int8(centred(x[0].astype(np.float64) + x[1], modulus)) for x in (a, b)]
    real, imaginary, both = (_sum(x, y, modulus, threads) for x, y in ((a[0], b[0]), (a[1], b[1]), tuple(sums)))
    return centred(np.stack([real - imaginary, both - real - imaginary]), modulus)


def _sum(a: NDArray[np.int8], b: NDArray[np.int8], modulus: int, threads: int) -> Floats:
    """The sums of products of k, in blocks that int32 holds."""
    ends = [*range(0, a.shape[-1], BLOCK), a.shape[-1]]
    blocks = (centred(product(a[:, i:j], b[i:j], np.int32, threads), modulus) for i, j in pairwise(ends))
    return centred(sum(blocks, np.zeros((a.shape[0], b.shape[1]))), modulus)
