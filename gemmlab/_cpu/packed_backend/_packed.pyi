from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gemmlab._cpu._driver import CompiledWay
from gemmlab._cpu.packed_backend.plan import Plan

Matrix = np.ndarray[Any, Any]

def work_of(m: float, n: float, k: float) -> float: ...
def allowed_threads(threads: int) -> int: ...
def share(task: int, work: int, pieces: int, threads: int) -> None: ...
def free_buffers() -> int: ...
def extents_from(readings: Mapping[str, int]) -> dict[str, int]: ...
def kernels_of(table: int) -> dict[tuple[str, str], tuple[int, int, int, float]]: ...

class PackedOperand:
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    nbytes: int
    placeholder: Matrix

class PackedKernel(CompiledWay):
    def __init__(
        self,
        tables: Sequence[int],
        blocks: Mapping[tuple[str, str], tuple[int, int, int, int]],
        readings: Mapping[str, int],
        extents: Mapping[str, int] | None = None,
    ) -> None: ...
    def widens(self, a: Matrix, c: Matrix) -> bool: ...
    def plan(
        self, a: Matrix, b: Matrix, out: Matrix, *,
        threads: int = 1, mc: int = 0, kc: int = 0, nc: int = 0, packed: PackedOperand | None = None,
    ) -> Plan: ...  # fmt: skip
    def record(
        self, a: Matrix, b: Matrix, out: Matrix, *,
        mc: int = 0, kc: int = 0, nc: int = 0, access: int = 0, context: int = 0, buffer: int = 0,
    ) -> list[tuple[str, tuple[int, int, int], int]]: ...  # fmt: skip
    def pack(self, b: Matrix, threads: int) -> PackedOperand: ...
    def run(
        self,
        a: Matrix,
        b: Matrix,
        out: Matrix,
        *,
        threads: int = 1,
        mc: int = 0,
        kc: int = 0,
        nc: int = 0,
        packed: PackedOperand | None = None,
        accumulate: bool = False,
        clocked: bool = False,
        whole_k: int = 0,
        as_bfloat16: bool = False,
        modulus: int = 0,
    ) -> float | None: ...
