"""The inputs of the self-energy, with the names of BerkeleyGW's mini-app; its weights and its closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.complex128]
Integers = npt.NDArray[np.int32]

POLES = ("away", "near")
_MARGIN = 1e-3  # relative distance of random numbers from the guards' thresholds


@dataclass(eq=False)
class Problem:
    """One self-energy: arrays in rows, with the mini-app's names.

    Parameters
    ----------
    aqsm, aqsn
        Matrix elements of `nb` bands: complex, nb x ncouls.
    eps, wt
        Inverse dielectric matrix and plasmon-pole frequencies: complex, ngpown x ncouls.
    vcoul
        Coulomb potential: real, ncouls.
    wx
        Frequencies: real, nend; or nb x nend, where bands have different energies (`frequencies` makes both).
    nvband
        How many bands are occupied, the first.
    indinv, inv_igp_index
        Row p of eps belongs to column ``indinv[inv_igp_index[p]]``, P(p), of aqsm: integers, ncouls + 1 and ngpown.
        Left out, they are the mini-app's.

    Raises
    ------
    ValueError
        Shapes that do not fit each other, or an index that is out of range.

    >>> problem = Problem.constant(8, 2, 64, 4)
    >>> problem.ngpown, problem.nend
    (16, 3)
    """

    aqsm: Numbers
    aqsn: Numbers
    eps: Numbers
    wt: Numbers
    vcoul: Reals
    wx: Reals
    nvband: int
    indinv: Integers = None  # type: ignore[assignment]  # __post_init__ makes it
    inv_igp_index: Integers = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        for name in ("aqsm", "aqsn", "eps", "wt"):
            setattr(self, name, np.ascontiguousarray(getattr(self, name), np.complex128))
        for name in ("vcoul", "wx"):
            given = np.asarray(getattr(self, name))
            if given.dtype.kind == "c":
                raise ValueError(f"{name} is real, not {given.dtype}")
            setattr(self, name, np.ascontiguousarray(given, np.float64))
        if self.aqsm.ndim != 2 or self.eps.ndim != 2 or 0 in (*self.aqsm.shape, *self.eps.shape):
            raise ValueError(f"aqsm and eps are matrices of at least 1 x 1, not {self.aqsm.shape} and {self.eps.shape}")
        nb, ncouls = self.aqsm.shape
        ngpown = len(self.eps)
        if self.indinv is None:
            self.indinv = np.minimum(np.arange(ncouls + 1), ncouls - 1)
        if self.inv_igp_index is None:
            self.inv_igp_index = (np.arange(ngpown) + 1) * ncouls // ngpown
        for name in ("indinv", "inv_igp_index"):
            setattr(self, name, np.ascontiguousarray(getattr(self, name), np.int32))
        wx = (nb, self.wx.shape[-1]) if self.wx.ndim == 2 else (self.wx.size,)
        for name, shape in {
            "aqsn": (nb, ncouls), "eps": (ngpown, ncouls), "wt": (ngpown, ncouls), "vcoul": (ncouls,), "wx": wx,
            "inv_igp_index": (ngpown,),
        }.items():  # fmt: skip
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} has shape {getattr(self, name).shape}; beside aqsm and eps it is {shape}")
        if self.nend == 0:
            raise ValueError("wx is empty: give at least one frequency")
        if not 0 <= self.nvband <= nb:
            raise ValueError(f"nvband is from 0 to the {nb} bands, not {self.nvband}")
        _check_indices("inv_igp_index", self.inv_igp_index, len(self.indinv))
        _check_indices("indinv", self.indinv[self.inv_igp_index], ncouls)

    @classmethod
    def constant(
        cls, nb: int, nvband: int, ncouls: int, nodes_per_group: int, value: complex = 0.5 + 0.5j, vcoul: float = 1.0,
        nend: int = 3,
    ) -> Problem:  # fmt: skip
        """The mini-app's inputs: every complex number is `value`, the potential is `vcoul`."""
        ngpown = rows_of(nb, nvband, ncouls, nodes_per_group, nend)
        bands, rows = (np.full((extent, ncouls), value, np.complex128) for extent in (nb, ngpown))
        return cls(bands, bands, rows, rows, np.full(ncouls, vcoul, np.float64), frequencies(nend), nvband)

    @classmethod
    def random(
        cls, nb: int, nvband: int, ncouls: int, nodes_per_group: int, nend: int = 3, seed: int = 0, poles: str = "away"
    ) -> Problem:
        """Normal complex numbers; poles `wt` that are "away" from all frequencies, or "near" them.

        "Near" poles, with frequencies of both signs, take each branch of both guards in at least 5 % of the terms;
        none is within a thousandth of a guard's threshold.
        """
        ngpown = rows_of(nb, nvband, ncouls, nodes_per_group, nend)
        if poles not in POLES:
            raise ValueError(f"no poles {poles!r}: choose one of {', '.join(POLES)}")
        rng = np.random.default_rng(seed)
        aqsm, aqsn, eps = (_normal(rng, extent, ncouls) for extent in (nb, nb, ngpown))
        if poles == "away":
            wx = frequencies(nend)
            wt = 0.5 + rng.random((ngpown, ncouls)) + 1j * (0.2 + rng.random((ngpown, ncouls)))
        else:
            end = np.arange(nend)
            wx = np.where(end % 2 == 0, -1, 1) * (0.30 + 0.05 * (end // 2 % 3))
            wt = _near(rng, (ngpown, ncouls), wx)
        return cls(aqsm, aqsn, eps, wt, rng.random(ncouls), wx, nvband)

    @property
    def nb(self) -> int:
        """How many bands."""
        return len(self.aqsm)

    @property
    def ncouls(self) -> int:
        """How many columns of eps: G vectors."""
        return int(self.aqsm.shape[1])

    @property
    def ngpown(self) -> int:
        """How many rows of eps."""
        return len(self.eps)

    @property
    def nend(self) -> int:
        """How many frequencies."""
        return int(self.wx.shape[-1])

    def rows(self, first: int, end: int) -> Problem:
        """The part of the problem of some rows of eps. Its arrays are parts of these."""
        part = slice(first, end)
        return replace(self, eps=self.eps[part], wt=self.wt[part], inv_igp_index=self.inv_igp_index[part])

    @property
    def columns(self) -> Integers:
        """P(p): the column of aqsm, and the element of vcoul, of each row of eps."""
        return self.indinv[self.inv_igp_index]

    def closed_form(self) -> Numbers:
        """`ach` of constant inputs, exact but for its last roundings: every term is the same but for vcoul.

        Raises
        ------
        ValueError
            aqsm, aqsn, eps or wt is not constant.

        >>> Problem.constant(8, 2, 64, 4).closed_form().round(6).tolist()
        [(-78.769231+393.846154j), (-40.96+286.72j), (-24.97561+224.780488j)]
        """
        frequencies = self.wx.reshape(-1, self.nend)
        for name, array in {"aqsm": self.aqsm, "aqsn": self.aqsn, "eps": self.eps, "wt": self.wt,
                            "wx": frequencies}.items():  # fmt: skip
            if (array != (array[0] if name == "wx" else array[0, 0])).any():
                raise ValueError(f"closed_form needs constant inputs, and {name} is not: take Problem.constant")
        m, n, eps, wt = (complex(x.flat[0]) for x in (self.aqsm, self.aqsn, self.eps, self.wt))
        hole, _ = weights(np.asarray(wt), frequencies[0])
        total = self.nb * self.ncouls * float(self.vcoul[self.columns].sum())
        found: Numbers = total * 0.5 * (m.conjugate() * n) * eps * hole
        return found


def frequencies(nend: int, e_lk: float = 10.0, e_n1kq: float | npt.ArrayLike = 6.0, dw: float = 1.0) -> Reals:
    """`wx` of the mini-app: e_lk - e_n1kq + dw (w - 1), at least 1e-6; nb x nend if each band has its energy."""
    found = e_lk - np.asarray(e_n1kq, np.float64)[..., None] + dw * (np.arange(nend) - 1)
    return np.where(found < 1e-6, 1e-6, found)


def groups_of_bands(problem: Problem) -> Iterator[tuple[Reals, Any, Any]]:
    """For each group of bands with equal energies: frequencies, its occupied bands, and its others.

    Adjacent bands are a slice, so that nobody copies their rows.
    """
    if problem.wx.ndim == 1:
        yield problem.wx, slice(0, problem.nvband), slice(problem.nvband, problem.nb)
        return
    found, group = np.unique(problem.wx, axis=0, return_inverse=True)
    for number, wx in enumerate(found):
        bands = np.flatnonzero(group.reshape(-1) == number)
        yield wx, _as_slice(bands[bands < problem.nvband]), _as_slice(bands[bands >= problem.nvband])


def _as_slice(bands: npt.NDArray[np.intp]) -> slice | npt.NDArray[np.intp]:
    if len(bands) == 0:
        return slice(0, 0)
    whole = bands[-1] - bands[0] + 1 == len(bands)
    return slice(int(bands[0]), int(bands[-1]) + 1) if whole else bands


def weights(wt: npt.NDArray[Any], wx: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """What multiplies eps in the Coulomb hole and in the screened exchange: `kernels/weights.h` in NumPy."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        far, ratio, away_x, near_x = _guarded(wt, wx)
        away = (np.abs(far) ** 2 > 0.25) & (np.abs(ratio) ** 2 < 250000)
        near = ~away & (far != 0) & (np.abs(ratio) ** 2 > 1e-6)
        exchange = np.where(away, away_x, np.where(near, near_x, 0))
        cut = (wx < 0) & (np.abs(exchange) > 4)
    return np.where(away, ratio, 0), np.where(cut, 0, exchange)


def _guarded(wt: npt.NDArray[Any], wx: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
    """wx - wt, delw, and the exchange's weight away from the poles and near them."""
    far = wx - wt
    delw = wt / far
    return far, delw, delw * wt / (wx + wt), -delw / (4 * delw + 2)


def _near(rng: np.random.Generator, shape: tuple[int, int], wx: Reals) -> Numbers:
    """Poles for each branch: beside a frequency; next to zero; such that the exchange is too large; anywhere."""
    wt = np.empty(shape, np.complex128)
    to_draw = np.ones(shape, bool)
    while to_draw.any():
        count = int(to_draw.sum())
        at = rng.choice(wx, count)
        turn = np.exp(2j * np.pi * rng.random(count))
        drawn = np.stack([
            at + turn * (0.1 + 0.35 * rng.random(count)),
            turn * 1e-4 * (0.1 + rng.random(count)),
            -wx[0] * (1 + turn * (0.02 + 0.06 * rng.random(count))),
            0.5 + rng.random(count) + 1j * (0.2 + rng.random(count)),
        ])  # fmt: skip
        wt[to_draw] = drawn[rng.integers(4, size=count), np.arange(count)]
        to_draw[to_draw] = _at_threshold(wt[to_draw], wx)
    return wt


def _at_threshold(wt: Numbers, wx: Reals) -> npt.NDArray[np.bool_]:
    """Whether some frequency brings a pole within a thousandth of a threshold."""
    far, ratio, away_x, near_x = _guarded(wt[:, None], wx)
    found: npt.NDArray[np.bool_] = np.any([
        (np.abs(np.abs(value) ** power / threshold - 1) < _MARGIN).any(axis=-1)
        for value, power, threshold in (
            (far, 2, 0.25), (ratio, 2, 250000), (ratio, 2, 1e-6), (away_x, 1, 4.0), (near_x, 1, 4.0)
        )
    ], axis=0)  # fmt: skip
    return found


def _normal(rng: np.random.Generator, rows: int, columns: int) -> Numbers:
    pairs: Reals = rng.standard_normal((rows, 2 * columns))
    return pairs.view(np.complex128)


def rows_of(nb: int, nvband: int, ncouls: int, nodes_per_group: int, nend: int) -> int:
    """`ngpown`; ValueError for sizes that make no sense."""
    for name, value in {"nb": nb, "ncouls": ncouls, "nodes_per_group": nodes_per_group, "nend": nend}.items():
        if value < 1:
            raise ValueError(f"{name} is at least 1, not {value}")
    if not 0 <= nvband <= nb:
        raise ValueError(f"nvband is from 0 to nb, which is {nb}, not {nvband}")
    if nodes_per_group > ncouls:
        raise ValueError(f"nodes_per_group is at most ncouls, which is {ncouls}, not {nodes_per_group}")
    return ncouls // nodes_per_group


def _check_indices(name: str, indices: Integers, limit: int) -> None:
    if indices.min() < 0 or indices.max() >= limit:
        raise ValueError(f"{name} has indices from {indices.min()} to {indices.max()}; allowed are 0 to {limit - 1}")
