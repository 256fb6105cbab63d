"""What the tests of emulated products share: small products of numbers of every size, and a comparison of bits."""

from __future__ import annotations

import numpy as np
from randomness import RNG


def drawn(dtype):
    """A small product with numbers of every size: subnormal ones, zeros, rows that overflow."""
    m, n = RNG.integers(1, 6, 2)
    k = int(RNG.integers(0, 40))
    most = 60 if np.dtype(dtype).itemsize // (2 if np.dtype(dtype).kind == "c" else 1) == 4 else 500

    def operand(*shape):
        def real():
            with np.errstate(over="ignore", under="ignore"):
                numbers = RNG.standard_normal(shape) * 2.0 ** RNG.integers(-most, most, (shape[0], 1))
                numbers *= 2.0 ** RNG.integers(*((-20, 20) if RNG.random() < 0.7 else (-most, 1)), shape)
            numbers[RNG.random(shape) < 0.1] = 0
            return numbers

        return (real() + 1j * real() if np.dtype(dtype).kind == "c" else real()).astype(dtype)

    return operand(m, k), operand(n, k).T


def around(dtype, shape, exponent=0, order="C"):
    """Numbers of different sizes around a power of two."""
    real, imaginary = (
        RNG.standard_normal(shape) * np.exp2(exponent + RNG.integers(-9, 10, shape)) for _ in range(2)
    )
    return np.asarray(real + 1j * imaginary if np.dtype(dtype).kind == "c" else real, dtype, order)


def same_bits(x, y):
    return np.array_equal(x.view(f"u{x.dtype.itemsize // (2 if x.dtype.kind == 'c' else 1)}"),
                          y.view(f"u{x.dtype.itemsize // (2 if x.dtype.kind == 'c' else 1)}"))  # fmt: skip
