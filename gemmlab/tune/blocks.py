"""`gemmlab tune cpu-packed`: the block sizes that are fastest on this machine, and what a team of threads costs.

One parameter after the other: its choices are measured as backends are, each in an isolated process, in interleaved
rounds. The fastest replaces the current one if it is faster by more than `MIN_GAIN`, and noise does not explain that.
Its products of integers are checked for exact results before it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from statistics import geometric_mean, median
from time import perf_counter
from typing import Any

import numpy as np

from gemmlab import _profile
from gemmlab._api import get_backend, matmul
from gemmlab._cpu import _driver, isa
from gemmlab.measure import Session, Settings, sized
from gemmlab.measure.comparison import is_good, ratio
from gemmlab.measure.noise import interval_percent, summarise, why_noisy
from gemmlab.measure.records import Record
from gemmlab.roofline.ceilings.probe_loop import COMMAND
from gemmlab.tune.evidence import Disturbed, Gain, Undecided

EDGES = (384, 768, 1536)
MIN_GAIN = 0.02
BUDGET_S = 0.5  # of timing of a choice at an edge
UNTUNED = {"bool", "bfloat16"}  # products of bool are no sums; NumPy has no bfloat16
TEAM_EDGE = 96  # of the product that shows the cost of a team
TEAM_CALLS = 50  # of it in a sample
MORE_ROUNDS = 6  # times as many where the rounds of it disagree
STEPS = 100  # of progress, for each stage
Blocks = dict[str, Any]  # parameters
Measure = Callable[[Sequence[Blocks]], Sequence[Record]]  # records of several choices
Progress = Callable[[int, int, str], None]


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
    dtypes: Sequence[str], rounds: int, edges: Sequence[int], progress: Progress | None
) -> list[Tuned | Disturbed]:
    """Search the parameters of cpu-packed, and store the best of each dtype that no noise disturbed."""
    chosen: Any = get_backend("cpu-packed")
    known = sorted({dtype for dtype, _ in chosen.kernels} - UNTUNED)
    if wrong := next((dtype for dtype in dtypes if dtype not in known), None):
        raise ValueError(f"{chosen.name}: dtype must be one of {', '.join(known)}, not {wrong!r}")
    stages = _stages(progress, len(dtypes) * (len(chosen.params) + 1))
    with Session(probe_command=COMMAND) as session:

        def measured(dtype: str, choices: Sequence[Blocks]) -> Sequence[Record]:
            settings = Settings(params={chosen.name: choices}, rounds=rounds, budget_s=BUDGET_S, cap_s=5.0)
            return session.measure([chosen.name], sized(edges, dtype), settings, progress=next(stages))

        found = [_tuned_or_disturbed(chosen, dtype, rounds, partial(measured, dtype)) for dtype in dtypes]
    kept = {one.dtype: one.stored() for one in found if isinstance(one, Tuned)}
    if kept:
        _profile.store(isa.profile_name(), chosen.name, kept)
    return found


def _stages(progress: Progress | None, count: int) -> Iterator[Progress]:
    """For each of `count` measurements, what shows its progress as a part of all."""

    def show(stage: int, done: int, total: int, doing: str) -> None:
        if progress is not None:
            progress(STEPS * stage + STEPS * done // total, STEPS * count, doing)

    return (partial(show, stage) for stage in range(count))


def _tuned_or_disturbed(chosen: Any, dtype: str, rounds: int, measure: Measure) -> Tuned | Disturbed:
    try:
        return _tuned(chosen, dtype, rounds, measure)
    except Undecided as noise:
        return Disturbed(dtype, str(noise))


def _tuned(chosen: Any, dtype: str, rounds: int, measure: Measure) -> Tuned:
    defaults = dict(zip(chosen.params, chosen.usual_blocks(dtype, dtype), strict=True))
    best, speed = defaults, 0.0
    for name, param in chosen.params.items():
        choices = [best, *({**best, name: value} for value in param.choices if value != best[name])]
        speed, gains = _gains(name, choices, measure(choices))
        fastest = max(gains, key=lambda i: gains[i].ratio, default=0)
        if fastest and gains[fastest].is_over(MIN_GAIN) and _is_right(chosen, dtype, choices[fastest]):
            best = choices[fastest]
    cost = {"team_flop": _team_flop(chosen, dtype, best, rounds)}
    if best == defaults:
        return Tuned(dtype, best | cost, speed, speed)
    speed, gains = _gains("all together", [defaults, best], measure([defaults, best]))
    if 1 in gains and gains[1].is_over(0):
        return Tuned(dtype, best | cost, speed, speed * gains[1].ratio)
    return Tuned(dtype, defaults | cost, speed, speed)


def _gains(what: str, choices: Sequence[Blocks], records: Sequence[Record]) -> tuple[float, dict[int, Gain]]:
    """The speed of the first choice in GFLOP/s, the geometric mean over the edges; and what each other one gains, by
    its place, if it was measured at all edges of the first."""
    times: dict[int, dict[int, Record]] = {}
    for record in filter(is_good, records):
        with suppress(ValueError):
            times.setdefault(choices.index(record["params"]), {})[record["problem"]["n"]] = record
    first = times.pop(0, {})
    if not first:
        reason = next((record["reason"] for record in records if record["reason"]), "no time")
        raise Undecided(f"{what}: the parameters in force were not measured ({reason})")
    gains = {
        i: Gain(f"{what} {choices[i].get(what, '')}".strip(), [ratio(first[edge], own[edge]) for edge in first])
        for i, own in sorted(times.items()) if own.keys() >= first.keys()
    }  # fmt: skip
    return geometric_mean(record["gflop_per_s"] for record in first.values()), gains


def _team_flop(chosen: Any, dtype: str, blocks: Blocks, rounds: int) -> int:
    """The cost of a team of two, in flop of one thread: from a small product, on one thread and on all.

    At most a factor of eight from the default. Undecided where the rounds disagree, and the default is within what
    their intervals leave open.
    """
    usual, team = chosen.usual_team_flop(dtype, dtype), _driver.max_threads()
    if team == 1:
        return int(usual)
    seconds = _team_seconds(chosen, dtype, blocks, rounds, team)
    together, alone = median(seconds[team]), median(seconds[1])
    flop = (together / alone - 1 / team) * 2 * TEAM_EDGE**3 * 6 / (team + 4)
    marks = [_mark(own) for own in seconds.values()]
    if any(mark for _, mark in marks):
        off = sum(percent for percent, _ in marks) / 100 * together / alone * 2 * TEAM_EDGE**3 * 6 / (team + 4)
        if flop - off <= usual <= flop + off:
            raise Undecided(f"what a team of threads costs: {next(mark for _, mark in marks if mark)}")
    return int(min(max(flop, usual / 8), usual * 8))


def _team_seconds(chosen: Any, dtype: str, blocks: Blocks, rounds: int, team: int) -> dict[int, list[float]]:
    """Seconds of a call of the small product, in each round, by the number of threads; more rounds if they disagree."""
    a, b = np.random.default_rng(TEAM_EDGE).random((2, TEAM_EDGE, TEAM_EDGE)).astype(dtype)
    out = np.empty_like(a)
    seconds: dict[int, list[float]] = {1: [], team: []}
    for number in range(-1, MORE_ROUNDS * rounds):  # the first one warms up
        if number >= rounds and not any(mark for _, mark in map(_mark, seconds.values())):
            break
        for threads, own in seconds.items():
            start = perf_counter()
            for _ in range(TEAM_CALLS):
                chosen.kernel.run(a, b, out, threads=threads, **blocks)
            if number >= 0:
                own.append((perf_counter() - start) / TEAM_CALLS)
    return seconds


def _mark(rounds_s: Sequence[float]) -> tuple[float, str | None]:
    """By how many per cent a time may be wrong, and why it is noisy."""
    spread, interval = summarise(rounds_s)["noise_percent"], interval_percent(rounds_s)
    return spread if interval is None else interval, why_noisy(spread, interval)


def _is_right(chosen: Any, dtype: str, choice: dict[str, Any]) -> bool:
    rng = np.random.default_rng()
    for m, n, k in ((70, 90, 2100), (519, 613, 777)):
        a, b = rng.integers(-8, 9, (m, k)), rng.integers(-8, 9, (k, n))
        c = matmul(a.astype(dtype), b.astype(dtype), backend=chosen.name, **choice)
        if not np.array_equal(c, (a.astype(float) @ b.astype(float))):
            return False
    return True
