"""Operands as a kernel takes them; what lies otherwise is copied, and the copy is counted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from gemmlab._cpu._driver import layout, leading_dimension
from gemmlab._problem import Problem

Array = np.ndarray[Any, Any]


def run_in_layouts(
    problem: Problem, accepted: str, run: Callable[[Array, Array, Array], None], furthest: int = sys.maxsize
) -> None:
    """Call `run(a, b, out)` with `a` and `b` in one of the `accepted` layouts and `out` in rows.

    Parameters
    ----------
    problem : Problem
        Its `copies` grows by each operand that had to be copied.
    accepted : str
        "C" for rows only, "CF" for rows or columns (see `_driver.layout`).
    run : callable
        Fills its third argument, or adds to it if the problem accumulates.
    furthest : int
        The largest leading dimension that `run` takes.
    """
    a, b, out = problem.a, problem.b, problem.out
    if layout(out) == "F" and (accepted == "CF" or layout(a) == layout(b) == "F"):
        a, b, out = b.mT, a.mT, out.mT  # C' = B' A' has its result in rows
    if layout(a) not in accepted or leading_dimension(a) > furthest:
        a = in_rows(a)
        problem.copies += 1
    if layout(b) not in accepted or leading_dimension(b) > furthest:
        b = in_rows(b)
        problem.copies += 1
    if layout(out) == "C" and leading_dimension(out) <= furthest:
        run(a, b, out)
        return
    rows = out.copy() if problem.accumulate else np.empty(out.shape, out.dtype)
    run(a, b, rows)
    out[...] = rows
    problem.copies += 1


def not_its_dtype(name: str, problem: Problem) -> str:
    """What a kernel for float32 and float64 says to any other dtype."""
    return (
        f"{name} multiplies float32 and float64, not {problem.dtype}: "
        "convert the operands with astype, or use backend='auto'"
    )


def in_rows(x: Array) -> Array:
    """A row-major copy; what a batch repeats is copied once."""
    once = tuple(slice(0, 1) if step == 0 else slice(None) for step in x.strides[:-2])
    return np.broadcast_to(np.ascontiguousarray(x[once]), x.shape)
