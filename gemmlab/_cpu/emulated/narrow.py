"""Products of narrow numbers, by cpu-packed: int8 into int32, and float32 that hold bfloat16 or float16 numbers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gemmlab._cpu.packed_backend.backend import Packed


@cache
def packed() -> Packed:
    """cpu-packed."""
    return Packed()


def product(a: NDArray[Any], b: NDArray[Any], dtype: DTypeLike, threads: int) -> NDArray[Any]:
    """Of matrices, with sums of a dtype."""
    return added(a, b, np.zeros((a.shape[0], b.shape[1]), dtype), threads)


def added(a: NDArray[Any], b: NDArray[Any], out: NDArray[Any], threads: int, block: int = 0) -> NDArray[Any]:
    """The product, added to `out`; with a `block`, in sums of so many products each."""
    return multiplied(a, b, out, threads, accumulate=True, kc=block)


def multiplied(
    a: NDArray[Any], b: NDArray[Any], out: NDArray[Any], threads: int, accumulate: bool = False, kc: int = 0
) -> NDArray[Any]:
    """Fill `out` with the product, or add to it."""
    if out.size and a.shape[-1]:
        packed().kernel.run(a, b, out, threads=threads, accumulate=accumulate, kc=kc)
    return out
