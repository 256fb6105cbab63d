"""How many cycles the execution ports need for an iteration of a loop, by llvm-mca's model of the processor."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from gemmlab._cpu.isa import VECTOR_BYTES, extras_here
from gemmlab.disassembly.code import Instruction
from gemmlab.disassembly.kinds import TILE_PRODUCTS
from gemmlab.roofline._fma import Loops

# Processors whose models are tried: first this one, then others with the same instructions. Some versions of llvm-mca
# have half of the multiply-adds that a processor does, so a model must agree with the loop that measures the peak.
MODELS = ("native", "znver2", "haswell", "skylake-avx512", "icelake-server", "neoverse-n1")
PROCESSORS = {"v2": "nehalem", "v3": "haswell", "v4": "skylake-avx512", "neon": "neoverse-n1"}  # of builds not run here
PEAK_LOOP = {"v3": "vfmadd231ps ymm{}, ymm14, ymm15", "v4": "vfmadd231ps zmm{}, zmm14, zmm15"}
CHAINS, AGREES = 12, 0.2
ITERATIONS = 200_000


@dataclass(frozen=True)
class Bound:
    """Cycles of an iteration if nothing waits for anything but a port, and the processor whose ports these are.

    Of tiles, which no model of llvm-mca knows, the cycles are those of their unit, measured here.
    """

    cycles: float
    processor: str | None

    @property
    def by(self) -> str:
        """How it is known."""
        return f"llvm-mca, {self.processor}" if self.processor else "the tiles' unit, measured"


def bound_of(body: Sequence[Instruction], isa: str, runs_here: bool) -> Bound | None:
    """The bound of a loop; None where llvm-mca is not installed, or has no model that agrees with the measured peak."""
    if tiles := sum(one.name in TILE_PRODUCTS for one in body):
        return Bound(tiles * _cycles_of_a_tile(), None) if runs_here and "amx" in extras_here() else None
    program = next(filter(None, map(shutil.which, ("llvm-mca", *(f"llvm-mca-{n}" for n in range(25, 12, -1))))), None)
    if program is None:
        return None
    lines = [one.text for one in body if one.jumps_to is None]
    for processor in MODELS if runs_here else (PROCESSORS.get(isa, "native"),):
        if runs_here and not _agrees(program, processor, isa):
            continue
        if cycles := _cycles(program, processor, isa, lines):
            return Bound(cycles, _name(program) if processor == "native" else processor)
    return None


def _cycles(program: str, processor: str, isa: str, lines: Sequence[str]) -> float | None:
    arm = isa == "neon"
    text = "\n".join([*([] if arm else [".intel_syntax noprefix"]), *lines, ""])
    command = [program, f"-mcpu={processor}", f"-mtriple={'aarch64' if arm else 'x86_64'}", "-iterations=100"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    found = re.search(r"Block RThroughput: ([\d.]+)", done.stdout)
    return float(found[1]) if found else None


@cache
def _agrees(program: str, processor: str, isa: str) -> bool:
    """Whether a model does as many multiply-adds a cycle as this processor; True where that cannot be compared."""
    if isa not in PEAK_LOOP:
        return True
    cycles = _cycles(program, processor, isa, [PEAK_LOOP[isa].format(chain) for chain in range(CHAINS)])
    return cycles is not None and abs(CHAINS / cycles / _multiply_adds_a_cycle(isa) - 1) < AGREES


def _cycles_of_a_tile() -> float:
    """What this processor needs for a product of tiles."""
    return _cycles_of_peak_loop("v4+amx", "bfloat16") * TILE_PRODUCTS["tdpbf16ps"]


def _multiply_adds_a_cycle(isa: str) -> float:
    """Vectors of float32 that this processor multiplies and adds in a cycle."""
    return 4 / VECTOR_BYTES[isa] / _cycles_of_peak_loop(isa, "float32")


@cache
def _cycles_of_peak_loop(isa: str, dtype: str) -> float:
    """Cycles of a multiply-add in the loop that measures the peak; the best of a few short ones."""
    loops = Loops(isa)
    took_s = min(loops.run(dtype, 1, ITERATIONS) for _ in range(5))
    clock_ghz = max(loops.clock_ghz(1, ITERATIONS) for _ in range(5))
    return 2e9 * took_s * clock_ghz / (ITERATIONS * loops.flops_per_iteration(dtype))


def _name(program: str) -> str:
    """The processor that llvm-mca takes this one for."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"Host CPU: (\S+)", said)
    return found[1] if found else "native"
