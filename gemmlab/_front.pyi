from collections.abc import Callable, Sequence
from typing import Any, Never, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt

from gemmlab._cpu._driver import CompiledWay
from gemmlab._cpu.packed_backend._packed import PackedOperand
from gemmlab._emulated.operand import NarrowOperand
from gemmlab._problem import AnyArray, Casting

_Scalar = TypeVar("_Scalar", bound=np.generic)
_Out = TypeVar("_Out", bound=np.ndarray[Any, Any])
_Vector: TypeAlias = np.ndarray[tuple[int], np.dtype[_Scalar]]
_Matrix: TypeAlias = np.ndarray[tuple[int, int], np.dtype[_Scalar]]
_Unknown: TypeAlias = np.ndarray[tuple[Never, Never, Never], np.dtype[_Scalar]]  # only an array of unknown dimensions
_Rows: TypeAlias = Sequence[Sequence[Any]]

def set_general(function: Callable[..., AnyArray]) -> None: ...
def register_kernel(name: str, kernel: CompiledWay | None) -> None: ...
def is_registered(name: str) -> bool: ...
def register_plans(kind: type, function: Callable[..., AnyArray | None]) -> None: ...
def settings_changed() -> None: ...
def set_packed_class(kind: type) -> None: ...
def set_array_class(kind: type, numbers: set[Any], function: Callable[..., Any]) -> None: ...
def array_ufunc(self: Any, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any: ...
def product_of_ours(a: Any, b: Any) -> Any: ...
def vector_product(a: AnyArray, b: AnyArray, out: AnyArray, ndim_a: int, ndim_b: int, *options: Any) -> AnyArray: ...

# In this order: `out` is returned; operands of one dtype, where dimensions are unknown, one or two, or more; others.
@overload
def matmul(
    a: AnyArray,
    b: AnyArray,
    /,
    out: _Out | tuple[_Out],
    *,
    backend: str | None = None,
    dtype: npt.DTypeLike | None = None,
    casting: Casting = "same_kind",
    axes: object = None,
    threads: int | None = None,
    accumulate: bool = False,
    **params: Any,
) -> _Out: ...
@overload
def matmul(
    a: _Unknown[_Scalar],
    b: npt.NDArray[_Scalar],
    /,
    out: None = None,
    *,
    backend: str | None = None,
    dtype: None = None,
    casting: Casting = "same_kind",
    axes: object = None,
    threads: int | None = None,
    **params: Any,
) -> npt.NDArray[_Scalar]: ...
@overload
def matmul(
    a: npt.NDArray[_Scalar],
    b: _Unknown[_Scalar],
    /,
    out: None = None,
    *,
    backend: str | None = None,
    dtype: None = None,
    casting: Casting = "same_kind",
    axes: object = None,
    threads: int | None = None,
    **params: Any,
) -> npt.NDArray[_Scalar]: ...
@overload
def matmul(
    a: _Vector[_Scalar],
    b: _Vector[_Scalar],
    /,
    out: None = None,
    *,
    backend: str | None = None,
    dtype: None = None,
    casting: Casting = "same_kind",
    axes: object = None,
    threads: int | None = None,
    **params: Any,
) -> _Scalar: ...
@overload
def matmul(
    a: _Matrix[_Scalar],
    b: _Matrix[_Scalar],
    /,
    out: None = None,
    *,
    backend: str | None = None,
    dtype: None = None,
    casting: Casting = "same_kind",
    axes: object = None,
    threads: int | None = None,
    **params: Any,
) -> _Matrix[_Scalar]: ...
@overload
def matmul(
    a: npt.NDArray[_Scalar],
    b: npt.NDArray[_Scalar],
    /,
    out: None = None,
    *,
    backend: str | None = None,
    dtype: None = None,
    casting: Casting = "same_kind",
    axes: object = None,
    threads: int | None = None,
    **params: Any,
) -> npt.NDArray[_Scalar]: ...
@overload
def matmul(
    a: _Vector[Any],
    b: _Vector[Any],
    /,
    out: None = None,
    *,
    backend: str | None = None,
    dtype: npt.DTypeLike | None = None,
    casting: Casting = "same_kind",
    axes: object = None,
    threads: int | None = None,
    **params: Any,
) -> Any: ...
@overload
def matmul(
    a: npt.NDArray[Any] | _Rows,
    b: npt.NDArray[Any] | PackedOperand | NarrowOperand | _Rows,
    /,
    out: None = None,
    *,
    backend: str | None = None,
    dtype: npt.DTypeLike | None = None,
    casting: Casting = "same_kind",
    axes: object = None,
    threads: int | None = None,
    **params: Any,
) -> npt.NDArray[Any]: ...
@overload
def matmul(
    a: AnyArray,
    b: AnyArray,
    /,
    out: AnyArray = None,
    *,
    backend: str | None = None,
    dtype: npt.DTypeLike | None = None,
    casting: Casting = "same_kind",
    axes: object = None,
    threads: int | None = None,
    accumulate: bool = False,
    **params: Any,
) -> AnyArray: ...
