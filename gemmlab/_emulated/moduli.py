"""The moduli of residues: what integers they tell apart, and how these are put together again."""

from __future__ import annotations

from functools import cache
from math import isqrt, prod

MODULI = (256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193, 191, 181, 179, 173)


@cache
def modulus_product(count: int) -> int:
    """P, of the first so many moduli."""
    return prod(MODULI[:count])


@cache
def root_of_half(count: int) -> int:
    """The largest 2-norm of a row of A and of a column of B: the sums stay clear of P/2, by a part in a million."""
    half = modulus_product(count) // 2
    return isqrt(half - (half >> 20))


def half_root(k: int) -> int:
    """How much longer a row may be when its elements are rounded to nearest: half the root of k, rounded up."""
    return (isqrt(k) + 2) // 2


@cache
def weights(count: int) -> tuple[int, ...]:
    """For each modulus p the number that is 1 modulo p and 0 modulo the others."""
    whole = modulus_product(count)
    return tuple(whole // p * pow(whole // p, -1, p) for p in MODULI[:count])


def limbs(x: int, count: int, bits: int) -> list[int]:
    """A number in so many limbs of so many bits, the lowest first."""
    return [x >> bits * i & (1 << bits) - 1 for i in range(count)]
