"""`gemmlab tune cpu-packed`: the block sizes that are fastest on this machine, and what a team of threads costs.

One parameter after the other: its choices run in interleaved rounds, and the fastest replaces the current one if it is
faster by more than `MIN_GAIN`. Its products of integers are checked for exact results before it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from statistics import geometric_mean, median
from time import perf_counter
from typing import Any

import numpy as np

from gemmlab import _profile
from gemmlab._api import get_backend, matmul
from gemmlab._cpu import _driver, isa

EDGES = (384, 768, 1536)
MIN_GAIN = 0.02
UNTUNED = {"bool", "bfloat16"}  # products of bool are no sums; NumPy has no bfloat16
TEAM_EDGE = 96  # of the product that shows the cost of a team
Report = Callable[[str], None]


@dataclass(frozen=True)
class Tuned:
    """The result for one dtype: the parameters, and the speed with the defaults and with them, in GFLOP/s."""

    dtype: str
    parameters: Mapping[str, int]
    before: float
    after: float

    def __str__(self) -> str:
        said = ", ".join(f"{name} {value}" for name, value in self.parameters.items())
        return f"{self.dtype:<10}  {said}: {self.after:.4g} GFLOP/s, before {self.before:.4g}"

    def stored(self) -> Mapping[str, int]:
        """What the profile stores: block sizes only if they beat the defaults, which may improve later."""
        cost = {"team_flop": self.parameters["team_flop"]}
        return self.parameters if self.after > self.before else cost


def tune_blocks(
    dtypes: Sequence[str], rounds: int, edges: Sequence[int], progress: Callable[[int, int, str], None] | None
) -> list[Tuned]:
    """Search the parameters of cpu-packed and store the best."""
    chosen: Any = get_backend("cpu-packed")
    known = sorted({dtype for dtype, _ in chosen.kernels} - UNTUNED)
    if wrong := next((dtype for dtype in dtypes if dtype not in known), None):
        raise ValueError(f"{chosen.name}: dtype must be one of {', '.join(known)}, not {wrong!r}")
    steps = count()

    def report(step: str) -> None:
        if progress is not None:
            progress(next(steps), len(dtypes) * len(chosen.params), step)

    found = [_tuned(chosen, dtype, rounds, edges, report) for dtype in dtypes]
    _profile.store(isa.profile_name(), chosen.name, {one.dtype: one.stored() for one in found})
    return found


def _tuned(chosen: Any, dtype: str, rounds: int, edges: Sequence[int], report: Report) -> Tuned:
    squares = [np.random.default_rng(edge).random((2, edge, edge)).astype(dtype) for edge in edges]
    best = dict(zip(chosen.params, chosen.usual_blocks(dtype, dtype), strict=True))
    defaults = dict(best)
    for name, param in chosen.params.items():
        report(f"{name}, {dtype}")
        choices = [best, *({**best, name: value} for value in param.choices if value != best[name])]
        speeds = _speeds(chosen, choices, squares, rounds)
        fastest = max(range(len(choices)), key=lambda i: speeds[i])
        if speeds[fastest] > (1 + MIN_GAIN) * speeds[0] and _is_right(chosen, dtype, choices[fastest]):
            best = choices[fastest]
    cost = {"team_flop": _team_flop(chosen, dtype, best, rounds)}
    if best == defaults:
        (speed,) = _speeds(chosen, [best], squares, rounds)
        return Tuned(dtype, best | cost, speed, speed)
    before, after = _speeds(chosen, [defaults, best], squares, rounds)
    return Tuned(dtype, (best if after > before else defaults) | cost, before, max(before, after))


def _team_flop(chosen: Any, dtype: str, blocks: dict[str, int], rounds: int) -> int:
    """The cost of a team of two, in flop of one thread: from a small product, on one thread and on all.

    At most a factor of eight from the default, so that one disturbed measurement does no lasting harm.
    """
    usual, team = chosen.usual_team_flop(dtype, dtype), _driver.max_threads()
    if team == 1:
        return int(usual)
    a, b = np.random.default_rng(TEAM_EDGE).random((2, TEAM_EDGE, TEAM_EDGE)).astype(dtype)
    out, calls = np.empty_like(a), 50
    seconds: dict[int, list[float]] = {1: [], team: []}
    for _ in range(rounds + 1):
        for threads, own in seconds.items():
            start = perf_counter()
            for _ in range(calls):
                chosen.kernel.run(a, b, out, threads=threads, **blocks)
            own.append((perf_counter() - start) / calls)
    alone, together = (median(own[1:]) for own in seconds.values())
    flop = (together / alone - 1 / team) * 2 * TEAM_EDGE**3 * 6 / (team + 4)
    return int(min(max(flop, usual / 8), usual * 8))


def _speeds(chosen: Any, choices: Sequence[dict[str, Any]], squares: Sequence[Any], rounds: int) -> list[float]:
    """GFLOP/s of each choice, the geometric mean over the squares of medians over interleaved rounds."""
    speeds: list[list[float]] = [[] for _ in choices]
    for a, b in squares:
        out = np.empty_like(a)
        seconds: list[list[float]] = [[] for _ in choices]
        for _ in range(rounds + 1):
            for i, choice in enumerate(choices):
                start = perf_counter()
                matmul(a, b, out=out, backend=chosen.name, **choice)
                seconds[i].append(perf_counter() - start)
        for own, times in zip(speeds, seconds, strict=True):
            own.append(2e-9 * len(a) ** 3 / median(times[1:]))  # the first one warms up
    return [geometric_mean(own) for own in speeds]


def _is_right(chosen: Any, dtype: str, choice: dict[str, Any]) -> bool:
    rng = np.random.default_rng()
    for m, n, k in ((70, 90, 2100), (519, 613, 777)):
        a, b = rng.integers(-8, 9, (m, k)), rng.integers(-8, 9, (k, n))
        c = matmul(a.astype(dtype), b.astype(dtype), backend=chosen.name, **choice)
        if not np.array_equal(c, (a.astype(float) @ b.astype(float))):
            return False
    return True
