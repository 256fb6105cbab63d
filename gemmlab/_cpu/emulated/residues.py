"""Exact products of large integers, as products of their residues modulo a few small numbers.

The moduli are pairwise coprime and at most 256, so a residue is an int8. P is their product, and the sum of products
lies between -P/2 and P/2: so its residues tell it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmlab._cpu.emulated.narrow import int8_product
from gemmlab._emulated.moduli import MODULI

PART = 40  # bits: an integer of up to 2^78 is taken in two parts, which int64 holds
BLOCK = 1 << 16  # of k: the sums of so many products of residues fit int32


def residues(x: NDArray[np.float64], modulus: int) -> NDArray[np.int8]:
    """Of integers, from -modulus/2 on."""
    high = np.floor(x * 2.0**-PART)
    low = (x - high * 2.0**PART).astype(np.int64)
    rest = (high.astype(np.int64) % modulus * (2**PART % modulus) + low) % modulus
    return _centred(rest, modulus)


def _centred(rest: NDArray[np.int64], modulus: int) -> NDArray[np.int8]:
    return (rest - modulus * (rest > (modulus - 1) // 2)).astype(np.int8)


def products(a: NDArray[Any], b: NDArray[Any], count: int, threads: int) -> NDArray[np.int64]:
    """The residues, from 0 on, of the products of two matrices of integers, for each modulus.

    Complex matrices have an axis more, for the real and the imaginary part, and so have their products.
    """
    return np.stack([_modulo(residues(a, p), residues(b, p), p, threads) for p in MODULI[:count]])


def _modulo(a: NDArray[np.int8], b: NDArray[np.int8], modulus: int, threads: int) -> NDArray[np.int64]:
    if a.ndim == 2:
        return _sum(a, b, modulus, threads)
    sums = [_centred((x[0].astype(np.int64) + x[1]) % modulus, modulus) for x in (a, b)]
    real, imaginary, both = (_sum(x, y, modulus, threads) for x, y in ((a[0], b[0]), (a[1], b[1]), tuple(sums)))
    return np.stack([(real - imaginary) % modulus, (both - real - imaginary) % modulus])


def _sum(a: NDArray[np.int8], b: NDArray[np.int8], modulus: int, threads: int) -> NDArray[np.int64]:
    """The sums of products of k, in blocks that int32 holds."""
    ends = [*range(0, a.shape[-1], BLOCK), a.shape[-1]]
    blocks = (int8_product(a[:, i:j], b[i:j], threads) % modulus for i, j in pairwise(ends))
    return sum(blocks).astype(np.int64) % modulus  # type: ignore[union-attr]
