"""How long a product is predicted to take with a configuration.

Each compute unit of a GPU computes its share of a product's work-groups, some at a time. A step of k takes as long as
one group's latency or, where a unit has groups enough to hide that, as all their work:

    seconds = start + k * max(alone, groups of a unit * busy)

`gemmlab tune` measures the three for each configuration that it keeps (`_profile.Cost`). Groups that share tiles are
as deep as their share of k, and their sums are written, read and added by a second launch. No product is faster than
memory, from which A and B come and to which C goes. What a launch takes and how fast memory is are probed on the device
(`rates.py`), so a card is predicted by what another of its architecture measured, scaled by their clocks.

On a CPU, groups are small and many. There the caches decide, and a rate that was measured in L2 says nothing of a
product that does not fit it. So the configuration of the product that is nearest in size is the best guess.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass

from gemmlab._gpu.batches import GemmSize
from gemmlab._gpu.configurations.rates import Rates
from gemmlab._gpu.ladder.rung import Rung, RungParams
from gemmlab._gpu.runtime import Device
from gemmlab._profile import Configuration, Cost

START_S = 8e-6  # of configurations whose cost was not measured: until a kernel runs and its first tiles have come


@dataclass(frozen=True)
class Prediction:
    """The seconds of a product, and what they are made of."""

    start_s: float
    multiply_s: float
    add_s: float
    memory_s: float

    @property
    def seconds(self) -> float:
        """All of it; at least what memory takes."""
        return max(self.start_s + self.multiply_s + self.add_s, self.memory_s)

    def __str__(self) -> str:
        parts = ("multiplying", self.multiply_s), ("starting", self.start_s), ("adding shares", self.add_s)
        said = ", ".join(f"{name} {_said(seconds)}" for name, seconds in parts if seconds)
        if self.seconds == self.memory_s:
            said = "as memory takes"
        return f"{_said(self.seconds)} are predicted: {said}"


def _said(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} us"


def fastest(
    one: Configuration, rung: Rung, device: Device, size: GemmSize, itemsize: int, rates: Rates
) -> tuple[RungParams, Prediction]:
    """The parameters of a configuration with what is fitted to the size, and their prediction."""
    cost = at_clock(device, one, one.cost or derived_cost(one, rung, device))
    tried = rung.candidates(rung.resolve(one.parameters, device.kind), size, device)
    predictions = [predicted(cost, params, rung, device, size, itemsize, rates) for params in tried]
    return min(zip(tried, predictions, strict=True), key=lambda found: found[1].seconds)


def predicted(
    cost: Cost, params: RungParams, rung: Rung, device: Device, size: GemmSize, itemsize: int, rates: Rates
) -> Prediction:
    """What a batch of products takes on a GPU with parameters of this cost, and `shares` fitted to it."""
    work = rung.work(params, size, device)
    multiply_s = sum(
        depth * max(cost.alone_s, -(-groups // device.compute_units) * cost.busy_s) for groups, depth in work.groups
    )
    add_s = rates.launch_s + 2 * work.sums * itemsize / rates.memory if work.sums else 0.0  # written, and read
    numbers = size.batch * (size.m * size.k + size.k * size.n + size.m * size.n)
    return Prediction(cost.start_s, multiply_s, add_s, numbers * itemsize / rates.memory)


def at_clock(device: Device, one: Configuration, cost: Cost) -> Cost:
    """A cost on a device whose largest clock differs from that of the one that was measured: cycles stay."""
    if not (one.clock_mhz and device.clock_mhz):
        return cost
    return Cost(*(seconds * one.clock_mhz / device.clock_mhz for seconds in astuple(cost)))


def derived_cost(one: Configuration, rung: Rung, device: Device) -> Cost:
    """The cost of which only the rate of one product is known: of small groups, several run at a time."""
    m, n, k = one.shape
    seconds = 2e-9 * m * n * k / one.gflop_per_s
    start_s = min(START_S, seconds / 2)
    units, size = one.compute_units or device.compute_units, GemmSize(m, n, k, 1)
    params = rung.resolve(one.parameters, device.kind, size, units)
    at_a_time = rung.at_a_time(params, 1)
    depth = sum(depth * max(at_a_time, -(-groups // units)) for groups, depth in rung.work(params, size, device).groups)
    busy_s = (seconds - start_s) / depth if depth else 0.0
    return Cost(start_s, at_a_time * busy_s, busy_s)


def doublings(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    """How often m, n and k are doubled or halved, taken together, from one product to another."""
    return sum(abs(math.log2(x / y)) for x, y in zip(one, other, strict=True))
