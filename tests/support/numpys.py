"""What tests need to compare functions with NumPy's."""

from __future__ import annotations

import numpy as np
from randomness import RNG

import gemmlab


def numbers(shape, dtype="f8"):
    """Small whole numbers, whose products every backend gives exactly."""
    x = RNG.integers(-4, 5, shape)
    return (x + 1j * RNG.integers(-4, 5, shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def outcome(function, *arguments, **options):
    """The result, or the class of the error."""
    try:
        return function(*arguments, **options)
    except gemmlab.GemmlabError:
        raise
    except Exception as error:
        return type(error)
