"""The dtypes that products are checked and measured in, by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmlab._problem import DType

DTYPES = (
    "float32", "float64", "float16", "bfloat16", "complex64", "complex128", "bool", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip


def dtype_of(name: str) -> DType:
    """The dtype with this name; ValueError for another name, and for bfloat16 without ml_dtypes."""
    if name not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, not {name!r}")
    if name != "bfloat16":
        return np.dtype(name)
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        raise ValueError("bfloat16 is a dtype of the package ml_dtypes: pip install ml_dtypes") from None
    bfloat16_dtype: DType = np.dtype(bfloat16)
    return bfloat16_dtype


def is_exact(dtype: DType) -> bool:
    """Whether products are exact: integers, modulo a power of two, and bool."""
    return dtype.kind in "biu"


def finfo(dtype: DType) -> Any:
    """`numpy.finfo`, for bfloat16 too."""
    if dtype.name != "bfloat16":
        return np.finfo(dtype)
    import ml_dtypes

    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


def poison(dtype: DType) -> Any:
    """A value that a product is unlikely to have, to fill `out` with: NaN, or an odd integer."""
    return np.array(0xCA).astype(dtype)[()] if is_exact(dtype) else dtype.type(np.nan)
