"""The source of all random input of the tests: one seed for a run, printed at its head.

`pytest --seed N` repeats a run. Each test draws from numbers of its own, so that it gets the same ones alone.
"""

from __future__ import annotations

from zlib import crc32

import numpy as np

RNG = np.random.default_rng()


def start(seed: int, test: str) -> None:
    """Let RNG begin again with the numbers of one test."""
    RNG.bit_generator.state = type(RNG.bit_generator)([seed, crc32(test.encode())]).state


def fresh_seed() -> int:
    """A seed that another process can use for numbers of its own."""
    return int(RNG.integers(2**32))
