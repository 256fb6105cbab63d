"""The graph of tasks of a product: one task for each tile of C, or some and their sum where k is divided."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, product
from typing import Any

import numpy as np
from dask.array.core import Array as DaskArray
from dask.array.utils import meta_from_array
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from gemmlab import _registry
from gemmlab._api import array_owner, foreign_operand
from gemmlab._api.adding import adds
from gemmlab._backend import check_params
from gemmlab._errors import UnsupportedProblem
from gemmlab._problem import AnyArray, Array, DType, Problem, sums_of
from gemmlab.dask import plan as model
from gemmlab.dask.operands import Operand, operands
from gemmlab.dask.tasks import Recipe, stored, tile, total
from gemmlab.dask.workers import Workers

Ranges = list[tuple[int, int]]


@dataclass(frozen=True)
class Options:
    """How chunks are multiplied: the backend's name and parameters, threads of a task, blocks of k of a task."""

    backend: str = "auto"
    params: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = None
    k_group: int | None = None


class Product:
    """A product of two operands, planned for some workers; `out` is the array in Zarr that it is stored in, or None."""

    def __init__(self, a: AnyArray, b: AnyArray, options: Options, workers: Workers, out: AnyArray = None) -> None:
        self.dtype = checked(a, b, out, options, workers)
        self.a, self.b = operands(a, b, None if out is None else _unit(a, b, out))
        self.options, self.workers, self.out = options, workers, out
        _check_chunks(options.backend, self.a, self.b)
        self.sums = sums_of(self.dtype)
        self.plan = model.best(*self.sides, workers, options.k_group)

    @cached_property
    def sides(self) -> tuple[model.Side, model.Side, model.Result]:
        """The operands and the result as the model of memory and of bytes sees them."""
        blocks = math.prod(map(len, self.batch))
        result = model.Result(
            itemsize=self.dtype.itemsize,
            sums=self.sums.itemsize,
            matrices=math.prod(map(sum, self.batch)),
            blocks=blocks,
            block=math.prod(map(max, self.batch)),
            in_place=adds(self.options.backend, self.sums),
            limit=model.LAZY_TILE if self.out is None else None,
            piece=0 if self.out is None else math.prod(self.out.shards or self.out.chunks) * self.out.dtype.itemsize,
        )
        return self.a.side(blocks), self.b.side(blocks), result

    @cached_property
    def batch(self) -> list[tuple[int, ...]]:
        """The chunks of the result along the axes of the batch."""
        count = max(len(self.a.batch), len(self.b.batch))
        both = [((1,),) * (count - len(x.batch)) + x.batch for x in (self.a, self.b)]
        return [one if sum(one) != 1 else other for one, other in zip(*both, strict=True)]

    @cached_property
    def groups(self) -> tuple[Ranges, Ranges, Ranges]:
        """The ranges of blocks along m, n and k that tasks have."""
        a, b, plan = self.a, self.b, self.plan
        return _ranges(a.outer, plan.rows), _ranges(b.outer, plan.columns), _ranges(a.inner, plan.ks)

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """The chunks of the result: one for each tile."""
        rows = () if self.a.is_vector else (model.grouped(self.a.outer, self.plan.rows),)
        columns = () if self.b.is_vector else (model.grouped(self.b.outer, self.plan.columns),)
        return (*self.batch, *rows, *columns)

    @property
    def name(self) -> str:
        """The name of the result's chunks in Dask."""
        options = self.options
        given = (options.backend, options.params, options.threads, options.k_group, self.plan, self.dtype)
        return f"gemmlab-matmul-{tokenize(self.a.token, self.b.token, *given)}"

    def lazy(self) -> DaskArray:
        """The result as a Dask array."""
        metas = [x.array._meta for x in (self.a, self.b) if not x.is_stored]
        like = next((meta for meta in metas if type(meta) is not np.ndarray), np.empty(0))
        meta = meta_from_array(like, ndim=len(self.chunks), dtype=self.dtype)
        return self._array(self.name, self.chunks, meta)

    def marks(self, token: str) -> DaskArray:
        """A Dask array of a mark for each tile, to be computed: the tasks store the tiles in `out`."""
        chunks = tuple((1,) * len(side) for side in self.chunks)
        return self._array(f"gemmlab-store-{token}", chunks, np.empty((0,) * len(chunks), bool))

    def _array(self, name: str, chunks: tuple[tuple[int, ...], ...], meta: AnyArray) -> DaskArray:
        chunked = [x.array for x in (self.a, self.b) if not x.is_stored]
        graph = HighLevelGraph.from_collections(name, dict(self._tasks(name)), dependencies=chunked)
        return DaskArray(graph, name, chunks, meta=meta)

    def _tasks(self, name: str) -> Iterator[tuple[Any, Any]]:
        """The tasks by their keys, tile by tile."""
        rows, columns, ks = self.groups
        for batch in product(*(range(len(chunks)) for chunks in self.batch)):
            for i, j in product(range(len(rows)), range(len(columns))):
                at = (*batch, *(() if self.a.is_vector else (i,)), *(() if self.b.is_vector else (j,)))
                made: list[tuple[Any, ...]] = [
                    (tile, self._recipe(batch, rows[i], columns[j], k), self.a.block(batch, rows[i], k),
                     self.b.block(batch, columns[j], k))
                    for k in ks
                ]  # fmt: skip
                if len(ks) > 1:
                    parts = [(f"part-of-{name}", *batch, i, j, k) for k in range(len(ks))]
                    yield from zip(parts, made, strict=True)
                    made = [(total, replace(made[0][1], is_part=False), parts)]
                task = made[0]
                if self.out is not None:
                    task = (stored, self.out, self._box(at), *task)
                yield (name, *at), task

    def _recipe(self, batch: Sequence[int], rows: Any, columns: Any, ks: Any) -> Recipe:
        options, inner = self.options, self.a.inner[slice(*ks)]
        ends = [0, *accumulate(inner)]
        return Recipe(
            backend=options.backend,
            params=dict(options.params),
            threads=options.threads,
            dtype=self.dtype,
            sums=self.sums,
            shape=(
                *(chunks[i] for chunks, i in zip(self.batch, batch, strict=True)),
                sum(self.a.outer[slice(*rows)]), sum(self.b.outer[slice(*columns)]),
            ),
            steps=tuple((first, last, ends[first], ends[last]) for first, last in model.steps(inner)),
            is_part=len(self.groups[2]) > 1,
            drop=(-2,) * self.a.is_vector + (-1,) * self.b.is_vector,
        )  # fmt: skip

    def _box(self, at: Sequence[int]) -> tuple[slice, ...]:
        """Where a tile is in the result."""
        return tuple(
            slice(sum(chunks[:i]), sum(chunks[: i + 1])) for chunks, i in zip(self.chunks, at, strict=True)
        )


def _ranges(chunks: Sequence[int], per: int) -> Ranges:
    """Ranges of `per` blocks each; the last may have fewer."""
    return [(first, min(first + per, len(chunks))) for first in range(0, len(chunks), per)]


def checked(a: AnyArray, b: AnyArray, out: AnyArray, options: Options, workers: Workers) -> DType:
    """The dtype of a product; NumPy's errors about shapes and dtypes, and ours about the backend and its parameters."""
    a, b = _stand_in(a), _stand_in(b)
    try:
        problem = Problem.from_call(a[..., :0, :] if a.ndim > 1 else a, b[..., :0] if b.ndim > 1 else b)
    except ValueError:
        np.matmul(a, b)  # NumPy's error, with the whole shapes
        raise
    if out is not None:
        batch, columns = np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), b.shape[-1:] if b.ndim > 1 else ()
        shape = (*batch, *a.shape[-2:-1], *columns)
        if out.shape != shape:
            raise ValueError(f"out has the shape {out.shape}, and the product {shape}: create it with that shape")
        if not np.can_cast(problem.dtype, out.dtype, "same_kind"):
            raise TypeError(f"out of {out.dtype} cannot hold a product of {problem.dtype}: create it with that dtype")
    dtype: DType = problem.dtype
    _check_backend(options, dtype, workers)
    return dtype


def _check_backend(options: Options, dtype: DType, workers: Workers) -> None:
    """What can be said before a task runs; a backend of the workers' devices need not be here."""
    name = options.backend
    if name in _registry.BY_NAME_ONLY:
        raise UnsupportedProblem(f"{name} itself makes Dask arrays: name the backend that multiplies their chunks")
    if workers.is_cluster and not _registry.availability(_registry.resolve_name(name)).ok:
        return
    none = np.empty((0, 0), dtype)
    problem = Problem(none, none, none)
    backend = _registry.choose(problem, options.params) if name == "auto" else _registry.get(name)
    check_params(backend, options.params)
    if (why_not := _registry.refusal(backend, problem)) is not None:
        raise UnsupportedProblem(why_not)


def _check_chunks(backend: str, a: Operand, b: Operand) -> None:
    """UnsupportedProblem for chunks that dispatch NumPy's functions themselves, where a backend is named."""
    metas = [x.array._meta for x in (a, b) if not x.is_stored and array_owner(x.array._meta) is None]
    foreign = [type(meta).__name__ for meta in metas if foreign_operand(meta, None, None) is not None]
    if foreign and backend not in ("auto", "cpu-numpy"):
        raise UnsupportedProblem(f"{backend} takes plain chunks, not {foreign[0]}: use backend='auto'")


def _stand_in(x: AnyArray) -> Array:
    """An array of the same shape and dtype without memory."""
    x = x if hasattr(x, "shape") and hasattr(x, "dtype") else np.asarray(x)
    if any(math.isnan(side) for side in x.shape):
        raise ValueError("a Dask array has chunks of unknown size: call its compute_chunk_sizes() first")
    return np.broadcast_to(np.zeros((), x.dtype), tuple(map(int, x.shape)))


def _unit(a: AnyArray, b: AnyArray, out: AnyArray) -> tuple[int, ...]:
    """What is written to `out` at once, along the axes of the batch, m and n; a vector has 1."""
    unit = list(out.shards or out.chunks)
    columns = unit.pop() if np.ndim(b) > 1 else 1
    rows = unit.pop() if np.ndim(a) > 1 else 1
    return (*unit, rows, columns)
