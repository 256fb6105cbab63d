"""A block of a transformer, written for NumPy alone, under each backend by one line.

    python bench/programs/transformer.py [--batch 2] [--tokens 128] [--width 256] [--heads 4] [--dtype float32]
                                         [NAME ...]

`block` knows nothing of gemmlab: it multiplies by `@`, numpy.dot, numpy.einsum and numpy.tensordot. Its weights are
passed through `gemmlab.asarray`, so that the backend of `gemmlab.use` computes its products. The table has the time of
one call (the best of three), the number of products that gemmlab computed, and the largest difference from the block
in float64, relative to the largest output.
"""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import Any

import numpy as np

import gemmlab

Array = np.ndarray[Any, Any]


# The program: attention and a feed-forward layer, as in Vaswani and others, "Attention is all you need", 2017


def normalised(x: Array, gain: Array) -> Array:
    """Rows with mean 0 and variance 1, times a gain."""
    centred = x - x.mean(axis=-1, keepdims=True)
    return gain * centred / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + 1e-5)


def softmax(x: Array) -> Array:
    """Shares that add up to 1 along the last axis."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def block(x: Array, weights: dict[str, Array]) -> Array:
    """One block; `x` has the shape (batch, tokens, width)."""
    heads, head_width, _ = weights["out"].shape
    split = (*x.shape[:2], heads, head_width)
    rows = normalised(x, weights["gain_1"])
    queries, keys, values = ((rows @ weights[name]).reshape(split) for name in "qkv")
    scores = np.einsum("bqhd,bkhd->bhqk", queries, keys) * head_width**-0.5
    mixed = np.einsum("bhqk,bkhd->bqhd", softmax(scores), values)
    x = x + np.tensordot(mixed, weights["out"], axes=([2, 3], [0, 1]))
    hidden = np.dot(normalised(x, weights["gain_2"]), weights["up"])
    return x + np.maximum(hidden, 0) @ weights["down"]


# The products that it is made of, and its run under each backend


def products(batch: int, tokens: int, width: int, heads: int) -> list[tuple[int, int, int, int]]:
    """m, n, k and batch of each product of the block, in order."""
    head_width, rows = width // heads, batch * tokens
    return [
        *[(tokens, width, width, batch)] * 3,
        (tokens, tokens, head_width, batch * heads),
        (tokens, head_width, tokens, batch * heads),
        (rows, width, width, 1),
        (rows, 4 * width, width, 1),
        (tokens, width, 4 * width, batch),
    ]


def inputs(
    batch: int, tokens: int, width: int, heads: int, dtype: str, rng: np.random.Generator
) -> tuple[Array, dict[str, Array]]:
    """Random input, and weights of a size that keeps sums near 1."""
    shapes: dict[str, tuple[int, ...]] = {
        **dict.fromkeys("qkv", (width, width)), "out": (heads, width // heads, width), "up": (width, 4 * width),
        "down": (4 * width, width), "gain_1": (width,), "gain_2": (width,),
    }  # fmt: skip
    weights = {name: (rng.standard_normal(shape) / np.sqrt(width)).astype(dtype) for name, shape in shapes.items()}
    return rng.standard_normal((batch, tokens, width)).astype(dtype), weights


def run(backend: str, x: Array, weights: dict[str, Array]) -> tuple[Array, list[Any], float]:
    """The block's output under a backend, its products, and the seconds of one call."""
    weights = {name: gemmlab.asarray(weight) for name, weight in weights.items()}
    with gemmlab.use(backend):
        with gemmlab.trace() as calls:
            output = block(x, weights)
        seconds = []
        for _ in range(3):
            start = perf_counter()
            block(x, weights)
            seconds.append(perf_counter() - start)
    return output, calls, min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("--batch", 2), ("--tokens", 128), ("--width", 256), ("--heads", 4)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--dtype", default="float32", choices=("float32", "float64"))
    parser.add_argument("backends", nargs="*", metavar="NAME", help="backends; by default all that can run here")
    options = parser.parse_args()
    if options.width % options.heads:
        parser.error(f"--width must be a multiple of --heads, {options.heads}")
    sizes = options.batch, options.tokens, options.width, options.heads
    x, weights = inputs(*sizes, options.dtype, np.random.default_rng(0))
    exact = block(x.astype(np.float64), {name: weight.astype(np.float64) for name, weight in weights.items()})
    print(f"{'backend':<24} {'ms':>9} {'products':>9} {'difference':>11}")
    names = options.backends or [name for name, info in gemmlab.backends().items() if info.available]
    for backend in names:
        output, calls, seconds = run(backend, x, weights)
        difference = np.abs(output - exact).max() / np.abs(exact).max()
        print(f"{backend:<24} {1e3 * seconds:>9.2f} {len(calls):>9} {difference:>11.1e}")


if __name__ == "__main__":
    main()
