"""What measurements must show before they are kept: a difference that noise does not explain.

A record is marked as noisy by the rules of `gemmlab bench` (`measure/noise.py`), and a pair of records also where the
probes beside them differ (`measure/comparison.py`). A difference between marked records counts only where it is larger
than what their intervals leave open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from gemmlab.measure.comparison import Pair


class Undecided(Exception):
    """Noise may explain a difference: what was measured, and its mark."""


@dataclass(frozen=True)
class Disturbed:
    """For a dtype nothing was kept, since noise may explain what was measured."""

    dtype: str
    because: str

    def __str__(self) -> str:
        return f"{self.dtype:<10}  nothing was kept: {self.because}; tune again while the machine does nothing else"


@dataclass(frozen=True)
class Gain:
    """How much faster a choice is than another, over some products."""

    what: str
    pairs: Sequence[Pair]

    @property
    def ratio(self) -> float:
        """The geometric mean of the ratios."""
        return geometric_mean(pair.ratio for pair in self.pairs)

    def is_over(self, gain: float) -> bool:
        """Whether the choice is faster by more than this share; Undecided if noise may explain that it is faster."""
        if self.ratio <= 1 + gain:
            return False
        noisy = next((pair for pair in self.pairs if pair.noisy), None)
        if noisy is not None and geometric_mean(pair.least for pair in self.pairs) <= 1:
            raise Undecided(f"{self.what}: {mark_of(noisy)}")
        return True


def mark_of(pair: Pair) -> str:
    """Why a pair is noisy."""
    marks = (pair.old.get("noisy_because"), pair.new.get("noisy_because"))
    return next(filter(None, marks), f"the machine's speed changed by {abs(pair.machine_percent):.1f} % meanwhile")
