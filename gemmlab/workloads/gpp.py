"""The self-energy of the general plasmon pole (GPP) model, BerkeleyGW's mini-app: a complex product with weights.

    ach[w] += 0.5 v[P] conj(aqsm[n,P]) aqsn[n,g] eps[p,g] hole(wt[p,g], wx[w])            all bands n, rows p, columns g
    asx[w] -=     v[P] conj(aqsm[n,P]) aqsn[n,g] eps[p,g] exchange(wt[p,g], wx[w])        occupied bands
    achs   -= 0.5 v[P] conj(aqsm[n,P]) aqsn[n,g] eps[p,g]                                 the static remainder

`kernels/weights.h` has hole and exchange. They do not depend on the band, so the sum over bands is a product of
matrices, M = conj(Aqsm[:,P])^T Aqsn, which takes nearly all of the work: eight operations for each n, p and g, whatever
the number of frequencies is. Where bands have different energies, the sum is one product for each group of bands with
equal ones.

Source: Fortran mini-app `gppKernel.f90` of BerkeleyGW; the steps are those of the GPP contest write-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
import numpy.typing as npt

import gemmlab
from gemmlab._config import check_threads
from gemmlab._cpu.threads._threads import max_threads
from gemmlab.workloads._gpp import Loops
from gemmlab.workloads.gpp_device import DeviceProblem
from gemmlab.workloads.gpp_problem import Numbers, Problem, Reals, frequencies, groups_of_bands

__all__ = ["FORMS", "DeviceProblem", "Form", "Problem", "SelfEnergy", "frequencies", "self_energy"]

TILE_BYTES = 8 << 20  # of the fused form: a tile of the product, and A's rows for it
TILE_COLUMNS = 1024
MIN_ROWS, MAX_ROWS = 16, 512
PIECES = 20  # of a loop whose progress is shown
Progress = Callable[[int, int], None]  # from the steps that are done, and all steps


@dataclass(frozen=True)
class Form:
    """One way to compute the self-energy: a step of the contest."""

    name: str
    idea: str
    loop: str | None = None  # its name in `_gpp.pyx`; None if it is a product
    on_device: bool = False


FORMS = {form.name: form for form in (
    Form("ngpw", "the loops in the order n, g, p, w: a step of p is a whole row of eps and wt", "ngpw"),
    Form("npgw", "the original order n, p, g, w", "npgw"),
    Form("pgnw", "p, g, n, w: a step of n is a whole row of aqsm and aqsn", "pgnw"),
    Form("hoisted", "npgw; factors without g outside of its loop, no complex division", "hoisted"),
    Form("hoisted-planes", "hoisted; real and imaginary parts in planes of their own", "hoisted-planes"),
    Form("blocked", "n, p, blocks of g, w, g: the inner loop runs in vectors", "blocked"),
    Form("blocked-planes", "blocked; real and imaginary parts in planes of their own", "blocked-planes"),
    Form("factored", "the sum over bands as a product of matrices, stored whole"),
    Form("fused", "the same product in tiles, each weighed while it is in cache"),
    Form("device-loops", "the original loops, a work-item for each row and band", on_device=True),
    Form("device-fused", "the product in tiles, each weighed while it is in registers", on_device=True),
    Form("device-tensor", "the same by the matrix unit of an NVIDIA GPU that has one for float64", on_device=True),
    Form("device-library", "the product by cuBLAS, stored whole; then the weights", on_device=True),
    Form("split", "rows divided among CPU (fused) and device (device-fused) by their measured rates", on_device=True),
)}  # fmt: skip


@dataclass(frozen=True)
class SelfEnergy:
    """The three sums, and where the time went.

    `ach` and `asx` are complex128 of nend, `achs` is complex. `parts_s` has the seconds of each part of the form.
    """

    ach: Numbers
    asx: Numbers
    achs: complex
    form: str
    parts_s: dict[str, float] = field(default_factory=dict)


def self_energy(
    problem: Problem | DeviceProblem, form: str = "factored", backend: str | None = None, threads: int | None = None,
    progress: Progress | None = None,
) -> SelfEnergy:  # fmt: skip
    """The self-energy of a problem, in one of the FORMS.

    Parameters
    ----------
    problem
        The arrays. For the forms on a device also a DeviceProblem, whose arrays are there already.
    form
        A name of FORMS. "factored" stores the product of ngpown x ncouls complex numbers; "fused" needs at most
        64 MiB besides the problem (for up to 100 000 bands), however large it is.
    backend
        Who multiplies complex matrices in "factored" and "fused", as in `gemmlab.matmul`. For the forms on a device
        its runtime, "opencl" (the default), "sycl" or "cuda", or a device such as "opencl:1".
    threads
        At most so many. The loops' results, and those with "cpu-packed", do not depend on it.
    progress
        Called with the steps that are done and their number, by the forms on the CPU.

    Raises
    ------
    ValueError
        No such form; a backend for a form that has no product; a DeviceProblem for a form on the CPU.
    gemmlab.BackendUnavailable, gemmlab.UnsupportedProblem
        No such device, or it cannot compute this form or this problem.

    >>> problem = Problem.constant(8, 2, 64, 4)
    >>> np.allclose(self_energy(problem).ach, problem.closed_form(), rtol=1e-13)
    True
    """
    if form not in FORMS:
        raise ValueError(f"no form {form!r}: choose one of {', '.join(FORMS)}")
    if FORMS[form].on_device:
        return _on_device(problem, form, backend, check_threads(threads))
    if isinstance(problem, DeviceProblem):
        raise ValueError(f"form {form!r} is computed by the CPU: give it the Problem, not the DeviceProblem")
    if FORMS[form].loop is not None and backend is not None:
        raise ValueError(f"form {form!r} has no product for backend {backend!r}: leave the backend out")
    run = _Run(problem, backend, check_threads(threads), progress)
    if (loop := FORMS[form].loop) is not None:
        run.by_loops(loop)
    elif form == "factored":
        run.by_product(run.ngpown, run.ncouls)
    else:
        run.by_product(*fused_tile(problem))
    return run.result(form)


def _on_device(problem: Problem | DeviceProblem, form: str, backend: str | None, threads: int | None) -> SelfEnergy:
    parts_s: dict[str, float] = {}
    if isinstance(problem, Problem):
        problem = DeviceProblem(problem, backend or "opencl")
        parts_s["transfers"] = problem.transfers_s
    elif backend not in (None, problem.backend):
        raise ValueError(f"the problem is on {problem.backend}, not on {backend}: leave the backend out")
    if form == "split":
        return _split(problem, threads, parts_s)
    sums, parts_s["kernels"] = problem.start(form).finish()
    return _result(sums, form, parts_s)


def _split(resident: DeviceProblem, threads: int | None, parts_s: dict[str, float]) -> SelfEnergy:
    """CPU and device at the same time; each gets rows in proportion to the rate that it had last.

    At first each computes a 64th of the rows, which shows the rates.
    """
    problem = resident.problem
    sums = np.zeros(2 * problem.nend + 1, np.complex128)
    rows = range(problem.ngpown)
    while rows:
        if resident.cpu_share is None:
            of_cpu = min(len(rows) // 2, -(-len(rows) // 64))
            here = rows[: max(1, of_cpu)]
        else:
            of_cpu = round(len(rows) * resident.cpu_share)
            here = rows[: len(rows) - of_cpu]
        there, rows = rows[len(rows) - of_cpu :], rows[len(here) : len(rows) - of_cpu]
        pending = resident.start("device-fused", here) if here else None
        start = perf_counter()
        if there:
            run = _Run(problem.rows(there.start, there.stop), None, threads)
            run.by_product(*fused_tile(run.problem))
            sums += run.sums.sum(axis=0)
            cpu_s = perf_counter() - start
            parts_s["CPU"] = parts_s.get("CPU", 0.0) + cpu_s
        if pending is not None:
            found, kernels_s = pending.finish()
            sums += found
            parts_s["device"] = parts_s.get("device", 0.0) + kernels_s
            if there:
                a_row = kernels_s / len(here)
                resident.cpu_share = a_row / (a_row + cpu_s / len(there))
    return _result(sums, "split", parts_s)


def _result(sums: Numbers, form: str, parts_s: dict[str, float]) -> SelfEnergy:
    nend = len(sums) // 2
    return SelfEnergy(sums[:nend], sums[nend:-1], complex(sums[-1]), form, parts_s)


def fused_tile(problem: Problem) -> tuple[int, int]:
    """Rows and columns of the fused form's tiles: A's rows, and one of the product, take at most 8 MiB each."""
    rows = max(MIN_ROWS, min(MAX_ROWS, TILE_BYTES // (16 * problem.nb)))
    pieces = -(-problem.ngpown // rows)
    return -(-problem.ngpown // pieces), min(TILE_COLUMNS, problem.ncouls)


class _Run:
    """One computation: the rows' sums, and the seconds of its parts."""

    def __init__(
        self, problem: Problem, backend: str | None, threads: int | None, progress: Progress | None = None
    ) -> None:
        self.problem, self.backend, self.threads, self.progress = problem, backend, threads, progress
        self.nb, self.ncouls, self.ngpown, self.nend = problem.nb, problem.ncouls, problem.ngpown, problem.nend
        self.kernels = Loops()
        self.team = threads or max_threads()
        self.sums = np.zeros((0, 2 * self.nend + 1), np.complex128)
        self.parts_s: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        start = perf_counter()
        yield
        self.parts_s[name] = self.parts_s.get(name, 0.0) + perf_counter() - start

    def done(self, steps: int, count: int) -> None:
        if self.progress is not None:
            self.progress(steps, count)

    def result(self, form: str) -> SelfEnergy:
        return _result(self.sums.sum(axis=0), form, self.parts_s)

    def by_loops(self, loop: str) -> None:
        """All terms, one after the other."""
        x = self.problem
        self.sums = np.zeros((self.ngpown if loop.startswith("p") else self.nb, 2 * self.nend + 1), np.complex128)
        bands_im = rows_im = 1
        arrays = [x.aqsm, x.aqsn, x.eps, x.wt]
        if loop.endswith("planes"):
            with self.part("planes"):
                aqsm, aqsn, eps, wt = (np.concatenate([array.real, array.imag]) for array in arrays)
            bands_im, rows_im = x.aqsm.size, x.eps.size
        else:
            aqsm, aqsn, eps, wt = map(_pairs, arrays)
        count = len(self.sums)
        step = count if self.progress is None else max(self.team, -(-count // PIECES))
        for first in range(0, count, step):
            with self.part("loops"):
                self.kernels.run(
                    loop, aqsm, aqsn, eps, wt, x.vcoul, x.wx.reshape(-1, self.nend), np.ascontiguousarray(x.columns),
                    x.nvband, bands_im, rows_im, self.sums, first, min(first + step, count), self.team,
                )  # fmt: skip
            self.done(min(first + step, count), count)

    def by_product(self, rows: int, columns: int) -> None:
        """Products of bands with equal energies, in tiles of rows x columns, each weighed at once."""
        x = self.problem
        self.sums = np.zeros((self.ngpown, 2 * self.nend + 1), np.complex128)
        vcoul = x.vcoul[x.columns]
        memory = np.empty((2, rows * columns), np.complex128)
        groups = list(groups_of_bands(x))
        steps = 0
        for wx, occupied, others in groups:
            for top in range(0, self.ngpown, rows):
                here = slice(top, min(top + rows, self.ngpown))
                with self.part("operands"):
                    left = [self._left(bands, here) for bands in (others, occupied)]
                for first in range(0, self.ncouls, columns):
                    tile = here, slice(first, min(first + columns, self.ncouls))
                    with self.part("product"):
                        product, of_occupied = (
                            self._multiply(a, x.aqsn[bands, tile[1]], space)
                            for a, bands, space in zip(left, (others, occupied), memory, strict=True)
                        )
                    with self.part("weights"):
                        self._weigh(product, of_occupied, tile, vcoul[here], wx)
                    steps += (here.stop - here.start) * (tile[1].stop - tile[1].start)
                    self.done(steps, len(groups) * self.ngpown * self.ncouls)

    def _left(self, bands: slice | npt.NDArray[np.intp], rows: slice) -> Numbers:
        """conj(Aqsm[bands, P(rows)])^T, in rows."""
        picked = np.ascontiguousarray(self.problem.aqsm[bands][:, self.problem.columns[rows]].T)
        return np.conj(picked, out=picked)

    def _multiply(self, a: Numbers, b: Numbers, space: Numbers) -> Numbers | None:
        """a @ b in the first elements of `space`; None for a product over no bands."""
        if a.shape[1] == 0:
            return None
        out = space[: a.shape[0] * b.shape[1]].reshape(a.shape[0], b.shape[1])
        return gemmlab.matmul(a, b, out=out, backend=self.backend, threads=self.threads)

    def _weigh(
        self, product: Numbers | None, occupied: Numbers | None, tile: tuple[slice, slice], vcoul: Reals, wx: Reals
    ) -> None:
        x = self.problem
        if product is None:  # every band is occupied
            assert occupied is not None
            product = np.zeros_like(occupied)
        self.kernels.weigh(
            _pairs(product), None if occupied is None else _pairs(occupied), _pairs(x.eps[tile]), _pairs(x.wt[tile]),
            vcoul, wx, self.sums[tile[0]], self.team,
        )  # fmt: skip


def _pairs(array: Numbers) -> Reals:
    """Complex numbers as pairs of real ones."""
    pairs: Reals = array.view(np.float64)
    return pairs
