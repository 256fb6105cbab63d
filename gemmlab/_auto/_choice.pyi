from collections.abc import Iterable, Mapping

from gemmlab._cpu._driver import CompiledWay

CLASSES: tuple[str, ...]

def shape_class(m: int, n: int, k: int, batch: int = 1) -> str: ...

class Choice(CompiledWay):
    def __init__(self, ours: CompiledWay, rows: Iterable[tuple[str, str, str]], extents: Mapping[str, int]) -> None: ...
