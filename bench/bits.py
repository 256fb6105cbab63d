"""The bits of CPU backends' products, as hashes: are they those of another build?

    python bench/bits.py [OTHER_PYTHON] [--seed 1] [--cases 400]

OTHER_PYTHON is the interpreter of another environment with its own gemmlab. Each instruction set of this processor has
a process in each. The products are random: every dtype of `cpu-packed` and float32 and float64 of the rungs below it,
all its strategies, batches, packed operands, sums added to what C holds, strides of every kind, one to three threads.
Without OTHER_PYTHON the hashes are printed alone. Exit status 1 if some differ.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any

WORKER = """
import json, sys
from hashlib import sha256
import numpy as np
import gemmlab

seed, cases = map(int, sys.argv[1:])
rng = np.random.Generator(np.random.PCG64(seed))
FLOATS = ("float32", "float64", "complex64", "complex128", "float16")
DTYPES = (*FLOATS, "int8", "uint8", "int16", "int32", "int64", "bool")
RUNGS = ("cpu-naive", "cpu-ikj", "cpu-blocked", "cpu-blocked-local")
SIZES = (1, 2, 3, 5, 8, 13, 16, 31, 33, 64, 100, 130, 257, 400)
LONG = (1, 2, 7, 12, 500, 1300, 5000)

def drawn(shape, dtype):
    if np.dtype(dtype).kind in "iu":
        ends = np.iinfo(dtype)
        return rng.integers(ends.min, ends.max, shape, dtype, endpoint=True)
    x = rng.standard_normal(shape)
    x = x + 1j * rng.standard_normal(shape) if dtype.startswith("complex") else x
    return x > 0 if dtype == "bool" else x.astype(dtype)

def matrix(shape, dtype):
    kind = rng.integers(5)
    *stack, rows, columns = shape
    if kind == 0:
        return drawn((*stack, columns, rows), dtype).swapaxes(-1, -2)
    if kind == 1:
        return drawn((*stack, 2 * rows, columns + 3), dtype)[..., ::2, 3:]
    if kind == 2:
        return drawn((*stack, rows, 2 * columns), dtype)[..., ::-1, ::2]
    return drawn(shape, dtype)

found = {}
for case in range(cases):
    dtype = str(rng.choice(DTYPES))
    sizes = LONG if rng.random() < 0.25 else SIZES
    m, n, k = (int(x) for x in rng.choice(sizes, 3))
    if m * n * k > 3e8:
        k = 7
    stack = (int(rng.integers(2, 9)),) if max(m, n, k) < 65 and rng.random() < 0.4 else ()
    a, b = matrix((*stack, m, k), dtype), matrix((*stack, k, n), dtype)
    threads = int(rng.integers(1, 4))
    backend = "cpu-packed"
    if dtype in ("float32", "float64") and rng.random() < 0.2 and m * n * k < 2e7:
        backend = str(rng.choice(RUNGS))
    out = drawn((*stack, m, n), dtype) if rng.random() < 0.3 else None
    accumulate = out is not None and rng.random() < 0.5
    right = gemmlab.pack(b) if not stack and backend == "cpu-packed" and rng.random() < 0.2 else b
    c = gemmlab.matmul(a, right, out=out, backend=backend, threads=threads, accumulate=accumulate)
    key = f"{backend} {dtype}"
    state = found.setdefault(key, sha256())
    state.update(repr((m, n, k)).encode() + np.ascontiguousarray(c).tobytes())
print(json.dumps({key: state.hexdigest()[:16] for key, state in sorted(found.items())}))
"""


def hashes(python: str, isa: str, seed: int, cases: int) -> dict[str, str]:
    """The hashes of one instruction set, by backend and dtype."""
    done = subprocess.run(
        [python, "-P", "-c", WORKER, str(seed), str(cases)], env=os.environ | {"GEMMLAB_ISA": isa},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def main(arguments: Any = None) -> int:
    """Print a line for each instruction set, backend and dtype."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", nargs="?")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=400)
    given = parser.parse_args(arguments)
    from gemmlab._cpu.isa import available, extras_here

    different = 0
    for isa in [*available(), *(f"v4+{extra}" for extra in extras_here())]:
        ours = hashes(sys.executable, isa, given.seed, given.cases)
        theirs = hashes(given.other, isa, given.seed, given.cases) if given.other else {}
        for key, value in ours.items():
            same = not theirs or theirs[key] == value
            different += not same
            print(f"{isa:8} {key:28} {value}{'' if same else '  DIFFERENT: ' + theirs[key]}")
    print(f"{different} different" if given.other else "")
    return different > 0


if __name__ == "__main__":
    sys.exit(main())
