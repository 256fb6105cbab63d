"""`gemmlab tune`: the block sizes that are fastest on this machine, kept in its profile.

One parameter after the other: each of its choices runs in turn with the others, several rounds over, and the best
takes the place of the one in force if it is ahead by more than the rounds differ. What wins is checked on whole numbers
before it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, median
from time import perf_counter
from typing import Any

import numpy as np

from gemmlab import _front, _profile
from gemmlab._api import get_backend, matmul
from gemmlab._errors import UnsupportedProblem

EDGES = (384, 768, 1536)
DTYPES = ("float32", "float64")
LEAST_GAIN = 0.02
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Tuned:
    """What was found for one dtype: the parameters, and the speed with the defaults and with them, in GFLOP/s."""

    dtype: str
    parameters: Mapping[str, int]
    before: float
    after: float

    @property
    def is_better(self) -> bool:
        """Whether the defaults were left; else the profile keeps nothing, so that better defaults may come."""
        return self.after > self.before


def tune(
    backend: str, dtypes: Sequence[str] = DTYPES, *, rounds: int = 7, edges: Sequence[int] = EDGES,
    progress: Progress | None = None,
) -> list[Tuned]:  # fmt: skip
    """Search the parameters of a backend and keep the best in this machine's profile.

    Parameters
    ----------
    backend : str
        One whose products follow the profile: "cpu-packed".
    dtypes : sequence of str
        Each is tuned apart.
    rounds : int
        Times that every choice runs.
    edges : sequence of int
        Edges of the squares that are multiplied; the geometric mean of their speeds decides.

    Returns
    -------
    list of Tuned

    Raises
    ------
    UnsupportedProblem
        For a backend that has nothing to be tuned.
    OSError
        Where the profile cannot be written.
    """
    chosen: Any = get_backend(backend)
    if not hasattr(chosen, "profile_name"):
        raise UnsupportedProblem(f"{chosen.name} does not follow the profile: gemmlab tune takes cpu-packed")
    found, steps = [], len(dtypes) * len(chosen.params)
    for i, dtype in enumerate(dtypes):

        def told(done: int, name: str, i: int = i, dtype: str = dtype) -> None:
            if progress is not None:
                progress(i * len(chosen.params) + done, steps, f"{name}, {dtype}")

        found.append(_tuned(chosen, dtype, rounds, edges, told))
    better = {one.dtype: one.parameters if one.is_better else {} for one in found}
    _profile.store(chosen.profile_name, chosen.name, better)
    chosen.forget()
    _front.settings_changed()  # the compiled way has the old parameters
    return found


def _tuned(chosen: Any, dtype: str, rounds: int, edges: Sequence[int], told: Callable[[int, str], None]) -> Tuned:
    squares = [np.random.default_rng(edge).random((2, edge, edge)).astype(dtype) for edge in edges]
    best = dict(zip(chosen.params, chosen.usual_blocks(dtype, dtype), strict=True))
    defaults = dict(best)
    for done, (name, param) in enumerate(chosen.params.items()):
        told(done, name)
        choices = [best, *({**best, name: value} for value in param.choices if value != best[name])]
        speeds = _speeds(chosen, choices, squares, rounds)
        fastest = max(range(len(choices)), key=lambda i: speeds[i])
        if speeds[fastest] > (1 + LEAST_GAIN) * speeds[0] and _is_right(chosen, dtype, choices[fastest]):
            best = choices[fastest]
    if best == defaults:
        (speed,) = _speeds(chosen, [best], squares, rounds)
        return Tuned(dtype, best, speed, speed)
    before, after = _speeds(chosen, [defaults, best], squares, rounds)
    return Tuned(dtype, best if after > before else defaults, before, max(before, after))


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
            own.append(2e-9 * len(a) ** 3 / median(times[1:]))  # the first touches everything for the others
    return [geometric_mean(own) for own in speeds]


def _is_right(chosen: Any, dtype: str, choice: dict[str, Any]) -> bool:
    rng = np.random.default_rng()
    for m, n, k in ((70, 90, 2100), (519, 613, 777)):
        a, b = rng.integers(-8, 9, (m, k)), rng.integers(-8, 9, (k, n))
        c = matmul(a.astype(dtype), b.astype(dtype), backend=chosen.name, **choice)
        if not np.array_equal(c, (a.astype(float) @ b.astype(float))):
            return False
    return True
