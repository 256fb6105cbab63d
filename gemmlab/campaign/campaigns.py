"""Campaigns: which products of which backends are measured, and how long that may take."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gemmlab.measure.problems import Case, from_files, layers, sized, squares
from gemmlab.measure.session import Settings

SMALLEST_EDGES = (64, 256)
LADDER_EDGE = 256
BRIEF_EDGES, BRIEF_S = (256, 1008), 50.0
QUICK_S, PAGE_S = 106.0, 3.0  # all of a quick report after its start; the page, and what may take longer than planned
ROOFLINE_EDGES = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)

Inputs = tuple[str, str] | None


@dataclass(frozen=True)
class Campaign:
    """What is measured: products, on backends that can run here, and ceilings.

    `ceilings_s` are seconds for the CPU's ceilings; 0 measures the peak alone. With `fresh`, all ceilings are measured,
    also where this machine's are in the cache. `ladder` names GPU rungs that run on a CPU: they have one product,
    N = `LADDER_EDGE`. `limit_s` are seconds for everything: when they are over, each product has the rounds it has.
    """

    cases: Sequence[Case]
    backends: Sequence[str]
    settings: Settings
    ceilings_s: float = 0.0
    fresh: bool = False
    ladder: Sequence[str] = ()
    limit_s: float = math.inf

    @property
    def uses_cache(self) -> bool:
        """Whether ceilings may come from the cache."""
        return self.ceilings_s > 0 and not self.fresh


def quick(inputs: Inputs, backends: Sequence[str], threads: int | None) -> Campaign:
    """As long as leaves time to draw the page within two minutes of the start, at the load that the machine has now."""
    cases = [*squares(True), *sized((256, 512, 1000), "float64", "squares"), *layers(True)]
    settings = Settings(threads=threads, cap_s=0.5, rounds=3, budget_s=0.06)
    limit_s = QUICK_S - PAGE_S * _slowness()
    return Campaign(_with_inputs(cases, inputs), backends, settings, ceilings_s=8.0, limit_s=limit_s)


def full(inputs: Inputs, backends: Sequence[str], threads: int | None) -> Campaign:
    """Squares to N = 4032 in both dtypes, and all layers: tens of minutes."""
    cases = [case for dtype in ("float32", "float64") for suite in (squares, layers) for case in suite(False, dtype)]
    settings = Settings(threads=threads, cap_s=10.0, rounds=7, budget_s=3.0)
    return Campaign(_with_inputs(cases, inputs), backends, settings, ceilings_s=30.0)


def smallest(inputs: Inputs, backends: Sequence[str], threads: int | None) -> Campaign:
    """A few seconds: to see that everything works, not to learn how fast it is."""
    settings = Settings(threads=threads, cap_s=0.2, rounds=1, budget_s=0.05)
    return Campaign(_with_inputs(sized(SMALLEST_EDGES, suite="squares"), inputs), backends, settings, ceilings_s=1.0)


def brief(backends: Sequence[str]) -> Campaign:
    """Within a minute: two sizes of square, for who has no report yet."""
    settings = Settings(cap_s=0.5, rounds=3, budget_s=0.06)
    return Campaign(sized(BRIEF_EDGES, suite="squares"), backends, settings, ceilings_s=3.0, limit_s=BRIEF_S)


def roofline(inputs: Inputs, backends: Sequence[str], threads: int | None) -> Campaign:
    """About a minute on two cores: the ceilings, and squares up to the largest that a backend does within the cap."""
    settings = Settings(threads=threads, cap_s=0.4, rounds=2, budget_s=0.06)
    return Campaign(_with_inputs(sized(ROOFLINE_EDGES, suite="squares"), inputs), backends, settings, ceilings_s=12.0)


CAMPAIGNS = {"quick": quick, "full": full, "smallest": smallest}


def _slowness() -> float:
    """How many times as long one thread's work takes, now that others want the processors too."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return max(1.0, (1 + load) / (os.cpu_count() or 1))


def _with_inputs(cases: Iterable[Case], inputs: Inputs) -> list[Case]:
    """The cases, after the product of a user's matrices if there are any."""
    return list(cases) if inputs is None else [from_files(*inputs), *cases]
