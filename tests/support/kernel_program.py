"""Build tests/_cpu/kernels_test.cpp and run it. As a command: for AArch64, with NEON's kernels, emulated by qemu.

    python tests/support/kernel_program.py [SEED [PRODUCTS]]
"""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
CPU = ROOT / "gemmlab" / "_cpu"
INCLUDE = [f"-I{folder}" for folder in (CPU, CPU / "threads", CPU / "rungs", CPU / "packed", CPU / "packed_backend")]
PROGRAMS = {"aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu", "qemu-aarch64": "qemu-user"}  # and their Debian packages


def flags() -> list[str]:
    """What cpu-packed is compiled with."""
    found = runpy.run_path(str(CPU / "flags.py"))
    return [*found["GNU_FLAGS"], *found["CXX_FLAGS"], *INCLUDE]


def compiled(compiler: str, source: Path, folder: Path, *options: str) -> Path:
    """The object file of a source, without flags for an instruction set."""
    made = folder / f"{source.stem}.o"
    subprocess.run([compiler, *flags(), *options, "-c", str(source), "-o", str(made)], check=True)
    return made


def linked(compiler: str, objects: list[Path], program: Path, *options: str) -> Path:
    """A program of compiled objects and libraries."""
    subprocess.run([compiler, *map(str, objects), "-o", str(program), *options], check=True)
    return program


def main(arguments: list[str]) -> int:
    """Compile, link statically, and run."""
    missing = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if missing:
        print(f"NEON's kernels are not tested: apt-get install {' '.join(missing)}", file=sys.stderr)
        return 2
    compiler, emulator = PROGRAMS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources = CPU / "packed" / "kernels.cpp", ROOT / "tests" / "_cpu" / "kernels_test.cpp"
        objects = [compiled(compiler, source, folder, "-fopenmp") for source in sources]
        program = linked(compiler, objects, folder / "kernels_test", "-static", "-fopenmp")
        return subprocess.run([emulator, str(program), *arguments], check=False, env=dict(os.environ)).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
