"""How well a configuration is predicted to suit a product, from the product that it was measured on.

A GPU computes a product in waves: each of its compute units takes one work-group, or several small ones at a time,
and the next wave begins when these are done. A wave takes as long as one group's block of C, whose work grows with k.
So the last wave costs as much as a full one, and of two configurations the one with smaller blocks may be faster for
a small product, though it is slower for a large one.

The time of a wave is that of the measured product without its start, divided by its waves on the device that it was
measured on; the prediction for that product there is thus its measured time.

On a CPU, groups are small and waves many. There the caches decide, and a rate that was measured in L2 says nothing of a
product that does not fit it. So the configuration of the product that is nearest in size is the best guess.
"""

from __future__ import annotations

import math
from dataclasses import replace

from gemmlab._gpu.batches import GemmSize
from gemmlab._gpu.ladder.rung import Rung
from gemmlab._gpu.runtime import Device
from gemmlab._profile import Configuration

START_S = 8e-6  # until a kernel runs and its first tiles have come


def cost(one: Configuration, rung: Rung, device: Device, size: GemmSize) -> float:
    """The less the better: on a GPU the predicted seconds, on a CPU the distance between the two products."""
    if device.kind != "cpu":
        return predicted_s(one, rung, device, size)
    return doublings(one.shape, (size.m, size.n, size.k))


def doublings(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    """How often m, n and k are doubled or halved, taken together, from one product to another."""
    return sum(abs(math.log2(x / y)) for x, y in zip(one, other, strict=True))


def predicted_s(one: Configuration, rung: Rung, device: Device, size: GemmSize) -> float:
    """Seconds for a batch of m x n x k products."""
    measured = GemmSize(*one.shape, 1)
    measured_s = 2e-9 * measured.m * measured.n * measured.k / one.gflop_per_s
    start_s = min(START_S, measured_s / 2)
    measured_on = replace(device, compute_units=one.compute_units or device.compute_units)
    depth = _depth(one, rung, measured_on, measured)
    return start_s + (measured_s - start_s) * _depth(one, rung, device, size) / depth


def _depth(one: Configuration, rung: Rung, device: Device, size: GemmSize) -> float:
    return rung.depth(rung.resolve(one.parameters, device.kind, size, device.compute_units), size, device)
