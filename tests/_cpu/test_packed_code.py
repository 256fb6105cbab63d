"""cpu-packed on each instruction set, its machine code, and what the compiled libraries share: nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers import run_python
from randomness import fresh_seed
from sweeps import swept

import gemmlab
from gemmlab._cpu import isa

EVERY_DTYPE = """
import sys
import numpy as np
import gemmlab
from gemmlab._cpu import isa, machine

rng = np.random.default_rng(int(sys.argv[2]))
assert "+".join((isa.chosen(), *isa.extras())) == sys.argv[1]
for dtype in "?bBhHiIlLqQefdFD":
    for m, n, k in ((1, 1, 1), (2, 3, 5), (17, 259, 33), (130, 131, 257), (1, 70, 80), (70, 1, 5000), (9, 9, 9000)):
        a, b = (rng.integers(-1, 2, shape).astype(dtype) for shape in ((m, k), (k, n)))
        for x, y in ((a, b), (np.asfortranarray(a), b), (a, np.asfortranarray(b))):
            c = gemmlab.matmul(x, y, backend="cpu-packed", threads=2)
            wanted = np.matmul(a, b) if a.dtype.kind in "?biu" else a.astype(complex) @ b
            assert np.array_equal(c, wanted), (dtype, m, n, k)
"""


@pytest.mark.parametrize("level", swept([*isa.available(), *(f"v4+{extra}" for extra in isa.extras_here())][::-1]))
def test_every_dtype_is_right_on(level):
    done = run_python("-W", "ignore", "-c", EVERY_DTYPE, level, fresh_seed(), GEMMLAB_ISA=level)
    assert done.returncode == 0, done.stderr


REAL, COMPLEX = ("Real<float>", "Real<double>"), ("Complex<float>", "Complex<double>")
HOT_TILES = {
    "v4": [*(f"packed_tile<{kind}, 14, 2>" for kind in (*REAL, *COMPLEX)), "packed_tile<DotInt16, 14, 2>",
           "paired_tile<Paired<unsigned int>, 12, 2>", "paired_tile<Paired<unsigned long>, 12, 2>",
           *(f"unpacked_tile<{kind}, 6, 4, true>" for kind in REAL)],
    "v3": [*(f"packed_tile<{kind}, 6, 2>" for kind in (*REAL, *COMPLEX, "DotInt16")),
           "paired_tile<Paired<unsigned int>, 6, 2>",
           *(f"unpacked_tile<{kind}, 6, 2, true>" for kind in REAL)],
    "v2": [f"packed_tile<{kind}, 3, 4>" for kind in REAL],
    "dot": [f"packed_tile<{kind}, 14, 2>" for kind in ("DotBfloat16", "DotInt16", "DotInt8")],
}  # fmt: skip
MULTIPLY = ("vfm", "vfnm", "mulp", "vpmull", "vdpbf16", "vpdp", "vpmaddwd")
KERNELS = Path(isa.__file__).parent / "packed"


@pytest.mark.skipif(shutil.which("objdump") is None, reason="no objdump")
@pytest.mark.skipif(not set(isa.available()) & set(isa.LEVELS), reason="registers are counted on x86")
@pytest.mark.parametrize("level", HOT_TILES)
def test_the_hot_loop_spills_no_register(level):
    library = next(KERNELS.glob(f"{level}/kernels.*.so"), None)
    if level == "dot" and library is None:
        pytest.skip("this compiler has no AVX512-BF16")
    functions = disassembled(library)
    for tile in HOT_TILES[level]:
        (lines,) = (lines for name, lines in functions.items() if name.startswith(tile + "("))
        body = hot_loop(lines)
        assert sum(any(name in line for name in MULTIPLY) for line in body) >= 12, tile
        assert not [line for line in body if "(%rsp" in line or "(%rbp" in line], tile


def disassembled(library):
    """Lines of each function, by its name without the unnamed namespace and the result."""
    text = subprocess.run(["objdump", "-dC", "--no-show-raw-insn", str(library)], capture_output=True, text=True,
                          check=True).stdout  # fmt: skip
    functions = {}
    for part in re.split(r"\n(?=[0-9a-f]+ <.*>:\n)", text):
        head, _, lines = part.partition("\n")
        name = re.sub(r"^[0-9a-f]+ <(void )?|>:$", "", head.replace("(anonymous namespace)::", ""))
        functions[name] = [line for line in lines.splitlines() if re.match(r"\s+[0-9a-f]+:\t", line)]
    return functions


@pytest.mark.skipif(shutil.which("nm") is None, reason="no nm")
@pytest.mark.parametrize("library", BUILT := sorted(Path(gemmlab.__file__).parent.rglob("*.so")),
                         ids=lambda path: "/".join(path.parts[-2:]))  # fmt: skip
def test_no_library_shares_a_function_with_another(library):
    """A weak or unique symbol is kept once of all libraries: maybe the AVX-512 build's, on a CPU without it."""
    nm = ["nm", str(library)]
    lines = subprocess.run(nm, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines
    assert not [line for line in lines if re.match(r"[0-9a-f]+ [WVwvu] ", line)]


@pytest.mark.skipif(shutil.which("readelf") is None, reason="no readelf")
@pytest.mark.parametrize("library", BUILT, ids=lambda path: "/".join(path.parts[-2:]))
def test_no_library_needs_the_cxx_library(library):
    text = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True, check=True).stdout
    assert "stdc++" not in text


def hot_loop(lines):
    """The loop with the most multiplications."""
    places = {int(line.split(":")[0], 16): i for i, line in enumerate(lines)}
    loops = []
    for i, line in enumerate(lines):
        jump = re.search(r"\sj\w+\s+([0-9a-f]+)", line)
        start = places.get(int(jump[1], 16), i) if jump else i
        if start < i:
            loops.append(lines[start : i + 1])
    return max(loops, key=lambda body: sum(any(name in line for name in MULTIPLY) for line in body), default=[])
