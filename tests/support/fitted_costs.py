"""What configurations cost, from a log of `gemmlab tune` that has times of some shapes but no costs.

    python tests/support/fitted_costs.py tests/tune/logs/opencl-tuned-h100.jsonl

prints the costs of all configurations that were tried on every shape, and how far they are from the times. The logs
that are kept were measured when work-groups that filled no wave shared k in equal parts, each with a whole C.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from gemmlab._gpu.ladder.rungs import RUNG_NAMES, RUNGS
from gemmlab._profile import Cost
from gemmlab.tune.search import log

UNITS, LEAST_DEPTH, MAX_PARTS = 132, 256, 128  # of an H100, and of equal parts of k
LAUNCH_S, MEMORY = 3e-6, 2.9e12  # of that H100: seconds between launches, bytes per second
START_S, NEAR = (1e-6, 1e-4), 1.3  # the range of starts; how near they are to their median
ITEMSIZES = {"float32": 4, "float64": 8}
TUNED = RUNGS[RUNG_NAMES.index("tuned")]
Shape = tuple[int, int, int]


def parts_of(parameters: dict[str, int], shape: Shape) -> int:
    """In how many parts k was cut."""
    (columns, rows), (m, n, k) = TUNED.block(parameters), shape
    tiles = -(-m // rows) * -(-n // columns)
    return max(1, min(UNITS // tiles, k // LEAST_DEPTH, MAX_PARTS))


def seconds(cost: Cost, parameters: dict[str, int], shape: Shape, itemsize: int) -> float:
    """What a product took, by its cost."""
    (columns, rows), (m, n, k) = TUNED.block(parameters), shape
    parts, step = parts_of(parameters, shape), parameters["step_k"]
    groups = -(-m // rows) * -(-n // columns) * parts
    depth = -(-k // parts // step) * step
    found = cost.start_s + depth * max(cost.alone_s, -(-groups // UNITS) * cost.busy_s)
    return found if parts == 1 else found + LAUNCH_S + (2 * parts + 1) * m * n * itemsize / MEMORY


def times(path: Path) -> dict[tuple[str, log.Values], dict[Shape, float]]:
    """The times of each dtype and configuration that was measured on most shapes; the least median of each."""
    _, entries = log.read(path)
    found: dict[Any, dict[Shape, float]] = defaultdict(dict)
    measured: dict[Any, int] = defaultdict(int)
    for entry in entries:
        if times_s := entry.get("times_s"):
            key, shape = (entry["dtype"], log.values_of(entry)), log.shape_of(entry)
            found[key][shape] = min(median(times_s), found[key].get(shape, np.inf))
            measured[key] += entry["outcome"] == "measured"
    return {key: own for key, own in found.items() if measured[key] > len(own) / 3}


def fitted(
    parameters: dict[str, int], of_shapes: dict[Shape, float], dtype: str, starts_s: tuple[float, float]
) -> Cost:  # fmt: skip
    """The cost with the least sum of relative errors, whose start lies in a range."""
    shapes, measured = list(of_shapes), np.log(list(of_shapes.values()))

    def errors(x: np.ndarray) -> np.ndarray:
        cost = Cost(*np.exp(x))
        return np.log([seconds(cost, parameters, shape, ITEMSIZES[dtype]) for shape in shapes]) - measured

    bounds = np.log([starts_s[0], 1e-12, 1e-12]), np.log([starts_s[1], 1, 1])
    begun = [np.log([np.sqrt(np.prod(starts_s)), k_s, k_s / 2]) for k_s in (3e-8, 1.2e-7)]
    tried = [least_squares(errors, x, bounds=bounds, loss="soft_l1", f_scale=0.05) for x in begun]
    best = min(tried, key=lambda one: one.cost)
    return Cost(*(float(f"{x:.4g}") for x in np.exp(best.x)))


@cache
def all_fitted(path: Path) -> dict[tuple[str, log.Values], Cost]:
    """The costs of all configurations of a log.

    What a launch takes is much the same for all, and few shapes tell it: so the start of each is near their median.
    """
    header, _ = log.read(path)

    def all_with(*starts_s: float) -> dict[tuple[str, log.Values], Cost]:
        return {
            (dtype, values): fitted(dict(zip(header["names"], values, strict=True)), of_shapes, dtype, starts_s)
            for (dtype, values), of_shapes in times(path).items()
        }

    middle = median(cost.start_s for cost in all_with(*START_S).values())
    return all_with(middle / NEAR, middle * NEAR)


def main(path: Path) -> None:
    names, measured, off = log.read(path)[0]["names"], times(path), []
    for (dtype, values), cost in all_fitted(path).items():
        parameters = dict(zip(names, values, strict=True))
        for shape, own_s in measured[dtype, values].items():
            off.append(abs(seconds(cost, parameters, shape, ITEMSIZES[dtype]) / own_s - 1))
        print(dtype, *values, cost)
    print(f"{len(off)} times: {np.mean(off):.1%} off on average, half below {np.median(off):.1%}, "
          f"95 % below {np.quantile(off, 0.95):.1%}")  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]))
