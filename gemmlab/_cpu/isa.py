"""Which build of the compiled kernels runs here.

Every kernel is compiled once per instruction set: x86-64-v2 (SSE4.2), v3 (AVX2 and FMA) and v4 (AVX-512) on x86, NEON
on AArch64, one `plain` build elsewhere. The best that the CPU has is taken; GEMMLAB_ISA pins one. What only some CPUs
of v4 have, `extras`, multiplies a few dtypes in `cpu-packed`.
"""

from __future__ import annotations

import ctypes
import os
import platform
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from gemmlab._config import config
from gemmlab._cpu import _features, machine
from gemmlab._errors import BackendUnavailable

LEVELS = ("v2", "v3", "v4")
EXTRAS = ("dot", "amx")
VECTOR_BYTES = {"v2": 16, "v3": 32, "v4": 64, "neon": 16, "plain": 16}


@cache
def available() -> tuple[str, ...]:
    """Instruction sets that this CPU has and this build has kernels for, weakest first."""
    processor = platform.machine().lower()
    if processor in ("aarch64", "arm64") and os.name != "nt":
        return ("neon",)
    if processor not in ("x86_64", "amd64"):
        return ("plain",)
    return tuple(isa for isa in LEVELS if _features.has_level(int(isa[1:]))) or ("plain",)


@cache
def chosen() -> str:
    """The instruction set in force: GEMMLAB_ISA, else the best available."""
    if config.isa is None:
        return available()[-1]
    wanted, *named = config.isa.split("+")
    if wanted not in available() or (named and wanted != "v4") or not set(named) <= set(extras_here()):
        known = set(named) <= set(EXTRAS) and wanted in VECTOR_BYTES
        wrong = "is not what this CPU has" if known else "is not one of v2, v3, v4, v4+dot, v4+amx"
        here = ", ".join(available_with_extras())
        raise BackendUnavailable(f"GEMMLAB_ISA={config.isa} {wrong}; here it may be {here}, or leave it unset")
    return wanted


def profile_name() -> str:
    """What a profile of this machine belongs to: a processor and an instruction set."""
    return f"{machine.cpu_name()}, {chosen()}"


@cache
def extras_here() -> tuple[str, ...]:
    """What this CPU has beyond x86-64-v4 and cpu-packed has kernels for, weakest first.

    `dot`: the dot products of AVX512-BF16 and AVX512-VNNI. `amx`: AMX's tiles of bfloat16 and int8.
    """
    return tuple(extra for extra in EXTRAS if _features.has_extra(extra)) if "v4" in available() else ()


def available_with_extras() -> tuple[str, ...]:
    """All that GEMMLAB_ISA may name here, an extra as in "v4+amx"."""
    return *available(), *(f"v4+{extra}" for extra in extras_here())


@cache
def extras() -> tuple[str, ...]:
    """The extras in force: all that are here, or those that GEMMLAB_ISA names, as in v4+dot; none for v4 alone."""
    if chosen() != "v4":
        return ()
    return extras_here() if config.isa is None else tuple(e for e in extras_here() if e in config.isa.split("+")[1:])


def table(package: str, name: str, isa: str | None = None) -> int:
    """The address of what the shared library `name` of `package` hands out, in the build for an instruction set, by
    default the one in force; ImportError if that was not compiled."""
    found = _table(f"{package}.{isa or chosen()}.{name}")
    if found is None:
        raise ImportError(f"{package}.{isa or chosen()}.{name} was not compiled")
    return found


def tables(package: str, name: str) -> list[int]:
    """The same for the instruction set in force and the extras; of these, one that was not compiled is left out."""
    found = [_table(f"{package}.{extra}.{name}") for extra in extras()]
    return [table(package, name), *(address for address in found if address is not None)]


@cache  # a library stays loaded
def _table(module: str) -> int | None:
    path = _library(module)
    if path is None:
        return None
    function = ctypes.CDLL(path).gemmlab_kernels
    function.restype = ctypes.c_void_p
    return int(function())


def _library(module: str) -> str | None:
    try:
        found = find_spec(module)
    except ModuleNotFoundError:  # nothing was compiled for this instruction set
        return None
    return found.origin if found is not None else None


def load(package: str, module: str) -> ModuleType:
    """Import `module` of `package`, in the build for the instruction set in force."""
    return import_module(f"{package}.{chosen()}.{module}")
