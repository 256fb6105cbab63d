"""What workers run: make a tile of C, add partial sums, store a tile.

A task never writes into what it was given. It allocates a tile, and adds the products of its blocks of k to it in
order, so the same graph gives the same bits wherever it runs.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Any

import numpy as np

from gemmlab._api import array_owner
from gemmlab._api.adding import add_product
from gemmlab._cpu.threads._threads import max_threads
from gemmlab._problem import AnyArray, DType
from gemmlab.dask.errors import CannotRead

Box = tuple[slice, ...]


@dataclass(frozen=True)
class Recipe:
    """How a task multiplies.

    Attributes
    ----------
    backend : str
    params : mapping
        Parameters of the backend.
    threads : int or None
        Threads of a product; None: those that the worker has for each of its threads.
    dtype, sums : dtype
        Of the result, and of the sums of products: that of the result, or float32 for half of it.
    shape : tuple of int
        Of the tile, with the axes of the batch.
    steps : tuple of (first, last, start, stop)
        What is multiplied at once: a range of blocks of k, and the same as a range of k, both from the task's first.
    is_part : bool
        Whether the sums are added to those of other tasks.
    drop : tuple of int
        The axes of the tile that belong to vectors, and are not in the result.
    """

    backend: str
    params: Mapping[str, Any]
    threads: int | None
    dtype: DType
    sums: DType
    shape: tuple[int, ...]
    steps: tuple[tuple[int, int, int, int], ...]
    is_part: bool = False
    drop: tuple[int, ...] = ()

    def finished(self, sums: AnyArray) -> AnyArray:
        """A tile of the result."""
        result = sums.astype(self.dtype, copy=False)
        if not self.drop:
            return result
        return result[tuple(0 if axis in self.drop else slice(None) for axis in range(-result.ndim, 0))]


@dataclass(frozen=True)
class Region:
    """A part of an array in Zarr, to be read by the task that needs it."""

    source: AnyArray
    box: Box

    def read(self, box: Box, out: AnyArray) -> None:
        """Read a box within the part, chunk by chunk: so only one is decoded at a time."""
        from zarr.core.buffer import default_buffer_prototype

        buffers = default_buffer_prototype().nd_buffer
        start = tuple(side.start for side in box)
        for piece in pieces(box, self.source.chunks):
            at = tuple(slice(side.start - first, side.stop - first) for side, first in zip(piece, start, strict=True))
            try:
                self.source.get_basic_selection(piece, out=buffers.from_numpy_array(out[at]))
            except Exception as error:
                place = ", ".join(f"{side.start}:{side.stop}" for side in piece)
                what = f"cannot read [{place}] of {self.source.store_path}"
                raise CannotRead(f"{what}: {type(error).__name__}: {error}") from error


def tile(recipe: Recipe, a: Any, b: Any) -> AnyArray:
    """A tile of C, or its sum over some blocks of k.

    `a` and `b` are each a Region, or for each block of k the chunks along m or n.
    """
    left, right = Panels("A", a), Panels("B", b)
    out: AnyArray = None
    threads = recipe.threads or threads_here()
    for step in recipe.steps:
        x, y = left.panel(step), right.panel(step)
        is_first = out is None
        if is_first:
            like = x if type(y) is np.ndarray else y
            out = np.empty_like(like, shape=recipe.shape, dtype=recipe.sums)
        with measured("gemmlab-product"):
            _multiply(recipe, x, y, out, is_first, threads)
    return out if recipe.is_part else recipe.finished(out)


def total(recipe: Recipe, parts: Sequence[AnyArray]) -> AnyArray:
    """The tile of C out of its sums over groups of blocks of k, in order."""
    out = parts[0] + parts[1]
    for part in parts[2:]:
        out += part
    return recipe.finished(out)


def stored(target: AnyArray, box: Box, made: Any, *given: Any) -> AnyArray:
    """Make a tile by `made(*given)` and write it to Zarr, chunk by chunk; returns a mark that it is done."""
    result = made(*given)
    unit = target.shards or target.chunks
    start = tuple(side.start for side in box)
    with measured("gemmlab-store"):
        for piece in pieces(box, unit):
            at = tuple(slice(side.start - first, side.stop - first) for side, first in zip(piece, start, strict=True))
            target[piece] = result[at]
    return np.ones((1,) * len(box), bool)


def pieces(box: Box, chunks: Sequence[int]) -> Iterator[Box]:
    """The parts of a box that lie in one chunk each."""
    cuts = []
    for side, chunk in zip(box, chunks, strict=True):
        lines = [side.start, *range((side.start // chunk + 1) * chunk, side.stop, chunk), side.stop]
        cuts.append([slice(*ends) for ends in pairwise(lines) if ends[0] < ends[1]])
    return product(*cuts)


@dataclass
class Panels:
    """The blocks of an operand that are multiplied at once, joined to one array in a buffer that is used again."""

    name: str
    given: Any
    _buffer: AnyArray = field(default=None, repr=False)

    def panel(self, step: tuple[int, int, int, int]) -> AnyArray:
        """The matrix (m, k) or (k, n) of a step."""
        first, last, start, stop = step
        if isinstance(self.given, Region):
            return self._read(start, stop)
        grid = [[self._as_matrix(x) for x in blocks] for blocks in self.given[first:last]]
        if len(grid) == len(grid[0]) == 1:
            return grid[0][0]
        outer = sum(x.shape[self._outer] for x in grid[0])
        out = self._room(grid[0][0], outer, stop - start)
        k = 0
        for blocks in grid:
            i, depth = 0, blocks[0].shape[self._inner]
            for x in blocks:
                out[self._at(slice(i, i + x.shape[self._outer]), slice(k, k + depth))] = x
                i += x.shape[self._outer]
            k += depth
        return out

    def _read(self, start: int, stop: int) -> AnyArray:
        source, box = self.given.source, self.given.box
        k = slice(box[self._inner].start + start, box[self._inner].start + stop)
        if len(box) == 1:
            vector = np.empty(stop - start, source.dtype)
            with measured("gemmlab-read"):
                self.given.read((k,), vector)
            return self._as_matrix(vector)
        outer = box[self._outer]
        batch = tuple(side.stop - side.start for side in box[:-2])
        out = self._room(np.empty((*batch, 0, 0), source.dtype), outer.stop - outer.start, stop - start)
        with measured("gemmlab-read"):
            self.given.read((*box[:-2], *((outer, k) if self.name == "A" else (k, outer))), out)
        return out

    @property
    def _outer(self) -> int:
        return -2 if self.name == "A" else -1

    @property
    def _inner(self) -> int:
        return -1 if self.name == "A" or (isinstance(self.given, Region) and len(self.given.box) == 1) else -2

    def _at(self, outer: slice, inner: slice) -> tuple[Any, ...]:
        return (..., outer, inner) if self.name == "A" else (..., inner, outer)

    def _as_matrix(self, x: AnyArray) -> AnyArray:
        if x.ndim > 1:
            return x
        return x[None, :] if self.name == "A" else x[:, None]

    def _room(self, like: AnyArray, outer: int, inner: int) -> AnyArray:
        """Memory for a panel: the first that is made, or a part of it."""
        if self._buffer is None or self._buffer.shape[self._inner] < inner:
            core = (outer, inner) if self.name == "A" else (inner, outer)
            self._buffer = np.empty_like(like, shape=(*like.shape[:-2], *core))
        return self._buffer[self._at(slice(None), slice(inner))]


def _multiply(recipe: Recipe, a: AnyArray, b: AnyArray, out: AnyArray, is_first: bool, threads: int | None) -> None:
    """Let `out` be the product, if it is the first of a tile; else add the product to it."""
    options = {"backend": recipe.backend, "threads": threads, **recipe.params}
    if recipe.sums != recipe.dtype and array_owner(a) is None:  # arrays on a device are multiplied in their dtype
        options["dtype"] = recipe.sums
    add_product(a, b, out, is_first=is_first, **options)


def threads_here() -> int | None:
    """Threads of a product in this thread of a worker, so that all of them fit; None: as many as it may have.

    Dask sets OMP_NUM_THREADS=1 in the processes of its workers, so there it is one.
    """
    if threading.current_thread() is threading.main_thread():  # Dask's synchronous scheduler
        return None
    return max(1, max_threads() // _tasks_at_a_time())


def _tasks_at_a_time() -> int:
    if "distributed" in sys.modules:
        from distributed import get_worker

        try:
            return int(get_worker().state.nthreads)
        except ValueError:  # not in a worker
            pass
    import dask
    from dask.system import CPU_COUNT

    return int(dask.config.get("num_workers", CPU_COUNT))


def measured(what: str) -> AbstractContextManager[object]:
    """Add the seconds of the block to Dask's metrics of tasks, under this label; see its dashboard."""
    if "distributed" not in sys.modules:
        return nullcontext()
    from distributed.metrics import context_meter

    meter: AbstractContextManager[object] = context_meter.meter(what)
    return meter
