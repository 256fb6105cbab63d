"""Powers of two that make integers of a row of A or a column of B.

A row x becomes the integers nearest to 2^s x, whose 2-norm is at most a limit. s is found in integers, so it does not
depend on an order of summation: elements are rounded up to 15 bits of the row's largest, and their squares are summed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmlab._emulated.moduli import NORM_BITS, half_root

STEPS = range(-64, 128)  # powers of two that a norm of such elements may be scaled by
LARGEST = 1 << 62


def shifts(rows: NDArray[np.float64], limit: int) -> NDArray[np.int64]:
    """s for each row of finite numbers; 0 for a row of zeros."""
    magnitudes = np.abs(rows)
    _, exponents = np.frexp(magnitudes.max(axis=-1, initial=0.0))  # 2^(e-1) <= the largest < 2^e
    bits = NORM_BITS - exponents.astype(np.int64)
    elements = np.ceil(np.ldexp(magnitudes, bits[..., None])).astype(np.int64)
    squares = (elements * elements).sum(axis=-1)
    steps = STEPS[-1] - np.searchsorted(_squares_at_most(limit - half_root(rows.shape[-1])), squares)
    return np.where(squares == 0, 0, steps + bits)


@cache
def _squares_at_most(limit: int) -> NDArray[np.int64]:
    """The largest sum of squares that may be scaled by each power of two, the largest power first."""
    found = [limit * limit >> 2 * q if q >= 0 else limit * limit << -2 * q for q in reversed(STEPS)]
    return np.array([min(square, LARGEST) for square in found], np.int64)


def integers(rows: NDArray[np.float64], scales: NDArray[np.int64]) -> NDArray[np.float64]:
    """The integers nearest to 2^s x, as float64, which holds them without an error."""
    whole: NDArray[Any] = np.rint(np.ldexp(rows, scales[..., None]))
    return whole
