"""The dtypes in which a product is computed, as NumPy's matmul chooses them."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from gemmlab._problem.memory import shares_memory_with_itself
from gemmlab._problem.shapes import AnyArray

Array: TypeAlias = np.ndarray[Any, Any]
DType: TypeAlias = np.dtype[Any]
Casting: TypeAlias = Literal["no", "equiv", "safe", "same_kind", "unsafe"]


def dtypes_to_add(
    accumulate: object, dtypes: tuple[DType, ...], a: Array, b: Array, out: Array | None, dtype: npt.DTypeLike | None,
    casting: Casting,
) -> tuple[DType, ...]:  # fmt: skip
    """The dtypes of a product that is added to `out`: that of `out` where it is the wider, and none is given.

    TypeError or ValueError where the product cannot be added.
    """
    if not isinstance(accumulate, bool | np.bool_):
        raise TypeError(f"accumulate must be True or False, not {accumulate!r}")
    if not accumulate:
        return dtypes
    if out is None:
        raise TypeError("accumulate=True adds the product to an array: pass it as out=")
    wider = np.promote_types(dtypes[2], out.dtype) if np.can_cast(dtypes[2], out.dtype, "safe") else dtypes[2]
    if dtype is None and wider != dtypes[2]:
        dtypes = (wider,) * 3 if _is_bfloat16(wider) else resolved_dtypes(a, b, out, wider, casting)
    if casting != "unsafe" and not np.can_cast(out.dtype, dtypes[2], "safe"):
        raise TypeError(
            f"accumulate=True adds out, of {out.dtype}, to a product of {dtypes[2]}, which does not hold all values of "
            f"{out.dtype}: pass dtype={str(out.dtype)!r}, or operands of that dtype"
        )
    if shares_memory_with_itself(out):
        raise ValueError("accumulate=True needs an out whose elements share no memory with each other: pass a copy")
    return dtypes


def resolved_dtypes(
    a: AnyArray, b: AnyArray, out: AnyArray, dtype: npt.DTypeLike | None, casting: Casting
) -> tuple[DType, ...]:
    """The dtypes of a, b and out in which NumPy's matmul would compute; raises its errors."""
    given = (a.dtype, b.dtype, None if out is None else out.dtype)
    if dtype is not None:
        return np.matmul.resolve_dtypes(given, casting=casting, signature=(None, None, np.dtype(dtype)))
    native = a.dtype.newbyteorder("=")
    casts = [(a.dtype, native), (b.dtype, native), (native, native if out is None else out.dtype)]
    if _is_bfloat16(native) and _is_bfloat16(b.dtype) and all(np.can_cast(*cast, casting) for cast in casts):
        return (native,) * 3  # ml_dtypes' matmul returns float32; here that takes dtype="float32"
    return np.matmul.resolve_dtypes(given, casting=casting)


def _is_bfloat16(dtype: DType) -> bool:
    """Whether this is the dtype of ml_dtypes, for which NumPy's matmul has no loop."""
    return dtype.kind == "V" and dtype.name == "bfloat16"


def sums_of(dtype: DType) -> DType:
    """The dtype of sums of several blocks of k: a sum of float16 or bfloat16 would be rounded after each block."""
    return np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype
