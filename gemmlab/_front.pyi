from collections.abc import Callable
from typing import Any

from gemmlab._cpu._driver import CompiledWay

def install(way: Callable[..., Any]) -> None: ...
def make_ready(name: str, kernel: CompiledWay | None) -> None: ...
def settings_changed() -> None: ...
def matmul(
    a: Any,
    b: Any,
    /,
    out: Any = None,
    *,
    backend: str | None = None,
    dtype: Any = None,
    casting: str = "same_kind",
    axes: Any = None,
    threads: int | None = None,
    **params: Any,
) -> Any: ...
