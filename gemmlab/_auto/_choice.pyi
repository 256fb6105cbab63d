from collections.abc import Iterable, Mapping

from gemmlab._cpu._driver import FastPath

CLASSES: tuple[str, ...]

def shape_class(m: int, n: int, k: int, batch: int = 1) -> str: ...

class Choice(FastPath):
    def __init__(self, ours: FastPath, rows: Iterable[tuple[str, str, str]], extents: Mapping[str, int]) -> None: ...
