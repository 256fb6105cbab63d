"""Which build of the compiled kernels runs here.

Every kernel is compiled once per instruction set: x86-64-v2 (SSE4.2), v3 (AVX2 and FMA) and v4 (AVX-512)
on x86, one `plain` build elsewhere. The best that the CPU has is taken; GEMMLAB_ISA pins one.
"""

from __future__ import annotations

import platform
from functools import cache
from importlib import import_module
from types import ModuleType

from gemmlab._config import config
from gemmlab._cpu import _features
from gemmlab._errors import BackendUnavailable

LEVELS = ("v2", "v3", "v4")
VECTOR_BYTES = {"v2": 16, "v3": 32, "v4": 64, "plain": 16}


@cache
def available() -> tuple[str, ...]:
    """Instruction sets that this CPU has and this build has kernels for, weakest first."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return ("plain",)
    return tuple(isa for isa in LEVELS if _features.has_level(int(isa[1:]))) or ("plain",)


@cache
def chosen() -> str:
    """The instruction set in force: GEMMLAB_ISA, else the best available."""
    wanted = config.isa
    if wanted is None:
        return available()[-1]
    if wanted not in available():
        known = "is not one of v2, v3, v4" if wanted not in (*LEVELS, "plain") else "is not what this CPU has"
        raise BackendUnavailable(
            f"GEMMLAB_ISA={wanted} {known}; here it may be {', '.join(available())}, or leave it unset"
        )
    return wanted


def load(package: str, module: str) -> ModuleType:
    """Import `module` of `package`, in the build for the instruction set in force."""
    return import_module(f"{package}.{chosen()}.{module}")
