"""The configurations of a backend, as tuples of values.

A space of up to `LISTED` combinations is listed as a whole. Of a larger one configurations are drawn, and the
neighbours of one are listed: those that differ from it in one parameter or in two.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import combinations, product
from math import prod

import numpy as np

LISTED = 20_000
DRAWS = 20_000  # before a draw gives up
Values = tuple[int, ...]  # of all parameters, in their order


class Space:
    """All combinations of the choices of each parameter."""

    def __init__(self, choices: Mapping[str, Sequence[int]]) -> None:
        self.names = tuple(choices)
        self.choices = tuple(map(tuple, choices.values()))
        self.size = prod(map(len, self.choices))
        listed = product(*self.choices) if self.size <= LISTED else ()
        self._all = [values for values in listed if self.can_run(values)]

    def parameters(self, values: Values) -> dict[str, int]:
        """A configuration by the names of its parameters."""
        return dict(zip(self.names, values, strict=True))

    def can_run(self, values: Values) -> bool:
        """Whether a configuration is worth a try."""
        return True

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
