"""Products of device arrays: the time of the kernels by the device's events, all backends in turn.

    python bench/devices/on_device.py cuda-cublas opencl-tuned cuda-tuned --cases 2048 4096 --layouts NN NT TN TT padded

A case is a square or m x n x k, or `odd` for the twelve odd, tall, wide and deep shapes below. The first backend is the
one that the others are compared with. A backend may have parameters: opencl-tuned[tile_x=16,step_k=16]. Operands are
uniform in -1 to 1; each product is checked against its error bound in some elements before it is timed. `padded`: rows
of A, B and C with 64 elements between them.

CLBlast's tuner (Debian: clblast-utils) writes what it found to a file, which is used here with `--clblast-tuned`:

    clblast_tuner_xgemm -precision 32 -m 2048 -n 2048 -k 2048
    python bench/devices/on_device.py cuda-cublas opencl-clblast opencl-tuned --clblast-tuned clblast_xgemm_*_32.json
"""

from __future__ import annotations

import argparse
import ctypes
import json
import re
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np

import gemmlab
from gemmlab._gpu.batches import GemmSize, Operand
from gemmlab._problem import Problem

ODD = (
    (1000, 1000, 1000), (1023, 1025, 1027), (2049, 2047, 2051), (3001, 2999, 3003),
    (16384, 256, 1024), (8191, 129, 2047), (65536, 64, 512),
    (256, 16384, 1024), (129, 8191, 2047), (64, 65536, 512),
    (256, 256, 65536), (512, 512, 16384),
)  # fmt: skip
PADDING = 64
FIRST_ROUNDS = 2  # they are not counted


class Timed:
    """A backend with its parameters, and the same operands on its own queue."""

    def __init__(self, given: str, dtype: str) -> None:
        name, _, params = given.partition("[")
        self.label, self.dtype = given, dtype
        self.backend: Any = gemmlab.get_backend(name)
        self.queue = self.backend.queue
        self.given = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", params)}

    def place(self, a: np.ndarray, b: np.ndarray, layout: str) -> None:
        m, n, k = len(a), b.shape[1], len(b)
        padding = PADDING if layout == "padded" else 0
        self.size = GemmSize(m, n, k, 1)
        self.a, self.b = (self._operand(x, side == "T", padding) for x, side in zip((a, b), layout[:2], strict=True))
        out = np.full((m, n + padding), np.nan, self.dtype)
        self.c = Operand(self.queue.allocate(out.nbytes), 0, n + padding)
        self.queue.upload(self.c.memory, out)
        self.params = self.backend.resolve(Problem.from_call(a, b), self.given)
        if "T" in layout and not self.backend.accepts_transposed(self.queue.device):
            raise ValueError("it takes row-major operands alone")

    def _operand(self, x: np.ndarray, transposed: bool, padding: int) -> Operand:
        held = x.T if transposed else x
        rows = np.zeros((held.shape[0], held.shape[1] + padding), self.dtype)
        rows[:, : held.shape[1]] = held
        memory = self.queue.allocate(rows.nbytes)
        self.queue.upload(memory, rows)
        return Operand(memory, 0, rows.shape[1], 0, transposed)

    def seconds(self) -> float:
        product = self.backend.multiply(self.queue, self.params, self.dtype, self.size, self.a, self.b, self.c)
        return float(product.kernel_s)

    def result(self) -> np.ndarray:
        out = np.empty((self.size.m, self.c.ld), self.dtype)
        self.queue.download(out, self.c.memory)
        return out[:, : self.size.n]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backends", nargs="+")
    parser.add_argument("--cases", nargs="+", default=["2048", "4096", "8192"])
    parser.add_argument("--layouts", nargs="+", default=["NN"])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--clblast-tuned", nargs="+", type=Path, metavar="FILE", help="what CLBlast's tuner wrote")
    options = parser.parse_args()
    timed = [Timed(name, options.dtype) for name in options.backends]
    if options.clblast_tuned:
        tune_clblast(options.clblast_tuned)
    print(f"{options.dtype} on {timed[0].queue.device.label}, driver {timed[0].queue.device.driver}", flush=True)
    ratios: dict[str, list[float]] = {}
    for case in options.cases:
        for m, n, k in ODD if case == "odd" else [parsed(case)]:
            a, b = random(m, k, options.dtype), random(k, n, options.dtype)
            for layout in options.layouts:
                found = measured(timed, a, b, layout, options.rounds)
                said = []
                for one in timed:
                    if one.label in found:
                        middle = median(found[one.label])
                        spread = 100 * (max(found[one.label]) - min(found[one.label])) / middle
                        said.append(f"{one.label} {2 * m * n * k / middle / 1e12:.2f} TFLOP/s ({spread:.0f} %)")
                        if timed[0].label in found and one is not timed[0]:
                            ratio = median(found[timed[0].label]) / middle
                            said[-1] += f" {ratio:.3f}"
                            ratios.setdefault(f"{one.label} {layout}", []).append(ratio)
                print(f"{m} x {n} x {k} {layout}: " + "; ".join(said), flush=True)
    for what, every in ratios.items():
        print(f"{what} over {timed[0].label}, geometric mean of {len(every)}: {geometric_mean(every):.3f}", flush=True)


def tune_clblast(files: list[Path]) -> None:
    """Have CLBlast use the fastest parameters in files of its tuner."""
    found = min((json.loads(file.read_text()) for file in files), key=lambda one: float(one["best_time"]))
    values = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", found["best_parameters"])}
    precision = values.pop("PRECISION")
    backend: Any = gemmlab.get_backend("opencl-clblast")
    status = backend.library.CLBlastOverrideParameters(
        ctypes.c_void_p(backend.queue.queue.device.int_ptr), found["best_kernel"].encode(), precision,
        ctypes.c_size_t(len(values)), (ctypes.c_char_p * len(values))(*(name.encode() for name in values)),
        (ctypes.c_size_t * len(values))(*values.values()),
    )  # fmt: skip
    if status:
        raise SystemExit(f"CLBlast does not take the parameters of its tuner: status {status}")
    print(f"CLBlast: {found['best_parameters']}", flush=True)


def measured(
    timed: list[Timed], a: np.ndarray, b: np.ndarray, layout: str, rounds: int
) -> dict[str, list[float]]:  # fmt: skip
    """Seconds of each backend that can, in turn; each product is checked first."""
    found: dict[str, list[float]] = {}
    rows, columns = some_of(len(a), 8), some_of(b.shape[1], 512)
    for one in timed:
        try:
            one.place(a, b, layout)
            one.seconds()
            error = gemmlab.verify.error_over_bound(a, b, one.result(), rows=rows, columns=columns)
            if not error <= 1:
                print(f"{one.label} is wrong: {error:.2g} times its error bound")
                continue
            found[one.label] = []
        except (gemmlab.GemmlabError, ValueError, AttributeError) as error:
            print(f"{one.label}: {' '.join(str(error).split())[:300]}")
    for turn in range(-FIRST_ROUNDS, rounds):
        for one in timed:
            if one.label in found and (seconds := one.seconds()) and turn >= 0:
                found[one.label].append(seconds)
    return found


def parsed(case: str) -> tuple[int, int, int]:
    m, n, k = map(int, case.split("x") if "x" in case else [case] * 3)
    return m, n, k


def some_of(extent: int, most: int) -> np.ndarray:
    return np.sort(np.random.default_rng().choice(extent, min(extent, most), replace=False))


def random(rows: int, columns: int, dtype: str) -> np.ndarray:
    return np.random.default_rng().random((rows, columns), np.float32).astype(dtype) * 2 - 1


if __name__ == "__main__":
    main()
