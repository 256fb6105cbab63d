"""Operands for cpu-packed: every dtype, numbers whose products are exact, and any strides."""

from __future__ import annotations

import numpy as np
from randomness import RNG

DTYPES = [np.dtype(code).name for code in "fdFDe?bBhHiIqQ"]
LAYOUTS = ["C", "F", "stepped", "reversed", "repeated"]


def whole(shape, dtype):
    """Numbers whose products are exact: for integers any, so that they wrap; for halves few, for their range."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return RNG.random(shape) < 0.05
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        return RNG.integers(ends.min, ends.max, shape, dtype, endpoint=True)
    most = 1 if dtype.name in ("float16", "bfloat16") else 8
    x = RNG.integers(-most, most + 1, shape)
    return (x + 1j * RNG.integers(-most, most + 1, shape) if dtype.kind == "c" else x).astype(dtype)


def laid(x, layout):
    """The same matrix in another layout; "repeated" has one row many times, without memory for it."""
    if layout == "F":
        return np.asfortranarray(x)
    if layout == "stepped":
        y = np.zeros((2 * x.shape[0], 3 * x.shape[1]), x.dtype)
        y[::2, ::3] = x
        return y[::2, ::3]
    if layout == "reversed":
        return x[::-1, ::-1].copy()[::-1, ::-1]
    return np.broadcast_to(x[:1], x.shape) if layout == "repeated" else x
