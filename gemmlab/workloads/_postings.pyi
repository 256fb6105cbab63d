from typing import Any

import numpy as np
import numpy.typing as npt

COUNTINGS: tuple[str, ...]
METHODS: tuple[str, ...]

_Ids = npt.NDArray[np.uint32]
_Integers = npt.NDArray[np.int64]

def walk(buffer: _Ids) -> tuple[_Integers, _Integers, int]: ...

class Loops:
    def __init__(self, isa_name: str | None = None) -> None: ...
    def first_out_of_order(self, buffer: _Ids, starts: _Integers, lengths: _Integers, threads: int) -> int: ...
    def skips(self, buffer: _Ids, starts: _Integers, lengths: _Integers, threads: int) -> dict[str, Any]: ...
    def buckets(
        self, buffer: _Ids, starts: _Integers, lengths: _Integers, documents: int, threads: int
    ) -> dict[str, Any]: ...
    def bitmaps(
        self, buffer: _Ids, starts: _Integers, lengths: _Integers, documents: int, threads: int
    ) -> dict[str, Any]: ...
    def intersect(
        self, how: str, buffer: _Ids, starts: _Integers, lengths: _Integers, terms: _Integers, first: _Integers,
        structure: dict[str, Any], threads: int,
    ) -> list[_Ids]: ...  # fmt: skip
    def countings(self) -> tuple[str, ...]: ...
    def count_pairs(
        self, buffer: _Ids, starts: _Integers, lengths: _Integers, documents: int, counts: _Integers, counting: str,
        words: int, panel: int, threads: int,
    ) -> None: ...  # fmt: skip
    def count_again(self, counting: str, rows: npt.NDArray[np.uint64], words: int, times: int) -> int: ...
