"""A matrix by a vector beside the measured load bandwidth: 1 x k x n and m x k x 1, a matrix for each memory level.

    python bench/vectors.py [--dtypes float32,float64] [--threads 1,2] [--rounds 9] [--out FILE]

The matrix, square and stored by rows, its extent a multiple of 16, has half the bytes of L2, a quarter of those of L3,
and four times those of L3. Each round loads as many bytes with the loop that `gemmlab roofline` measures bandwidth
with, then multiplies row vector and column vector, one directly after the other. The ratio is the median over the
rounds of a product's bytes a second over the load's.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter

import numpy as np

import gemmlab
from gemmlab._config import MAX_THREADS
from gemmlab._cpu.isa import chosen
from gemmlab._cpu.machine import caches
from gemmlab._cpu.packed_backend._packed import allowed_threads
from gemmlab.roofline._stream import Streams
from gemmlab.roofline.ceilings.bandwidth import measure_point

SAMPLE_S = 0.05


def levels() -> dict[str, int]:
    """Bytes of the matrix that a level holds. Beyond the last cache: at least 256 MiB, at most 2 GiB."""
    known = caches()
    held = {"L2": known.get("L2", 0) // 2, "L3": known.get("L3", 0) // 4}
    beyond = min(max(4 * max(known.values(), default=0), 1 << 28), 1 << 31)
    return {level: size for level, size in held.items() if size} | {"DRAM": beyond}


def bytes_per_second(multiply: Callable[[], object], matrix_bytes: int) -> float:
    """The median of the calls within `SAMPLE_S`, three at least."""
    samples: list[float] = []
    end = perf_counter() + SAMPLE_S
    while len(samples) < 3 or perf_counter() < end:
        start = perf_counter()
        multiply()
        samples.append(perf_counter() - start)
    return matrix_bytes / median(samples)


def measure(dtype: str, level: str, size: int, threads: int, rounds: int) -> list[dict[str, object]]:
    """Two rows: the row vector's and the column vector's, interleaved with loads of as many bytes."""
    extent = int((size / np.dtype(dtype).itemsize) ** 0.5) // 16 * 16
    rng = np.random.default_rng(1)
    matrix, vector = (rng.random(shape, dtype=dtype) for shape in ((extent, extent), (extent,)))  # type: ignore[call-overload]
    result = np.empty(extent, dtype)
    each = -(-matrix.nbytes // threads)
    streams = Streams(each, threads)
    # The same bytes for both: 1 x k x n reads B, m x k x 1 reads A.
    products = {
        "1 x k x n": partial(gemmlab.matmul, vector[None], matrix, out=result[None], backend="cpu-packed"),
        "m x k x 1": partial(gemmlab.matmul, matrix, vector[:, None], out=result[:, None], backend="cpu-packed"),
    }
    rates: dict[str, list[float]] = {shape: [] for shape in products}
    loads: list[float] = []
    for _ in range(rounds):
        point = measure_point(streams, "load", each, threads, SAMPLE_S)
        loads.append(1e9 * median(point.gb_per_s))
        for shape, multiply in products.items():
            rates[shape].append(bytes_per_second(multiply, matrix.nbytes))
    rows = []
    for shape, own in rates.items():
        ratios = sorted(rate / load for rate, load in zip(own, loads, strict=True))
        rows.append({
            "isa": chosen(), "dtype": dtype, "threads": threads, "shape": shape, "level": level,
            "matrix_bytes": matrix.nbytes, "load_gb_per_s": median(loads) / 1e9, "gb_per_s": median(own) / 1e9,
            "ratio": median(ratios), "ratio_min": ratios[0], "ratio_max": ratios[-1],
        })  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", default="float32,float64")
    parser.add_argument("--threads", default=f"1,{allowed_threads(MAX_THREADS)}")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", help="a file for the rows, JSON")
    args = parser.parse_args()
    rows: list[dict[str, object]] = []
    for threads in dict.fromkeys(map(int, args.threads.split(","))):
        gemmlab.config.threads = threads
        for dtype in args.dtypes.split(","):
            for level, size in levels().items():
                for row in measure(dtype, level, size, threads, args.rounds):
                    print(
                        f"{row['isa']} {dtype} {threads} threads, {row['shape']}, {level:4} {size / 1e6:7.1f} MB: "
                        f"{row['gb_per_s']:6.1f} of {row['load_gb_per_s']:6.1f} GB/s, "
                        f"{row['ratio']:.2f} ({row['ratio_min']:.2f} to {row['ratio_max']:.2f})"
                    )
                    rows.append(row)
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
