"""Products of narrow numbers, by cpu-packed: int8 into int32, and float32 that hold bfloat16 or float16 numbers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmlab._cpu.packed_backend.backend import Packed


@cache
def packed() -> Packed:
    """cpu-packed."""
    return Packed()


def int8_product(a: NDArray[np.int8], b: NDArray[np.int8], threads: int) -> NDArray[np.int32]:
    """Of matrices, exact as long as int32 holds the sums."""
    return added(a, b, np.empty((a.shape[0], b.shape[1]), np.int32), threads, False)


def added(
    a: NDArray[Any], b: NDArray[Any], out: NDArray[Any], threads: int, accumulate: bool = True, block: int = 0
) -> NDArray[Any]:
    """The product, added to `out` or in its place; with a `block`, in sums of so many products each."""
    if 0 in (*out.shape, a.shape[-1]):
        out[...] = out if accumulate else 0
        return out
    packed().kernel.run(a, b, out, threads=threads, accumulate=accumulate, kc=block)
    return out
