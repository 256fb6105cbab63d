"""A matrix in a .npy file, by plain reads and writes at an offset.

A memory map would be shorter, but its pages count as this process's memory for as long as the system has no other use
for them, so that no limit on memory could be kept. A column-major file is read as its transpose, which is row-major.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gemmlab._errors import UnsupportedProblem
from gemmlab._files import read_at, reserve, sync, write_at
from gemmlab._problem import Array, DType
from gemmlab._tiles import cut
from gemmlab._words import printable, shortened
from gemmlab.product.matrices import Range, converted

CONVERTED_BYTES = 1 << 20  # so many at once, in the dtype of the file


class NpyMatrix:
    """A matrix in a .npy file; see `Matrix`."""

    chunks = None
    overhead_bytes = 0  # but for CONVERTED_BYTES

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        self.path = path
        mapped = _mapped(path)
        self.shape: tuple[int, int] = mapped.shape  # type: ignore[assignment]  # `open_matrix` refuses others
        self.dtype: DType = mapped.dtype
        self.by_columns = mapped.flags.f_contiguous and not mapped.flags.c_contiguous
        self._offset = mapped.offset
        self._descriptor = os.open(path, os.O_RDWR if writable else os.O_RDONLY)

    def close(self) -> None:
        os.close(self._descriptor)

    def identity(self) -> dict[str, object]:
        status = os.fstat(self._descriptor)
        header = os.pread(self._descriptor, self._offset, 0)
        return {
            "bytes": status.st_size,
            "time of change (ns)": status.st_mtime_ns,
            "header (SHA-256)": hashlib.sha256(header).hexdigest(),
        }

    def read(self, rows: Range, columns: Range, into: Array) -> Array:
        if self.by_columns:
            return self._block(columns, rows, self.shape[0], into).T
        return self._block(rows, columns, self.shape[1], into)

    def _block(self, rows: Range, columns: Range, width: int, into: Array) -> Array:
        """Rows and columns of a row-major file with rows of `width` numbers."""
        height, wide = rows[1] - rows[0], columns[1] - columns[0]
        block = into[: height * wide].reshape(height, wide)
        if self.dtype == into.dtype:
            self._read_rows(rows[0], columns, width, block)
            return block
        for first, last in cut(height, CONVERTED_BYTES // max(1, wide * self.dtype.itemsize)):
            stored = np.empty((last - first, wide), self.dtype)
            self._read_rows(rows[0] + first, columns, width, stored)
            converted(stored, block[first:last])
        return block

    def _read_rows(self, first: int, columns: Range, width: int, block: Array) -> None:
        for offset, numbers in self._runs(first, columns, width, block):
            if not read_at(self._descriptor, numbers, offset):
                raise ValueError(f"{self.path} ends early: it was cut while it was read")

    def write(self, rows: Range, columns: Range, block: Array) -> None:
        wide = columns[1] - columns[0]
        for first, last in cut(rows[1] - rows[0], CONVERTED_BYTES // max(1, wide * self.dtype.itemsize)):
            stored = block[first:last]
            if stored.dtype != self.dtype:
                stored = np.empty(stored.shape, self.dtype)
                converted(block[first:last], stored)
            self._write_rows(rows[0] + first, columns, stored)

    def _write_rows(self, first: int, columns: Range, block: Array) -> None:
        for offset, numbers in self._runs(first, columns, self.shape[1], block):
            write_at(self._descriptor, numbers, offset)

    def _runs(self, first: int, columns: Range, width: int, block: Array) -> list[tuple[int, memoryview]]:
        """Where in the file the numbers of a block are, and their bytes in memory: a run a row, or one for all."""
        item = self.dtype.itemsize
        start = self._offset + (first * width + columns[0]) * item
        if not block.size:
            return []
        if block.shape[1] == width or len(block) == 1:
            return [(start, block.reshape(-1).view(np.uint8).data)]
        numbers = block.view(np.uint8).reshape(-1).data
        run = block.shape[1] * item
        return [(start + row * width * item, numbers[row * run : (row + 1) * run]) for row in range(len(block))]

    def sync(self, rows: Range, columns: Range) -> None:
        sync(self._descriptor)


@dataclass(frozen=True)
class NpyOnWorkers:
    """A .npy file as Dask takes it for an array: it is pickled as its path, and a task reads the part that it needs.

    A memory map would be pickled with all that the file holds.
    """

    path: Path
    shape: tuple[int, ...]
    dtype: DType

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __getitem__(self, index: Any) -> Array:
        """A copy of a part, so that the file does not stay mapped."""
        return np.array(np.load(self.path, mmap_mode="r")[index])


def create(path: Path, shape: tuple[int, int], dtype: DType) -> None:
    """Write the header of a new file, and reserve all of its space, so that no later write finds the disk full."""
    with open(path, "wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        file.flush()
        size = file.tell() + shape[0] * shape[1] * dtype.itemsize
        if size > file.tell():
            reserve(file.fileno(), size)
        sync(file.fileno())


def is_npy(path: Path) -> bool:
    """Whether a path is of a file that begins as .npy files do."""
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX


def _mapped(path: Path) -> np.memmap[tuple[int, ...], DType]:
    """NumPy's memory map of a file, which has read and checked the header, of any version, and nothing else."""
    if path.exists() and not is_npy(path):
        raise ValueError(f"{path} is no .npy file: write it by numpy.save")
    try:
        with np.errstate(over="ignore"):  # a header may claim any size
            found = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # a damaged header raises nearly anything
        if "Python objects" in str(error):
            raise UnsupportedProblem(f"{path} holds Python objects: convert it to numbers, and save it again") from None
        why = shortened(printable(str(error)), 100)
        raise ValueError(f"{path} is damaged or not complete ({why}): write it again by numpy.save") from None
    assert isinstance(found, np.memmap)
    return found
