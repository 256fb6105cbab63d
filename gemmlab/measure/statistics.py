"""What a handful of timed samples says: a middle, a spread, and whether to believe it.

The median stands for the speed, because one interrupted sample does not move it. The 20th and 80th
percentiles stand for the spread, and their distance relative to the median is the noise. Noise is
reported with each result instead of being averaged away; `noise.py` has what else makes a result doubtful.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gemmlab.measure.noise import NOISY_PERCENT


def summarise(samples_s: Sequence[float]) -> dict[str, Any]:
    """Statistics of one call's time, under the names they have in a record.

    Parameters
    ----------
    samples_s : sequence of float
        Seconds a call, one number a timed sample; at least one.

    Returns
    -------
    dict
        ``samples``, ``median_s``, ``p20_s``, ``p80_s``, ``min_s``, ``noise_percent``
        (100 (p80 - p20) / median) and ``noisy`` (whether that is over `NOISY_PERCENT`).

    Raises
    ------
    ValueError
        If there is no sample.

    Examples
    --------
    >>> summarise([0.2, 0.2, 0.2])["median_s"]
    0.2
    """
    if len(samples_s) == 0:
        raise ValueError("no samples to summarise")
    p20, median, p80 = (float(value) for value in np.percentile(samples_s, [20, 50, 80]))
    # A clock too coarse for the work gives zeros: no time, hence no noise to speak of.
    noise_percent = 100.0 * (p80 - p20) / median if median > 0 else 0.0
    return {
        "samples": len(samples_s),
        "median_s": median,
        "p20_s": p20,
        "p80_s": p80,
        "min_s": float(min(samples_s)),
        "noise_percent": noise_percent,
        "noisy": noise_percent > NOISY_PERCENT,
    }
