"""Whether a self-energy is right: against the closed form, or sums in extended precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gemmlab.workloads.gpp import FORMS, SelfEnergy
from gemmlab.workloads.gpp_problem import Problem, weights

LIMIT = 1e-10  # of a result that is not simply wrong
ROWS = 4  # of eps, summed in extended precision


@dataclass(frozen=True)
class Check:
    """How far a result is from a true one, relative to the sum of all terms' magnitudes."""

    against: str
    error: float

    @property
    def ok(self) -> bool:
        """Whether the error is within LIMIT."""
        return self.error <= LIMIT


def check(problem: Problem, found: SelfEnergy, compute: Callable[[Problem], SelfEnergy]) -> Check:
    """Check `found` by the closed form, where it applies; else what `compute` finds for some rows of eps."""
    try:
        true = problem.closed_form()
    except ValueError:
        rows = np.unique(np.linspace(0, problem.ngpown - 1, ROWS).astype(int))
        part = replace(problem, eps=problem.eps[rows], wt=problem.wt[rows], inv_igp_index=problem.inv_igp_index[rows])
        return Check(f"{len(rows)} rows in extended precision", largest_error(compute(part), part))
    return Check("the closed form of ach", float((abs(found.ach - true) / abs(true)).max()))


def bound(problem: Problem, form: str) -> float:
    """The largest error that a form may have: for loops, that of adding one row's or band's terms in a chain."""
    if FORMS[form].loop is None and form != "device-loops":
        return 1e-13
    outer = problem.nb if form == "pgnw" else problem.ngpown
    return float(np.finfo(np.float64).eps) * (outer * problem.ncouls + problem.nb + problem.ngpown + 200)


def exact(problem: Problem) -> tuple[SelfEnergy, SelfEnergy]:
    """All three sums, and those of the terms' magnitudes, in extended precision."""
    wide, column = np.clongdouble, problem.columns
    nend, bands = problem.nend, problem.wx.reshape(-1, problem.nend)
    sums, sizes = np.zeros((3, nend), wide), np.zeros((3, nend), np.longdouble)
    eps, wt = problem.eps.astype(wide), problem.wt.astype(wide)
    v = problem.vcoul.astype(np.longdouble)[column, None]
    for group in np.unique(bands, axis=0):
        of_group = np.broadcast_to((bands == group).all(axis=1), problem.nb)
        for occupied in (True, False):
            here = of_group & ((np.arange(problem.nb) < problem.nvband) == occupied)
            a, b = problem.aqsm[here][:, column].conj().T.astype(wide), problem.aqsn[here].astype(wide)
            product, size = v * (a @ b) * eps, v * (abs(a) @ abs(b)) * abs(eps)
            for w in range(nend):
                hole, exchange = weights(wt, group.astype(np.longdouble)[w])
                terms = (hole / 2, -exchange * occupied, -np.full_like(hole, 0.5))
                for number, weight in enumerate(terms):
                    sums[number, w] += (product * weight).sum()
                    sizes[number, w] += (size * abs(weight)).sum()
    return SelfEnergy(sums[0], sums[1], sums[2, 0], "exact"), SelfEnergy(sizes[0], sizes[1], sizes[2, 0], "sizes")


def largest_error(found: SelfEnergy, problem: Problem) -> float:
    """The largest error of all three sums, each over the sum of its terms' magnitudes."""
    true, size = exact(problem)
    of_sums = np.array([*(found.ach - true.ach), *(found.asx - true.asx), found.achs - true.achs])
    sizes = np.array([*size.ach, *size.asx, size.achs]).real
    return float(abs(np.where(sizes > 0, of_sums / np.where(sizes > 0, sizes, 1), of_sums)).max())
