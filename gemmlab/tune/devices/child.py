"""A process that builds configurations of a rung, or tries them; it is asked as `measure/isolated` says.

    hello    backend, folder                     open the device
    describe                                     say what the device is
    build    dtype, parameters                   compile one configuration into the program cache in `folder`
    trial    dtype, shape, parameters, best      check one configuration, and time it in turns with the best so far
    cost     dtype, parameters                   what predictions of its time are made of, on a GPU

Many such processes build at the same time. One alone tries, since trials share the device. A trial has an answer for
whatever happens, except for a crash or a hang: then the process is started again.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import gemmlab
from gemmlab._config import config
from gemmlab._gpu.batches import GemmSize
from gemmlab._gpu.configurations import device_key
from gemmlab._gpu.configurations.check import fault, odd_size, rounded
from gemmlab._gpu.ladder.rung import row_major
from gemmlab._process.child_server import serve_timed
from gemmlab._process.children import Answer
from gemmlab.measure.isolated.worker import ResidentProduct, check
from gemmlab.measure.problems import Case, operands
from gemmlab.tune.search.ranking import COSTED, ratio

RUNS = 5  # of a configuration and of the best, in turns; twice as many if it is ahead
SLOW = 1.5  # times as long as the best: no more runs
SHORT_S, REPEATS = 10e-3, 2  # a slow first run as short as this may be an accident, and is repeated
SHORT_K, LONG_K = 512, 2048
MANY = 8  # work-groups for each compute unit: more than it holds of most, and a multiple of what it holds
LEAST_START_S = 1e-7
COMMANDS = ("hello", "describe", "build", "trial", "cost")
Parameters = Mapping[str, Any]


class Child:
    """One rung on one device."""

    def __init__(self) -> None:
        self._backend: Any = None
        self._rung: Any = None
        self._dtype = ""
        self._products: dict[tuple[int, ...], ResidentProduct] = {}  # by shape, of the dtype
        self._best_s: dict[tuple[int, ...], float] = {}  # seconds of the best so far, by shape

    def hello(self, backend: str, folder: str) -> Answer:
        """Open the device. Programs are cached in `folder`: thousands of them, of which few will be used again."""
        config.cache_dir = Path(folder)
        os.environ["POCL_CACHE_DIR"] = str(Path(folder, "pocl"))
        self._backend = gemmlab.get_backend(backend)
        self._rung = self._backend.rung.on(self._backend.queue.device.kind)
        return {}

    def describe(self) -> Answer:
        """The device, with the local memory that it really has, and the kernel's text."""
        queue = self._backend.queue
        return {
            "device": asdict(queue.device) | {"local_bytes": queue.static_local_bytes},
            "key": device_key(queue.device),
            "caches_programs": queue.caches_programs,
            "text_sha256": sha256((queue.prelude() + self._rung.text).encode()).hexdigest(),
        }

    def build(self, dtype: str, parameters: Parameters) -> Answer:
        """Compile one configuration."""
        start, queue, odd = perf_counter(), self._backend.queue, odd_size(*self._rung.block(parameters))
        for m, n, k in (odd, rounded(odd)):  # where vectors fit, the text may be another one
            size = GemmSize(m, n, k, 1)
            for one in self._rung.launches(parameters, dtype, size, row_major(size), queue.device):
                queue.kernel(one.text, one.name, one.macros)
        return {"build_s": perf_counter() - start}

    def trial(self, dtype: str, shape: list[int], parameters: Parameters, best: Parameters | None) -> Answer:
        """Check one configuration and time it. It ends early where the configuration is wrong, or clearly slow."""
        odd = odd_size(*self._rung.block(parameters))
        if reason := fault(self._backend, odd, parameters, dtype):
            return {"outcome": "wrong", "reason": reason}
        product = self._product(dtype, shape)
        if best is not None and tuple(shape) not in self._best_s:
            self._best_s[tuple(shape)] = min(kernel_s(product, best) for _ in range(2))
        best_s = self._best_s[tuple(shape)] if best is not None else math.inf
        product.poison()
        first_s = kernel_s(product, parameters)
        if first_s > SLOW * best_s and first_s < SHORT_S:
            first_s = min(first_s, *(kernel_s(product, parameters) for _ in range(REPEATS)))
        if first_s > SLOW * best_s:
            return {"outcome": "slow", "times_s": [first_s], "best_times_s": [best_s]}
        error = check(product.a, product.b, product.result())
        if not error <= 1:
            return {"outcome": "wrong", "reason": f"its error is {error:.3g} times the bound"}
        times = _in_turns(product, parameters, best)
        self._best_s[tuple(shape)] = median(times["best_times_s"] or times["times_s"])
        if best is None or ratio(**times) > 1:
            self._best_s[tuple(shape)] = median(times["times_s"])
        return {"outcome": "measured", "error_over_bound": error, **times}

    def cost(self, dtype: str, parameters: Parameters) -> Answer:
        """The cost of a configuration, from products that give each compute unit one work-group, or many."""
        products = (1, SHORT_K), (1, LONG_K), (MANY, LONG_K)
        short_s, long_s, many_s = (self._even_s(dtype, parameters, groups, k) for groups, k in products)
        alone_s = (long_s - short_s) / (LONG_K - SHORT_K)
        start_s = max(short_s - SHORT_K * alone_s, LEAST_START_S)
        cost = {"start_s": start_s, "alone_s": alone_s, "busy_s": (many_s - start_s) / (MANY * LONG_K)}
        return {"outcome": COSTED, "cost": {name: float(f"{seconds:.4g}") for name, seconds in cost.items()}}

    def _even_s(self, dtype: str, parameters: Parameters, groups: int, k: int) -> float:
        """Seconds of a product of so many blocks of C for each compute unit, none of which is shared."""
        count, (columns, rows) = groups * self._backend.device.compute_units, self._rung.block(parameters)
        down = max(x for x in range(1, math.isqrt(count) + 1) if count % x == 0)
        case = Case("tune", "cost", down * rows, count // down * columns, k, dtype)
        product, values = ResidentProduct(self._backend, *operands(case), {}), {**parameters, **self._rung.for_parts}
        kernel_s(product, values)
        return median(kernel_s(product, values) for _ in range(RUNS))

    def _product(self, dtype: str, shape: list[int]) -> ResidentProduct:
        """The product of a shape, with operands that stay on the device."""
        if dtype != self._dtype:
            self._products, self._best_s, self._dtype = {}, {}, dtype
        m, n, k = shape
        if (m, n, k) not in self._products:
            case = Case("tune", f"{m} x {n} x {k}", m, n, k, dtype)
            self._products[m, n, k] = ResidentProduct(self._backend, *operands(case), {})
        return self._products[m, n, k]


def _in_turns(product: ResidentProduct, parameters: Parameters, best: Parameters | None) -> dict[str, list[float]]:
    """Seconds of a configuration and of the best, one after the other; more of them if the configuration is ahead."""
    times: dict[str, list[float]] = {"times_s": [], "best_times_s": []}
    for _ in range(2):
        for _ in range(RUNS):
            times["times_s"].append(kernel_s(product, parameters))
            if best is not None:
                times["best_times_s"].append(kernel_s(product, best))
        if best is None or ratio(**times) <= 1:
            break
    return times


def kernel_s(product: ResidentProduct, parameters: Parameters) -> float:
    """Seconds of one product by the device's clock."""
    with gemmlab.trace() as calls:
        product.start(**parameters)
    seconds = calls[-1].kernel_s
    if seconds is None or not 0 < seconds < math.inf:
        raise RuntimeError("the device does not measure the time of its kernels")
    return seconds


def main() -> None:
    """Answer commands from standard input."""
    child = Child()
    serve_timed({name: getattr(child, name) for name in COMMANDS})


if __name__ == "__main__":
    main()
