"""`gemmlab.dask.matmul`, and what `gemmlab.matmul` does with Dask arrays and arrays in Zarr."""

from __future__ import annotations

import operator
from typing import Any

from dask.array.core import Array as DaskArray

from gemmlab._api import requested_backend
from gemmlab._api.foreign import Options as CallOptions
from gemmlab._api.packing import PACKED
from gemmlab._backend import Params
from gemmlab._config import Scope, check_threads, scope
from gemmlab._errors import UnsupportedProblem
from gemmlab._problem import AnyArray
from gemmlab.dask import workers
from gemmlab.dask.graph import Options, Product
from gemmlab.dask.operands import is_zarr
from gemmlab.dask.storing import Progress, store


def matmul(
    A: AnyArray,
    B: AnyArray,
    backend: str | None = None,
    k_group: int | None = None,
    *,
    threads: int | None = None,
    out: AnyArray = None,
    memory: int | str | None = None,
    progress: Progress | None = None,
    **params: Any,
) -> AnyArray:
    """Matrix product of Dask arrays or arrays in Zarr, with the semantics of `numpy.matmul`.

    Each task makes a tile of several chunks of C, and adds up several blocks of k in it. A model of the workers' memory
    chooses the tiles; `gemmlab.dask.advise` shows it beforehand.

    Parameters
    ----------
    A, B : dask.array.Array, zarr.Array or array_like
        Shapes (m, k) and (k, n), batches of matrices that broadcast, or vectors. Chunks of NumPy or CuPy. Arrays in
        Zarr, also as `dask.array.from_zarr` makes them, are read by the tasks that need them.
    backend : str, optional
        The backend that multiplies the chunks, by name. Default: as for `gemmlab.matmul`.
    k_group : int, optional
        Blocks of k that a task adds up. Default: all of them where they fit into a worker.
    threads : int, optional
        Threads of one task. Default: as many as the worker has for each of its threads; in Dask's processes that is
        one, since Dask sets OMP_NUM_THREADS=1 there.
    out : zarr.Array, optional
        Compute the product now, on the current client if there is one, and store it here.
    memory : int or str, optional
        Bytes of a worker, such as "2GiB". Default: what the workers of the current client have, else the free memory.
    progress : callable, optional
        With `out`: called as ``progress(tiles_done, all_tiles, what)``.
    **params
        Parameters of the backend.

    Returns
    -------
    dask.array.Array or zarr.Array
        A lazy array, one chunk a tile; or `out`.

    Raises
    ------
    ValueError
        Shapes that do not agree; or chunks so large that no task fits into a worker: the message has better ones.
    UnknownBackend, BackendUnavailable, UnsupportedProblem
        As for `gemmlab.matmul`.
    gemmlab.dask.Unfinished
        With `out`: the product could not be completed. `out` keeps the attribute ``gemmlab_unfinished``.

    Examples
    --------
    >>> import dask.array, gemmlab.dask
    >>> a = dask.array.ones((600, 400), chunks=(100, 200))
    >>> c = gemmlab.dask.matmul(a, a.T, backend="cpu-packed")
    >>> c.shape, float(c.sum().compute())
    ((600, 600), 144000000.0)
    """
    found = workers.found(memory)
    options = Options(
        requested_backend(backend, scope.get() or Scope()), dict(params), check_threads(threads), check_k_group(k_group)
    )
    if out is None:
        return Product(A, B, options, found).lazy()
    if not is_zarr(out):
        kind = type(out).__name__
        raise TypeError(f"out must be a zarr.Array, not {kind}: without out a product of Dask arrays is lazy")
    return store(A, B, out, options, found, progress)


def check_k_group(k_group: int | None) -> int | None:
    """`k_group`, if it is None or a number of blocks."""
    try:
        count = None if k_group is None else operator.index(k_group)
    except TypeError:
        count = 0
    if isinstance(k_group, bool) or (count is not None and count < 1):
        raise ValueError(f"k_group must be a number of blocks of k, 1 or more, or None, not {k_group!r}")
    return count


def general_matmul(
    a: AnyArray, b: AnyArray, out: AnyArray, backend: str, options: CallOptions, params: Params
) -> AnyArray:
    """`gemmlab.matmul` where an operand or `out` is of Dask or Zarr."""
    if isinstance(b, PACKED):
        raise UnsupportedProblem(f"a packed operand is multiplied with plain arrays, not {type(a).__name__}")
    for x in (a, b):
        if type(x).__module__.partition(".")[0] in ("dask", "zarr") and not (isinstance(x, DaskArray) or is_zarr(x)):
            kind = f"{type(x).__module__.partition('.')[0]}'s {type(x).__name__}"
            raise UnsupportedProblem(f"gemmlab multiplies arrays, not {kind}: pass a dask.array.Array or a zarr.Array")
    if options["accumulate"]:
        raise UnsupportedProblem("a product of Dask arrays is not added to out (accumulate=True): compute out + a @ b")
    casting = None if options["casting"] == "same_kind" else options["casting"]
    given = {"dtype": options["dtype"], "axes": options["axes"], "casting": casting}
    refused = [name for name, value in given.items() if value is not None]
    if refused:
        raise TypeError(f"a product of Dask arrays takes no {refused[0]}: convert or transpose the lazy operands")
    out = out[0] if isinstance(out, tuple) and len(out) == 1 else out
    if out is None and not (isinstance(a, DaskArray) or isinstance(b, DaskArray)):
        raise TypeError("a product of arrays in Zarr needs out=, a zarr.Array; gemmlab.dask.matmul gives a lazy array")
    return matmul(a, b, backend, threads=options["threads"], out=out, **params)
