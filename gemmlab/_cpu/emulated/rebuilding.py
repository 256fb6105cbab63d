"""Integers from their residues, and each rounded once to float64 or float32.

With q = P / p times its inverse modulo p for each modulus p, the integer is the sum of q times its residue, modulo P.
It is summed in limbs of 40 bits, exactly in float64, so that the result depends on no order and no rounding.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gemmlab._cpu.emulated.narrow import product
from gemmlab._emulated.moduli import limbs, modulus_product, weights

LIMB = 40
SPARE = 14  # bits that the sum of q times residue has more than P, and a sign
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]


@cache
def _weights(count: int) -> tuple[Floats, Floats]:
    """q of each modulus, and P, in limbs."""
    whole = modulus_product(count)
    size = -(-(whole.bit_length() + SPARE) // LIMB)
    of_each = np.array([limbs(q, size, LIMB) for q in weights(count)], np.float64)
    return np.ascontiguousarray(of_each.T), np.array(limbs(whole, size, LIMB), np.float64)


def rebuilt(rests: Floats, scales: Ints, dtype: np.dtype[Any], threads: int) -> NDArray[Any]:
    """The numbers of these residues, the moduli first, times 2^scales; each rounded once, to nearest, ties to even."""
    count, *shape = rests.shape
    of_each, whole = _weights(count)
    sums = product(of_each, rests.reshape(count, -1), np.float64, threads)
    fractions = np.ldexp(1.0, LIMB * np.arange(len(whole))) / float(modulus_product(count))
    times = np.rint(fractions @ sums)  # never near a half: see `root_of_half`
    sums -= whole[:, None] * times
    _, sign = _carried(sums)
    magnitude, _ = _carried(np.where(sign < 0, -sums, sums))
    numbers = _rounded(magnitude.astype(np.uint64).reshape(-1, *shape), scales, dtype)
    return np.where(sign.reshape(shape) < 0, -numbers, numbers)


def _carried(given: Floats) -> tuple[Floats, Floats]:
    """Limbs from 0 on and below 2^40, and what is left above them: -1 of a negative number."""
    found, carry = np.empty_like(given), np.zeros_like(given[0])
    for i, limb in enumerate(given):
        limb = limb + carry
        carry = np.floor(limb * 2.0**-LIMB)
        found[i] = limb - carry * 2.0**LIMB
    return found, carry


def _rounded(given: Words, scales: Ints, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Numbers in limbs, times 2^scales, rounded to as many bits as the dtype has at that place, subnormals too."""
    top = len(given) - 1 - (given[::-1] != 0).argmax(axis=0)  # the first limb that is not zero; any for zero
    window, is_more = _leading(given, top)
    _, length = np.frexp(_at(given, top).astype(np.float64))
    exponent = LIMB * top + length + scales  # the number is below 2^exponent
    info = np.finfo(dtype)
    kept = np.clip(np.minimum(info.nmant + 1, exponent - (info.minexp - info.nmant)), -1, 64)
    shift = np.minimum(64 - kept, 63).astype(np.uint64)  # of the window's 64 bits
    low = window & ((np.uint64(1) << shift) - np.uint64(1))
    half = np.uint64(1) << (shift - np.uint64(1))
    whole = window >> shift
    up = (low > half) | ((low == half) & (is_more | (whole & 1 == 1)))
    # With no bit kept the number lies between a half of the smallest subnormal and one of it.
    none_kept = (window > np.uint64(1) << np.uint64(63)) | is_more
    digits = np.where(kept > 0, whole + up, np.where((kept == 0) & none_kept, 1, 0)).astype(np.float64)
    with np.errstate(over="ignore"):
        numbers: NDArray[Any] = np.ldexp(digits, exponent - np.maximum(kept, 0)).astype(dtype)
    return numbers


def _at(given: Words, place: Ints) -> Words:
    found: Words = np.take_along_axis(given, np.maximum(place, 0)[None], axis=0)[0]
    return found * (place >= 0)


def _leading(given: Words, top: Ints) -> tuple[Words, NDArray[np.bool_]]:
    """The 64 bits from the first that is set, and whether any bit below them is."""
    first, second, third = (_at(given, top - i) for i in range(3))
    _, length = np.frexp(first.astype(np.float64))
    missing = (64 - np.maximum(length, 1)).astype(np.int64)  # bits after those of the first limb
    of_second, of_third = np.minimum(missing, LIMB), np.maximum(missing - LIMB, 0)
    rest_of_second, rest_of_third = _word(LIMB - of_second), _word(LIMB - of_third)
    window = first << _word(missing) | second >> rest_of_second << _word(of_third) | third >> rest_of_third
    left_second = second & ((np.uint64(1) << rest_of_second) - np.uint64(1))
    left_third = third & ((np.uint64(1) << rest_of_third) - np.uint64(1))
    below = np.arange(len(given)).reshape(-1, *[1] * top.ndim) < top - 2
    return window, (left_second != 0) | (left_third != 0) | ((given != 0) & below).any(axis=0)


def _word(x: Ints) -> Words:
    return x.astype(np.uint64)
