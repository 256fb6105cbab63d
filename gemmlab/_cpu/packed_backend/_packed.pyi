from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gemmlab._cpu._driver import CompiledWay

least_flop: int

def free_buffers() -> int: ...
def rows_of(table: int) -> dict[tuple[str, str], tuple[int, int, int]]: ...

class PackedOperand:
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    nbytes: int

class PackedKernel(CompiledWay):
    def __init__(
        self,
        tables: Sequence[int],
        blocks: Mapping[tuple[str, str], tuple[int, int, int, int]],
        extents: Mapping[str, int] | None = None,
    ) -> None: ...
    def widens(self, a: np.ndarray[Any, Any], c: np.ndarray[Any, Any]) -> bool: ...
    def path(
        self, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], out: np.ndarray[Any, Any], threads: int
    ) -> str: ...
    def pack(self, b: np.ndarray[Any, Any], threads: int) -> PackedOperand: ...
    def run(
        self,
        a: np.ndarray[Any, Any],
        b: np.ndarray[Any, Any],
        out: np.ndarray[Any, Any],
        *,
        threads: int = 1,
        mc: int = 0,
        kc: int = 0,
        nc: int = 0,
        packed: PackedOperand | None = None,
        clocked: bool = False,
    ) -> float | None: ...
