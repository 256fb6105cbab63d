"""Arrays of other libraries on the host, exchanged by DLPack without a copy; bfloat16 too, which NumPy does not know.

NumPy's bfloat16 is a type of ml_dtypes. So a capsule of bfloat16 says unsigned integers of 16 bits on its way to NumPy,
where the array is seen as ml_dtypes' type, and bfloat16 again on the way back.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gemmlab._errors import UnsupportedProblem
from gemmlab._problem import AnyArray
from gemmlab._words import printable

UNSIGNED, BFLOAT = 1, 4  # codes of types, in dlpack.h
VERSIONED, VERSIONED_OFFSET = b"dltensor_versioned", 32  # a capsule's name; a version and flags precede the tensor then
NO_LIBRARY = ("builtins", "abc", "typing", "collections")
PLACES = ("", ".dlpack", ".utils.dlpack", ".experimental.dlpack")  # of from_dlpack, in a library


class _Tensor(ctypes.Structure):
    """The beginning of DLTensor in dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
    )  # fmt: skip


class _Retyped:
    """An exporter whose capsules say another type of 16 bits."""

    def __init__(self, exporter: AnyArray, code: int) -> None:
        self.exporter, self.code = exporter, code

    def __dlpack__(self, **options: Any) -> object:
        capsule: object = self.exporter.__dlpack__(**options)
        tensor_in(capsule).code = self.code
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        place: tuple[int, int] = self.exporter.__dlpack_device__()
        return place


def tensor_in(capsule: object) -> _Tensor:
    """What a capsule describes; only its beginning can be used."""
    pointer, is_named = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_IsValid
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = is_named.argtypes = [ctypes.py_object, ctypes.c_char_p]
    if is_named(capsule, VERSIONED):
        return _Tensor.from_address(pointer(capsule, VERSIONED) + VERSIONED_OFFSET)
    return _Tensor.from_address(pointer(capsule, b"dltensor"))


def device_of(x: AnyArray) -> int:
    """The number of DLPack for the kind of device that an array is on."""
    try:
        return int(x.__dlpack_device__()[0])
    except Exception as error:  # libraries raise errors of many types
        raise _not_given(x, error) from error


def is_bfloat16(x: AnyArray) -> bool:
    """Whether another library's array is of its bfloat16."""
    return str(getattr(x, "dtype", "")).rpartition(".")[2] == "bfloat16"


def on_host(x: AnyArray) -> AnyArray:
    """An array of the host's memory as NumPy's; UnsupportedProblem, with the library's reason, if it gives none."""
    try:
        if is_bfloat16(x):
            from ml_dtypes import bfloat16

            retyped: Any = _Retyped(x, UNSIGNED)
            return np.from_dlpack(retyped).view(bfloat16)
        return np.from_dlpack(x)
    except Exception as error:
        raise _not_given(x, error) from error


def _not_given(x: object, error: Exception) -> UnsupportedProblem:
    kind, why = f"{type(x).__module__}.{type(x).__qualname__}", printable(f"{type(error).__name__}: {error}")
    return UnsupportedProblem(f"DLPack does not give this {kind} ({why}): pass another array of it, or NumPy's")


def converter(like: AnyArray) -> Callable[[AnyArray], AnyArray]:
    """The function that makes an array of the library that `like` is from; UnsupportedProblem if it has none."""
    from_dlpack = next(_functions(like), None)
    if from_dlpack is None:
        raise UnsupportedProblem(
            f"{library_of(like)} has no from_dlpack, by which a result becomes its array: pass out=, or operands of "
            "NumPy (numpy.from_dlpack makes them)"
        )

    def convert(result: AnyArray) -> AnyArray:
        if isinstance(result, np.ndarray) and result.dtype.name == "bfloat16":
            return from_dlpack(_Retyped(result.view(np.uint16), BFLOAT))
        return from_dlpack(result)

    return convert


def library_of(x: object) -> str:
    """The package of the first class that an array's is derived from: subclasses of one library go together."""
    modules = [kind.__module__.partition(".")[0] for kind in type(x).__mro__]
    return next((module for module in reversed(modules) if module not in NO_LIBRARY), modules[0])


def _functions(x: object) -> Iterator[Callable[[Any], AnyArray]]:
    """Every from_dlpack that may make arrays of this kind: of its namespace, its library, its class."""
    owners = [x.__array_namespace__()] if hasattr(x, "__array_namespace__") else []
    for kind in type(x).__mro__[:-1]:
        root = kind.__module__.partition(".")[0]
        owners += [sys.modules.get(root + place) for place in PLACES]
        owners += [sys.modules.get(kind.__module__), kind]
    for owner in owners:
        if callable(function := getattr(owner, "from_dlpack", None)):
            yield function
