"""The compiler's flags of rungs: for setup.py, which reads this file, and for the packages of `gemmlab new-rung`.

A rung's loops stay as they are written: GCC's unroll-and-jam would turn one rung into another. And every multiply-add
is fused: for some processors GCC leaves chains of them unfused, and a tile of one row had other bits. On AArch64,
instructions ordered before registers are assigned make a register tile spill.
"""

from __future__ import annotations

import os
import platform

GNU_STYLE = os.name != "nt"
TARGET = os.environ.get("_PYTHON_HOST_PLATFORM", "")  # of a build for another machine, such as linux-aarch64
MACHINE = (TARGET.split("-", 1)[-1] or platform.machine()).lower()
X86, AARCH64 = MACHINE in ("x86_64", "amd64"), MACHINE in ("aarch64", "arm64")
V4 = ["-march=x86-64-v4", "-mprefer-vector-width=512"]
ISA_FLAGS = {"v4": V4, "v3": ["-march=x86-64-v3"], "v2": ["-march=x86-64-v2"]}
if not (X86 and GNU_STYLE):
    ISA_FLAGS = {"neon" if AARCH64 and GNU_STYLE else "plain": []}

GNU_FLAGS = [
    "-O3", "-g0", "-ffp-contract=fast", "--param=avoid-fma-max-bits=0", "-fno-loop-unroll-and-jam",
    "-fno-schedule-insns",
]  # fmt: skip
CXX_FLAGS = [  # of cpu-packed and the tiles
    "-std=c++20", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fvisibility=hidden",
    "-Wno-uninitialized",  # GCC 12 warns of its own intrinsics
]  # fmt: skip
RUNG_FLAGS = ["-fno-tree-loop-distribute-patterns"]  # no `rep stos` to clear a buffer of eight vectors: it takes longer
# Rungs whose inner loops have one vector in each pass, and as many instructions for addresses and the loop's end.
UNROLLED, UNROLLED_FLAGS = (".ikj", ".blocked"), ["-funroll-loops"]
LINE_FLAGS = ["-g1", "-gdwarf-4"]  # `gemmlab asm` shows the lines of rungs


def of_ikj(isa: str) -> list[str]:
    """What `cpu-ikj` is compiled with in an instruction set."""
    return [*ISA_FLAGS[isa], *GNU_FLAGS, *RUNG_FLAGS, *UNROLLED_FLAGS, *LINE_FLAGS]
