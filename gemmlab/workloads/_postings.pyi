from typing import Any

import numpy as np
import numpy.typing as npt

COUNTINGS: tuple[str, ...]
METHODS: tuple[str, ...]

_Ids = npt.NDArray[np.uint32]
_Integers = npt.NDArray[np.int64]

def walk(buffer: _Ids) -> tuple[_Integers, _Integers, int]: ...
def first_out_of_order(buffer: _Ids, starts: _Integers, lengths: _Integers, threads: int) -> int: ...
def skips(buffer: _Ids, starts: _Integers, lengths: _Integers, threads: int) -> tuple[_Ids, _Integers]: ...
def buckets(
    buffer: _Ids, starts: _Integers, lengths: _Integers, documents: int, threads: int
) -> tuple[_Ids, _Integers, npt.NDArray[np.uint8]]: ...
def bitmaps(
    buffer: _Ids, starts: _Integers, lengths: _Integers, documents: int, threads: int
) -> tuple[npt.NDArray[np.uint64], _Integers, npt.NDArray[np.uint64], _Ids]: ...
def intersect(
    how: str, buffer: _Ids, starts: _Integers, lengths: _Integers, terms: _Integers, first: _Integers,
    structure: dict[str, Any], threads: int,
) -> list[_Ids]: ...  # fmt: skip
def countings() -> tuple[str, ...]: ...
def count_pairs(
    buffer: _Ids, starts: _Integers, lengths: _Integers, documents: int, counts: _Integers, counting: str, words: int,
    panel: int, threads: int,
) -> None: ...  # fmt: skip
def count_again(counting: str, rows: npt.NDArray[np.uint64], words: int, times: int) -> int: ...
