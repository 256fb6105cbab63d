"""A matrix as a Zarr array in a folder: read and written by whole chunks, a few at a time."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product as pairs
from pathlib import Path
from typing import Any

from gemmlab._errors import GemmlabError, UnsupportedProblem
from gemmlab._files import sync_path
from gemmlab._problem import Array, DType
from gemmlab._tiles import cut
from gemmlab._words import printable, shortened
from gemmlab.product.matrices import Range, converted

READ_BYTES = 2 << 20  # or written, at once, or one chunk if that is larger
MAX_EXTENT = 1 << 48  # of a shape, or of chunks
METADATA = ("zarr.json", ".zarray")  # of Zarr's formats 3 and 2


class ZarrMatrix:
    """A matrix as a Zarr array; see `Matrix`."""

    by_columns = False

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        self.path = path
        self.array = _opened(path, "r+" if writable else "r")
        with _readable(path):
            self.shape: tuple[int, int] = self.array.shape
            self.dtype: DType = self.array.dtype
            stored = (self.array.shards if writable else None) or self.array.chunks
            extents = [*self.shape, *(size - 1 for size in stored)]
            if not all(0 <= extent < MAX_EXTENT for extent in extents):
                raise ValueError(f"its shape is {self.shape}, and its chunks are of {stored}")
            self.chunks: tuple[int, int] = tuple(map(min, stored, [max(1, size) for size in self.shape]))
            self.overhead_bytes = overhead_bytes(stored, self.dtype)

    def close(self) -> None:
        """Nothing is kept open."""

    def identity(self) -> dict[str, object]:
        sizes, times = [], []
        for folder, _, names in os.walk(self.path):
            for name in names:
                status = os.stat(os.path.join(folder, name))
                sizes.append(status.st_size)
                times.append(status.st_mtime_ns)
        header = next(self.path / name for name in METADATA if (self.path / name).is_file()).read_bytes()
        return {
            "files": len(sizes),
            "bytes": sum(sizes),
            "time of change (ns)": max(times),
            "header (SHA-256)": hashlib.sha256(header).hexdigest(),
        }

    def read(self, rows: Range, columns: Range, into: Array) -> Array:
        shape = rows[1] - rows[0], columns[1] - columns[0]
        block = into[: shape[0] * shape[1]].reshape(shape)
        for part_rows, part_columns in self._parts(rows, columns):
            inside = _within(part_rows, rows), _within(part_columns, columns)
            converted(self._stored(part_rows, part_columns), block[inside])
        return block

    def _stored(self, rows: Range, columns: Range) -> Any:
        """Numbers as they are stored. ValueError where they cannot be decoded; each codec has separate errors."""
        try:
            return self.array[slice(*rows), slice(*columns)]
        except (OSError, MemoryError):
            raise
        except Exception as error:
            where = f"rows {rows[0]} to {rows[1] - 1}, columns {columns[0]} to {columns[1] - 1}"
            why = shortened(printable(str(error)), 100)
            raise ValueError(f"{self.path} cannot be read in {where} ({why}): write these chunks again") from error

    def write(self, rows: Range, columns: Range, block: Array) -> None:
        for part_rows, part_columns in self._parts(rows, columns):
            part = block[_within(part_rows, rows), _within(part_columns, columns)]
            self.array[slice(*part_rows), slice(*part_columns)] = part.astype(self.dtype, copy=False)

    def _parts(self, rows: Range, columns: Range) -> list[tuple[Range, Range]]:
        """What is read or written at once: a row of some chunks."""
        height, width = self.chunks
        count = max(1, READ_BYTES // (height * width * self.dtype.itemsize))
        return list(pairs(_aligned(rows, height), _aligned(columns, count * width)))

    def sync(self, rows: Range, columns: Range) -> None:
        """Chunks are separate files."""
        folders = {self.path}
        for index in pairs(*(range(first // size, -(-last // size)) for (first, last), size in
                             zip((rows, columns), self.chunks, strict=True))):  # fmt: skip
            chunk = self.path / self.array.metadata.encode_chunk_key(index)
            sync_path(chunk)
            folders |= {folder for folder in chunk.parents if self.path in folder.parents}
        for folder in folders:
            sync_path(folder)


def overhead_bytes(chunks: tuple[int, ...], dtype: DType) -> int:
    """What reading or writing takes: chunks as they are stored, decoded, and put together."""
    return 3 * max(math.prod(chunks) * dtype.itemsize, READ_BYTES)


def create(path: Path, shape: tuple[int, int], dtype: DType, chunks: tuple[int, int]) -> None:
    """Make a new array, of Zarr's codec."""
    package().create_array(os.fspath(path), shape=shape, dtype=dtype, chunks=chunks)
    sync_path(path / METADATA[0])


def remove_leftovers(path: Path) -> None:
    """Remove what a process that was killed had begun to write: Zarr writes a chunk under another name first."""
    for leftover in path.rglob("*.partial"):
        leftover.unlink()


def is_array(path: Path) -> bool:
    """Whether a folder is a Zarr array."""
    return any((path / name).is_file() for name in METADATA)


def package() -> Any:
    """The package zarr. GemmlabError, with the fix, where it is missing."""
    try:
        import zarr
    except ImportError:
        raise GemmlabError("a .zarr file needs the package zarr: pip install 'gemmlab[dask]'") from None
    return zarr


def _opened(path: Path, mode: str) -> Any:
    """The array. Chunks of zeros will be written too, else a zero would lose its sign."""
    zarr = package()
    if not path.exists():
        raise FileNotFoundError(2, "No such file or directory", os.fspath(path))
    if not is_array(path):
        raise UnsupportedProblem(f"{path} is no Zarr array in a folder: write it by zarr.create_array")
    with _readable(path), zarr.config.set({"array.write_empty_chunks": True}):
        return zarr.open_array(os.fspath(path), mode=mode)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Within the block, whatever damaged metadata lead to is a ValueError of one line."""
    try:
        yield
    except (OSError, MemoryError):
        raise
    except Exception as error:
        why = shortened(printable(f"{type(error).__name__}: {error}"), 100)
        raise ValueError(f"{path} cannot be read as a Zarr array ({why}): write it again") from None


def _aligned(part: Range, size: int) -> list[Range]:
    """A range, cut at multiples of `size`."""
    first = part[0] - part[0] % size
    return [(max(low, part[0]), high) for low, high in
            ((first + low, first + high) for low, high in cut(part[1] - first, size))]  # fmt: skip


def _within(part: Range, whole: Range) -> slice:
    return slice(part[0] - whole[0], part[1] - whole[0])
