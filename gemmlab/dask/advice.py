"""What a product will take, before it is computed."""

from __future__ import annotations

from dataclasses import dataclass

from gemmlab._api import requested_backend
from gemmlab._config import Scope, scope
from gemmlab._problem import AnyArray
from gemmlab._words import size
from gemmlab.dask import plan as model
from gemmlab.dask import workers
from gemmlab.dask.graph import Options, Product
from gemmlab.dask.product import check_k_group

SPLIT_EVERY = 4  # partial sums that one task of Dask's matmul adds


@dataclass(frozen=True)
class Advice:
    """What the model of `gemmlab.dask.matmul` says of a product; prints as a table. Sizes are in bytes.

    Attributes
    ----------
    workers : Workers
        How many, their threads and their memory.
    peak : int
        The most that a worker is expected to take.
    moved : int
        What enters tasks: operands, read ones too, and partial sums.
    moved_by_dask : int
        The same for `dask.array.matmul`.
    tasks : int
        Tasks that multiply.
    tile : tuple of int
        Rows and columns of the largest tile.
    k_group, k_blocks : int
        Blocks of k that a task adds up, and how many there are.
    threads : int or None
        Threads of a task that were asked for; None: the worker's, for each of its threads.
    notes : tuple of str
        What to know besides.
    """

    workers: workers.Workers
    peak: int
    moved: int
    moved_by_dask: int
    tasks: int
    tile: tuple[int, int]
    k_group: int
    k_blocks: int
    threads: int | None
    notes: tuple[str, ...]

    def __str__(self) -> str:
        rows = {
            "workers": str(self.workers),
            "memory of each": size(self.workers.memory),
            "expected peak": size(self.peak),
            "bytes into tasks": f"{size(self.moved)}; dask.array.matmul: {size(self.moved_by_dask)}",
            "tasks": f"{self.tasks}, each a tile of {self.tile[0]} x {self.tile[1]}",
            "blocks of k a task": f"{self.k_group} of {self.k_blocks}",
            "threads a task": str(self.threads or "those of the worker, shared by its tasks"),
        }
        return "\n".join([f"{name:<20}{value}" for name, value in rows.items()] + list(self.notes))

    __repr__ = __str__


def advise(
    A: AnyArray,
    B: AnyArray,
    backend: str | None = None,
    k_group: int | None = None,
    memory: int | str | None = None,
    *,
    out: AnyArray = None,
    threads: int | None = None,
) -> Advice:
    """What `gemmlab.dask.matmul` would do with these operands, and what it takes. Nothing is computed.

    Parameters
    ----------
    A, B, backend, k_group, memory, out, threads
        As for `gemmlab.dask.matmul`.

    Raises
    ------
    ValueError
        If a task does not fit into a worker; the message has the chunks that would.

    Examples
    --------
    >>> import dask.array, gemmlab.dask
    >>> a = dask.array.ones((16000, 16000), chunks=1000, dtype="float32")
    >>> advice = gemmlab.dask.advise(a, a, memory="4GiB")
    >>> advice.moved_by_dask > 3 * advice.moved
    True
    """
    found = workers.found(memory)
    name = requested_backend(backend, scope.get() or Scope())
    made = Product(A, B, Options(name, {}, threads, check_k_group(k_group)), found, out)
    plan, (a, b, _) = made.plan, made.sides
    return Advice(
        workers=found,
        peak=plan.peak,
        moved=plan.moved,
        moved_by_dask=_by_dask(made),
        tasks=plan.tasks,
        tile=(max(model.grouped(a.outer, plan.rows)), max(model.grouped(b.outer, plan.columns))),
        k_group=plan.ks,
        k_blocks=len(a.inner),
        threads=threads,
        notes=tuple(_notes(made)),
    )


def _by_dask(made: Product) -> int:
    """Bytes into tasks of Dask's matmul: both operands for each partial sum, and these sums in a tree."""
    a, b, c = made.sides
    parts, size = len(a.inner), c.matrices * sum(a.outer) * sum(b.outer) * made.dtype.itemsize
    moved = a.nbytes * len(b.outer) + b.nbytes * len(a.outer)
    while parts > 1:
        moved += parts * size
        parts = -(-parts // SPLIT_EVERY)
    return moved


def _notes(made: Product) -> list[str]:
    notes = []
    plan, found = made.plan, made.workers
    if plan.peak > model.SHARE * found.memory:
        notes.append("the operands do not fit beside the tasks: Dask will write chunks to disk, or put them in Zarr")
    if found.is_cluster and made.options.threads is None:
        notes.append("Dask sets OMP_NUM_THREADS=1 in its processes, so a task has one thread there: pass threads=")
    if found.dashboard:
        notes.append(f"dashboard: {found.dashboard}")
    return notes
