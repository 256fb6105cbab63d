"""The configurations of a rung that a device can run: data of the rung, `Param.choices` and `Rung.obstacle`.

What cannot run is left out before anything is compiled, and so is what would need more registers than a GPU has for a
work-item or a work-group: the compiler takes long for it, and then keeps numbers in memory instead. A space of up to
`LISTED` combinations is listed as a whole. Of a larger one configurations are drawn, and the neighbours of one are
listed: those that differ from it in one parameter or in two.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import combinations, product
from math import prod

import numpy as np

from gemmlab._gpu.ladder.numbers import NUMBERS
from gemmlab._gpu.ladder.rungs import Rung
from gemmlab._gpu.runtime import Device

LISTED = 20_000
ITEM_REGISTERS, GROUP_REGISTERS = 255, 65536  # of four bytes, of a work-item and a group: NVIDIA's, and about AMD's
DRAWS = 20_000  # before a draw gives up
Values = tuple[int, ...]  # of all parameters, in the rung's order


class Space:
    """The configurations of a rung for a dtype on a device, as tuples of values."""

    def __init__(self, rung: Rung, dtype: str, device: Device) -> None:
        self._rung, self._dtype, self._device = rung, dtype, device
        self.names = tuple(param.name for param in rung.params)
        usual, searched = rung.resolve({}, device.kind), rung.searched(device.kind)
        self.choices = tuple(
            tuple(map(int, param.choices)) if param.name in searched else (usual[param.name],) for param in rung.params
        )
        self.size = prod(map(len, self.choices))
        listed = product(*self.choices) if self.size <= LISTED else ()
        self._all = [values for values in listed if self.can_run(values)]

    def parameters(self, values: Values) -> dict[str, int]:
        """A configuration by the names of its parameters."""
        return dict(zip(self.names, values, strict=True))

    def can_run(self, values: Values) -> bool:
        """Whether it fits the device, as far as the rung's data tell."""
        parameters = self.parameters(values)
        obstacle = self._rung.obstacle(parameters, self._dtype, self._device)
        return obstacle is None and self._has_registers(parameters)

    def _has_registers(self, parameters: dict[str, int]) -> bool:
        if self._device.kind == "cpu":  # its runtime spreads a work-group over vectors, one after the other
            return True
        x, y = self._rung.group(parameters)
        registers = self._rung.registers(parameters) * max(1, NUMBERS[self._dtype].sum_size // 4)
        return registers <= ITEM_REGISTERS and registers * x * y <= GROUP_REGISTERS

    def drawn(self, rng: np.random.Generator, without: Container[Values]) -> Values | None:
        """One configuration at random, each with the same chance; None if none is left, or none can be found."""
        if self.size <= LISTED:
            left = [values for values in self._all if values not in without]
            return left[int(rng.integers(len(left)))] if left else None
        counts = [len(own) for own in self.choices]
        for places in rng.integers(counts, size=(DRAWS, len(counts))):
            values = tuple(own[place] for own, place in zip(self.choices, places, strict=True))
            if values not in without and self.can_run(values):
                return values
        return None

    def neighbours(self, values: Values, distance: int, without: Container[Values]) -> list[Values]:
        """The configurations that differ from one in so many parameters."""
        changed = self._changed(values, distance)
        return [one for one in changed if one not in without and self.can_run(one)]

    def _changed(self, values: Values, distance: int) -> Iterator[Values]:
        for places in combinations(range(len(values)), distance):
            others = [[choice for choice in self.choices[place] if choice != values[place]] for place in places]
            for new in product(*others):
                at = dict(zip(places, new, strict=True))
                yield tuple(at.get(place, value) for place, value in enumerate(values))
