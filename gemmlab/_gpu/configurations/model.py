"""How well a configuration is predicted to suit a product, from the product that it was measured on.

A GPU computes a product in waves: each of its compute units takes one work-group, or several small ones at a time,
and the next wave begins when these are done. A wave takes as long as one group's block of C, whose work grows with k.
So the last wave costs as much as a full one, and of two configurations the one with smaller blocks may be faster for
a small product, though it is slower for a large one.

The time of a wave is that of the measured product without its start, divided by its waves; the prediction for that
product is thus its measured time.

On a CPU, groups are small and waves many. There the caches decide, and a rate that was measured in L2 says nothing of a
product that does not fit it. So the configuration of the product that is nearest in size is the best guess.
"""

from __future__ import annotations

import math

from gemmlab._gpu.batches import GemmSize
from gemmlab._gpu.ladder.rungs import Rung
from gemmlab._gpu.runtime import Device
from gemmlab._profile import Configuration

FULL = 256  # work-items that keep a compute unit busy
START_S = 8e-6  # until a kernel runs and its first tiles have come


def cost(one: Configuration, rung: Rung, device: Device, size: GemmSize) -> float:
    """The less the better: on a GPU the predicted seconds, on a CPU the distance between the two products."""
    if device.kind != "cpu":
        return predicted_s(one, rung, device.kind, size, device.compute_units)
    return doublings(one.shape, (size.m, size.n, size.k))


def doublings(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    """How often m, n and k are doubled or halved, taken together, from one product to another."""
    return sum(abs(math.log2(x / y)) for x, y in zip(one, other, strict=True))


def predicted_s(one: Configuration, rung: Rung, kind: str, size: GemmSize, compute_units: int) -> float:
    """Seconds for a batch of m x n x k products on a device of this kind and number of compute units."""
    measured = GemmSize(*one.shape, 1)
    measured_s = 2e-9 * measured.m * measured.n * measured.k / one.gflop_per_s
    parameters = rung.resolve(one.parameters, kind)
    start_s = min(START_S, measured_s / 2)
    steps = _steps(parameters, rung, measured, compute_units)
    return start_s + (measured_s - start_s) * _steps(parameters, rung, size, compute_units) / steps


def _steps(parameters: dict[str, int], rung: Rung, size: GemmSize, compute_units: int) -> int:
    """Steps of k that a compute unit takes, in all waves."""
    columns, rows = rung.block(parameters)
    parts = rung.parts(rung.fitted(parameters, size, compute_units))
    groups = -(-size.m // rows) * -(-size.n // columns) * parts * size.batch
    at_a_time = compute_units * max(1, FULL // math.prod(rung.group(parameters)))
    return -(-groups // at_a_time) * -(-size.k // parts)
