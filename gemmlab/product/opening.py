"""The matrix in a file, by the file's name."""

from __future__ import annotations

from pathlib import Path

from gemmlab._errors import UnsupportedProblem
from gemmlab.product.matrices import Matrix, is_zarr
from gemmlab.product.npy import NpyMatrix
from gemmlab.product.zarrs import ZarrMatrix
from gemmlab.verify.dtypes import DTYPES


def open_matrix(path: Path, *, writable: bool = False) -> Matrix:
    """The matrix in a file. ValueError or UnsupportedProblem if it holds none that can be multiplied."""
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
