from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from gemmlab._cpu._driver import FastPath
from gemmlab._problem import AnyArray, Casting

def set_general(function: Callable[..., AnyArray]) -> None: ...
def register_kernel(name: str, kernel: FastPath | None) -> None: ...
def settings_changed() -> None: ...
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
    **params: Any,
) -> AnyArray: ...
