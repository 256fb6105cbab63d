from contextlib import AbstractContextManager
from typing import Any

import numpy as np

SCHEDULES: dict[str, int]
DEFAULT_SCHEDULE: str

def default_blocks(
    rule: tuple[int, ...], itemsize: int, m: int, n: int, ldb: int, threads: int
) -> tuple[int, int, int]: ...
def layout(x: np.ndarray[Any, Any]) -> str: ...
def leading_dimension(x: np.ndarray[Any, Any]) -> int: ...

class Library(AbstractContextManager[None]):
    is_lost: bool
    def __exit__(self, *_: object) -> None: ...

numpys: Library

class CompiledWay: ...

class Kernel(CompiledWay):
    serial: bool
    library: Library
    def __init__(
        self,
        float32: int,
        float64: int,
        *,
        convention: str = "rung",
        serial: bool = False,
        blocks: tuple[int, ...] = ...,
        band_flop: float = ...,
    ) -> None: ...
    def run(
        self,
        a: np.ndarray[Any, Any],
        b: np.ndarray[Any, Any],
        out: np.ndarray[Any, Any],
        *,
        threads: int = 1,
        schedule: str = ...,
        bs_r: int = 1,
        bs_c: int = 1,
        bs_k: int = 1,
        accumulate: bool = False,
    ) -> None: ...
