"""Products of narrow numbers, by cpu-packed: int8 into int32, bfloat16 and float16 into float32."""

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
    return multiplied(a, b, np.zeros((a.shape[0], b.shape[1]), dtype), threads)


def multiplied(
    a: NDArray[Any], b: NDArray[Any], out: NDArray[Any], threads: int, accumulate: bool = False, kc: int = 0,
    modulus: int = 0,
) -> NDArray[Any]:  # fmt: skip
    """Fill `out` with the product, or add to it, in sums of `kc` products each; uint16 are the bits of bfloat16.

    With a modulus, int8 are multiplied into residues, which are int8 too.
    """
    if out.size and a.shape[-1]:
        as_bfloat16 = a.dtype == np.uint16
        packed().kernel.run(
            a, b, out, threads=threads, accumulate=accumulate, kc=kc, as_bfloat16=as_bfloat16, modulus=modulus
        )
    return out
