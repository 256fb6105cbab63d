"""The operands of a product, brought to one grid: Dask arrays whose chunks enter tasks, and arrays in Zarr, which tasks
read themselves.

A chunk of a Dask array stays in memory until the last task that needs it is done. What is in Zarr is read by each task,
block of k by block of k, so that only a tile of C and one block of A and B are in memory. So a Dask array that is a
whole Zarr array, and nothing else, is taken as that.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from dask.array.core import Array as DaskArray
from dask.array.core import asanyarray, common_blockdim, from_array
from dask.base import tokenize

from gemmlab._errors import UnsupportedProblem
from gemmlab._problem import AnyArray, DType
from gemmlab.dask.plan import Side
from gemmlab.dask.tasks import Region
from gemmlab.dask.workers import current_client

Chunks: TypeAlias = tuple[int, ...]
MOST_DIMENSIONS = 32  # of numpy.ndarray.flat, on which Dask's rechunk rests


@dataclass(frozen=True)
class Operand:
    """A (side 0) or B (side 1): an array, and its chunks along the axes of the batch, along m or n, and along k.

    `array` is a Dask array, or an array in Zarr. A vector has one row, as A, or one column, as B.
    """

    name: str
    array: AnyArray
    batch: tuple[Chunks, ...]
    outer: Chunks
    inner: Chunks

    @property
    def is_vector(self) -> bool:
        """Whether the array has one axis."""
        return len(self.array.shape) == 1

    @property
    def is_stored(self) -> bool:
        """Whether tasks read it themselves."""
        return not isinstance(self.array, DaskArray)

    @property
    def dtype(self) -> DType:
        """The dtype of its elements."""
        dtype: DType = np.dtype(self.array.dtype)
        return dtype

    @property
    def token(self) -> str:
        """A name that another array does not have."""
        return str(tokenize(self.array, self.batch, self.outer, self.inner))

    def in_chunks(self, batch: Sequence[Chunks], outer: Chunks, inner: Chunks) -> Operand:
        """The same operand on another grid; axes of the batch that it lacks, or that have one element, stay so."""
        own = tuple(
            (1,) if sum(chunks) == 1 else of_result if sum(chunks) else chunks
            for chunks, of_result in zip(self.batch, batch[len(batch) - len(self.batch) :], strict=True)
        )
        array = self.array
        if not self.is_stored:
            array = array.rechunk(self._in_order(own, outer, inner))
        return replace(self, array=array, batch=own, outer=outer, inner=inner)

    def _in_order(self, batch: tuple[Any, ...], outer: Any, inner: Any) -> tuple[Any, ...]:
        """What belongs to each axis, in the order of the array's axes."""
        core = (outer, inner) if self.name == "A" else (inner, outer)
        return (inner,) if self.is_vector else (*batch, *core)

    def block(self, batch: Sequence[int], outer: tuple[int, int], inner: tuple[int, int]) -> Any:
        """What a task is given of the operand: a Region to read, or keys of chunks, as a list for each block of k.

        `batch` is the block of the batch in the result; `outer` and `inner` are ranges of blocks.
        """
        own = batch[len(batch) - len(self.batch) :]
        at = [i if len(chunks) > 1 else 0 for i, chunks in zip(own, self.batch, strict=True)]
        if self.is_stored:
            of_batch = tuple(_extent(chunks, (i, i + 1)) for chunks, i in zip(self.batch, at, strict=True))
            box = self._in_order(of_batch, _extent(self.outer, outer), _extent(self.inner, inner))
            return Region(self.array, box)
        return [
            [(self.array.name, *self._in_order(tuple(at), i, k)) for i in range(*outer)] for k in range(*inner)
        ]

    def side(self, blocks: int) -> Side:
        """The operand as the model of memory and of bytes sees it; the result has so many blocks of the batch."""
        own_blocks = math.prod(map(len, self.batch))
        matrices = math.prod(map(sum, self.batch)) * blocks // max(1, own_blocks)
        most = math.prod(max(chunks, default=1) for chunks in self.batch)
        piece = math.prod(self.array.chunks) * self.dtype.itemsize if self.is_stored else 0
        return Side(self.name, self.outer, self.inner, self.dtype.itemsize, matrices, most, self.is_stored, piece)


def operands(a: AnyArray, b: AnyArray, unit: Sequence[int] | None = None) -> tuple[Operand, Operand]:
    """A and B on one grid, whose lines are multiples of `unit`: what is written at once to a result in Zarr."""
    a, b = _chunked(a, like=b), _chunked(b, like=a)
    dimensions = max(a.ndim, b.ndim)
    if dimensions > MOST_DIMENSIONS:
        raise UnsupportedProblem(f"Dask takes up to {MOST_DIMENSIONS} dimensions, not {dimensions}: reshape the arrays")
    one, other = _operand("A", a), _operand("B", b)
    batch = _common_batch(one, other)
    chunked = [x.inner for x in (one, other) if not x.is_stored]
    inner = common_blockdim(chunked) if chunked else max(one.inner, other.inner, key=max)
    sides = [*batch, one.outer, other.outer]
    if unit is not None:
        sides = [_on_lines(chunks, step) for chunks, step in zip(sides, unit, strict=True)]
    *batch, rows, columns = sides
    return one.in_chunks(batch, rows, inner), other.in_chunks(batch, columns, inner)


def is_zarr(x: object) -> bool:
    """Whether this is an array in Zarr; the package is not imported for it."""
    return type(x).__module__.partition(".")[0] == "zarr" and hasattr(x, "store_path") and hasattr(x, "shape")


def is_in_this_process(x: AnyArray) -> bool:
    """Whether an array in Zarr is in the memory of this process, which other processes do not see."""
    return type(x.store).__name__ == "MemoryStore"


def by_absolute_path(x: AnyArray) -> AnyArray:
    """The same array in Zarr, for workers in other folders: there, a relative path would be of another, empty array."""
    root = getattr(x.store, "root", None)
    if not isinstance(root, Path) or root.is_absolute():
        return x
    from zarr.storage import StorePath

    store = type(x.store)(root.absolute(), read_only=x.store.read_only)
    return type(x)(replace(x._async_array, store_path=StorePath(store, x.path)))


def reads(operand: Operand, target: AnyArray) -> bool:
    """Whether an operand is, or is computed from, this array in Zarr, as far as the graph's layers tell."""
    sources = [operand.array]
    if not operand.is_stored:
        layers = operand.array.dask.layers.items()
        sources = [layer.get(name) for name, layer in layers if name.startswith("original-")]
    return any(is_zarr(source) and _place(source) == _place(target) for source in sources)


def _place(x: AnyArray) -> str:
    """Where an array in Zarr is, whatever relative paths and links lead there.

    A folder is the root of Zarr's store, or the path of fsspec's, by which Dask opens a path.
    """
    folder: Any = getattr(x.store, "root", None) or getattr(x.store, "path", "")
    is_local = isinstance(folder, Path) or os.path.isabs(str(folder))
    return os.path.realpath(os.path.join(folder, x.path)) if is_local else str(x.store_path)


def _chunked(x: AnyArray, like: AnyArray) -> AnyArray:
    """A Dask array or one in Zarr; a plain array gets chunks as `like` has them."""
    if isinstance(x, DaskArray):
        source = x.dask.layers.get(f"original-{x.name}", {}).get(f"original-{x.name}")
        if is_zarr(source) and source.shape == x.shape and type(x._meta) is np.ndarray:
            return _chunked(source, like)
        return x
    if is_zarr(x):
        return from_array(x) if current_client() is not None and is_in_this_process(x) else by_absolute_path(x)
    x = x if hasattr(x, "__array_function__") else np.asarray(x)
    sides = [max(side) if isinstance(side, tuple) else side for side in getattr(like, "chunks", ())]
    if not sides:
        return asanyarray(x) if x.ndim == 0 else from_array(x, chunks=("auto",) * x.ndim if x.size else -1)
    side = max(1, *sides[-2:])
    core = [min(side, max(1, extent)) for extent in x.shape[-2:]]
    return from_array(x, chunks=(1,) * (x.ndim - len(core)) + tuple(core))


def _operand(name: str, x: AnyArray) -> Operand:
    chunks = x.chunks
    if not isinstance(x, DaskArray):
        chunks = tuple(_cut(extent, side) for extent, side in zip(x.shape, chunks, strict=True))
    if len(chunks) == 1:
        return Operand(name, x, (), (1,), chunks[0])
    outer, inner = chunks[-2:] if name == "A" else chunks[:-3:-1]
    return Operand(name, x, chunks[:-2], outer, inner)


def _common_batch(a: Operand, b: Operand) -> list[Chunks]:
    """The chunks of the result along the axes of the batch."""
    count = max(len(a.batch), len(b.batch))
    found = []
    for axis in range(-count, 0):
        own = [x.batch[axis] for x in (a, b) if len(x.batch) >= -axis]
        wide = [chunks for chunks in own if sum(chunks) != 1]
        found.append(common_blockdim(wide) if wide else (1,))
    return found


def _on_lines(chunks: Chunks, unit: int) -> Chunks:
    """Chunks whose ends are multiples of `unit`, and that are about as large."""
    ends = np.cumsum(chunks)
    if not any(end % unit for end in ends[:-1]):
        return chunks
    return _cut(int(ends[-1]), unit * max(1, max(chunks) // unit))


def _cut(extent: int, side: int) -> Chunks:
    """Chunks of `side`; the last may be smaller."""
    whole, rest = divmod(extent, side)
    return (side,) * whole + ((rest,) if rest or not whole else ())


def _extent(chunks: Chunks, blocks: tuple[int, int]) -> slice:
    """The elements of a range of chunks."""
    return slice(sum(chunks[: blocks[0]]), sum(chunks[: blocks[1]]))
