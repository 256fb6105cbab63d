"""Pins each thread of a product to a separate core.

An operating system may run two threads of one product on one core for a whole round, with another core idle. The
product then takes twice as long in that round, and not in the next. OpenMP's threads get their affinity from
environment variables (`OPENMP_AFFINITY` in `_process/children.py`). The threads of other libraries get it here, once
they exist.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

_TASKS = Path("/proc/self/task")


def cpu_numbers() -> list[int]:
    """The numbers of the CPUs that this process may use; empty where the system does not say."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def pin_threads(cpus: Sequence[int]) -> None:
    """Pin the calling thread to one of `cpus`, and the process's other threads to the others, one after the other.

    Threads that are pinned already stay, except those on the calling thread's CPU: it started them after it was
    pinned, and they inherited its affinity. Where the system has no affinity, nothing happens.
    """
    if not hasattr(os, "sched_setaffinity") or not _TASKS.exists() or len(cpus) < 2:
        return
    main = threading.get_native_id()
    _pin(main, lambda allowed: len(allowed) > 1, cpus[0])
    (own, *_) = os.sched_getaffinity(main)
    rest = [cpu for cpu in cpus if cpu != own]
    others = sorted(int(task.name) for task in _TASKS.iterdir() if int(task.name) != main)
    for i, thread in enumerate(others):
        _pin(thread, lambda allowed: len(allowed) > 1 or allowed == {own}, rest[i % len(rest)])


def _pin(thread: int, may_move: Callable[[set[int]], bool], cpu: int) -> None:
    with suppress(OSError):  # a thread that has ended
        if may_move(os.sched_getaffinity(thread)):
            os.sched_setaffinity(thread, {cpu})
