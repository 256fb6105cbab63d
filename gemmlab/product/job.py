"""What comes before the work, on either engine: open the inputs, refuse what cannot be, lock the journal."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from gemmlab._errors import UnsupportedProblem
from gemmlab._problem import DType
from gemmlab.product import identity
from gemmlab.product.journal import Journal, check_system
from gemmlab.product.matrices import Matrix, is_zarr, result_dtype
from gemmlab.product.npy import NpyMatrix
from gemmlab.product.output import Output
from gemmlab.product.plan import Tiling
from gemmlab.product.zarrs import ZarrMatrix
from gemmlab.verify.dtypes import DTYPES

PathLike: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class Result:
    """A product that was computed, and how.

    Attributes
    ----------
    path : Path
        The output; if its check has failed, still under its temporary name.
    m, n, k : int
        A is m x k, B is k x n.
    dtype : str
        Of the output.
    engine : str
        "tiles": this process; "dask": a cluster.
    backend : str
        Who multiplied.
    plan : Tiling or None
        The tiles; None on a cluster.
    tiles_found : int
        Tiles that an earlier run had finished.
    share_found : float
        The share of all work that earlier runs had done, of 0 to 1.
    checked_by : str
        How the product was checked.
    error : float
        The error that the check found over its bound. Over 1: wrong.
    seconds : float
        Of everything.
    parts_s : dict of str to float
        Where the time went: read, multiply, write, check.
    gflop : float
        Work of this run, 2 m n k / 10^9 without what was found.
    """

    path: Path
    m: int
    n: int
    k: int
    dtype: str
    engine: str
    backend: str
    plan: Tiling | None
    tiles_found: int
    share_found: float
    checked_by: str
    error: float
    seconds: float
    parts_s: dict[str, float]
    gflop: float

    @property
    def ok(self) -> bool:
        """Whether the product has passed its check."""
        return self.error <= 1

    @property
    def gflop_per_s(self) -> float:
        """Work over the time of all but the check."""
        seconds = sum(part for name, part in self.parts_s.items() if name != "check")
        return self.gflop / seconds if seconds > 0 else 0.0


@dataclass(frozen=True)
class Job:
    """A product that may begin, or go on."""

    a: Matrix
    b: Matrix
    dtype: DType
    shape: tuple[int, int]
    output: Output
    journal: Journal

    @property
    def sizes(self) -> tuple[int, int, int]:
        """m, n and k."""
        return (*self.shape, self.a.shape[1])

    def header(self, engine: str, backend: Mapping[str, object]) -> dict[str, object]:
        """What the first line of the journal says of the product. CannotResume if what was begun is another."""
        asked = {
            "engine": engine, **_of_inputs(self.a, self.b), "dtype": self.dtype.name, **backend, **identity.of_build(),
        }  # fmt: skip
        if self.journal.header is not None:
            self.journal.compare(asked)
            if not (self.journal.checked or self.output.part.exists()):
                raise self.journal.cannot_resume(f"{self.output.part} is missing")
        return asked

    @property
    def written(self) -> Path:
        """Where the output is: a process may have been killed when it had given it its name."""
        part = self.output.part
        return self.output.path if self.journal.checked and not part.exists() else part

    def refuse_changed_inputs(self) -> None:
        """CannotResume if a file is not what it was when the work began."""
        self.journal.compare(_of_inputs(self.a, self.b))


@contextmanager
def prepared(*paths: PathLike) -> Iterator[Job]:
    """The job of A, B and the output; within the block, no other process works on this output."""
    check_system()
    with ExitStack() as stack:
        a_path, b_path, out_path = map(Path, paths)
        a, b = (stack.enter_context(closing(open_matrix(path))) for path in (a_path, b_path))
        dtype, shape = result_dtype(a, b), (a.shape[0], b.shape[1])
        output = Output(out_path, a_path, b_path)
        yield Job(a, b, dtype, shape, output, stack.enter_context(Journal(output.journal)))


def open_matrix(path: Path, *, writable: bool = False) -> Matrix:
    """The matrix in a file, by its name. ValueError or UnsupportedProblem if it holds none that can be multiplied."""
    found: Matrix
    if is_zarr(path):
        found = ZarrMatrix(path, writable=writable)
    else:
        found = NpyMatrix(path, writable=writable)
    if len(found.shape) != 2:
        raise ValueError(f"{path} must hold a matrix, and is of shape {found.shape}: reshape it to two dimensions")
    if found.dtype.name not in DTYPES:
        raise UnsupportedProblem(f"{path} is of {found.dtype}: convert it to one of {', '.join(DTYPES)}")
    return found


def _of_inputs(a: Matrix, b: Matrix) -> dict[str, object]:
    """What tells these operands from others."""
    return {f"{what} of {name}": value for name, one in (("A", a), ("B", b)) for what, value in one.identity().items()}
