"""The workers that will run tasks: how many, their threads and their memory."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from gemmlab._config import check_bytes
from gemmlab._cpu import machine

IN_ONE_THREAD = ("sync", "synchronous", "single-threaded")
DISTRIBUTED = ("dask.distributed", "distributed")


@dataclass(frozen=True)
class Workers:
    """`count` processes of `threads` threads, each of which has `memory` bytes."""

    count: int
    threads: int
    memory: int
    is_cluster: bool = False
    dashboard: str = ""

    def __str__(self) -> str:
        kind = "workers of the current client" if self.is_cluster else "process here"
        return f"{self.count} {kind}, {self.threads} thread{'s' * (self.threads != 1)} each"


def current_client() -> Any:
    """The client of a cluster that Dask would compute on now, or None for its schedulers of one machine."""
    import dask

    scheduler = dask.config.get("scheduler", None)
    if "distributed" not in sys.modules or scheduler not in (None, *DISTRIBUTED):
        return None
    from distributed import default_client

    try:
        return default_client()
    except ValueError:
        return None


def found(memory: int | str | None = None) -> Workers:
    """The workers of the current client, else this process; `memory` is what each of them has, if it is given."""
    size, client = check_bytes(memory), current_client()
    if client is None:
        return _here(size)
    each = list(status_of(client).values())
    limits = [worker["memory_limit"] for worker in each if worker["memory_limit"]]
    return Workers(
        count=max(1, len(each)),
        threads=max((worker["nthreads"] for worker in each), default=1),
        memory=size or min(limits, default=machine.free_memory_bytes() // max(1, len(each))),
        is_cluster=True,
        dashboard=str(client.dashboard_link) if find_spec("bokeh") else "",
    )


def status_of(client: Any) -> Mapping[str, Mapping[str, Any]]:
    """What the scheduler knows of each worker."""
    try:
        known: Mapping[str, Mapping[str, Any]] = client.scheduler_info(n_workers=-1)["workers"]
    except TypeError:  # an older Dask, which tells of all
        known = client.scheduler_info()["workers"]
    return known


def _here(memory: int | None) -> Workers:
    """This process. Its memory is rounded to a power of two, so that a product has the same tiles from call to call."""
    import dask
    from dask.system import CPU_COUNT

    threads = 1 if dask.config.get("scheduler", None) in IN_ONE_THREAD else dask.config.get("num_workers", CPU_COUNT)
    return Workers(1, max(1, int(threads)), memory or 1 << machine.free_memory_bytes().bit_length() - 1)
