"""Where arrays are in memory: whether a kernel may write into one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds


def can_be_written(
    out: np.ndarray[Any, Any], dtype: np.dtype[Any], a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]
) -> bool:
    """Whether a kernel may write directly into the caller's `out`."""
    low, high = byte_bounds(out)
    return (
        out.dtype == dtype
        and out.dtype.isnative
        and out.flags.aligned
        and high - low >= out.nbytes  # else its elements share memory with each other
        and not np.may_share_memory(out, a)
        and not np.may_share_memory(out, b)
    )


def shares_memory_with_itself(x: np.ndarray[Any, Any]) -> bool:
    """Whether two elements of an array overlap, as where it was broadcast."""
    steps = sorted((abs(step), extent) for step, extent in zip(x.strides, x.shape, strict=True) if extent > 1)
    reach, is_nested = x.itemsize, True
    for step, extent in steps if x.size else ():
        is_nested = is_nested and step >= reach
        reach += step * (extent - 1)
    if is_nested:
        return False
    offsets: np.ndarray[Any, Any] = np.zeros(1, np.intp)
    for step, extent in steps:
        if step == 0:
            return True
        offsets = np.add.outer(offsets, step * np.arange(extent)).ravel()
    return bool((np.diff(np.sort(offsets)) < x.itemsize).any())
