"""Integers from their residues, and each rounded once to float64 or float32.

With q = P / p times its inverse modulo p for each modulus p, the integer is the sum of q times its residue, modulo P.
It is summed in limbs of 32 bits, so that the result depends on no order and no rounding.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmlab._emulated.moduli import LIMB_BITS as LIMB
from gemmlab._emulated.moduli import LIMBS, limbs, modulus_product, weights

MASK = (1 << LIMB) - 1
Ints = NDArray[np.int64]


@cache
def _weights(count: int) -> Ints:
    """q of each modulus in limbs."""
    return np.array([limbs(q) for q in weights(count)], np.int64)


def rebuilt(rests: Ints, scales: Ints, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The numbers of these residues, the moduli first, times 2^scales; each rounded once, to nearest, ties to even."""
    count = len(rests)
    whole = modulus_product(count)
    sums: list[Any] = [sum(q * rest for q, rest in zip(limb, rests, strict=True)) for limb in _weights(count).T]
    total = sum(np.ldexp(limb.astype(np.float64), LIMB * i) for i, limb in enumerate(sums))
    times = np.rint(total / float(whole)).astype(np.int64)  # never near a half: see `root_of_half`
    parts, sign = _carried([limb - times * p for limb, p in zip(sums, limbs(whole), strict=True)])
    negated, _ = _carried([MASK - limb + (i == 0) for i, limb in enumerate(parts)])
    magnitude = [np.where(sign < 0, x, y) for x, y in zip(negated, parts, strict=True)]
    numbers = _rounded(np.stack(magnitude).astype(np.uint64), scales, dtype)
    return np.where(sign < 0, -numbers, numbers)


def _carried(given: list[Ints]) -> tuple[list[Ints], Ints]:
    """Limbs below 2^32, and what is left above them: -1 of a negative number."""
    found, carry = [], np.zeros_like(given[0])
    for limb in given:
        limb = limb + carry
        found.append(limb & MASK)
        carry = limb >> LIMB
    return found, carry


def _rounded(given: NDArray[np.uint64], scales: Ints, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Numbers in limbs, times 2^scales, rounded to as many bits as the dtype has at that place, subnormals too."""
    top = LIMBS - 1 - (given[::-1] != 0).argmax(axis=0)  # the first limb that is not zero; 5 for zero
    window, is_more = _leading(given, top)
    _, length = np.frexp(_at(given, top).astype(np.float64))
    exponent = LIMB * top + length + scales  # the number is below 2^exponent
    info = np.finfo(dtype)
    kept = np.clip(np.minimum(info.nmant + 1, exponent - (info.minexp - info.nmant)), -1, 64)
    shift = (64 - kept).astype(np.uint64)  # of the window's 64 bits; 64 and 65: below the smallest subnormal
    clipped = np.minimum(shift, 63)
    low = window & ((np.uint64(1) << clipped) - np.uint64(1))
    half = np.uint64(1) << (clipped - np.uint64(1))
    whole = window >> clipped
    up = (low > half) | ((low == half) & (is_more | (whole & 1 == 1)))
    # With no bit kept the number lies between a half of the smallest subnormal and one of it.
    none_kept = (window > np.uint64(1) << np.uint64(63)) | is_more
    digits = np.where(kept > 0, whole + up, np.where((kept == 0) & none_kept, 1, 0)).astype(np.float64)
    with np.errstate(over="ignore"):
        numbers: NDArray[Any] = np.ldexp(digits, exponent - np.maximum(kept, 0)).astype(dtype)
    return numbers


def _at(given: NDArray[np.uint64], place: Ints) -> NDArray[np.uint64]:
    found: NDArray[np.uint64] = np.take_along_axis(given, np.maximum(place, 0)[None], axis=0)[0]
    return found * (place >= 0)


def _leading(given: NDArray[np.uint64], top: Ints) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """The 64 bits from the first that is set, and whether any bit below them is."""
    first, second, third = (_at(given, top - i) for i in range(3))
    _, length = np.frexp(first.astype(np.float64))
    left = np.minimum((LIMB - length), 31).astype(np.uint64)
    window = (first << np.uint64(LIMB) | second) << left | third >> (np.uint64(LIMB) - left)
    below = np.arange(len(given)).reshape(-1, *[1] * top.ndim) < top - 2
    is_more = (third << left & np.uint64(MASK) != 0) | ((given != 0) & below).any(axis=0)
    return window, is_more
