"""Compute a product now and store it in Zarr: on the current client of a cluster, else in this process.

Until the last tile is there, `out` has the attribute `gemmlab_unfinished`. Whatever stops the work becomes one
`Unfinished` with one line.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

from gemmlab._errors import GemmlabError, UnsupportedProblem
from gemmlab._problem import AnyArray
from gemmlab.dask.errors import Unfinished
from gemmlab.dask.graph import Options, Product
from gemmlab.dask.operands import by_absolute_path, is_in_this_process, reads
from gemmlab.dask.workers import Workers, current_client, status_of

Progress: TypeAlias = Callable[[int, int, str], None]
MARK = "gemmlab_unfinished"
LOOK_S = 2.0  # between two looks at the workers
LOST = ("CancelledError", "FutureCancelledError", "FuturesCancelledError", "CommClosedError", "TimeoutError")
STOP_S = 60.0  # for tasks that have begun, after one has failed
STUCK_S = 60.0  # all of them paused for so long: memory is full, and nothing can be freed


def store(
    a: AnyArray, b: AnyArray, out: AnyArray, options: Options, workers: Workers, progress: Progress | None
) -> AnyArray:
    """Compute `a @ b` into `out`, an array in Zarr, and return it."""
    client = current_client()
    if client is not None and is_in_this_process(out):
        raise ValueError("out is in the memory of this process, which workers do not see: create it in a folder")
    made = Product(a, b, options, workers, by_absolute_path(out))
    for operand in (made.a, made.b):
        if reads(operand, out):
            raise ValueError(f"the operand {operand.name} is read from out: create another array for the product")
    show = progress or (lambda done, total, what: None)
    with _marked_unfinished(out):
        marks = made.marks(uuid.uuid4().hex)
        if client is None:
            _compute_here(marks, show)
        else:
            _compute_on(client, marks, show)
    return out


@contextmanager
def _marked_unfinished(out: AnyArray) -> Iterator[None]:
    """Mark the output within the block, and let it so if the work fails."""
    out.attrs[MARK] = True
    try:
        yield
    except UnsupportedProblem:
        raise
    except Exception as error:
        raise Unfinished(f"{_in_words(error)}; {out.store_path} is marked {MARK}: multiply again") from error
    del out.attrs[MARK]


def _in_words(error: Exception) -> str:
    if isinstance(error, GemmlabError):
        return str(error)
    kind, text = type(error).__name__, " ".join(str(error).split())
    if kind == "KilledWorker":
        return f"workers died again and again at one task, maybe for want of memory: see gemmlab.dask.advise ({text})"
    if kind in LOST:
        return f"the connection to the cluster was lost ({kind})"
    return f"a task failed: {kind}: {text}"


def _compute_here(marks: Any, show: Progress) -> None:
    """By Dask's schedulers of one machine. If the work fails, no thread writes any more when the error is raised."""
    from dask.callbacks import Callback

    name, total, done = marks.name, marks.npartitions, 0

    def after(key: Any, *_: Any) -> None:
        nonlocal done
        done += isinstance(key, tuple) and key[0] == name
        show(done, total, "tiles")

    show(0, total, "tiles")
    with Callback(posttask=after), _threads() as options:
        marks.persist(**options)


@contextmanager
def _threads() -> Iterator[dict[str, Any]]:
    """Threads for Dask that end with the block, unless it was told of others; Dask's go on after an error."""
    import dask
    from dask.system import CPU_COUNT

    if dask.config.get("scheduler", None) not in (None, "threads", "threading") or dask.config.get("pool", None):
        yield {}
        return
    with ThreadPoolExecutor(dask.config.get("num_workers", CPU_COUNT)) as pool:
        yield {"pool": pool}


def _compute_on(client: Any, marks: Any, show: Progress) -> None:
    """On a cluster. If the work fails, no task of it writes any more when the error is raised."""
    from distributed import futures_of

    futures = list(futures_of(client.persist(marks)))
    try:
        _watch(client, futures, show)
    except BaseException as error:
        if _still_run(client, futures, marks.name) and isinstance(error, Exception):
            raise Unfinished(f"{_in_words(error)}; some tasks still write: restart the workers") from error
        raise


def _watch(client: Any, left: list[Any], show: Progress) -> None:
    """Wait for all tasks. A worker that has no memory left waits for ever."""
    from distributed import wait

    total, last_move = len(left), time.monotonic()
    show(0, total, "tiles")
    while left:
        try:
            done, _ = wait(left, timeout=LOOK_S, return_when="FIRST_COMPLETED")
        except TimeoutError:
            done = set()
        except ValueError:  # no client
            raise Unfinished("the client was closed") from None
        for future in done:
            future.result()
        if done:
            last_move = time.monotonic()
            left = [future for future in left if future not in done]
            show(total - len(left), total, "tiles")
        elif time.monotonic() - last_move > STUCK_S and _all_paused(client):
            raise Unfinished("all workers are paused: their memory is full, and perhaps the disk for Dask's chunks")


def _still_run(client: Any, futures: list[Any], name: str) -> bool:
    """Cancel tasks, and wait for those that have begun; whether some run even so. A cluster that is lost says nothing.

    Workers are asked twice, since a task may be on its way to one.
    """
    quiet, end = 0, time.monotonic() + STOP_S
    with suppress(Exception):
        client.cancel(futures)
        while quiet < 2:
            time.sleep(LOOK_S / 10)
            running = any(client.run(_has_tasks, name, on_error="ignore").values())
            quiet = 0 if running else quiet + 1
            if running and time.monotonic() > end:
                return True
    return False


def _has_tasks(name: str, dask_worker: Any) -> bool:
    """Whether this worker has tasks of that name that are not done."""
    tasks = dask_worker.state.tasks.items()
    return any(key[0] == name and task.state not in ("memory", "error") for key, task in tasks)


def _all_paused(client: Any) -> bool:
    states = [worker.get("status") for worker in status_of(client).values()]
    return bool(states) and all(state == "paused" for state in states)
