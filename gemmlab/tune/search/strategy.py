"""Which configuration comes next.

First the defaults and what is known to be good. Then a random sample, for a quarter of the time and of at most `SAMPLE`
configurations: it finds out which part of the space is fast. Then neighbours of the fastest, in random order: a
good configuration is seldom alone. The fastest one's come first, then those of the next `LEADERS`, then those of the
fastest that differ in two parameters. Every `AGAIN`-th one is random again, since there may be a better part. Where
several shapes are tuned together, they take turns.

Nothing comes twice, so a small space is searched as a whole, and the search ends when it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gemmlab.tune.search.ranking import Ranking
from gemmlab.tune.search.space import Space, Values

SAMPLE, SAMPLE_SHARE = 100, 0.25
LEADERS = 5
AGAIN = 5


class Strategy:
    """Proposes configurations of a space that are not in `tried`, to which it adds them."""

    def __init__(
        self, space: Space, rankings: Sequence[Ranking], tried: set[Values], first: Sequence[Values],
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self._space, self._rankings, self._tried, self._rng = space, rankings, tried, rng
        self._first = [values for values in first if space.can_run(values)]
        self._turn = 0

    def next(self, share: float) -> Values | None:
        """The next configuration, when this share of the time has gone; None if there is no other."""
        found = self._proposed(share)
        if found is not None:
            self._tried.add(found)
        return found

    def _proposed(self, share: float) -> Values | None:
        while self._first:
            if (values := self._first.pop(0)) not in self._tried:
                return values
        self._turn += 1
        sampling = share < SAMPLE_SHARE and len(self._tried) < SAMPLE
        near = None if sampling or self._turn % AGAIN == 0 else self._near_the_fastest()
        return near or self._space.drawn(self._rng, self._tried)

    def _near_the_fastest(self) -> Values | None:
        leaders = self._rankings[self._turn % len(self._rankings)].leaders(LEADERS)
        for distance, around in ((1, leaders), (2, leaders[:1])):
            for leader in around:
                if near := self._space.neighbours(leader, distance, self._tried):
                    return near[int(self._rng.integers(len(near)))]
        return None
