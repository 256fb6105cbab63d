"""One product, from file to file, on a Dask cluster.

The output has the same temporary name and passes the same check. Which tasks ran is the cluster's business, and it
repeats those that a lost worker had; after a kill of this process the product begins anew.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from gemmlab._config import check_threads
from gemmlab._errors import GemmlabError
from gemmlab.product import npy, zarrs
from gemmlab.product.check import PIECE_BYTES
from gemmlab.product.job import Job, PathLike, Result, prepared
from gemmlab.product.matrices import Matrix, is_zarr
from gemmlab.product.run import CHUNK, check_part, finished, output_chunks

LOCAL = "local"
Progress = Callable[[int, int, str], None]


def product_on_dask(
    a_path: PathLike,
    b_path: PathLike,
    out_path: PathLike,
    address: str,
    *,
    backend: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Result:
    """Multiply the matrices in two files into a Zarr array, on a Dask cluster whose workers see these files.

    Parameters
    ----------
    a_path, b_path : path
        As for `product`.
    out_path : path
        The output, which must be .zarr: workers write its chunks.
    address : str
        Of the scheduler, such as "tcp://10.0.0.1:8786", or "local" for a cluster in processes of this machine.
    backend, threads, progress
        As for `product`.

    Returns
    -------
    Result
        With engine "dask" and without a plan.

    Raises
    ------
    ValueError
        As for `product`, and for an output that is not .zarr.
    GemmlabError
        dask, distributed or zarr is missing, or the cluster does not answer.
    """
    start = perf_counter()
    if not is_zarr(Path(out_path)):
        raise ValueError(f"workers write the output by chunks: give a name that ends in .zarr, not {out_path}")
    threads = check_threads(threads)
    with prepared(a_path, b_path, out_path) as job, _client(address):
        asked = job.header("dask", {"backend": backend or "auto"})
        job.output.create(job.shape, job.dtype, output_chunks(job, CHUNK))
        if job.journal.header is None:
            job.journal.begin(asked)
        began = perf_counter()
        _multiply(job, backend, threads, progress or (lambda done, total, doing: None))
        done = perf_counter()
        job.refuse_changed_inputs()
        checked = check_part(job, 8 * PIECE_BYTES)
        parts = {"multiply": done - began, "check": perf_counter() - done}
        path = finished(job, checked)
        m, n, k = job.sizes
        return Result(
            path, m, n, k, dtype=job.dtype.name, engine="dask", backend=backend or "auto", plan=None,
            tiles_found=0, share_found=0.0, checked_by=checked.by, error=checked.error, seconds=perf_counter() - start,
            parts_s=parts, gflop=2e-9 * m * n * k,
        )  # fmt: skip


def _multiply(job: Job, backend: str | None, threads: int | None, progress: Progress) -> None:
    out = zarrs.ZarrMatrix(job.output.part.absolute(), writable=True).array
    a, b = (_operand(one) for one in (job.a, job.b))
    import_module("gemmlab.dask").matmul(a, b, backend=backend, out=out, threads=threads, progress=progress)


def _operand(matrix: Matrix) -> Any:
    """A Zarr array as it is; a .npy file as a Dask array, of which each task reads its part.

    By absolute paths, since workers may be in another folder.
    """
    if isinstance(matrix, zarrs.ZarrMatrix):
        return zarrs.ZarrMatrix(matrix.path.absolute()).array
    parts = npy.NpyOnWorkers(matrix.path.absolute(), matrix.shape, matrix.dtype)
    none = np.empty((0, 0), matrix.dtype)
    return import_module("dask.array").from_array(parts, chunks=(CHUNK, CHUNK), name=False, meta=none)


@contextmanager
def _client(address: str) -> Iterator[None]:
    """A client of the cluster at an address, closed at the end, with the cluster if it is ours."""
    try:
        distributed = import_module("distributed")
    except ImportError:
        raise GemmlabError("a Dask cluster needs dask and distributed: pip install 'gemmlab[dask]'") from None
    if address == LOCAL:
        with _without_ctrl_c():
            cluster = distributed.LocalCluster(dashboard_address=":0")  # any free port: another cluster may have 8787
        with cluster, distributed.Client(cluster):
            yield
        return
    try:
        client = distributed.Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise GemmlabError(f"no Dask scheduler answers at {address}: {error}") from None
    with client:
        yield


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Let processes that start in this block ignore Ctrl-C, which a terminal sends to all; this process ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
