"""Products of device arrays: the time of the kernels by the device's events, all backends in turn.

    python bench/devices/on_device.py cuda-cublas opencl-tuned cuda-tuned --cases 2048 4096 --layouts NN NT TN TT padded

A case is a square or m x n x k, `odd` for the twelve odd, tall, wide and deep shapes below, or `drawn:SEED:COUNT`: a
third of them squares, the others tall, wide, deep and thin, of 1e9 to 4e12 operations. The first backend is the one
that the others are compared with. A backend may have parameters: opencl-tuned[tile_x=16,step_k=16]. A dtype may be of
both, the operands and the result: "int8 into int32". Operands are uniform in -1 to 1, integers of their whole range;
each product is checked against its error bound in some elements before it is timed. `padded`: rows of A, B and C with
64 elements between them. Of rungs it says how far the prediction that chose their parameters is from the time.

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
from statistics import fmean, geometric_mean, median
from typing import Any

import numpy as np

import gemmlab
from gemmlab._gpu import configurations
from gemmlab._gpu.backend import RungBackend
from gemmlab._gpu.batches import GemmSize, Operand
from gemmlab._gpu.ladder.numbers import of_both
from gemmlab._problem import Problem
from gemmlab.verify.dtypes import dtype_of

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
        found = re.findall(r"(\w+)=(\w+)", params)
        self.given = {key: int(value) if value.isdigit() else value for key, value in found}
        self.of_operands, self.of_result = map(dtype_of, of_both(dtype))

    def place(self, a: np.ndarray, b: np.ndarray, layout: str) -> None:
        m, n, k = len(a), b.shape[1], len(b)
        padding = PADDING if layout == "padded" else 0
        self.size = GemmSize(m, n, k, 1)
        self.a, self.b = (self._operand(x, side == "T", padding) for x, side in zip((a, b), layout[:2], strict=True))
        out = np.empty((m, n + padding), self.of_result)
        out.view(np.uint8)[:] = 0xFF  # NaN, where there is one
        self.c = Operand(self.queue.allocate(out.nbytes), 0, n + padding)
        self.queue.upload(self.c.memory, out)
        self.problem = Problem.from_call(a, b, dtype=self.of_result if self.of_result != self.of_operands else None)
        if (refusal := self.backend.supports(self.problem)) is not True:
            raise ValueError(refusal)
        self.params = self.backend.resolve(self.problem, self.given)
        if "T" in layout and not self.backend.accepts_transposed(self.queue.device):
            raise ValueError("it takes row-major operands alone")

    def _operand(self, x: np.ndarray, transposed: bool, padding: int) -> Operand:
        held = x.T if transposed else x
        rows = np.zeros((held.shape[0], held.shape[1] + padding), self.of_operands)
        rows[:, : held.shape[1]] = held
        memory = self.queue.allocate(rows.nbytes)
        self.queue.upload(memory, rows)
        return Operand(memory, 0, rows.shape[1], 0, transposed)

    def seconds(self) -> float:
        product = self.backend.multiply(self.queue, self.params, self.dtype, self.size, self.a, self.b, self.c)
        return float(product.kernel_s)

    def predicted_s(self) -> float | None:
        """What the rung's model says of the product, before it is measured."""
        if self.given or not isinstance(self.backend, RungBackend):
            return None
        found = configurations.prediction(self.backend, self.queue, self.problem)
        return None if found is None else found.seconds

    def result(self) -> np.ndarray:
        out = np.empty((self.size.m, self.c.ld), self.of_result)
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
    timed = [one for name in options.backends if (one := available(name, options.dtype)) is not None]
    if options.clblast_tuned:
        tune_clblast(options.clblast_tuned)
    print(f"{options.dtype} on {timed[0].queue.device.label}, driver {timed[0].queue.device.driver}", flush=True)
    ratios: dict[str, list[float]] = {}
    errors: dict[str, list[float]] = {}  # of predictions
    for case in options.cases:
        for m, n, k in shapes(case):
            a, b = (random(*shape, of_both(options.dtype)[0]) for shape in ((m, k), (k, n)))
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
                        if (predicted_s := one.predicted_s()) is not None:
                            said[-1] += f", predicted {predicted_s / middle - 1:+.0%}"
                            errors.setdefault(f"{one.label} {layout}", []).append(abs(predicted_s / middle - 1))
                print(f"{m} x {n} x {k} {layout}: " + "; ".join(said), flush=True)
    for what, every in ratios.items():
        print(f"{what} over {timed[0].label}, geometric mean of {len(every)}: {geometric_mean(every):.3f}", flush=True)
    for what, every in errors.items():
        print(f"{what}: predictions are {fmean(every):.1%} off on average, {max(every):.1%} at most", flush=True)


def available(given: str, dtype: str) -> Timed | None:
    """A backend; None, with a line, where it cannot run."""
    try:
        return Timed(given, dtype)
    except gemmlab.BackendUnavailable as error:
        print(f"{given}: {error}")
        return None


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
            bound = one.backend.error(one.problem, **one.given)
            error = gemmlab.verify.error_over_bound(a, b, one.result(), rows=rows, columns=columns, error=bound)
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


def shapes(case: str) -> list[tuple[int, int, int]]:
    """What a case stands for."""
    if case == "odd":
        return list(ODD)
    if case.startswith("drawn:"):
        seed, count = map(int, case.split(":")[1:])
        return drawn(np.random.default_rng(seed), count)
    m, n, k = map(int, case.split("x") if "x" in case else [case] * 3)
    return [(m, n, k)]


def drawn(rng: np.random.Generator, count: int) -> list[tuple[int, int, int]]:
    """Extents are log-uniform: squares from 200 to 12000, of which a third are odd, then tall, wide, deep and thin."""

    def between(least: float, most: float) -> int:
        return round(float(np.exp(rng.uniform(np.log(least), np.log(most)))))

    found: list[tuple[int, int, int]] = []
    while len(found) < count:
        kind, large, small, other = len(found) % 6, between(4000, 65536), between(16, 1000), between(200, 12000)
        square = other | 1 if rng.random() < 1 / 3 else other & ~1
        shape = [
            (square,) * 3, (square,) * 3, (large, small, other), (small, large, other), (small, other, large),
            (other, large, between(8, 300)),
        ][kind]  # fmt: skip
        if 1e9 <= 2 * np.prod(shape, dtype=float) <= 4e12:
            found.append(shape)
    return found


def some_of(extent: int, most: int) -> np.ndarray:
    return np.sort(np.random.default_rng().choice(extent, min(extent, most), replace=False))


def random(rows: int, columns: int, dtype: str) -> np.ndarray:
    rng, numbers = np.random.default_rng(), dtype_of(dtype)
    if numbers.kind == "i":
        limits = np.iinfo(numbers)
        return rng.integers(limits.min, limits.max, (rows, columns), numbers, endpoint=True)
    return (rng.random((rows, columns), np.float32) * 2 - 1).astype(numbers)


if __name__ == "__main__":
    main()
