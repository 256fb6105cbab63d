"""Timing a loop that takes a number of threads and a number of iterations: enough of them for the clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import perf_counter

MIN_SAMPLES, USUAL_SAMPLES = 5, 20
MIN_SAMPLE_S = 1e-3
MORE = 1.1  # times the iterations that should be enough, so that the next try is likely the last
PATIENCE, MIN_PATIENCE_S = 2.0, 0.1  # times the seconds asked for, on a busy machine: then fewer samples will do


@dataclass(frozen=True)
class Timing:
    """Seconds of one iteration in each sample, and how many iterations a sample has."""

    samples_s: list[float]
    calls_per_sample: int


def time_loop(run: Callable[[int, int], float], threads: int, seconds: float, calls: int = 1) -> Timing:
    """Time `run(threads, iterations)` for about `seconds`; `calls` iterations a sample are where the search begins.

    How many iterations make a sample is found on one thread: on a busy machine, waking the others can take longer than
    the loop itself. Where `calls` was found before, one try is enough. There are at least `MIN_SAMPLES`, unless they
    take far longer than asked for.
    """
    start = perf_counter()
    sample_s = max(MIN_SAMPLE_S, seconds / USUAL_SAMPLES)
    tries = 3 if calls == 1 else 1
    while (elapsed := _first_below(sample_s, (run(1, calls) for _ in range(tries)))) is not None:
        calls = math.ceil(calls * min(10.0, MORE * sample_s / max(elapsed, 1e-9)))
    if threads > 1:
        run(threads, calls)  # wakes the others
    patience_s = perf_counter() + max(PATIENCE * seconds, MIN_PATIENCE_S)
    samples = [run(threads, calls) / calls]
    while (now := perf_counter()) - start < seconds or (len(samples) < MIN_SAMPLES and now < patience_s):
        samples.append(run(threads, calls) / calls)
    return Timing(samples, calls)


def _first_below(limit: float, values: Iterable[float]) -> float | None:
    return next((value for value in values if value < limit), None)
