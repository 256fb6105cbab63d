"""Which configuration is the fastest so far, for one dtype and shape, from the entries of a log.

Each configuration was timed in turns with the fastest one at that time. Their ratio says which is faster; the rate
alone would not, since the device's clock changes. A score is the rate of the first configuration that was timed, times
all ratios from it on, so that scores of any two configurations compare. Small errors of many ratios add up, so at the
end the fastest is timed in turns with the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Entry = dict[str, Any]  # a line of a log
Values = tuple[int, ...]
TIMED = ("measured", "slow")  # the outcomes of configurations that are right, as far as they were checked

COSTED = "costed"  # the outcome of an entry that says what a configuration costs: nothing of how fast it is


@dataclass(frozen=True)
class Fastest:
    """The fastest configuration of a backend for one dtype and shape, m x n x k.

    `speedup` is over the defaults; None if the search was ended before the two were compared. `tried` configurations
    were built, of which `failed` did not build, did not end, or were wrong.
    """

    dtype: str
    shape: tuple[int, int, int]
    parameters: Mapping[str, int]
    gflop_per_s: float
    speedup: float | None
    tried: int
    failed: int

    def __str__(self) -> str:
        said = ", ".join(f"{name} {value}" for name, value in self.parameters.items())
        times = "" if self.speedup is None else f", {self.speedup:.2f} times the defaults"
        size = " x ".join(map(str, self.shape))
        counts = f"{self.tried} tried, {self.failed} failed"
        return f"{self.dtype:<10}  {size}: {self.gflop_per_s:.4g} GFLOP/s{times}: {said} ({counts})"


class Ranking:
    """The configurations of one dtype and shape."""

    def __init__(self, dtype: str, shape: tuple[int, int, int]) -> None:
        self.dtype, self.shape = dtype, shape
        self.best: Values | None = None
        self.outcomes: dict[Values, str] = {}
        self.scores: dict[Values, float] = {}  # of those that were timed, the slow ones too
        self.rates: dict[Values, float] = {}  # GFLOP/s of those that passed every check
        self.speedups: dict[Values, float] = {}  # of those that were compared with the defaults
        self.compared: Values | None = None  # what was compared with the defaults since the best was found
        self.kept: dict[Values, bool] = {}  # whether it won

    def add(self, values: Values, entry: Entry) -> None:
        """Take an entry of the log into account; what failed for another shape counts for this one too."""
        if entry["outcome"] == COSTED:
            return
        self.outcomes[values] = entry["outcome"]
        if entry["outcome"] not in TIMED:
            self._leave_out(values)
            return
        if entry.get("against_defaults"):
            self.compared = values
            self.speedups[values] = ratio(entry["times_s"], entry["best_times_s"])
            self.kept[values] = entry.get("kept", self.speedups[values] >= 1)
            if values in self.rates:  # more runs than before
                self.rates[values] = self._rate(entry)
            return
        self.scores[values] = self._score(entry)
        if entry["outcome"] == "measured":
            self.rates[values] = self._rate(entry)
            if self.best is None or self.scores[values] > self.scores[self.best]:
                self.best, self.compared = values, None

    def leaders(self, count: int) -> list[Values]:
        """The fastest ones, the best first."""
        return sorted(self.scores, key=lambda values: -self.scores[values])[:count]

    def best_s(self) -> float | None:
        """Seconds of the best one when it was timed."""
        m, n, k = self.shape
        return None if self.best is None else 2e-9 * m * n * k / self.rates[self.best]

    def fastest(self, names: Sequence[str], defaults: Values) -> Fastest | None:
        """What the last comparison was about, else the best; None if nothing was measured. The defaults, if they
        won that comparison."""
        best = self.best if self.compared is None else self.compared
        if best is None:
            return None
        speedup = 1.0 if best == defaults else self.speedups.get(best)
        if not self.kept.get(best, True) and defaults in self.rates:
            best = defaults
        failed = sum(outcome not in TIMED for outcome in self.outcomes.values())
        named = dict(zip(names, best, strict=True))
        return Fastest(self.dtype, self.shape, named, self.rates[best], 1.0 if best == defaults else speedup,
                       len(self.outcomes), failed)  # fmt: skip

    def _leave_out(self, values: Values) -> None:
        self.scores.pop(values, None)
        self.rates.pop(values, None)
        if self.compared == values:
            self.compared = None
        if self.best == values:
            self.best = max(self.rates, key=lambda one: self.scores[one], default=None)

    def _score(self, entry: Entry) -> float:
        if self.best is None or not entry["best_times_s"]:
            return self._rate(entry)
        return self.scores[self.best] * ratio(entry["times_s"], entry["best_times_s"])

    def _rate(self, entry: Entry) -> float:
        m, n, k = self.shape
        return 2e-9 * m * n * k / float(median(entry["times_s"]))


def ratio(times_s: Sequence[float], best_times_s: Sequence[float]) -> float:
    """How much faster a configuration is than the best so far: the median over turns in which each ran once."""
    return median(best / own for own, best in zip(times_s, best_times_s, strict=True))
