"""How far a measurement can be believed, and what disturbed it.

A row is measured in turns, between those of other backends. Within a turn samples agree better than between turns,
because whatever disturbs a machine lasts longer than a sample. So it is the turns' own medians that tell how well
the median of all is known. A row has turns until that is well enough, or its time is up. Those that count are calm: a
probe of the machine was as fast as usual just before and just after.

Five things make a row noisy, and the record says which: samples that spread, turns that disagree, time that the host
took away, a probe that was slower or faster beside it than in the rest of the session, and a session in which the
machine was not as fast as it is as a rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median, quantiles, stdev

NOISY_PERCENT = 10.0  # p20 to p80 of the samples
UNSURE_PERCENT = 1.5  # that the median may be off, from the turns: so that two runs agree within twice that
SURE_PERCENT = 1.2  # no more turns are needed
CALM_PERCENT = 3.0  # that a probe may be below the usual one beside a turn that counts
PROBE_PERCENT = 1.0  # that it may be off, either way: beside a row from the session's, in a session from the machine's
STOLEN_PERCENT = 5.0
LEAST_TURNS = 3  # that say anything about how they disagree
LEAST_PROBES = 50  # that say how fast a machine is
TRIMMED = 5  # one in so many at either end
STUDENT = (0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18)  # of 1, 2, ... turns; 95 %
_STAT = Path("/proc/stat")


def error_percent(turns_s: Sequence[float]) -> float | None:
    """How far a time that is known from several turns may be off, in per cent of it; None from too few turns.

    Half of the interval that holds the true mean of such turns in 19 of 20 cases, by Student's distribution. It is the
    interval of their trimmed mean, from five turns on without the fastest fifth and the slowest (J. W. Tukey and D. H.
    McLaughlin, Sankhya A 25, 1963): a few disturbed turns do not move a median.

    Examples
    --------
    >>> round(error_percent([1.00, 1.01, 0.99, 1.00]), 2)
    1.3
    """
    if len(turns_s) < LEAST_TURNS:
        return None
    cut = len(turns_s) // TRIMMED
    inner = sorted(turns_s)[cut : len(turns_s) - cut]
    winsorised = [*inner, *cut * [inner[0], inner[-1]]]
    factor = STUDENT[min(len(inner), len(STUDENT)) - 1]
    return float(100 * factor * stdev(winsorised) * len(turns_s) ** 0.5 / len(inner) / fmean(inner))


def is_sure(turns_s: Sequence[float]) -> bool:
    """Whether more turns would hardly change the median."""
    error = error_percent(turns_s)
    return error is not None and error <= SURE_PERCENT


def is_calm(probes: Sequence[float], usual: float | None) -> bool:
    """Whether the machine was as fast as usual at each of these probes; where nothing was probed, it is taken to be."""
    return usual is None or min(probes, default=usual) >= _slowest_calm(usual)


def drop_percent(probes: Sequence[float], usual: float | None) -> float | None:
    """How far these probes are, on the average, below the usual one, or above: under 0; None where there are none."""
    return 100 * (1 - fmean(probes) / usual) if probes and usual else None


def usual(probes: Sequence[float]) -> float | None:
    """The speed of an undisturbed probe: the middle of those about as fast as that which one in five passes.

    Disturbed ones do not count, however many they are, and a few lucky ones do not move it.

    Examples
    --------
    >>> usual([60, 60, 60, 98, 99, 100, 100, 110])
    100.0
    """
    if len(probes) < 2:
        return median(probes) if probes else None
    least = _slowest_calm(quantiles(probes, n=5)[-1])
    return median(probe for probe in probes if probe >= least)


def _slowest_calm(usual: float) -> float:
    return (1 - CALM_PERCENT / 100) * usual


def reasons(
    noise_percent: float, turns_s: Sequence[float], steal: float | None, drop: float | None, pace: float | None
) -> list[str]:
    """What makes a row noisy, in words; nothing if it is not."""
    error = error_percent(turns_s)
    said = []
    if noise_percent > NOISY_PERCENT:
        said.append(f"samples spread by {noise_percent:.0f} %")
    if error is not None and error > UNSURE_PERCENT:
        said.append(f"turns disagree: the median may be off by {error:.1f} %")
    if steal is not None and steal > STOLEN_PERCENT:
        said.append(f"the host took {steal:.0f} % of the time")
    if drop is not None and abs(drop) > PROBE_PERCENT:
        why = "slower than usual: another load, or a lower clock" if drop > 0 else "faster than usual: a higher clock"
        said.append(f"a fixed probe beside it was {abs(drop):.1f} % {why}")
    if pace is not None and abs(pace) > PROBE_PERCENT:
        how = f"{abs(pace):.1f} % {'faster' if pace > 0 else 'slower'}"
        said.append(f"the machine was {how} throughout than in the sessions before")
    return said


def cpu_ticks() -> tuple[int, int] | None:
    """Clock ticks of all CPUs since the start: those that the host gave to others, and all; None if not told."""
    try:
        fields = [int(field) for field in _STAT.read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    return (fields[7], sum(fields)) if len(fields) == 8 else None


def steal_percent(before: Sequence[tuple[int, int] | None], after: Sequence[tuple[int, int] | None]) -> float | None:
    """Share of the ticks, between each reading before and the one after, that the host gave to others."""
    pairs = [(b, a) for b, a in zip(before, after, strict=True) if b is not None and a is not None]
    ticks = sum(a[1] - b[1] for b, a in pairs)
    return 100 * sum(a[0] - b[0] for b, a in pairs) / ticks if ticks > 0 else None
