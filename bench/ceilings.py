"""Our ceilings beside those of likwid-bench, level by level, in one interleaved run.

    OMP_PROC_BIND=spread OMP_PLACES=cores python bench/ceilings.py [--rounds 3] [--out ceilings.json]

likwid-bench (Debian's package `likwid`) pins its threads and needs no counters for this. Both go through the same
working sets: 24 KB, 500 KB, 4 MB and 128 MB a thread (or twice L3), which lie inside L1, L2, L3 and memory of most
machines, in loads, copy and triad (its `stream`), with the vectors of the instruction set in force; and both run
multiply-adds in registers. The table has the best of the rounds, since both are lower bounds of the hardware, in GB/s
or GFLOP/s, how far the others were below it, and our ratio to it. NUMPY_MADVISE_HUGEPAGE=0 gives our buffers small
pages, as likwid-bench has.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from statistics import median

from gemmlab._cpu.isa import chosen
from gemmlab._cpu.machine import caches, usable_cpus
from gemmlab.roofline._stream import Streams
from gemmlab.roofline.ceilings.bandwidth import measure_point
from gemmlab.roofline.ceilings.cpu import SCALAR, MultiplyAdds

KB, MB = 1000, 1000 * 1000  # as likwid-bench counts
BEYOND = max(128 * MB, 2 * caches().get("L3", 0) // MB * MB)
SETS = {"L1": 24 * KB, "L2": 500 * KB, "L3": 4 * MB, "DRAM": BEYOND}  # a thread
ENDING = {"v4": "_avx512", "v3": "_avx", "v2": "_sse"}
FUSED = {"v4": "_avx512_fma", "v3": "_avx_fma", "v2": "_sse", SCALAR: ""}
THEIRS = {"load": "load", "copy": "copy", "triad": "stream"}
PRECISION = {"float32": "_sp", "float64": ""}
SECONDS = 0.5


def likwid(test: str, working_set: int, threads: int, unit: str) -> float:
    """MByte/s or MFlops/s of likwid-bench, in thousands."""
    size = f"N:{working_set * threads // KB}kB:{threads}"
    everywhere = ["taskset", "-c", f"0-{(os.cpu_count() or 1) - 1}"]  # OMP_PROC_BIND has left this thread one CPU
    command = [*everywhere, "likwid-bench", "-t", test, "-W", size, "-s", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(re.findall(rf"{unit}:\s+([\d.]+)", done.stdout)[0]) / 1000


def multiply_add_rate(isa: str, dtype: str, threads: int) -> float:
    """GFLOP/s of our own loop."""
    loop = MultiplyAdds(isa, dtype)
    loop.time(threads, SECONDS)
    return float(loop.record(threads)["gflop_per_s"])


def bandwidth(operation: str, working_set: int, threads: int) -> float:
    """GB/s of our own loop."""
    streams = Streams(working_set, threads)
    return median(measure_point(streams, operation, working_set, threads, SECONDS).gb_per_s)


def cases() -> list[tuple[str, int, str, str]]:
    """Kind, threads, and what: a level and an operation, or an instruction set and a dtype."""
    counts = sorted({1, usable_cpus()})
    found = [("fma", threads, isa, dtype) for threads in counts for isa in FUSED for dtype in PRECISION]
    return found + [("bytes", threads, level, name) for threads in counts for level in SETS for name in THEIRS]


def pair(kind: str, threads: int, what: str, how: str) -> tuple[float, float]:
    """Ours and theirs, one after the other."""
    if kind == "fma":
        test = f"peakflops{PRECISION[how]}{FUSED[what]}"
        return multiply_add_rate(what, how, threads), likwid(test, 16 * KB, threads, "MFlops/s")
    working_set = SETS[what]
    return bandwidth(how, working_set, threads), likwid(THEIRS[how] + ENDING[chosen()], working_set, threads, "MByte/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out")
    options = parser.parse_args()
    if shutil.which("likwid-bench") is None:
        sys.exit("likwid-bench is not installed: apt install likwid")
    found: dict[tuple[str, int, str, str], list[tuple[float, float]]] = {case: [] for case in cases()}
    for _ in range(options.rounds):
        for case, pairs in found.items():
            pairs.append(pair(*case))
    print(f"{'what':<22} {'threads':>7} {'ours':>9} {'spread':>7} {'likwid':>9} {'spread':>7} {'ratio':>7}")
    for (_, threads, what, how), pairs in found.items():
        ours, theirs = zip(*pairs, strict=True)
        spreads = [100 * (1 - min(own) / max(own)) for own in (ours, theirs)]
        print(f"{what + ' ' + how:<22} {threads:>7} {max(ours):>9.1f} {spreads[0]:>5.0f} % {max(theirs):>9.1f}"
              f" {spreads[1]:>5.0f} % {max(ours) / max(theirs):>7.2f}")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump([{"case": case, "ours_theirs": pairs} for case, pairs in found.items()], file, indent=1)


if __name__ == "__main__":
    main()
