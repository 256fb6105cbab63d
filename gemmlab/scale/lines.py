"""Time as a line over the rows of C, the rows with which several lines end together, and what a product should take.

A device that gets host arrays needs a fixed time, mostly to get B, and a time for each row: its part of A, its work,
its part of C.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gemmlab.scale.blocks import grid, moved


class Line(NamedTuple):
    """Seconds of some rows: `fixed_s + rows * row_s`, and none for no row."""

    fixed_s: float
    row_s: float

    def seconds(self, rows: float) -> float:
        """Seconds of so many rows."""
        return self.fixed_s + rows * self.row_s if rows > 0 else 0.0

    def times(self, factor: float) -> Line:
        """A line that is so many times as long at every point."""
        return Line(self.fixed_s * factor, self.row_s * factor)


def through(few: tuple[int, float], many: tuple[int, float]) -> Line:
    """The line through two measured points, each rows and seconds; its parts are never negative.

    Where more rows took no longer, noise hides the slope; then the whole time of `many` is taken for that of its rows.
    """
    (rows_a, a_s), (rows_b, b_s) = few, many
    row_s = (b_s - a_s) / (rows_b - rows_a) if rows_b > rows_a else 0.0
    if row_s <= 0:
        return Line(0.0, b_s / rows_b)
    fixed_s = a_s - rows_a * row_s
    return Line(fixed_s, row_s) if fixed_s > 0 else Line(0.0, b_s / rows_b)


def ending_together(lines: Sequence[Line], rows: int) -> list[int]:
    """Rows for each line so that all end at the same time; none for a line that would begin after that."""
    seconds = _common_end(lines, rows)
    exact = [max(0.0, (seconds - line.fixed_s) / line.row_s) for line in lines]
    found = [math.floor(share) for share in exact]
    for _ in range(rows - sum(found)):  # what rounding has left goes to whoever ends first with it
        able = [i for i, share in enumerate(exact) if share > 0]
        first = min(able, key=lambda i: lines[i].seconds(found[i] + 1))
        found[first] += 1
    return found


def _common_end(lines: Sequence[Line], rows: int) -> float:
    """The time at which all lines that take part have done `rows` together."""
    seconds = math.inf
    taken: list[Line] = []
    for line in sorted(lines, key=lambda line: line.fixed_s):
        if line.fixed_s >= seconds:
            break
        taken.append(line)
        seconds = (rows + sum(one.fixed_s / one.row_s for one in taken)) / sum(1 / one.row_s for one in taken)
    return seconds


class Prediction(NamedTuple):
    """What a product should take: the work of each device, and the moving of its part of A, B and C, in seconds."""

    work_s: float
    moved_s: float

    @property
    def bound_s(self) -> float:
        """Seconds where moving and work overlap: no product is faster."""
        return max(self)

    @property
    def in_turn_s(self) -> float:
        """Seconds where one follows the other."""
        return sum(self)


def predicted(
    m: int,
    n: int,
    k: int,
    dtype: npt.DTypeLike = "float32",
    *,
    devices: int = 1,
    flop_per_s: float,
    bytes_per_s: float,
    host_bytes_per_s: float = math.inf,
) -> Prediction:
    """What a product of host arrays should take on equal devices: a model, nothing is measured.

    Parameters
    ----------
    m, n, k : int
        Sizes of C (m x n) and the common extent.
    dtype : dtype_like
        Of A, B and C.
    devices : int
        Devices that share the work as `"cuda:all"` does.
    flop_per_s : float
        Floating-point operations per second of one device, on operands that it has.
    bytes_per_s : float
        Bytes per second between the host and one device.
    host_bytes_per_s : float
        Bytes per second that the host gives to all devices together. Default: no limit.

    Returns
    -------
    Prediction
        `work_s`, `moved_s`, `bound_s` (they overlap) and `in_turn_s` (they do not).

    Raises
    ------
    ValueError
        For a size or a number of devices below 1.

    Examples
    --------
    >>> import gemmlab.scale
    >>> one, two = (gemmlab.scale.predicted(8192, 8192, 8192, devices=devices, flop_per_s=40e12, bytes_per_s=50e9)
    ...             for devices in (1, 2))
    >>> round(one.in_turn_s / two.in_turn_s, 2)
    1.78
    """
    if min(m, n, k, devices) < 1:
        raise ValueError(f"sizes and devices must be at least 1, not {m} x {n} x {k} on {devices}")
    r, c = grid(devices, m, n, k)
    itemsize = np.dtype(dtype).itemsize
    rows, columns = -(-m // r), -(-n // c)
    own_bytes = itemsize * (rows * k + k * columns + rows * columns)
    all_bytes = itemsize * moved(r, c, m, n, k)
    return Prediction(2.0 * rows * columns * k / flop_per_s, max(own_bytes / bytes_per_s, all_bytes / host_bytes_per_s))
