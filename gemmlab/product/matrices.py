"""A matrix in a file, whatever its format: what the product asks of one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from gemmlab._problem import Array, DType
from gemmlab._tiles import cut

Range: TypeAlias = tuple[int, int]  # from the first to before the last
FORMATS = (".npy", ".zarr")


class Matrix(Protocol):
    """A matrix in a file.

    Attributes
    ----------
    path : Path
        The file, or the folder of a Zarr array.
    shape : tuple of int
    dtype : numpy.dtype
        As it is stored: in any byte order.
    by_columns : bool
        Whether neighbours in the file are neighbours in a column.
    overhead_bytes : int
        Memory that `read` or `write` takes besides the caller's.
    """

    path: Path
    shape: tuple[int, int]
    dtype: DType
    by_columns: bool
    overhead_bytes: int

    @property
    def chunks(self) -> tuple[int, int] | None:
        """Rows and columns that are stored, and compressed, together; None if any part can be read alone."""

    def read(self, rows: Range, columns: Range, into: Array) -> Array:
        """A block, converted to the dtype of `into`, a one-dimensional array that is large enough and holds it."""

    def write(self, rows: Range, columns: Range, block: Array) -> None:
        """Store a block, converted to this dtype. It is on disk once `sync` has returned."""

    def sync(self, rows: Range, columns: Range) -> None:
        """Wait until what `write` has stored in these rows and columns is on disk."""

    def identity(self) -> dict[str, object]:
        """Size, time of the last change and header: what tells one content from another without reading it."""

    def close(self) -> None:
        """Close the file."""


def is_zarr(path: Path) -> bool:
    """Whether a path is, or by its name would be, a Zarr array: a folder."""
    return path.suffix == ".zarr" or path.is_dir()


def result_dtype(a: Matrix, b: Matrix) -> DType:
    """The dtype of a product, as numpy.matmul has it. ValueError if the shapes do not agree."""
    if a.shape[1] != b.shape[0]:
        raise ValueError(
            f"{a.path} has {a.shape[1]} columns and {b.path} has {b.shape[0]} rows: they must have as many to multiply"
        )
    return np.matmul.resolve_dtypes((a.dtype, b.dtype, None))[2]


def pieces(matrix: Matrix, most_bytes: int) -> Iterator[tuple[Range, Range]]:
    """Rows and columns of blocks that together are the whole matrix, each read fast and of `most_bytes` if it can."""
    near = 0 if matrix.by_columns else 1  # the axis of neighbours in the file
    steps = matrix.chunks or (1, 1)
    of_step = steps[0] * steps[1] * matrix.dtype.itemsize
    along = min(matrix.shape[near], steps[near] * max(1, most_bytes // of_step))
    across = steps[1 - near]
    if along == matrix.shape[near] > 0:
        across *= max(1, most_bytes // (across * along * matrix.dtype.itemsize))
    sizes = (along, across) if matrix.by_columns else (across, along)
    for rows in cut(matrix.shape[0], sizes[0]):
        for columns in cut(matrix.shape[1], sizes[1]):
            yield rows, columns


def converted(source: Any, target: Array) -> None:
    """Copy numbers into another dtype, as matmul converts its operands."""
    with np.errstate(all="ignore"):
        np.copyto(target, source, casting="unsafe")
