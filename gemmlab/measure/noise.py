"""How far a measured time can be trusted.

A product is timed in rounds (`session.py`), each a few samples. Samples of one round agree better than rounds do,
because a disturbance lasts longer than a sample, and because memory and process are new in each round. So a record has

    median_s          the median of all samples: one disturbed sample does not move it
    p20_s, p80_s      percentiles of all samples; `noise_percent` is 100 (p80 - p20) / median, their spread
    interval_percent  half the 95 % confidence interval of the time, from the medians of the rounds

The interval is that of the trimmed mean of these medians: without the lowest and the highest fifth, by Student's
distribution with the winsorised variance (J. W. Tukey and D. H. McLaughlin, Sankhya A 25, 1963). It needs three rounds.

A record is noisy if the interval is over 2 %: of two runs, such medians agree within 2 sqrt(2) = 2.8 % in 95 of 100
cases, as long as the machine is as fast in both. From fewer than three rounds there is no interval; then it is noisy if
the spread is over 10 %. `noisy_because` says which. Whether the machine was as fast is a question of two runs: a probe
runs beside every round, and `comparison.py` marks pairs whose probes differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

import numpy as np

MAX_INTERVAL_PERCENT = 2.0  # wider: noisy, and worth more rounds
NOISY_PERCENT = 10.0  # spread of the samples, where there is no interval
MIN_ROUNDS = 3  # for an interval
TRIMMED_SHARE = 5  # one in five at either end
STUDENT = (0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18)  # 97.5 %, of 1, 2, ... values


def summarise(samples_s: Sequence[float]) -> dict[str, int | float | bool]:
    """Statistics of one call's time under their names in a record; `samples_s` are seconds a call, at least one sample.

    Examples
    --------
    >>> summarise([0.2, 0.2, 0.2])["median_s"]
    0.2
    """
    if len(samples_s) == 0:
        raise ValueError("no samples to summarise")
    p20, median, p80 = (float(value) for value in np.percentile(samples_s, [20, 50, 80]))
    # A clock too coarse for the work gives zeros: no time, hence no spread.
    noise_percent = 100.0 * (p80 - p20) / median if median > 0 else 0.0
    return {
        "samples": len(samples_s),
        "median_s": median,
        "p20_s": p20,
        "p80_s": p80,
        "min_s": float(min(samples_s)),
        "noise_percent": noise_percent,
        "noisy": noise_percent > NOISY_PERCENT,  # the rule without rounds
    }


def interval_percent(rounds_s: Sequence[float]) -> float | None:
    """Half the 95 % confidence interval of a time, in per cent of it, from one time a round; None from too few.

    Examples
    --------
    >>> round(interval_percent([1.00, 1.01, 0.99, 1.00]), 2)
    1.3
    """
    if len(rounds_s) < MIN_ROUNDS:
        return None
    cut = len(rounds_s) // TRIMMED_SHARE
    inner = sorted(rounds_s)[cut : len(rounds_s) - cut]
    winsorised = [*inner, *cut * [inner[0], inner[-1]]]
    factor = STUDENT[min(len(inner), len(STUDENT)) - 1]
    return float(100 * factor * stdev(winsorised) * len(rounds_s) ** 0.5 / len(inner) / fmean(inner))


def why_noisy(noise_percent: float, interval: float | None) -> str | None:
    """Why a record of this spread and interval is noisy; None if it is not.

    Examples
    --------
    >>> why_noisy(1.0, 2.5)
    'rounds disagree: the 95 % confidence interval is +-2.5 %'
    """
    if interval is not None:
        wide = interval > MAX_INTERVAL_PERCENT
        return f"rounds disagree: the 95 % confidence interval is +-{interval:.1f} %" if wide else None
    return f"samples spread by {noise_percent:.0f} %, p20 to p80" if noise_percent > NOISY_PERCENT else None
